//! Graphs that are right, and all that can be wrong with a file.

use super::*;
use crate::topology::{AnyTopology, Class};

/// The routers a packet passes, and the classes of its hops.
fn walk(graph: &Graph, src: u32, dst: u32, random: u64) -> (Vec<u32>, Vec<Class>) {
    let mut route = graph.start(src, dst, random);
    let (mut at, _) = graph.attach(src);
    let (mut passed, mut classes) = (vec![at], Vec::new());
    loop {
        let hop = graph.next(at, &mut route);
        match graph.output(at, hop.port) {
            End::Router { router, .. } => at = router,
            End::Endpoint(e) => {
                assert_eq!(e, dst);
                return (passed, classes);
            }
            End::Open => panic!("{src}→{dst} leaves the network at router {at}"),
        }
        passed.push(at);
        classes.push(hop.class);
        assert!(passed.len() < 100, "{src}→{dst} does not arrive");
    }
}

fn sound(graph: &Graph) {
    assert_eq!(super::super::contract::check(graph), Ok(()), "{graph}");
    for (s, d) in (0..graph.endpoints() as u32).flat_map(|s| (0..graph.endpoints() as u32).map(move |d| (s, d))) {
        let (_, classes) = walk(graph, s, d, angara_fabric::rng::mix(u64::from(s * 977 + d)));
        if let Classes::Steps(steps) = graph.classes() {
            let numbers = (0..steps as u8).map(Class::Step);
            assert!(
                matches!(graph.routing(), Routing::Table) || classes.iter().copied().eq(numbers.take(classes.len()))
            );
        }
    }
    assert_eq!(circle(graph, 16), None, "{graph:?}");
}

#[test]
fn every_graph_is_sound_by_every_way() {
    let file = "terminals 2\na b 5 # slow\nb c x3\nc d 2 3 x2\nd a\nb e\nterminals e 0\n";
    let mut graphs = vec![Graph::of("graph", "f", file).unwrap()];
    for text in
        ["random:2,1,1", "random:9,4,2", "random:16,3,1,5", "random:30,2,1", "slimfly:3", "slimfly:5", "slimfly:7"]
    {
        match text.parse().unwrap() {
            AnyTopology::Graph(graph) => graphs.push(graph),
            other => panic!("{other}"),
        }
    }
    for graph in graphs {
        for routing in [Routing::Minimal, Routing::Valiant, Routing::UpDown] {
            let graph = graph.with_routing(routing).unwrap();
            assert_eq!(graph.routing(), routing);
            sound(&graph);
        }
    }
}

#[test]
fn a_file_says_links_delays_names_and_terminals() {
    let g = Graph::of("graph", "f", "terminals 2\na b 5\nb c\nc a 2 3\nterminals c 0").unwrap();
    assert_eq!((g.routers(), g.endpoints(), g.ports()), (3, 4, 4));
    assert_eq!([g.delay(0, 0), g.delay(1, 0), g.delay(1, 1), g.delay(2, 1), g.delay(0, 1)], [5, 5, 1, 2, 3]);
    assert_eq!(g.output(2, 1), End::Router { router: 0, port: 1 });
    assert_eq!((g.output(1, 2), g.output(2, 2)), (End::Endpoint(2), End::Open));
    assert_eq!(g.router_name(2), "c");
    let numbers = Graph::of("graph", "f", "terminals 1\n2 0\n1 2").unwrap();
    assert_eq!(numbers.output(1, 0), End::Router { router: 2, port: 1 });
    let alone = Graph::of("graph", "f", "terminals one 3").unwrap();
    assert_eq!((alone.routers(), alone.endpoints(), alone.classes().count()), (1, 3, 1));
}

#[test]
fn a_file_says_rates_and_faults_change_them() {
    let graph = |text: &str| AnyTopology::from(Graph::of("graph", "f", text).unwrap());
    let rates = |t: &AnyTopology, faults: &[&str]| -> Vec<(u32, u8, u32)> {
        let faults: Vec<String> = faults.iter().map(|text| text.to_string()).collect();
        t.rates(&faults).unwrap().iter().map(|link| (link.from.0, link.from.1, link.ppm)).collect()
    };
    let g = graph("terminals 1\na b x2 25%\nb c 3 50%\nc a");
    assert_eq!(rates(&g, &[])[..2], [(0, 0, 250_000), (1, 0, 250_000)]);
    assert_eq!(rates(&g, &[])[2..], [(0, 1, 250_000), (1, 1, 250_000), (1, 2, 500_000), (2, 0, 500_000)]);
    assert_eq!(rates(&g, &["link a c rate=10%"])[6..], [(0, 2, 100_000)]);
    assert_eq!(rates(&g, &["node c rate=100%"])[6..].len(), 4);
    assert_eq!(rates(&g, &["rate=33.3333%"])[6..].len(), 8);
    let later = g.rates(&["link a c rate=10% @2us".into()]).unwrap();
    assert_eq!((later[6].from, later[6].ppm, later[6].since, later[5].since), ((0, 2), 100_000, 2_000_000, 0));
    assert_ne!(g, graph("terminals 1\na b x2 26%\nb c 3 50%\nc a"));
    let left = g.with_faults(&["link a b down".into()], 1).unwrap();
    assert_eq!(rates(&left, &[]), [(1, 2, 500_000), (2, 0, 500_000)]);
    assert!(left.rates(&["link a b rate=20%".into()]).unwrap_err().why.contains("has no link `b`"));
}

#[test]
fn files_of_booksim_mean_what_they_do_there() {
    let g = Graph::of(
        "anynet",
        "f",
        "router 0 node 0 node 1 router 1 15 router 2\nrouter 1 router 0 4 node 2\nnode 3 router 2\n",
    );
    let g = g.unwrap();
    assert_eq!((g.routers(), g.endpoints()), (3, 4));
    assert_eq!([g.delay(0, 0), g.delay(1, 0), g.delay(0, 1), g.delay(2, 0)], [15, 4, 1, 1]);
    sound(&g);
}

#[test]
fn contents_are_part_of_a_graphs_identity() {
    let of = |text: &str| Graph::of("graph", "f", text).unwrap();
    let (a, b) = (of("terminals 1\n0 1 2"), of("terminals 1\n0 1 3"));
    assert_eq!(a, of("terminals 1 # all\n0 1 2\n"));
    assert_ne!(a, b);
    assert_ne!(format!("{a:?}"), format!("{b:?}"));
    assert_ne!(format!("{a:?}"), format!("{:?}", a.with_routing(Routing::UpDown).unwrap()));
    let any = AnyTopology::from(a);
    assert!(format!("{any:?}").contains("graph:f"), "{any:?}");
}

#[test]
fn wrong_files_are_refused_with_the_line_and_the_remedy() {
    let wide: String = (1..66).map(|r| format!("0 {r}\n")).collect();
    let big: String = (1..5000).map(|r| format!("{r} 0\n")).collect();
    for (kind, text, parts) in [
        ("graph", "terminals 1\na b\nc d", &["no way leads from router `a` to `c`, `d`", "add a link"][..]),
        ("graph", "terminals 1\na a", &["line 2", "linked to itself"]),
        ("graph", "terminals 1\na b\nb a", &["line 3", "line 2 already", "write x2"]),
        ("graph", "terminals 1\na b x0", &["line 2", "give x1 to x64"]),
        ("graph", "terminals 1\na b x2 3", &["line 2", "delay `x2`"]),
        ("graph", "terminals 1\na b 0%", &["line 2", "rate 0%", "from 1% to 100%"]),
        ("graph", "terminals 1\na b x65", &["line 2", "x65"]),
        ("graph", "terminals 1\na b\n\nb a", &["line 4", "in line 2 already"]),
        ("graph", "a b 0", &["line 1", "delay `0`", "1 to 250"]),
        ("graph", "a b 251", &["delay `251`"]),
        ("graph", "a b -1", &["delay `-1`"]),
        ("graph", "a b 1 x", &["delay `x`"]),
        ("graph", "a", &["line 1", "write ROUTER ROUTER [DELAY"]),
        ("graph", "a b 1 1 1", &["5 words"]),
        ("graph", "a b", &["no terminals", "terminals 1"]),
        ("graph", "", &["no routers"]),
        ("graph", "terminals 1", &["no routers"]),
        ("graph", "terminals", &["write `terminals N`"]),
        ("graph", "terminals x", &["`x` terminals"]),
        ("graph", "terminals 65\na b", &["`65` terminals", "0 to 64"]),
        ("graph", "terminals 64\na b", &["1 links and 64 terminals", "at most 64 ports"]),
        ("graph", "terminals 1\nterminals 2", &["given twice"]),
        ("graph", "terminals a 1\nterminals a 1", &["terminals of router `a`"]),
        ("graph", "terminals 1\n0 2", &["a router 2 and no router 1"]),
        ("graph", "router 0 router 1", &["anynet:FILE"]),
        ("graph", "a b\u{7}", &["router `b\\u{7}`"]),
        ("graph", &wide, &["line 65", "more than 64 links"]),
        ("graph", &big, &["5000 routers; at most 4096"]),
        ("anynet", "router 0 router 1 0 node 0", &["line 1", "delay `0`"]),
        ("anynet", "router 0 switch 1", &["`switch` where `router` or `node`"]),
        ("anynet", "router 0 router", &["without a number"]),
        ("anynet", "router 0 router x", &["router `x`"]),
        ("anynet", "router 0 5 router 1", &["`5` after the first router"]),
        ("anynet", "router 0 router 0 node 0", &["linked to itself"]),
        ("anynet", "router 0 router 1 router 1 node 0", &["in line 1 already"]),
        ("anynet", "router 0 node 0 5 router 1", &["node 0 with latency `5`", "leave it out"]),
        ("anynet", "router 0 node 0 router 1\nrouter 1 node 0", &["node 0 is at router 0 already"]),
        ("anynet", "router 0 node 1 router 1", &["a node 1 and no node 0"]),
        ("anynet", "router 0 node 1 router 1 node 2\nrouter 1 node 0", &["ascending order of routers"]),
        ("anynet", "node 0 node 1", &["joined to routers only"]),
        ("anynet", "router 0 node 0 router 2", &["no way leads from router `0` to `1`"]),
        ("anynet", "router 0 router 16777215 node 0", &["at most 4096"]),
        ("anynet", "router 0 router 1", &["no terminals"]),
    ] {
        let why = Graph::of(kind, "f", text).map(|g| format!("{g:?}")).unwrap_err();
        assert!(why.starts_with("f") && parts.iter().all(|part| why.contains(part)), "{text:.80}: {why}");
    }
}

#[test]
fn slim_fly_has_diameter_two_and_the_papers_terminals() {
    for (q, degree, terminals) in [(3, 5, 3), (5, 7, 4), (7, 11, 6), (11, 17, 9), (13, 19, 10), (17, 25, 13)] {
        let t: AnyTopology = format!("slimfly:{q}").parse().unwrap();
        let sizes = (t.routers(), t.ports(), t.endpoints(), t.classes());
        assert_eq!(sizes, (2 * q * q, degree + terminals, 2 * q * q * terminals, Classes::Steps(2)));
    }
    assert!("slimfly:23".parse::<AnyTopology>().is_ok());
}

#[test]
fn random_graphs_depend_on_the_seed_only() {
    let of = |text: &str| match text.parse().unwrap() {
        AnyTopology::Graph(graph) => graph,
        other => panic!("{other}"),
    };
    let g = of("random:12,3,2,9");
    assert_eq!(g, of("random:12,3,2,9"));
    assert_ne!(g.wiring.digest(), of("random:12,3,2,8").wiring.digest());
    assert_eq!(of("random:12,3,2").to_string(), "random:12,3,2,1");
    assert!((0..12).all(|r| g.wiring.degree(r) == 3));
}

#[test]
fn tables_are_checked() {
    let ring = Graph::of("graph", "f", "terminals 1\n0 1\n1 2\n2 3\n3 0").unwrap();
    let round = |class: &dyn Fn(u32, u32) -> String| {
        let pairs = (0..4).flat_map(|s| (0..4).map(move |d| (s, d))).filter(|(s, d)| s != d);
        pairs.map(|(s, d)| format!("{s} {d} {}{}\n", (s + 1) % 4, class(s, d))).collect::<String>()
    };
    let why = ring.with_table_of("t", &round(&|_, _| String::new())).unwrap_err();
    assert!(why.contains("in a circle, router 0 → router 1, router 1 → router 2"), "{why}");
    // A dateline: before the link from 3 to 0 class 0, after it class 1.
    let dateline = ring.with_table_of("t", &round(&|s, d| String::from(if s < d { " 1" } else { " 0" }))).unwrap();
    assert_eq!(dateline.classes(), Classes::Steps(2));
    sound(&dateline);
    assert_eq!(walk(&dateline, 0, 3, 7).0, [0, 1, 2, 3]);
    let two = Graph::of("graph", "f", "terminals 1\na b\nb c").unwrap();
    let fine = "a b b\na c port 0\nb a a\nb c c\nc a b\nc b b\n";
    sound(&two.with_table_of("t", fine).unwrap());
    assert_ne!(two, two.with_table_of("t", fine).unwrap());
    for (text, part) in [
        ("a b b", "no line from router `a` to `c`; add one"),
        ("a b c", "line 1: router `a` has no link to `c`"),
        ("a x b", "no router `x`; names are those of the graph"),
        ("a b port 1", "port `1`: no link of router `a` has it"),
        ("a b", "write ROUTER DESTINATION NEXT"),
        ("a a b", "router `a` is the destination"),
        ("a b b 32", "class `32`: give 0 to 31"),
        ("a b b 0 1", "`1` after the class"),
        ("a b b 0\nb a a", "line 2: no class, and line 1 has one"),
        ("a b b\na b b", "line 2: the same routers are in line 1 already"),
        ("a b b\na c b\nb a a\nb c a", "packets to router `c` go round by `a` → `b` → `a`"),
    ] {
        let why = two.with_table_of("t", text).map(|g| format!("{g:?}")).unwrap_err();
        assert!(why.contains(part), "{text}: {why}");
    }
}

/// Faults of a network, and the error with them.
fn refused(text: &str, faults: &[&str]) -> String {
    let faults: Vec<String> = faults.iter().map(|f| f.to_string()).collect();
    text.parse::<AnyTopology>()
        .unwrap()
        .with_faults(&faults, 1)
        .map(|_| String::new())
        .unwrap_or_else(|e| e.to_string())
}

#[test]
fn what_faults_leave_is_sound_and_keeps_its_names() {
    let networks: [(&str, &[&str]); 8] = [
        ("torus:4x4", &["link 0,0 +X down", "link (1,1) (1,2) down", "node 3,3 down"]),
        ("torus:2x3", &["link 0,0 1,0 down"]),
        ("mesh:5x4", &["10% links down"]),
        ("fat-tree:2,3", &["link rank 0 router 0 down 1 down", "node rank 1 router 2 down"]),
        ("clos:3,2,4", &["node spine 0 down", "link leaf 1 spine 2 down"]),
        ("dragonfly:2", &["link router 0 of group 0 router 1 of group 0 down", "5% links down"]),
        ("hyperx:3x3,2", &["node router 0 down", "link 1 2 down"]),
        ("cayley:13:1,5", &["node 0 down", "node 12 down"]),
    ];
    for (text, faults) in networks {
        let whole: AnyTopology = text.parse().unwrap();
        let faults: Vec<String> = faults.iter().map(|f| f.to_string()).collect();
        let left = whole.with_faults(&faults, 1).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_ne!(left, whole.with_faults(&[], 1).unwrap());
        assert_eq!((left.to_string(), left.router_name(1)), (text.to_string(), whole.router_name(1)));
        assert_eq!(super::super::contract::check(&*left), Ok(()), "{text}");
        for routing in [Routing::Minimal, Routing::Valiant, Routing::UpDown] {
            let AnyTopology::Graph(graph) = left.with_routing(routing).unwrap() else { panic!("a graph") };
            let ends: Vec<u32> = (0..graph.endpoints() as u32).filter(|&e| graph.is_up(e)).collect();
            for (&s, &d) in ends.iter().flat_map(|s| ends.iter().map(move |d| (s, d))) {
                walk(&graph, s, d, angara_fabric::rng::mix(u64::from(s * 977 + d)));
            }
            assert_eq!(circle(&graph, 4), None, "{text}");
        }
    }
    let torus: AnyTopology = "torus:2x3".parse().unwrap();
    let left = torus.with_faults(&["link 0,0 +X down".into()], 1).unwrap();
    // Two links join these routers.
    assert_eq!(left.output(0, 0), End::Open);
    assert_eq!((left.output(1, 1), left.output(0, 1)), (End::Open, End::Router { router: 1, port: 0 }));
}

#[test]
fn faults_that_cannot_be_are_refused_with_the_remedy() {
    for (text, faults, why) in [
        ("torus:4x4", &["link 0,0 9,9 down"][..], "(0,0) has no link `9,9`; it has +X to (1,0)"),
        ("torus:4x4", &["link 7,7 +X down"], "there is no router `7,7`; they are called (0,0) to (3,3)"),
        ("torus:4x4", &["link 0,0 2,2 down"], "no link `2,2`"),
        ("torus:4x4", &["node 0,0 down @2us"], "leave the time out"),
        ("torus:4x4", &["link 0,0 +X corrupt=1%"], "use router angara"),
        ("torus:4x4", &["node 0,0 up"], "'2% links down'"),
        ("torus:4x4", &["200% links down"], "is no share"),
        ("torus:4x4", &["2% links down", "3% links down"], "drawn already"),
        ("mesh:3", &["link 0 1 down"], "4 pairs of endpoints have no way to each other: 0 and 1, 0 and 2; give fewer"),
        ("mesh:3x3", &["50% links down"], "pairs of endpoints"),
        ("mesh:2", &["node 0 down", "node 1 down"], "every endpoint's router is down"),
        ("torus:32x32x8", &["node 0,0,0 down"], "8192 routers"),
    ] {
        let error = refused(text, faults);
        assert!(error.contains(why), "{text} {faults:?}: {error}");
    }
    assert_eq!(refused("mesh:3", &["node 1 down", "node 0 down"]), "");
    assert!(refused("mesh:3", &["node 1 down"]).contains("2 pairs of endpoints have no way to each other: 0 and 2;"));
}

#[test]
fn any_network_takes_ways_of_graphs_and_a_table() {
    let torus: AnyTopology = "torus:3x3".parse().unwrap();
    assert_eq!(torus.with_routing(Routing::UpDown).unwrap().routing(), Routing::UpDown);
    assert!(torus.with_routing(Routing::Nca).is_err());
    let AnyTopology::Graph(mesh) = "mesh:3".parse::<AnyTopology>().unwrap().with_faults(&[], 1).unwrap() else {
        panic!("a graph")
    };
    let lines = "0 1 1\n0 2 port 0\n1 0 port 1\n1 2 2\n2 0 1\n2 1 1";
    let table = mesh.with_table_of("t", lines).unwrap();
    assert_eq!(walk(&table, 0, 2, 1).0, [0, 1, 2]);
    assert!(mesh.with_table_of("t", &lines.replace("port 0", "port 1")).err().unwrap().contains("no link of router"));
}
