//! Settings that fit together and settings that do not.

use super::*;

fn resolve(text: &str) -> Blamed<Experiment> {
    toml::from_str::<Keys>(text).unwrap().resolve().map(|simulation| simulation.experiment)
}

fn refused(text: &str) -> (String, &'static str) {
    let (e, key) = resolve(text).unwrap_err();
    (e.to_string(), key)
}

#[test]
fn defaults_follow_the_topology() {
    let torus = resolve("").unwrap().settings;
    assert_eq!((torus.router, torus.deadlock, torus.routing), (Router::Angara, Deadlock::Bubble, Routing::Dor));
    assert_eq!((torus.length.as_str(), torus.buffer), ("18", 8));
    let tree = resolve("topology = \"fat-tree:4,2\"").unwrap().settings;
    assert_eq!((tree.router, tree.deadlock, tree.routing), (Router::Generic, Deadlock::Dateline, Routing::Nca));
    assert_eq!((tree.length.as_str(), tree.buffer, tree.vcs), ("1", 8, 4));
}

#[test]
fn routings_are_named_as_a_remedy_where_they_can_be_had() {
    let why = |topology: &str| refused(&format!("topology = \"{topology}\"\nrouting = \"par\"")).0;
    assert!(why("mesh:4x4").contains("takes dor, adaptive, west-first or odd-even; any network takes minimal"));
    let chip = refused("topology = \"mesh:4x4\"\nrouter = \"angara\"\nrouting = \"west-first\"").0;
    assert!(chip.ends_with("with router angara takes dor or adaptive; router generic takes others"), "{chip}");
    assert_eq!(resolve("topology = \"mesh:4x4\"\nrouting = \"odd-even\"").unwrap().settings.router, Router::Generic);
    assert!(why("torus:2x2x2x2x2").contains("takes dor or adaptive; any network takes minimal, valiant, updown"));
    assert!(why("fat-tree:4,2").contains("takes nca; any"));
}

#[test]
fn faults_of_generic_routers_leave_a_graph_of_any_network() {
    let torus = "topology = \"torus:4x4\"\nrouter = \"generic\"\n";
    let cut = format!("{torus}fault = [\"link 0,0 0,1 down\", \"10% links down\"]\n");
    let one = resolve(&cut).unwrap();
    assert_eq!((one.settings.routing, one.settings.fault.len()), (Routing::UpDown, 2));
    assert_eq!(one.settings.topology, "torus:4x4");
    let other = resolve(&format!("{cut}seed = 2")).unwrap();
    assert_ne!(one.network.shape, other.network.shape);
    let dead = format!("{torus}fault = \"node 1,1 down\"\n");
    let minimal = resolve(&format!("{dead}routing = \"minimal\"\nvcs = 8")).unwrap();
    assert_eq!(minimal.settings.routing, Routing::Minimal);
    for (text, key, part) in [
        (
            format!("{dead}routing = \"dor\""),
            "routing",
            "round the fault `node 1,1 down`; use updown, minimal, valiant",
        ),
        (format!("{dead}routing = \"minimal\"\nvcs = 1"), "vcs", "routing updown"),
        (format!("{torus}fault = \"node 9,9 down\""), "fault", "they are called (0,0) to (3,3)"),
        (format!("{torus}fault = \"node 1,1 down @2\""), "fault", "write it such as @2us"),
        (format!("{torus}fault = \"node 9,1 down @2us\""), "fault", "there is no router `9,1`"),
        (format!("{torus}fault = \"90% links down @2us\""), "fault", "pairs of endpoints have no way"),
        (format!("{torus}fault = \"node 1,1 down @2us\"\nrouting = \"dor\""), "routing", "use updown, minimal"),
        (format!("{torus}fault = \"node 1,1 rate=50% @2\""), "fault", "write it such as @2us"),
        (format!("{torus}fault = \"@2us\""), "fault", "fault is @2us: write 'link ROUTER ROUTER down'"),
        (format!("{torus}fault = \"rate=2% links down @2us\""), "fault", "write 'link ROUTER ROUTER down'"),
        (format!("{torus}fault = \"link 1,1 2,2 rate=50%\""), "fault", "has no link `2,2`; it has +X to (2,1)"),
        (format!("{torus}fault = \"link 1,1 +X rate=0.5%\""), "fault", "from 1% to 100%"),
        (format!("{torus}fault = \"link 1,1 +X rate=10M\""), "fault", "a share of one from 1%"),
        (format!("{torus}fault = \"link 1,1 rate=10%\""), "fault", "write 'link ROUTER ROUTER down'"),
        (
            format!("{torus}fault = \"rate=1%\"\nlength = \"1000\"\nbuffer = 1000"),
            "length",
            "packets of 1000 flits take 100001 cycles",
        ),
        (format!("{torus}fault = \"90% links down\""), "fault", "pairs of endpoints have no way to each other: 0 and "),
        (format!("{torus}error-rate = \"1%\""), "error-rate", "use router angara"),
    ] {
        let (e, blamed) = refused(&text);
        assert!(blamed == key && e.contains(part), "{text}: {blamed}: {e}");
    }
}

#[test]
fn a_machine_gives_topology_and_times_and_settings_win() {
    let desmos = resolve("machine = \"desmos\"").unwrap();
    assert_eq!(desmos.settings.topology, "torus:4x2x2x2");
    let chip = |e: Experiment| match e.network.profile {
        Profile::Angara(a) => a.params(),
        Profile::Generic(_) => panic!("a machine is the chip"),
    };
    assert_eq!(chip(desmos), Params::default());
    let fast = resolve(
        "machine = \"desmos\"\ntopology = \"mesh:4x4\"\nset = [\"link=15GB/s\", \"dma-start=1us\"]\nlink-ns = 20.0",
    );
    let fast = fast.unwrap();
    assert_eq!(fast.settings.topology, "mesh:4x4");
    let params = chip(fast);
    assert_eq!((params.link_ps, params.link_flit.rate(), params.dma_start_ps), (20_000, 15_000, 1_000_000));
    let adaptive = resolve("set = \"routing=adaptive\"").unwrap();
    assert!(adaptive.adaptive && !chip(adaptive).adaptive);
    for (text, key, part) in [
        ("machine = \"cray\"", "machine", "there are desmos"),
        ("set = \"hop=soon\"", "set", "such as 129ns"),
        ("machine = \"tpu-v4\"\nrouter = \"generic\"", "machine", "--set ports=1"),
        ("set = \"injection=5us\"", "topology", "injection"),
    ] {
        let (e, blamed) = refused(text);
        assert!(blamed == key && e.contains(part), "{text}: {blamed}: {e}");
    }
}

#[test]
fn buffers_grow_with_the_packets_unless_given() {
    assert_eq!(resolve("router = \"generic\"\nlength = 32").unwrap().settings.buffer, 32);
    let (e, key) = refused("router = \"generic\"\nlength = 32\nbuffer = 8");
    assert!(e.contains("never fit") && key == "buffer", "{e} {key}");
    let worm = resolve("router = \"generic\"\nlength = 32\nswitching = \"wormhole\"").unwrap();
    assert_eq!((worm.settings.buffer, worm.settings.hold_switch), (8, Some(false)));
    let worm = "router = \"generic\"\nlength = 32\nswitching = \"wormhole\"\nbuffer = 1\nhold-switch = true";
    match resolve(worm).unwrap().network.profile {
        Profile::Generic(g) => {
            assert_eq!((g.buffer_flits, g.switching), (1, model::Switching::Wormhole { hold: true }));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_setting() {
    for (text, key, part) in [
        ("router = \"angara\"\ndeadlock = \"dateline\"", "deadlock", "packet slots"),
        ("router = \"generic\"\nrouting = \"adaptive\"\nvcs = 2", "vcs", "vcs >= 3"),
        ("router = \"generic\"\nrouting = \"adaptive\"\nswitching = \"wormhole\"", "routing", "use cut-through"),
        ("topology = \"fat-tree:4,2\"\nrouter = \"angara\"", "router", "direction order"),
        ("length = 32", "length", "at most 18 flits"),
        ("vcs = 4", "vcs", "five virtual channels"),
        ("buffer = 1", "buffer", "bubble rule"),
        ("router = \"generic\"\nvcs = 3", "vcs", "even number"),
        ("switching = \"wormhole\"", "switching", "use router generic"),
        ("hold-switch = true", "hold-switch", "switching wormhole"),
        ("router = \"generic\"\nhold-switch = false", "hold-switch", "always keeps the switch"),
        ("router = \"generic\"\nswitching = \"wormhole\"\nbuffer = 0", "buffer", "at least 1"),
        ("router = \"generic\"\nlink-ns = 10.0", "link-ns", "cycles"),
        ("load = 19.0", "load", "from 0 to 18"),
        ("load = -0.1", "load", "load is -0.1"),
        ("pattern = \"hotspot:512,0.1\"", "pattern", "the last one is 511"),
        ("topology = \"torus:3x4\"\nmap = \"hilbert\"", "map", "use morton"),
        ("probe = \"0,512\"", "probe", "0 to 511"),
        ("precision = 0.0", "precision", "between 0 and 1"),
        ("ugal-threshold = 5", "ugal-threshold", "routing dor of torus:8x8x8 compares no queues"),
        ("topology = \"dragonfly:2\"\nrouting = \"valiant\"\nugal-threshold = 5", "ugal-threshold", "ugal-g or par"),
        ("cycles = 1000\ncycles-max = 500", "cycles-max", "alone take 1000"),
    ] {
        let (e, blamed) = refused(text);
        assert!(blamed == key && e.contains(part), "{text}: {blamed}: {e}");
    }
}
