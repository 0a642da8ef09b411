//! Slurm's lists of host names, such as `rack1n[00-03,7],login`.

/// Longest list that is written out: a Slurm has fewer nodes, and a mistake is not to take all memory.
const MOST: usize = 1 << 17;

/// Names of a list; `None` if it is not one.
pub fn expand(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for part in split(list)? {
        names.extend(product(part)?);
        if names.len() > MOST {
            return None;
        }
    }
    Some(names)
}

/// Parts between commas outside brackets.
fn split(list: &str) -> Option<Vec<&str>> {
    let (mut parts, mut begin, mut inside) = (Vec::new(), 0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' if !inside => inside = true,
            ']' if inside => inside = false,
            '[' | ']' => return None,
            ',' if !inside => {
                parts.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[begin..]);
    (!inside).then(|| parts.into_iter().filter(|part| !part.is_empty()).collect())
}

/// All names of `a[1-2]b[3,4]`.
fn product(part: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = part.split_once('[') else { return Some(vec![part.to_string()]) };
    let (ranges, after) = rest.split_once(']')?;
    let (middles, ends) = (numbers(ranges)?, product(after)?);
    if middles.len().checked_mul(ends.len())? > MOST {
        return None;
    }
    let names = middles.iter().flat_map(|middle| ends.iter().map(move |end| format!("{before}{middle}{end}")));
    Some(names.collect())
}

/// Numbers of `00-03,7`, as wide as the first of each range is written.
fn numbers(ranges: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (width, low, high) = (first.len(), first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if low > high || high - low > MOST {
            return None;
        }
        all.extend((low..=high).map(|number| format!("{number:0width$}")));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_written_out() {
        for (list, names) in [
            ("", ""),
            ("n0", "n0"),
            ("n[0-1,4-5]", "n0 n1 n4 n5"),
            ("n6,n7,n2", "n6 n7 n2"),
            ("rack[1-2]n[08-10],login", "rack1n08 rack1n09 rack1n10 rack2n08 rack2n09 rack2n10 login"),
        ] {
            let expected: Vec<&str> = names.split_whitespace().collect();
            assert_eq!(expand(list).expect(list), expected, "{list}");
        }
        for bad in ["n[0", "n0]", "n[3-1]", "n[a-b]", "n[0-[1]]", "n[0-99999999]", "a[0-9999]b[0-9999]"] {
            assert_eq!(expand(bad), None, "{bad}");
        }
    }
}
