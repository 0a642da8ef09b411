//! `angara fault`: break links and nodes of a running daemon, and mend them.

use crate::args::WhereArgs;
use crate::daemon::{Control, block_on, runtime_dir, unexpected};
use crate::error::Failed;
use abi::msg::{Reply, Request};
use clap::Args;

/// What may be asked for.
const FORMS: &str = "\
  link COORDS DIR  down|up        cut a cable or mend it, both ways
                   corrupt=1% drop=1% dup=1% reorder=1%  damage, lose, double or reorder
                   delay=2us rate=10M  delay packets sent over it this way, or slow them down
                   seed=7         which packets suffer follows from this number, not from fabricd --seed
  node COORDS      down|up        take a node and its links out of service
                   corrupt=1% …   as for a link, on all links to and from it
  every link       corrupt=1% …   as for a link
  trunk HOST|all   down|up        cut the trunk to a host, or all of the cluster
                   drop=1% corrupt=1% delay=2ms dup=1% reorder=1% rate=10M seed=7  both ways
  any of these     clear          end whatever was set there
  all clear                       end everything
  list                            show what is broken

  angara fault link 0,0,0 +X down
  angara fault link 0,0,0 +X dup=1% delay=500ns
  angara fault node 1,0,0 drop=1% seed=7
  angara fault trunk node2 drop=1% delay=2ms --seed 7";

/// Arguments of `angara fault`.
#[derive(Args)]
#[command(after_help = FORMS)]
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
        let mut control = Control::connect(&runtime_dir(&args.at.runtime_dir)).await?;
        control.status().await?;
        match control.request(&request).await? {
            Reply::Ok => {}
            Reply::Status(status) if status.faults.is_empty() => println!("no faults"),
            Reply::Status(status) => status.faults.iter().for_each(|f| println!("{f}")),
            other => return Err(unexpected(&other)),
        }
        Ok(0)
    })
}
