//! What faults leave of any network of generic routers.

use super::*;
use oracle::generic::left;
use std::collections::{BTreeMap, BTreeSet};

/// Some links and routers of a network that are down, by `seed`, and the same in the model's words. A share of links
/// is drawn by both.
fn downs(shape: &AnyTopology, net: &dyn oracle::generic::Net, seed: u64, share: bool) -> (left::Down, Vec<String>) {
    let links = left::links(net, &|r, p| is_open(shape, r, p));
    let r = |n: u64, below_: u64| below(mix(seed ^ mix(n)), below_) as usize;
    let (mut down, mut texts) = (left::Down::default(), Vec::new());
    if share {
        let percent = r(0, 30) as u64;
        down.links = left::drawn(links.clone(), ((links.len() as u64 * percent + 50) / 100) as usize, seed);
        texts.push(format!("{percent}% links down"));
    } else {
        for i in 0..r(1, 5).min(links.len()) {
            let (router, port) = links[r(10 + i as u64, links.len() as u64)];
            down.links.push((router, port));
            texts.push(format!("link {} {} down", shape.router_name(router as u32), shape.port_name(port as u8)));
        }
    }
    for i in 0..r(2, 3) {
        let router = r(20 + i as u64, shape.routers() as u64);
        down.routers.push(router);
        texts.push(format!("node {} down", shape.router_name(router as u32)));
    }
    (down, texts)
}

fn is_open(shape: &AnyTopology, router: usize, port: usize) -> bool {
    shape.output(router as u32, port as u8) == topology::End::Open
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn what_faults_leave_of_any_network_agrees_with_the_oracle(
        shape in any_shape(),
        (way, routing) in prop::sample::select(vec![
            (Way::Minimal, topology::Routing::Minimal),
            (Way::Valiant, topology::Routing::Valiant),
            (Way::UpDown, topology::Routing::UpDown),
        ]),
        share in any::<bool>(),
        half_vcs in half_vcs(),
        longest in prop::sample::select(vec![1u64, 2, 5, 16]),
        spare in 0u16..12,
        wormhole in prop::sample::select(vec![None, Some(false), Some(true)]),
        load in 1u64..12,
        hot in any::<bool>(),
        seed in any::<u64>(),
    ) {
        if shape.to_string().starts_with("fly:") {
            let refused = shape.with_faults(&[], seed).unwrap_err().to_string();
            prop_assert!(refused.contains("one direction"), "{}", refused);
            return Ok(());
        }
        let net = oracle::generic::read(&shape.to_string());
        let (down, texts) = downs(&shape, &*net, seed, share);
        let net = left::of(net, &|r, p| is_open(&shape, r, p), &down, way);
        let left = shape.with_faults(&texts, seed);
        prop_assert_eq!(net.is_some(), left.is_ok(), "{:?} of {}: {:?}", texts, shape, left);
        let (Some(net), Ok(left)) = (net, left) else {
            return Ok(());
        };
        let left = left.with_routing(routing).unwrap();
        let classes = left.classes().count();
        prop_assume!(classes <= VCS_MAX.into());
        let switching = wormhole.map_or(Switching::CutThrough, |hold| Switching::Wormhole { hold });
        let buffer_flits = spare + if wormhole.is_none() { longest as u16 } else { 1 };
        let vcs = classes.max(2 * half_vcs as u32) as u8;
        let g = Generic { vcs, buffer_flits, packet_flits_max: longest as u16, cycle: 1000, switching, ..Generic::default() };
        let endpoints = shape.endpoints() as u64;
        let config = Setup { shape: left.clone(), profile: Profile::Generic(g), seed, faults: Vec::new(), sets: Vec::new() };
        let lengths: Vec<u64> = (1..=longest).collect();
        let all = traffic(seed, endpoints, 40 * endpoints.min(20), &lengths, longest * 1000 * 6 / load, hot);
        let lives = |s: &Sent| [s.src, s.dst].iter().all(|&e| !down.routers.contains(&(shape.attach(e).0 as usize)));
        // Packets that are dropped are not counted among those of their sources.
        let (sent, dropped): (Vec<Sent>, Vec<Sent>) = all.into_iter().partition(lives);
        let p = parameters_of(net, &config, &sent);
        let want = match wormhole {
            None => oracle::generic::run(&p, &sent, 1000),
            Some(hold) => oracle::wormhole::run(&p, hold, &sent, 1000),
        };
        let kept = sent.len();
        let all: Vec<Sent> = sent.into_iter().chain(dropped).collect();
        let fate = fate_in_model(&config, &all, 1000);
        prop_assert_eq!(fate.received, want);
        let expected: Vec<(usize, u64)> = (kept..all.len()).map(|i| (i, all[i].at.div_ceil(1000) * 1000)).collect();
        prop_assert_eq!(fate.dropped, expected);
    }
}

/// What goes down under way, each time a little more, in the model's words, and what the oracle is to know of it. None if
/// endpoints cannot reach each other then.
fn downs_under_way(
    shape: &AnyTopology,
    way: Way,
    times: &[u64],
    seed: u64,
) -> Option<(Vec<String>, Vec<oracle::generic::Change>)> {
    let open = |r: usize, p: usize| is_open(shape, r, p);
    let whole = || oracle::generic::read(&shape.to_string());
    let gone = |down: &left::Down, r: usize, p: usize| -> bool {
        let ends = match whole().far(r, p) {
            oracle::generic::Far::Router(to, back) => vec![(r, p), (to, back)],
            oracle::generic::Far::Endpoint(_) => vec![(r, p)],
        };
        ends.iter().any(|end| down.links.contains(end) || down.routers.contains(&end.0))
    };
    let mut down = left::Down::default();
    let (mut texts, mut changes) = (Vec::new(), Vec::new());
    for (i, &cycle) in times.iter().collect::<BTreeSet<_>>().into_iter().enumerate() {
        let (more, words) = downs(shape, &*whole(), seed ^ mix(1000 + i as u64), false);
        if words.is_empty() {
            continue;
        }
        texts.extend(words.iter().map(|text| format!("{text} @{cycle}ns")));
        let before = down.clone();
        down.links.extend(more.links);
        down.routers.extend(more.routers);
        let places = (0..shape.routers()).flat_map(|r| (0..shape.ports()).map(move |p| (r, p)));
        let closed = places.filter(|&(r, p)| !open(r, p) && gone(&down, r, p) && !gone(&before, r, p)).collect();
        let is_down = |&e: &u32| down.routers.contains(&(shape.attach(e).0 as usize));
        let ends = (0..shape.endpoints() as u32).filter(is_down).collect();
        let net = left::of(whole(), &open, &down, way)?;
        changes.push(oracle::generic::Change { cycle, net, closed, down: ends });
    }
    Some((texts, changes))
}

/// Rates of links from the beginning, and later ones with their cycles.
type Rates = (BTreeMap<(usize, usize), u64>, Vec<(u64, (usize, usize), u64)>);

/// Rates of some links of a network, by `seed`, and the same in the model's words; some come `later`.
fn rates(shape: &AnyTopology, seed: u64, later: bool) -> (Rates, Vec<String>) {
    let places = (0..shape.routers()).flat_map(|r| (0..shape.ports()).map(move |p| (r, p)));
    let leads = |&(r, p): &(usize, usize)| matches!(shape.output(r as u32, p as u8), topology::End::Router { .. });
    let directions: Vec<(usize, usize)> = places.filter(leads).collect();
    let r = |n: u64, below_: u64| below(mix(seed ^ mix(n)), below_) as usize;
    let (mut all, mut changes, mut texts) = (BTreeMap::new(), Vec::new(), Vec::new());
    for i in 0..r(1, 8).min(directions.len()) * (1 + 2 * usize::from(later)) {
        let (router, port) = directions[r(10 + i as u64, directions.len() as u64)];
        let ppm = [10_000, 100_000, 250_000, 333_333, 500_000, 700_000, 999_999, 1_000_000][r(50 + i as u64, 8)];
        let (router_name, port_name) = (shape.router_name(router as u32), shape.port_name(port as u8));
        let text = format!("link {router_name} {port_name} rate={ppm}ppm");
        let cycle = r(200 + i as u64, 400) as u64;
        if later && cycle > 0 && r(300 + i as u64, 3) > 0 {
            texts.push(format!("{text} @{cycle}ns"));
            changes.push((cycle, (router, port), ppm));
        } else {
            texts.push(text);
            all.insert((router, port), ppm);
        }
    }
    changes.sort_by_key(|change| change.0);
    ((all, changes), texts)
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn slow_links_of_any_network_agree_with_the_oracle(
        (shape, adapts) in any_shape().prop_flat_map(|shape| (Just(shape), any::<bool>())),
        half_vcs in half_vcs(),
        longest in prop::sample::select(vec![1u64, 1, 2, 5, 16]),
        spare in 0u16..12,
        wormhole in prop::sample::select(vec![None, Some(false), Some(true)]),
        (link, ends) in slower(),
        load in 1u64..12,
        hot in any::<bool>(),
        threads in 1usize..4,
        later in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let shape = match shape.with_routing(topology::Routing::Adaptive) {
            Ok(adaptive) if adapts && wormhole.is_none() => adaptive,
            _ => shape,
        };
        let switching = wormhole.map_or(Switching::CutThrough, |hold| Switching::Wormhole { hold });
        let net = if shape.routing() == topology::Routing::Adaptive {
            oracle::generic::read_adaptive(&shape.to_string())
        } else {
            oracle::generic::read(&shape.to_string())
        };
        let ((rates, rates_later), texts) = rates(&shape, seed, later);
        let least = shape.classes().count() + if shape.routing() == topology::Routing::Adaptive { 1 } else { 0 };
        let vcs = least.max(2 * half_vcs as u32) as u8;
        prop_assume!(vcs <= VCS_MAX);
        let g = Generic {
            vcs,
            buffer_flits: spare + if wormhole.is_none() { longest as u16 } else { 1 },
            packet_flits_max: longest as u16,
            cycle: 1000,
            switching,
            link,
            ends,
            ..Generic::default()
        };
        let config = Setup { shape: shape.clone(), profile: Profile::Generic(g), seed, faults: texts, sets: Vec::new() };
        let lengths: Vec<u64> = (1..=longest).collect();
        let endpoints = shape.endpoints() as u64;
        let sent = traffic(seed, endpoints, 40 * endpoints.min(20), &lengths, longest * 1000 * 6 / load, hot);
        let p = oracle::generic::Parameters { rates, rates_later, ..parameters_of(net, &config, &sent) };
        let want = match wormhole {
            None => oracle::generic::run(&p, &sent, 1000),
            Some(hold) => oracle::wormhole::run(&p, hold, &sent, 1000),
        };
        prop_assert_eq!(run_model_in(&config, &sent, 1000, threads), want, "{:?}", config.faults);
    }

    #[test]
    fn faults_under_way_agree_with_the_oracle(
        shape in any_shape(),
        (way, routing) in prop::sample::select(vec![
            (Way::Minimal, topology::Routing::Minimal),
            (Way::Valiant, topology::Routing::Valiant),
            (Way::UpDown, topology::Routing::UpDown),
        ]),
        times in prop::collection::vec(0u64..400, 1..4),
        half_vcs in half_vcs(),
        longest in prop::sample::select(vec![1u64, 2, 5, 16]),
        spare in 0u16..12,
        (slow, later) in any::<(bool, bool)>(),
        wormhole in prop::sample::select(vec![None, Some(false), Some(true)]),
        load in 1u64..12,
        // With few, the last packet that is under way is often a lost one.
        each in prop::sample::select(vec![1u64, 4, 40]),
        hot in any::<bool>(),
        threads in 1usize..4,
        seed in any::<u64>(),
    ) {
        prop_assume!(!shape.to_string().starts_with("fly:"));
        let Ok(first) = shape.with_faults(&[], seed) else { return Ok(()) };
        let first = first.with_routing(routing).unwrap();
        let Some((mut texts, changes)) = downs_under_way(&shape, way, &times, seed) else { return Ok(()) };
        let ((rates, rates_later), slower) = if slow { rates(&shape, seed, later) } else { Default::default() };
        texts.extend(slower);
        let Ok(later) = first.left_later(&texts, seed) else { return Ok(()) };
        let classes = later.iter().map(|(_, left)| left.classes().count()).chain([first.classes().count()]).max();
        let classes = classes.unwrap();
        prop_assume!(classes <= VCS_MAX.into());
        let g = Generic {
            vcs: classes.max(2 * half_vcs as u32) as u8,
            buffer_flits: spare + if wormhole.is_none() { longest as u16 } else { 1 },
            packet_flits_max: longest as u16,
            cycle: 1000,
            switching: wormhole.map_or(Switching::CutThrough, |hold| Switching::Wormhole { hold }),
            ..Generic::default()
        };
        let config = Setup { shape: first, profile: Profile::Generic(g), seed, faults: texts, sets: Vec::new() };
        let endpoints = shape.endpoints() as u64;
        let lengths: Vec<u64> = (1..=longest).collect();
        let sent = traffic(seed, endpoints, each * endpoints.min(20), &lengths, longest * 1000 * 6 / load, hot);
        let whole = oracle::generic::read(&shape.to_string());
        let net = left::of(whole, &|r, p| is_open(&shape, r, p), &left::Down::default(), way).unwrap();
        // Packets that are given to endpoints that are down are not counted among those of their sources.
        let late = |s: &Sent| {
            let mut downs = changes.iter().filter(|change| change.down.iter().any(|e| [s.src, s.dst].contains(e)));
            downs.next().is_some_and(|change| s.at >= change.cycle * 1000)
        };
        let (sent, dropped): (Vec<Sent>, Vec<Sent>) = sent.into_iter().partition(|s| !late(s));
        let mut p = oracle::generic::Parameters { rates, rates_later, changes, ..parameters_of(net, &config, &sent) };
        p.words.resize(sent.len() + dropped.len(), 0);
        let sent: Vec<Sent> = sent.into_iter().chain(dropped).collect();
        let (received, dropped) = match wormhole {
            None => oracle::generic::run_with_changes(&p, &sent, 1000),
            Some(hold) => oracle::wormhole::run_with_changes(&p, hold, &sent, 1000),
        };
        let model = Network::with_threads(&config, threads).unwrap();
        let (got, want) = (fate_in(model, &shape, &sent, 1000), Fate { received, dropped, ..Fate::default() });
        prop_assert!(got == want, "{:?}\n{}", config.faults, differences(&sent, &got, &want));
    }
}
