//! Shares, times, sizes and lists as people write them: one form for every option, fault and file.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A share in parts per million: `1%`, `0.01` or `200ppm`, from 0 to 100 %.
pub fn share(text: &str) -> Option<u32> {
    let (number, scale) = match (text.strip_suffix('%'), text.strip_suffix("ppm")) {
        (Some(n), _) => (n, 10_000.0),
        (_, Some(n)) => (n, 1.0),
        _ => (text, 1_000_000.0),
    };
    let value = decimal(number)? * scale;
    (value <= 1_000_000.0).then_some(value.round() as u32)
}

/// A fraction that may be more than 1 or less than 0: `30%`, `0.3`, `200ppm`.
pub fn fraction(text: &str) -> Option<f64> {
    let text = text.trim();
    match (text.strip_suffix('%'), text.strip_suffix("ppm")) {
        // As people count: 0.07 is what 7 % is, and 7.0 / 100.0 is the nearest number to that.
        (Some(n), _) => Some(n.trim_end().parse::<f64>().ok()? / 100.0),
        (_, Some(n)) => Some(n.trim_end().parse::<f64>().ok()? / 1e6),
        _ => text.parse().ok(),
    }
}

/// A time in picoseconds, up to 11 days: `5ps`, `300ns`, `1.5us`, `2ms`, `1s`, `1m` or `1h`.
pub fn time(text: &str) -> Option<u64> {
    let units =
        [("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("µs", 1e6), ("ms", 1e9), ("s", 1e12), ("m", 6e13), ("h", 3.6e15)];
    let (number, scale) = units.iter().find_map(|(u, s)| text.strip_suffix(u).map(|n| (n, s)))?;
    let value = decimal(number)? * scale;
    (value < 1e18).then_some(value.round() as u64)
}

/// Writes a time in picoseconds the way [`time`] reads it.
pub fn show_time(ps: u64) -> String {
    let units = [("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000)];
    let (unit, size) = units.into_iter().find(|(_, size)| ps > 0 && ps.is_multiple_of(*size)).unwrap_or(("ps", 1));
    format!("{}{unit}", ps / size)
}

/// Bytes, with an optional K, M, G or T for powers of 1024: `512`, `64K`, `1.5G`, `2GiB`; parts of a byte count as one.
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text.strip_suffix(['b', 'B']).map_or(text, |t| t.strip_suffix('i').unwrap_or(t));
    let shift = match text.bytes().last()?.to_ascii_uppercase() {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        b'T' => 40,
        _ => 0,
    };
    let number = if shift > 0 { &text[..text.len() - 1] } else { text };
    match number.trim().parse::<u64>() {
        Ok(whole) if !number.contains('+') => whole.checked_mul(1 << shift),
        _ => {
            let value = (decimal(number)? * (1u64 << shift) as f64).ceil();
            (value < u64::MAX as f64).then_some(value as u64)
        }
    }
}

/// Writes bytes the way [`bytes`] reads them, with one decimal where needed.
pub fn show_bytes(bytes: u64) -> String {
    for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        if bytes >= 1 << shift {
            let whole = bytes as f64 / (1u64 << shift) as f64;
            return if whole.fract() == 0.0 { format!("{whole:.0}{unit}") } else { format!("{whole:.1}{unit}") };
        }
    }
    bytes.to_string()
}

/// A reader of whole numbers in a range, which an error names.
pub fn whole<T: FromStr + PartialOrd + Display>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    RangeInclusive<T>: Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("give a whole number from {} to {}", range.start(), range.end()))
    }
}

/// Numbers and ranges such as `0-3,7`, ascending, each once.
pub fn list(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last > u16::MAX as usize {
            return None;
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// Digits with an optional fraction; neither signs nor exponents nor `inf`.
fn decimal(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read_and_nothing_else() {
        assert_eq!(
            ["1%", "0.5%", "0.01", "200ppm", "100%", "0"].map(share),
            [10_000, 5_000, 10_000, 200, 1_000_000, 0].map(Some)
        );
        assert_eq!(["", "%", "-1%", "101%", "2", "1e-2", "nan", "x", "+1%"].map(share), [None; 9]);
        assert_eq!(
            ["5ps", "1.5us", "2 ms", "1s", "2m", "1h"].map(time),
            [5, 1_500_000, 2_000_000_000, 1_000_000_000_000, 120_000_000_000_000, 3_600_000_000_000_000].map(Some)
        );
        assert_eq!(["", "5", "ms", "-1s", "1e3s", "1d", "inf s", "300h"].map(time), [None; 8]);
        assert_eq!(
            ["512", "64K", "1.5G", "2GiB", "3 m", "0.3k", "1kb"].map(bytes),
            [512, 64 << 10, 3 << 29, 2 << 30, 3 << 20, 308, 1024].map(Some)
        );
        assert_eq!(["", "M", "-1", "+1", "64Q", "1e9", "nan", "0x10", "18446744073709551615T"].map(bytes), [None; 9]);
        assert_eq!(bytes("18446744073709551615"), Some(u64::MAX));
    }
}
