//! The variables with which OpenSHMEM programs are configured, read the same way by every launcher and by
//! the library.
//!
//! A variable `SHMEM_X` of the specification has the older name `SMA_X`, which counts where `SHMEM_X` is not set.

use std::ffi::OsString;

/// Symmetric heap per PE, in bytes unless told otherwise: reserved, and populated by what is used of it.
pub const DEFAULT_HEAP: u64 = 256 << 20;
/// The variable for it, without its prefix.
pub const SYMMETRIC_SIZE: &str = "SYMMETRIC_SIZE";
/// Largest symmetric heap a process can map, in bytes.
const HEAP_MAX: f64 = (1u64 << 46) as f64;

/// The variable `SHMEM_name`, or `SMA_name` where that is not set: which of them, and its value. `get` looks in the
/// environment of the PEs.
pub fn shmem_variable(name: &str, get: impl Fn(&str) -> Option<OsString>) -> Option<(String, OsString)> {
    ["SHMEM_", "SMA_"].iter().find_map(|prefix| {
        let variable = format!("{prefix}{name}");
        get(&variable).map(|value| (variable, value))
    })
}

/// True if `SHMEM_name` or `SMA_name` is set in this process, to whatever value: the specification's "any".
pub fn shmem_is_set(name: &str) -> bool {
    shmem_variable(name, |variable| std::env::var_os(variable)).is_some()
}

/// The symmetric heap that the environment asks for, in bytes; `None` if it asks for none. Errors: what is wrong
/// with the value, and what to write.
pub fn symmetric_size(get: impl Fn(&str) -> Option<OsString>) -> Result<Option<u64>, String> {
    let Some((variable, value)) = shmem_variable(SYMMETRIC_SIZE, get) else { return Ok(None) };
    parse_size(&value.to_string_lossy()).map(Some).map_err(|e| format!("{variable}: {e}"))
}

/// Bytes, as the specification writes them: a whole or decimal number that is not negative, then optionally K, M, G
/// or T (powers of 1024, in either case) with anything behind it. The product is rounded up.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is not a size; write bytes with an optional K, M, G or T, such as 64M or 1.5G");
    let trimmed = text.trim();
    let (number, rest) = trimmed.split_at(number_len(trimmed));
    let number: f64 = number.parse().map_err(|_| bad())?;
    let shift = match rest.trim_start().chars().next().map(|c| c.to_ascii_lowercase()) {
        None => 0,
        Some('k') => 10,
        Some('m') => 20,
        Some('g') => 30,
        Some('t') => 40,
        Some(_) => return Err(bad()),
    };
    let bytes = (number * (1u64 << shift) as f64).ceil();
    if bytes > HEAP_MAX {
        return Err(format!("`{text}` is more than a process can map; give less"));
    }
    Ok(bytes as u64)
}

/// Length of the number at the start of `text`: digits with a point somewhere, and an exponent.
fn number_len(text: &str) -> usize {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut len = usize::from(text.starts_with('+'));
    len += digits(len);
    if text[len..].starts_with('.') {
        len += 1;
        len += digits(len);
    }
    if text[len..].starts_with(['e', 'E']) {
        let sign = usize::from(text[len + 1..].starts_with(['+', '-']));
        let exponent = digits(len + 1 + sign);
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_specification_says() {
        for (text, bytes) in [
            ("65536", 65536),
            ("20m", 20 << 20),
            ("20mm", 20 << 20),
            ("20kk", 20 << 10),
            ("2KiB", 2 << 10),
            ("64MB", 64 << 20),
            ("3.1M", 3250586),
            (".5m", 1 << 19),
            (".25G", 1 << 28),
            ("5.", 5),
            ("1.5g", 3 << 29),
            ("1.2", 2),
            ("0.3k", 308),
            ("1e6", 1_000_000),
            ("1.5E+3k", 1_536_000),
            ("0", 0),
            ("0t", 0),
            (" 2 k ", 2 << 10),
            ("+7", 7),
            ("64T", 1 << 46),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text:?}");
        }
        for bad in
            ["", " ", "k", ".", ".k", "-1", "-0", "20x", "12q", "20b", "1e", "1e+k", "0x10", "nan", "inf", "many", "é"]
        {
            assert!(parse_size(bad).unwrap_err().contains("such as 64M"), "{bad:?}");
        }
        assert!(parse_size("65T").unwrap_err().contains("give less"));
    }

    #[test]
    fn the_older_name_counts_where_the_newer_one_is_not_set() {
        let set = |all: &'static [(&str, &str)]| {
            move |name: &str| all.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v))
        };
        assert_eq!(symmetric_size(set(&[])), Ok(None));
        assert_eq!(symmetric_size(set(&[("SMA_SYMMETRIC_SIZE", "2k")])), Ok(Some(2048)));
        let both = set(&[("SMA_SYMMETRIC_SIZE", "2k"), ("SHMEM_SYMMETRIC_SIZE", "1k")]);
        assert_eq!(symmetric_size(both), Ok(Some(1024)));
        assert_eq!(symmetric_size(set(&[("SHMEM_SYMMETRIC_SIZE", "0")])), Ok(Some(0)));
        let empty = symmetric_size(set(&[("SMA_SYMMETRIC_SIZE", "2k"), ("SHMEM_SYMMETRIC_SIZE", "")]));
        assert!(empty.unwrap_err().starts_with("SHMEM_SYMMETRIC_SIZE: `` is not a size"));
    }
}
