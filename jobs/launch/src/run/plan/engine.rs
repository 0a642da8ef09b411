//! Which engine carries a job: the one asked for, or the emulated network where an option acts on packets alone.

use crate::run::options::{Clock, Options, say};
use angara_control::error::Failed;
use angara_machine::{MPI_TABLE, Machine};
use angara_net::fault::Command;
use angara_net::torus::Shape;
use angara_protocol::msg::Path as EnginePath;

/// The options that decide how PEs reach each other.
pub(super) struct Engine {
    /// The first option that acts on packets alone, as it was written.
    packets: Option<String>,
}

impl Engine {
    /// Of the options. `machine` is what they make of the chip.
    pub(super) fn of(args: &Options, machine: &Machine) -> Result<Engine, Failed> {
        let network = !machine.changes_in(|table| table != MPI_TABLE).is_empty();
        let packets = match (&args.capture, args.set.is_empty(), network) {
            (Some(file), ..) => Some(format!("--capture {}", file.display())),
            (None, false, true) => Some(format!("--set {}", args.set.join(","))),
            (None, true, true) => Some(format!("--machine {}", machine.name)),
            (None, _, false) => None,
        };
        if let Some(option) = packets.as_ref().filter(|_| args.path == EnginePath::Direct) {
            return Err(no_packets(option));
        }
        Ok(Engine { packets })
    }

    /// The engine of a job on a network of `shape` with these faults in force. Says why if it is another one than was asked for.
    pub(super) fn path(&self, args: &Options, shape: Shape, in_force: &[String]) -> Result<EnginePath, Failed> {
        // Direct stores would take no time.
        if args.clock == Clock::Virtual || args.path == EnginePath::Ring {
            return Ok(EnginePath::Ring);
        }
        let own = args.faults.iter().find(|text| acts_on_packets(text, &shape));
        if let Some(text) = own.filter(|_| args.path == EnginePath::Direct) {
            return Err(fault_without_packets(text));
        }
        let others = in_force.iter().find(|text| acts_on_packets(text, &shape));
        let why = match (&self.packets, own, others) {
            (Some(option), ..) => option.clone(),
            (None, Some(text), _) => format!("--fault '{text}'"),
            (None, None, Some(text)) if args.path == EnginePath::Direct => {
                say(
                    args,
                    format!("the daemon's fault `{text}` does nothing to this job: --path direct sends no packets"),
                );
                return Ok(args.path);
            }
            (None, None, Some(text)) => format!("the daemon's fault `{text}`"),
            (None, None, None) => return Ok(args.path),
        };
        say(args, format!("{why} acts on packets, so everything goes through the emulated network (--path ring)"));
        Ok(EnginePath::Ring)
    }
}

pub(super) fn fault_without_packets(text: &str) -> Failed {
    no_packets(&format!("--fault '{text}'"))
}

fn no_packets(option: &str) -> Failed {
    Failed::usage(
        format!("{option} acts on packets, and --path direct sends none"),
        "leave --path direct out, and everything goes through the emulated network",
    )
}

fn acts_on_packets(text: &str, shape: &Shape) -> bool {
    // One that cannot be read is refused elsewhere.
    Command::parse(text, shape).is_ok_and(|command| command.acts_on_packets())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::options::Change;

    /// The engine of a job with what `change` asks for, where these faults are in force.
    fn engine(change: impl FnOnce(&mut Options), in_force: &[&str]) -> Result<EnginePath, Failed> {
        let mut args = Options { quiet: true, ..Options::new(2, vec!["true".into()]) };
        change(&mut args);
        let machine = crate::machine::changed(args.machine.clone(), &args.set)?;
        let in_force: Vec<String> = in_force.iter().map(ToString::to_string).collect();
        Engine::of(&args, &machine)?.path(&args, "2x2".parse().expect("a shape"), &in_force)
    }

    fn directly(change: impl FnOnce(&mut Options), in_force: &[&str]) -> Result<EnginePath, Failed> {
        engine(
            |options| {
                change(options);
                options.path = EnginePath::Direct;
            },
            in_force,
        )
    }

    #[test]
    fn what_acts_on_packets_implies_that_there_are_some() {
        let impaired = ["corrupt=1%", "drop=1%", "dup=1%", "reorder=1%", "delay=1us", "rate=1M"];
        for effect in impaired {
            for place in ["link 0,0 +X", "node 1,0", "every link"] {
                let fault = format!("{place} {effect}");
                let broken = |options: &mut Options| options.faults = vec![fault.clone()];
                assert_eq!(engine(broken, &[]).unwrap(), EnginePath::Ring, "{fault}");
                assert_eq!(engine(|_| (), &[&fault]).unwrap(), EnginePath::Ring, "{fault}, in force");
                let refused = directly(broken, &[]).expect_err(&fault);
                assert!(refused.code == 2 && refused.message.contains(&fault), "{}", refused.message);
                assert_eq!(directly(|_| (), &[&fault]).unwrap(), EnginePath::Direct, "{fault}");
            }
        }
        let cases: [(&str, Change); 3] = [
            ("hop=200ns", |options| options.set = vec!["hop=200ns".into()]),
            ("routes=balanced", |options| options.set = vec!["routes=balanced".into()]),
            ("x.pcapng", |options| options.capture = Some("x.pcapng".into())),
        ];
        for (value, change) in cases {
            assert_eq!(engine(change, &[]).unwrap(), EnginePath::Ring, "{value}");
            let refused = directly(change, &[]).expect_err("no packets");
            assert!(refused.message.contains(value), "{}", refused.message);
        }
    }

    #[test]
    fn what_acts_without_packets_leaves_the_engine_as_it_was_asked_for() {
        let cases: [Change; 3] = [
            |options| options.faults = vec!["link 0,0 +X down".into()],
            |options| options.faults = vec!["node 1,0 down".into()],
            |options| options.machine = Some(Machine::named("desmos").expect("a machine")),
        ];
        for change in cases {
            assert_eq!(engine(change, &[]).unwrap(), EnginePath::Auto);
            assert_eq!(directly(change, &[]).unwrap(), EnginePath::Direct);
        }
        assert_eq!(engine(|_| (), &["link 0,0 +X down"]).unwrap(), EnginePath::Auto);
    }
}
