//! Rows of the large table: links, nodes or jobs.

use super::choice::{Choice, View};
use super::sample::{Frame, Order};
use super::sheet::{BAR, Column, HEAT, bar, colour, level, rate, share};
use angara_control::report::table::{age, bytes, short};
use angara_net::Link;
use angara_protocol::msg::JobStatus;
use angara_protocol::print::plain_line;
use ratatui::style::{Color, Style};
use ratatui::text::Span;
use ratatui::widgets::Cell;
use std::cmp::Reverse;

pub(super) const LINKS: [Column; 10] = [
    Column("link", 4, 0),
    Column("to", 2, 0),
    Column("", BAR as u16, 4),
    Column("bytes/s", 10, 1),
    Column("packets/s", 9, 3),
    Column("flits/s", 7, 5),
    Column("bytes", 10, 6),
    Column("crc", 5, 7),
    Column("replays", 7, 8),
    Column("state", 5, 2),
];
const NODES: [Column; 8] = [
    Column("node", 4, 0),
    Column("jobs", 4, 0),
    Column("sent/s", 10, 1),
    Column("received/s", 10, 2),
    Column("sent", 10, 4),
    Column("received", 10, 5),
    Column("errors", 7, 3),
    Column("down", 12, 6),
];
const JOBS: [Column; 10] = [
    Column("job", 6, 0),
    Column("name", 4, 0),
    Column("user", 8, 3),
    Column("PEs", 11, 1),
    Column("came", 6, 6),
    Column("memory", 10, 2),
    Column("age", 8, 4),
    Column("path", 6, 7),
    Column("set", 8, 5),
    Column("set's bytes/s", 13, 8),
];

/// A row, and the name by which it can be selected.
pub(super) struct Listed {
    pub(super) key: String,
    pub(super) names: [String; 2],
    pub(super) more: Vec<Cell<'static>>,
    pub(super) style: Style,
}

/// The rows that are seen.
pub(super) struct List {
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Listed>,
    pub(super) title: String,
}

/// At most `most` rows of the view, from where the user has scrolled to.
pub(super) fn list(frame: &Frame, choice: &Choice, most: usize) -> List {
    match choice.view {
        View::Links => links(frame, choice, most),
        View::Nodes => nodes(frame, choice, most),
        View::Jobs => jobs(frame, choice, most),
    }
}

/// The links whose bytes are those of the row that is called this.
pub(super) fn links_of<'a>(frame: &'a Frame, view: View, key: &'a str) -> Box<dyn Fn(&Link) -> bool + 'a> {
    let shape = frame.status.shape;
    match view {
        View::Links => {
            let place = frame.links.iter().find(|link| link.name == key).map(|link| link.place);
            Box::new(move |link| Some(*link) == place)
        }
        View::Nodes => Box::new(move |link| shape.show(shape.coords(link.node)) == key),
        View::Jobs => {
            let job = frame.status.jobs.iter().find(|job| job.job.to_string() == key);
            let set = job.and_then(|job| job.set.as_ref());
            Box::new(move |link| {
                set.is_none_or(|set| set.nodes.contains(&link.node) || set.transit.contains(&link.node))
            })
        }
    }
}

/// The first row that is shown of so many, and the title.
fn first(choice: &Choice, count: usize, what: &str) -> (usize, String) {
    let first = choice.scrolled.min(count.saturating_sub(1));
    let order = if choice.view == View::Jobs { "number" } else { choice.order.name() };
    let title = match count {
        0 if choice.filter.is_empty() && choice.view == View::Jobs => "no jobs".into(),
        0 if choice.filter.is_empty() => "no link has carried anything".into(),
        0 => format!("no {what} is called {}", choice.filter),
        count => format!("{count} {what}s, by {order}, from {}", first + 1),
    };
    (first, title)
}

fn links(frame: &Frame, choice: &Choice, most: usize) -> List {
    let links = frame.links(choice.order, &choice.filter);
    let busiest = links.iter().map(|link| link.bytes).fold(0.0, f64::max);
    let (first, title) = first(choice, links.len(), "link");
    let mut rows = Vec::new();
    for link in links.iter().skip(first).take(most) {
        let share = share(link, busiest);
        let heat = Style::new().fg(Color::Indexed(HEAT[level(share)]));
        let more = vec![
            Cell::from(Span::from(bar(share, BAR)).style(heat)),
            Cell::from(bytes(link.bytes.round() as u64)),
            Cell::from(rate(link.packets)),
            Cell::from(rate(link.flits)),
            Cell::from(bytes(link.total)),
            Cell::from(short(link.crc_errors)),
            Cell::from(short(link.replays)),
            Cell::from(if link.up { "up" } else { "DOWN" }),
        ];
        let names = [link.name.clone(), link.to.clone()];
        rows.push(Listed { key: link.name.clone(), names, more, style: colour(link.up) });
    }
    List { columns: &LINKS, rows, title }
}

/// A node, with what its links carry.
#[derive(Clone, Default)]
struct NodeRow {
    node: u32,
    /// Bytes a second.
    sent: f64,
    /// Bytes a second.
    received: f64,
    /// Bytes since the daemon's start.
    sent_total: u64,
    /// Bytes since the daemon's start.
    received_total: u64,
    /// CRC errors and replays of its links.
    errors: u64,
    /// Directions of links that are down.
    down: Vec<String>,
}

fn nodes(frame: &Frame, choice: &Choice, most: usize) -> List {
    let shape = frame.status.shape;
    let mut all = vec![NodeRow::default(); shape.nodes()];
    all.iter_mut().zip(0..).for_each(|(row, node)| row.node = node);
    for link in &frame.links {
        if let Some(row) = all.get_mut(link.place.node as usize) {
            (row.sent, row.sent_total) = (row.sent + link.bytes, row.sent_total + link.total);
            row.errors += link.crc_errors + link.replays;
            row.down.extend((!link.up).then(|| link.place.dir.to_string()));
        }
        if let Some(row) = all.get_mut(link.to_node as usize) {
            (row.received, row.received_total) = (row.received + link.bytes, row.received_total + link.total);
        }
    }
    let name = |row: &NodeRow| shape.show(shape.coords(row.node));
    all.retain(|row| name(row).contains(&choice.filter));
    match choice.order {
        Order::Rate => all.sort_by(|a, b| (b.sent + b.received).total_cmp(&(a.sent + a.received))),
        Order::Total => all.sort_by_key(|row| Reverse(row.sent_total + row.received_total)),
        Order::Errors => all.sort_by_key(|row| Reverse(row.errors)),
        Order::Name => {}
    }
    let (first, title) = first(choice, all.len(), "node");
    let jobs = |node: u32| {
        let has = |job: &&JobStatus| job.set.as_ref().is_some_and(|set| set.nodes.contains(&node));
        let jobs: Vec<String> = frame.status.jobs.iter().filter(has).map(|job| job.job.to_string()).collect();
        if jobs.is_empty() { "-".into() } else { jobs.join(" ") }
    };
    let listed = |row: &NodeRow| {
        let more = [
            bytes(row.sent.round() as u64),
            bytes(row.received.round() as u64),
            bytes(row.sent_total),
            bytes(row.received_total),
            short(row.errors),
            row.down.join(" "),
        ];
        let (names, style) = ([name(row), jobs(row.node)], colour(row.down.is_empty()));
        Listed { key: name(row), names, more: more.map(Cell::from).into(), style }
    };
    List { columns: &NODES, rows: all.iter().skip(first).take(most).map(listed).collect(), title }
}

fn jobs(frame: &Frame, choice: &Choice, most: usize) -> List {
    let wanted = |job: &&JobStatus| job.name.contains(&choice.filter);
    let all: Vec<&JobStatus> = frame.status.jobs.iter().filter(wanted).collect();
    let (first, title) = first(choice, all.len(), "job");
    let listed = |job: &&JobStatus| {
        let key = job.job.to_string();
        let sent = job.set.as_ref().map_or("-".into(), |_| {
            let of = links_of(frame, View::Jobs, &key);
            let sum: f64 = frame.links.iter().filter(|link| of(&link.place)).map(|link| link.bytes).sum();
            bytes(sum.round() as u64)
        });
        let pes = format!("{}/{}", job.attached, job.pes);
        let path = format!("{:?}", job.path).to_lowercase();
        let (user, came) = (job.uid.to_string(), job.came.to_string());
        let more = [user, pes, came, bytes(job.memory), age(job.age_s), path, set(job), sent].map(Cell::from);
        let names = [key.clone(), plain_line(&job.name)];
        Listed { key, names, more: more.into(), style: Style::new() }
    };
    List { columns: &JOBS, rows: all.iter().skip(first).take(most).map(listed).collect(), title }
}

/// Nodes of a job's node set, and how many more only pass packets on: `6+1`.
pub(super) fn set(job: &JobStatus) -> String {
    let Some(set) = &job.set else { return "-".into() };
    match set.transit.len() {
        0 => set.nodes.len().to_string(),
        transit => format!("{}+{transit}", set.nodes.len()),
    }
}
