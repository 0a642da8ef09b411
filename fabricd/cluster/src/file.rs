//! The text of a cluster file: reading it, checking it line by line, writing it.

use crate::{Address, Cluster, DEAD_AFTER_DEFAULT, HEARTBEAT_DEFAULT, HOSTS_MAX, Host, KeyFile, MTU_MIN, blocks, keys};
use angara_net::torus::{DIMS_MAX, NodeId, Shape};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use toml::{Spanned, Value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    id: Spanned<String>,
    torus: Option<Spanned<String>>,
    mesh: Option<Spanned<String>>,
    current_key: Option<Spanned<u8>>,
    mtu: Option<Spanned<i64>>,
    boundary_slots: Option<Spanned<u16>>,
    heartbeat: Option<Spanned<String>>,
    dead_after: Option<Spanned<String>>,
    #[serde(default)]
    key: Vec<Spanned<RawKey>>,
    #[serde(default)]
    host: Vec<Spanned<RawHost>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    id: Spanned<u8>,
    file: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    name: Spanned<String>,
    addresses: Spanned<Vec<Spanned<String>>>,
    /// A text or a list of texts.
    nodes: Spanned<Value>,
}

/// Mistakes found so far; a byte offset becomes a line at the end.
struct Mistakes<'t> {
    text: &'t str,
    found: Vec<(usize, String)>,
}

impl Mistakes<'_> {
    fn at<T>(&mut self, place: &Spanned<T>, message: impl Into<String>) {
        self.at_byte(place.span().start, message);
    }
    fn at_byte(&mut self, byte: usize, message: impl Into<String>) {
        let before = &self.text.as_bytes()[..byte.min(self.text.len())];
        self.found.push((before.iter().filter(|&&b| b == b'\n').count() + 1, message.into()));
    }
    /// The value, or its mistake on record.
    fn keep<T, V>(&mut self, place: &Spanned<T>, result: Result<V, String>) -> Option<V> {
        result.map_err(|message| self.at(place, message)).ok()
    }
}

/// Reads the text of the file `path`; mistakes come with their line.
pub(super) fn parse(path: &Path, text: &str) -> Result<Cluster, Vec<(usize, String)>> {
    let mut wrong = Mistakes { text, found: Vec::new() };
    let raw: Raw = toml::from_str(text).map_err(|e| {
        wrong.at_byte(e.span().map_or(0, |s| s.start), e.message());
        std::mem::take(&mut wrong.found)
    })?;
    let id = wrong.keep(
        &raw.id,
        keys::decode(raw.id.get_ref()).ok_or_else(|| {
            format!("id `{}` is not 32 hexadecimal digits; `angara cluster init` makes a random one", raw.id.get_ref())
        }),
    );
    let shape = shape(&raw, &mut wrong);
    let (current_key, keys) = key_files(&raw, path, &mut wrong);
    let fitting = |m: &Spanned<i64>| u16::try_from(*m.get_ref()).ok().filter(|mtu| *mtu >= MTU_MIN);
    let mtu = raw.mtu.as_ref().and_then(fitting);
    if let Some(place) = raw.mtu.as_ref().filter(|m| fitting(m).is_none()) {
        let max = u16::MAX;
        wrong.at(place, format!("mtu {} does not fit; give {MTU_MIN} to {max}, or leave it out", place.get_ref()));
    }
    let boundary_slots = raw.boundary_slots.as_ref().map(|s| *s.get_ref());
    if let Some(place) = raw.boundary_slots.as_ref().filter(|s| !(2..=1024).contains(s.get_ref())) {
        wrong.at(place, format!("boundary-slots {}: give 2 to 1024, or leave it out", place.get_ref()));
    }
    let mut time = |given: &Option<Spanned<String>>, default| match given {
        None => default,
        Some(place) => wrong.keep(place, duration(place.get_ref())).unwrap_or(default),
    };
    let (heartbeat, dead_after) = (time(&raw.heartbeat, HEARTBEAT_DEFAULT), time(&raw.dead_after, DEAD_AFTER_DEFAULT));
    if let Some(place) = raw.dead_after.as_ref().or(raw.heartbeat.as_ref()).filter(|_| dead_after < heartbeat * 3) {
        let what = format!("dead-after ({dead_after:?}) is less than three heartbeats ({heartbeat:?} each)");
        wrong.at(place, format!("{what}, so one lost datagram could end a peer; make it longer"));
    }
    let hosts = hosts(&raw, shape, &mut wrong);
    match (id, shape, wrong.found.is_empty()) {
        (Some(id), Some(shape), true) => Ok(Cluster {
            path: path.to_owned(),
            id,
            shape,
            hosts,
            current_key,
            keys,
            mtu,
            boundary_slots,
            heartbeat,
            dead_after,
        }),
        _ => {
            wrong.found.sort_by_key(|m| m.0);
            Err(wrong.found)
        }
    }
}

fn shape(raw: &Raw, wrong: &mut Mistakes) -> Option<Shape> {
    match (&raw.torus, &raw.mesh) {
        (Some(sizes), None) => wrong.keep(sizes, sizes.get_ref().parse().map_err(|e| format!("{e}"))),
        (None, Some(sizes)) => {
            wrong.keep(sizes, format!("mesh:{}", sizes.get_ref()).parse().map_err(|e| format!("{e}")))
        }
        (Some(_), Some(mesh)) => {
            wrong.at(mesh, "torus and mesh exclude each other; keep one");
            None
        }
        (None, None) => {
            wrong.at_byte(0, "no network; write torus = \"4x4x2\" or mesh = \"4x4\"");
            None
        }
    }
}

fn key_files(raw: &Raw, path: &Path, wrong: &mut Mistakes) -> (u8, Vec<KeyFile>) {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut keys: Vec<KeyFile> = Vec::new();
    for key in &raw.key {
        let RawKey { id, file } = key.get_ref();
        if keys.iter().any(|k| k.id == *id.get_ref()) {
            wrong.at(id, format!("key {} is there twice; give every key its own id", id.get_ref()));
        }
        if file.get_ref().is_empty() {
            wrong.at(file, "the key file has no name");
        }
        keys.push(KeyFile { id: *id.get_ref(), path: dir.join(file.get_ref()) });
    }
    let Some(first) = keys.first() else {
        wrong.at_byte(0, "no key; write [[key]] with an id (0 to 255) and a file");
        return (0, keys);
    };
    let current = match &raw.current_key {
        None if keys.len() > 1 => {
            wrong.at(&raw.key[1], "there are several keys; say which one to send with: current-key = ID");
            first.id
        }
        None => first.id,
        Some(place) => {
            if !keys.iter().any(|k| k.id == *place.get_ref()) {
                wrong.at(place, format!("current-key {} is not the id of any [[key]]", place.get_ref()));
            }
            *place.get_ref()
        }
    };
    (current, keys)
}

fn hosts(raw: &Raw, shape: Option<Shape>, wrong: &mut Mistakes) -> Vec<Host> {
    let mut hosts = Vec::new();
    let mut names: BTreeMap<&str, ()> = BTreeMap::new();
    let mut places: BTreeMap<Address, &str> = BTreeMap::new();
    let mut owners: BTreeMap<NodeId, &str> = BTreeMap::new();
    if raw.host.len() > HOSTS_MAX {
        wrong.at(&raw.host[HOSTS_MAX], format!("{} hosts; at most {HOSTS_MAX} are supported", raw.host.len()));
    }
    for host in &raw.host {
        let RawHost { name, addresses, nodes } = host.get_ref();
        let shown = name.get_ref().as_str();
        if shown.is_empty() || shown.chars().any(|c| c.is_whitespace() || c == ',' || c.is_control()) {
            wrong.at(name, format!("host name `{shown}`: write a name without blanks and commas"));
        }
        if names.insert(shown, ()).is_some() {
            wrong.at(name, format!("there are two hosts called `{shown}`"));
        }
        if addresses.get_ref().is_empty() {
            wrong.at(addresses, format!("host `{shown}` has no address; write addresses = [\"10.0.0.1\"]"));
        }
        let mut parsed = Vec::new();
        for text in addresses.get_ref() {
            let Some(address) = wrong.keep(text, text.get_ref().parse::<Address>()) else { continue };
            match places.insert(address.clone(), shown) {
                Some(other) if other != shown => {
                    wrong.at(
                        text,
                        format!("{address} is an address of host `{other}` too; give each its own (or a port)"),
                    );
                }
                Some(_) => wrong.at(text, format!("{address} is there twice")),
                None => {}
            }
            parsed.push(address);
        }
        let mut list = Vec::new();
        if let Some(shape) = shape {
            list = wrong.keep(nodes, node_block(nodes.get_ref(), shape)).unwrap_or_default();
            let mut taken: BTreeMap<&str, Vec<NodeId>> = BTreeMap::new();
            for &node in &list {
                match owners.insert(node, shown) {
                    Some(other) if other != shown => taken.entry(other).or_default().push(node),
                    _ => {}
                }
            }
            for (other, both) in taken {
                wrong.at(nodes, format!("host `{shown}` and host `{other}` both have {}", show_nodes(&both)));
            }
        }
        hosts.push(Host { name: shown.into(), addresses: parsed, nodes: list });
    }
    if raw.host.is_empty() {
        wrong.at_byte(0, "no host; write [[host]] with name, addresses and nodes");
    } else if let Some(shape) = shape.filter(|_| wrong.found.is_empty()) {
        let gaps: Vec<NodeId> = (0..shape.nodes() as NodeId).filter(|n| !owners.contains_key(n)).collect();
        if let (Some(last), false) = (raw.host.last(), gaps.is_empty()) {
            wrong.at(last, format!("no host has {} of {shape}; give them to one", show_nodes(&gaps)));
        }
    }
    hosts
}

/// `node 5` or `nodes 0-3,7`.
pub(super) fn show_nodes(nodes: &[NodeId]) -> String {
    let mut parts: Vec<(NodeId, NodeId)> = Vec::new();
    for &node in nodes {
        match parts.last_mut() {
            Some(last) if last.1 + 1 == node => last.1 = node,
            _ => parts.push((node, node)),
        }
    }
    let part = |&(a, b): &(NodeId, NodeId)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    let text = parts.iter().map(part).collect::<Vec<_>>().join(",");
    if nodes.len() == 1 { format!("node {text}") } else { format!("nodes {text}") }
}

/// Nodes of `"0-3,7"`, of a box `"0,0,0..1,3,1"` (both corners belong to it), or of a list of such texts.
fn node_block(value: &Value, shape: Shape) -> Result<Vec<NodeId>, String> {
    let form = "write nodes = \"0-3,7\", or the corners of a box: nodes = \"0,0,0..1,3,1\", or a list of such texts";
    let texts = match value {
        Value::String(text) => vec![text.as_str()],
        Value::Array(list) => list.iter().map(|v| v.as_str()).collect::<Option<_>>().ok_or(form)?,
        _ => return Err(form.into()),
    };
    let mut nodes = Vec::new();
    for text in texts {
        match text.split_once("..") {
            Some((low, high)) => nodes.extend(box_nodes(low.trim(), high.trim(), shape)?),
            None => {
                let list = angara_net::units::list(text).ok_or_else(|| format!("`{text}`: {form}"))?;
                nodes.extend(list.into_iter().map(|n| n as NodeId));
            }
        }
    }
    nodes.sort_unstable();
    if nodes.is_empty() {
        return Err("this host has no nodes; give it some, or leave it out".into());
    }
    if let Some(node) = nodes.iter().find(|&&n| n as usize >= shape.nodes()) {
        return Err(format!("node {node} is not in {shape}; its nodes are 0 to {}", shape.nodes() - 1));
    }
    if let Some(pair) = nodes.windows(2).find(|p| p[0] == p[1]) {
        return Err(format!("node {} is there twice", pair[0]));
    }
    Ok(nodes)
}

fn box_nodes(low: &str, high: &str, shape: Shape) -> Result<Vec<NodeId>, String> {
    let (a, b) = (shape.parse_coords(low), shape.parse_coords(high));
    let (a, b) = (a.map_err(|e| e.to_string())?, b.map_err(|e| e.to_string())?);
    if (0..DIMS_MAX).any(|d| a.0[d] > b.0[d]) {
        return Err(format!("the box {low}..{high} is empty; write its lowest corner first"));
    }
    let inside = |n: &NodeId| {
        let c = shape.coords(*n);
        (0..DIMS_MAX).all(|d| (a.0[d]..=b.0[d]).contains(&c.0[d]))
    };
    Ok((0..shape.nodes() as NodeId).filter(inside).collect())
}

/// `250ms`, `0.5s` or `1m`.
fn duration(text: &str) -> Result<Duration, String> {
    let time = angara_net::units::time(text).map(|ps| Duration::from_nanos(ps / 1000));
    time.filter(|t| (Duration::from_millis(1)..=Duration::from_secs(3600)).contains(t))
        .ok_or_else(|| format!("`{text}` is not a time from 1ms to 1h; write 100ms, 2s or 1m"))
}

/// Text of a new cluster file for `hosts` with one `block` each and a random id.
pub fn render(shape: Shape, hosts: &[(String, Address)], cut: &blocks::Cut, key_file: &str) -> std::io::Result<String> {
    let id = keys::encode(&keys::random::<16>()?);
    let (kind, sizes) = if shape.is_torus() { ("torus", shape.to_string()) } else { ("mesh", shape.to_string()) };
    let sizes = sizes.trim_start_matches("mesh:");
    let quoted = |text: &str| Value::from(text).to_string();
    let mut out = format!(
        "# One torus over {} hosts; every host needs this file and the key file.\n\
         # {} links cross between hosts.\n\
         id = \"{id}\"\n\
         {kind} = \"{sizes}\"\n\
         #mtu = 1500                # largest IP packet; found out if left out\n\
         #heartbeat = \"100ms\"       # how often an idle trunk says that it lives\n\
         #dead-after = \"1s\"         # silence after which a peer is taken for dead\n\
         current-key = 1\n\n\
         [[key]]                    # frames sealed with any of these keys are accepted\n\
         id = 1\n\
         file = {}\n",
        hosts.len(),
        // A cable is two links.
        2 * cut.crossing,
        quoted(key_file),
    );
    for ((name, address), block) in hosts.iter().zip(&cut.blocks) {
        let corner = |at: [u8; DIMS_MAX]| shape.show(angara_net::torus::Coords(at));
        let nodes = format!("{}..{}", corner(block.low), corner(block.high()));
        out.push_str(&format!(
            "\n[[host]]\nname = {}\naddresses = [{}]\nnodes = {}\n",
            quoted(name),
            quoted(&address.to_string()),
            quoted(&nodes)
        ));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
id = "000102030405060708090a0b0c0d0e0f"
torus = "4x2"
mtu = 1400
heartbeat = "50ms"
dead-after = "2s"
current-key = 2
[[key]]
id = 1
file = "old.key"
[[key]]
id = 2
file = "/etc/angara/new.key"
[[host]]
name = "a"
addresses = ["10.0.0.1", "[fd00::1]:7000"]
nodes = "0-1,4-5"
[[host]]
name = "b"
addresses = ["node-b:7001"]
nodes = ["2,0..3,0", "2,1..3,1"]
"#;

    fn read(text: &str) -> Result<Cluster, String> {
        parse(Path::new("/etc/angara/cluster.toml"), text)
            .map_err(|found| crate::show_mistakes(Path::new("cluster.toml"), &found))
    }

    #[test]
    fn a_whole_file_is_read() {
        let c = read(GOOD).expect("valid");
        assert_eq!(c.id, std::array::from_fn(|i| i as u8));
        assert_eq!(c.hosts[0].nodes, [0, 1, 4, 5]);
        assert_eq!(c.hosts[1].nodes, [2, 3, 6, 7]);
        assert_eq!(c.host("b").expect("is there").index(), 1);
        assert!(c.host("c").expect_err("is not").to_string().contains("its hosts are a, b"));
        assert_eq!((c.current_key, c.keys[0].path.to_str()), (2, Some("/etc/angara/old.key")));
        assert_eq!((c.mtu, c.heartbeat, c.dead_after), (Some(1400), Duration::from_millis(50), Duration::from_secs(2)));
        // Two rows, cut in the middle and at the wrap-around: 4 links, each from both ends.
        assert_eq!(c.crossings().len(), 8);
        assert!(c.crossings().iter().all(|x| x.from_host != x.to_host && x.dir.dim() == 0));
    }

    #[test]
    fn mistakes_name_file_line_and_remedy() {
        for (from, to, expected) in [
            ("mtu = 1400", "mtu = 14", "cluster.toml:4: mtu 14 does not fit; give 1248 to 65535"),
            ("mtu = 1400", "mtu = 1247", "cluster.toml:4: mtu 1247 does not fit; give 1248"),
            ("mtu = 1400", "mtu = 70000", "cluster.toml:4: mtu 70000 does not fit"),
            ("mtu = 1400", "mut = 1400", "cluster.toml:4: unknown field `mut`"),
            ("\"4x2\"", "\"4x\"", "cluster.toml:3: shape `4x`"),
            ("000102", "0001", "cluster.toml:2: id `0001"),
            ("\"50ms\"", "\"50\"", "cluster.toml:5: `50` is not a time"),
            ("\"2s\"", "\"100ms\"", "cluster.toml:6: dead-after (100ms) is less than three heartbeats"),
            ("current-key = 2", "current-key = 3", "cluster.toml:7: current-key 3 is not the id"),
            ("current-key = 2\n", "", "say which one to send with"),
            ("id = 2", "id = 1", "cluster.toml:12: key 1 is there twice"),
            ("\"10.0.0.1\"", "\"10.0.0.1:x\"", "cluster.toml:16: `10.0.0.1:x` is not an address"),
            ("node-b:7001", "10.0.0.1", "cluster.toml:20: 10.0.0.1:26290 is an address of host `a` too"),
            ("\"node-b:7001\"", "", "cluster.toml:20: host `b` has no address"),
            ("name = \"b\"", "name = \"a\"", "cluster.toml:19: there are two hosts called `a`"),
            ("name = \"b\"", "name = \"b\"\ncolour = 1", "cluster.toml:20: unknown field `colour`"),
            ("0-1,4-5", "0-2,4-5", "cluster.toml:21: host `b` and host `a` both have node 2"),
            ("0-1,4-5", "0-1", "cluster.toml:18: no host has nodes 4-5 of 4x2"),
            ("0-1,4-5", "0-1,4-8", "cluster.toml:17: node 8 is not in 4x2; its nodes are 0 to 7"),
            ("0-1,4-5", "0,1..0,0", "cluster.toml:17: the box 0,1..0,0 is empty"),
            ("\"0-1,4-5\"", "5", "cluster.toml:17: write nodes = \"0-3,7\""),
            ("\"0-1,4-5\"", "[]", "cluster.toml:17: this host has no nodes"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let e = read(&GOOD.replacen(from, to, 1)).expect_err(to);
            assert!(e.contains(expected), "{to}: {e}\nexpected: {expected}");
        }
        assert!(read("id = 3").expect_err("wrong type").contains("cluster.toml:1:"));
        let e = read("id = \"000102030405060708090a0b0c0d0e0f\"").expect_err("nothing in it");
        for part in ["no network", "no key", "no host"] {
            assert!(e.contains(part), "{e}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (shape, hosts) in [("4x4x2", 4), ("4x4x2", 3), ("mesh:5x3", 2), ("7", 7), ("2x2x2x2", 5)] {
            let shape: Shape = shape.parse().expect("a shape");
            let cut = blocks::cut(shape, hosts).expect("fits");
            let names: Vec<_> =
                (0..hosts).map(|i| (format!("h{i}"), format!("10.0.0.{i}").parse().expect("fits"))).collect();
            let text = render(shape, &names, &cut, "cluster.key").expect("random numbers");
            let read = read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!((read.shape, read.hosts.len()), (shape, hosts));
            assert_eq!(read.crossings().len(), 2 * cut.crossing, "{text}");
            assert_ne!(read.id, [0; 16]);
        }
    }
}
