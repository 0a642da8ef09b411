//! Places in a program's code, as its author knows them.

use angara_protocol::absence::CodeFrame;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// How long the tool that knows lines may take.
const LIMIT: Duration = Duration::from_secs(2);
/// Beginnings of the names of libraries that a program did not write.
const SYSTEM: [&str; 8] = ["libc.so", "libc-", "libpthread", "libm.so", "ld-linux", "libsma", "libangara", "[vdso]"];

/// `heat.c:42 (main)`, of the innermost place that is the program's own; the file and the address in it where nobody
/// knows the line.
pub async fn place(frames: &[CodeFrame]) -> Option<String> {
    let name = |file: &str| file.rsplit('/').next().unwrap_or(file).to_string();
    let own = |frame: &&CodeFrame| !SYSTEM.iter().any(|system| name(&frame.file).starts_with(system));
    let frame = frames.iter().find(own).or(frames.first())?;
    Some(line(frame).await.unwrap_or_else(|| format!("{}+{:#x}", name(&frame.file), frame.address)))
}

/// Returns what addr2line says, if it is there and knows.
async fn line(frame: &CodeFrame) -> Option<String> {
    let mut tool = Command::new("addr2line");
    tool.args(["-f", "-C", "-e"]).arg(Path::new(&frame.file)).arg(format!("{:#x}", frame.address));
    tool.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let said = timeout(LIMIT, tool.output()).await.ok()?.ok()?;
    parse(&String::from_utf8_lossy(&said.stdout))
}

/// A function, and below it a file with a line; `??` and 0 where they are not known.
fn parse(said: &str) -> Option<String> {
    let (function, place) = said.trim_end().split_once('\n')?;
    let (file, line) = place.rsplit_once(':')?;
    let line = line.split(' ').next().filter(|line| line.parse().is_ok_and(|n: u32| n > 0))?;
    let file = file.rsplit('/').next()?;
    Some(format!("{file}:{line} ({function})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_shown_as_compilers_show_them() {
        let known = [
            ("main\n/home/me/heat.c:42\n", "heat.c:42 (main)"),
            ("step(int)\nx.cpp:7 (discriminator 3)\n", "x.cpp:7 (step(int))"),
        ];
        for (said, shown) in known {
            assert_eq!(parse(said).as_deref(), Some(shown));
        }
        for unknown in ["??\n??:0\n", "main\nheat.c:?\n", "", "main\n"] {
            assert_eq!(parse(unknown), None, "{unknown}");
        }
    }
}
