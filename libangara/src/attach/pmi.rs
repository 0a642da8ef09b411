//! PMI-1, the protocol of MPICH's `mpiexec` and its kin, and of `srun --mpi=pmi2`: lines of `key=value` words on
//! a descriptor named in `PMI_FD`.

use super::key_space::{KeySpace, failed};
use crate::error::Result;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{FromRawFd, RawFd};

/// A conversation with the launcher.
pub(crate) struct Pmi<S: Read + Write> {
    stream: BufReader<S>,
    pe: u32,
    pes: u32,
    /// Name of the job's key space.
    name: String,
}

impl Pmi<File> {
    /// The launcher the environment names.
    pub(crate) fn from_env() -> Result<Option<Pmi<File>>> {
        let number = |name: &'static str| -> Result<Option<u32>> {
            match std::env::var(name) {
                Err(_) => Ok(None),
                Ok(text) => {
                    text.parse().map(Some).map_err(|_| failed(format!("{name} is {text:?}, which is no number")))
                }
            }
        };
        let (Some(fd), Some(pe), Some(pes)) = (number("PMI_FD")?, number("PMI_RANK")?, number("PMI_SIZE")?) else {
            return Ok(None);
        };
        // SAFETY: asks about a descriptor.
        if unsafe { libc::fcntl(fd as RawFd, libc::F_GETFD) } < 0 {
            return Err(failed(format!("PMI_FD is {fd}, which is not open in this process")));
        }
        // SAFETY: the launcher opened the descriptor for this conversation, which ends here; MPI in the
        // same process would need it too, but a process is started by one library only.
        let stream = unsafe { File::from_raw_fd(fd as RawFd) };
        Pmi::new(stream, pe, pes).map(Some)
    }
}

impl<S: Read + Write> Pmi<S> {
    fn new(stream: S, pe: u32, pes: u32) -> Result<Pmi<S>> {
        let mut pmi = Pmi { stream: BufReader::new(stream), pe, pes, name: String::new() };
        pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        pmi.name = pmi.value("cmd=get_my_kvsname", "my_kvsname", "kvsname")?;
        Ok(pmi)
    }

    /// Sends a line, checks that the answer is `cmd=expected` without an error, and returns its words.
    fn ask(&mut self, line: &str, expected: &str) -> Result<Vec<(String, String)>> {
        let lost = |e: std::io::Error| failed(format!("the launcher's PMI connection is lost ({e})"));
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes()).map_err(lost)?;
        let mut answer = String::new();
        self.stream.read_line(&mut answer).map_err(lost)?;
        let words: Vec<(String, String)> = answer
            .split_whitespace()
            .filter_map(|w| w.split_once('='))
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        let of = |key: &str| words.iter().find(|w| w.0 == key).map(|w| w.1.as_str());
        if of("cmd") != Some(expected) || of("rc").is_some_and(|rc| rc != "0") {
            let answer = answer.trim();
            return Err(failed(format!("the launcher answers `{answer}` to `{line}`, where `cmd={expected}` is due")));
        }
        Ok(words)
    }

    fn value(&mut self, line: &str, expected: &str, key: &str) -> Result<String> {
        let words = self.ask(line, expected)?;
        let found = words.into_iter().find(|w| w.0 == key).map(|w| w.1);
        found.ok_or_else(|| failed(format!("the launcher's answer to `{line}` has no `{key}`")))
    }
}

impl<S: Read + Write> KeySpace for Pmi<S> {
    fn place(&self) -> (u32, u32) {
        (self.pe, self.pes)
    }
    fn publish(&mut self, key: &str, text: &str) -> Result<()> {
        self.ask(&format!("cmd=put kvsname={} key={key} value={text}", self.name), "put_result").map(drop)
    }
    fn fence(&mut self) -> Result<()> {
        self.ask("cmd=barrier_in", "barrier_out").map(drop)
    }
    fn read(&mut self, _pe: u32, key: &str) -> Result<String> {
        self.value(&format!("cmd=get kvsname={} key={key}", self.name), "get_result", "value")
    }
    fn leave(&mut self) -> Result<()> {
        self.ask("cmd=finalize", "finalize_ack").map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::launcher::join;
    use angara_abi::JobId;
    use angara_protocol::launch::Launch;
    use std::collections::BTreeMap;
    use std::os::unix::net::UnixStream;
    use std::sync::{Arc, Barrier, Mutex};

    fn job() -> Launch {
        Launch { runtime_dir: "/tmp/a b=c".into(), job: JobId::new(7), key: "0f".repeat(16), pe: 0, pes: 3 }
    }

    /// A launcher's side for one process, with a store and a barrier that all share.
    fn serve(stream: UnixStream, store: Arc<Mutex<BTreeMap<String, String>>>, all: Arc<Barrier>) -> Vec<String> {
        let mut lines = Vec::new();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap() == 0 {
                return lines;
            }
            let word = |key: &str| {
                let word = line.split_whitespace().find_map(|w| w.strip_prefix(&format!("{key}=")));
                word.unwrap_or_default().to_string()
            };
            let answer = match word("cmd").as_str() {
                "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".into(),
                "get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_1_0".into(),
                "put" => {
                    store.lock().unwrap().insert(word("key"), word("value"));
                    "cmd=put_result rc=0 msg=success".into()
                }
                "barrier_in" => {
                    all.wait();
                    "cmd=barrier_out".to_string()
                }
                "get" => match store.lock().unwrap().get(&word("key")) {
                    Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                    None => "cmd=get_result rc=-1 msg=key_not_found".into(),
                },
                "finalize" => "cmd=finalize_ack".into(),
                other => panic!("{other}"),
            };
            stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
            lines.push(line);
        }
    }

    fn start(on_hosts: bool, create: fn(u32, &[String]) -> Result<Launch>) -> Vec<(Result<Launch>, Vec<String>)> {
        let (store, all) = (Arc::new(Mutex::new(BTreeMap::new())), Arc::new(Barrier::new(3)));
        let processes: Vec<_> = (0..3)
            .map(|pe| {
                let (mine, theirs) = UnixStream::pair().unwrap();
                let (store, all) = (store.clone(), all.clone());
                let server = std::thread::spawn(move || serve(theirs, store, all));
                let host = on_hosts.then(|| format!("host{}", pe / 2));
                let client = std::thread::spawn(move || join(&mut Pmi::new(mine, pe, 3)?, host, create));
                (client, server)
            })
            .collect();
        processes.into_iter().map(|(client, server)| (client.join().unwrap(), server.join().unwrap())).collect()
    }

    #[test]
    fn everybody_learns_where_the_job_is() {
        for (pe, (launch, lines)) in
            start(false, |_, hosts| if hosts.is_empty() { Ok(job()) } else { unreachable!() }).into_iter().enumerate()
        {
            assert_eq!(launch.unwrap(), Launch { pe: pe as u32, ..job() });
            assert!(lines[0].starts_with("cmd=init ") && lines.last().unwrap() == "cmd=finalize\n", "{lines:?}");
        }
    }

    #[test]
    fn hosts_of_a_cluster_are_gathered_and_each_finds_its_own_daemon() {
        let results = start(true, |pes, hosts| {
            assert_eq!((pes, hosts), (3, &["host0", "host0", "host1"].map(String::from)[..]));
            Ok(job())
        });
        for (pe, (launch, _)) in results.into_iter().enumerate() {
            let launch = launch.unwrap();
            let own = if pe == 0 { job().runtime_dir } else { angara_protocol::launch::default_runtime_dir() };
            assert_eq!((launch.job, launch.pe, launch.runtime_dir), (JobId::new(7), pe as u32, own));
        }
    }

    #[test]
    fn a_job_that_cannot_be_created_fails_everywhere() {
        let results = start(false, |_, _| Err(failed("no daemon")));
        assert!(results[0].0.as_ref().unwrap_err().to_string().contains("no daemon"));
        for (launch, _) in &results[1..] {
            assert!(launch.as_ref().unwrap_err().to_string().contains("PE 0 could not create the job"));
        }
    }

    #[test]
    fn an_answer_that_is_none_is_named() {
        let (mine, theirs) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || {
            let mut theirs = theirs;
            theirs.write_all(b"cmd=response_to_init rc=-1\n").unwrap();
            theirs
        });
        let error = Pmi::new(mine, 1, 2).err().expect("refused").to_string();
        assert!(error.contains("rc=-1") && error.contains("cmd=response_to_init` is due"), "{error}");
        drop(server.join());
    }
}
