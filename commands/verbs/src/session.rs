//! A command with adapters: its daemon, its end, and what is left then.

use crate::args::VerbsArgs;
use crate::program::Program;
use angara_control::daemon::{Control, Private, runtime};
use angara_control::error::Failed;
use angara_control::exec::Exec;
use angara_control::signals::{Signals, Wish};
use angara_launch::run::plan::network::Network;
use angara_net::fault::Command as Fault;
use angara_net::torus::Shape;
use angara_protocol::launch::ENV_RUNTIME_DIR;
use angara_protocol::msg::{Request, Status};
use rustix::process::{Pid, Signal, getpgrp, getpid, kill_process};
use rustix::termios::tcgetpgrp;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, sleep_until};

/// Time for the command to end after a signal that asks it to.
const END: Duration = Duration::from_secs(10);
/// Time for processes to end that the command has left behind: often its last one has just got what it waited for.
const LAST: Duration = Duration::from_secs(1);
/// Most processes that a message names.
const NAMED: usize = 5;

/// Where the adapters are.
struct Place {
    control: Control,
    dir: PathBuf,
    /// The daemon, if it is ours.
    private: Option<Private>,
    /// The connection is open.
    alive: bool,
}

/// Runs the program, and returns its exit code.
pub(super) fn run(args: &VerbsArgs, network: &Network, library: &Path, program: &Program) -> Result<u8, Failed> {
    runtime()?.block_on(async {
        let (mut place, status) = Place::find(args, network).await?;
        let ended = place.run(args, network, library, (program, &status)).await;
        place.leave().await;
        ended
    })
}

/// A directory's path for processes that may be elsewhere.
pub(super) fn absolute(dir: &Path) -> Result<PathBuf, Failed> {
    std::path::absolute(dir)
        .map_err(|e| Failed::usage(format!("--runtime-dir {}: {e}", dir.display()), "give the path of a directory"))
}

impl Place {
    /// The daemon that the user names, or one for this command.
    async fn find(args: &VerbsArgs, network: &Network) -> Result<(Place, Status), Failed> {
        let (dir, mut private) = match &args.runtime_dir {
            Some(dir) => (absolute(dir)?, None),
            None => {
                let private = Private::start(network.shape, network.daemon_options()).await?;
                (private.dir.clone(), Some(private))
            }
        };
        let mut control = match (Control::connect(&dir), &mut private) {
            (Ok(control), _) => control,
            (Err(_), Some(private)) => return Err(private.failed("does not listen").await),
            (Err(e), None) => return Err(e),
        };
        let status = control.status().await?;
        Ok((Place { control, dir, private, alive: true }, status))
    }

    async fn run(
        &mut self,
        args: &VerbsArgs,
        network: &Network,
        library: &Path,
        (program, status): (&Program, &Status),
    ) -> Result<u8, Failed> {
        let dir = self.dir.clone();
        let environment = args.environment(network.path, library, &dir);
        environment.fits(status.shape)?;
        self.break_links(&args.faults, &status.shape).await?;
        if args.verbose || program.shell {
            self.introduce(status, program);
        }
        let mut signals = Signals::ends()?;
        // A command whose `angara verbs` has been killed loses its network, as one that was hung up its terminal.
        let exec =
            Exec { death: Signal::HUP, cores: None, foreground: false, file: &program.file, argv: &program.argv };
        let mut command = Command::from(exec.command());
        for (name, value) in environment.variables(|name| std::env::var_os(name))? {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let failed = |e: std::io::Error| {
            Failed::runtime(
                format!("cannot start {}: {e}", program.file.display()),
                "check the process limit (ulimit -u)",
            )
        };
        let child = command.spawn().map_err(failed)?;
        Ok(code(self.wait(child, program.shell, &mut signals).await.map_err(failed)?))
    }

    /// Says what is there now.
    fn introduce(&self, status: &Status, program: &Program) {
        let started = match self.private {
            Some(_) => "started a private fabricd",
            None => "using the fabricd that runs",
        };
        let until = match program.shell {
            true => format!("; {} ends with `exit`", program.file.display()),
            false => String::new(),
        };
        let (dir, shape) = (self.dir.display(), status.shape);
        angara_protocol::complain!("angara: {started} (pid {}, torus {shape}, in {dir}){until}", status.pid);
    }

    /// Sets the faults that the user wants.
    async fn break_links(&mut self, faults: &[String], shape: &Shape) -> Result<(), Failed> {
        for text in faults {
            let command = Fault::parse(text, shape).map_err(|e| Failed::usage(e.brief(), e.remedy()))?;
            self.control.request(&Request::Fault { command }).await.map_err(|e| e.with_code(2))?;
        }
        Ok(())
    }

    /// Waits for the command, and passes on signals that it does not get by itself.
    async fn wait(&mut self, mut child: Child, shell: bool, signals: &mut Signals) -> std::io::Result<ExitStatus> {
        let pid = child.id().and_then(|pid| Pid::from_raw(pid as i32));
        let mut limit: Option<Instant> = None;
        loop {
            tokio::select! {
                ended = child.wait() => return ended,
                wish = signals.next() => {
                    let Wish::End(signal) = wish else { continue };
                    let typed = [Signal::INT, Signal::QUIT].map(Signal::as_raw).contains(&signal);
                    if typed && in_foreground() {
                        continue;
                    }
                    let known = Signal::from_named_raw(signal);
                    // A shell that waits for a line ignores SIGTERM.
                    let known = if shell && known == Some(Signal::TERM) { Some(Signal::HUP) } else { known };
                    if let (Some(pid), Some(signal)) = (pid, known) {
                        let _ = kill_process(pid, signal);
                    }
                    if !typed {
                        limit.get_or_insert_with(|| Instant::now() + END);
                    }
                }
                () = sleep_until(limit.unwrap_or_else(Instant::now)), if limit.is_some() => {
                    angara_protocol::complain!(
                        "angara: the command did not end within {} s of being told to; killing it", END.as_secs()
                    );
                    child.start_kill()?;
                    limit = None;
                }
                event = self.control.event(), if self.alive => if event.is_none() {
                    self.alive = false;
                    angara_protocol::complain!(
                        "angara: the daemon in {} went away, and all adapters with it. Try: end the command, start it again",
                        self.dir.display()
                    );
                },
            }
        }
    }

    /// Ends a daemon that is ours, whoever still uses it.
    async fn leave(mut self) {
        let Some(private) = self.private.take() else { return };
        let limit = Instant::now() + LAST;
        let mut left = users(&self.dir);
        while !left.is_empty() && Instant::now() < limit {
            sleep(Duration::from_millis(20)).await;
            left = users(&self.dir);
        }
        if !left.is_empty() {
            angara_protocol::complain!("{}", told(&left));
        }
        if self.alive {
            let _ = self.control.request(&Request::Shutdown).await;
        }
        drop(self.control);
        private.stop().await;
    }
}

/// True if what is typed at the terminal goes to this process's group, to which the command belongs, too.
fn in_foreground() -> bool {
    File::open("/dev/tty").is_ok_and(|tty| tcgetpgrp(tty) == Ok(getpgrp()))
}

/// The exit code, as a shell has it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}

/// A process that the command has left behind.
struct User {
    pid: i32,
    name: String,
}

/// Processes that were told of the daemon in `dir`, whoever has adopted them.
fn users(dir: &Path) -> Vec<User> {
    let told = format!("{ENV_RUNTIME_DIR}={}", dir.display());
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let others = all.filter(|pid| *pid != getpid().as_raw_pid());
    // Those of other users cannot be read, nor have they been told.
    let of = |pid: i32| std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    others
        .filter(|pid| of(*pid).split(|byte| *byte == 0).any(|variable| variable == told.as_bytes()))
        .map(|pid| User { pid, name: std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default() })
        .collect()
}

/// A line about them.
fn told(left: &[User]) -> String {
    let named: Vec<String> =
        left.iter().take(NAMED).map(|user| format!("{} (pid {})", user.name.trim(), user.pid)).collect();
    let more = if left.len() > NAMED { format!(" and {} more", left.len() - NAMED) } else { String::new() };
    let runs = if left.len() == 1 { "still runs, and has" } else { "still run, and have" };
    format!(
        "angara: {}{more} {runs} no adapter from now on: the network ends with the command. Try: have the command wait for what \
         it starts, or start a daemon that stays, and use --runtime-dir",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_behind_is_named() {
        let user = |pid| User { pid, name: "ib_send_bw\n".into() };
        let one = told(&[user(7)]);
        assert!(one.contains("ib_send_bw (pid 7) still runs, and has no adapter"), "{one}");
        let many: Vec<User> = (1..=7).map(user).collect();
        let many = told(&many);
        assert!(many.contains("(pid 5) and 2 more still run, and have no adapter"), "{many}");
    }

    #[test]
    fn users_of_a_daemon_are_those_who_were_told_of_it() {
        let dir = Path::new("/tmp/angara-no-such-directory-of-a-daemon");
        let mut child = std::process::Command::new("sleep").arg("300").env(ENV_RUNTIME_DIR, dir).spawn().unwrap();
        // The kernel shows the environment of a program a moment after it has begun.
        let limit = std::time::Instant::now() + Duration::from_secs(60);
        let mut found: Vec<i32> = Vec::new();
        while found.is_empty() && std::time::Instant::now() < limit {
            found = users(dir).iter().map(|user| user.pid).collect();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [child.id() as i32]);
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code(ExitStatus::from_raw(15)), 143);
    }
}
