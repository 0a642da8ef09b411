//! The page's map, its reference, and what it exports, in a real browser.

use angara_tests::daemon::Daemon;
use angara_tests::web::browser::Browser;
use angara_tests::{Test, tools};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Nodes 4x3x2, with six links each.
const TORUS: &str = "4x3x2";
const LINKS: usize = 144;

/// A browser and a daemon with a page; none where there is no browser.
fn begin(test: &Test) -> Option<(Browser, Daemon, String)> {
    let Some(browser) = Browser::start(test, (1280, 720)) else {
        println!("skipped: no chromium and chromedriver here");
        return None;
    };
    let daemon = Daemon::start(test, &["--torus", TORUS, "--web", "127.0.0.1:0"]);
    let mut command = test.angara(["web", "--runtime-dir"]);
    command.arg(daemon.dir());
    let url = test.run(command).success().stdout.trim().to_string();
    Some((browser, daemon, url))
}

fn end(test: &Test, browser: Browser, daemon: Daemon) {
    assert_eq!(browser.complaints(), json!([]), "the browser complains");
    browser.end();
    daemon.shutdown();
    test.assert_clean();
}

/// Opens a page anew: another fragment alone would not.
fn open(browser: &Browser, url: &str) {
    browser.open("about:blank");
    browser.open(url);
    browser.wait("the page is live", "document.getElementById('state').className === 'state live'");
    browser.wait("it is drawn", "angara.view.frames > 0");
}

fn press(browser: &Browser, selector: &str) {
    let (x, y) = browser.middle(selector);
    browser.click(x, y);
}

/// Where on the screen a node or link is drawn.
fn place(browser: &Browser, what: &Value) -> (f64, f64) {
    let at = browser.eval(&format!(
        "(() => {{ const r = angara.view.canvas.getBoundingClientRect(); \
         const [x, y] = angara.view.where({what}); return [r.x + x, r.y + y]; }})()"
    ));
    (at[0].as_f64().expect("a place"), at[1].as_f64().expect("a place"))
}

/// Finds something as who types its name does.
fn find(browser: &Browser, words: &str) -> Value {
    let words = json!(words);
    browser.eval(&format!(
        "(w => {{ w.value = {words}; w.form.requestSubmit(); return angara.view.chosen; }})(document.getElementById('words'))"
    ))
}

/// Layout, pair and fixed places of the view.
fn shown(browser: &Browser) -> Value {
    browser.eval("[angara.view.layout, angara.view.pair, angara.view.fixed.slice(0, 3), angara.view.half.links.length]")
}

#[test]
fn a_map_shows_slices_and_is_pressed() {
    let test = Test::new("browser-map");
    let Some((browser, daemon, url)) = begin(&test) else { return };
    let base = url.split('#').next().expect("a URL").to_string();
    open(&browser, &format!("{url}&view=map&pair=xz&slice=y1"));
    assert_eq!(shown(&browser), json!(["map", [0, 2], [null, 1, null], LINKS / 3]));
    assert_eq!(browser.eval("getComputedStyle(document.getElementById('maps')).display"), json!("flex"));

    // Node 2,1,1 is number 18, and its link +X 144.
    let (node, link) = (json!({ "kind": "node", "node": 18 }), json!({ "kind": "link", "link": 144 }));
    for what in [&node, &link] {
        let (x, y) = place(&browser, what);
        browser.click(x, y);
        browser.wait("it is chosen", &format!("JSON.stringify(angara.view.chosen) === JSON.stringify({what})"));
    }
    let said = browser.eval("location.hash").as_str().unwrap_or_default().to_string();
    assert!(said.contains("view=map") && said.contains("pair=xz") && said.contains("slice=y1"), "{said}");
    assert!(!said.contains("token"), "{said}");

    // A cable that leads around begins at both edges, outwards: from 3,1,0 to +X, from 0,1,0 to -X.
    for (node, direction, sign) in [(7, 0, 1.0), (4, 4, -1.0)] {
        let (at, _) = place(&browser, &json!({ "kind": "node", "node": node }));
        let (stub, _) = place(&browser, &json!({ "kind": "link", "link": node * 8 + direction }));
        assert!((stub - at) * sign > 3.0, "node {node}: {at}, its link at {stub}");
    }
    // What is in another slice is shown when it is found.
    assert_eq!(find(&browser, "1,2,0"), json!({ "kind": "node", "node": 9 }));
    assert_eq!(shown(&browser), json!(["map", [0, 2], [null, 2, null], LINKS / 3]));
    browser.eval(
        "(s => { s.value = 'all'; s.dispatchEvent(new Event('change')); })(document.querySelector('[data-slice=Y]'))",
    );
    assert_eq!(shown(&browser), json!(["map", [0, 2], [null, null, null], LINKS]));
    browser.eval("(s => { s.value = 'yz'; s.dispatchEvent(new Event('change')); })(document.getElementById('pair'))");
    assert_eq!(shown(&browser), json!(["map", [1, 2], [null, null, null], LINKS]));
    for layout in ["torus", "map"] {
        browser.eval("document.dispatchEvent(new KeyboardEvent('keydown', { key: 'v' }))");
        assert_eq!(browser.eval("angara.view.layout"), json!(layout));
    }
    // An address that makes no sense.
    open(&browser, &format!("{base}#view=map&pair=xx&slice=q7,z1"));
    assert_eq!(shown(&browser), json!(["map", [0, 1], [null, null, null], LINKS]));
    open(&browser, &format!("{base}#view=map&pair=xy&slice=z2"));
    assert_eq!(shown(&browser), json!(["map", [0, 1], [null, null, null], LINKS]));
    open(&browser, &format!("{base}#view=cube&pair=xz"));
    assert_eq!(browser.eval("angara.view.layout"), json!("torus"));
    end(&test, browser, daemon);
}

/// Runs something that every PE sends in; returns its report.
fn run(test: &Test, daemon: &Daemon, name: &str) -> PathBuf {
    let report = test.file(name);
    let mut command = test.angara(["run", "-q", "-n", "6", "--path", "ring", "--runtime-dir"]);
    command.arg(daemon.dir()).arg("--report").arg(&report).arg("--").arg(tools::compile("tests/c/traffic.c"));
    test.run(command).success();
    report
}

/// Whether a link's colour is one of a side of the scale of differences.
fn side(link: u64, side: &str) -> String {
    format!("angara.view.diverging.{side}.includes(angara.view.colourOf({link}))")
}

#[test]
fn links_are_compared_with_a_reference() {
    let test = Test::new("browser-reference");
    let Some((browser, daemon, url)) = begin(&test) else { return };
    open(&browser, &url);
    let report = run(&test, &daemon, "first.json");
    let text = std::fs::read_to_string(&report).expect("a report");
    let mut first: Value = serde_json::from_str(&text).expect("JSON");
    let flits = |link: &Value| -> u64 {
        link["load"].as_object().map_or(0, |all| all.values().filter_map(|load| load["flits"].as_u64()).sum())
    };
    let carried = first["links"].as_array().expect("links").iter().map(flits).sum::<u64>();
    let sum = "angara.store.flits.reduce((a, b) => a + b, 0)";
    browser.wait("the page has all of it", &format!("{sum} >= {carried}"));

    let difference = "document.querySelector('[name=measure][value=difference]')";
    assert_eq!(browser.eval(&format!("{difference}.parentElement.hidden")), json!(true), "without a reference");
    press(&browser, "#hold");
    browser.wait("it may be chosen", &format!("!{difference}.parentElement.hidden"));
    press(&browser, "label:has([value=difference]) span");
    browser.wait("the legend says so", "document.getElementById('legend').textContent.includes('minus reference')");
    browser.wait("nothing differs", "angara.view.colourOf(0) === angara.view.colours.idle");
    run(&test, &daemon, "second.json");
    browser.wait("link 0 has carried more", &side(0, "more"));

    // The report of the first run, in which another link has carried more than in all of this.
    let links = first["links"].as_array_mut().expect("links");
    let less = links.iter().position(|link| link["node"] != json!(0) && flits(link) > 0).expect("another link");
    let load = links[less]["load"].as_object_mut().and_then(|all| all.values_mut().next()).expect("a class");
    load["flits"] = json!(1_000_000_000_u64);
    let node = links[less]["node"].as_u64().expect("a number");
    let dir = links[less]["dir"].as_str().expect("a direction").to_string();
    let choose = |name: &str, text: &[u8]| {
        let file = test.file(name);
        std::fs::write(&file, text).expect("a file");
        browser.choose_file("#report", &file);
    };
    choose("changed.json", first.to_string().as_bytes());
    browser.wait("it is the reference", "document.getElementById('held').textContent.includes('changed.json')");
    let names = "['+X', '+Y', '+Z', '+W', '-X', '-Y', '-Z', '-W']";
    let at = browser.eval(&format!("{node} * 8 + {names}.indexOf('{dir}')")).as_u64().expect("a link");
    browser.wait("that link has carried less", &side(at, "less"));
    browser.wait("link 0 still more", &side(0, "more"));
    let name = browser.eval(&format!("angara.torus.show({node})"));
    find(&browser, &format!("{} {dir}", name.as_str().expect("a name")));
    let said = browser.eval("document.getElementById('chosen').innerText").to_string();
    assert!(said.contains("compared with the reference") && said.contains('−'), "{said}");

    // Whatever is no report of this torus is refused, and the reference stays.
    let other = text.replacen(&format!("\"{TORUS}\""), "\"2x2\"", 1);
    let beyond = json!({ "format": 2, "shape": TORUS, "links": [{ "node": 24, "dir": "+X", "load": {} }] });
    let negative = json!({ "format": 2, "shape": TORUS, "links": [{ "node": 1, "dir": "+X", "load": { "put": { "flits": -1 } } }] });
    for (name, text, message) in [
        ("other.json", other.as_bytes(), "its network is 2x2, this one is 4x3x2"),
        ("words.json", b"<b>words</b>", "it is not JSON"),
        ("null.json", b"null", "it is not what"),
        ("empty.json", b"", "it is not JSON"),
        ("new.json", br#"{"format":99,"shape":"4x3x2","links":[]}"#, "newer than this page's"),
        ("beyond.json", beyond.to_string().as_bytes(), "link 0 of its list is not in this network"),
        ("negative.json", negative.to_string().as_bytes(), "link 0 of its list has no number of flits"),
        ("broken.gz", b"\x1f\x8bno", "it is compressed, but broken"),
    ] {
        choose(name, text);
        let shown = "document.getElementById('refused').textContent";
        browser.wait(name, &format!("{shown}.startsWith('{name} cannot be') && {shown}.includes({})", json!(message)));
    }
    assert_eq!(browser.eval("angara.view.comparison.reference.words"), json!("the report changed.json"));
    press(&browser, "#forget");
    browser.wait("it is gone", &format!("{difference}.parentElement.hidden && angara.view.measure === 'total'"));
    end(&test, browser, daemon);
}

#[test]
fn what_is_seen_is_saved_in_files() {
    let test = Test::new("browser-export");
    let Some((browser, daemon, url)) = begin(&test) else { return };
    open(&browser, &format!("{url}&view=map&measure=total&unit=flits"));
    run(&test, &daemon, "run.json");
    browser.wait("link 0 has carried something", "angara.store.flits[0] > 0");
    for ending in ["csv", "svg", "png"] {
        press(&browser, &format!("#{ending}"));
        let (name, _) = browser.saved(ending);
        assert!(name.starts_with("angara-4x3x2-20") && name.contains('T'), "{name}");
    }
    let (_, png) = browser.saved("png");
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 2000, "{} bytes", png.len());
    let wide = u32::from_be_bytes(png[16..20].try_into().expect("four bytes"));
    assert_eq!(browser.eval("angara.view.canvas.width"), json!(wide));

    let csv = String::from_utf8(browser.saved("csv").1).expect("text");
    let rows = csv.lines().collect::<Vec<_>>();
    assert_eq!(rows.len(), 1 + LINKS);
    assert_eq!(rows[0], "from,direction,value,unit");
    let flits = browser.eval("angara.store.flits[0]").as_f64().expect("a number");
    assert_eq!(rows[1], format!("\"0,0,0\",+X,{flits},flits"));

    let svg = String::from_utf8(browser.saved("svg").1).expect("text");
    let parsed = browser.eval(&format!(
        "(d => [d.documentElement.tagName, d.querySelector('parsererror') === null, \
         [...d.querySelectorAll('.links path')].reduce((n, p) => n + p.getAttribute('d').split('M').length - 1, 0)])\
         (new DOMParser().parseFromString({}, 'image/svg+xml'))",
        json!(svg)
    ));
    assert_eq!(parsed, json!(["svg", true, LINKS]), "{svg}");
    end(&test, browser, daemon);
}
