//! Section 6: communication of matrix multiplication (paper 003), against the closed model of
//! [`plan::matmul`](angara_sim::plan::matmul).

use super::claim::{Claim, Judgement};
use angara_sim::plan::matmul::analysis::{Units, levels, size, threshold};
use angara_sim::plan::matmul::formulas::{
    Sizes, Split, optimal_words, random_penalty, random_words, random_words_reused,
};
use angara_sim::plan::matmul::machine::Machine;
use angara_sim::plan::matmul::zip3::{Placement, fraction, measure, module, split, zip3};
use angara_sim::plan::matmul::{htmt, ksection};
use angara_sim::table::number;

/// Mega-words of the paper.
const MEGA: f64 = 1_048_576.0;

pub(super) fn claims() -> Vec<Claim> {
    let mut all = vec![table1()];
    all.extend(table2());
    all.extend(table3());
    all.extend([threshold_row(), balance()]);
    all.extend(formulas());
    all.extend(zip3_rows());
    all.extend(k_section());
    all.extend(htmt_rows());
    all
}

/// A claim that some numbers have the expected values; `tolerance` is absolute.
fn equal(id: &str, claim: &str, expected: &[f64], found: Vec<f64>, tolerance: f64) -> Claim {
    let shown = |v: &[f64]| v.iter().map(|v| number(*v, 5)).collect::<Vec<_>>().join(", ");
    let demand = shown(expected);
    let met = expected.len() == found.len() && expected.iter().zip(&found).all(|(a, b)| (a - b).abs() <= tolerance);
    let measured = shown(&found);
    Claim::new(format!("6.{id}"), claim, demand, Vec::new(), move |_| Judgement::new(met, measured.clone()))
}

fn table1() -> Claim {
    let m = Machine::merrimac();
    let found = (0..m.levels.len()).map(|l| m.per_node(l)).collect();
    let claim = "table 1: outside GB/s of FPU, cluster, node, board, rack, times components per node";
    equal("table1", claim, &[512.0, 64.0, 20.0, 5.0, 2.5], found, 1e-9)
}

fn table2() -> Vec<Claim> {
    let known: [(&str, [f64; 10]); 5] = [
        ("FPU", [524_288.0, 1.0, 64.0, 64.0, 128.0, 256.0, 256.0, 0.5, 0.512, 1.058]),
        ("cluster", [131_072.0, 0.5, 32.0, 64.0, 64.0, 160.0, 160.0, 2.5, 2.560, 1.050]),
        ("node", [8_192.0, 2.5, 16.0, 16.0, 32.0, 64.0, 64.0, 3.2, 3.277, 1.058]),
        ("board", [512.0, 10.0, 8.0, 8.0, 8.0, 24.0, 24.0, 4.8, 4.915, 1.0]),
        ("rack", [16.0, 160.0, 2.0, 2.0, 4.0, 8.0, 8.0, 3.2, 3.277, 1.058]),
    ];
    let m = Machine::merrimac();
    let rows = |units| levels(&m, 1024, units).expect("the paper's own size");
    let (binary, decimal) = (rows(Units::Binary), rows(Units::Decimal));
    let row = |(i, (name, expected)): (usize, (&str, [f64; 10]))| {
        let (b, d) = (&binary[i], &decimal[i]);
        let [x, y, z] = b.split.map(|k| k as f64);
        let sum = x + y + z;
        let found = vec![b.components as f64, b.gwords, x, y, z, sum, b.words / MEGA, b.time_us, d.time_us, b.ratio];
        let claim =
            format!("table 2, N = 1024, {name}: K, Gw/s, split, its sum, S Mw, T µs, T in SI, S over its bound");
        equal(&format!("table2.{name}"), &claim, &expected, found, 5e-4)
    };
    known.into_iter().enumerate().map(row).collect()
}

fn table3() -> Vec<Claim> {
    let known = [
        (256, [0.03125, 0.3, 0.104]),
        (512, [0.25, 1.2, 0.208]),
        (1024, [2.0, 4.8, 0.417]),
        (2048, [16.0, 19.2, 0.833]),
        (4096, [128.0, 76.8, 1.0]),
        (8192, [1024.0, 307.2, 1.0]),
    ];
    let row = |(n, expected): (u64, [f64; 3])| {
        let s = size(&Machine::merrimac(), n, Units::Binary).expect("the paper's own sizes");
        let found = vec![s.compute_us, s.communicate_us, s.petaflops];
        equal(&format!("table3.{n}"), &format!("table 3, N = {n}: T_COMP µs, T_COMM µs, PF"), &expected, found, 5e-4)
    };
    known.into_iter().map(row).collect::<Vec<_>>()
}

fn threshold_row() -> Claim {
    let t = threshold(&Machine::merrimac()).expect("a machine that fits");
    let claim = "smallest N, and power of two, with which the machine works at its peak";
    equal("threshold", claim, &[2458.0, 4096.0], vec![t.n as f64, t.power_of_two as f64], 0.0)
}

fn balance() -> Claim {
    let mut boards = Machine::merrimac();
    boards.levels[3].gbytes *= 1.5;
    let board = levels(&boards, 1024, Units::Binary).expect("the paper's own size")[3].time_us;
    let mut racks = Machine::merrimac();
    racks.levels[4].gbytes *= 0.7;
    let slow = levels(&racks, 1024, Units::Binary).expect("the paper's own size")[4].time_us;
    let whole = size(&racks, 1024, Units::Binary).expect("the paper's own size").communicate_us;
    let claim = "µs: board with links 1.5 times as fast (balanced with node and rack); rack with 0.7 of its bandwidth, \
                 and the machine then (unnoticed)";
    equal("balance", claim, &[3.2, 4.571, 4.8], vec![board, slow, whole], 5e-4)
}

fn formulas() -> Vec<Claim> {
    let (sizes, cut) = (Sizes([64, 128, 32]), Split([4, 8, 2]));
    let cube = Sizes::cube(1024);
    let bound = |k| optimal_words(cube, k) / MEGA;
    let m = Machine::merrimac();
    let fetched_once = 3.0 * 256.0 * 64.0 * (1.0 - (63.0f64 / 64.0).powi(16));
    let board = &levels(&m, 1024, Units::Decimal).expect("the paper's own size")[3];
    vec![
        equal(
            "formula2",
            "(2), (3): words of one module and of all, box 64 x 128 x 32 cut 4 x 8 x 2",
            &[768.0, 49_152.0],
            vec![cut.words_per_module(sizes), cut.words(sizes)],
            0.0,
        ),
        equal(
            "formula4",
            "(4), (6): bound 3∛K·N² in Mw for K = 512 and 4096, N = 1024",
            &[24.0, 48.0],
            vec![bound(512), bound(4096)],
            1e-9,
        ),
        equal(
            "formula5",
            "(5): N²(K0+K1+K2) in Mw of the split 8 x 8 x 8, N = 1024",
            &[24.0],
            vec![Split([8; 3]).words(cube) / MEGA],
            0.0,
        ),
        equal(
            "formula7",
            "(7): S/(K·BW) of the boards, µs: 24 Mi words, 512 boards, 10 Gw/s",
            &[24.0 * MEGA / 5_120.0 / 1000.0],
            vec![board.time_us],
            1e-9,
        ),
        equal(
            "formula8",
            "(8): 3N³(K-1)/K words, N = 16, K = 64; with operands fetched once 3N²K(1-(1-1/K)^N)",
            &[12_096.0, fetched_once],
            vec![random_words(Sizes::cube(16), 64), random_words_reused(Sizes::cube(16), 64)],
            1e-6,
        ),
        equal(
            "formula9",
            "(9): a random distribution moves N/∛K times as much; N = 1024, K = 512",
            &[128.0 * 511.0 / 512.0],
            vec![random_penalty(cube, 512)],
            1e-9,
        ),
        equal(
            "formula10",
            "(10), (11): T_COMP = 2N³/PF and what overlap leaves, min(1, T_COMP/T_COMM) PF, N = 1024",
            &[2.0, 2.0 / 4.8],
            {
                let s = size(&m, 1024, Units::Binary).expect("the paper's own size");
                vec![s.compute_us, s.petaflops]
            },
            1e-9,
        ),
    ]
}

fn zip3_rows() -> Vec<Claim> {
    let known = [
        (19, [128.0, 64.0, 64.0]),
        (17, [64.0, 64.0, 32.0]),
        (13, [32.0, 16.0, 16.0]),
        (9, [8.0; 3]),
        (4, [4.0, 2.0, 2.0]),
    ];
    let expected: Vec<f64> = known.iter().flat_map(|(_, s)| *s).collect();
    let found = known.iter().flat_map(|(bits, _)| split(*bits).map(|s| s as f64)).collect();
    let counted = |modules, placement| measure(16, modules, placement).expect("a size that can be counted");
    let (mut words, mut formula, mut spread) = (0.0, 0.0, 0.0);
    for bits in 1..=12 {
        let m = counted(1 << bits, Placement::Zip3);
        words += m.words as f64;
        formula += 256.0 * split(bits).iter().sum::<u64>() as f64;
        spread += (m.most - m.least) as f64;
    }
    // (12) against (13): every multiplication of order 16 on machines of several sizes.
    let mut different = 0.0;
    for modules in [4u64, 64, 512, 4096] {
        for at in 0..4096u32 {
            let (i, k, j) = (at >> 8, at >> 4 & 15, at & 15);
            different +=
                f64::from(u8::from((fraction(i, k, j, 16) * modules as f64) as u64 != module(i, k, j, 16, modules)));
        }
    }
    let random = counted(64, Placement::Random { seed: 1 }).words as f64;
    vec![
        equal("zip3.splits", "zip3: the leading 19, 17, 13, 9, 4 bits split as table 2 does", &expected, found, 0.0),
        equal(
            "zip3.traffic",
            "zip3, N = 16, K = 2 … 4096 counted: words beyond N²·ΣK_l, difference between most and least loaded module",
            &[0.0, 0.0],
            vec![words - formula, spread],
            0.0,
        ),
        equal(
            "zip3.random",
            "N = 16, K = 64: words with zip3, over those of a random distribution (expected 3072 / 10948)",
            &[3072.0, 3072.0 / 10_948.0],
            vec![counted(64, Placement::Zip3).words as f64, 3072.0 / random],
            0.005,
        ),
        equal(
            "zip3.module",
            "(12) and (13): modules named differently; zip3(1,0,1)",
            &[0.0, 5.0],
            vec![different, zip3(1, 0, 1) as f64],
            0.0,
        ),
    ]
}

fn k_section() -> Vec<Claim> {
    let m = Machine::merrimac();
    let found = [16u64, 512, 8 << 10, 128 << 10, 512 << 10].map(|k| ksection::switched_at(&m, k)).to_vec();
    let torus = ksection::smallest_cut(&"8x8x8".parse().expect("a shape"), 256);
    vec![
        equal(
            "ksection.merrimac",
            "k-section bandwidth of Merrimac for k = 16, 512, 8K, 128K, 512K, Gw/s",
            &[160.0, 10.0, 2.5, 0.5, 1.0],
            found,
            0.0,
        )
        .plotted("k-section.svg"),
        equal(
            "ksection.torus",
            "8x8x8 torus cut in half: nodes of the part and links out of it, two faces of 64",
            &[256.0, 128.0],
            vec![torus.0 as f64, torus.1 as f64],
            0.0,
        )
        .plotted("k-section.svg"),
    ]
}

fn htmt_rows() -> Vec<Claim> {
    let at = htmt::step;
    let (si, binary, small) = (at(1024, Units::Decimal), at(1024, Units::Binary), at(512, Units::Decimal));
    vec![
        equal(
            "htmt.runs",
            "HTMT: PF of N = 208000 in 16.2 s, of 8000 in 0.75 ms, peak",
            &[1.111, 1.365, 1.365],
            vec![htmt::petaflops(208_000, 16.2), htmt::petaflops(8_000, 0.75e-3), htmt::peak()],
            5e-4,
        ),
        equal(
            "htmt.1024",
            "(14), (15), N = 1024: M_s and D_s ns (binary D_s), 64 M_s µs, PF with 0.3 µs of loading",
            &[24.6, 16.0, 14.9, 1.57, 1.15],
            vec![si.multiply_ns, si.pass_ns, binary.pass_ns, 64.0 * si.multiply_ns / 1000.0, si.petaflops],
            0.05,
        ),
        equal(
            "htmt.512",
            "N = 512: passing over multiplying, SI and binary (the paper's 20 %)",
            &[1.30, 1.21],
            vec![small.ratio, at(512, Units::Binary).ratio],
            5e-3,
        ),
    ]
}
