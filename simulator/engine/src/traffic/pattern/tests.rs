//! Destinations of every pattern, counted.

use super::*;

fn prepared(text: &str, layout: &Layout) -> Destinations {
    text.parse::<Pattern>().unwrap().prepare(layout, 1).unwrap()
}

/// How often each endpoint is chosen by `from` in `draws` draws.
fn histogram(d: &Destinations, from: u32, draws: usize) -> Vec<usize> {
    let mut stream = Stream::new(1, from, Purpose::Destination);
    let mut counts = vec![0; d.endpoints as usize];
    for _ in 0..draws {
        counts[d.pick(from, &mut stream).unwrap() as usize] += 1;
    }
    counts
}

fn chosen(d: &Destinations, from: u32) -> BTreeSet<u32> {
    let counts = histogram(d, from, 4000);
    (0..d.endpoints).filter(|&i| counts[i as usize] > 0).collect()
}

fn to(text: &str, layout: &Layout, from: u32) -> u32 {
    prepared(text, layout).pick(from, &mut Stream::new(1, 0, Purpose::Destination)).unwrap()
}

#[test]
fn sphere_sizes() {
    let known: [(u32, &[usize]); 2] = [(8, &[6, 24, 62, 125, 209, 301]), (16, &[6, 24, 62, 128, 230, 376, 574, 829])];
    for (n, sizes) in known {
        let layout = Layout::torus(&[n, n, n]);
        for (radius, &size) in (1..).zip(sizes) {
            assert_eq!(sphere(&layout, radius).len(), size, "{n}^3, radius {radius}");
        }
    }
    assert_eq!(sphere(&Layout::torus(&[8, 8, 8]), 12).len(), 511, "the whole torus");
}

#[test]
fn a_sphere_holds_exactly_what_is_near() {
    let shared = [Layout::torus(&[4, 3]).with_endpoints(3), Layout::mesh(&[3, 4]).with_endpoints(2)];
    for layout in [Layout::torus(&[5, 4, 2]), Layout::mesh(&[4, 5])].into_iter().chain(shared) {
        for radius in 1..4 {
            let d = prepared(&format!("local:{radius},1"), &layout);
            for from in [0, 7, layout.endpoints() - 1] {
                let near: BTreeSet<u32> =
                    (0..layout.endpoints()).filter(|&i| i != from && layout.distance(from, i) <= radius).collect();
                assert_eq!(chosen(&d, from), near, "{layout:?} radius {radius} from {from}");
            }
        }
    }
}

#[test]
fn patterns_of_coordinates_keep_the_place_at_a_router() {
    // Endpoint 4·(x + 8·y) + slot.
    let layout = "torus:8x8,c=4".parse::<angara_model::AnyTopology>().unwrap().layout();
    let from = 4 * (1 + 8 * 6) + 3;
    for (pattern, x, y) in [("transpose", 6, 1), ("neighbor", 2, 7), ("tornado", 4, 1), ("opposite", 5, 2)] {
        assert_eq!(to(pattern, &layout, from), 4 * (x + 8 * y) + 3, "{pattern}");
    }
    assert_eq!(chosen(&prepared("halo", &layout), from).len(), 3 + 4 * 4);
}

#[test]
fn locality_in_a_tree_is_its_subtree() {
    let layout = Layout::tree(4, 3);
    assert_eq!(chosen(&prepared("local:1,1", &layout), 6), BTreeSet::from([4, 5, 7]));
    assert_eq!(chosen(&prepared("local:2,1", &layout), 17).len(), 15);
    assert_eq!(chosen(&prepared("local:9,1", &layout), 17).len(), 63);
}

#[test]
fn the_share_of_local_messages_is_kept() {
    let layout = Layout::torus(&[8, 8, 8]);
    let counts = histogram(&prepared("local:1,0.6", &layout), 0, 50_000);
    let near: usize = (1..512).filter(|&i| layout.distance(0, i) == 1).map(|i| counts[i as usize]).sum();
    let expected = 0.6 + 0.4 * 6.0 / 512.0;
    assert!((near as f64 / 50_000.0 - expected).abs() < 0.01, "{near}");
}

#[test]
fn uniform_traffic_reaches_everyone_equally() {
    let layout = Layout::torus(&[4, 4]);
    let all = histogram(&prepared("uniform", &layout), 5, 64_000);
    assert!(all.iter().all(|&c| (3600..4400).contains(&c)), "{all:?}");
    let others = histogram(&prepared("others", &layout), 5, 60_000);
    assert_eq!(others[5], 0);
    assert!(others.iter().enumerate().all(|(i, &c)| i == 5 || (3600..4400).contains(&c)), "{others:?}");
}

#[test]
fn the_hot_spot_gets_its_share() {
    let layout = Layout::torus(&[8, 8]);
    let counts = histogram(&prepared("hotspot:19,0.3", &layout), 0, 50_000);
    let expected = 0.3 + 0.7 / 64.0;
    assert!((counts[19] as f64 / 50_000.0 - expected).abs() < 0.01, "{}", counts[19]);
}

#[test]
fn every_hot_spot_gets_its_share() {
    let layout = Layout::torus(&[8, 8]);
    let counts = histogram(&prepared("hotspot:19,0.3,5,0.2,7,0", &layout), 0, 50_000);
    for (node, share) in [(19, 0.3), (5, 0.2), (7, 0.0), (8, 0.0)] {
        let expected = share + 0.5 / 64.0;
        assert!((counts[node] as f64 / 50_000.0 - expected).abs() < 0.01, "{node}: {}", counts[node]);
    }
}

#[test]
fn a_matrix_with_one_number_a_line_is_a_permutation() {
    let path = std::env::temp_dir().join(format!("angara-permutation-{}", std::process::id()));
    let layout = Layout::torus(&[4, 4]);
    let row =
        |from| (0..16).map(|i| u32::from(i == to("tornado", &layout, from)).to_string() + " ").collect::<String>();
    std::fs::write(&path, (0..16).map(|from| row(from) + "\n").collect::<String>()).unwrap();
    let text = format!("matrix:{}", path.display());
    let pattern: Pattern = text.parse().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(pattern.to_string(), text);
    let d = pattern.prepare(&layout, 1).unwrap();
    assert!((0..16).all(|from| chosen(&d, from) == BTreeSet::from([to("tornado", &layout, from)])));
}

#[test]
fn fft_stages_stay_in_their_row_and_column() {
    let layout = Layout::torus(&[8, 8]);
    assert_eq!(chosen(&prepared("fftrow:16", &layout), 18), (16..32).filter(|&i| i != 18).collect());
    assert_eq!(chosen(&prepared("fftcol:16", &layout), 18), BTreeSet::from([2, 34, 50]));
    let e = "fftrow:7".parse::<Pattern>().unwrap().prepare(&layout, 1).unwrap_err();
    assert!(e.to_string().contains("7 columns do not divide 64"), "{e}");
}

#[test]
fn a_row_of_one_sends_nothing() {
    let layout = Layout::torus(&[4]);
    assert_eq!(prepared("fftrow:1", &layout).pick(2, &mut Stream::new(1, 0, Purpose::Destination)), None);
}

#[test]
fn permutations_are_permutations() {
    let layout = Layout::torus(&[8, 8]);
    for text in ["tornado", "bitcomp", "transpose", "bitrev", "shuffle", "neighbor", "permutation"] {
        let all: BTreeSet<u32> = (0..64).map(|i| to(text, &layout, i)).collect();
        assert_eq!(all.len(), 64, "{text}");
    }
    let at = |text, x: u32, y: u32| layout.digits(to(text, &layout, x + 8 * y));
    assert_eq!(at("tornado", 6, 1), [1, 4]);
    assert_eq!(at("transpose", 6, 1), [1, 6]);
    assert_eq!(at("neighbor", 7, 1), [0, 2]);
    assert_eq!((to("bitcomp", &layout, 0), to("bitrev", &layout, 1), to("shuffle", &layout, 33)), (63, 32, 3));
}

#[test]
fn patterns_that_do_not_fit_say_why() {
    let refused =
        |text: &str, layout: &Layout| text.parse::<Pattern>().unwrap().prepare(layout, 1).unwrap_err().to_string();
    let odd = Layout::torus(&[3, 4]);
    assert!(refused("transpose", &odd).contains("backwards"));
    assert!(refused("bitrev", &odd).contains("power of two"));
    assert!(refused("hotspot:12,0.1", &odd).contains("the last one is 11"));
    assert!(refused("local:0,0.5", &odd).contains("at least 1"));
}

#[test]
fn forms_are_checked_and_shown_again() {
    for text in ["uniform", "hotspot:3,0.4", "hotspot:3,0.4,5,0.6", "local:2,0.6", "fftcol:16"] {
        assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
    }
    for text in ["hotspot", "hotspot:1", "hotspot:1,0.1,2", "local:a,0.1", "zigzag", "uniform:2"] {
        assert!(text.parse::<Pattern>().unwrap_err().to_string().contains("hotspot:NODE,SHARE"), "{text}");
    }
    assert!("hotspot:1,1.5".parse::<Pattern>().unwrap_err().to_string().contains("from 0 to 1"));
    assert!("hotspot:1,0.6,2,0.5".parse::<Pattern>().unwrap_err().to_string().contains("add up to 1.1"));
    assert!("hotspot:1,0.6,1,0.1".parse::<Pattern>().unwrap_err().to_string().contains("named twice"));
}

#[test]
fn more_permutations() {
    let (grid, tree) = (Layout::torus(&[4, 4]), Layout::tree(4, 2));
    assert_eq!((to("opposite", &grid, 0), to("opposite", &grid, 5)), (10, 15));
    assert_eq!((to("butterfly", &grid, 0b1000), to("butterfly", &grid, 0b0101)), (0b0001, 0b1100));
    assert_eq!(to("butterfly", &Layout::torus(&[2]), 1), 1);
    assert_eq!(chosen(&prepared("halo", &grid), 0), BTreeSet::from([1, 3, 4, 12]));
    assert_eq!(chosen(&prepared("halo", &tree), 5), BTreeSet::from([4, 6, 7]));
    for text in ["opposite", "butterfly", "tornado", "shuffle", "bitrev", "transpose", "bitcomp", "neighbor"] {
        let all: BTreeSet<u32> = (0..16).map(|from| to(text, &grid, from)).collect();
        assert_eq!(all.len(), 16, "{text} is a permutation");
    }
}

#[test]
fn bad_traffic_of_a_dragonfly_goes_to_the_next_group() {
    let layout: angara_model::AnyTopology = "dragonfly:2".parse().unwrap();
    let d = prepared("bad-dragon", &layout.layout());
    assert_eq!(chosen(&d, 3), (8..16).collect());
    assert_eq!(chosen(&d, 71), (0..8).collect());
    assert!("bad-dragon".parse::<Pattern>().unwrap().prepare(&Layout::torus(&[4, 4]), 1).is_err());
}
