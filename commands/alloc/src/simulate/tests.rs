//! Command lines, good and bad.

use super::*;
use angara_cli::shared::interrupt::Interrupt;
use clap::Parser;

#[derive(Parser, Debug)]
struct Command {
    #[command(flatten)]
    args: SimulateArgs,
}

/// As if SIGINT had come.
fn interrupted() -> Interrupt {
    let interrupt = Interrupt::default();
    interrupt.came(2);
    interrupt
}

fn parse(line: &str) -> Result<SimulateArgs, clap::Error> {
    Command::try_parse_from(["simulate"].into_iter().chain(line.split_whitespace())).map(|line| line.args)
}

/// Runs what a command line says, without printing it.
fn rows(args: &SimulateArgs, threads: usize) -> Vec<Row> {
    let machine = args.machine.machine().unwrap();
    let (logs, _) = args.jobs(&machine).unwrap();
    let work = args.work(&machine, &logs);
    let Finished { rows, kept } = work.run(threads, &Interrupt::default()).unwrap().unwrap();
    if let Some(outcome) = kept {
        args.write(&machine, &logs[0], &outcome, work.span).unwrap();
    }
    rows
}

#[test]
fn command_lines_that_say_too_little_or_too_much_are_refused() {
    for (line, part) in [
        ("--torus 4x4", "--log <FILE>|--lublin <JOBS>"),
        ("--torus 4x4 --lublin 10 --log a", "cannot be used with"),
        ("--torus 4x4 --log a --load 0.5", "cannot be used with"),
        ("--torus 4x4 --log a --seeds 1..3", "cannot be used with"),
        ("--torus 4x4 --lublin 10 --seeds 3..1", "1..5"),
        ("--torus 4x4 --lublin 10 --load 0", "from 0.01 to 10"),
        ("--torus 4x4 --lublin 10 --cut 0.5", "from 0 to 0.45"),
        ("--torus 4x4 --lublin 10 --scheduler lottery", "conservative"),
        ("--torus 4x4 --lublin 10 --policy any", "best-fit-box"),
        ("--torus 4x4 --lublin 10 --svg-jobs 9", "--svg"),
        ("--torus 4x4 --lublin 10 --svg -", "name a file (./-"),
    ] {
        let refused = parse(line).unwrap_err().to_string();
        assert!(refused.contains(part), "{line}: {refused}");
    }
    let several = parse("--torus 4x4 --lublin 10 --scheduler fcfs,easy --svg a.svg").unwrap();
    let refused = main(&several).unwrap_err();
    assert!(refused.message.contains("--svg shows one run, and these are 2") && refused.code == 2, "{refused:?}");
    let none = parse("--torus 4 --log /nowhere/log.swf").unwrap();
    assert!(main(&none).unwrap_err().message.contains("/nowhere/log.swf"));
}

#[test]
fn every_combination_has_a_row_and_threads_change_nothing() {
    let line = "--torus 4x4x4 --lublin 300 --load 0.8 --scheduler fcfs,easy,conservative \
                --policy first-fit-box,best-fit-box,unconstrained --seeds 3..5";
    let args = parse(line).unwrap();
    let shown = |threads| serde_json::to_string(&rows(&args, threads)).unwrap();
    assert_eq!(shown(1), shown(3));
    let rows = rows(&args, 2);
    assert_eq!(rows.len(), 9);
    for row in &rows {
        let figure = |figure| row.figures[&figure];
        let (load, used, held) = (figure(Figure::OfferedLoad), figure(Figure::Utilisation), figure(Figure::Held));
        assert!((load.mean - 0.8).abs() < 1e-3 && load.half_width.unwrap() < 1e-2, "{row:?}");
        assert!(0.2 < used.mean && used.mean <= held.mean && held.mean <= 1.0, "{row:?}");
        assert!(used.half_width.unwrap() > 0.0, "seeds differ: {row:?}");
        assert_eq!(row.policy == "unconstrained", figure(Figure::BlockedJobs).mean == 0.0, "{row:?}");
        let late = row.figures.get(&Figure::Late).map(|late| late.mean);
        match row.scheduler {
            "fcfs" => assert_eq!(late, None, "nothing is promised: {row:?}"),
            _ => assert_eq!(late, Some(0.0), "{row:?}"),
        }
    }
    let wait = |scheduler, policy| {
        let row = rows.iter().find(|row| (row.scheduler, row.policy) == (scheduler, policy)).unwrap();
        row.figures[&Figure::WaitS].mean
    };
    assert!(wait("fcfs", "unconstrained") > wait("easy", "unconstrained"), "seeds 3 to 5");
    assert!(wait("fcfs", "first-fit-box") > wait("fcfs", "unconstrained"), "seeds 3 to 5");
    let text = table(&rows);
    let promises = text.split("Starts later than").nth(1).unwrap();
    assert!(promises.contains("conservative") && !promises.contains("fcfs"), "{text}");
    assert!(text.contains("±") && text.contains("9-64") && !text.contains("-0"), "{text}");
}

#[test]
fn a_signal_ends_all_runs() {
    let args = parse("--torus 4x4 --lublin 2000").unwrap();
    let machine = args.machine.machine().unwrap();
    let (logs, _) = args.jobs(&machine).unwrap();
    assert!(args.work(&machine, &logs).run(2, &interrupted()).unwrap().is_none());
    assert_eq!(interrupted().status(), Some(130));
}

#[test]
fn the_written_log_is_read_again_and_waits_are_those_of_the_run() {
    let folder = std::env::temp_dir().join(format!("simulate-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [first, second, svg] = ["a.swf.gz", "b.swf", "c.svg"].map(|name| folder.join(name));
    let machine = "--torus 4x4x2 --scheduler fcfs --policy first-fit-box";
    let line = format!("{machine} --lublin 200 --load 0.9 --write-swf {} --svg {}", first.display(), svg.display());
    let made = rows(&parse(&line).unwrap(), 1);
    let line = format!("{machine} --log {} --write-swf {}", first.display(), second.display());
    let read = rows(&parse(&line).unwrap(), 1);
    assert_eq!(made[0].figures[&Figure::WaitS], read[0].figures[&Figure::WaitS], "seed 1");
    let records = |path: &Path| {
        let mut reader = swf::Reader::open(path).unwrap();
        let mut records = vec![];
        while let Some(line) = reader.line().unwrap() {
            if let super::Line::Record(record) = line {
                records.push(record);
            }
        }
        records
    };
    assert_eq!(records(&first), records(&second));
    assert_eq!(records(&first).len(), 200);
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(drawn.contains("200 Lublin jobs, seed 1, load 0.9: fcfs, first-fit-box"), "{drawn}");
    std::fs::remove_dir_all(&folder).unwrap();
}
