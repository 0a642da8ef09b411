//! What `angara top` draws, and what it prints once.

use super::sample::{Frame, LinkRow, Order, TrunkRow};
use angara_control::report::table::{Table, age, bytes, short};
use angara_protocol::msg::JobStatus;
use angara_protocol::print::plain_line;
use ratatui::Frame as Screen;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table as Grid};

/// Colours from nothing to the busiest link: steps of light, so that they are told apart without colour vision, too.
const HEAT: [u8; 6] = [238, 24, 31, 142, 214, 231];
/// Blocks of the same steps.
const BLOCKS: [&str; 6] = ["", "▏", "▎", "▌", "▊", "█"];
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
const LINKS: [Column; 10] = [
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
/// Longest bar, in characters.
const BAR: usize = 16;
/// Most characters of a name.
const NAME_MAX: u16 = 24;

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

/// Title of a column, its width at least, and its rank: of those that do not fit, the higher ones are left out.
#[derive(Clone, Copy)]
struct Column(&'static str, u16, u8);

/// A bordered table with those columns that fit; those of rank 0 are as wide as what is in them.
struct Sheet {
    columns: Vec<Column>,
    rows: Vec<(Vec<Cell<'static>>, Style)>,
}

impl Sheet {
    fn new(columns: &[Column]) -> Sheet {
        Sheet { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row: what is in columns of rank 0 comes first, as text.
    fn row(&mut self, names: [String; 2], more: Vec<Cell<'static>>, style: Style) {
        for (column, name) in self.columns.iter_mut().zip(&names) {
            column.1 = column.1.max(name.chars().count().min(usize::from(NAME_MAX)) as u16);
        }
        self.rows.push((names.map(Cell::from).into_iter().chain(more).collect(), style));
    }

    /// Which columns a table of this width has.
    fn fitting(&self, width: u16) -> Vec<usize> {
        let mut by_rank: Vec<usize> = (0..self.columns.len()).collect();
        by_rank.sort_by_key(|i| self.columns[*i].2);
        // The border, without the gap behind the last column.
        let mut used = 1;
        by_rank.retain(|i| {
            let Column(_, wide, rank) = self.columns[*i];
            let fits = rank == 0 || used + wide < width;
            used += if fits { wide + 1 } else { 0 };
            fits
        });
        by_rank.sort_unstable();
        by_rank
    }

    fn draw(self, screen: &mut Screen, area: Rect, title: String) {
        let kept = self.fitting(area.width);
        let widths: Vec<Constraint> = kept.iter().map(|i| Constraint::Length(self.columns[*i].1)).collect();
        let heads = Row::new(kept.iter().map(|i| self.columns[*i].0)).style(Modifier::DIM);
        let rows = self
            .rows
            .into_iter()
            .map(|(cells, style)| Row::new(kept.iter().filter_map(|i| cells.get(*i).cloned())).style(style));
        screen.render_widget(Grid::new(rows, widths).header(heads).block(titled(title)), area);
    }
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

/// A bar that is as long as the share of N characters.
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

fn draw_jobs(screen: &mut Screen, area: Rect, frame: &Frame) {
    let mut sheet = Sheet::new(&JOBS);
    for job in &frame.status.jobs {
        let pes = format!("{}/{}", job.attached, job.pes);
        let more = [job.uid.to_string(), pes, bytes(job.memory), age(job.age_s), set(job)].map(Cell::from);
        sheet.row([job.job.to_string(), plain_line(&job.name)], more.into(), Style::new());
    }
    sheet.draw(screen, area, format!("{} jobs", frame.status.jobs.len()));
}

/// Nodes of a job's node set, and how many more only pass packets on: `6+1`.
fn set(job: &JobStatus) -> String {
    let Some(set) = &job.set else { return "-".into() };
    match set.transit.len() {
        0 => set.nodes.len().to_string(),
        transit => format!("{}+{transit}", set.nodes.len()),
    }
}

fn draw_trunks(screen: &mut Screen, area: Rect, frame: &Frame) {
    let mut sheet = Sheet::new(&TRUNKS);
    for trunk in &frame.trunks {
        let [host, state, more @ ..] = cells(trunk);
        sheet.row([host, state], more.map(Cell::from).into(), colour(trunk.peer.up));
    }
    sheet.draw(screen, area, format!("{} trunks", frame.trunks.len()));
}

/// Returns what is down is red.
fn colour(up: bool) -> Style {
    if up { Style::new() } else { Style::new().fg(Color::Red) }
}

fn draw_links(screen: &mut Screen, area: Rect, frame: &Frame, choice: &Choice) {
    let links = frame.links(choice.order, &choice.filter);
    let busiest = links.iter().map(|link| link.bytes).fold(0.0, f64::max);
    let first = choice.scrolled.min(links.len().saturating_sub(1));
    let mut sheet = Sheet::new(&LINKS);
    for link in links.iter().skip(first).take(usize::from(area.height)) {
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
        sheet.row([link.name.clone(), link.to.clone()], more, colour(link.up));
    }
    let title = match links.len() {
        0 if choice.filter.is_empty() => "no link has carried anything".into(),
        0 => format!("no link is called {}", choice.filter),
        count => format!("{count} links, by {}, from {}", choice.order.name(), first + 1),
    };
    sheet.draw(screen, area, title);
}

/// The same as text, with N links.
pub(super) fn text(frame: &Frame, order: Order, filter: &str, most: usize) -> String {
    let mut out: String = header(frame).iter().map(|line| format!("{line}\n")).collect();
    let mut jobs = Table::new(&[">job", "name", ">user", ">PEs", ">attached", ">memory", ">age", ">set"]).keys(2);
    for job in &frame.status.jobs {
        let (attached, memory, age) = (job.attached.to_string(), bytes(job.memory), age(job.age_s));
        let (id, user, pes) = (job.job.to_string(), job.uid.to_string(), job.pes.to_string());
        jobs.row(&[id, job.name.clone(), user, pes, attached, memory, age, set(job)]);
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
    fn names_are_whole_in_a_narrow_terminal() {
        for width in [60, 50, 40] {
            let text = drawn(&choice(), (width, 24), None);
            for name in ["heat2d", "0,0+X", "1,0-X", "0,1+Y", "bytes/s"] {
                assert!(text.contains(name), "{name} at {width}: {text}");
            }
            // What does not fit is left out as a whole.
            let heads = text.lines().find(|line| line.contains("bytes/s")).expect("a head");
            for head in heads.trim_matches(['│', ' ', '\n']).split_whitespace() {
                assert!(LINKS.iter().any(|column| column.0 == head), "{head} at {width}: {text}");
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
    fn once_says_what_was_left_out() {
        let shown = text(&frame(), Order::Total, "", 1);
        assert!(shown.contains("0,0+X") && shown.contains("and 2 more links"), "{shown}");
    }
}
