//! The mean over runs that differ in their seed alone.
//!
//! Runs with different seeds are independent, so the interval between them needs no assumption about
//! what goes on within one. It is the honest error of a sweep near saturation.

use super::{POINTS_MAX, Row};
use crate::Error;
use crate::run::stats::between;
use serde_json::{Map, Number, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Field with the number of runs averaged.
const RUNS: &str = "runs";
/// Field with the number of runs whose own confidence interval holds the mean of all: about 95 % of those that had one
/// should.
const COVER: &str = "runs_that_cover_the_mean";
/// Field with the half-width of the 95 % confidence interval of every mean, by field.
pub(super) const BETWEEN: &str = "between_runs";

/// The seeds of a range written `FIRST..LAST`, both included.
///
/// # Errors
/// Something else, or a range that is empty or longer than a sweep.
pub(super) fn range(text: &str) -> Result<Vec<toml::Value>, Error> {
    let bad =
        || Error::invalid("seed", text, format!("list numbers, or write FIRST..LAST of at most {POINTS_MAX} seeds"));
    let (first, last) = text.split_once("..").ok_or_else(bad)?;
    let [first, last] = [first, last].map(|n| n.trim().parse::<i64>().ok().filter(|n| *n >= 0));
    let (first, last) = first.zip(last).filter(|(first, last)| first <= last).ok_or_else(bad)?;
    if last - first >= POINTS_MAX as i64 {
        return Err(bad());
    }
    Ok((first..=last).map(toml::Value::Integer).collect())
}

/// Results as people see them: runs that differ in their seed alone are one.
pub struct Means<'a> {
    /// Swept settings, without the seed if there are such runs.
    pub names: Vec<String>,
    /// The means, or the results as they are.
    pub rows: Cow<'a, [Row]>,
    /// There are such runs.
    pub several: bool,
}

impl<'a> Means<'a> {
    /// The results `rows` of a sweep over the settings `names`.
    pub fn of(names: &[String], rows: &'a [Row]) -> Means<'a> {
        match averaged(rows) {
            Some(means) => {
                let names = names.iter().filter(|name| *name != "seed").cloned().collect();
                Means { names, rows: means.into(), several: true }
            }
            None => Means { names: names.to_vec(), rows: rows.into(), several: false },
        }
    }
}

/// The mean of every group of rows that differ in `seed` alone, without that setting; `None` if there are none.
///
/// A group counts as saturated if more than half of its runs do. Texts stay where all agree.
pub(super) fn averaged(rows: &[Row]) -> Option<Vec<Row>> {
    let mut groups: Vec<(BTreeMap<String, String>, Vec<&Row>)> = Vec::new();
    for row in rows {
        let mut rest = row.swept.clone();
        rest.remove("seed")?;
        match groups.iter_mut().find(|(swept, _)| *swept == rest) {
            Some((_, group)) => group.push(row),
            None => groups.push((rest, vec![row])),
        }
    }
    let several = groups.iter().any(|(_, group)| group.len() > 1);
    several.then(|| groups.into_iter().map(|(swept, group)| mean(swept, &group)).collect())
}

fn mean(swept: BTreeMap<String, String>, group: &[&Row]) -> Row {
    let results: Vec<&Map<String, Value>> = group.iter().map(|row| &row.result).collect();
    let mut widths = Map::new();
    let mut result = means(&results, &mut widths);
    // Whether the intervals of single runs can be believed.
    if let Some(mean) = result.get("packet_latency_cycles").and_then(Value::as_f64).filter(|_| group.len() > 1) {
        let intervals =
            group.iter().filter_map(|row| Some((row.number("packet_latency_cycles")?, row.number("confidence")?)));
        let covers = intervals.filter(|(own, half)| (own - mean).abs() <= *half).count();
        result.insert(COVER.into(), covers.into());
    }
    if let Some(width) = widths.get("packet_latency_cycles").or(widths.get("round_trip_cycles")) {
        result.insert("confidence".into(), width.clone());
    }
    if result.contains_key("saturated") {
        let saturated = group.iter().filter(|row| row.saturated()).count();
        result.insert("saturated".into(), Value::Bool(2 * saturated > group.len()));
    }
    result.insert(RUNS.into(), group.len().into());
    result.insert(BETWEEN.into(), Value::Object(widths));
    Row { swept, result, plots: group[0].plots.clone() }
}

/// Field by field the mean of numbers, and what all agree on of anything else.
fn means(results: &[&Map<String, Value>], widths: &mut Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, first) in results[0] {
        let all: Vec<&Value> = results.iter().filter_map(|result| result.get(name)).collect();
        let numbers: Vec<f64> = all.iter().filter_map(|value| value.as_f64()).collect();
        let objects: Vec<&Map<String, Value>> = all.iter().filter_map(|value| value.as_object()).collect();
        if !numbers.is_empty() {
            let (mean, half) = between(&numbers);
            out.extend(Number::from_f64(mean).map(|mean| (name.clone(), mean.into())));
            widths.extend(half.and_then(Number::from_f64).map(|half| (name.clone(), half.into())));
        } else if objects.len() == results.len() {
            out.insert(name.clone(), means(&objects, &mut Map::new()).into());
        } else if all.iter().all(|value| *value == first) {
            out.insert(name.clone(), first.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(load: &str, seed: &str, latency: f64, saturated: bool) -> Row {
        let swept = [("load", load), ("seed", seed)].map(|(name, value)| (name.to_string(), value.to_string()));
        let result = json!({ "packet_latency_cycles": latency, "confidence": 9.0, "saturated": saturated,
            "settings": { "topology": "torus:4x4", "seed": seed.parse::<u64>().unwrap() }, "why": seed });
        Row { swept: swept.into(), result: result.as_object().unwrap().clone(), plots: Vec::new() }
    }

    #[test]
    fn runs_of_one_load_become_their_mean_with_the_interval_between_them() {
        let rows = [
            row("0.1", "1", 10.0, false),
            row("0.2", "1", 20.0, true),
            row("0.1", "2", 12.0, false),
            row("0.2", "2", 40.0, true),
        ];
        let means = averaged(&rows).unwrap();
        assert_eq!(means.len(), 2);
        assert_eq!(means[0].swept, BTreeMap::from([("load".to_string(), "0.1".to_string())]));
        assert_eq!((means[0].number("packet_latency_cycles"), means[0].number(RUNS)), (Some(11.0), Some(2.0)));
        // Two runs, 1 from their mean: the standard error is 1, the quantile with one degree of freedom 12.706.
        assert!((means[0].number("confidence").unwrap() - 12.706).abs() < 1e-9);
        assert_eq!((means[0].number(COVER), means[1].number(COVER)), (Some(2.0), Some(0.0)), "± 9 each");
        assert!(!means[0].saturated() && means[1].saturated());
        assert!(!means[0].result.contains_key("why"), "texts that differ say nothing of the mean");
        assert_eq!(means[0].result["settings"]["topology"], "torus:4x4");
    }

    #[test]
    fn seeds_are_a_range_too() {
        assert_eq!(range("3..5").unwrap(), [3, 4, 5].map(toml::Value::Integer));
        for text in ["3", "5..3", "-1..2", "1..99999", "a..b"] {
            assert!(range(text).unwrap_err().to_string().contains("FIRST..LAST"), "{text}");
        }
    }

    #[test]
    fn without_seeds_there_is_nothing_to_average() {
        let mut alone = row("0.1", "1", 10.0, false);
        assert_eq!(averaged(std::slice::from_ref(&alone)), None);
        alone.swept.remove("seed");
        assert_eq!(averaged(&[alone.clone(), alone]), None);
    }
}
