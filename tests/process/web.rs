//! The page of a real daemon: who may see it, who may change something, and what bad clients get.

use angara_tests::daemon::Daemon;
use angara_tests::process::{PATIENCE, poll_until};
use angara_tests::web::http::{self, Answer};
use angara_tests::{Test, tools};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A daemon with a page, and what opens it.
struct Page {
    daemon: Daemon,
    to: SocketAddr,
}

impl Page {
    fn start(test: &Test) -> Page {
        Page::with(test, &["--torus", "2x2x2", "--web", "127.0.0.1:0"])
    }

    fn with(test: &Test, args: &[&str]) -> Page {
        let daemon = Daemon::start(test, args);
        let to = http::address(&daemon.status().web.expect("a page"));
        Page { daemon, to }
    }

    fn token(&self, name: &str) -> String {
        std::fs::read_to_string(self.daemon.dir().join(name)).expect("a token").trim().to_string()
    }

    fn origin(&self) -> String {
        format!("Origin: http://{}", self.to)
    }

    /// The header by which who has this token shows it.
    fn bearer(&self, name: &str) -> String {
        format!("Authorization: Bearer {}", self.token(name))
    }

    fn get(&self, path: &str, headers: &[&str]) -> Answer {
        http::ask(self.to, "GET", path, headers, "")
    }

    fn fault(&self, headers: &[&str], spec: &str) -> Answer {
        http::ask(self.to, "POST", "/api/fault", headers, &format!("{{\"spec\":\"{spec}\"}}"))
    }

    /// A stream of events.
    fn events(&self) -> TcpStream {
        let mut stream = http::connect(self.to);
        let bearer = self.bearer("read.token");
        let request = format!("GET /api/events HTTP/1.1\r\nHost: {}\r\n{bearer}\r\n\r\n", self.to);
        stream.write_all(request.as_bytes()).expect("written");
        stream
    }

    /// Flits that links have carried, by the first event of a stream.
    fn flits(&self) -> u64 {
        let whole = |text: &str| text.lines().find(|l| l.starts_with("data: {") && l.ends_with('}')).map(String::from);
        let text = read_until(&mut self.events(), |text| whole(text).is_some());
        let event: serde_json::Value = serde_json::from_str(&whole(&text).expect("one")[6..]).expect("JSON");
        let links = event["links"].as_array().expect("a list");
        links.chunks(4).map(|link| link[2].as_u64().expect("flits")).sum()
    }

    /// It still answers, and its control socket, too.
    fn end(self, test: &Test) {
        assert_eq!(self.get("/", &[]).status, 200);
        let dir = self.daemon.dir().to_owned();
        self.daemon.shutdown();
        assert!(!dir.join("read.token").exists() && !dir.join("control.token").exists(), "tokens are left");
        test.assert_clean();
    }
}

/// Reads from a stream of events until `wanted` is true of all that has come.
fn read_until(stream: &mut TcpStream, mut wanted: impl FnMut(&str) -> bool) -> String {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if wanted(&text) {
            return text;
        }
        assert!(std::time::Instant::now() < end, "nothing like that within {PATIENCE:?}: {text}");
        match stream.read(&mut piece) {
            Ok(0) => panic!("the stream ended after {text}"),
            Ok(n) => all.extend_from_slice(&piece[..n]),
            Err(e) => panic!("{e} after {text}"),
        }
    }
}

#[test]
fn the_page_is_for_those_who_have_a_token() {
    let test = Test::new("web-access");
    let page = Page::start(&test);
    let index = page.get("/", &[]);
    assert_eq!(index.status, 200);
    let policy = index.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self';") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(index.header("access-control-allow-origin"), None);
    for path in
        ["/api/network", "/api/events", "/api/link/0/0", "/api/job/1", "/api/past/0/0", "/api/faults", "/api/waits/1"]
    {
        let cookie = format!("Cookie: angara={}", page.token("control.token"));
        let long = format!("Authorization: Bearer {}", "0".repeat(4000));
        for header in ["X-None: 1", &cookie, "Authorization: Bearer x", "Authorization: Bearer", &long] {
            assert_eq!(page.get(path, &[header]).status, 403, "{path} {header}");
        }
    }
    let (read, control) = (page.bearer("read.token"), page.bearer("control.token"));
    for (bearer, control) in [(&read, false), (&control, true)] {
        let answer = page.get("/api/network", &[bearer]);
        assert_eq!(answer.header("set-cookie"), None, "browsers send cookies to other ports");
        let network: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!((&network["dims"], &network["control"]), (&serde_json::json!([2, 2, 2]), &control.into()));
    }
    assert_eq!(page.get("/metrics", &[&read]).status, 200);
    let link: serde_json::Value = serde_json::from_str(&page.get("/api/link/0/0", &[&read]).body).expect("JSON");
    assert_eq!(link["classes"].as_array().map(Vec::len), Some(4));
    let channels = link["channels"].as_array().expect("virtual channels");
    let names: Vec<_> = channels.iter().map(|c| c["vc"].as_str().expect("a name")).collect();
    assert_eq!(names, ["response", "request", "adaptive", "up", "down"]);
    let idle =
        |c: &serde_json::Value| ["slots", "packets", "flits"].iter().all(|n| c[n] == 0) && c["of"].as_u64() > Some(0);
    assert!(channels.iter().all(idle), "{channels:?}");
    assert_eq!(page.get("/api/link/8/0", &[&read]).status, 404);
    assert_eq!(page.get("/api/link/0/3", &[&read]).status, 404, "a fourth dimension");
    let mut command = test.angara(["web", "--runtime-dir"]);
    command.arg(page.daemon.dir());
    let url = test.run(command).success().stdout;
    assert_eq!(url.trim(), format!("http://{}/#token={}", page.to, page.token("read.token")));
    for (option, token) in [("--read", "read.token"), ("--faults", "control.token")] {
        let mut command = test.angara(["web", option, "--runtime-dir"]);
        command.arg(page.daemon.dir());
        let url = test.run(command).success().stdout;
        assert_eq!(url.trim(), format!("http://{}/#token={}", page.to, page.token(token)));
    }
    let mut command = test.angara(["web", "--read", "--faults", "--runtime-dir"]);
    command.arg(page.daemon.dir());
    test.run(command).failure(&["--read", "--faults"]);
    page.end(&test);
}

#[test]
fn faults_take_the_control_token_and_the_page_itself() {
    let test = Test::new("web-fault");
    let page = Page::start(&test);
    let (origin, spec) = (page.origin(), "link 0,0,0 +X down");
    let (read, control) = (page.bearer("read.token"), page.bearer("control.token"));
    let foreign = "Origin: http://evil.example";
    let refused: [&[&str]; 5] = [
        &[&origin],
        &[&origin, &read],
        &[&control],
        &[foreign, &control],
        &[&origin, &control, "Sec-Fetch-Site: same-site"],
    ];
    for headers in refused {
        assert_eq!(page.fault(headers, spec).status, 403, "{headers:?}");
    }
    assert!(page.daemon.status().faults.is_empty());
    let ours: [&str; 2] = [&origin, &control];
    assert_eq!(page.fault(&ours, spec).status, 200);
    assert_eq!(page.daemon.status().faults, [spec]);
    let answer = page.fault(&ours, "link 9,9,9 +X down");
    assert_eq!(answer.status, 422);
    assert!(answer.body.contains("9,9,9"), "{}", answer.body);
    assert_eq!(page.fault(&ours, "link 0,0,0 +X up").status, 200);
    assert!(page.daemon.status().faults.is_empty());
    page.end(&test);
}

#[test]
fn two_pages_may_set_and_undo_the_same_fault() {
    let test = Test::new("web-two");
    let page = Page::start(&test);
    let ours: [&str; 2] = [&page.origin(), &page.bearer("control.token")];
    let specs = ["link 0,0,0 +X down", "link 0,0,0 +X up", "node 1,1,1 drop=1%", "node 1,1,1 clear"];
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for spec in specs.iter().cycle().take(40) {
                    let answer = page.fault(&ours, spec);
                    // Refused is only what cannot be, with a remedy.
                    let told = answer.status == 422 && answer.body.contains("; ");
                    assert!(answer.status == 200 || told, "{spec}: {answer:?}");
                }
            });
        }
    });
    for spec in ["link 0,0,0 +X clear", "node 1,1,1 clear"] {
        page.fault(&ours, spec);
    }
    assert_eq!(page.daemon.status().faults, [""; 0], "undone by both, and still there");
    page.end(&test);
}

#[test]
fn each_fault_says_where_it_comes_from_and_what_undoes_it() {
    let test = Test::new("web-faults");
    let page = Page::with(&test, &["--torus", "4x2x2", "--web", "127.0.0.1:0", "--fault", "node 3,1,1 delay=2us"]);
    let (read, ours) = (page.bearer("read.token"), [page.origin(), page.bearer("control.token")]);
    let list = || -> serde_json::Value {
        let answer = page.get("/api/faults", &[&read]);
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str(&answer.body).expect("JSON")
    };
    let ours: [&str; 2] = [&ours[0], &ours[1]];
    assert_eq!(page.fault(&ours, "link 0,0,0 +X corrupt=30% seed=7").status, 200);
    let mut command = test.angara(["fault", "--runtime-dir"]);
    command.arg(page.daemon.dir()).args(["node", "1,1,1", "drop=1%", "@1h"]);
    test.run(command).success();
    let said = list();
    let names: Vec<_> = said["kinds"].as_array().expect("kinds").iter().map(|kind| kind["name"].clone()).collect();
    assert_eq!(names, ["corrupt", "drop", "dup", "reorder", "delay", "rate", "seed"]);
    let find = |said: &serde_json::Value, text: &str| {
        let rows = said["faults"].as_array().expect("rows");
        let found = rows.iter().find(|row| row["fault"].as_str().expect("a text").starts_with(text)).cloned();
        found.unwrap_or_else(|| panic!("no {text} in {said}"))
    };
    let uid = rustix::process::getuid().as_raw();
    for (text, by, user, coming, undo) in [
        ("node 3,1,1 delay=2us", "start", None, false, "node 3,1,1 delay=0ps"),
        ("link 0,0,0 +X corrupt=30%", "page", None, false, "link 0,0,0 +X corrupt=0%"),
        ("link 0,0,0 +X seed=7", "page", None, false, "link 0,0,0 +X seed=none"),
        ("node 1,1,1 drop=1%", "command", Some(uid), true, "node 1,1,1 clear"),
    ] {
        let row = find(&said, text);
        assert_eq!((&row["by"], &row["coming"], &row["undo"]), (&by.into(), &coming.into(), &undo.into()), "{row}");
        assert_eq!(row["uid"], serde_json::json!(user), "{row}");
        assert_eq!(row["since"].is_null(), coming, "{row}");
    }
    // What it did, once something is sent over the link.
    let mut command = test.angara(["run", "-q", "-n", "2", "--path", "ring", "--timeout", "200", "--runtime-dir"]);
    command.arg(page.daemon.dir()).arg("--").arg(tools::compile("tests/c/steps.c")).stdin(std::process::Stdio::piped());
    let mut job = test.spawn(command);
    let mut input = job.take_stdin();
    job.expect_line("ready");
    input.write_all(b"block 1 200000\n").expect("the job reads");
    let counted = |what: &str| find(&list(), "link 0,0,0 +X corrupt")["did"][what].as_u64().expect("a count");
    assert!(poll_until(|| counted("crc_errors") > 0 && counted("replays") > 0), "{}", list());
    drop(input);
    job.wait(PATIENCE).success();
    for row in list()["faults"].as_array().expect("rows") {
        assert_eq!(page.fault(&ours, row["undo"].as_str().expect("a command")).status, 200, "{row}");
    }
    assert_eq!((list()["faults"].clone(), list()["more"].clone()), (serde_json::json!([]), 0.into()));
    page.end(&test);
}

#[test]
fn a_page_may_ask_who_waits_for_whom() {
    let test = Test::new("web-waits");
    let page = Page::start(&test);
    let read = page.bearer("read.token");
    assert_eq!(page.get("/api/waits/1", &[&read]).status, 404);
    for nonsense in ["/api/waits/x", "/api/waits/-1", "/api/waits/99999999999999999999"] {
        assert_eq!(page.get(nonsense, &[&read]).status, 400, "{nonsense}");
    }
    let mut command = test.angara(["run", "-q", "-n", "3", "--path", "ring", "--timeout", "200", "--runtime-dir"]);
    command.arg(page.daemon.dir()).arg("--").arg(tools::compile("tests/c/steps.c")).stdin(std::process::Stdio::piped());
    let mut job = test.spawn(command);
    let input = job.take_stdin();
    job.expect_line("ready");
    let mut said = serde_json::Value::Null;
    let waits = poll_until(|| {
        said = serde_json::from_str(&page.get("/api/waits/1", &[&read]).body).expect("JSON");
        said["waiting"] == 2
    });
    assert!(waits && said["pes"] == 3, "{said}");
    for wait in said["waits"].as_array().expect("a list") {
        let what = wait["what"].as_str().expect("a text");
        assert!(what.starts_with("shmem_int_wait_until: the variable at 0x") && wait["pe"] != 0, "{said}");
    }
    drop(input);
    job.wait(PATIENCE).success();
    page.end(&test);
}

#[test]
fn other_names_of_this_machine_are_refused() {
    let test = Test::new("web-host");
    let page = Page::start(&test);
    for host in ["Host: evil.example", "Host: 127.0.0.1.evil.example:80", "Host:"] {
        for path in ["/", "/api/network", "/main.js"] {
            assert_eq!(page.get(path, &[host]).status, 421, "{host} {path}");
        }
    }
    assert_eq!(page.get("/", &["Host: localhost:99"]).status, 200, "through a tunnel");
    page.end(&test);
}

#[test]
fn events_follow_a_job_and_a_fault() {
    let test = Test::new("web-events");
    let page = Page::start(&test);
    let mut stream = page.events();
    read_until(&mut stream, |text| text.contains("\"full\":true") && text.contains("\"faults\":[]"));
    let mut command = test.angara(["run", "-q", "-n", "8", "--path", "ring", "--runtime-dir"]);
    command.arg(page.daemon.dir()).arg("--").arg(tools::compile("tests/c/traffic.c"));
    test.run(command).success();
    read_until(&mut stream, |text| {
        text.lines().any(|l| l.starts_with("data: ") && l.ends_with('}') && !l.contains("\"links\":[]"))
    });
    page.daemon.control().fault("link 0,0,0 +X down").expect("a fault");
    read_until(&mut stream, |text| text.contains("\"down\":[0,12]") && text.contains("link 0,0,0 +X down"));
    drop(stream);
    page.end(&test);
}

#[test]
fn what_has_been_is_kept_for_a_page_that_opens_later() {
    let test = Test::new("web-past");
    let page = Page::start(&test);
    let bearer = page.bearer("read.token");
    let past = |path: &str| -> serde_json::Value {
        let answer = page.get(path, &[&bearer]);
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str(&answer.body).expect("JSON")
    };
    assert_eq!(past("/api/past/0/0")["frames"], serde_json::json!([]), "no job, no copies");
    let mut command = test.angara(["run", "-q", "-n", "8", "--path", "ring", "--runtime-dir"]);
    command.arg(page.daemon.dir()).arg("--").arg(tools::compile("tests/c/traffic.c"));
    test.run(command).success();
    let ended = || past("/api/past/0/0")["jobs"][0]["to"].is_f64();
    assert!(poll_until(ended), "{}", past("/api/past/0/0"));
    let whole = || {
        let all = past("/api/past/0/0");
        let flits = |list: &serde_json::Value| -> u64 {
            let links = list.as_array().expect("frames").iter().flat_map(|f| f["links"].as_array().expect("links"));
            links.map(|link| link[1].as_u64().expect("flits")).sum()
        };
        let steps: u64 = all["steps"].as_array().expect("steps").iter().map(|s| s["flits"].as_u64().expect("n")).sum();
        (flits(&all["frames"]), steps, page.flits())
    };
    let same = |(frames, steps, links): (u64, u64, u64)| frames > 0 && frames == links && steps == links;
    assert!(poll_until(|| same(whole())), "{:?}", whole());
    let all = past("/api/past/0/0");
    assert_eq!((&all["jobs"][0]["job"], &all["jobs"][0]["pes"]), (&1.into(), &8.into()));
    let last = all["frames"].as_array().and_then(|f| f.last()).expect("a frame")["id"].as_u64().expect("a number");
    assert_eq!(past(&format!("/api/past/{last}/1000000000"))["frames"], serde_json::json!([]));
    assert_eq!(past("/api/job/1").as_array().map(Vec::len), Some(8), "where its PEs were");
    for nonsense in
        ["/api/past/x/0", "/api/past/-1/0", "/api/past/0/1e9", "/api/past/0", "/api/past/0/99999999999999999999"]
    {
        let status = page.get(nonsense, &[&bearer]).status;
        assert!(status == 400 || status == 404, "{nonsense}: {status}");
    }
    page.end(&test);
}

#[test]
fn a_reader_that_does_not_read_holds_nobody_up() {
    let test = Test::new("web-slow");
    let page = Page::with(&test, &["--torus", "16x16x16", "--web", "127.0.0.1:0"]);
    let bearer = page.bearer("read.token");
    let opened = |_| {
        let mut stream = page.events();
        let mut head = [0; 12];
        stream.read_exact(&mut head).expect("an answer");
        assert_eq!(&head, b"HTTP/1.1 200");
        stream
    };
    let streams: Vec<TcpStream> = (0..16).map(opened).collect();
    assert_eq!(page.get("/api/events", &[&bearer]).status, 503, "a 17th stream");
    let mut command = test.angara(["run", "-q", "-n", "8", "--path", "ring", "--runtime-dir"]);
    command.arg(page.daemon.dir()).arg("--").arg(tools::compile("tests/c/traffic.c"));
    test.run(command).success();
    drop(streams);
    let mut again = None;
    let free = poll_until(|| {
        let mut stream = page.events();
        let mut head = [0; 12];
        stream.read_exact(&mut head).expect("an answer");
        let served = &head == b"HTTP/1.1 200";
        again = served.then_some(stream);
        served
    });
    assert!(free, "streams that have ended still count");
    drop(again);
    page.end(&test);
}

#[test]
fn half_open_connections_are_bounded_and_end() {
    let test = Test::new("web-half-open");
    let page = Page::start(&test);
    let descriptors = || {
        let dir = format!("/proc/{}/fd", page.daemon.status().pid);
        std::fs::read_dir(dir).expect("ours").count()
    };
    let before = descriptors();
    let mut kept = Vec::new();
    for i in 0..10_000 {
        // The backlog may be full for a moment.
        let Ok(mut stream) = TcpStream::connect_timeout(&page.to, PATIENCE) else { continue };
        let _ = stream.write_all(b"GET / HT");
        kept.push(stream);
        if i % 250 == 249 {
            assert!(descriptors() < before + 200, "{} descriptors", descriptors());
            page.daemon.control().status();
            // A test may have only N open files.
            kept.truncate(500);
        }
    }
    let served = poll_until(|| {
        TcpStream::connect(page.to).is_ok_and(|mut stream| {
            let _ = stream
                .write_all(format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", page.to).as_bytes());
            let mut text = String::new();
            stream.set_read_timeout(Some(PATIENCE)).is_ok()
                && stream.read_to_string(&mut text).is_ok()
                && text.starts_with("HTTP/1.1 200")
        })
    });
    assert!(served, "half-open connections keep others away");
    drop(kept);
    page.end(&test);
}

#[test]
fn whoever_sends_half_a_body_keeps_nobody_away() {
    let test = Test::new("web-half-body");
    let page = Page::start(&test);
    let mut watched = page.events();
    read_until(&mut watched, |text| text.contains("\"full\":true"));
    let half = |path: &str, more: &str| {
        let mut stream = http::connect(page.to);
        let (to, origin) = (page.to, page.origin());
        let head = format!("POST {path} HTTP/1.1\r\nHost: {to}\r\n{origin}\r\n{more}Content-Length: 4000\r\n\r\n{{");
        // One that is one too many is closed in the middle.
        let _ = stream.write_all(head.as_bytes());
        stream
    };
    let paths = ["/session", "/api/fault", "/", "/api/network"];
    let kept: Vec<TcpStream> = (0..256).map(|i| half(paths[i % 4], "")).collect();
    // At once, though nobody has waited for their end.
    assert_eq!(page.get("/", &[]).status, 200);
    assert_eq!(page.get("/api/network", &[&page.bearer("read.token")]).status, 200);
    // Who was there with a token still is.
    page.daemon.control().fault("link 0,0,0 +X down").expect("a fault");
    read_until(&mut watched, |text| text.contains("\"down\":[0,12]"));
    drop(kept);
    // Nor is whoever has one waited for without end.
    let mut own = half("/api/fault", &format!("{}\r\n", page.bearer("control.token")));
    let mut said = String::new();
    own.read_to_string(&mut said).expect("an answer and an end");
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    drop(watched);
    page.end(&test);
}

#[test]
fn nonsense_is_refused() {
    let test = Test::new("web-nonsense");
    let page = Page::start(&test);
    for path in
        ["/../main.js", "/%2e%2e/etc/passwd", "//etc/passwd", "/..%2f..%2fetc%2fpasswd", "/read.token", "/api/link/0"]
    {
        let status = page.get(path, &[]).status;
        assert!(status == 404 || status == 400, "{path}: {status}");
    }
    assert_eq!(page.get("/api/fault", &[]).status, 405);
    let long = "x".repeat(100_000);
    let status = page.get(&format!("/{long}"), &[]).status;
    assert!(status == 414 || status == 431, "{status}");
    assert_eq!(page.get("/", &[&format!("X-Long: {long}")]).status, 431);
    let many: Vec<String> = (0..200).map(|i| format!("X-{i}: 1")).collect();
    assert_eq!(page.get("/", &many.iter().map(|s| &s[..]).collect::<Vec<_>>()).status, 431);
    let ours: [&str; 2] = [&page.origin(), &page.bearer("control.token")];
    assert_eq!(http::ask(page.to, "POST", "/api/fault", &ours, &long).status, 413);
    for body in ["{", "[]", "{\"spec\":1}", "{\"spec\":\"a\",\"more\":1}", "\u{0}"] {
        assert_eq!(http::ask(page.to, "POST", "/api/fault", &ours, body).status, 400, "{body:?}");
    }
    assert_eq!(http::raw(page.to, b"\x16\x03\x01\x02\x00\x01\r\n\r\n").status, 400);
    page.end(&test);
}

#[test]
fn an_address_that_cannot_be_had_is_named_with_a_remedy() {
    let test = Test::new("web-address");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = taken.local_addr().map(|a| (a.to_string(), taken)).expect("an address");
    let socket = test.file("file");
    std::fs::write(&socket, "").expect("a file");
    let unix = format!("unix:{}", socket.display());
    for (option, value, parts) in [
        ("--web", &taken.0[..], ["in use", "choose another one"]),
        ("--metrics", &taken.0[..], ["in use", "choose another one"]),
        ("--web", "192.0.2.1:8290", ["192.0.2.1:8290", "no address of this machine"]),
        ("--web", "here:1", ["`here:1`", "write 127.0.0.1:8290"]),
        ("--metrics", "unix:/nowhere/at/all", ["/nowhere/at/all", "make its directory"]),
        ("--metrics", &unix, [&unix[5..], "remove it"]),
    ] {
        let mut command = test.command(tools::tool("fabricd"));
        command.args(["--torus", "2x2", option, value, "--runtime-dir"]).arg(test.file("dir"));
        test.run(command).failure(&parts);
    }
    assert!(socket.exists(), "somebody's file was removed");
    test.assert_clean();
}

#[test]
fn a_run_prints_the_url_of_its_page() {
    let test = Test::new("web-run");
    let mut command = test.angara(["run", "-n", "2", "--web=127.0.0.1:0", "--web-stay", "no", "--timeout", "200"]);
    command.arg("--").arg(tools::compile("tests/c/steps.c")).stdin(std::process::Stdio::piped());
    let mut run = test.spawn(command);
    let input = run.take_stdin();
    run.expect_line("ready");
    // On standard error, before the program began.
    let said = run.so_far();
    let line = said.lines().find_map(|line| line.split_once("page at ")).expect("a line with the URL").1;
    let (url, token) = line.split_once("/#token=").expect("a token");
    let to = http::address(url);
    let answer = http::ask(to, "GET", "/api/network", &[&format!("Authorization: Bearer {}", token.trim())], "");
    assert_eq!(answer.status, 200, "{}", answer.body);
    drop(input);
    run.wait(PATIENCE).success();
    let gone = poll_until(|| TcpStream::connect_timeout(&to, Duration::from_secs(1)).is_err());
    assert!(gone, "the page outlives the run");
    test.assert_clean();
}

#[test]
fn the_page_of_a_run_stays_after_the_program_until_somebody_has_seen_enough() {
    let test = Test::new("web-stays");
    let program = tools::compile("examples/c/hello.c");
    let run = |more: &[&str]| {
        let mut command = test.angara(["run", "-n", "2", "--path", "ring", "--web=127.0.0.1:0", "--timeout", "100"]);
        command.args(more).arg("--").arg(&program);
        test.spawn(command)
    };
    let job = run(&[]);
    job.expect_error("its page stays until Ctrl-C");
    let said = job.so_far();
    let url = said.split("page at http://").nth(1).and_then(|rest| rest.split(['/', '#']).next()).expect("a URL");
    assert_eq!(http::ask(url.parse().expect("an address"), "GET", "/", &[], "").status, 200);
    job.signal(Signal::INT);
    let done = job.wait(PATIENCE).success();
    assert!(done.stdout.contains("PE 1 of 2"), "{done}");
    let done = run(&["--web-stay", "no"]).wait(PATIENCE).success();
    assert!(!done.stderr.contains("page stays"), "{done}");
    test.assert_clean();
}
