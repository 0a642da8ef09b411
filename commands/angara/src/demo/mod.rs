//! `angara demo`: the whole thing in one command.
//!
//! Compiles an example with `oshcc`, runs it as 8 processes on a 2x2x2 torus, once with direct stores
//! and once through the emulated adapters and links, and shows result, time and the traffic on each
//! link. In a checkout it first builds what is missing; after `cargo demo` nothing is. With `--web` it is [`scenes`].

mod scenes;

use crate::oshcc;
use crate::shared::WhereArgs;
use crate::shared::beside;
use angara_abi::account::Class;
use angara_control::error::{Failed, say};
use angara_control::install;
use angara_control::report::{self, heatmap};
use angara_launch::example::{self, Temporary};
use angara_protocol::msg::Report;
use clap::Args;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The example that is run, below `examples/c`.
const EXAMPLE: &str = "c/heat2d.c";

/// Arguments of `angara demo`.
#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Do not call cargo even in a source checkout
    #[arg(long)]
    no_build: bool,
    /// Serve a page of six guided scenes instead, each on a live network
    ///
    /// Its URL is printed, and Ctrl-C ends it [default ADDR: 127.0.0.1:8290; port 0 is any that is free].
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:8290",
          conflicts_with = "runtime_dir")]
    web: Option<String>,
    #[command(flatten)]
    at: WhereArgs,
}

/// Shows everything.
pub(crate) fn main(args: DemoArgs) -> Result<u8, Failed> {
    let bin = install::bin_dir()?;
    oshcc::require_cc()?;
    let missing = !args.no_build && !example::is_complete(&bin);
    if let Some(checkout) = install::checkout(&bin).filter(|checkout| missing && stands_in(&checkout.root, &bin)) {
        let mut cargo = angara_demo::cargo_build(&checkout.profile, &checkout.target);
        cargo.current_dir(&checkout.root);
        example::build(&bin, &checkout, cargo)?;
    }
    if let Some(address) = &args.web {
        scenes::require_library(&bin, !args.no_build)?;
        return scenes::main(&bin, address);
    }
    let source = example::find(&bin, EXAMPLE)?;
    let temporary = Temporary::new("demo")?;
    let program = temporary.0.join("heat2d");
    say!("== compiling {} with oshcc", source.display())?;
    example::compile(&bin, &source, &program)?;

    let mut reports = Vec::new();
    for path in ["direct", "ring"] {
        say!("\n== 8 PEs on a 2x2x2 torus, --path {path}")?;
        let file = temporary.0.join(format!("{path}.json"));
        let start = Instant::now();
        let status = Command::new(bin.join("angara"))
            .args(["run", "-n", "8", "--torus", "2x2x2", "--path", path, "--timeout", "120", "--report"])
            .arg(&file)
            .args(args.at.to_args())
            .arg("--")
            .arg(&program)
            .stdin(Stdio::null())
            .status()
            .map_err(|e| Failed::runtime(format!("cannot start angara: {e}"), install::build_hint(&bin)))?;
        if !status.success() {
            return Err(Failed::runtime(
                format!("the {path} run failed ({status})"),
                "run `angara doctor` to see what this machine lacks",
            ));
        }
        say!("   whole run, start to end: {:.2} s", start.elapsed().as_secs_f64())?;
        reports.push(report::read(&file)?.traffic);
    }
    let colour = heatmap::colour();
    say!("\n== traffic of the ring run, link by link\n{}", report::heat(&reports[1], colour))?;
    say!("{}", compare(&reports[0], &reports[1]))?;
    next(&bin, &source)?;
    Ok(0)
}

/// Tells whether this program or its user stands in a checkout. Another one, from which it was built once, is left alone.
fn stands_in(root: &Path, bin: &Path) -> bool {
    bin.starts_with(root) || std::env::current_dir().is_ok_and(|here| here.starts_with(root))
}

/// Tells whether both engines put the same program traffic on each link.
fn compare(direct: &Report, ring: &Report) -> String {
    let program = |r: &Report| {
        let mut loads = std::collections::BTreeMap::new();
        for link in &r.links {
            for class in [Class::Put, Class::Get, Class::Amo] {
                if let Some(load) = link.load.get(&class).filter(|l| l.packets > 0) {
                    loads.insert((link.node, link.dir, class), (load.packets, load.flits, load.bytes));
                }
            }
        }
        loads
    };
    if program(direct) == program(ring) {
        "Both runs report the same packets, flits and bytes of puts, gets and atomics on every link: the direct run\n\
         counts what its stores would have sent, the ring run counted real packets hop by hop."
            .into()
    } else {
        "The two runs differ in put, get or atomic traffic on some link; a program that polls may do that.".into()
    }
}

fn next(bin: &Path, source: &Path) -> Result<(), Failed> {
    let here = std::env::current_dir().unwrap_or_default();
    let (path, source) = match (bin.strip_prefix(&here), source.strip_prefix(&here)) {
        (Ok(bin), Ok(source)) => (format!("$PWD/{}", bin.display()), source.display()),
        _ => (bin.display().to_string(), source.display()),
    };
    say!(
        "\n== what to try next\n\
         export PATH={path}:$PATH                  # angara, oshcc, oshrun, fabricd\n\
         oshcc -O2 {source} -o heat2d -lm           # or a program of yours\n\
         angara run -n 8 ./heat2d                      # full speed, no daemon to set up\n\
         angara run -n 32 --machine desmos --report out.json ./heat2d && angara report out.json\n\
         angara run -n 8 --path ring --fault 'link 0,0,0 +X corrupt=1%' --report out.json ./heat2d\n\
         angara run -n 8 --path ring --fault 'link 0,0,0 +X down' ./heat2d      # traffic takes another way\n\
         angara run -n 32 --machine desmos --path ring --web ./heat2d           # the torus at work, in a browser\n\
         angara doctor                                 # what this machine offers"
    )?;
    match install::checkout(bin) {
        // `cargo demo` has built what it needs; a build of everything has the rest as well.
        Some(checkout) if !bin.join(beside::SIM.program).is_file() => {
            say!("{}   # the rest: virtual time, MPI, angara sim, bench, top, whatif", checkout.hint())
        }
        _ => {
            say!("angara bench --repeat 3                       # what puts, gets and collectives cost on this machine")
        }
    }
}
