//! A PE that does not come back to the library, where time is virtual: what is known of it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{File, read_to_string};
use std::io::Read;
use std::str::FromStr;
use std::time::Duration;

/// How long the others wait for a PE that does not come back to the library, by the clock on the wall; `None`: for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience(pub Option<Duration>);

impl Default for Patience {
    fn default() -> Patience {
        Patience(Some(Duration::from_secs(30)))
    }
}

impl FromStr for Patience {
    type Err = String;
    fn from_str(text: &str) -> Result<Patience, String> {
        if text == "never" {
            return Ok(Patience(None));
        }
        let time = match text.parse::<f64>() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            Err(_) => angara_net::units::time(text).map(|ps| Duration::from_nanos(ps / 1000)),
        };
        let wrong = || format!("`{text}`: give seconds above 0, such as 30 or 0.5, a time such as 2m, or never");
        time.filter(|time| !time.is_zero()).map(|time| Patience(Some(time))).ok_or_else(wrong)
    }
}

impl fmt::Display for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => write!(f, "{}", time.as_secs_f64()),
            None => f.write_str("never"),
        }
    }
}

/// A PE without which the others went on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Absence {
    /// PE.
    pub pe: u32,
    /// Milliseconds on the wall for which everybody had waited for it.
    pub waited_ms: u64,
    /// It slept then, and did not compute.
    pub asleep: bool,
    /// Where its program was: what was called last comes first. Empty if it did not say.
    pub frames: Vec<CodeFrame>,
}

/// A place in a program's code.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CodeFrame {
    /// Program or library.
    pub file: String,
    /// Address in it, as its linker has given it.
    pub address: u64,
}

/// Returns what a process does, as the system says it: a letter (`R` runs, `S` sleeps, `T` and `t` are stopped).
pub fn process_state(pid: i32) -> Option<char> {
    // After the command name in parentheses.
    read_to_string(format!("/proc/{pid}/stat")).ok()?.rsplit(')').next()?.trim_start().chars().next()
}

/// How many threads a process has, and how many of them have a core, or are about to, or wait for a disk.
pub fn threads(pid: i32) -> (usize, usize) {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return (0, 0) };
    let states = threads.flatten().filter_map(|entry| process_state(entry.file_name().to_str()?.parse().ok()?));
    states.fold((0, 0), |(all, run), state| (all + 1, run + usize::from(matches!(state, 'R' | 'D'))))
}

/// Where a process is that has answered a signal with these `addresses`: its handler's, what had the system return from
/// it, what was interrupted, and whence that was called.
pub fn code_frames(pid: i32, addresses: &[u64]) -> Vec<CodeFrame> {
    let Ok(maps) = read_to_string(format!("/proc/{pid}/maps")) else { return Vec::new() };
    let found: Vec<(u64, &str)> = addresses.iter().filter_map(|at| Some((*at, file_at(&maps, *at)?))).collect();
    let Some((_, own)) = found.first() else { return Vec::new() };
    let interrupted = found.iter().skip_while(|(_, file)| file == own).skip(1);
    let frame = |(depth, (at, file)): (usize, &(u64, &str))| {
        // The interrupted frame is at its own address, a caller's is behind its call.
        let at = at - u64::from(depth > 0);
        CodeFrame { file: (*file).to_string(), address: at.wrapping_sub(base_of(&maps, file)) }
    };
    interrupted.enumerate().map(frame).collect()
}

/// The mapped file that has an address.
fn file_at(maps: &str, address: u64) -> Option<&str> {
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        (hex(from)?..hex(to)?).contains(&address).then(|| rest.splitn(5, ' ').nth(4).map_or("", str::trim))
    })
}

/// Returns what is added to the linker's addresses of a file.
fn base_of(maps: &str, file: &str) -> u64 {
    // Executables that are loaded where they were linked to have type 2.
    let mut head = [0; 18];
    let read = File::open(file).and_then(|mut f| f.read_exact(&mut head));
    if read.is_ok() && head[16] == 2 {
        return 0;
    }
    let first = maps.lines().find(|line| line.ends_with(file));
    first.and_then(|line| u64::from_str_radix(line.split('-').next()?, 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
400000-401000 r--p 00000000 08:01 1   /no/such/prog
401000-402000 r-xp 00001000 08:01 1   /no/such/prog
7f0000000000-7f0000001000 r--p 00000000 08:01 2   /no/such/lib one.so
7f0000001000-7f0000002000 r-xp 00001000 08:01 2   /no/such/lib one.so
7ffe00000000-7ffe00001000 rw-p 00000000 00:00 0
";

    #[test]
    fn addresses_are_found_in_files() {
        assert_eq!(file_at(MAPS, 0x401fff), Some("/no/such/prog"));
        assert_eq!(file_at(MAPS, 0x7f00_0000_1000), Some("/no/such/lib one.so"));
        assert_eq!((file_at(MAPS, 0x402000), file_at(MAPS, 0x7ffe_0000_0000)), (None, Some("")));
        assert_eq!(base_of(MAPS, "/no/such/lib one.so"), 0x7f00_0000_0000);
    }

    #[test]
    fn patience_is_read_as_it_is_written() {
        for (text, ms) in [("30", 30_000), ("0.5", 500), ("2m", 120_000), ("500ms", 500)] {
            let patience: Patience = text.parse().expect(text);
            assert_eq!(patience, Patience(Some(Duration::from_millis(ms))));
            assert_eq!(patience.to_string().parse(), Ok(patience));
        }
        assert_eq!("never".parse(), Ok(Patience(None)));
        for wrong in ["0", "-1", "x", "inf", ""] {
            assert!(wrong.parse::<Patience>().unwrap_err().contains("such as 30"), "{wrong}");
        }
    }

    #[test]
    fn this_process_runs() {
        assert!(process_state(std::process::id() as i32).is_some_and(|state| "RS".contains(state)));
        assert_eq!(process_state(-1), None);
        let (all, run) = threads(std::process::id() as i32);
        assert!((1..=all).contains(&run), "{run} of {all}");
        assert_eq!(threads(-1), (0, 0));
    }
}
