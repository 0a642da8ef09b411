//! The older text format of Prometheus, version 0.0.4, made of OpenMetrics text: there a counter's `# TYPE` names its
//! samples, units have no line of their own, there are no infos, and no mark at the end.

/// OpenMetrics text in the older format.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1024);
    let kinds = |name: &str| {
        let find = format!("# TYPE {name} ");
        text.lines().find_map(|line| line.strip_prefix(&find)).unwrap_or_default()
    };
    let mut kind = ("", "");
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(word @ ("HELP" | "TYPE")), Some(name), Some(rest)) => {
                if kind.0 != name {
                    kind = (name, kinds(name));
                }
                let (suffix, rest) = match (kind.1, word) {
                    ("counter", _) => ("_total", rest),
                    ("info", "TYPE") => ("_info", "gauge"),
                    ("info", _) => ("_info", rest),
                    _ => ("", rest),
                };
                out += &format!("# {word} {name}{suffix} {rest}\n");
            }
            (Some("#"), ..) => {}
            _ => {
                out += line;
                out.push('\n');
            }
        }
    }
    out
}
