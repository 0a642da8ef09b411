//! What tells curves apart: colour, dashes and the shape of marks.

use plotters::prelude::RGBColor;

/// Colours of the curves in order; readable on white and distinguishable by colour-blind readers. Curves of one colour
/// differ in dashes and marks.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
    RGBColor(148, 103, 189),
];

/// Lengths of strokes and gaps in turn, of the first eight curves, the next eight and so on.
const DASHES: [&[i32]; 5] = [&[], &[8, 4], &[2, 3], &[10, 3, 2, 3], &[16, 5]];

/// Shapes of marks. Eight curves on, another one comes.
const SHAPES: usize = 5;

/// Gnuplot's numbers of the shapes: filled and hollow.
const POINT_TYPES: [(u8, u8); SHAPES] = [(7, 6), (5, 4), (9, 8), (13, 12), (11, 10)];

/// Distance from a mark's centre to its edge, about.
const MARK: f64 = 4.0;

pub(super) fn colour(i: usize) -> RGBColor {
    COLOURS[i % COLOURS.len()]
}

/// Lengths of the strokes and gaps of curve `i`; none if it has no gaps.
pub(super) fn dash(i: usize) -> &'static [i32] {
    DASHES[i / COLOURS.len() % DASHES.len()]
}

/// Gnuplot's numbers of the mark of curve `i`: filled and hollow.
pub(super) fn point_types(i: usize) -> (u8, u8) {
    POINT_TYPES[i % SHAPES]
}

/// Outline of the mark of curve `i` around a place: circle, square, triangle, diamond or triangle upside down.
pub(super) fn mark(i: usize, at: (i32, i32)) -> Vec<(i32, i32)> {
    let mut corners: Vec<(f64, f64)> = match i % SHAPES {
        0 => (0..16).map(|k| (f64::from(k) * std::f64::consts::TAU / 16.0).sin_cos()).collect(),
        1 => vec![(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        2 => vec![(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
        3 => vec![(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        _ => vec![(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
    };
    corners.push(corners[0]);
    let point = |(x, y): &(f64, f64)| (at.0 + (x * MARK).round() as i32, at.1 + (y * MARK).round() as i32);
    corners.iter().map(point).collect()
}

/// The line through `points` in the strokes of curve `i`.
pub(super) fn strokes(i: usize, points: &[(i32, i32)]) -> Vec<Vec<(i32, i32)>> {
    let pattern = dash(i);
    if pattern.is_empty() {
        return vec![points.to_vec()];
    }
    let (mut turn, mut left) = (0, f64::from(pattern[0]));
    let mut done = Vec::new();
    let mut stroke: Vec<(i32, i32)> = points.first().copied().into_iter().collect();
    for ends in points.windows(2) {
        let [from, to] = [ends[0], ends[1]].map(|(x, y)| (f64::from(x), f64::from(y)));
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let mut at = 0.0;
        while length - at > left {
            at += left;
            let share = at / length;
            let here = (from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1));
            let here = (here.0.round() as i32, here.1.round() as i32);
            if turn % 2 == 0 {
                stroke.push(here);
                done.push(std::mem::take(&mut stroke));
            } else {
                stroke = vec![here];
            }
            turn = (turn + 1) % pattern.len();
            left = f64::from(pattern[turn]);
        }
        left -= length - at;
        if turn % 2 == 0 {
            stroke.push(ends[1]);
        }
    }
    done.extend((stroke.len() > 1).then_some(stroke));
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_of_forty_curves_look_the_same() {
        let lines: BTreeSet<_> = (0..40).map(|i| (i % COLOURS.len(), dash(i))).collect();
        let marks: BTreeSet<_> = (0..40).map(|i| (i % COLOURS.len(), mark(i, (0, 0)))).collect();
        let points: BTreeSet<_> = (0..40).map(|i| (i % COLOURS.len(), point_types(i))).collect();
        assert_eq!((lines.len(), marks.len(), points.len()), (40, 40, 40));
    }

    #[test]
    fn strokes_go_round_corners_and_leave_gaps() {
        let line = [(0, 0), (10, 0), (10, 30)];
        assert_eq!(strokes(0, &line), [line.to_vec()]);
        // 8 on, 4 off: 0 to 8, 12 to 20, 24 to 32, 36 to 40.
        let expected: [&[(i32, i32)]; 4] =
            [&[(0, 0), (8, 0)], &[(10, 2), (10, 10)], &[(10, 14), (10, 22)], &[(10, 26), (10, 30)]];
        assert_eq!(strokes(8, &line), expected);
        assert_eq!(strokes(8, &[(0, 0), (6, 0), (6, 6)])[0], [(0, 0), (6, 0), (6, 2)]);
        assert!(strokes(8, &[]).is_empty() && strokes(8, &[(1, 1)]).is_empty());
        assert!(strokes(8, &[(1, 1), (1, 1)]).len() <= 1);
    }
}
