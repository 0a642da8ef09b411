//! Everything a user can get wrong: one error each, that names the value and says what would do.

use crate::plan::{self, PlanArgs};
use crate::sim::{self, SimArgs};
use angara_sim::Error;
use clap::Parser;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Parser)]
#[command(name = "angara")]
enum Top {
    Sim(Box<SimArgs>),
    Plan(PlanArgs),
}

/// Returns what a command line answers, `FILE` standing for a file with this text. An error is one line; the
/// command line parser's own refusals count, too.
fn refused(name: &str, line: &str, file: &str) -> String {
    // Tests run side by side and share some names.
    static FILES_MADE: AtomicU32 = AtomicU32::new(0);
    let number = FILES_MADE.fetch_add(1, Ordering::Relaxed);
    let path: PathBuf = std::env::temp_dir().join(format!("angara-bad-{}-{number}-{name}.toml", std::process::id()));
    std::fs::write(&path, file).unwrap();
    let words = line.split_whitespace().map(|w| w.replace("FILE", path.to_str().unwrap()));
    let result = match Top::try_parse_from(["angara".into()].into_iter().chain(words)) {
        Ok(Top::Sim(args)) => sim::main(*args),
        Ok(Top::Plan(args)) => plan::main(args),
        Err(e) => Err(Error::Network(e.to_string().lines().next().unwrap_or_default().into())),
    };
    std::fs::remove_file(&path).unwrap();
    let e = result.expect_err(&format!("`{line}` with `{file}` must be refused"));
    let shown = e.to_string().replace(path.to_str().unwrap(), "FILE");
    assert!(!shown.trim_end().contains('\n'), "`{line}`: one line, not `{shown}`");
    shown
}

/// Name of the case, options of `sim run`, parts of the answer.
const RUN: &[(&str, &str, &[&str])] = &[
    ("topology", "--topology ring:8", &["ring:8", "torus:8x8x8"]),
    ("zero", "--topology torus:0x4", &["torus:0x4", "from 1 to 4096"]),
    ("dims", "--topology torus:2x2x2x2x2x2x2", &["1 to 6 sizes"]),
    ("huge", "--topology torus:4096x4096x4096", &["at most 16777216"]),
    ("tree", "--topology fat-tree:1,3", &["fat-tree:1,3", "2 to 32"]),
    ("router", "--router cray", &["cray", "--router"]),
    ("tree-router", "--topology fat-tree:4,2 --router angara", &["fat-tree:4,2", "use torus:"]),
    ("bubble", "--buffer 1", &["slots = 1", "2 free packet slots"]),
    ("buffer", "--router generic --length 32 --buffer 8", &["buffer = 8", "buffer >= 32"]),
    ("wormhole", "--switching wormhole", &["switching is wormhole", "use router generic"]),
    ("hold", "--router generic --hold-switch false", &["hold-switch is false", "use switching wormhole"]),
    ("vcs", "--router generic --vcs 3", &["vcs = 3", "even number"]),
    ("vcs-0", "--router generic --vcs 0", &["vcs = 0", "1 to 32"]),
    ("vcs-angara", "--vcs 4", &["vcs is 4", "five virtual channels"]),
    ("deadlock", "--router generic --deadlock bubble", &["deadlock is bubble", "dateline with router generic"]),
    ("dateline", "--router angara --deadlock dateline", &["deadlock is dateline", "bubble goes with router angara"]),
    ("nca", "--routing nca", &["routing is nca", "torus:8x8x8 takes dor"]),
    ("adaptive", "--topology fat-tree:4,2 --routing adaptive", &["routing is adaptive", "fat-tree:4,2 takes nca"]),
    ("dor", "--topology fat-tree:4,2 --routing dor", &["routing is dor", "fat-tree:4,2 takes nca"]),
    ("routing", "--routing shortest", &["shortest", "west-first, odd-even or table:FILE"]),
    ("ugal", "--topology cayley:13:1,5 --routing ugal", &["routing is ugal", "cayley:13:1,5 takes minimal; any"]),
    (
        "graph-dor",
        "--topology random:8,3,1 --routing dor",
        &["routing is dor", "minimal, valiant, updown or table:FILE"],
    ),
    ("graph-steps", "--topology random:16,2,1", &["vcs = 4", "routing updown"]),
    ("graph-file", "--topology graph:/nonexistent/g", &["graph:/nonexistent/g", "cannot be read"]),
    ("graph-none", "--topology graph:", &["write graph:FILE"]),
    ("table-file", "--topology random:8,3,1 --routing table:/nonexistent/t", &["/nonexistent/t cannot be read"]),
    ("random-odd", "--topology random:7,3,1", &["7 routers of degree 3", "must be even"]),
    ("random-degree", "--topology random:4,4,1", &["degree 4 of 4 routers", "2 to 3"]),
    ("random-size", "--topology random:99999999999,3,1", &["99999999999 routers", "2 to 4096"]),
    ("slimfly", "--topology slimfly:9", &["slimfly:9", "a prime from 3 to 23"]),
    ("length", "--length 32", &["length is 32", "at most 18 flits"]),
    ("length-0", "--length 0", &["length is 0", "4:0.1,32:0.9"]),
    ("shares", "--length 4:0.5,8:0.6", &["length is 4:0.5,8:0.6", "add up to 1.1"]),
    ("load", "--router generic --load 1.5", &["load is 1.5", "from 0 to 1"]),
    ("load-angara", "--load 19", &["load is 19", "from 0 to 18"]),
    ("load-negative", "--load -0.1", &["load is -0.1"]),
    ("load-nan", "--load nan", &["load is NaN", "from 0 to 18"]),
    ("twice", "--length 4:0.5,4:0.5", &["length is 4:0.5,4:0.5", "4 is given twice"]),
    ("load-text", "--load much", &["much", "--load"]),
    ("pattern", "--pattern zigzag", &["zigzag", "hotspot:NODE,SHARE"]),
    ("node", "--pattern hotspot:512,0.1", &["hotspot:512,0.1", "the last one is 511"]),
    ("share", "--pattern hotspot:1,1.5", &["from 0 to 1"]),
    ("shares-spots", "--pattern hotspot:1,0.6,2,0.6", &["hotspot:1,0.6,2,0.6", "add up to 1.2"]),
    ("matrix", "--pattern matrix:/nonexistent/m", &["matrix:/nonexistent/m"]),
    ("rates", "--rates /nonexistent/r", &["/nonexistent/r"]),
    ("list", "--workload list:/nonexistent/l", &["list:/nonexistent/l"]),
    ("jobs", "--workload jobs:/nonexistent/j", &["jobs:/nonexistent/j"]),
    ("transpose", "--topology torus:4x2 --pattern transpose", &["transpose", "read the same backwards"]),
    ("bitrev", "--topology torus:6x6 --pattern bitrev", &["bitrev", "36, must be a power of two"]),
    ("fft", "--pattern fftrow:7", &["fftrow:7", "do not divide 512"]),
    ("process", "--process gauss", &["gauss", "on-off:ON,OFF"]),
    ("on-off", "--process on-off:0,1", &["on-off:0,1"]),
    (
        "on-off's load",
        "--router generic --process on-off:0.01,0.03 --load 0.5",
        &["load is 0.5", "on-off:0.01,0.03", "from 0 to 0.25,"],
    ),
    ("map", "--topology torus:3x4 --map hilbert", &["hilbert", "use morton"]),
    ("map-name", "--map spiral", &["spiral", "--map"]),
    ("probe", "--probe 0,512", &["probe is 0,512", "0 to 511"]),
    ("trace", "--trace x", &["trace", "SRC->DST"]),
    ("trace-node", "--trace 0->600", &["0->600", "0 to 511"]),
    ("chrome", "--chrome-trace /tmp/none", &["--chrome-trace", "--trace 0..10"]),
    ("fault", "--fault link", &["fault is link", "+X down"]),
    ("rate", "--error-rate x", &["corrupt=x", "corrupt=0.1%"]),
    ("rate-2", "--error-rate 200%", &["corrupt=200%"]),
    ("generic-fault", "--router generic --error-rate 1%", &["error-rate is 1%", "use router angara"]),
    ("tree-fault", "--topology fat-tree:4,2 --error-rate 1%", &["error-rate is 1%", "use router angara"]),
    ("fault-dims", "--topology torus:2x2x2x2x2 --router angara --error-rate 1%", &["up to 4 sizes"]),
    (
        "chip-generic",
        "--topology torus:2x2 --workload broadcast:8 --router generic",
        &["router is generic", "router angara"],
    ),
    ("chip-adaptive", "--topology torus:2x2 --workload broadcast:8 --routing adaptive", &["routing is adaptive"]),
    ("chip-words", "--topology torus:2x2 --workload allreduce:12", &["allreduce on 4 nodes", "words of 8 bytes"]),
    ("chip-power", "--topology torus:3x3 --workload allreduce:8,p2p", &["allreduce on 9 nodes", "use ring or trees"]),
    ("chip-trace", "--topology torus:2x2 --workload broadcast:8 --trace 0", &["trace is 0", "leave it out"]),
    ("chip-threads", "--topology torus:2x2 --workload broadcast:8 --threads 2", &["threads is 2"]),
    ("chip-links", "--topology torus:2x2 --workload broadcast:8 --heat-map /tmp/none", &["does not count links"]),
    ("threads-faults", "--topology torus:4x4 --threads 2 --error-rate 1%", &["threads = 2", "corrupt=1%", "give 1"]),
    ("no-directory", "--topology torus:4x4 --heat-map /nonexistent/x.svg", &["--heat-map", "directory that exists"]),
    ("series", "--topology torus:4x4 --series 100", &["required arguments"]),
    ("series-0", "--topology torus:4x4 --out /tmp/none --series 0", &["--series <N>"]),
    (
        "series-of-none",
        "--topology torus:4x4 --workload broadcast:8 --out /tmp/none --series 9",
        &["--series is 9", "leave it out"],
    ),
    ("series-of-many", "--find-saturation --out /tmp/none --series 9", &["--series is 9", "leave it out"]),
    ("threads", "--threads 0", &["threads is 0", "at least 1"]),
    ("seed", "--seed x", &["--seed"]),
    ("precision", "--precision 2", &["precision is 2", "between 0 and 1"]),
    ("cycles", "--cycles 0", &["cycles is 0", "at least one"]),
    ("most", "--cycles 1000 --cycles-max 500", &["cycles-max is 500", "alone take 1000"]),
    ("time", "--router-ns=-5", &["router-ns is -5", "0 to 1e9 ns"]),
    ("delay", "--link-ns 1000000", &["link = 1000000000 ps", "at most"]),
    ("unit", "--router generic --link-ns 10", &["link-ns is 10", "counts in cycles"]),
    ("cycle", "--cycle-ns 1", &["cycle-ns is 1", "router angara counts in nanoseconds"]),
    ("cycle-0", "--router generic --cycle-ns 0", &["cycle = 0", "at least 1"]),
    ("workload", "--workload sleep", &["workload is sleep", "all-to-all:BYTES"]),
    ("bytes", "--workload all-to-all:0", &["all-to-all:0", "at least 1 byte"]),
    ("numbers", "--workload request-reply:1", &["request-reply:1", "give 3 whole numbers"]),
    ("rank", "--workload pair-probe:0,600", &["pair-probe:0,600", "0 to 511"]),
    ("unused", "--workload all-to-all:8 --load 0.1", &["load is given", "does not read it"]),
    ("long-request", "--workload request-reply:1,1,19", &["19", "at most 18 flits"]),
    ("too-much", "--topology torus:64x64x8 --workload all-to-all:1048576", &["more than 100000000"]),
    ("preset", "--preset none", &["none", "desmos"]),
    ("flag", "--lode 1", &["--lode"]),
    (
        "histogram",
        "--topology torus:2x2 --workload all-to-all:8 --histogram /tmp/none.svg",
        &["this workload has none"],
    ),
];

#[test]
fn options_are_checked() {
    let mut wrong = Vec::new();
    for (name, options, parts) in RUN {
        let said = refused(name, &format!("sim run {options}"), "");
        wrong.extend(parts.iter().filter(|p| !said.contains(**p)).map(|p| format!("{options}: `{said}` lacks `{p}`")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Name, command line, file, and how the answer begins and what else it says.
const FILES: &[(&str, &str, &str, &str, &str)] = &[
    ("key", "sim run FILE", "seed = 1\nlode = 0.1\n", "FILE:2: unknown field `lode`", "`load`"),
    ("syntax", "sim run FILE", "load = 0.1\nseed = = 2\n", "FILE:2: ", ""),
    ("type", "sim run FILE", "load = \"much\"\n", "FILE:1: ", ""),
    ("range", "sim run FILE", "\n\ntopology = \"torus:9y9\"\n", "FILE:3: topology `torus:9y9`", "torus:8x8x8"),
    ("late", "sim run FILE", "# a comment\nrouter = \"generic\"\nvcs = 3\n", "FILE:3: vcs = 3", "even number"),
    ("bubble", "sim run FILE", "topology = \"torus:4x4\"\nbuffer = 1\n", "FILE:2: slots = 1", "2 free packet slots"),
    ("load", "sim run FILE", "router = \"generic\"\nload = 1.5\n", "FILE:2: load is 1.5", "from 0 to 1"),
    (
        "work",
        "sim run FILE",
        "workload = \"all-to-all:1\"\npattern = \"tornado\"\n",
        "FILE:2: pattern is given",
        "leave it out",
    ),
    ("flag", "sim run FILE --load 7 --router generic", "load = 0.1\n", "load is 7", "from 0 to 1"),
    (
        "fault-node",
        "sim run FILE",
        "topology = \"torus:4x4\"\nfault = \"link 9,9 +X down\"\n",
        "FILE:2: fault is link 9,9 +X down",
        "`9,9` are not in 4x4",
    ),
    (
        "fault-list",
        "sim run FILE",
        "topology = \"mesh:4x4\"\nfault = [\n  \"link 0,0 +X down\",\n  \"link 3,0 +X down\",\n]\n",
        "FILE:4: fault is link 3,0 +X down",
        "3,0 has no link +X in mesh:4x4",
    ),
    (
        "fault-dead",
        "sim run FILE",
        "topology = \"torus:4x4\"\nworkload = \"broadcast:8\"\nfault = \"node 1,1 down\"\n",
        "FILE:3: fault is node 1,1 down",
        "let links fail",
    ),
    (
        "matrix-size",
        "sim run --topology torus:2x2 --pattern matrix:FILE",
        "0 1 1 1 1 1 1 1\n",
        "FILE:1: 8 numbers, where a matrix for 4 nodes has 4",
        "SRC DST RATE",
    ),
    ("matrix-rate", "sim run --pattern matrix:FILE", "0 1 1\n0 2 -3\n", "FILE:2: `-3` is no rate", "at least 0"),
    (
        "matrix-load",
        "sim run --topology torus:2x2 --length 1 --load 0.5 --pattern matrix:FILE",
        "# hot\n0 1 1\n",
        "FILE:2: rank 0 has the rate 1 and would create 2.0000 messages per cycle",
        "a load of at most 0.25",
    ),
    ("rates-size", "sim run --topology torus:2x2 --rates FILE", "1\n2\n3\n", "FILE:3: 3 rates end here", "4 ranks"),
    (
        "list-node",
        "sim run --topology torus:2x2 --workload list:FILE",
        "0 0 4 1\n",
        "FILE:1: `4` is no target",
        "0 to 3",
    ),
    ("threads-0", "sim run FILE", "load = 0.1\nthreads = 0\n", "FILE:2: threads is 0", "at least 1"),
    ("threads-type", "sim run FILE", "threads = -1\n", "FILE:1: ", "-1"),
    ("vcs-type", "sim run FILE", "load = 0.1\nvcs = 300\n", "FILE:2: ", "300"),
    ("buffer-type", "sim run FILE", "buffer = 1.5\n", "FILE:1: ", "1.5"),
    ("dims", "sim run FILE", "topology = \"torus:2x2x2x2x2x2x2\"\n", "FILE:1: topology", "1 to 6 sizes"),
    ("key-twice", "sim run FILE", "load = 0.1\nload = 0.2\n", "FILE:2: ", "duplicate"),
    ("none", "sim run /nonexistent/x.toml", "", "/nonexistent/x.toml: No such file", ""),
    ("sweep-key", "sim sweep FILE", "[sweep]\nlode = [1]\n", "FILE:2: swept setting is lode", "load"),
    (
        "sweep-value",
        "sim sweep FILE",
        "[sweep]\npattern = [\"uniform\", \"zigzag\"]\n",
        "FILE:2: pattern is zigzag",
        "",
    ),
    ("sweep-empty", "sim sweep FILE", "seed = 1\n[sweep]\nload = []\n", "FILE:2: number of points is 0", ""),
    (
        "plot-file",
        "sim plot FILE --out /tmp/none.svg",
        "[sweep]\nload = [0.1]\n",
        "FILE:1: this is no result",
        "sweep.json",
    ),
    ("plot-empty", "sim plot FILE --out /tmp/none.svg", "[]", "sweep is FILE: it has no points", "angara sim sweep"),
    ("plot-none", "sim plot /nonexistent/a --out /tmp/none.svg", "", "/nonexistent/a: No such file", ""),
    (
        "plot-field",
        "sim plot FILE --y speed --out /tmp/none.svg",
        SWEPT,
        "--y is speed: FILE has no such number",
        "latency",
    ),
    ("plot-x", "sim plot FILE --x vcs --out /tmp/none.svg", SWEPT, "--x is vcs: FILE sweeps load", ""),
    ("plot-out", "sim plot FILE --out none.png", SWEPT, "--out is none.png", "FILE.pdf"),
    (
        "plot-dir",
        "sim plot FILE --out /nonexistent/a.svg",
        SWEPT,
        "--out is /nonexistent/a.svg",
        "directory that exists",
    ),
    (
        "plot-log",
        "sim plot FILE --y-axis log --out /tmp/none.svg",
        SWEPT,
        "logarithmic axis is that of `Latency`",
        "linear",
    ),
    ("sweep-many", "sim sweep FILE --threads 0", "[sweep]\nload = [0.1]\n", "threads is 0", "at least 1"),
    ("tree-cycle", "plan tree --check FILE", TREE, "FILE:3: criteri", "node 0,0"),
    ("routes-cycle", "plan routes --check FILE", ROUTES, "FILE", "cycle"),
    ("tree-a", "plan tree --check FILE", "torus = \"3x3\"\n", "FILE:1: criterion (a)", "no node is the root"),
    ("tree-e", "plan tree --check FILE", LOOP, "FILE:", "criterion (e): from node"),
    (
        "tree-f",
        "plan tree --check FILE",
        "torus = \"3\"\n[[row]]\nnode = \"0\"\nroot = true\ndown = [\"+X\", \"+X\"]\n[[row]]\nnode = \"1\"\nto_root = \"-X\"\n",
        "FILE:3: criterion (f): node 0",
        "",
    ),
    ("fault", "plan routes --torus 4x4 --fault link", "", "fault `link`", "+X down"),
];

/// A sweep of one point, at which nothing takes any time.
const SWEPT: &str = "[{\"swept\": {\"load\": \"0.1\"}, \"packet_latency_cycles\": 0}]";

/// The root's child names another parent.
const TREE: &str = "torus = \"3x3\"\n[[row]]\nnode = \"0,0\"\nroot = true\ndown = [\"+Y\"]\n[[row]]\nnode = \"0,1\"\n\
                    to_root = \"+X\"\ncontributors = 1\n";

/// A root, and a ring in which everybody's parent is the next node.
const LOOP: &str = "torus = \"3x2\"\n[[row]]\nnode = \"0,1\"\nroot = true\n\
                    [[row]]\nnode = \"0,0\"\nto_root = \"+X\"\ndown = [\"-X\"]\n\
                    [[row]]\nnode = \"1,0\"\nto_root = \"+X\"\ndown = [\"-X\"]\n\
                    [[row]]\nnode = \"2,0\"\nto_root = \"+X\"\ndown = [\"-X\"]\n";

/// Four packets that wait for each other around a square.
const ROUTES: &str = "torus = \"4x4\"\n\
    [[route]]\nfrom = \"0,0\"\nto = \"1,1\"\npath = [\"+X\", \"+Y\"]\n\
    [[route]]\nfrom = \"1,0\"\nto = \"0,1\"\npath = [\"+Y\", \"-X\"]\n\
    [[route]]\nfrom = \"1,1\"\nto = \"0,0\"\npath = [\"-X\", \"-Y\"]\n\
    [[route]]\nfrom = \"0,1\"\nto = \"1,0\"\npath = [\"-Y\", \"+X\"]\n";

#[test]
fn files_are_checked_with_their_lines() {
    let mut wrong = Vec::new();
    for (name, line, file, begins, part) in FILES {
        let said = refused(name, line, file);
        if !(said.starts_with(begins) && said.contains(part)) {
            wrong.push(format!("{name}: `{said}`"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
