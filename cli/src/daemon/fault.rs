//! `angara fault`: break links and nodes of a running daemon, and mend them.

use super::{Control, block_on, runtime_dir, unexpected};
use crate::daemon::WhereArgs;
use crate::error::{Failed, say};
use angara_abi::fault::KINDS;
use angara_abi::msg::{Reply, Request};
use angara_abi::print::plain_line;
use clap::Args;

/// What may be asked for.
fn forms() -> String {
    let mut kinds = String::new();
    for kind in &KINDS {
        let word = format!("{}={}", kind.name, kind.example);
        kinds += &format!("                   {word:<14}{}\n", kind.does);
    }
    format!(
        "\
  link COORDS DIR  down|up        cut a cable or mend it, both ways; of packets this way:
{kinds}  node COORDS      down|up        take a node and its links out of service
                   corrupt=1% …   as for a link, on all links to and from it
  every link       corrupt=1% …   as for a link
  trunk HOST|all   down|up        cut the trunk to a host, or all of the cluster
                   corrupt=1% …   as for a link, of its datagrams, both ways
  any of these     clear          end whatever was set there
  all clear                       end everything
  list                            show what is broken

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
    /// Which packets of a link, or datagrams of a trunk, suffer follows from this number; as the word seed=N
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

/// Does it.
pub(crate) fn main(mut args: FaultArgs) -> Result<u8, Failed> {
    args.options_among_words()?;
    let request = match args.words[..] == ["list"] {
        true => Request::Status,
        false => {
            let seed = args.seed.map(|seed| format!("seed={seed}"));
            let words: Vec<String> = args.words.into_iter().chain(seed).collect();
            Request::FaultSet { spec: words.join(" ") }
        }
    };
    block_on(async {
        let mut control = Control::connect(&runtime_dir(&args.at.runtime_dir))?;
        control.status().await?;
        match control.request(&request).await? {
            Reply::Ok => {}
            Reply::Status(status) if status.faults.is_empty() => say!("no faults")?,
            Reply::Status(status) => status.faults.iter().try_for_each(|f| say!("{}", plain_line(f)))?,
            other => return Err(unexpected(&other)),
        }
        Ok(0)
    })
}
