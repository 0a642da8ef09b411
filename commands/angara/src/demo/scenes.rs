//! `angara demo --web`: guided scenes on a page, each on a live network.
//!
//! A private daemon serves the page. Which scene is wanted is written on a board of that daemon (`/api/scene`), which this
//! command looks at; it runs the program that makes the scene's traffic, one job at a time.

use angara_control::daemon::web::with_token;
use angara_control::daemon::{Control, Private, block_on};
use angara_control::error::{Failed, say};
use angara_control::install;
use angara_launch::example::{self, Temporary};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

/// The program that makes the traffic, below `examples`.
const PROGRAM: &str = "c/scenes.c";
/// The library it uses: no put of OpenSHMEM takes the adaptive channel.
const LIBRARY: &str = "libangara.so";
/// The network of all scenes: its rings are odd, so that no two ways around are equally short.
const SHAPE: &str = "5x3";
const PES: &str = "15";
/// Between two looks at the board.
const LOOK: Duration = Duration::from_millis(300);
/// How long an answer of the page, or the end of a job, may take.
const LIMIT: Duration = Duration::from_secs(10);
/// A program that has run for so long can do its work.
const WORKS: Duration = Duration::from_secs(3);
/// Rest after a program that ended by itself.
const AGAIN: Duration = Duration::from_secs(2);

/// Names of the scenes, as page and program know them, and what `angara run` needs for each.
const SCENES: [(&str, &[&str]); 6] = [
    ("direction-order", &[]),
    ("bubble-rule", &[]),
    ("adaptive-routing", &[]),
    ("dead-link", &[]),
    ("barrier", &["--barrier", "multiphase"]),
    ("trees", &[]),
];

/// Finds the library beside `bin`, and has `build` make it if it is missing in a checkout.
pub(crate) fn require_library(bin: &Path, build: bool) -> Result<(), Failed> {
    let there = || install::lib_dir(bin).is_some_and(|dir| dir.join(LIBRARY).is_file());
    if let Some(checkout) = install::checkout(bin).filter(|_| build && !there()) {
        let mut cargo = angara_demo::cargo_build(&checkout.profile, &checkout.target);
        cargo.args(["--package", "angara"]).current_dir(&checkout.root);
        example::build(bin, &checkout, cargo)?;
    }
    match there() {
        true => Ok(()),
        false => Err(Failed::runtime(
            format!("{LIBRARY} is not here, which the scenes are made with"),
            install::build_hint(bin),
        )),
    }
}

/// Serves the page at `address` until Ctrl-C.
pub(crate) fn main(bin: &Path, address: &str) -> Result<u8, Failed> {
    let temporary = Temporary::new("scenes")?;
    let program = compile(bin, &temporary.0)?;
    block_on(serve(bin, &program, address))?;
    Ok(0)
}

fn compile(bin: &Path, into: &Path) -> Result<PathBuf, Failed> {
    let (source, program, oshcc) = (example::find(bin, PROGRAM)?, into.join("scenes"), bin.join("oshcc"));
    say!("== compiling {} with oshcc", source.display())?;
    let mut command = std::process::Command::new(&oshcc);
    command.arg("-O2").arg("-o").arg(&program).arg(&source).arg("-langara");
    let status = command
        .status()
        .map_err(|e| Failed::runtime(format!("cannot start {}: {e}", oshcc.display()), install::build_hint(bin)))?;
    match status.success() {
        true => Ok(program),
        false => Err(Failed::runtime(format!("oshcc failed ({status})"), "see its messages above")),
    }
}

async fn serve(bin: &Path, program: &Path, address: &str) -> Result<(), Failed> {
    let failed = |e: std::io::Error| Failed::runtime(format!("cannot wait for signals: {e}"), "");
    let (mut int, mut term) =
        (signal(SignalKind::interrupt()).map_err(failed)?, signal(SignalKind::terminate()).map_err(failed)?);
    let shape = SHAPE.parse().expect("a shape");
    let mut private = Private::start(shape, vec!["--web".into(), address.into()]).await?;
    let mut control = match Control::connect(&private.dir) {
        Ok(control) => control,
        Err(_) => return Err(private.failed("does not listen").await),
    };
    let mut player = Player {
        bin,
        program,
        dir: private.dir.clone(),
        scene: None,
        job: None,
        started: Instant::now(),
        note: String::new(),
    };
    let played = tokio::select! {
        played = player.play(&mut control) => played,
        _ = int.recv() => Ok(()),
        _ = term.recv() => Ok(()),
    };
    player.end().await;
    drop(control);
    private.stop().await;
    played
}

/// What the board says.
#[derive(Deserialize)]
struct Board {
    wanted: Option<String>,
}

struct Player<'a> {
    bin: &'a Path,
    program: &'a Path,
    /// The daemon's runtime directory.
    dir: PathBuf,
    scene: Option<&'static str>,
    job: Option<Child>,
    started: Instant,
    /// What the page is to say beside the scene.
    note: String,
}

impl Player<'_> {
    async fn play(&mut self, control: &mut Control) -> Result<(), Failed> {
        let none = || Failed::runtime("the daemon has no page", "use fabricd and angara of the same version");
        let page = control.status().await?.web.ok_or_else(none)?;
        let url = with_token(&page, &self.dir, false)?;
        let board = At::new(&url)?;
        board.write(json!({ "playing": { "scene": null, "note": "" } })).await?;
        say!("== six scenes, each on a live network; Ctrl-C ends them\nangara: page at {url}")?;
        loop {
            let said = json!({ "playing": { "scene": self.scene, "note": self.note } });
            let wanted = board.write(said).await?.wanted;
            let known = SCENES.iter().find(|(name, _)| wanted.as_deref() == Some(*name));
            if let Some((name, options)) = known.filter(|(name, _)| self.scene != Some(*name)) {
                self.end().await;
                self.note.clear();
                say!("== {name}")?;
                self.start(name, options)?;
            }
            self.look().await?;
            tokio::time::sleep(LOOK).await;
        }
    }

    fn start(&mut self, scene: &'static str, options: &[&str]) -> Result<(), Failed> {
        let mut command = Command::new(self.bin.join("angara"));
        command.args(["run", "-q", "-n", PES, "--path", "ring", "--heap", "1M"]).args(options);
        command.arg("--runtime-dir").arg(&self.dir).arg("--").arg(self.program).arg(scene);
        // What is said at an end that this command brings about is nobody's business; at another one the page says it.
        let said = std::fs::File::create(self.said()).map_err(|e| Failed::unwritten("what a scene says", &e))?;
        // Ctrl-C is for this command, which ends the job then.
        command.stdin(Stdio::null()).stderr(said).process_group(0).kill_on_drop(true);
        let job = command.spawn().map_err(|e| {
            Failed::runtime(format!("cannot start angara run: {e}"), "check the process limit (ulimit -u)")
        })?;
        (self.scene, self.job, self.started) = (Some(scene), Some(job), Instant::now());
        Ok(())
    }

    /// Starts a program again that has ended by itself, as when no way is left for what it sends.
    async fn look(&mut self) -> Result<(), Failed> {
        let Some(scene) = self.scene else { return Ok(()) };
        let Some(Ok(Some(status))) = self.job.as_mut().map(Child::try_wait) else {
            if self.started.elapsed() > WORKS {
                self.note.clear();
            }
            return Ok(());
        };
        let said = std::fs::read_to_string(self.said()).unwrap_or_default();
        let why = said.lines().next().map_or_else(|| status.to_string(), str::to_string);
        self.note = format!("The program ended, and is started again until it can do its work: {why}");
        tokio::time::sleep(AGAIN).await;
        let options = SCENES.iter().find(|(name, _)| *name == scene).map_or(&[][..], |(_, options)| options);
        self.start(scene, options)
    }

    fn said(&self) -> PathBuf {
        self.program.with_extension("said")
    }

    async fn end(&mut self) {
        self.scene = None;
        let Some(mut job) = self.job.take() else { return };
        if let Some(pid) = job.id().and_then(|pid| Pid::from_raw(pid as i32)) {
            let _ = kill_process(pid, Signal::TERM);
        }
        if timeout(LIMIT, job.wait()).await.is_err() {
            let _ = job.kill().await;
        }
    }
}

/// Where the board is.
struct At {
    host: String,
    token: String,
}

impl At {
    fn new(url: &str) -> Result<At, Failed> {
        let parts = url.strip_prefix("http://").and_then(|rest| rest.split_once("/#token="));
        let (host, token) = parts.ok_or_else(|| Failed::runtime(format!("{url} is no address of a page"), ""))?;
        Ok(At { host: host.into(), token: token.into() })
    }

    /// Writes on the board, and reads it.
    async fn write(&self, said: serde_json::Value) -> Result<Board, Failed> {
        let gone =
            |why: String| Failed::runtime(format!("the daemon of the page does not answer: {why}"), "start again");
        let answer = timeout(LIMIT, self.ask(said.to_string())).await;
        let answer = answer.map_err(|_| gone("it is too slow".into()))?.map_err(|e| gone(e.to_string()))?;
        let body = answer.split_once("\r\n\r\n").filter(|(head, _)| head.starts_with("HTTP/1.1 200"));
        body.and_then(|(_, body)| serde_json::from_str(body).ok()).ok_or_else(|| gone(answer))
    }

    async fn ask(&self, body: String) -> std::io::Result<String> {
        let (host, token) = (&self.host, &self.token);
        let mut stream = TcpStream::connect(host).await?;
        let head = format!(
            "POST /api/scene HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}
