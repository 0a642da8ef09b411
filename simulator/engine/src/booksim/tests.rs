use super::file::File;
use super::*;
use crate::run::router::{Router, Routing, Switching};

fn read(text: &str) -> Result<Booksim, Error> {
    let file = File::of(Path::new("a.cfg"), text)?;
    parameters::check(&file)?;
    let settings = meaning::settings(&file)?;
    let differences = parameters::differences(&file);
    Ok(Booksim { file, settings, differences })
}

fn keys(text: &str) -> Keys {
    read(text).and_then(|b| b.keys()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Parameters with which no router differs from those here.
const LIKE_HERE: &str = "routing_delay = 0; credit_delay = 2; use_noc_latency = 0;\n\
                         vc_allocator = separable_input_first; sw_allocator = separable_input_first;\n";

#[test]
fn parameters_become_settings() {
    let torus =
        keys("topology = torus; k = 4; n = 3; routing_function = dim_order; num_vcs = 4; injection_rate = 0.25;");
    assert_eq!(torus.topology.unwrap().to_string(), "torus:4x4x4");
    assert_eq!((torus.router, torus.vcs, torus.buffer), (Some(Router::Generic), Some(4), Some(8)));
    assert_eq!((torus.load, torus.switching, torus.routing), (Some(0.25), None, Some(Routing::Dor)));
    let tree = "topology = fattree; k=4; n=3; routing_function = nca; packet_size = 4; injection_rate = 0.1;";
    assert_eq!(keys(tree).topology.unwrap().to_string(), "fat-tree:4,3");
    assert_eq!((keys(tree).load, keys(tree).switching), (Some(0.4), Some(Switching::Wormhole)), "packets per cycle");
    assert_eq!(keys(&format!("{tree} injection_rate_uses_flits = 1;")).load, Some(0.1));
    let fly = keys("topology = flatfly; c = 4; k = 4; n = 2; routing_function = ran_min;");
    assert_eq!((fly.topology.unwrap().to_string(), fly.routing), ("hyperx:4x4,4".into(), Some(Routing::Minimal)));
    let cmesh = keys("topology = cmesh; c = 4; k = 4; n = 2; routing_function = dor_no_express; traffic = randperm;");
    assert_eq!((cmesh.topology.unwrap().to_string(), cmesh.routing), ("mesh:4x4,c=4".into(), Some(Routing::Dor)));
    assert_eq!(cmesh.pattern.unwrap().to_string(), "permutation");
    let fly = keys("topology = fly; k = 2; n = 5; routing_function = dest_tag; traffic = shuffle;");
    assert_eq!((fly.topology.unwrap().to_string(), fly.routing), ("fly:2,5".into(), Some(Routing::Minimal)));
    let dragon = keys("topology = dragonflynew; k = 2; n = 1; routing_function = ugal; traffic = bad_dragon;");
    assert_eq!((dragon.topology.unwrap().to_string(), dragon.routing), ("dragonfly:2".into(), Some(Routing::Ugal)));
    assert_eq!(dragon.pattern.unwrap().to_string(), "bad-dragon");
}

#[test]
fn traffic_and_lengths() {
    let mesh = |rest: &str| keys(&format!("topology = mesh; routing_function = dor; {rest}"));
    let pattern = |text: &str| mesh(&format!("traffic = {text};")).pattern.unwrap().to_string();
    assert_eq!(pattern("hotspot({0,9},{3,1})"), "hotspot:0,0.75,9,0.25");
    assert_eq!(pattern("hotspot({7})"), "hotspot:7,1");
    assert_eq!(
        [pattern("tornado"), pattern("randperm"), pattern("transpose")],
        ["tornado", "permutation", "transpose"]
    );
    let sizes = mesh("packet_size = {{1,5}}; packet_size_rate = {{3,1}}; injection_rate = {0.2};");
    assert_eq!((sizes.length.unwrap().to_string(), sizes.load), ("1:0.75,5:0.25".into(), Some(0.4)));
    let process =
        |text: &str| mesh(&format!("injection_rate = 0.1; injection_process = {text};")).process.unwrap().to_string();
    assert_eq!(process("on_off(0.02,0.06)"), "on-off:0.02,0.06");
    // Bursts of rate 0.4 make the mean of 0.1 if a quarter of all cycles is in one.
    assert!(process("on_off(-1,0.06,0.4)").starts_with("on-off:0.01999999"));
    assert_eq!(process("on_off; burst_alpha = 0.02; burst_beta = 0.06"), "on-off:0.02,0.06");
}

#[test]
fn what_is_different_is_said() {
    let differences = |text: &str| read(text).unwrap().differences;
    assert_eq!(differences(&format!("routing_function = dim_order; {LIKE_HERE}")), [""; 0]);
    let defaults = differences("routing_function = dim_order; speculative = 1; sample_period = 10;");
    let expected = [
        "use_noc_latency is 1 by default; routers here are like 0",
        "credit_delay is 0 by default; routers here are like 2",
        "speculative is 1; routers here are like 0",
        "routing_delay is 1 by default; routers here are like 0",
        "vc_allocator is islip by default; routers here are like separable_input_first",
        "sw_allocator is islip by default; routers here are like separable_input_first",
        "sample_period say when a run ends; here that is decided by warmup, cycles and precision",
    ];
    assert_eq!(defaults, expected);
    let mesh = differences(&format!("{} use_noc_latency = 1; topology = mesh; routing_function = dor;", LIKE_HERE));
    assert_eq!(mesh, [""; 0], "links of a mesh take one cycle either way");
}

#[test]
fn a_configuration_is_a_file_to_start_from() {
    let text =
        format!("// a comment\n\n{LIKE_HERE}topology=torus; k = 8;\nn =\n 2;\nrouting_function = dim_order;num_vcs=4;");
    let read = read(&text).unwrap();
    let again: Keys = toml::from_str(&read.toml()).unwrap();
    assert_eq!(again, read.keys().unwrap());
    again.resolve().map_err(|(e, key)| format!("{key}: {e}")).unwrap();
}

#[test]
fn mistakes_are_refused_with_their_lines() {
    for (text, error) in [
        ("\ntopology = qtree;", "a.cfg:2: topology = qtree: there are torus, mesh,"),
        ("topology = cmesh;\nc = 2;", "a.cfg:2: c = 2: BookSim's cmesh has n = 2 and c = 4 only"),
        (
            "topology = cmesh; c = 4; k = 4; n = 2;\nrouting_function = dor;",
            "a.cfg:2: routing_function = dor: for cmesh",
        ),
        (
            "topology = cmesh; c = 4; k = 4; n = 2; routing_function = dor_no_express;\ntraffic = shuffle;",
            "a.cfg:2: traffic = shuffle: its nodes have other numbers",
        ),
        ("k = 8;\nfoo = 1;", "a.cfg:2: foo = 1: BookSim 2 has no such parameter"),
        ("k = 8", "a.cfg:1: `k = 8` has no `;`"),
        ("k;", "a.cfg:1: `k`: write `name = value;`"),
        ("k = ;", "a.cfg:1: k is ``: write"),
        ("routing_function = dor;", "a.cfg:1: routing_function = dor: for torus there are dim_order"),
        ("k = 8;", "a.cfg:1: routing_function is not given: for torus"),
        ("routing_function = dim_order; k = 0;", "a.cfg:1: k = 0: "),
        ("routing_function = dim_order;\nn = 9;", "a.cfg:2: n = 9: give 1 to 6"),
        ("routing_function = dim_order;\nc = 4;", "a.cfg:2: c = 4: BookSim's torus and mesh have one node"),
        ("router = event;", "a.cfg:1: router = event: there is nothing like it here; only `iq`"),
        ("use_read_write = {1};", "a.cfg:1: use_read_write = {1}: there is nothing like it"),
        ("routing_function = dim_order; traffic = taper64;", "a.cfg:1: traffic = taper64: there are uniform"),
        ("routing_function = dim_order; traffic = hotspot;", "a.cfg:1: traffic = hotspot: name the nodes"),
        ("routing_function = dim_order; packet_size = 0;", "a.cfg:1: packet_size = 0: give whole numbers"),
        ("routing_function = dim_order;\ninjection_rate = 2;", "a.cfg:2: injection_rate = 2: give more than 0"),
        ("routing_function = dim_order;\ninjection_process = on_off(1,1,1);", "a.cfg:2: injection_process = on_off"),
        ("routing_function = dim_order;\nnum_vcs = 900;", "a.cfg:2: num_vcs = 900: "),
    ] {
        let got = read(text).and_then(|b| b.keys()).map(|k| format!("{k:?}")).unwrap_or_else(|e| e.to_string());
        assert!(got.starts_with(error), "{text}: {got}");
    }
    let many = read("routing_function = dim_order;\nnum_vcs = 64;").unwrap();
    let (e, key) = many.keys().unwrap().resolve().unwrap_err();
    let e = many.locate(e, key).to_string();
    assert!(e.starts_with("a.cfg:2: num_vcs = 64: vcs = 64: the generic router has 1 to 32"), "{e}");
}
