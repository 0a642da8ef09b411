//! The network of a private daemon whose users are not PEs, by the options that `angara run` has for its own.

use super::checks;
use super::engine::Engine;
use crate::machine;
use crate::run::options::Options;
use angara_control::error::Failed;
use angara_net::torus::Shape;
use angara_protocol::msg::Path as EnginePath;
use std::ffi::OsString;

/// What the options ask for.
#[derive(Debug)]
pub struct Network {
    /// Its shape.
    pub shape: Shape,
    /// How its users reach each other. Another than was asked for where something acts on packets alone.
    pub path: EnginePath,
    /// What differs from the chip's times and buffers; empty if nothing does.
    changes: String,
}

impl Network {
    /// Of `args`; `usual` is the shape of a network for which nothing names one.
    pub fn of(args: &Options, usual: Shape) -> Result<Network, Failed> {
        let machine = machine::changed(args.machine.clone(), &args.set)?;
        let shape = args.torus.or(args.mesh).or(machine.shape).unwrap_or(usual);
        checks::routes(&machine, shape)?;
        checks::faults(args, shape)?;
        let path = Engine::of(args, &machine)?.path(args, shape, &[])?;
        Ok(Network { shape, path, changes: machine.changes() })
    }

    /// Options of the daemon, beside its shape.
    pub fn daemon_options(&self) -> Vec<OsString> {
        if self.changes.is_empty() { Vec::new() } else { vec!["--set".into(), self.changes.clone().into()] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_machine::Machine;

    fn of(change: impl FnOnce(&mut Options)) -> Result<Network, Failed> {
        let mut args = Options { quiet: true, ..Options::new(1, Vec::new()) };
        change(&mut args);
        Network::of(&args, "2x2x2".parse().expect("a shape"))
    }

    #[test]
    fn options_decide_shape_times_and_engine() {
        let usual = of(|_| ()).unwrap();
        assert_eq!((usual.shape.to_string().as_str(), usual.path), ("2x2x2", EnginePath::Auto));
        assert!(usual.daemon_options().is_empty());
        let slow = of(|args| args.set = vec!["hop=60ns".into()]).unwrap();
        assert_eq!(slow.path, EnginePath::Ring, "direct stores would take no time");
        assert_eq!(slow.daemon_options()[0], "--set");
        let machine = Machine::named("desmos").expect("known");
        let named = of(|args| args.machine = Some(machine)).unwrap();
        assert_eq!(named.shape.to_string(), "4x2x2x2");
        let contradicts = of(|args| {
            args.faults = vec!["link 0,0,0 +X corrupt=1%".into()];
            args.path = EnginePath::Direct;
        });
        assert!(contradicts.unwrap_err().message.contains("acts on packets"));
        let nowhere = of(|args| args.faults = vec!["link 9,9,9 +X down".into()]);
        assert_eq!(nowhere.unwrap_err().code, 2);
    }
}
