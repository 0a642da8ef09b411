//! Which engine carries a job: the one asked for, or the emulated network where an option acts on packets alone.

use super::{Clock, RunArgs, say};
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
    pub(super) fn of(args: &RunArgs, machine: &Machine) -> Result<Engine, Failed> {
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
    pub(super) fn path(&self, args: &RunArgs, shape: Shape, in_force: &[String]) -> Result<EnginePath, Failed> {
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
    use std::ffi::OsString;

    fn engine(words: &[&str], in_force: &[&str]) -> Result<EnginePath, Failed> {
        let all = ["angara", "-q", "-n", "2"].iter().chain(words).chain(&["true"]).map(OsString::from).collect();
        let args = crate::oshrun::run_args(all).expect("valid");
        let machine = crate::machine::changed(args.machine.clone(), &args.set)?;
        let in_force: Vec<String> = in_force.iter().map(ToString::to_string).collect();
        Engine::of(&args, &machine)?.path(&args, "2x2".parse().expect("a shape"), &in_force)
    }

    #[test]
    fn what_acts_on_packets_implies_that_there_are_some() {
        let impaired = ["corrupt=1%", "drop=1%", "dup=1%", "reorder=1%", "delay=1us", "rate=1M"];
        for effect in impaired {
            for place in ["link 0,0 +X", "node 1,0", "every link"] {
                let fault = format!("{place} {effect}");
                assert_eq!(engine(&["--fault", &fault], &[]).unwrap(), EnginePath::Ring, "{fault}");
                assert_eq!(engine(&[], &[&fault]).unwrap(), EnginePath::Ring, "{fault}, in force");
                let refused = engine(&["--path", "direct", "--fault", &fault], &[]).expect_err(&fault);
                assert!(refused.code == 2 && refused.message.contains(&fault), "{}", refused.message);
                assert_eq!(engine(&["--path", "direct"], &[&fault]).unwrap(), EnginePath::Direct, "{fault}");
            }
        }
        for option in [["--set", "hop=200ns"], ["--set", "routes=balanced"], ["--capture", "x.pcapng"]] {
            assert_eq!(engine(&option, &[]).unwrap(), EnginePath::Ring, "{option:?}");
            let refused = engine(&["--path", "direct", option[0], option[1]], &[]).expect_err("no packets");
            assert!(refused.message.contains(option[1]), "{}", refused.message);
        }
    }

    #[test]
    fn what_acts_without_packets_leaves_the_engine_as_it_was_asked_for() {
        for words in [&["--fault", "link 0,0 +X down"][..], &["--fault", "node 1,0 down"], &["--machine", "desmos"]] {
            assert_eq!(engine(words, &[]).unwrap(), EnginePath::Auto, "{words:?}");
            assert_eq!(engine(&[words, &["--path", "direct"]].concat(), &[]).unwrap(), EnginePath::Direct);
        }
        assert_eq!(engine(&[], &["link 0,0 +X down"]).unwrap(), EnginePath::Auto);
    }
}
