//! What `angara top` draws, and what it prints once.

use super::sample::{Frame, LinkRow, Order, TrunkRow};
use crate::daemon::status::age;
use crate::report::table::{Table, bytes, short};
use angara_abi::print::plain_line;
use ratatui::Frame as Screen;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table as Grid};

/// Colours from nothing to the busiest link: steps of light, so that they are told apart without colour vision, too.
const HEAT: [u8; 6] = [238, 24, 31, 142, 214, 231];
/// Blocks of the same steps.
const BLOCKS: [&str; 6] = ["", "▏", "▎", "▌", "▊", "█"];
/// Widths of the columns of links, but for the bar.
const COLUMNS: [u16; 9] = [12, 8, 8, 10, 8, 10, 5, 8, 5];
/// Widest bar, in characters.
const BAR: usize = 16;

/// What the user has chosen.
pub(super) struct Choice {
    pub(super) order: Order,
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) typing: bool,
    pub(super) paused: bool,
    /// Links above the first one that is shown.
    pub(super) scrolled: usize,
}

/// How busy a link is beside the busiest, 0 to 1.
fn share(link: &LinkRow, busiest: f64) -> f64 {
    if busiest > 0.0 { link.bytes / busiest } else { 0.0 }
}

fn level(share: f64) -> usize {
    if share <= 0.0 { 0 } else { 1 + (share * 4.0).round() as usize }
}

fn rate(per_second: f64) -> String {
    short(per_second.round() as u64)
}

/// A bar that is as long as the share of so many characters.
fn bar(share: f64, width: usize) -> String {
    let fifths = (share * width as f64 * 5.0).round() as usize;
    format!("{}{}", BLOCKS[5].repeat(fifths / 5), BLOCKS[fifths % 5])
}

/// Draws `frame`; `trouble` is why there is none newer.
pub(super) fn draw(screen: &mut Screen, frame: &Frame, choice: &Choice, trouble: Option<&str>) {
    let jobs = (frame.status.jobs.len().clamp(1, 6) + 3) as u16;
    let trunks = if frame.trunks.is_empty() { 0 } else { (frame.trunks.len().min(6) + 3) as u16 };
    let parts = [
        Constraint::Length(2),
        Constraint::Length(jobs),
        Constraint::Length(trunks),
        Constraint::Min(3),
        Constraint::Length(1),
    ];
    let [head, top, middle, rest, foot] = Layout::vertical(parts).areas(screen.area());
    screen.render_widget(Paragraph::new(header(frame)), head);
    draw_jobs(screen, top, frame);
    if trunks > 0 {
        draw_trunks(screen, middle, frame);
    }
    draw_links(screen, rest, frame, choice);
    screen.render_widget(Paragraph::new(footer(choice, trouble)), foot);
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
        key("s"),
        format!(" sort: {}  ", choice.order.name()).into(),
        key("/"),
        format!(" filter: {}  ", if choice.filter.is_empty() { "none" } else { &choice.filter }).into(),
        key("space"),
        " pause  ".into(),
        key("↑↓"),
        " scroll".into(),
    ])
}

fn titled(title: String) -> Block<'static> {
    Block::bordered().title(title)
}

fn heads(titles: &[&'static str]) -> Row<'static> {
    Row::new(titles.to_vec()).style(Modifier::DIM)
}

fn draw_jobs(screen: &mut Screen, area: Rect, frame: &Frame) {
    let rows = frame.status.jobs.iter().map(|job| {
        Row::new([
            job.job.to_string(),
            plain_line(&job.name),
            job.uid.to_string(),
            format!("{}/{}", job.attached, job.pes),
            bytes(job.memory),
            age(job.age_s),
        ])
    });
    let widths = [6, 24, 8, 11, 11, 9].map(Constraint::Length);
    let title = format!("{} jobs", frame.status.jobs.len());
    let grid = Grid::new(rows, widths).header(heads(&["job", "name", "user", "PEs", "memory", "age"]));
    screen.render_widget(grid.block(titled(title)), area);
}

fn draw_trunks(screen: &mut Screen, area: Rect, frame: &Frame) {
    let rows = frame.trunks.iter().map(|trunk| {
        let row = Row::new(cells(trunk));
        if trunk.peer.up { row } else { row.style(Style::new().fg(Color::Red)) }
    });
    let widths = [16, 22, 8, 8, 9, 11, 8, 9].map(Constraint::Length);
    let titles = ["host", "state", "RTT us", "loss %", "sent B/s", "recv B/s", "replays", "backlog"];
    let grid = Grid::new(rows, widths).header(heads(&titles));
    screen.render_widget(grid.block(titled(format!("{} trunks", frame.trunks.len()))), area);
}

fn draw_links(screen: &mut Screen, area: Rect, frame: &Frame, choice: &Choice) {
    let links = frame.links(choice.order, &choice.filter);
    let busiest = links.iter().map(|link| link.bytes).fold(0.0, f64::max);
    // What the other columns leave.
    let width = usize::from(area.width).saturating_sub(COLUMNS.iter().map(|c| usize::from(*c) + 1).sum::<usize>() + 2);
    let width = width.min(BAR);
    let first = choice.scrolled.min(links.len().saturating_sub(1));
    let rows = links.iter().skip(first).take(usize::from(area.height)).map(|link| {
        let share = share(link, busiest);
        let heat = Style::new().fg(Color::Indexed(HEAT[level(share)]));
        let row = Row::new([
            Cell::from(link.name.clone()),
            Cell::from(link.to.clone()),
            Cell::from(Span::from(bar(share, width)).style(heat)),
            Cell::from(format!("{}B", rate(link.bytes))),
            Cell::from(rate(link.packets)),
            Cell::from(rate(link.flits)),
            Cell::from(bytes(link.total)),
            Cell::from(short(link.crc_errors)),
            Cell::from(short(link.replays)),
            Cell::from(if link.up { "up" } else { "DOWN" }),
        ]);
        if link.up { row } else { row.style(Style::new().fg(Color::Red)) }
    });
    let [name, to, rest @ ..] = COLUMNS;
    let widths = [name, to, width as u16].into_iter().chain(rest).map(Constraint::Length);
    let titles = ["link", "to", "", "bytes/s", "packets/s", "flits/s", "bytes", "crc", "replays", "state"];
    let title = match links.len() {
        0 if choice.filter.is_empty() => "no link has carried anything".into(),
        0 => format!("no link is called {}", choice.filter),
        count => format!("{count} links, by {}, from {}", choice.order.name(), first + 1),
    };
    screen.render_widget(Grid::new(rows, widths).header(heads(&titles)).block(titled(title)), area);
}

/// The same as text, with so many links.
pub(super) fn text(frame: &Frame, order: Order, filter: &str, most: usize) -> String {
    let mut out: String = header(frame).iter().map(|line| format!("{line}\n")).collect();
    let mut jobs = Table::new(&[">job", "name", ">user", ">PEs", ">attached", ">memory", ">age"]);
    for job in &frame.status.jobs {
        let (attached, memory, age) = (job.attached.to_string(), bytes(job.memory), age(job.age_s));
        let (id, user, pes) = (job.job.to_string(), job.uid.to_string(), job.pes.to_string());
        jobs.row(&[id, job.name.clone(), user, pes, attached, memory, age]);
    }
    out.push_str(&if frame.status.jobs.is_empty() { "no jobs\n".into() } else { jobs.render() });
    if !frame.trunks.is_empty() {
        let titles = ["host", "state", ">RTT us", ">loss %", ">sent B/s", ">received B/s", ">replays", ">backlog"];
        let mut trunks = Table::new(&titles);
        frame.trunks.iter().for_each(|trunk| trunks.row(&cells(trunk)));
        out.push_str(&trunks.render());
    }
    let links = frame.links(order, filter);
    if links.is_empty() {
        out.push_str("no link to show\n");
        return out;
    }
    let titles = ["link", "to", ">B/s", ">packets/s", ">flits/s", ">bytes", ">crc", ">replays", "state"];
    let mut table = Table::new(&titles).keys(2);
    for link in links.iter().take(most) {
        table.row(&[
            link.name.clone(),
            link.to.clone(),
            rate(link.bytes),
            rate(link.packets),
            rate(link.flits),
            link.total.to_string(),
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
        rate(trunk.sent),
        rate(trunk.received),
        short(peer.replays),
        bytes(peer.backlog),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::sample;
    use super::*;
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
        terminal.draw(|screen| draw(screen, &frame, choice, trouble)).expect("drawn");
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..size.0).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..size.1).map(|y| line(y) + "\n").collect()
    }

    fn choice() -> Choice {
        Choice { order: Order::Rate, filter: String::new(), typing: false, paused: false, scrolled: 0 }
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
    fn once_says_what_was_left_out() {
        let shown = text(&frame(), Order::Total, "", 1);
        assert!(shown.contains("0,0+X") && shown.contains("and 2 more links"), "{shown}");
    }
}
