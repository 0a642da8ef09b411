//! Several daemons of a test that form one torus, and the networks they talk over.

use crate::daemon::Control;
use crate::process::{Finished, PATIENCE, Running, Test, poll_until};
use crate::tools;
use angara_protocol::msg::{ClusterStatus, Reply, Request};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the daemons of a cluster listen.
pub struct Hosts {
    addresses: Vec<String>,
    namespaces: Option<Namespaces>,
}

impl Hosts {
    /// 127.0.0.1, 127.0.0.2 and so on.
    pub fn loopback(hosts: usize) -> Hosts {
        Hosts::at((1..=hosts).map(|h| address(&format!("127.0.0.{h}"))))
    }
    /// The same IPv6 address with different ports.
    pub fn ipv6(hosts: usize) -> Result<Hosts, String> {
        UdpSocket::bind("[::1]:0").map_err(|e| format!("no IPv6 here: {e}"))?;
        Ok(Hosts::at((0..hosts).map(|_| address("[::1]"))))
    }
    /// This machine's name for itself instead of an address, with different ports.
    pub fn names(hosts: usize) -> Hosts {
        Hosts::at((0..hosts).map(|_| address("localhost")))
    }
    /// Any addresses.
    pub fn at(addresses: impl IntoIterator<Item = String>) -> Hosts {
        Hosts { addresses: addresses.into_iter().collect(), namespaces: None }
    }
    /// Network namespaces joined by a bridge; an error where the kernel or our rights do not allow it.
    pub fn namespaces(hosts: usize) -> Result<Hosts, String> {
        let namespaces = Namespaces::new(hosts)?;
        let addresses = (1..=hosts).map(|h| format!("10.77.0.{h}")).collect();
        Ok(Hosts { addresses, namespaces: Some(namespaces) })
    }
    /// Largest packet of the network between namespaces; where there are none, nothing changes.
    pub fn set_mtu(&self, bytes: u32) {
        let Some(all) = &self.namespaces else { return };
        let (switch, hosts) = all.names.split_last().expect("one for the bridge");
        for (h, name) in hosts.iter().enumerate() {
            ip(&format!("-n {switch} link set port{h} mtu {bytes}")).expect("ours");
            ip(&format!("-n {name} link set eth0 mtu {bytes}")).expect("ours");
        }
    }
    /// Words that go before a command, so that it runs on a host.
    pub fn words(&self, host: usize) -> Vec<String> {
        let name = self.namespaces.as_ref().map(|all| &all.names[host]);
        name.map_or_else(Vec::new, |name| ["ip", "netns", "exec", name].map(String::from).to_vec())
    }
}

/// `host` with a port that is free there, outside the range from which the kernel picks ports by itself.
fn address(host: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..1000 {
        let n = std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let address = format!("{host}:{}", 12_000 + n % 18_000);
        if UdpSocket::bind(&address).is_ok() {
            return address;
        }
    }
    panic!("no free UDP port on {host}");
}

/// One network namespace per host and one for the bridge that joins them.
struct Namespaces {
    names: Vec<String>,
}

/// How their names begin; the number of the process that made them follows.
const PREFIX: &str = "angara";

impl Namespaces {
    fn new(hosts: usize) -> Result<Namespaces, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        sweep();
        let this = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let made = Namespaces { names: (0..=hosts).map(|h| format!("{this}-{h}")).collect() };
        let switch = &made.names[hosts];
        for name in &made.names {
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        ip(&format!("-n {switch} link add switch type bridge"))?;
        ip(&format!("-n {switch} link set switch up"))?;
        for (h, name) in made.names[..hosts].iter().enumerate() {
            ip(&format!("-n {name} link add eth0 type veth peer name port{h} netns {switch}"))?;
            ip(&format!("-n {switch} link set port{h} master switch up"))?;
            ip(&format!("-n {name} address add 10.77.0.{}/24 dev eth0", h + 1))?;
            ip(&format!("-n {name} link set eth0 up"))?;
        }
        Ok(made)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            // Those that were never made are no loss.
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

/// Removes namespaces of tests that were killed.
fn sweep() {
    for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if maker.is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()) {
            // Another test may have been faster.
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

fn ip(words: &str) -> Result<(), String> {
    let done = Command::new("ip").args(words.split(' ')).output().map_err(|e| format!("ip: {e}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("ip {words}: {}", String::from_utf8_lossy(&done.stderr).trim())),
    }
}

/// Daemons h0, h1 and so on of one cluster. Killed when dropped.
pub struct Cluster<'t> {
    /// The test it belongs to.
    pub test: &'t Test,
    daemons: Vec<Option<Running>>,
    arguments: Vec<String>,
    // After the daemons: they are to end before their namespaces.
    hosts: Hosts,
}

impl<'t> Cluster<'t> {
    /// Writes the cluster file. `head` goes in front of what `angara cluster init` writes.
    pub fn prepare(test: &'t Test, torus: &str, hosts: Hosts, head: &str, arguments: &[&str]) -> Cluster<'t> {
        let all = hosts.addresses.len();
        let names: Vec<String> = hosts.addresses.iter().enumerate().map(|(h, a)| format!("h{h}={a}")).collect();
        let file = test.file("cluster.toml");
        let mut init = test.angara(["cluster", "init", "--torus", torus, "--hosts", &names.join(",")]);
        init.arg("--out").arg(&file);
        test.run(init).success();
        let text = std::fs::read_to_string(&file).expect("just written");
        std::fs::write(file, format!("{head}\n{text}")).expect("the directory is writable");
        Cluster {
            test,
            daemons: (0..all).map(|_| None).collect(),
            arguments: arguments.iter().map(|a| a.to_string()).collect(),
            hosts,
        }
    }

    /// Starts the daemons and waits until all trunks are up. A busy machine may keep a daemon from running for
    /// longer than the usual second, so a silent host counts as dead only after ten.
    pub fn start(test: &'t Test, torus: &str, hosts: Hosts, arguments: &[&str]) -> Cluster<'t> {
        let mut cluster = Cluster::prepare(test, torus, hosts, "dead-after = \"10s\"", arguments);
        (0..cluster.len()).for_each(|host| cluster.spawn(host));
        cluster.wait_up();
        cluster
    }

    /// Number of hosts.
    pub fn len(&self) -> usize {
        self.daemons.len()
    }
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.daemons.is_empty()
    }
    /// The cluster file: one for all hosts, unless a host was given its own.
    pub fn file(&self, host: usize) -> PathBuf {
        let own = self.own_file(host);
        if own.exists() { own } else { self.test.file("cluster.toml") }
    }
    /// Where a cluster file for one host alone is to be written.
    pub fn own_file(&self, host: usize) -> PathBuf {
        self.test.file(&format!("cluster{host}.toml"))
    }
    /// The network that they are on.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }
    /// Address of a host, with its port if that is not the usual one.
    pub fn address(&self, host: usize) -> &str {
        &self.hosts.addresses[host]
    }
    /// Runtime directory of a daemon.
    pub fn dir(&self, host: usize) -> PathBuf {
        self.test.runtime_dir().with_file_name(format!("h{host}"))
    }
    /// A daemon that was started and not taken.
    pub fn daemon(&self, host: usize) -> Option<&Running> {
        self.daemons[host].as_ref()
    }
    /// Takes a daemon away, to end it.
    pub fn take(&mut self, host: usize) -> Running {
        self.daemons[host].take().unwrap_or_else(|| panic!("h{host} does not run"))
    }

    /// Starts a daemon and waits until its sockets are there.
    pub fn spawn(&mut self, host: usize) {
        self.spawn_inside(host, &[]);
    }
    /// As [`Cluster::spawn`], with words that go before the daemon's command line.
    pub fn spawn_inside(&mut self, host: usize, words: &[&str]) {
        let fabricd = tools::tool("fabricd");
        let mut command = match &self.hosts.namespaces {
            None if !words.is_empty() => {
                let mut command = self.test.command(words[0]);
                command.args(&words[1..]).arg(fabricd);
                command
            }
            None => self.test.command(fabricd),
            Some(all) => {
                let mut command = self.test.command("ip");
                command.args(["netns", "exec", &all.names[host]]).arg(fabricd);
                command
            }
        };
        command.arg("--cluster").arg(self.file(host)).args(["--host", &format!("h{host}")]);
        command.arg("--runtime-dir").arg(self.dir(host)).args(&self.arguments);
        let daemon = self.test.spawn(command);
        daemon.expect_line("{");
        self.daemons[host] = Some(daemon);
    }

    /// A control connection to a daemon.
    pub fn control(&self, host: usize) -> Control {
        Control::connect(&self.dir(host))
    }
    /// Returns what a daemon knows of its trunks.
    pub fn status(&self, host: usize) -> ClusterStatus {
        match self.control(host).ask(&Request::Cluster) {
            Ok(Reply::Cluster(status)) => status,
            other => panic!("unexpected {other:?}"),
        }
    }
    /// Hosts whose daemon was started and not taken.
    pub fn running(&self) -> Vec<usize> {
        (0..self.len()).filter(|h| self.daemons[*h].is_some()).collect()
    }

    /// Waits until every running daemon sees every other host.
    pub fn wait_up(&self) {
        for host in self.running() {
            let up = || self.status(host).peers.iter().all(|p| p.up);
            assert!(poll_until(up), "host h{host} does not see all others: {:?}", self.status(host));
        }
    }

    /// `angara run` on a host.
    pub fn run_on(&self, host: usize, args: &[&str], program: &Path) -> Command {
        let mut command = self.test.angara(["run", "--cluster"]);
        command.arg(self.file(host)).arg("--runtime-dir").arg(self.dir(host)).args(args).arg("--").arg(program);
        command
    }
    /// `angara run` on the first host.
    pub fn run(&self, args: &[&str], program: &Path) -> Command {
        self.run_on(0, args, program)
    }

    /// `angara fault SPEC` on a host.
    pub fn fault_on(&self, host: usize, spec: &str) -> Command {
        let mut command = self.test.angara(["fault"]);
        command.args(spec.split_whitespace()).arg("--runtime-dir").arg(self.dir(host));
        command
    }
    /// As [`Cluster::fault_on`] on the first host; must work.
    pub fn fault(&self, spec: &str) {
        self.test.run(self.fault_on(0, spec)).success();
    }

    /// Ends all daemons in order; what they said.
    pub fn shutdown(mut self) -> Vec<Finished> {
        for host in self.running() {
            self.control(host).ask(&Request::Shutdown).expect("a daemon obeys");
        }
        self.daemons.iter_mut().filter_map(Option::take).map(|d| d.wait(PATIENCE).success()).collect()
    }
}
