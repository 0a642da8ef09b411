//! The page in a real browser: it loads without a complaint, shows what a job does, and sets a fault by clicks.

use angara_tests::daemon::Daemon;
use angara_tests::process::{PATIENCE, poll_until};
use angara_tests::web::browser::Browser;
use angara_tests::{Test, tools};
use serde_json::json;
use std::io::Write;
use std::process::Stdio;

fn url(test: &Test, daemon: &Daemon) -> String {
    let mut command = test.angara(["web", "--faults", "--runtime-dir"]);
    command.arg(daemon.dir());
    test.run(command).success().stdout.trim().to_string()
}

#[test]
fn a_browser_shows_a_job_and_sets_a_fault() {
    let test = Test::new("browser");
    let Some(browser) = Browser::start(&test, (1280, 720)) else {
        println!("skipped: no chromium and chromedriver here");
        return;
    };
    let daemon = Daemon::start(&test, &["--torus", "4x2x2x2", "--web", "127.0.0.1:0"]);
    browser.open(&url(&test, &daemon));
    browser.wait("the page is live", "document.getElementById('state').className === 'state live'");
    browser.wait("it knows the network", "angara.torus.nodes === 32 && angara.store.t > 0");
    assert_eq!(browser.eval("location.hash"), json!(""), "the token stays in the address");
    assert_eq!(browser.eval("angara.view.colourOf(0) === angara.view.colours.idle"), json!(true));

    let mut command = test.angara(["run", "-q", "-n", "32", "--path", "ring", "--timeout", "300", "--runtime-dir"]);
    command.arg(daemon.dir()).arg("--").arg(tools::compile("tests/c/steps.c")).stdin(Stdio::piped());
    let mut job = test.spawn(command);
    let mut input = job.take_stdin();
    job.expect_line("ready");
    // From node 0,0,0,0 to 1,0,0,0: PE 1.
    let shown = poll_until(|| {
        input.write_all(b"block 1 1000000\n").expect("the job reads");
        browser.eval("angara.view.colourOf(0) !== angara.view.colours.idle") == json!(true)
    });
    assert!(shown, "link 0 is drawn as idle: {}", browser.text());
    // Lists are drawn less often than links.
    assert!(poll_until(|| browser.text().contains("steps")), "the job is not listed: {}", browser.text());
    assert_eq!(browser.eval("angara.view.peOf.get(1)[0]"), json!(1), "PE 1 sits on node 1");
    let find = |words: &str| {
        let words = json!(words);
        browser.eval(&format!(
            "(w => {{ w.value = {words}; w.form.requestSubmit(); return angara.view.chosen; }})(document.getElementById('words'))"
        ))
    };
    assert_eq!(find("pe 2"), json!({ "kind": "node", "node": 2 }));
    assert_eq!(find("1,0,0,0 -x"), json!({ "kind": "link", "link": 12 }));
    assert_eq!(find("<b>nobody</b>"), json!({ "kind": "link", "link": 12 }), "what is not found chooses nothing");
    let wide = |what: &str| browser.eval(&format!("document.querySelector('#legend {what}').offsetWidth"));
    assert_eq!(wide("canvas"), wide(".scale"), "labels of the scale stand elsewhere than their colours");
    for (scale, middle) in [("linear", 0.5), ("root", 0.25), ("log", 0.01)] {
        let value =
            browser.eval(&format!("(g => {{ g.scale = '{scale}'; return g.value(0.5, 1); }})(angara.view.gauge)"));
        assert_eq!(value, json!(middle), "{scale}");
    }
    browser.eval("(angara.view.gauge.scale = 'root', angara.view.hideIdle = true, angara.view.dirty = true)");

    // A link that has become idle meanwhile is hidden, and cannot be pressed.
    let chosen = poll_until(|| {
        input.write_all(b"block 1 1000000\n").expect("the job reads");
        let place = browser.eval(
            "(() => { const r = angara.view.canvas.getBoundingClientRect(); \
             const [x, y] = angara.view.where({kind: 'link', link: 0}); return [r.x + x, r.y + y]; })()",
        );
        browser.click(place[0].as_f64().expect("a place"), place[1].as_f64().expect("a place"));
        browser.eval("angara.view.chosen.link === 0") == json!(true)
    });
    assert!(chosen, "link 0 is not chosen: {}", browser.text());
    browser.wait("its virtual channels are shown", "document.body.textContent.includes('slots in use')");
    let (x, y) = browser.middle("[data-spec='link 0,0,0,0 +X down']");
    browser.click(x, y);
    browser
        .wait("it asks once more", "document.querySelector('[data-spec$=\"+X down\"]').textContent.includes('again')");
    assert!(daemon.status().faults.is_empty(), "at once");
    let (x, y) = browser.middle("[data-spec='link 0,0,0,0 +X down']");
    browser.click(x, y);
    let set = poll_until(|| daemon.status().faults == ["link 0,0,0,0 +X down"]);
    assert!(set, "no fault but {:?}: {}", daemon.status().faults, browser.text());
    browser.wait("the link is red", "angara.view.colourOf(0) === angara.view.colours.bad");
    let complaints = browser.complaints();
    assert_eq!(complaints, json!([]), "the browser complains");
    input.write_all(b"quit\n").expect("the job reads");
    drop(input);
    job.wait(PATIENCE).success();
    browser.end();
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn nodes_of_sets_are_marked() {
    let test = Test::new("browser-sets");
    let Some(browser) = Browser::start(&test, (1280, 720)) else {
        println!("skipped: no chromium and chromedriver here");
        return;
    };
    let daemon = Daemon::start(&test, &["--torus", "4x4", "--web", "127.0.0.1:0"]);
    browser.open(&url(&test, &daemon));
    browser.wait("the page is live", "document.getElementById('state').className === 'state live'");
    let legend = "document.querySelector('#legend .sets')";
    browser.wait("a legend is drawn", &format!("{legend} !== null"));
    assert_eq!(browser.eval(&format!("{legend}.hidden")), json!(true), "no set, no legend of sets");

    let args = ["run", "-q", "-n", "5", "--alloc", "first-fit-box", "--timeout", "300", "--runtime-dir"];
    let mut command = test.angara(args);
    command.arg(daemon.dir()).arg("--").arg(tools::compile("tests/c/steps.c")).stdin(Stdio::piped());
    let mut job = test.spawn(command);
    let mut input = job.take_stdin();
    job.expect_line("ready");
    let set = daemon.status().jobs[0].set.clone().expect("a set");
    let transit = set.transit.first().expect("a box of six nodes");
    browser.wait("its nodes are known", &format!("angara.view.setOf.size === {}", set.size()));
    assert_eq!(browser.eval(&format!("angara.view.setOf.get({transit}).transit")), json!(true));
    assert_eq!(browser.eval(&format!("angara.view.setOf.get({}).transit", set.nodes[0])), json!(false));
    browser.wait("the legend tells of them", &format!("!{legend}.hidden"));
    browser.wait("the list has its size", "document.body.textContent.includes('5 + 1 transit')");
    let place = browser.eval(&format!(
        "(() => {{ const r = angara.view.canvas.getBoundingClientRect(); \
         const [x, y] = angara.view.where({{kind: 'node', node: {transit}}}); return [r.x + x, r.y + y]; }})()"
    ));
    browser.click(place[0].as_f64().expect("a place"), place[1].as_f64().expect("a place"));
    browser.wait("the node says whose it is", "document.body.textContent.includes('transit node of the set of job 1')");
    assert_eq!(browser.complaints(), json!([]), "the browser complains");
    input.write_all(b"quit\n").expect("the job reads");
    drop(input);
    job.wait(PATIENCE).success();
    browser.wait("they are forgotten", &format!("angara.view.setOf.size === 0 && {legend}.hidden"));
    browser.end();
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn from_afar_a_hot_link_stands_for_its_group() {
    let test = Test::new("browser-afar");
    let Some(browser) = Browser::start(&test, (700, 600)) else {
        println!("skipped: no chromium and chromedriver here");
        return;
    };
    let daemon = Daemon::start(&test, &["--torus", "16x16x16", "--web", "127.0.0.1:0"]);
    browser.open(&url(&test, &daemon));
    browser.wait("nodes are too close to be told apart", "angara.view.dense.shown() !== null");
    browser.wait("the legend says so", "!document.querySelector('#legend .groups').hidden");
    // One link in the middle of idle ones; what the daemon says from now on is not heard.
    browser.eval(
        "((s, v) => { s.take = () => {}; s.rate.fill(1); s.rate[8 * 2184] = 1e6; s.changes++; v.dirty = true; })\
         (angara.store, angara.view)",
    );
    let seen = "((v, g) => { const k = 4 * g.top.indexOf(v.indexOf(8 * 2184)); if (k < 0) return null; \
                return [0, 1].map(i => (g.screen[k + i] + g.screen[k + 2 + i]) / 2); })(angara.view, angara.view.dense.shown())";
    browser.wait("its group shows it", &format!("{seen} !== null"));
    let hot = format!(
        "((v, [x, y]) => {{ const p = v.pen.getImageData(x - 1, y - 1, 3, 3).data, \
         far = colour => Math.min(...[0, 1, 2, 3, 4, 5, 6, 7, 8].map(i => colour.match(/\\d+/g).reduce((sum, c, k) => sum + Math.abs(c - p[4 * i + k]), 0))); \
         return far(v.scale.at(-1)) < 60; }})(angara.view, {seen})"
    );
    browser.wait("its colour is seen", &hot);
    let picked = format!("angara.view.pick(...{seen}.map(at => at / angara.view.ratio)).link");
    browser.eval("(angara.view.nodeSize = () => -9, 0)");
    assert_eq!(browser.eval(&picked), json!(8 * 2184), "who presses the line gets the busiest link");
    browser.eval("(angara.view.zoom = 4, angara.view.dirty = true)");
    browser.wait("nearer, each link is seen", "angara.view.dense.shown() === null");
    browser.wait("the legend knows", "document.querySelector('#legend .groups').hidden");
    assert_eq!(browser.complaints(), json!([]), "the browser complains");
    browser.end();
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn a_run_that_has_ended_says_so_and_plays_again() {
    let test = Test::new("browser-past");
    let Some(browser) = Browser::start(&test, (1280, 720)) else {
        println!("skipped: no chromium and chromedriver here");
        return;
    };
    // Whoever names a program so wants to see a page run it.
    let program = test.file("<img src=x onerror=angara=0>");
    std::fs::copy(tools::compile("tests/c/traffic.c"), &program).expect("a copy");
    let mut command = test.angara(["run", "-n", "8", "--torus", "2x2x2", "--path", "ring", "--web=127.0.0.1:0"]);
    command.args(["--timeout", "300"]).arg("--").arg(&program);
    let run = test.spawn(command);
    run.expect_error("its page stays until Ctrl-C");
    let said = run.so_far();
    let url = said.lines().find_map(|line| line.split_once("page at ")).expect("a line with the URL").1;
    // What an address may say, and what it may not.
    browser.open(&format!("{}&camera=1,2&at=%3Cb%3E&time=-5&scale=linear&unit=none&least=7", url.trim()));
    browser.wait("the run is shown as ended", "document.getElementById('state').className === 'state ended'");
    browser.wait("that is said", "document.getElementById('ended').checkVisibility()");
    assert!(browser.text().contains("<img src=x onerror=angara=0>, has ended"), "{}", browser.text());
    assert_eq!(browser.eval("document.querySelectorAll('img').length"), json!(0), "a name is no text");
    assert_eq!(browser.eval("[angara.view.zoom, angara.view.chosen, angara.view.least]"), json!([1, null, 0]));
    assert_eq!(browser.eval("[angara.view.gauge.scale, angara.view.gauge.unit]"), json!(["linear", "percent"]));
    browser.wait("its past has come", "angara.past.frames.length > 0 && angara.player.end > angara.player.start");

    let (x, y) = browser.middle("#again");
    browser.click(x, y);
    browser
        .wait("it plays", "angara.player.playing && angara.view.store.replayed && angara.view.store.jobs.length === 1");
    browser.wait("links carry something then", "angara.view.store.most('now') > 0");
    let flits = "angara.past.frames.reduce((n, f) => f.links.reduce((m, v, i) => m + (i % 2 ? v : 0), n), 0)";
    browser.wait("all of it has come", &format!("{flits} === angara.store.flits.reduce((a, b) => a + b, 0)"));
    // Whatever happens to the run, what the page has is there.
    run.signal(rustix::process::Signal::INT);
    run.wait(PATIENCE).success();
    browser.wait("the present is lost", "document.getElementById('state').textContent.includes('does not answer')");
    // What a job leaves on its way may arrive after its end.
    browser.eval("angara.player.choose('all')");
    browser.eval("angara.player.go(angara.player.end, false)");
    let sums = "angara.view.store.flits.reduce((a, b) => a + b, 0) === angara.store.flits.reduce((a, b) => a + b, 0)";
    browser.wait("at its end it has carried all there was", sums);
    browser.eval("angara.player.step(-1)");
    browser.wait("a step back is an earlier time", "angara.player.at < angara.player.end");
    browser.eval("angara.player.leave()");
    browser.wait("the last of the present is shown", "document.getElementById('state').className === 'state lost'");
    browser.end();
    test.assert_clean();
}

#[test]
fn a_report_is_a_page_without_a_daemon() {
    let test = Test::new("browser-report");
    let (report, page) = (test.file("r.json"), test.file("r.html"));
    let mut command = test.angara(["run", "-q", "-n", "8", "--torus", "2x2x2", "--report"]);
    command.arg(&report).arg("--").arg(tools::compile("tests/c/traffic.c"));
    test.run(command).success();
    let mut command = test.angara(["report"]);
    command.arg(&report).arg("--html").arg(&page);
    test.run(command).success();
    let text = std::fs::read_to_string(&page).expect("a page");
    assert!(
        text.contains("id=\"recorded\"") && !text.contains("src=\"") && !text.contains("import "),
        "not in one file"
    );
    let Some(browser) = Browser::start(&test, (1280, 720)) else {
        println!("no chromium and chromedriver here: the page was not opened");
        return;
    };
    browser.open(&format!("file://{}", page.display()));
    browser.wait("it is drawn", "angara.view.frames > 0 && angara.store.most('total') > 0");
    assert!(browser.text().contains("a finished run") && browser.text().contains("8 PEs"), "{}", browser.text());
    assert_eq!(browser.complaints(), json!([]), "the browser complains");
    browser.end();
    test.assert_clean();
}

#[test]
fn a_report_with_a_history_plays_without_a_daemon() {
    let test = Test::new("browser-history");
    let (report, page) = (test.file("r.json"), test.file("r.html"));
    let mut command =
        test.angara(["run", "-q", "-n", "8", "--torus", "2x2x2", "--clock", "virtual", "--timeout", "300"]);
    command.args(["--fault", "link 0,0,0 +X down @20us", "--history", "--report"]).arg(&report);
    command.arg("--").arg(tools::compile("tests/c/traffic.c"));
    test.run(command).success();
    let mut command = test.angara(["report"]);
    command.arg(&report).arg("--html").arg(&page);
    test.run(command).success();
    let text = std::fs::read_to_string(&page).expect("a page");
    assert!(text.contains("\"frames\":[{") && !text.contains("src=\"") && !text.contains("import "), "not in one file");
    let Some(browser) = Browser::start(&test, (1280, 720)) else {
        println!("no chromium and chromedriver here: the page was not opened");
        return;
    };
    browser.open(&format!("file://{}", page.display()));
    browser.wait("it is drawn", "angara.view.frames > 0 && angara.store.most('total') > 0");
    browser.wait("there is something to play", "document.getElementById('time').checkVisibility()");
    assert_eq!(browser.eval("angara.past.frames.length > 8 && angara.past.isVirtual"), json!(true));
    browser.wait("it is a finished run", "document.getElementById('state').textContent === 'a finished run'");
    assert_eq!(browser.eval("[angara.view.measure, angara.player.at]"), json!(["total", null]));
    press(&browser, "#play");
    browser.wait("it plays", "angara.player.playing && angara.view.store.replayed && angara.view.measure === 'now'");
    browser.wait("links carry something then", "Math.max(...angara.view.store.rate) > 0");
    press(&browser, "#play");
    browser.wait("it is paused", "document.getElementById('state').textContent === 'a finished run, paused'");

    // What all links have carried at a place of the slider, and how they are drawn there.
    let at = |place: u32| {
        type_into(&browser, "moment", &place.to_string());
        let all = "[...angara.view.store.flits.keys()].map(link => angara.view.colourOf(link)).join()";
        let carried = browser.eval("angara.view.store.flits.reduce((a, b) => a + b, 0)");
        (carried.as_u64().expect("flits"), browser.eval(all))
    };
    let moments = [0, 4000, 10_000].map(at);
    assert!(moments.is_sorted_by(|a, b| a.0 < b.0 && a.1 != b.1), "{moments:?}");
    let sum = "angara.store.flits.reduce((a, b) => a + b, 0)";
    assert_eq!(browser.eval(sum), json!(moments[2].0), "at its end it has carried all there was");
    assert_eq!(browser.eval("[...angara.view.store.down]"), json!([0, 12]), "the cable is cut by then");
    at(0);
    assert_eq!(browser.eval("[...angara.view.store.down]"), json!([]), "and not before");
    press(&browser, "#forth");
    browser.wait("a step on is a later time", "angara.player.at > angara.player.start && !angara.player.playing");
    browser.eval("(s => { s.value = '5'; s.dispatchEvent(new Event('change')); })(document.getElementById('lasts'))");
    assert_eq!(browser.eval("angara.player.lasts"), json!(5));
    press(&browser, "#present");
    browser.wait("the sums are shown again", "angara.view.store === angara.store && angara.view.measure === 'total'");
    assert_eq!(browser.complaints(), json!([]), "the browser complains");
    browser.end();
    test.assert_clean();
}

/// Types into a field of the page, as somebody who sits there does.
fn type_into(browser: &Browser, id: &str, text: &str) {
    let (id, text) = (json!(id), json!(text));
    browser.eval(&format!(
        "((e) => {{ e.value = {text}; e.dispatchEvent(new Event('input', {{ bubbles: true }})); }})(document.getElementById({id}))"
    ));
}

fn press(browser: &Browser, selector: &str) {
    let selector = json!(selector);
    browser.wait("there is something to press", &format!("document.querySelector({selector}) !== null"));
    browser.eval(&format!("document.querySelector({selector}).click()"));
}

#[test]
fn faults_are_set_by_hand_and_waits_are_drawn() {
    let test = Test::new("browser-faults");
    let Some(browser) = Browser::start(&test, (1280, 720)) else {
        println!("skipped: no chromium and chromedriver here");
        return;
    };
    let daemon = Daemon::start(&test, &["--torus", "4x2", "--web", "127.0.0.1:0"]);
    // Whoever names a program so wants to see a page run it.
    let program = test.file("<img src=x onerror=angara=0>");
    std::fs::copy(tools::compile("tests/c/steps.c"), &program).expect("a copy");
    browser.open(&url(&test, &daemon));
    let mut command = test.angara(["run", "-q", "-n", "3", "--path", "ring", "--timeout", "300", "--runtime-dir"]);
    command.arg(daemon.dir()).arg("--").arg(&program).stdin(Stdio::piped());
    let mut job = test.spawn(command);
    let mut input = job.take_stdin();
    job.expect_line("ready");
    browser.wait("its PEs are known", "angara.view.peOf.get(1)[0] === 1");
    let asked = "performance.getEntriesByType('resource').filter(e => e.name.includes('/api/waits/')).length";
    assert_eq!(browser.eval(asked), json!(0), "the daemon looks although nobody does");
    press(&browser, "#waiting");
    let text = |id: &str| format!("document.getElementById('{id}').textContent");
    browser.wait("two PEs wait", &format!("{}.includes('2 of 3 PEs wait')", text("waits")));
    browser.wait("the call is named", &format!("{}.includes('shmem_int_wait_until')", text("waits")));
    // A circle, which the program itself does not make.
    let circle = "(() => { const w = angara.waits; w.turn(false); w.open = true; const job = angara.store.jobs[0]; \
                  const waits = [[0, 1], [1, 0], [2, 0]].map(([pe, on]) => ({ pe, on: [on], seconds: 1, what: '<b>x</b>' })); \
                  w.jobs = [{ job, pes: 3, waiting: 3, waits, circle: new Set([0, 1]) }]; w.show(); \
                  return w.arrows().map(one => [one.from, one.to, one.bad]); })()";
    assert_eq!(browser.eval(circle), json!([[0, 1, true], [1, 0, true], [2, 0, false]]));
    assert_eq!(browser.eval("document.querySelector('#waits b')"), json!(null), "a text is markup");
    press(&browser, "#waiting");
    let before = browser.eval(asked);

    press(&browser, "#setting summary");
    type_into(&browser, "fault-kind", "node");
    type_into(&browser, "fault-place", "1,0");
    press(&browser, "#fault-down");
    press(&browser, "#fault-set");
    browser.wait("it says what ends", &format!("{}.includes('This ends job 1, <img')", text("fault-asks")));
    press(&browser, "#fault-no");
    assert!(daemon.status().faults.is_empty(), "it was left");
    press(&browser, "#fault-down");
    type_into(&browser, "fault-kind", "link");
    type_into(&browser, "fault-place", "0,0 +X");
    type_into(&browser, "fault-corrupt", "2%");
    type_into(&browser, "fault-seed", "7");
    press(&browser, "#fault-set");
    let set = poll_until(|| daemon.status().faults == ["link 0,0 +X seed=7", "link 0,0 +X corrupt=2%"]);
    assert!(set, "{:?}: {}", daemon.status().faults, browser.text());
    browser.wait("it says who", &format!("{}.includes('set from a page')", text("faults")));
    let mut command = test.angara(["fault", "--runtime-dir"]);
    command.arg(daemon.dir()).args(["node", "3,1", "delay=2us"]);
    test.run(command).success();
    browser.wait("others are listed", &format!("{}.includes('by a command of user')", text("faults")));
    press(&browser, "[data-spec='link 0,0 +X corrupt=0%']");
    let left = ["link 0,0 +X seed=7", "node 3,1 delay=2us"];
    assert!(poll_until(|| daemon.status().faults == left), "{:?}", daemon.status().faults);
    press(&browser, "[data-spec='all clear']");
    assert!(poll_until(|| daemon.status().faults.is_empty()), "{:?}", daemon.status().faults);
    browser.wait("the list is empty", &format!("{} === ''", text("faults")));
    assert_eq!(browser.eval(asked), before, "the daemon looks although nobody does any more");
    assert_eq!(browser.complaints(), json!([]), "the browser complains");
    input.write_all(b"quit\n").expect("the job reads");
    drop(input);
    job.wait(PATIENCE).success();
    browser.end();
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn scenes_play_on_a_live_network() {
    let test = Test::new("browser-scenes");
    let Some(browser) = Browser::start(&test, (1280, 900)) else {
        println!("skipped: no chromium and chromedriver here");
        return;
    };
    let demo = test.spawn(test.angara(["demo", "--no-build", "--web=127.0.0.1:0"]));
    let line = demo.expect_line("page at ");
    browser.open(line.split_once("page at ").expect("a URL").1.trim());
    browser.wait("there are six", "document.querySelectorAll('button[data-scene]').length === 6");
    let names = browser.eval("[...document.querySelectorAll('button[data-scene]')].map(b => b.dataset.scene)");
    // What each puts on which link, and the name of that link in the page.
    let carries = [
        ("direction-order", "1,0 +Y"),
        ("bubble-rule", "4,0 +X"),
        ("adaptive-routing", "0,0 +Y"),
        ("dead-link", "1,0 +X"),
        ("barrier", "3,2 -Y"),
        ("trees", "2,1 -X"),
    ];
    assert_eq!(names, json!(carries.map(|(name, _)| name)));
    let rate = |link: &str| {
        let at = link.split_once(' ').expect("a node and a direction");
        let directions = "['+X', '+Y', '+Z', '+W', '-X', '-Y', '-Z', '-W']";
        format!("angara.store.rate[angara.torus.nodeAt('{}') * 8 + {directions}.indexOf('{}')]", at.0, at.1)
    };
    for (name, link) in carries {
        let (x, y) = browser.middle(&format!("button[data-scene={name}]"));
        browser.click(x, y);
        let playing = format!("angara.scenes.board.playing === '{name}' && angara.scenes.board.note === ''");
        browser.wait(&format!("{name} is played"), &playing);
        browser.wait(&format!("{name}: links carry something"), &format!("{} > 0", rate(link)));
        assert_eq!(
            browser.eval("document.querySelectorAll('#scenes details').length"),
            json!(1),
            "{name}: no question"
        );
    }
    browser.wait("the trees are drawn", "angara.view.showTrees && angara.store.trees.length === 1");

    let (x, y) = browser.middle("button[data-scene=dead-link]");
    browser.click(x, y);
    browser.wait("the shortest way is taken", &format!("{} > 0", rate("1,0 +X")));
    for (fault, way) in [("link 0,0 +X down", "3,0 -X"), ("link 0,0 -X down", "2,1 -Y")] {
        let (x, y) = browser.middle(&format!("[data-try='{fault}']"));
        browser.click(x, y);
        browser.wait("the next best way is taken", &format!("{} > 0 && angara.store.rate[0] === 0", rate(way)));
    }
    // Another scene begins without them.
    let (x, y) = browser.middle("button[data-scene=barrier]");
    browser.click(x, y);
    browser.wait("all is mended", "angara.store.faults.length === 0");
    assert_eq!(browser.complaints(), json!([]), "the browser complains");
    demo.signal(rustix::process::Signal::INT);
    demo.wait(PATIENCE).success();
    browser.wait("the page knows", "document.getElementById('state').textContent.includes('does not answer')");
    browser.end();
    test.assert_clean();
}
