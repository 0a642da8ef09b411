//! Output of Slurm 22.05.8 as recorded, with the members that are read.

use super::*;

const RECORDED: &str = include_str!("squeue-22.05.json");

fn recorded(id: &str) -> Job {
    let jobs = jobs(RECORDED).expect("it is read");
    let ids: Vec<String> = jobs.iter().map(|job| job.id.clone()).collect();
    jobs.into_iter().find(|job| job.id == id).unwrap_or_else(|| panic!("no job {id} in {ids:?}"))
}

#[test]
fn held_and_running_jobs_are_told_apart() {
    let running = recorded("11");
    assert_eq!((running.state, running.count, running.limit), (State::Running, 4, Some(300)));
    assert_eq!((&*running.hosts, running.end), ("n[0,2,4,6]", 1_795_732_291));
    assert_eq!(running.admin_comment, "angara set nodes=0,2,4,6");
    let held = recorded("13");
    assert_eq!((held.state, held.count, held.limit), (State::Held, 9, None));
    assert_eq!((&*held.comment, held.partitions.as_slice(), held.demand), ("angara", &["p".to_string()][..], None));
    assert_eq!(recorded("14").comment, "");
    assert_eq!(recorded("16").demand, Some("--dependency"));
}

#[test]
fn a_name_that_looks_like_a_state_is_only_a_name() {
    let job = recorded("18");
    assert_eq!((job.state, &*job.excluded, job.eligible), (State::Held, "n0", 1_795_735_615));
}

#[test]
fn tasks_of_an_array_wait_for_its_limit() {
    assert_eq!(recorded("15_1").state, State::Running, "job 17 is this task");
    let tasks = |text: &str| {
        let jobs = jobs(text).expect("it is read");
        jobs.into_iter().map(|job| job.id).filter(|id| id.starts_with("15_") && id != "15_1").collect::<Vec<_>>()
    };
    assert_eq!(tasks(RECORDED), [""; 0], "one at once (%1), and task 1 runs as job 17");
    let two = RECORDED.replace("\"array_max_tasks\": 1", "\"array_max_tasks\": 2");
    assert_eq!(tasks(&two), ["15_2"]);
    let all = RECORDED.replace("\"array_max_tasks\": 1", "\"array_max_tasks\": 0");
    assert_eq!(tasks(&all), ["15_2", "15_3"]);
    assert_eq!(task_numbers("1-3,7,10-20:5,...").collect::<Vec<_>>(), [1, 2, 3, 7, 10, 15, 20]);
    assert_eq!(task_numbers("1-3:0").count(), 0);
}

#[test]
fn numbers_and_states_of_later_versions_are_read() {
    let raw = |state: &str, limit: &str| {
        let number = |n: u64| format!(r#"{{"set": true, "infinite": false, "number": {n}}}"#);
        format!(
            r#"{{"errors": [], "jobs": [{{"job_id": 5, "job_state": {state}, "state_reason": "JobHeldAdmin",
                "node_count": {}, "submit_time": {}, "time_limit": {limit}}}]}}"#,
            number(2),
            number(100)
        )
    };
    let infinite = r#"{"set": true, "infinite": true, "number": 0}"#;
    let job = |state: &str, limit: &str| jobs(&raw(state, limit)).expect("it is read").remove(0);
    let held = job(r#"["PENDING"]"#, infinite);
    assert_eq!((held.state, held.count, held.submit, held.limit), (State::Held, 2, 100, None));
    assert_eq!(job(r#"["RUNNING"]"#, r#"{"set": true, "infinite": false, "number": 3}"#).limit, Some(180));
    for (state, meaning) in [
        (r#"["COMPLETED", "COMPLETING"]"#, State::Running),
        (r#"["CANCELLED"]"#, State::Over),
        (r#""COMPLETING""#, State::Running),
        (r#""SUSPENDED""#, State::Running),
        (r#""NODE_FAIL""#, State::Over),
    ] {
        assert_eq!(job(state, infinite).state, meaning, "{state}");
    }
}

#[test]
fn what_is_no_list_of_jobs_is_named() {
    // Slurm 22.05.8 without a controller; the exit status of squeue is 0.
    let silent = r#"{"errors": [{"description": "Failed while looking for jobs", "error_number": -1,
        "error": "Unspecified error", "source": "slurm_load_jobs"}], "jobs": []}"#;
    let error = jobs(silent).expect_err("nobody answered");
    assert!(error.message.contains("slurm_load_jobs: Failed while looking for jobs"), "{error:?}");
    for (text, part) in [
        ("squeue: unrecognized option", "no JSON"),
        ("{}", "no list of jobs"),
        (r#"{"jobs": [{}]}"#, "without job_id"),
        (r#"{"jobs": [{"job_id": 3, "job_state": "RUNNING"}]}"#, "job 3 without"),
    ] {
        let error = jobs(text).expect_err(text);
        assert!(error.message.contains(part) && !error.remedy.is_empty(), "{text}: {error:?}");
    }
}
