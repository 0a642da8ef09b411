//! What `angara top` draws, and what it prints once.

use super::choice::{Choice, View};
use super::history::{self, History};
use super::rows;
use super::sample::{Frame, Order, TrunkRow};
use super::sheet::{Column, Sheet, colour, rate};
use angara_control::report::table::{Table, age, bytes, short};
use angara_net::Link;
use angara_protocol::print::plain_line;
use ratatui::Frame as Screen;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph};

/// Columns of jobs, of trunks and of links; names are as wide as the longest.
const JOBS: [Column; 7] = [
    Column("job", 6, 0),
    Column("name", 4, 0),
    Column("user", 8, 3),
    Column("PEs", 11, 1),
    Column("memory", 10, 2),
    Column("age", 8, 4),
    Column("set", 8, 5),
];
const TRUNKS: [Column; 8] = [
    Column("host", 4, 0),
    Column("state", 22, 0),
    Column("RTT us", 8, 3),
    Column("loss %", 6, 4),
    Column("sent/s", 10, 1),
    Column("received/s", 10, 2),
    Column("replays", 7, 5),
    Column("backlog", 10, 6),
];
/// What keys do.
const KEYS: [(&str, &str); 11] = [
    ("1 2 3, Tab", "links, nodes, jobs"),
    ("s", "next order: rate, total, errors, name"),
    ("/", "filter by a part of the name"),
    ("space, p", "pause and resume"),
    ("arrows, PgUp, PgDn, Home", "scroll"),
    ("mouse wheel", "scroll"),
    ("click", "select a row: its last minute"),
    ("shift and mouse", "select text, as without angara top"),
    ("?", "these keys"),
    ("Esc", "select nothing, then end"),
    ("q, Ctrl-C", "end"),
];

/// Draws `frame`; `trouble` is why there is none newer.
pub(super) fn draw(screen: &mut Screen, frame: &Frame, choice: &Choice, history: &History, trouble: Option<&str>) {
    let [head, top, middle, rest, foot] = areas(screen.area(), frame, choice);
    screen.render_widget(Paragraph::new(header(frame)), head);
    if choice.view == View::Links {
        draw_jobs(screen, top, frame);
        if !frame.trunks.is_empty() {
            draw_trunks(screen, middle, frame);
        }
    }
    draw_rows(screen, rest, frame, choice, history);
    screen.render_widget(Paragraph::new(footer(choice, trouble)), foot);
    if choice.help {
        draw_keys(screen);
    }
}

/// Places of header, jobs, trunks, the large table and the footer.
fn areas(all: Rect, frame: &Frame, choice: &Choice) -> [Rect; 5] {
    let alone = choice.view != View::Links;
    let jobs = if alone { 0 } else { (frame.status.jobs.len().clamp(1, 6) + 3) as u16 };
    let trunks = if alone || frame.trunks.is_empty() { 0 } else { (frame.trunks.len().min(6) + 3) as u16 };
    let parts = [
        Constraint::Length(2),
        Constraint::Length(jobs),
        Constraint::Length(trunks),
        Constraint::Min(3),
        Constraint::Length(1),
    ];
    Layout::vertical(parts).areas(all)
}

/// The row of the large table at this place of a screen, by name.
pub(super) fn row_at(screen: Rect, frame: &Frame, choice: &Choice, (x, y): (u16, u16)) -> Option<String> {
    let [.., rest, _] = areas(screen, frame, choice);
    // Below the border and the titles, above the border.
    let row = y.checked_sub(rest.y + 2).filter(|_| y + 1 < rest.bottom() && x < rest.right())?;
    rows::list(frame, choice, usize::from(rest.height)).rows.into_iter().nth(usize::from(row)).map(|row| row.key)
}

fn draw_rows(screen: &mut Screen, area: Rect, frame: &Frame, choice: &Choice, history: &History) {
    let list = rows::list(frame, choice, usize::from(area.height));
    let mut sheet = Sheet::new(list.columns);
    for row in list.rows {
        let selected = choice.selected.as_ref() == Some(&row.key);
        sheet.row(row.names, row.more, if selected { row.style.add_modifier(Modifier::REVERSED) } else { row.style });
    }
    let wanted: Box<dyn Fn(&Link) -> bool> = match &choice.selected {
        Some(key) => rows::links_of(frame, choice.view, key),
        None => Box::new(|_| true),
    };
    let seen = history.of(wanted);
    let most = seen.iter().copied().fold(0.0, f64::max).round() as u64;
    let whose = choice.selected.as_deref().map_or("all links".into(), plain_line);
    let below = format!(" last minute, {whose}: {} at most {}/s ", history::drawn(&seen), bytes(most));
    sheet.draw(screen, area, list.title, (!seen.is_empty()).then_some(below));
}

/// The keys, over what else is shown.
fn draw_keys(screen: &mut Screen) {
    let width = 2 + KEYS.iter().map(|(key, what)| 27 + what.len().max(key.len())).max().unwrap_or(0) as u16;
    let all = screen.area();
    let (width, height) = (width.min(all.width), (KEYS.len() as u16 + 2).min(all.height));
    let area = Rect { x: (all.width - width) / 2, y: (all.height - height) / 2, width, height };
    let lines = KEYS.map(|(key, what)| Line::from(vec![Span::from(format!(" {key:25}")).bold(), what.into()]));
    screen.render_widget(Clear, area);
    let block = Block::bordered().title("keys; any of them closes this");
    screen.render_widget(Paragraph::new(lines.to_vec()).block(block), area);
}

fn header(frame: &Frame) -> Vec<Line<'static>> {
    let status = &frame.status;
    let host = frame.host.as_ref().map_or(String::new(), |host| format!(" on host {}", plain_line(host)));
    let network = match status.shape.to_string() {
        mesh if mesh.starts_with("mesh:") => mesh.replacen(':', " ", 1),
        torus => format!("torus {torus}"),
    };
    let first = format!(
        "angara, {network}{host}: {} nodes, {} here; up {}; data plane {:.0} % of a core; pid {}",
        status.shape.nodes(),
        status.nodes_here,
        age(status.uptime_s),
        100.0 * frame.data_plane,
        status.pid
    );
    let faults: Vec<String> = status.faults.iter().map(|fault| plain_line(fault)).collect();
    let second = if faults.is_empty() { "no faults".into() } else { format!("faults: {}", faults.join("; ")) };
    let style = if faults.is_empty() { Style::new() } else { Style::new().fg(Color::Yellow) };
    vec![Line::from(first).style(Modifier::BOLD), Line::from(second).style(style)]
}

fn footer(choice: &Choice, trouble: Option<&str>) -> Line<'static> {
    if let Some(trouble) = trouble {
        return Line::from(plain_line(trouble)).style(Style::new().fg(Color::Red));
    }
    if choice.typing {
        return Line::from(format!("filter: {}▏ (Enter keeps it, Esc drops it)", choice.filter));
    }
    let paused = if choice.paused { "PAUSED  " } else { "" };
    let key = |key: &'static str| Span::from(key).style(Modifier::BOLD);
    Line::from(vec![
        paused.into(),
        key("q"),
        " quit  ".into(),
        key("Tab"),
        format!(" view: {}  ", choice.view.name()).into(),
        key("s"),
        format!(" sort: {}  ", choice.order.name()).into(),
        key("/"),
        format!(" filter: {}  ", if choice.filter.is_empty() { "none" } else { &choice.filter }).into(),
        key("space"),
        " pause  ".into(),
        key("↑↓"),
        " scroll  ".into(),
        key("?"),
        " keys".into(),
    ])
}

fn draw_jobs(screen: &mut Screen, area: Rect, frame: &Frame) {
    let mut sheet = Sheet::new(&JOBS);
    for job in &frame.status.jobs {
        let pes = format!("{}/{}", job.attached, job.pes);
        let more = [job.uid.to_string(), pes, bytes(job.memory), age(job.age_s), rows::set(job)].map(Cell::from);
        sheet.row([job.job.to_string(), plain_line(&job.name)], more.into(), Style::new());
    }
    sheet.draw(screen, area, format!("{} jobs", frame.status.jobs.len()), None);
}

fn draw_trunks(screen: &mut Screen, area: Rect, frame: &Frame) {
    let mut sheet = Sheet::new(&TRUNKS);
    for trunk in &frame.trunks {
        let [host, state, more @ ..] = cells(trunk);
        sheet.row([host, state], more.map(Cell::from).into(), colour(trunk.peer.up));
    }
    sheet.draw(screen, area, format!("{} trunks", frame.trunks.len()), None);
}

/// The same as text, with N links.
pub(super) fn text(frame: &Frame, order: Order, filter: &str, most: usize) -> String {
    let mut out: String = header(frame).iter().map(|line| format!("{line}\n")).collect();
    let mut jobs = Table::new(&[">job", "name", ">user", ">PEs", ">attached", ">memory", ">age", ">set"]).keys(2);
    for job in &frame.status.jobs {
        let (attached, memory, age) = (job.attached.to_string(), bytes(job.memory), age(job.age_s));
        let (id, user, pes) = (job.job.to_string(), job.uid.to_string(), job.pes.to_string());
        jobs.row(&[id, job.name.clone(), user, pes, attached, memory, age, rows::set(job)]);
    }
    out.push_str(&if frame.status.jobs.is_empty() { "no jobs\n".into() } else { jobs.render() });
    if !frame.trunks.is_empty() {
        let titles = ["host", "state", ">RTT us", ">loss %", ">sent/s", ">received/s", ">replays", ">backlog"];
        let mut trunks = Table::new(&titles);
        frame.trunks.iter().for_each(|trunk| trunks.row(&cells(trunk)));
        out.push_str(&trunks.render());
    }
    let links = frame.links(order, filter);
    if links.is_empty() {
        out.push_str("no link to show\n");
        return out;
    }
    let titles = ["link", "to", ">bytes/s", ">packets/s", ">flits/s", ">bytes", ">crc", ">replays", "state"];
    let mut table = Table::new(&titles).keys(2);
    for link in links.iter().take(most) {
        table.row(&[
            link.name.clone(),
            link.to.clone(),
            bytes(link.bytes.round() as u64),
            rate(link.packets),
            rate(link.flits),
            bytes(link.total),
            link.crc_errors.to_string(),
            link.replays.to_string(),
            if link.up { "up".into() } else { "down".into() },
        ]);
    }
    out.push_str(&table.render());
    if links.len() > most {
        out.push_str(&format!("  and {} more links; --links {} shows them\n", links.len() - most, links.len()));
    }
    out
}

/// A trunk as cells.
fn cells(trunk: &TrunkRow) -> [String; 8] {
    let peer = &trunk.peer;
    [
        plain_line(&peer.host),
        if peer.up { "up".into() } else { format!("down {}", plain_line(&peer.why)) },
        format!("{:.0}", peer.rtt_us),
        format!("{:.2}", 100.0 * peer.loss),
        bytes(trunk.sent.round() as u64),
        bytes(trunk.received.round() as u64),
        short(peer.replays),
        bytes(peer.backlog),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::sample;
    use super::super::sheet::BAR;
    use super::*;
    use angara_net::NodeSet;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::time::Instant;

    fn frame() -> Frame {
        let start = Instant::now();
        let links = [(0, "+X", 1 << 20), (1, "-X", 1 << 18), (2, "+Y", 0)];
        Frame::between(&sample(start, 0, &[]), &sample(start, 1, &links))
    }

    fn drawn(choice: &Choice, size: (u16, u16), trouble: Option<&str>) -> String {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("no terminal is needed");
        let frame = frame();
        let mut history = History::default();
        history.push(&frame);
        terminal.draw(|screen| draw(screen, &frame, choice, &history, trouble)).expect("drawn");
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..size.0).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..size.1).map(|y| line(y) + "\n").collect()
    }

    fn choice() -> Choice {
        Choice::new(Order::Rate, String::new())
    }

    #[test]
    fn the_busiest_link_comes_first_with_the_longest_bar() {
        let text = drawn(&choice(), (110, 24), None);
        for part in ["heat2d", "faults: link 0,0 +Y down", "sort: rate", "4/4", "3 links"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let row = |name: &str| text.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{text}"));
        assert!(text.find("0,0+X") < text.find("1,0-X"));
        assert_eq!(row("0,0+X").matches('█').count(), BAR);
        assert_eq!(row("1,0-X").matches('█').count(), BAR / 4);
        assert!(row("0,1+Y").contains("DOWN"));
    }

    #[test]
    fn names_are_whole_in_a_narrow_terminal() {
        for width in [60, 50, 40] {
            let text = drawn(&choice(), (width, 24), None);
            for name in ["heat2d", "0,0+X", "1,0-X", "0,1+Y", "bytes/s"] {
                assert!(text.contains(name), "{name} at {width}: {text}");
            }
            // What does not fit is left out as a whole.
            let heads = text.lines().find(|line| line.contains("bytes/s")).expect("a head");
            for head in heads.trim_matches(['│', ' ', '\n']).split_whitespace() {
                assert!(rows::LINKS.iter().any(|column| column.0 == head), "{head} at {width}: {text}");
            }
        }
        let job = |width| drawn(&choice(), (width, 24), None).lines().find(|l| l.contains("heat2d")).map(String::from);
        assert!(
            job(60).is_some_and(|line| line.contains("4/4") && line.contains(&bytes(frame().status.jobs[0].memory)))
        );
    }

    #[test]
    fn bytes_have_one_family_of_units() {
        let wide = drawn(&choice(), (120, 24), None);
        let once = text(&frame(), Order::Rate, "", 9);
        for text in [wide, once] {
            let row = text.lines().find(|line| line.contains("0,0+X")).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(row.matches("MiB").count(), 2, "{text}");
            assert!(!row.contains("1.0MB"), "{text}");
        }
    }

    #[test]
    fn small_terminals_and_trouble_are_drawn() {
        for size in [(1, 1), (20, 5), (80, 24)] {
            drawn(&choice(), size, None);
        }
        assert!(drawn(&choice(), (80, 24), Some("the daemon is gone")).contains("the daemon is gone"));
        let typing = Choice { filter: "1,0".into(), typing: true, ..choice() };
        let text = drawn(&typing, (80, 24), None);
        assert!(text.contains("filter: 1,0") && text.contains("1,0-X") && !text.contains("0,1+Y"), "{text}");
    }

    #[test]
    fn jobs_have_the_size_of_their_set() {
        let mut frame = frame();
        let last = |frame: &Frame| {
            let text = text(frame, Order::Rate, "", 9);
            let row = text.lines().find(|line| line.contains("heat2d")).expect("the job");
            row.split_whitespace().last().expect("a cell").to_string()
        };
        assert_eq!(last(&frame), "-");
        frame.status.jobs[0].set = Some(NodeSet { nodes: vec![0, 2, 3], transit: vec![1] });
        assert_eq!(last(&frame), "3+1");
    }

    #[test]
    fn nodes_and_jobs_have_views_of_their_own() {
        let mut choice = choice();
        choice.look_at(View::Nodes);
        let text = drawn(&choice, (110, 24), None);
        let row =
            |name: &str| text.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(text.contains("4 nodes, by rate") && !text.contains("heat2d"), "{text}");
        assert!(row("│0,0").contains("1 MiB") && row("│0,1").contains("+Y"), "{text}");
        choice.look_at(View::Jobs);
        let text = drawn(&choice, (110, 24), None);
        assert!(text.contains("1 jobs, by number") && text.contains("came") && text.contains("heat2d"), "{text}");
        assert!(!text.contains("0,0+X"), "{text}");
    }

    #[test]
    fn keys_are_shown_over_the_rest() {
        let text = drawn(&Choice { help: true, ..choice() }, (110, 24), None);
        assert!(text.contains("links, nodes, jobs") && text.contains("keys; any of them closes this"), "{text}");
        drawn(&Choice { help: true, ..choice() }, (10, 4), None);
    }

    #[test]
    fn a_click_selects_the_row_under_it_and_its_last_minute_is_shown() {
        let (mut choice, size) = (choice(), Rect::new(0, 0, 110, 24));
        let before = drawn(&choice, (110, 24), None);
        assert!(before.contains("last minute, all links: █ at most 1.2 MiB/s"), "{before}");
        let line = before.lines().position(|line| line.contains("1,0-X")).expect("its row") as u16;
        choice.selected = row_at(size, &frame(), &choice, (5, line));
        assert_eq!(choice.selected.as_deref(), Some("1,0-X"));
        let after = drawn(&choice, (110, 24), None);
        assert!(after.contains("last minute, 1,0-X: █ at most 256 KiB/s"), "{after}");
        for outside in [(5, 0), (5, 23), (5, 22), (5, line + 9)] {
            assert_eq!(row_at(size, &frame(), &choice, outside), None, "{outside:?}");
        }
    }

    #[test]
    fn once_says_what_was_left_out() {
        let shown = text(&frame(), Order::Total, "", 1);
        assert!(shown.contains("0,0+X") && shown.contains("and 2 more links"), "{shown}");
    }
}
