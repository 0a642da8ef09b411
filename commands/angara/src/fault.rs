//! `angara fault`: break links and nodes of a running daemon, and mend them.

use crate::shared::WhereArgs;
use angara_control::daemon::{Control, block_on, runtime_dir, unexpected};
use angara_control::error::{Failed, say};
use angara_net::fault::{self, Command, KINDS};
use angara_net::torus::Shape;
use angara_protocol::msg::{Path, Reply, Request, Status};
use angara_protocol::print::plain_line;
use clap::Args;

/// Returns what may be asked for.
fn forms() -> String {
    let mut kinds = String::new();
    for kind in &KINDS {
        let word = format!("{}={}", kind.name, kind.example);
        kinds += &format!("                   {word:<14}{}\n", kind.does);
    }
    format!(
        "\
FAULTS:
  link COORDS DIR  down|up        cut a cable or mend it, both ways; of packets this way:
{kinds}  node COORDS      down|up        take a node and its links out of service
                   corrupt=1% …   as for a link, on all links to and from it
  every link       corrupt=1% …   as for a link
  trunk HOST|all   down|up        cut the trunk to a host, or all of the cluster
                   corrupt=1% …   as for a link, of its datagrams, both ways
  any of these     clear          end whatever was set there
  all clear                       end everything
  list                            show what is broken

EXAMPLES:
  angara fault link 0,0,0 +X down
  angara fault link 0,0,0 +X dup=1% delay=500ns
  angara fault node 1,0,0 drop=1% seed=7
  angara fault trunk node2 drop=1% delay=2ms --seed 7"
    )
}

/// Arguments of `angara fault`.
#[derive(Args)]
#[command(after_help = forms())]
pub(crate) struct FaultArgs {
    /// What fails and how; the words need no quotes
    #[arg(required = true, allow_hyphen_values = true, value_name = "link COORDS DIR|node COORDS|trunk HOST|all|list")]
    words: Vec<String>,
    /// Seed of the random choices; as the word seed=N
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    at: WhereArgs,
}

impl FaultArgs {
    /// Words such as `-X` must not be taken for options, so an option that follows them is among them.
    fn options_among_words(&mut self) -> Result<(), Failed> {
        let mut option = |name: &str| {
            let at = self.words.iter().position(|w| w == name).filter(|at| at + 1 < self.words.len())?;
            self.words.remove(at);
            Some(self.words.remove(at))
        };
        let (dir, seed) = (option("--runtime-dir"), option("--seed"));
        if let Some(dir) = dir {
            self.at.runtime_dir = Some(dir.into());
        }
        if let Some(seed) = seed {
            let wrong = |_| Failed::usage(format!("--seed {seed}: this is no number"), "write --seed 7");
            self.seed = Some(seed.parse().map_err(wrong)?);
        }
        Ok(())
    }
}

/// The word that asks for what is broken.
const LIST: &str = "list";

/// Returns what to tell the daemon, if a network of `shape` can have such a fault. A wrong word is a mistake of usage
/// here, before anybody is asked.
fn read(words: &[String], shape: &Shape) -> Result<Command, Failed> {
    let text = words.join(" ");
    match words {
        [word, _, ..] if word == LIST => {
            return Err(Failed::usage(format!("`{text}`: nothing follows `{LIST}`"), format!("write `{LIST}` alone")));
        }
        // What is broken has more than one word.
        [word] => {
            if let Some(meant) = fault::near(word, &[LIST]) {
                let what = format!("fault `{word}`: `{word}` is not understood");
                return Err(Failed::usage(what, format!("did you mean `{meant}`?")));
            }
        }
        _ => {}
    }
    Command::parse(&text, shape).map_err(|mistake| Failed::usage(mistake.brief(), mistake.remedy()))
}

/// Does it.
pub(crate) fn main(mut args: FaultArgs) -> Result<u8, Failed> {
    args.options_among_words()?;
    block_on(async {
        let mut control = Control::connect(&runtime_dir(&args.at.runtime_dir))?;
        let status = control.status().await?;
        if args.words[..] == [LIST] {
            match status.faults.is_empty() {
                true => say!("no faults")?,
                false => status.faults.iter().try_for_each(|f| say!("{}", plain_line(f)))?,
            }
            return Ok(0);
        }
        let seed = args.seed.map(|seed| format!("seed={seed}"));
        let words: Vec<String> = args.words.into_iter().chain(seed).collect();
        let command = read(&words, &status.shape)?;
        let spared = if command.acts_on_packets() { spared(&status) } else { None };
        match control.request(&Request::Fault { command }).await? {
            Reply::Ok => {
                spared.iter().for_each(|text| angara_protocol::complain!("angara: {text}"));
                Ok(0)
            }
            other => Err(unexpected(&other)),
        }
    })
}

/// Says of jobs that run which of their traffic no packet carries.
fn spared(status: &Status) -> Option<String> {
    let past = status.jobs.iter().filter(|job| job.path != Path::Ring);
    let past: Vec<String> = past.map(|job| format!("{} ({})", job.job, plain_line(&job.name))).collect();
    let jobs = match &past[..] {
        [] => return None,
        [job] => format!("job {job}"),
        all => format!("jobs {}", all.join(", ")),
    };
    Some(format!(
        "{jobs}: PEs of one host store into each other's memory, without packets that could suffer this; --path ring has them all send packets"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_words_are_mistakes_of_usage_and_answered_with_what_was_meant() {
        let shape: Shape = "4x2x2".parse().expect("a shape");
        let refused = |line: &str| {
            let words: Vec<String> = line.split(' ').map(String::from).collect();
            let failed = read(&words, &shape).expect_err(line);
            assert_eq!(failed.code, 2, "{line}");
            (failed.message, failed.remedy)
        };
        let (message, remedy) = refused("link 0,0,0 +X corupt=1%");
        assert!(message.contains("`corupt=1%` is not understood"), "{message}");
        assert_eq!(remedy, "did you mean `corrupt=1%`?");
        assert_eq!(refused("node 0,0,0 dwon").1, "did you mean `down`?");
        for line in ["lst", "lits", "ist", "lists"] {
            assert_eq!(refused(line).1, "did you mean `list`?", "{line}");
        }
        assert_eq!(refused("list all").1, "write `list` alone");
        for line in [
            "link 0,0,0 +X frobnicate=1%",
            "link 9,0,0 +X down",
            "link 0,0,0 +Q down",
            "nothing",
            "link 0,0,0 +X corrupt=x",
        ] {
            assert!(refused(line).1.starts_with("write `link 0,0,0 +X down`"), "{line}: {:?}", refused(line));
        }
        let fine = ["link 0,0,0 +X corrupt=1% seed=7", "all clear", "trunk node2 drop=1%", "every link clear"];
        for line in fine {
            let words: Vec<String> = line.split(' ').map(String::from).collect();
            assert_eq!(read(&words, &shape).map(|c| c.text).map_err(|e| e.message), Ok(line.to_string()));
        }
    }
}
