//! What `compose.yaml` runs. No engine is here: its very commands run in namespaces of network, processes, mounts and
//! names, as containers have them, with its addresses.

use angara_tests::cluster::Hosts;
use angara_tests::process::{PATIENCE, Running, poll_until};
use angara_tests::{Test, tools};
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;

/// Services that are hosts, in the order of their addresses.
const HOSTS: [&str; 3] = ["host1", "host2", "host3"];
/// Home directory of all containers.
const HOME: &str = "/home/user";
/// Where the packages in them have examples.
const EXAMPLES: &str = "/usr/share/angara/examples";

/// The file, and the directory that stands for its volume.
struct Compose<'t> {
    test: &'t Test,
    text: String,
    home: PathBuf,
}

impl<'t> Compose<'t> {
    fn new(test: &'t Test) -> Compose<'t> {
        let text = std::fs::read_to_string(tools::root().join("compose.yaml")).expect("it is there");
        let home = test.file("home");
        std::fs::create_dir(&home).expect("made");
        Compose { test, text, home }
    }

    /// The list below `key` of a block, with our directories in place of the containers'.
    fn list(&self, block: &str, key: &str) -> Vec<String> {
        let after = self.text.split_once(&format!("\n{block}:")).unwrap_or_else(|| panic!("no {block}")).1;
        let (start, end) = (format!("{key}: ["), "]\n");
        let list = after.split_once(&start).unwrap_or_else(|| panic!("no {key} of {block}")).1;
        let list = list.split_once(end).expect("the list ends").0;
        let line: Vec<&str> = list.lines().map(str::trim).collect();
        let words: Vec<String> = serde_json::from_str(&format!("[{}]", line.join(" "))).expect("a list");
        words.into_iter().map(|word| self.here(&word)).collect()
    }

    fn here(&self, text: &str) -> String {
        let examples = tools::root().join("examples");
        let text = text.replace("$$", "$").replace(HOME, self.home.to_str().expect("utf-8"));
        text.replace(EXAMPLES, examples.to_str().expect("utf-8"))
    }

    /// Value of a variable in the whole file.
    fn variable(&self, name: &str) -> String {
        let value = self.text.split_once(&format!("{name}: ")).unwrap_or_else(|| panic!("no {name}")).1;
        self.here(value.split(['}', '\n']).next().expect("a value"))
    }

    /// A container's process: `words` lead into its namespaces.
    fn inside(&self, service: &str, words: &[String], command: &[String]) -> Command {
        let mut all = self.test.command(&words[0]);
        all.args(&words[1..]).args(["sh", "-c", r#"hostname "$0" && mount -t proc proc /proc && exec "$@""#, service]);
        all.args(command).current_dir(&self.home);
        // Each container has its own of these; here programs are where they were built.
        let run = self.home.join(format!(".run-{service}"));
        std::fs::create_dir_all(&run).expect("made");
        let path = format!("{}:{}", tools::profile_dir().display(), std::env::var("PATH").unwrap_or_default());
        all.env("XDG_RUNTIME_DIR", run).env("PATH", path);
        if matches!(service, "host1" | "job") {
            all.env("ANGARA_RUNTIME_DIR", self.variable("ANGARA_RUNTIME_DIR"));
        }
        all
    }

    /// A command that ends by itself, without a network.
    fn once(&self, service: &str) {
        let alone = ["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork"].map(String::from);
        self.test.run(self.inside(service, &alone, &self.list(&format!("  {service}"), "command"))).success();
    }

    /// A container that is a host.
    fn host(&self, hosts: &Hosts, host: usize) -> Running {
        let mut words = hosts.words(host);
        let own = ["unshare", "--uts", "--ipc", "--mount", "--pid", "--fork"];
        words.extend(own.map(String::from));
        let command = self.list(&format!("  {}", HOSTS[host]), "command");
        let daemon = self.test.spawn(self.inside(HOSTS[host], &words, &command));
        daemon.expect_line("{");
        daemon
    }

    /// Process id of a host's daemon, as we see it.
    fn daemon(&self, host: usize) -> i32 {
        let run = format!("XDG_RUNTIME_DIR={}", self.home.join(format!(".run-{}", HOSTS[host])).display());
        let of = |pid: &i32| {
            let all = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            all.split(|byte| *byte == 0).any(|entry| entry == run.as_bytes())
        };
        self.test.named("fabricd").iter().map(|p| p.pid).find(of).unwrap_or_else(|| panic!("{} is gone", HOSTS[host]))
    }

    /// A command in the container of a host, as `docker exec` starts one.
    fn exec(&self, host: usize, command: &[String]) -> Command {
        let pid = self.daemon(host).to_string();
        let words = ["nsenter", "--target", &pid, "--net", "--uts", "--ipc", "--mount", "--pid"].map(String::from);
        self.inside(HOSTS[host], &words, command)
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

#[test]
fn the_commands_of_its_services_run_a_job_over_three_hosts() {
    let test = Test::new("compose");
    let hosts = match Hosts::namespaces(HOSTS.len()) {
        Ok(hosts) => hosts,
        Err(why) => return println!("skipped: {why}"),
    };
    let compose = Compose::new(&test);
    for (host, name) in HOSTS.iter().enumerate() {
        let address = format!("10.77.0.{}", host + 1);
        assert!(compose.text.contains(&format!("hostname: {name}\n")), "{name}");
        assert!(compose.text.contains(&format!("ipv4_address: {address}}}")), "{address}");
    }
    compose.once("cluster");
    compose.once("program");
    // Once more, as `compose up` does in a directory that is not new.
    let key = std::fs::read(compose.home.join("cluster.key")).expect("made");
    compose.once("cluster");
    assert_eq!(std::fs::read(compose.home.join("cluster.key")).expect("there"), key, "another key");
    let daemons: Vec<Running> = (0..HOSTS.len()).map(|host| compose.host(&hosts, host)).collect();
    let check = compose.list("x-host", "test");
    assert_eq!(check[0], "CMD-SHELL");
    for host in 0..HOSTS.len() {
        let healthy = || test.run(compose.exec(host, &words(&["sh", "-c", &check[1]]))).code() == 0;
        assert!(poll_until(healthy), "{} never gets healthy", HOSTS[host]);
    }
    // The processes and the network of the first host, but files and a name of its own.
    let pid = compose.daemon(0).to_string();
    let beside = ["nsenter", "--target", &pid, "--net", "--pid", "unshare", "--uts", "--ipc", "--mount"];
    let job = compose.list("  job", "command");
    let done = test.run(compose.inside("job", &words(&beside), &job)).success();
    assert!(done.stdout.contains("24 PEs"), "{done}");
    let url = test.run(compose.exec(0, &words(&["angara", "web"]))).success();
    assert!(url.stdout.starts_with("http://10.77.0.1:8290/#token="), "{url}");
    // A browser outside gives the name of the port that is passed on.
    let ask = r#"exec 3<>/dev/tcp/10.77.0.1/8290; printf 'GET / HTTP/1.1\r\nHost: localhost:8290\r\nConnection: close\r\n\r\n' >&3; cat <&3"#;
    let page = test.run(compose.exec(0, &words(&["bash", "-c", ask]))).success();
    assert!(page.stdout.starts_with("HTTP/1.1 200"), "{page}");
    // As engines stop a container.
    let pids: Vec<i32> = (0..HOSTS.len()).map(|host| compose.daemon(host)).collect();
    for process in test.processes().iter().filter(|p| pids.contains(&p.pid)) {
        process.signal(Signal::TERM);
    }
    for daemon in daemons {
        daemon.wait(PATIENCE).success();
    }
    test.assert_clean();
}
