//! Jobs as `squeue --json` shows them.
//!
//! Slurm 22.05 writes plain numbers and one state. Later versions write numbers as objects that tell
//! whether they are set, and a list of states; both are read.

use angara_control::error::Failed;
use serde_json::Value;

/// What a job is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It waits until somebody releases it.
    Held,
    /// It waits for nodes.
    Pending,
    /// It has nodes.
    Running,
    /// It has none any more.
    Over,
}

/// One job, or one task of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Its name for `scontrol`: a number, or number and task (`6_2`).
    pub id: String,
    /// What it is doing.
    pub state: State,
    /// When it was submitted, seconds since 1970.
    pub submit: u64,
    /// Nodes that it asks for.
    pub count: usize,
    /// How long it may run, seconds; `None` is unlimited.
    pub limit: Option<u64>,
    /// When it ends at the latest, once it runs.
    pub end: u64,
    /// Not before this is it to start (`--begin`).
    pub eligible: u64,
    /// Partitions in which it may run.
    pub partitions: Vec<String>,
    /// Hosts that it has, as Slurm lists them.
    pub hosts: String,
    /// Hosts that it must have.
    pub required: String,
    /// Hosts that it must not have.
    pub excluded: String,
    /// A demand beyond a number of nodes, as an option of `sbatch`.
    pub demand: Option<&'static str>,
    /// Its user's comment.
    pub comment: String,
    pub admin_comment: String,
}

/// Most tasks of an array that are looked at at once; the others follow when these have gone.
const TASKS: usize = 256;

/// Reads what `squeue` printed.
pub fn jobs(text: &str) -> Result<Vec<Job>, Failed> {
    let odd = |what: String| {
        Failed::runtime(
            format!("squeue --json printed {what}"),
            "see what `squeue --json` prints; this was written for Slurm 22.05 with its JSON plugin",
        )
    };
    let all: Value = serde_json::from_str(text).map_err(|error| odd(format!("no JSON: {error}")))?;
    // A controller that does not answer is a list of errors, with exit status 0.
    if let Some(error) = all["errors"].as_array().and_then(|errors| errors.first()) {
        let part = |name: &str| error[name].as_str().unwrap_or("").to_string();
        return Err(Failed::runtime(
            format!("`squeue --json`: {}: {} ({})", part("source"), part("description"), part("error")),
            "see `scontrol ping`: slurmctld does not answer; SLURM_CONF names another configuration",
        ));
    }
    let list = all["jobs"].as_array().ok_or_else(|| odd("no list of jobs".into()))?;
    let mut jobs = Vec::new();
    for raw in list {
        let id = number(&raw["job_id"]).ok_or_else(|| odd(format!("a job without job_id: {raw}")))?;
        let mut job = job(raw, id).ok_or_else(|| odd(format!("job {id} without state or number of nodes")))?;
        let array = number(&raw["array_job_id"]).filter(|&array| array != 0);
        // The number of the array's last task is that of the array, and Slurm changes no nodes of arrays.
        if let (Some(array), Some(task)) = (array, number(&raw["array_task_id"])) {
            job.id = format!("{array}_{task}");
        }
        // Tasks of an array that have not started are one entry.
        match raw["array_task_string"].as_str().filter(|tasks| !tasks.is_empty() && job.state == State::Held) {
            None => jobs.push(job),
            Some(tasks) => {
                let array = array.unwrap_or(id);
                let room = most_at_once(raw).map_or(TASKS, |most| most.saturating_sub(going(list, array)));
                let tasks = tasks.split('%').next().unwrap_or(tasks);
                let each = task_numbers(tasks).take(room.min(TASKS));
                jobs.extend(each.map(|task| Job { id: format!("{array}_{task}"), ..job.clone() }));
            }
        }
    }
    Ok(jobs)
}

/// Tasks that may run at once (`--array=1-9%2`).
fn most_at_once(raw: &Value) -> Option<usize> {
    number(&raw["array_max_tasks"]).filter(|&most| most > 0).map(|most| most as usize)
}

/// Tasks of an array that were released and are not over.
fn going(list: &[Value], array: u64) -> usize {
    let of = list.iter().filter(|raw| number(&raw["array_job_id"]) == Some(array));
    of.filter(|raw| matches!(state(raw), Some(State::Pending | State::Running))).count()
}

/// Numbers of `1-3,7,10-20:5`; what cannot be read (Slurm shortens long lists by `...`) ends them.
fn task_numbers(tasks: &str) -> impl Iterator<Item = u64> + '_ {
    let range = |part: &str| {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let step = step.parse::<usize>().ok().filter(|&step| step > 0)?;
        Some((first.parse::<u64>().ok()?..=last.parse().ok()?).step_by(step))
    };
    tasks.split(',').map_while(range).flatten()
}

fn job(raw: &Value, id: u64) -> Option<Job> {
    let text = |name: &str| raw[name].as_str().unwrap_or("").to_string();
    let demands = [
        ("features", "--constraint"),
        ("resv_name", "--reservation"),
        // Of held jobs Slurm 22.05 does not look after it.
        ("dependency", "--dependency"),
    ];
    let demand = demands.into_iter().find(|(name, _)| !text(name).is_empty()).map(|(_, option)| option);
    let several = number(&raw["het_job_id"]).is_some_and(|first| first != 0).then_some("hetjob");
    Some(Job {
        id: id.to_string(),
        state: state(raw)?,
        submit: number(&raw["submit_time"]).unwrap_or(0),
        count: number(&raw["node_count"])? as usize,
        limit: number(&raw["time_limit"]).map(|minutes| minutes.saturating_mul(60)),
        end: number(&raw["end_time"]).unwrap_or(0),
        eligible: number(&raw["eligible_time"]).unwrap_or(0),
        partitions: text("partition").split(',').map(String::from).collect(),
        hosts: text("nodes"),
        required: text("required_nodes"),
        excluded: text("excluded_nodes"),
        demand: demand.or(several),
        comment: text("comment"),
        admin_comment: text("admin_comment"),
    })
}

fn state(raw: &Value) -> Option<State> {
    let state = &raw["job_state"];
    let words: Vec<&str> = match state {
        Value::String(word) => vec![word],
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let has = |any: &[&str]| words.iter().any(|word| any.contains(word));
    let over = [
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
        "REVOKED",
    ];
    if has(&["COMPLETING"]) {
        // Processes of the job may still be there.
        return Some(State::Running);
    }
    let held = matches!(raw["state_reason"].as_str(), Some("JobHeldUser" | "JobHeldAdmin"));
    Some(match words.first()? {
        _ if has(&over) => State::Over,
        _ if has(&["PENDING", "REQUEUED", "REQUEUE_HOLD"]) && held => State::Held,
        _ if has(&["PENDING", "REQUEUED", "REQUEUE_HOLD"]) => State::Pending,
        _ => State::Running,
    })
}

/// A number, plain or as an object that tells whether it is one.
fn number(value: &Value) -> Option<u64> {
    let is = |name: &str| value[name].as_bool();
    match value {
        Value::Object(_) if is("infinite") == Some(true) || is("set") == Some(false) => None,
        Value::Object(_) => value["number"].as_u64(),
        _ => value.as_u64(),
    }
}

#[cfg(test)]
mod tests;
