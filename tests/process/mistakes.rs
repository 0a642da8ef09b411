//! A hundred mistakes of a first hour. Each is refused at once, by a message that names what is wrong and what to write instead.
//!
//! A row is a command line as somebody types it, and what must stand on standard error. Files that it names are made below.

use angara_tests::{Finished, Test, tools};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is wrong with a command line: its words, in quotes where they have blanks; the value; the remedy.
type Row = (&'static str, &'static str, &'static str);

/// How commands are called.
const COMMANDS: &[Row] = &[
    ("angara rnu -n 2 true", "'rnu'", "'run'"),
    ("angara Run -n 2 true", "'Run'", "'run'"),
    ("angara statsu", "'statsu'", "'status'"),
    ("angara reprot r.json", "'reprot'", "'report'"),
    ("angara benhc", "'benhc'", "'bench'"),
    ("angara frobnicate", "'frobnicate'", "`angara --help` lists all commands"),
    ("angara help frobnicate", "'frobnicate'", "`angara --help` lists all commands"),
    ("angara ./hello", "'./hello'", "angara run -n 4 ./hello"),
    ("angara text.txt", "'text.txt'", "angara run -n 4 text.txt"),
    ("angara -n 4 ./hello", "'-n'", "angara run -n"),
    ("angara --torus 2x2 ./hello", "'--torus'", "angara run --torus"),
    ("angara sim rnu", "'rnu'", "'run'"),
    ("angara plan barrer --torus 2x2", "'barrer'", "'barrier'"),
    ("angara cluster int", "'int'", "'init'"),
    ("angara trace out.json", "out.json", "angara trace summary out.json"),
    ("angara status --hat", "'--hat'", "'--heat'"),
    ("angara doctor --jsno", "'--jsno'", "'--json'"),
    ("fabricd --tours 2x2", "'--tours'", "'--torus'"),
    ("fabricd --torus 2x2 extra", "'extra'", "Usage: fabricd [OPTIONS]"),
];

/// Number of PEs, and where the program stands.
const LAUNCHING: &[Row] = &[
    ("angara run", "--np <N>", "angara run -n 4 ./hello"),
    ("angara run ./hello", "--np <N>", "angara run -n 4 ./hello"),
    ("angara run ./hello -n 4", "--np <N>", "options go before the program"),
    ("angara run -n 4", "<PROG", "name the program after the options"),
    ("angara run -n", "--np <N>", "write the value behind the option"),
    ("oshrun ./hello", "--np <N>", "oshrun -n 4 ./hello"),
    ("oshrun -n 0 ./hello", "'0' for '--np <N>'", "from 1 to 65536"),
    ("angara run -n 0 true", "'0' for '--np <N>'", "from 1 to 65536"),
    ("angara run -n -1 true", "'-1' for '--np <N>'", "from 1 to 65536"),
    ("angara run -n four true", "'four' for '--np <N>'", "from 1 to 65536"),
    ("angara run -n 1.5 true", "'1.5' for '--np <N>'", "from 1 to 65536"),
    ("angara run -n 100000 true", "'100000' for '--np <N>'", "from 1 to 65536"),
    ("angara run -n 9 --torus 2x2x2 true", "9 PEs do not fit 2x2x2", "--ppn 2"),
    ("angara run -n 2 --ppn 0 true", "'0' for '--ppn <K>'", "from 1 to 1024"),
    ("angara run -n 2 --ppn 2000 true", "'2000' for '--ppn <K>'", "from 1 to 1024"),
    ("angara run -n 2 --tours 2x2 true", "'--tours'", "'--torus'"),
    ("angara run -n 2 -torus 2x2 true", "'-t'", "two dashes: --torus"),
    ("angara run -n 2 --hostfile hosts true", "--hostfile", "--cluster FILE"),
    ("angara run -N 2 true", "-N", "--ppn K"),
    ("angara run -n 2 --wdir /tmp true", "--wdir", "cd there first"),
    ("angara run -n 2 true : -n 2 true", "`:` joins", "start one program"),
    ("angara run -n 2 --wrap valgrind true", "<PROG", "--wrap 0 valgrind"),
    ("angara run -n 2 --wrap 7 valgrind true", "no PE 7", "0 to 1"),
    ("angara run -n 2 --debug 5 true", "no PE 5", "0 to 1"),
    ("angara run -n 2 -x =3 true", "'=3'", "VAR=VALUE"),
    ("angara run -n 2 -x NO_SUCH_VARIABLE true", "NO_SUCH_VARIABLE is not set", "write NO_SUCH_VARIABLE=VALUE"),
];

/// The network of a job.
const NETWORKS: &[Row] = &[
    ("angara run -n 2 --torus 0x2 true", "`0x2`", "from 1 to 255"),
    ("angara run -n 2 --torus 300x2 true", "`300x2`", "from 1 to 255"),
    ("angara run -n 2 --torus 2,2 true", "`2,2`", "such as 4x2x2"),
    ("angara run -n 2 --torus axb true", "`axb`", "such as 4x2x2"),
    ("angara run -n 2 --torus= true", "''", "such as 4x2x2"),
    ("angara run -n 2 --torus 2x2x2x2x2 true", "`2x2x2x2x2`", "1 to 4 sizes"),
    ("angara run -n 2 --torus 255x255x255 true", "255x255x255", "at most 32768"),
    ("angara run -n 2 --torus mesh:4x4 true", "mesh:4x4", "use --mesh"),
    ("angara run -n 2 --torus 2x2 --mesh 2x2 true", "'--torus <SHAPE>' cannot be used with", "leave one of them out"),
    ("angara run -n 2 --mesh 4 4 true", "no program `4`", "give the path to it"),
    ("angara run -n 2 --machine cray true", "`cray`", "desmos (4x2x2x2), angara-k1 (3x3x4)"),
    ("angara run -n 2 --machine no.toml true", "cannot read no.toml", "`angara machine desmos` prints one"),
    ("angara run -n 2 --machine wrong.toml true", "wrong.toml:2: unknown field `hop`", "expected one of"),
    ("angara run -n 2 --set hops=3 true", "unknown key `hops`", "`angara machine` prints every key"),
    ("angara run -n 2 --set hop true", "`hop`", "write KEY=VALUE"),
    ("angara run -n 2 --set hop=fast true", "`fast`", "such as 129ns"),
    ("angara run -n 2 --path rnig true", "'rnig'", "auto, direct or ring"),
    ("angara run -n 2 --collectives ring true", "'ring'", "auto, tree or p2p"),
    ("angara run -n 2 --barrier fast true", "'fast'", "dissemination"),
    ("angara run -n 2 --runtime-dir no true", "no daemon listens in no", "fabricd --torus 2x2x2 --runtime-dir no"),
    ("angara run -n 2 --cluster no.toml true", "no.toml", "`angara cluster init`"),
    ("angara run -n 2 --cluster wrong.toml true", "wrong.toml:2: unknown field `hop`", "`angara cluster init`"),
    ("angara run -n 2 --cluster no.toml --torus 2 true", "'--cluster <FILE>' cannot", "leave one of them out"),
];

/// Placement, memory and time.
const VALUES: &[Row] = &[
    ("angara run -n 2 --map rnadom true", "'rnadom'", "random:SEED"),
    ("angara run -n 2 --map random true", "'random'", "such as random:1"),
    ("angara run -n 2 --map random:x true", "`x`", "such as random:1"),
    ("angara run -n 2 --map file:no.txt true", "cannot read the map no.txt", "--map file:F"),
    ("angara run -n 2 --map file:dir true", "cannot read the map dir", "--map file:F"),
    ("angara run -n 2 --torus 2x2 --map file:text.txt true", "map text.txt: line 1", "one node per PE and line"),
    ("angara run -n 2 --torus 2x2 --map file:one.txt true", "map one.txt: 1 nodes for 2 PEs", "one node per PE"),
    ("angara run -n 2 --map auto:no.json true", "no.json", "give the path of a file that exists"),
    ("angara run -n 2 --alloc best true", "'best'", "first-fit-box"),
    ("angara run -n 2 --bind cores true", "'cores'", "'core'"),
    ("angara run -n 2 --mpi lam true", "'lam'", "mpich, intel, openmpi"),
    ("angara run -n 2 --heap lots true", "`lots`", "such as 64M"),
    ("angara run -n 2 --heap 100T true", "`100T`", "give less"),
    ("angara run -n 2 --timeout never true", "`never`", "such as 30"),
    ("angara run -n 2 --timeout 0 true", "`0`", "seconds above 0"),
    ("angara run -n 2 --clock vritual true", "'vritual'", "'virtual'"),
    ("angara run -n 2 --pes-as threads true", "'threads'", "processes, coroutines, auto"),
    ("angara run -n 2 --pes-as coroutines true", "--pes-as coroutines", "add --clock virtual"),
    ("angara run -n 2 --seed 3 true", "--seed", "add --clock virtual"),
    ("angara run -n 2 --clock virtual --seed x true", "'x'", "a whole number"),
    ("angara run -n 2 --clock virtual --seeds 5 true", "`5`", "such as 1..200"),
    ("angara run -n 2 --clock virtual --patience 0 true", "`0`", "or never"),
    ("angara run -n 2 --clock virtual --path direct true", "--path direct", "leave --path direct out"),
    ("angara run -n 2 --check=race true", "'race'", "'races'"),
    ("angara whatif -n 2", "<PROG", "Usage: angara whatif"),
    ("angara whatif -n 0 true", "'0'", "from 1 to 65536"),
];

/// Faults.
const FAULTS: &[Row] = &[
    ("angara run -n 2 --torus 2x2 --fault 'link 9,9 +X down' true", "`9,9` are not in 2x2", "write `link"),
    ("angara run -n 2 --torus 2x2 --fault 'link 0,0 +Q down' true", "`+Q`", "+X +Y"),
    ("angara run -n 2 --torus 2x2 --fault 'link 0,0 X down' true", "`X`", "+X +Y"),
    ("angara run -n 2 --torus 2x2 --fault 'link 0,0 +Z down' true", "no link +Z in 2x2", "write `link"),
    ("angara run -n 2 --torus 2x2 --fault 'link 0,0,0 +X down' true", "`0,0,0`", "write 2 numbers"),
    ("angara run -n 2 --torus 2x2 --fault 'link 0,0 +X' true", "what happens to it is missing", "write `link"),
    ("angara run -n 2 --torus 2x2 --fault 'link 0,0 +X dwon' true", "`dwon`", "did you mean `down`?"),
    ("angara run -n 2 --torus 2x2 --fault 'link 0,0 +X corupt=1%' true", "`corupt=1%`", "did you mean `corrupt=1%`?"),
    ("angara run -n 2 --torus 2x2 --fault 'link 0,0 +X drop=200%' true", "`200%`", "such as 1%"),
    ("angara run -n 2 --torus 2x2 --fault 'link 0,0 +X delay=2' true", "`2`", "such as 2us"),
    ("angara run -n 2 --torus 2x2 --fault 'nod 0,0 down' true", "`nod`", "did you mean `node`?"),
    ("angara run -n 2 --torus 2x2 --fault '' true", "it is empty", "write `link"),
    ("angara fault", "link COORDS DIR", "Usage: angara fault"),
    ("angara fault link 0,0,0 +X down", "no daemon listens in", "fabricd --torus 2x2x2"),
];

/// Programs that cannot be started.
const PROGRAMS: &[Row] = &[
    ("angara run -n 2 ./no-such-program", "no program ./no-such-program", "compile C programs with oshcc"),
    ("angara run -n 2 no-such-program", "no program `no-such-program` in PATH", "check the spelling"),
    ("angara run -n 2 source", "no program `source` in PATH", "oshcc source.c -o source"),
    ("angara run -n 2 text.txt", "no program `text.txt` in PATH", "write ./text.txt"),
    ("angara run -n 2 ./dir", "./dir is a directory", "name a program in it"),
    ("angara run -n 2 ./text.txt", "./text.txt is not executable", "chmod +x ./text.txt"),
    ("angara run -n 2 ./source.c", "./source.c is not executable", "oshcc ./source.c"),
    ("angara run -n 2 ./script", "the interpreter /nonexistent/python", "name another"),
    ("angara run -n 2 text.txt/hello", "no program text.txt/hello", "check the path"),
    ("angara run -n 1 ./foreign", "a program for RISC-V", "compile it for this one"),
    ("angara verbs -- ./no-such-program", "no-such-program", "check the path"),
    ("oshcc no-such-file.c -o x", "no-such-file.c", "No such file"),
    ("OSHCC_CC=no-such-cc oshcc source.c -o x", "`no-such-cc`", "unset OSHCC_CC"),
    ("SHMEM_SYMMETRIC_SIZE=lots angara run -n 2 true", "SHMEM_SYMMETRIC_SIZE: `lots`", "give --heap"),
];

/// Files that are read or written.
const FILES: &[Row] = &[
    ("angara run -n 2 --report no/r.json true", "cannot write no/r.json", "a directory you can write to"),
    ("angara run -n 2 --report dir true", "cannot write dir", "a directory you can write to"),
    ("angara run -n 2 --trace no/t.json true", "cannot write no/t.json", "a directory you can write to"),
    ("angara run -n 2 --capture no/c.pcapng true", "cannot write no/c.pcapng", "a directory that you may write to"),
    ("angara run -n 2 --record t.atr true", "--record t.atr", "add --clock virtual"),
    ("angara run -n 2 --trace-links true", "--trace <FILE", "leave --trace-links out"),
    ("angara run -n 2 --web-stay no true", "--web", "leave --web-stay out"),
    ("angara run -n 2 --web=here true", "`here`", "write 127.0.0.1:8290"),
    ("angara report", "<FILE.json[.gz]>", "Usage: angara report"),
    ("angara report no.json", "cannot read no.json", "`angara run --report FILE.json`"),
    ("angara report dir", "cannot read dir", "`angara run --report FILE.json`"),
    ("angara report text.txt", "text.txt is not a report", "`angara run --report FILE.json`"),
    ("angara report other.json", "other.json is not a report", "`angara run --report FILE.json`"),
    ("angara report cut.json", "cut.json is not a report", "`angara run --report FILE.json`"),
    ("angara report unreadable", "unreadable", "`angara run --report FILE.json`"),
    ("angara report other.json --csv all", "'all'", "routines"),
    ("angara trace summary no.json", "cannot read no.json", "`angara run --trace FILE.json`"),
    ("angara trace summary text.txt", "text.txt is no timeline", "`angara run --trace FILE.json`"),
    ("angara sim run --workload trace:no.atr", "no.atr", "give the path of a file that exists"),
    ("angara sim run --booksim no.cfg", "no.cfg", "give the path of a file that exists"),
    ("angara sim sweep no.toml", "no.toml", "give the path of a file that exists"),
    ("angara sim presets nosuch", "nosuch", "there are desmos, angara-k1"),
    ("angara alloc map --torus 4x4 --traffic no.json", "no.json", "give the path of a file that exists"),
    ("fabricd --config no.toml", "cannot read no.toml", "check --config"),
    ("fabricd --cluster no.toml", "no.toml", "check --cluster"),
];

/// Daemons, clusters and simulations.
const OTHERS: &[Row] = &[
    ("fabricd", "no network given", "use --torus 2x2x2"),
    ("fabricd --torus 0x2", "`0x2`", "from 1 to 255"),
    ("fabricd --machine cray", "`cray`", "desmos (4x2x2x2), angara-k1 (3x3x4)"),
    ("fabricd --torus 2x2 --cores x", "`x`", "such as --cores 0-3,7"),
    ("fabricd --torus 2x2 --nodes 9", "node 9 is not in 2x2", "0 to 3"),
    ("fabricd --torus 2x2 --host a", "`a` is a host of no cluster", "give --cluster FILE"),
    ("fabricd --torus 2x2 --metrics here", "`here`", "write 127.0.0.1:8290"),
    ("fabricd --torus 2x2 --runtime-dir text.txt", "cannot use text.txt", "choose another --runtime-dir"),
    ("angara shutdown", "no daemon listens in", "fabricd --torus 2x2x2"),
    ("angara web", "no daemon listens in", "fabricd --torus 2x2x2"),
    ("angara top", "no terminal", "add --once"),
    ("angara capture", "--write <FILE", "Usage: angara capture"),
    ("angara machine cray", "`cray`", "desmos (4x2x2x2), angara-k1 (3x3x4)"),
    ("angara machine desmos --set hop", "`hop`", "write KEY=VALUE"),
    ("angara cluster init --hosts a", "--torus <SHAPE>", "Usage: angara cluster init"),
    ("angara cluster init --torus 4x4 --hosts a,a", "`a`", "such as a=127.0.0.1"),
    ("angara sim run --topology toorus:4x4", "`toorus`", "torus:8x8x8"),
    ("angara sim run --topology torus:0x4", "`torus:0x4`", "from 1 to 4096"),
    ("angara sim run --load lots", "`lots`", "such as 0.3"),
    ("angara sim run --pattern unifrom", "unifrom", "use uniform"),
    ("angara plan barrier --torus 2x", "`2x`", "such as 4x2x2"),
    ("angara alloc set -n 3", "--torus <SHAPE>", "Usage: angara alloc set"),
    ("angara alloc set --torus 4x4 -n 99", "99 nodes in 4x4", "give 1 to that many"),
    ("angara bench shmem --peer x", "`x`", "oshmem=/usr/bin/oshcc,/usr/bin/oshrun"),
];

/// Writes what the rows name, where they are typed.
fn files(dir: &Path) {
    let write = |name: &str, bytes: &[u8], mode: u32| {
        let file = dir.join(name);
        std::fs::write(&file, bytes).expect("scratch file");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("ours");
    };
    write("text.txt", b"hello\n", 0o644);
    write("one.txt", b"0,0\n", 0o644);
    write("source.c", b"int main(void) { return 0; }\n", 0o644);
    write("script", b"#!/nonexistent/python -u\nprint(1)\n", 0o755);
    write("wrong.toml", b"torus = \"2x2\"\nhop = 3\n", 0o644);
    write("other.json", b"{\"a\": 1}\n", 0o644);
    write("cut.json", b"{\"a\"", 0o644);
    // Who may read everything finds no report in it.
    write("unreadable", b"secret\n", 0o000);
    let mut foreign = std::fs::read("/proc/self/exe").expect("this program");
    foreign.truncate(4096);
    // RISC-V's number.
    foreign[18..20].copy_from_slice(&[243, 0]);
    write("foreign", &foreign, 0o755);
    std::fs::create_dir(dir.join("dir")).expect("scratch directory");
}

/// Words as a shell takes them.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (i, part) in line.split('\'').enumerate() {
        match i % 2 {
            0 => words.extend(part.split_whitespace().map(String::from)),
            _ => words.push(part.into()),
        }
    }
    words
}

fn type_in(test: &Test, dir: &Path, line: &str) -> Finished {
    let words = split(line);
    let variables: Vec<_> = words.iter().map_while(|word| word.split_once('=')).collect();
    let rest = &words[variables.len()..];
    let mut command = test.command(tools::tool(&rest[0]));
    command.args(&rest[1..]).envs(variables).current_dir(dir).stdin(std::process::Stdio::null());
    test.run(command)
}

/// Why the answer to a mistake is no good.
fn poor(row: &Row, done: &Finished) -> Option<String> {
    let (line, value, remedy) = row;
    let said = &done.stderr;
    let lines = said.lines().filter(|line| !line.trim().is_empty()).count();
    let why = if done.status.success() {
        "it succeeds".into()
    } else if said.contains("panicked") || said.contains("RUST_BACKTRACE") || done.status.code().is_none() {
        "it crashes".into()
    } else if !said.contains(value) {
        format!("it does not name {value}")
    } else if !said.contains(remedy) {
        format!("it does not say {remedy}")
    } else if lines > 10 {
        format!("it says {lines} lines")
    } else {
        return None;
    };
    Some(format!("{line}: {why}: {done}"))
}

fn answered(name: &str, rows: &[Row]) {
    let test = Test::new(name);
    let dir = test.file("here");
    std::fs::create_dir(&dir).expect("scratch directory");
    files(&dir);
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let why = poor(row, &type_in(&test, &dir, row.0));
                    wrong.lock().expect("no thread panicked").extend(why);
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no thread panicked");
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    test.assert_clean();
}

macro_rules! tables {
    ($($test:ident $rows:ident;)*) => {
        $(
            #[test]
            fn $test() {
                answered(concat!("mistakes-", stringify!($test)), $rows);
            }
        )*

        #[test]
        fn there_are_a_hundred() {
            let count: usize = [$($rows.len()),*].iter().sum();
            assert!(count >= 100, "{count} rows");
        }
    };
}

tables! {
    commands COMMANDS;
    launching LAUNCHING;
    networks NETWORKS;
    values VALUES;
    faults FAULTS;
    programs PROGRAMS;
    files_and_their_places FILES;
    others OTHERS;
}
