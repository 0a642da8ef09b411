//! Properties of shapes, nodes and directions, and of their readers.

use angara_net::torus::{Direction, NODES_MAX, Shape};
use proptest::prelude::*;
use proptest::sample::select;

fn direction() -> impl Strategy<Value = Direction> {
    select(&Direction::ALL[..])
}

proptest! {
    #[test]
    fn shapes_round_trip_through_text(dims in proptest::collection::vec(1..=13u8, 1..=4), wrap: bool) {
        let shape = Shape::new(&dims, wrap).expect("at most 13^4 nodes");
        prop_assert_eq!(shape.to_string().parse::<Shape>(), Ok(shape));
        let json = serde_json::to_string(&shape).expect("a string");
        prop_assert_eq!(serde_json::from_str::<Shape>(&json).expect("own output"), shape);
    }

    #[test]
    fn node_ids_and_coordinates_are_one_to_one(dims in proptest::collection::vec(1..=13u8, 1..=4), wrap: bool, at: u32) {
        let shape = Shape::new(&dims, wrap).expect("at most 13^4 nodes");
        let id = at % shape.nodes() as u32;
        let coords = shape.coords(id);
        prop_assert_eq!(shape.id(coords), Some(id));
        prop_assert_eq!(shape.parse_coords(&shape.show(coords)), Ok(coords));
    }

    #[test]
    fn neighbours_are_mutual_and_one_hop_away(dims in proptest::collection::vec(1..=9u8, 1..=4), wrap: bool, at: u32) {
        let shape = Shape::new(&dims, wrap).expect("at most 9^4 nodes");
        let id = at % shape.nodes() as u32;
        for dir in Direction::ALL {
            if let Some(next) = shape.neighbour(id, dir) {
                prop_assert_eq!(shape.neighbour(next, dir.opposite()), Some(id));
                prop_assert_eq!(shape.distance(id, next), 1);
            } else {
                prop_assert!(shape.size(dir.dim()) == 1 || !wrap);
            }
        }
    }

    #[test]
    fn distance_is_a_metric(dims in proptest::collection::vec(1..=9u8, 1..=4), wrap: bool, at: [u32; 3]) {
        let shape = Shape::new(&dims, wrap).expect("at most 9^4 nodes");
        let [a, b, c] = at.map(|n| n % shape.nodes() as u32);
        prop_assert_eq!(shape.distance(a, b), shape.distance(b, a));
        prop_assert_eq!(shape.distance(a, b) == 0, a == b);
        prop_assert!(shape.distance(a, c) <= shape.distance(a, b) + shape.distance(b, c));
    }

    #[test]
    fn the_default_torus_has_room(nodes in 1..=NODES_MAX) {
        let shape = Shape::most_cubic(nodes);
        prop_assert!(shape.nodes() >= nodes && shape.is_torus());
        prop_assert!(shape.dims().windows(2).all(|w| w[0] >= w[1]), "{} is not sorted", shape);
    }

    #[test]
    fn directions_round_trip(d in direction()) {
        prop_assert_eq!(d.to_string().parse::<Direction>(), Ok(d));
        prop_assert_eq!(Direction::from_index(d.index()), Some(d));
        prop_assert_eq!(Direction::new(d.dim(), d.is_plus()), d);
        prop_assert_eq!(d.opposite().opposite(), d);
        prop_assert_eq!(d.bit().trailing_zeros() as usize, d.index());
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "\\PC{0,24}|[0-9x:,+meshtoru-]{0,24}") {
        if let Ok(shape) = text.parse::<Shape>() {
            prop_assert!(shape.nodes() <= NODES_MAX);
        }
        let _ = text.parse::<Direction>();
        let _ = Shape::most_cubic(8).parse_coords(&text);
    }
}

#[test]
fn coordinates_are_as_many_as_dimensions() {
    let shape: Shape = "3x3x4".parse().expect("a shape");
    assert_eq!(shape.parse_coords("1,1,2").map(|c| c.0), Ok([1, 1, 2, 0]));
    for text in ["1,1", "1", "1,1,0,0", "1,1,0,0,0"] {
        let e = shape.parse_coords(text).expect_err(text).to_string();
        assert!(e.contains(text) && e.contains("3x3x4 has 3 dimensions"), "{e}");
    }
    for text in ["1,1,4", "1,1,x", "", "1,,1"] {
        let e = shape.parse_coords(text).expect_err(text).to_string();
        assert!(e.contains("are not in 3x3x4"), "{e}");
    }
}
