//! A board between pages and `angara demo --web`: which scene is wanted, and which one is played.
//!
//! The daemon runs no programs. A page writes the name of a scene here, and the command, which looks several times a second,
//! runs what makes its traffic.

use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Who plays scenes is gone when it has not looked for so long.
const GONE: Duration = Duration::from_secs(5);
/// Most characters of a name.
const NAME_MAX: usize = 40;
/// Most characters of a note.
const NOTE_MAX: usize = 400;

/// What is written there.
#[derive(Default)]
pub(crate) struct Scenes(Mutex<Board>);

#[derive(Default)]
struct Board {
    wanted: Option<String>,
    playing: Option<String>,
    note: String,
    looked: Option<Instant>,
}

/// What somebody writes: a page what it wants, the command what it plays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub(crate) enum Write {
    Wanted(String),
    Playing(Played),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Played {
    scene: Option<String>,
    note: String,
}

/// What everybody reads.
#[derive(Serialize)]
pub(crate) struct Read {
    /// Somebody plays scenes.
    offered: bool,
    wanted: Option<String>,
    playing: Option<String>,
    note: String,
}

impl Scenes {
    pub(crate) fn read(&self) -> Read {
        let board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let offered = board.looked.is_some_and(|at| at.elapsed() < GONE);
        let (wanted, playing) = (board.wanted.clone(), board.playing.clone().filter(|_| offered));
        Read { offered, wanted, playing, note: board.note.clone() }
    }

    /// False if it is no name of a scene.
    pub(crate) fn write(&self, write: Write) -> bool {
        let is_name = |name: &String| {
            (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_lowercase() || c == b'-')
        };
        let mut board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match write {
            Write::Wanted(name) if is_name(&name) => board.wanted = Some(name),
            Write::Playing(Played { scene, note }) if scene.iter().all(is_name) => {
                board.playing = scene;
                board.note = note.chars().take(NOTE_MAX).collect();
                board.looked = Some(Instant::now());
            }
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(scenes: &Scenes, text: &str) -> bool {
        serde_json::from_str(text).is_ok_and(|write| scenes.write(write))
    }

    #[test]
    fn names_are_names_and_whoever_plays_is_known() {
        let scenes = Scenes::default();
        assert!(take(&scenes, r#"{"wanted":"dead-link"}"#));
        assert!(!scenes.read().offered, "nobody plays");
        for bad in [r#"{"wanted":"../x"}"#, r#"{"wanted":""}"#, r#"{"wanted":null}"#, r#"{"other":"x"}"#, "{}"] {
            assert!(!take(&scenes, bad), "{bad}");
        }
        assert!(take(&scenes, r#"{"playing":{"scene":"trees","note":"<b>"}}"#));
        let read = scenes.read();
        assert!(read.offered);
        assert_eq!((read.wanted.as_deref(), read.playing.as_deref()), (Some("dead-link"), Some("trees")));
    }
}
