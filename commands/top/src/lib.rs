//! `angara top`: a daemon at work, in a terminal: jobs, trunks, and the hottest links.
//!
//! [`sample`] asks the daemon and makes rates of two answers, [`history`] keeps them for a minute, [`view`] draws them. The keyboard is read on a thread of
//! its own, so that a daemon that is slow to answer does not keep the user waiting.
#![forbid(unsafe_code)]

mod choice;
mod history;
mod rows;
mod sample;
mod sheet;
mod view;

use angara_cli::shared::WhereArgs;
use angara_cli::shared::beside::TOP;
use angara_control::daemon::{Control, block_on, runtime_dir};
use angara_control::error::{Failed, no_thread, print};
use angara_control::signals::{Signals, Wish};
use choice::{Choice, View};
use clap::{Args, Parser};
use history::History;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton,
    MouseEvent, MouseEventKind,
};
use ratatui::crossterm::execute;
use ratatui::layout::Rect;
use sample::{Frame, Order, Sample};
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// The subcommand as `angara` has it.
#[derive(Parser)]
#[command(name = "angara", version, propagate_version = true, arg_required_else_help = true)]
pub enum Commands {
    /// `angara top`.
    #[command(about = TOP.about)]
    Top(TopArgs),
}

/// Entry of the program. Never returns.
pub fn main() -> ! {
    angara_cli::shared::enter(TOP, |Commands::Top(args)| show(args))
}

/// Arguments of `angara top`.
#[derive(Args)]
pub struct TopArgs {
    #[command(flatten)]
    at: WhereArgs,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Print one interval as text and end, for scripts
    #[arg(long)]
    once: bool,
    /// Order of the links
    #[arg(long, value_enum, default_value_t = Order::Rate)]
    sort: Order,
    /// Only links whose name or target contains this, such as 1,0 or +X
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// With --once: most links to print
    #[arg(long, value_name = "N", default_value_t = 20)]
    links: usize,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.parse::<f64>().ok().filter(|s| (0.1..=3600.0).contains(s));
    time.map(Duration::from_secs_f64).ok_or_else(|| format!("`{text}`: give seconds from 0.1 to 3600"))
}

/// Shows a daemon at work.
fn show(args: TopArgs) -> Result<u8, Failed> {
    let dir = runtime_dir(&args.at.runtime_dir);
    if args.once {
        return block_on(once(&dir, &args));
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failed::usage("standard input and output are no terminal", "add --once for text"));
    }
    block_on(async {
        let mut control = Control::connect(&dir)?;
        let first = Sample::take(&mut control).await?;
        let keys = keyboard()?;
        let mut signals = Signals::new()?;
        let failed =
            |e: std::io::Error| Failed::runtime(format!("cannot use the terminal: {e}"), "add --once for text");
        let terminal = ratatui::try_init().map_err(failed)?;
        let mouse = Mouse::capture();
        let ended = watch(terminal, (control, first), keys, &mut signals, args).await.map_err(failed);
        drop(mouse);
        ratatui::restore();
        ended
    })
}

async fn once(dir: &Path, args: &TopArgs) -> Result<u8, Failed> {
    let mut control = Control::connect(dir)?;
    let before = Sample::take(&mut control).await?;
    sleep(args.interval).await;
    let now = Sample::take(&mut control).await?;
    print(view::text(&Frame::between(&before, &now), args.sort, &args.filter, args.links))?;
    Ok(0)
}

/// Clicks come to us rather than to the terminal, until this is dropped.
struct Mouse;

impl Mouse {
    /// A terminal without a mouse is none the worse for it.
    fn capture() -> Mouse {
        let _ = execute!(std::io::stdout(), EnableMouseCapture);
        Mouse
    }
}

impl Drop for Mouse {
    fn drop(&mut self) {
        let _ = execute!(std::io::stdout(), DisableMouseCapture);
    }
}

/// Keys as they are pressed, and changes of the terminal's size.
fn keyboard() -> Result<mpsc::Receiver<Event>, Failed> {
    let (tell, keys) = mpsc::channel(64);
    let read = move || {
        while let Ok(event) = event::read() {
            if tell.blocking_send(event).is_err() {
                break;
            }
        }
    };
    std::thread::Builder::new().name("keyboard".into()).spawn(read).map_err(no_thread)?;
    Ok(keys)
}

/// Looks and draws until the user has seen enough, or a signal came: the exit code.
async fn watch(
    mut terminal: DefaultTerminal,
    (mut control, first): (Control, Sample),
    mut keys: mpsc::Receiver<Event>,
    signals: &mut Signals,
    args: TopArgs,
) -> std::io::Result<u8> {
    let mut choice = Choice::new(args.sort, args.filter);
    let mut history = History::default();
    let mut frame = Frame::between(&first, &first);
    let (mut last, mut trouble) = (first, None);
    let mut ticks = interval(args.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        terminal.draw(|screen| view::draw(screen, &frame, &choice, &history, trouble.as_deref()))?;
        tokio::select! {
            _ = ticks.tick(), if !choice.paused && trouble.is_none() => match Sample::take(&mut control).await {
                Ok(now) => {
                    frame = Frame::between(&last, &now);
                    history.push(&frame);
                    last = now;
                }
                // What was seen last stays on the screen.
                Err(e) => trouble = Some(format!("{} (q ends)", e.message)),
            },
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if let Some(code) = press(key, &mut choice) {
                        return Ok(code);
                    }
                }
                Some(Event::Mouse(mouse)) => {
                    let size = terminal.size()?;
                    point(mouse, Rect::new(0, 0, size.width, size.height), &frame, &mut choice);
                }
                Some(_) => {}
                None => return Ok(0),
            },
            wish = signals.next() => if let Wish::End(signal) = wish {
                return Ok(128 + signal as u8);
            },
        }
    }
}

/// Selects the row that is clicked on, or scrolls.
fn point(mouse: MouseEvent, screen: Rect, frame: &Frame, choice: &mut Choice) {
    match mouse.kind {
        MouseEventKind::Down(MouseButton::Left) if choice.help => choice.help = false,
        MouseEventKind::Down(MouseButton::Left) => {
            choice.selected = view::row_at(screen, frame, choice, (mouse.column, mouse.row));
        }
        MouseEventKind::ScrollDown => choice.scrolled += 3,
        MouseEventKind::ScrollUp => choice.scrolled = choice.scrolled.saturating_sub(3),
        _ => {}
    }
}

/// Returns what a key does; the exit code if it ends the program.
fn press(key: KeyEvent, choice: &mut Choice) -> Option<u8> {
    if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
        return Some(130);
    }
    if choice.typing {
        match key.code {
            KeyCode::Enter => choice.typing = false,
            KeyCode::Esc => {
                choice.typing = false;
                choice.filter.clear();
            }
            KeyCode::Backspace => drop(choice.filter.pop()),
            KeyCode::Char(c) => choice.filter.push(c),
            _ => {}
        }
        return None;
    }
    if choice.help {
        choice.help = false;
        return None;
    }
    match key.code {
        KeyCode::Esc if choice.selected.is_some() => choice.selected = None,
        KeyCode::Char('q') | KeyCode::Esc => return Some(0),
        KeyCode::Char('?') => choice.help = true,
        KeyCode::Tab => choice.look_at(choice.view.next()),
        KeyCode::Char('1') => choice.look_at(View::Links),
        KeyCode::Char('2') => choice.look_at(View::Nodes),
        KeyCode::Char('3') => choice.look_at(View::Jobs),
        KeyCode::Char('s') => choice.order = choice.order.next(),
        KeyCode::Char('/') => (choice.typing, choice.scrolled) = (true, 0),
        KeyCode::Char(' ' | 'p') => choice.paused = !choice.paused,
        KeyCode::Down | KeyCode::Char('j') => choice.scrolled += 1,
        KeyCode::Up | KeyCode::Char('k') => choice.scrolled = choice.scrolled.saturating_sub(1),
        KeyCode::PageDown => choice.scrolled += 10,
        KeyCode::PageUp => choice.scrolled = choice.scrolled.saturating_sub(10),
        KeyCode::Home => choice.scrolled = 0,
        _ => {}
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_filter_pause_and_end() {
        let mut choice = Choice::new(Order::Rate, String::new());
        let keys = |text: &str, choice: &mut Choice| -> Vec<Option<u8>> {
            text.chars().map(|c| press(KeyEvent::from(KeyCode::Char(c)), choice)).collect()
        };
        keys("s jj", &mut choice);
        assert_eq!((choice.order, choice.paused, choice.scrolled), (Order::Total, true, 2));
        keys("/q+X", &mut choice);
        assert_eq!((choice.filter.as_str(), choice.scrolled), ("q+X", 0), "typed, and not obeyed");
        assert_eq!(press(KeyEvent::from(KeyCode::Esc), &mut choice), None);
        assert!(choice.filter.is_empty() && !choice.typing);
        keys("?q", &mut choice);
        assert!(!choice.help, "any key closes the list of keys");
        keys("j3", &mut choice);
        assert_eq!((choice.view, choice.scrolled), (View::Jobs, 0));
        press(KeyEvent::from(KeyCode::Tab), &mut choice);
        assert_eq!(choice.view, View::Links);
        choice.selected = Some("0,0+X".into());
        assert_eq!(press(KeyEvent::from(KeyCode::Esc), &mut choice), None, "the selection first");
        assert_eq!(keys("q", &mut choice), [Some(0)]);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(press(interrupt, &mut choice), Some(130));
        (0..4).for_each(|_| drop(keys("s", &mut choice)));
        assert_eq!(choice.order, Order::Total, "round and round");
    }
}
