//! Instructions, counted by callgrind: unlike processor time they do not differ from run to run.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::Command;

/// Share by which a count may be off its budget.
const TOLERANCE: f64 = 0.1;

/// True if valgrind is here.
pub fn is_here() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok()
}

/// Instructions of a program with these arguments, and what it prints.
pub fn count(program: &Path, arguments: &[&str]) -> Result<(f64, String), String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments)
        .output()
        .map_err(|e| format!("valgrind: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    // ==1234== Collected : 4870452926
    let number = |line: &str| line.rsplit(':').next().and_then(|n| n.trim().parse::<f64>().ok());
    let instructions = said.lines().filter(|l| l.contains("Collected")).find_map(number);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((instructions.ok_or_else(|| format!("valgrind: {}", said.lines().last().unwrap_or("no output")))?, printed))
}

/// Instructions of this program, and the number it prints, when it is started as `simulate NAME PART`.
fn simulate(name: &str, part: u64) -> Result<(f64, f64), String> {
    let me = std::env::current_exe().map_err(|e| format!("this program's own path: {e}"))?;
    let (instructions, printed) = count(&me, &["simulate", name, &part.to_string()])?;
    let units = printed.trim().parse().map_err(|_| format!("{name}: `{}` is no number", printed.trim()))?;
    Ok((instructions, units))
}

/// Instructions per unit of a case: what a longer run has more of, which leaves building the network out. Prints them beside
/// `budget`. Returns whether they are near it: above it something got slower, below it the budget is out of date.
pub fn keeps(name: &str, budget: f64) -> bool {
    let counted = simulate(name, 8).and_then(|short| Ok((short, simulate(name, 4)?)));
    match counted {
        Err(why) => {
            println!("   {why}");
            false
        }
        Ok(((short, few), (long, many))) => is_near((long - short) / (many - few), budget),
    }
}

/// Prints a count beside its budget, and by how much it is off. Returns whether it is near.
pub fn is_near(each: f64, budget: f64) -> bool {
    let off = each / budget - 1.0;
    let good = off.abs() <= TOLERANCE;
    let verdict = if good { "" } else { "  <- not within 10 %" };
    println!("{each:>9.1} instructions, budget {budget:.0} ({:+.1} %){verdict}", 100.0 * off);
    good
}
