//! Captures over the control socket: what a user asks for is checked, and the connection becomes a stream of packets.

use crate::ask::{ask, dead, tell};
use crate::daemon::Daemon;
use crate::failure::failure;
use crate::users::quota::Limit;
use crate::users::usage::is_operator;
use angara_abi::packet::Vc;
use angara_net::Link;
use angara_net::fault::Site;
use angara_net::torus::{Direction, NodeId, Shape, ShapeError};
use angara_plane::observe::capture::{self, Basket, CaptureId, Refused, Taken, Whose};
use angara_plane::{Command, Handle};
use angara_protocol::msg::{CaptureSpec, Failure};
use std::sync::Arc;
use tokio::sync::Notify;

/// A capture that goes on until this is dropped.
pub(crate) struct Capture {
    basket: Arc<Basket>,
    filled: Arc<Notify>,
    id: CaptureId,
    data: Handle,
}

impl Capture {
    /// Ends it; what has been heard so far can still be taken.
    pub(crate) fn end(&self) {
        tell(&self.data, Command::EndCapture(self.id));
    }

    /// Returns what has come; nothing after the end. May be cancelled.
    pub(crate) async fn take(&self) -> Option<Vec<u8>> {
        loop {
            match self.basket.take() {
                Taken::Bytes(bytes) => return Some(bytes),
                Taken::End => return None,
                Taken::Nothing => self.filled.notified().await,
            }
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.end();
    }
}

impl Daemon {
    /// Begins to hear of packets for user `uid`, who may ask for these.
    pub(crate) async fn capture(&self, uid: u32, spec: &CaptureSpec) -> Result<Capture, Failure> {
        if let Some(job) = spec.job {
            self.check_owner(uid, job)?;
        }
        let whose = match spec.job {
            Some(id) => Whose::Job(id),
            None if is_operator(uid) => Whose::All,
            None => Whose::User(uid),
        };
        let shape = &self.options.shape;
        let link = spec.link.as_deref().map(|text| read_link(text, shape)).transpose()?;
        let node = spec.node.as_deref().map(|text| read_node(text, shape)).transpose()?;
        let elsewhere = link.map(|l| l.node).into_iter().chain(node).find(|n| !self.hosted.contains(n));
        if let Some(at) = elsewhere.filter(|_| spec.host.is_none()) {
            let at = shape.show(shape.coords(at));
            return Err(failure(format!("node {at} is on another host"), "capture on all hosts, without --here"));
        }
        if let Some(vc) = spec.vc.filter(|vc| Vc::from_bits(*vc).is_none()) {
            return Err(failure(format!("there is no virtual channel {vc}"), "give 0 to 4"));
        }
        let limit = self.users.limits().get(Limit::Captures) as usize;
        let most = if is_operator(uid) { usize::MAX } else { limit };
        let filled = Arc::new(Notify::new());
        let bell = filled.clone();
        let basket = Arc::new(Basket::new(move || bell.notify_one()));
        let (vc, snaplen) = (spec.vc, spec.snaplen);
        let wish = capture::Capture { uid, most, whose, link, node, vc, snaplen, basket: basket.clone() };
        let begun = ask(&self.data, |reply| Command::BeginCapture(wish, reply)).await.map_err(dead)?;
        let id = begun.map_err(|refused| match (refused, spec.job) {
            (Refused::NoJob, Some(job)) => crate::jobs::job::unknown(job),
            (Refused::NoJob, None) => failure("no such job", "see `angara status`"),
            (Refused::Own(n), _) => failure(
                format!("user {uid} has {n} captures here, as many as one user may have"),
                format!("end one, or {}", self.users.raise(Limit::Captures)),
            ),
            (Refused::All(n), _) => {
                failure(format!("there are {n} captures here, as many as there may be"), "end one of them")
            }
        })?;
        Ok(Capture { basket, filled, id, data: self.data.clone() })
    }
}

/// `0,0,0+X`, also with a blank before the direction.
fn read_link(text: &str, shape: &Shape) -> Result<Link, Failure> {
    let wrong =
        |why: String| failure(format!("link `{text}`: {why}"), "write --link 0,0,0+X; `angara status` has the torus");
    let at = text.find(['+', '-']).ok_or_else(|| wrong("the direction is missing".into()))?;
    let (node, dir) = text.split_at(at);
    let node = node_at(node.trim(), shape).map_err(|e| wrong(e.to_string()))?;
    let dir: Direction = dir.parse().map_err(|e: ShapeError| wrong(e.to_string()))?;
    let link = Link { node, dir };
    Site::Link(link).check(shape).map_err(wrong)?;
    Ok(link)
}

/// `1,0,0`, or a number.
fn read_node(text: &str, shape: &Shape) -> Result<NodeId, Failure> {
    let numbered = text.parse::<NodeId>().ok().filter(|_| shape.dims().len() > 1);
    let node = match numbered {
        Some(id) => {
            Some(id).filter(|id| (*id as usize) < shape.nodes()).ok_or_else(|| format!("{shape} has fewer nodes"))
        }
        None => node_at(text.trim(), shape).map_err(|e| e.to_string()),
    };
    node.map_err(|why| failure(format!("node `{text}`: {why}"), "write --node 1,0,0; `angara status` has the torus"))
}

fn node_at(text: &str, shape: &Shape) -> Result<NodeId, ShapeError> {
    let at = shape.parse_coords(text)?;
    shape.id(at).ok_or_else(|| ShapeError::Coords(text.into(), shape.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_nodes_are_read_as_people_write_them() {
        let shape: Shape = "4x2x2".parse().expect("a shape");
        for text in ["1,0,1+X", "1,0,1 +X", " 1,0,1  +X "] {
            let link = read_link(text.trim_end(), &shape).expect(text);
            assert_eq!((link.node, link.dir.to_string()), (9, "+X".to_string()), "{text}");
        }
        for (text, why) in
            [("1,0,1", "direction"), ("9,0,0+X", "9,0,0"), ("0,0,0+Q", "+Q"), ("0,0,0+W", "+W"), ("+X", "`+X`")]
        {
            let e = read_link(text, &shape).expect_err(text);
            assert!(e.message.contains(why) && e.remedy.contains("--link 0,0,0+X"), "{text}: {e:?}");
        }
        assert_eq!((read_node("9", &shape).ok(), read_node("1,0,1", &shape).ok()), (Some(9), Some(9)));
        for text in ["16", "4,0,0", "x", ""] {
            assert!(read_node(text, &shape).expect_err(text).remedy.contains("--node"), "{text}");
        }
        let ring: Shape = "8".parse().expect("a shape");
        assert_eq!(read_node("7", &ring).ok(), Some(7));
    }
}
