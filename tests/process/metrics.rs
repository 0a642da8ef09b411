//! Metrics of a real daemon: both formats, figures that move, and what Prometheus says to them.

use angara_protocol::msg::{JobSpec, Path};
use angara_protocol::print::plain_line;
use angara_tests::daemon::{Daemon, spec};
use angara_tests::process::{PATIENCE, poll_until};
use angara_tests::web::http::{self, Answer};
use angara_tests::{Test, tools};
use openmetrics_parser::LabelSet;
use openmetrics_parser::openmetrics::parse_openmetrics;
use openmetrics_parser::prometheus::parse_prometheus;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

fn place(daemon: &Daemon) -> SocketAddr {
    http::address(&daemon.status().metrics.expect("metrics are served"))
}

fn token(daemon: &Daemon) -> String {
    let file = daemon.dir().join("read.token");
    let mode = file.metadata().expect("a token").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "others may read the token");
    format!("Authorization: Bearer {}", std::fs::read_to_string(file).expect("a token").trim())
}

fn scrape(to: SocketAddr, headers: &[&str]) -> Answer {
    http::ask(to, "GET", "/metrics", headers, "")
}

/// The sum of all series of a metric.
fn sum(text: &str, name: &str) -> f64 {
    let of = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    let values = text.lines().filter(of).map(|line| line.rsplit(' ').next().and_then(|v| v.parse::<f64>().ok()));
    values.map(|v| v.unwrap_or_else(|| panic!("{name} has no number"))).sum()
}

fn run(test: &Test, daemon: &Daemon, path: &str) {
    let mut command = test.angara(["run", "-q", "-n", "8", "--path", path, "--runtime-dir"]);
    command.arg(daemon.dir()).arg("--").arg(tools::compile("tests/c/traffic.c"));
    test.run(command).success();
}

#[test]
fn both_formats_have_figures_that_jobs_move() {
    let test = Test::new("metrics");
    let daemon = Daemon::start(&test, &["--torus", "2x2x2", "--metrics", "127.0.0.1:0"]);
    let (to, token) = (place(&daemon), token(&daemon));
    let old = scrape(to, &[&token]);
    assert_eq!(old.status, 200);
    assert_eq!(old.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(sum(&old.body, "angara_links_packets_total"), 0.0);
    let mut flits = 0.0;
    for path in ["ring", "direct"] {
        run(&test, &daemon, path);
        // Scrapes share samples, so the first one after the job may still be of before.
        let mut now = String::new();
        let seen = poll_until(|| {
            now = scrape(to, &[&token]).body;
            sum(&now, "angara_links_flits_total") > flits
        });
        let more = sum(&now, "angara_links_flits_total");
        assert!(seen, "{path}: {more} after {flits}");
        assert_eq!(more, sum(&now, "angara_link_flits_total"), "each link has its own series");
        flits = more;
    }
    let open = scrape(to, &[&token, "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5"]);
    assert!(open.header("content-type").is_some_and(|kind| kind.starts_with("application/openmetrics-text")));
    assert!(open.body.ends_with("# EOF\n") && open.body.contains("# TYPE angara_link_flits counter"));
    assert_eq!(sum(&open.body, "angara_links_flits_total"), flits);
    assert_eq!(sum(&open.body, "angara_links"), 48.0);
    assert!(sum(&open.body, "angara_data_plane_rounds_total") > 0.0);
    let refused = http::ask(to, "GET", "/metrics", &["Accept: application/openmetrics-text;q=0", &token], "");
    assert!(refused.body.contains("# TYPE angara_link_flits_total counter"), "the older format was wanted");
    let mut control = daemon.control();
    control.fault("link 0,0,0 +X down").expect("a fault");
    let seen = poll_until(|| sum(&scrape(to, &[&token]).body, "angara_links_down") == 2.0);
    assert!(seen, "both directions of a cable are down: {}", scrape(to, &[&token]).body);
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn who_may_read_has_the_token_or_the_socket() {
    let test = Test::new("metrics-access");
    let daemon = Daemon::start(&test, &["--torus", "2x2", "--metrics", "127.0.0.1:0"]);
    let to = place(&daemon);
    for header in ["X-None: 1", "Authorization: Bearer 0", "Authorization: Basic x", "Authorization: Bearer"] {
        let answer = scrape(to, &[header]);
        assert_eq!(answer.status, 401, "{header}: {}", answer.body);
        assert!(answer.body.contains("read.token") && !answer.body.contains("angara_link"), "{}", answer.body);
    }
    assert_eq!(http::ask(to, "GET", "/", &[&token(&daemon)], "").status, 404, "no page where metrics are");
    daemon.shutdown();

    let daemon = Daemon::start(&test, &["--torus", "2x2", "--metrics", "127.0.0.1:0", "--metrics-open"]);
    assert_eq!(scrape(place(&daemon), &[]).status, 200);
    daemon.shutdown();

    let path = test.file("m.sock");
    let unix = format!("unix:{}", path.display());
    let daemon = Daemon::start(&test, &["--torus", "2x2", "--metrics", &unix]);
    assert_eq!(path.metadata().expect("a socket").permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).expect("served");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("written");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("angara_nodes 4"), "{text}");
    daemon.shutdown();
    assert!(!path.exists(), "the socket is left");
    test.assert_clean();
}

#[test]
fn names_of_this_machine_that_others_gave_it_are_refused() {
    let test = Test::new("metrics-host");
    let daemon = Daemon::start(&test, &["--torus", "2x2", "--metrics", "127.0.0.1:0", "--metrics-open"]);
    let to = place(&daemon);
    for host in ["Host: evil.example", "Host: 127.0.0.1.evil.example:80", "Host:"] {
        let answer = scrape(to, &[host]);
        assert!(answer.status == 421 && !answer.body.contains("angara_link"), "{host}: {}", answer.body);
    }
    assert_eq!(scrape(to, &["Host: localhost:99"]).status, 200, "through a tunnel");
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn no_name_of_a_job_breaks_or_forges_what_others_read() {
    let test = Test::new("metrics-names");
    let daemon = Daemon::start(&test, &["--torus", "2x2", "--metrics", "127.0.0.1:0"]);
    let (to, token) = (place(&daemon), token(&daemon));
    let mut control = daemon.control();
    let names = [
        "s\"low",
        "back\\slash",
        "two\nlines",
        "x\",uid=\"0\",path=\"auto\"} 1\nangara_adapter_violations_total 999999\nangara_job_pes{job=\"77\",name=\"bob",
    ];
    for name in names {
        control.create(JobSpec { name: name.into(), ..spec(1, Path::Auto) }).expect("a job");
    }
    let open = ["Accept: application/openmetrics-text", &token];
    let seen = poll_until(|| sum(&scrape(to, &[&token]).body, "angara_jobs") == 4.0);
    assert!(seen, "not all jobs: {}", scrape(to, &[&token]).body);
    let (old, new) = (scrape(to, &[&token]).body, scrape(to, &open).body);
    let old = parse_prometheus(&old).unwrap_or_else(|e| panic!("{e}: {old}"));
    let new = parse_openmetrics(&new).unwrap_or_else(|e| panic!("{e}: {new}"));
    let shown = |labels: LabelSet<'_>| labels.get_label_value("name").expect("a name").to_string();
    let mut given = Vec::new();
    given.extend(old.families["angara_job_info"].iter_samples().map(|s| shown(s.get_labelset().expect("labels"))));
    given.extend(new.families["angara_job"].iter_samples().map(|s| shown(s.get_labelset().expect("labels"))));
    assert_eq!(given, [names.map(plain_line), names.map(plain_line)].concat());
    assert_eq!(old.families["angara_job_pes"].iter_samples().count(), 4);
    assert_eq!(old.families["angara_adapter_violations_total"].iter_samples().count(), 1);
    drop(control);
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn large_networks_have_bounded_series() {
    let test = Test::new("metrics-large");
    let args = ["--torus", "16x16x16", "--metrics", "127.0.0.1:0", "--metrics-links", "10"];
    let daemon = Daemon::start(&test, &args);
    let text = scrape(place(&daemon), &[&token(&daemon)]).body;
    assert_eq!(sum(&text, "angara_links"), 24576.0);
    assert_eq!(sum(&text, "angara_links_with_own_series"), 10.0);
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(series < 10 * 6 + 150, "{series} series");
    daemon.shutdown();
    test.assert_clean();
}

/// Names of metrics in a text.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("angara_") || word.starts_with("process_")).collect()
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_metrics_that_exist() {
    let read = |name: &str| std::fs::read_to_string(tools::root().join(name)).expect(name);
    let (page, rules) = (read("docs/reference/metrics.md"), read("packaging/prometheus/angara.rules.yml"));
    let board = read("packaging/grafana/angara.json");
    let known = |name: &str| assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/reference/metrics.md");
    let asked = rules.lines().filter(|line| line.trim().starts_with("expr:"));
    asked.flat_map(named).for_each(known);
    for alert in ["AngaraHostLost", "AngaraLinkReplays", "AngaraJobWaits"] {
        assert!(rules.contains(&format!("alert: {alert}\n")) && page.contains(alert), "{alert}");
    }

    let board: serde_json::Value = serde_json::from_str(&board).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    assert_eq!(panels[0]["type"], "row", "a question comes first");
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64()), "{panel}: its number is another one's, too");
        let at = |what: &str| panel["gridPos"][what].as_u64().expect("a number");
        for (x, y) in (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y))) {
            assert!(x < 24 && cells.insert((x, y)), "{panel} lies over another panel, or outside");
        }
        if panel["type"] == "row" {
            assert!(panel["title"].as_str().is_some_and(|title| title.ends_with('?')), "{panel} is no question");
            continue;
        }
        let text = |value: &serde_json::Value| value.as_str().is_some_and(|text| !text.is_empty());
        assert!(text(&panel["description"]) && text(&panel["fieldConfig"]["defaults"]["unit"]), "{panel}");
        for target in panel["targets"].as_array().expect("targets") {
            let asked = named(target["expr"].as_str().expect("a question"));
            assert!(!asked.is_empty() && text(&target["legendFormat"]), "{panel}");
            asked.into_iter().for_each(known);
        }
    }
}

#[test]
fn prometheus_reads_them_and_the_alerts_where_it_is_present() {
    if !tools::have("promtool") || !tools::have("prometheus") {
        println!("skipped: no prometheus here");
        return;
    }
    let test = Test::new("metrics-prometheus");
    let daemon = Daemon::start(&test, &["--torus", "2x2x2", "--metrics", "127.0.0.1:0"]);
    run(&test, &daemon, "ring");
    let (to, token) = (place(&daemon), token(&daemon));
    let text = scrape(to, &[&token]).body;
    let mut child = test.command("promtool");
    child.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().expect("promtool starts");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let done = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(done.status.success() && said.trim().is_empty(), "promtool: {said}");
    let rules = tools::root().join("packaging/prometheus/angara.rules.yml");
    let mut check = test.command("promtool");
    check.args(["check", "rules"]).arg(&rules);
    test.run(check).success();

    let file = test.file("prometheus.yml");
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
    let config = format!(
        "global: {{scrape_interval: 1s}}\nrule_files: ['{}']\nscrape_configs:\n  - job_name: angara\n    authorization:\n      \
         credentials_file: {}\n    static_configs: [{{targets: ['{to}']}}]\n",
        rules.display(),
        daemon.dir().join("read.token").display()
    );
    std::fs::write(&file, config).expect("a file");
    let mut command: Command = test.command("prometheus");
    command.arg(format!("--config.file={}", file.display()));
    command.arg(format!("--storage.tsdb.path={}", test.file("data").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let prometheus = test.spawn(command);
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    let mut last = String::new();
    let seen = poll_until(|| {
        if std::net::TcpStream::connect(at).is_err() {
            return false;
        }
        last = http::ask(at, "GET", "/api/v1/query?query=sum(angara_links_flits_total)", &[], "").body;
        let value: serde_json::Value = serde_json::from_str(&last).unwrap_or_default();
        value["data"]["result"][0]["value"][1].as_str().is_some_and(|v| v.parse::<f64>().is_ok_and(|v| v > 0.0))
    });
    assert!(seen, "no figures in Prometheus: {last}; it said {}", prometheus.so_far());
    prometheus.signal(rustix::process::Signal::TERM);
    prometheus.wait(PATIENCE);
    daemon.shutdown();
    test.assert_clean();
}
