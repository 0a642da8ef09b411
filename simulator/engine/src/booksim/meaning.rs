//! Settings that follow from parameters.

use super::Setting;
use super::file::File;
use super::parameters::value;
use crate::Error;
use toml::Value;

pub(super) fn settings(file: &File) -> Result<Vec<Setting>, Error> {
    let mut all = Vec::new();
    let mut set = |key: &'static str, from: &'static str, value: Value| all.push(Setting { key, value, from });
    let (topology, from) = topology(file)?;
    set("topology", from, topology.into());
    set("router", "topology", "generic".into());
    set("routing", "routing_function", routing(file)?.into());
    set("vcs", "num_vcs", whole(file, "num_vcs")?.into());
    set("buffer", "vc_buf_size", whole(file, "vc_buf_size")?.into());
    let sizes = sizes(file)?;
    set("length", "packet_size", sizes.text().into());
    if sizes.0.iter().any(|(flits, _)| *flits > 1) {
        set("switching", "packet_size", "wormhole".into());
        set("hold-switch", "hold_switch_for_packet", (whole(file, "hold_switch_for_packet")? != 0).into());
    }
    let packets = match whole(file, "injection_rate_uses_flits")? {
        0 => number(file, "injection_rate")?,
        _ => number(file, "injection_rate")? / sizes.mean(),
    };
    if packets <= 0.0 || packets > 1.0 {
        return Err(file.wrong("injection_rate", "give more than 0 and at most one packet per node and cycle"));
    }
    set("load", "injection_rate", (packets * sizes.mean()).into());
    set("process", "injection_process", process(file, packets)?.into());
    set("pattern", "traffic", pattern(file)?.into());
    set("seed", "seed", whole(file, "seed")?.into());
    Ok(all)
}

/// The network, and the parameter at fault if there is none.
fn topology(file: &File) -> Result<(String, &'static str), Error> {
    let (kind, k, n) = (value(file, "topology"), whole(file, "k")?, whole(file, "n")?);
    if !(1..=6).contains(&n) {
        return Err(file.wrong("n", "give 1 to 6"));
    }
    let sizes = vec![k.to_string(); n as usize].join("x");
    match kind {
        "torus" | "mesh" if whole(file, "c")? != 1 => {
            Err(file.wrong("c", "BookSim's torus and mesh have one node per router whatever c is; there is cmesh"))
        }
        "torus" | "mesh" => Ok((format!("{kind}:{sizes}"), "k")),
        "cmesh" if n != 2 || whole(file, "c")? != 4 => Err(file.wrong("c", "BookSim's cmesh has n = 2 and c = 4 only")),
        "cmesh" => Ok((format!("mesh:{sizes},c=4"), "k")),
        "fly" => Ok((format!("fly:{k},{n}"), "k")),
        "fattree" => Ok((format!("fat-tree:{k},{n}"), "k")),
        "flatfly" => Ok((format!("hyperx:{sizes},{}", whole(file, "c")?), "k")),
        "dragonflynew" if n == 1 => Ok((format!("dragonfly:{k}"), "k")),
        "dragonflynew" => Err(file.wrong("n", "groups of a dragonfly have one dimension here; give 1")),
        "anynet" => {
            let path = value(file, "network_file");
            // BookSim looks where it was started; beside the configuration is where it usually lies.
            let beside = file.path().parent().map(|dir| dir.join(path)).filter(|beside| beside.is_file());
            let path = beside.map_or(path.into(), |beside| beside.display().to_string());
            if path.is_empty() {
                return Err(file.wrong("network_file", "an anynet needs one"));
            }
            Ok((format!("anynet:{path}"), "network_file"))
        }
        _ => Err(file.wrong(
            "topology",
            "there are torus, mesh, cmesh, fly, fattree, flatfly, dragonflynew and anynet; others can be written as a graph",
        )),
    }
}

/// BookSim's name of a routing, which it joins with that of the topology, and ours.
const ROUTINGS: &[(&str, &str, &str)] = &[
    ("torus", "dim_order", "dor"),
    ("mesh", "dim_order", "dor"),
    ("mesh", "dor", "dor"),
    // Without its links along the edges, which are not there here.
    ("cmesh", "dor_no_express", "dor"),
    ("fly", "dest_tag", "minimal"),
    ("fattree", "nca", "nca"),
    ("flatfly", "ran_min", "minimal"),
    ("flatfly", "valiant", "valiant"),
    ("flatfly", "ugal", "ugal"),
    ("dragonflynew", "min", "minimal"),
    ("dragonflynew", "ugal", "ugal"),
    ("anynet", "min", "minimal"),
];

fn routing(file: &File) -> Result<String, Error> {
    let (topology, name) = (value(file, "topology"), value(file, "routing_function"));
    let of_topology = || ROUTINGS.iter().filter(|r| r.0 == topology);
    match of_topology().find(|r| r.1 == name) {
        Some((_, _, ours)) => Ok(ours.to_string()),
        None => {
            let known: Vec<&str> = of_topology().map(|r| r.1).collect();
            Err(file.wrong("routing_function", &format!("for {topology} there are {}", known.join(", "))))
        }
    }
}

/// Lengths of packets, flits, and how often each comes.
struct Sizes(Vec<(u64, f64)>);

impl Sizes {
    fn mean(&self) -> f64 {
        let all: f64 = self.0.iter().map(|(_, rate)| rate).sum();
        self.0.iter().map(|(flits, rate)| *flits as f64 * rate / all).sum()
    }
    fn text(&self) -> String {
        match &self.0[..] {
            [(flits, _)] => flits.to_string(),
            all => {
                let sum: f64 = all.iter().map(|(_, rate)| rate).sum();
                let each: Vec<String> = all.iter().map(|(flits, rate)| format!("{flits}:{}", rate / sum)).collect();
                each.join(",")
            }
        }
    }
}

fn sizes(file: &File) -> Result<Sizes, Error> {
    let flits = of_first_class(value(file, "packet_size"));
    let rates = of_first_class(value(file, "packet_size_rate"));
    let flits: Option<Vec<u64>> = flits.iter().map(|f| f.parse().ok().filter(|f| *f > 0)).collect();
    let flits = flits.ok_or_else(|| file.wrong("packet_size", "give whole numbers of flits, such as 4 or {{1,4}}"))?;
    let rates: Option<Vec<f64>> = rates.iter().map(|r| r.parse().ok().filter(|r: &f64| *r > 0.0)).collect();
    let rates = rates.filter(|rates| rates.len() == flits.len() || flits.len() == 1);
    let rates = rates.ok_or_else(|| file.wrong("packet_size_rate", "give a rate above 0 for every packet size"))?;
    Ok(Sizes(flits.into_iter().zip(rates).collect()))
}

/// The values of the first traffic class: `{4}` and `4` are one, `{{1,4},{2}}` are the two of the first list.
fn of_first_class(text: &str) -> Vec<&str> {
    let inside = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
    match inside.strip_prefix('{') {
        Some(list) => list.split('}').next().unwrap_or("").split(',').collect(),
        None => inside.split(',').take(1).collect(),
    }
}

fn process(file: &File, packets: f64) -> Result<String, Error> {
    let (name, arguments) = call(value(file, "injection_process"));
    let given = |i: usize, parameter: &'static str| match arguments.get(i) {
        Some(text) => text.parse().map_err(|_| file.wrong("injection_process", &format!("`{text}` is no number"))),
        None => number(file, parameter),
    };
    match name {
        "bernoulli" => Ok("bernoulli".into()),
        "on_off" => {
            let (alpha, beta, r1): (f64, f64, f64) =
                (given(0, "burst_alpha")?, given(1, "burst_beta")?, given(2, "burst_r1")?);
            let refuse = |why: &str| Err(file.wrong("injection_process", why));
            // Each follows from the other two and the rate; BookSim marks it by a negative number.
            let (on, off) = match (alpha >= 0.0, beta >= 0.0, r1 >= 0.0) {
                (true, true, false) => (alpha, beta),
                (false, true, true) if r1 > packets => (beta * packets / (r1 - packets), beta),
                (true, false, true) if r1 > packets => (alpha, alpha * (r1 - packets) / packets),
                (false, true, true) | (true, false, true) => return refuse("burst_r1 must be above the rate"),
                _ => return refuse("give two of burst_alpha, burst_beta and burst_r1, and -1 for the third"),
            };
            Ok(format!("on-off:{on},{off}"))
        }
        _ => Err(file.wrong("injection_process", "there are bernoulli and on_off(ALPHA,BETA,R1)")),
    }
}

/// `name(a,{b,c})` as the name and its arguments.
fn call(text: &str) -> (&str, Vec<&str>) {
    let Some((name, rest)) = text.split_once('(') else { return (text, Vec::new()) };
    let (mut arguments, mut start, mut depth) = (Vec::new(), 0, 0);
    let rest = rest.strip_suffix(')').unwrap_or(rest);
    for (at, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(&rest[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    arguments.push(&rest[start..]);
    (name, arguments)
}

fn pattern(file: &File) -> Result<String, Error> {
    let (name, arguments) = call(value(file, "traffic"));
    let refuse = |why: &str| Err(file.wrong("traffic", why));
    // BookSim draws these on a torus of xr·k, whatever the network is.
    let is_grid = matches!(value(file, "topology"), "torus" | "mesh");
    match name {
        "uniform" | "randperm" if arguments.is_empty() && value(file, "topology") == "cmesh" => {
            Ok(name.replace("randperm", "permutation"))
        }
        _ if value(file, "topology") == "cmesh" => {
            refuse("its nodes have other numbers than those of a mesh here; use uniform, or matrix:FILE")
        }
        "uniform" | "bitcomp" | "bitrev" | "shuffle" if arguments.is_empty() => Ok(name.into()),
        // By bits of the number there, by coordinates here; on a square both are the same.
        "transpose" if arguments.is_empty() && is_grid && whole(file, "n")? == 2 => Ok(name.into()),
        "tornado" | "neighbor" if arguments.is_empty() && is_grid => Ok(name.into()),
        "transpose" | "tornado" | "neighbor" => refuse("not on this network; write its pairs as matrix:FILE"),
        "bad_dragon" if arguments.is_empty() && value(file, "topology") == "dragonflynew" => Ok("bad-dragon".into()),
        "randperm" => Ok("permutation".into()),
        "hotspot" => hotspot(file, &arguments),
        _ => refuse(
            "there are uniform, bitcomp, transpose, bitrev, shuffle, randperm, tornado, neighbor, bad_dragon and \
             hotspot({NODES},{RATES}); others can be given with --pattern matrix:FILE",
        ),
    }
}

fn hotspot(file: &File, arguments: &[&str]) -> Result<String, Error> {
    let refuse = || file.wrong("traffic", "name the nodes, and a rate for each: hotspot({0,9},{3,1})");
    let list = |i: usize| -> Vec<&str> {
        arguments.get(i).map_or(Vec::new(), |a| a.trim_matches(['{', '}']).split(',').collect())
    };
    let nodes: Option<Vec<u32>> = list(0).iter().map(|n| n.parse().ok()).collect();
    let mut rates: Vec<u32> =
        list(1).iter().map(|r| r.parse().ok().filter(|r| *r > 0)).collect::<Option<_>>().ok_or_else(refuse)?;
    let nodes = nodes.filter(|nodes| !nodes.is_empty()).ok_or_else(refuse)?;
    // The last rate is that of all further nodes.
    let last = rates.last().copied().unwrap_or(1);
    rates.resize(nodes.len(), last);
    let sum: f64 = rates.iter().map(|r| f64::from(*r)).sum();
    let each: Vec<String> = nodes.iter().zip(&rates).map(|(n, r)| format!("{n},{}", f64::from(*r) / sum)).collect();
    Ok(format!("hotspot:{}", each.join(",")))
}

fn whole(file: &File, name: &'static str) -> Result<i64, Error> {
    value(file, name).parse().ok().filter(|n| *n >= 0).ok_or_else(|| file.wrong(name, "give a whole number"))
}

fn number(file: &File, name: &'static str) -> Result<f64, Error> {
    let first = of_first_class(value(file, name));
    let number = first.first().and_then(|text| text.parse().ok()).filter(|n: &f64| n.is_finite());
    number.ok_or_else(|| file.wrong(name, "give a number"))
}
