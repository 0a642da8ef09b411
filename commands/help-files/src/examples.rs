//! Examples of manual pages whose command has none in its help.

/// Lines by page.
pub(crate) const EXAMPLES: &[(&str, &[&str])] = &[
    ("angara", &["angara run -n 8 ./hello", "angara demo", "angara sim run --topology torus:8x8x8 --load 0.3"]),
    ("angara-status", &["angara status", "angara status --heat", "angara status --waits"]),
    ("angara-top", &["angara top", "angara top --once --sort errors --links 5"]),
    ("angara-web", &["angara web", "angara web --read"]),
    (
        "angara-report",
        &["angara report out.json", "angara report out.json --heat", "angara report out.json --html out.html"],
    ),
    ("angara-trace", &["angara trace summary trace.json"]),
    ("angara-trace-summary", &["angara trace summary trace.json", "angara trace summary trace.json --csv"]),
    ("angara-cluster", &["angara cluster init --torus 4x4x2 --hosts node1,node2", "angara cluster status --links"]),
    (
        "angara-cluster-init",
        &[
            "angara cluster init --torus 4x4x2 --hosts node1,node2",
            "angara cluster init --torus 4x2 --hosts a=10.0.0.1,b=10.0.0.2 --out torus.toml",
        ],
    ),
    ("angara-cluster-status", &["angara cluster status", "angara cluster status --links --interval 5"]),
    ("angara-cluster-keys", &["angara cluster keys new next.key", "angara cluster keys reload"]),
    ("angara-cluster-keys-new", &["angara cluster keys new next.key"]),
    ("angara-cluster-keys-reload", &["angara cluster keys reload"]),
    ("angara-shutdown", &["angara shutdown"]),
    ("angara-doctor", &["angara doctor", "angara doctor --json"]),
    ("angara-demo", &["angara demo"]),
    ("angara-machine", &["angara machine desmos", "angara machine desmos --set link=15GB/s,hop=60ns"]),
    ("angara-bench", &["angara bench", "angara bench shmem --pes 2 --path ring"]),
    ("angara-bench-shmem", &["angara bench shmem --pes 2 --path ring", "angara bench shmem --repeat 3 --time 20"]),
    ("angara-bench-mpi", &["angara bench mpi"]),
    ("angara-bench-sim", &["angara bench sim --runs 3"]),
    ("angara-bench-machine", &["angara bench machine"]),
    ("angara-plan", &["angara plan barrier --torus 4x2x2x2", "angara plan tree --torus 4x4"]),
    ("angara-plan-barrier", &["angara plan barrier --torus 4x2x2x2", "angara plan barrier --torus 8x8x8"]),
    ("angara-plan-matmul", &["angara plan matmul --torus 8x8x8"]),
    (
        "angara-plan-routes",
        &["angara plan routes --torus 4x4x4 --from 0,0,0", "angara plan routes --topology dragonfly:2"],
    ),
    ("angara-plan-tree", &["angara plan tree --torus 4x4", "angara plan tree --torus 4x4 --member 0,0 --member 2,1"]),
    ("angara-alloc", &["angara alloc set --torus 8x8 -n 12 --dead-nodes 2%"]),
    (
        "angara-alloc-set",
        &["angara alloc set --torus 8x8 -n 12 --dead-nodes 2%", "angara alloc set --torus 8x8 -n 12 --json"],
    ),
    ("angara-alloc-check", &["angara alloc check --torus 8x8 --nodes 0-3,8,10-11,16-19"]),
    ("angara-alloc-simulate", &["angara alloc simulate --torus 8x8x8 --lublin 300 --load 0.9 --scheduler fcfs,easy"]),
    ("angara-alloc-slurm", &["angara alloc slurm --cluster cluster.toml --dry-run"]),
    ("angara-sim", &["angara sim run --topology torus:8x8x8 --load 0.3", "angara sim presets"]),
    (
        "angara-sim-run",
        &[
            "angara sim run --topology torus:8x8x8 --router angara --length 18 --load 0.3",
            "angara sim run --topology torus:8x8x8 --pattern halo --load 0.3",
            "angara sim run --topology torus:8x8 --router generic --find-saturation",
        ],
    ),
    ("angara-sim-sweep", &["angara sim sweep load.toml", "angara sim sweep load.toml --out results"]),
    ("angara-sim-merge", &["angara sim merge results"]),
    ("angara-sim-plot", &["angara sim plot --out figure.svg torus mesh"]),
    ("angara-sim-reproduce", &["angara sim reproduce"]),
    ("angara-sim-presets", &["angara sim presets", "angara sim presets desmos"]),
    ("angara-sim-booksim", &["angara sim booksim torus.cfg"]),
    ("angara-sim-goal", &["angara sim goal heat.atr --out heat.goal"]),
    ("angara-sim-workloads", &["angara sim workloads"]),
    ("oshcc", &["oshcc -O2 heat2d.c -o heat2d -lm", "oshcc --show"]),
    ("oshc++", &["oshc++ -O2 heat2d.cpp -o heat2d", "oshc++ --show"]),
];

/// Files that commands with an option, or of a name, read, write or look for.
pub(crate) const FILES: &[(&str, &str, &str)] = &[
    (
        "--runtime-dir",
        "$ANGARA_RUNTIME_DIR, $XDG_RUNTIME_DIR/angara, /tmp/angara-UID",
        "sockets and lock file of your daemon, fabricd(1)",
    ),
    ("--runtime-dir", "/run/angara", "the same of a daemon that is a service"),
    ("--config", "/etc/angara/fabricd.toml", "options of the service's daemon"),
    (
        "--cluster",
        "cluster.toml, cluster.key",
        "hosts, nodes and key of a cluster, as angara-cluster-init(1) writes them",
    ),
    ("--machine", "FILE.toml", "machine file: shape and times, as angara-machine(1) prints one"),
    ("--report", "FILE.json, FILE.json.gz", "report, which angara-report(1) prints"),
    ("--trace", "FILE.json, FILE.json.gz", "timeline, which Perfetto and angara-trace-summary(1) show"),
    ("--record", "FILE.atr", "recording, which angara-sim-run(1) replays"),
    ("--capture", "FILE.pcapng", "packets, which Wireshark shows by the dissector angara.lua"),
    ("oshcc", "include/shmem.h, lib/libsma.so", "header and library, beside the bin directory of oshcc"),
    ("oshc++", "include/shmem.h, lib/libsma.so", "header and library, beside the bin directory of oshc++"),
];
