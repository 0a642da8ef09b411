//! The daemons of a cluster among themselves: messages on channel 0 of the trunks.
//!
//! A message is JSON ([`super::protocol::Message`]) or a piece of a byte stream ([`super::streams`]); long ones are cut into
//! records. Records find their way over any trunks ([`super::linkstate`]) and arrive once and in order
//! ([`super::relay`]). A host that no way leads to fails every question it was asked.

use super::linkstate::{Announcement, Edge, LinkState};
use super::protocol::{Answer, Ask, Message, Tell};
use super::relay::{Body, Line, Packet};
use crate::ask::tell;
use crate::failure::failure;
use angara_cluster::Membership;
use angara_net::HostId;
use angara_plane::LogLimit;
use angara_plane::{Command, Handle};
use angara_protocol::msg::Failure;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// How long another daemon may take to answer.
const ANSWER: Duration = Duration::from_secs(20);
/// Earlier lives of a host that are remembered.
const LIVES: usize = 16;
/// Largest record of a message.
const PIECE: usize = 32 * 1024;
/// Longest message another daemon may send.
const MESSAGE_MAX: usize = 64 << 20;
/// First byte of a record with announcements; see [`super::relay`] for the others.
const TRUNKS: u8 = 1;
/// First byte of a piece: more of the message follows, or this is its end.
const MORE: u8 = 1;
const LAST: u8 = 0;
/// First byte of a message.
const JSON: u8 = 0;
const STREAM: u8 = 1;

/// What came from other hosts, or became of them.
#[allow(clippy::large_enum_variant)] // one at a time, taken apart at once
pub(crate) enum Incoming {
    Message(HostId, Message),
    Stream(HostId, u64, Vec<u8>),
    /// Nothing of what was said between us before holds any more.
    Lost(HostId, &'static str),
}

const NO_WAY: &str = "no trunk leads to it any more";
const ANOTHER_LIFE: &str = "its daemon was started again";
const GAVE_UP: &str = "it had lost touch with this host";

/// State of a trunk, as the control plane knows it.
#[derive(Clone, Debug)]
pub(crate) struct TrunkState {
    pub(crate) up: bool,
    pub(crate) session: u32,
    pub(crate) why: String,
    pub(crate) since: Instant,
}

/// Whom a question was asked, and who waits for the answer.
type Asked = (HostId, oneshot::Sender<Result<Answer, Failure>>);

/// Everything about the other hosts.
pub(crate) struct HostMessages {
    pub(crate) member: Membership,
    pub(crate) me: HostId,
    pub(crate) owners: Vec<HostId>,
    data: Handle,
    life: u64,
    /// Trunks of this host.
    trunks: RefCell<BTreeMap<HostId, TrunkState>>,
    links: RefCell<LinkState>,
    /// Hosts that can be reached, and through which neighbour.
    reach: RefCell<BTreeMap<HostId, HostId>>,
    lines: RefCell<BTreeMap<HostId, Line>>,
    /// Contacts to begin with, should an earlier life of a host turn out to be the present one after all.
    retired: RefCell<BTreeMap<HostId, VecDeque<(u64, u64)>>>,
    /// Questions under way, by number.
    waiting: RefCell<BTreeMap<u64, Asked>>,
    pieces: RefCell<BTreeMap<HostId, Vec<u8>>>,
    /// Messages of each host that were not understood.
    nonsense: RefCell<BTreeMap<HostId, (u64, LogLimit)>>,
    next: Cell<u64>,
    /// Changes of trunks heard of.
    changes: Cell<u64>,
    /// Another host has taken something, or is lost.
    taken: Notify,
}

impl HostMessages {
    /// `life` is random.
    pub(crate) fn new(member: Membership, data: Handle, life: u64) -> HostMessages {
        let me = member.host;
        let trunk = TrunkState { up: false, session: 0, why: "not heard of yet".into(), since: Instant::now() };
        let others = member.cluster.ids().filter(move |h| *h != me);
        HostMessages {
            owners: member.cluster.owners(),
            trunks: RefCell::new(others.clone().map(|h| (h, trunk.clone())).collect()),
            links: RefCell::new(LinkState::new(me, life)),
            reach: RefCell::default(),
            lines: RefCell::new(others.map(|h| (h, Line::default())).collect()),
            retired: RefCell::default(),
            waiting: RefCell::default(),
            pieces: RefCell::default(),
            nonsense: RefCell::default(),
            next: Cell::new(1),
            changes: Cell::new(0),
            taken: Notify::new(),
            life,
            me,
            member,
            data,
        }
    }

    pub(crate) fn name(&self, host: HostId) -> &str {
        self.member.cluster.hosts.get(host.index()).map_or("?", |h| &h.name)
    }
    pub(crate) fn index(&self, name: &str) -> Option<HostId> {
        self.member.cluster.host(name).ok()
    }
    /// Number of hosts.
    pub(crate) fn hosts(&self) -> usize {
        self.member.cluster.hosts.len()
    }
    pub(crate) fn trunk(&self, host: HostId) -> Option<TrunkState> {
        self.trunks.borrow().get(&host).cloned()
    }
    pub(crate) fn is_up(&self, host: HostId) -> bool {
        host == self.me || self.reach.borrow().contains_key(&host)
    }
    /// The neighbour through which a host is reached.
    pub(crate) fn via(&self, host: HostId) -> Option<HostId> {
        self.reach.borrow().get(&host).copied()
    }
    /// The hosts that can be reached and this one, with the life of each.
    pub(crate) fn group(&self) -> BTreeMap<HostId, u64> {
        let links = self.links.borrow();
        let reached = self.reach.borrow();
        let others = reached.keys().filter_map(|h| Some((*h, links.life(*h)?)));
        others.chain([(self.me, self.life)]).collect()
    }
    /// Trunks among hosts.
    pub(crate) fn edges(&self, hosts: &BTreeSet<HostId>) -> BTreeSet<Edge> {
        self.links.borrow().edges(hosts)
    }
    /// Hosts at the other ends of trunks that are up.
    pub(crate) fn neighbours(&self) -> Vec<HostId> {
        self.trunks.borrow().iter().filter(|(_, s)| s.up).map(|(h, _)| *h).collect()
    }
    /// Changes of trunks heard of so far.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.get()
    }
    /// Number of nodes on hosts that can be reached, this one's included.
    pub(crate) fn nodes_up(&self) -> usize {
        let neighbours = self.neighbours();
        self.owners.iter().filter(|h| self.is_up(**h) || neighbours.contains(h)).count()
    }
    /// A number no other host uses.
    pub(crate) fn fresh(&self) -> u64 {
        let n = self.next.replace(self.next.get() + 1);
        n * self.hosts() as u64 + u64::from(self.me.number())
    }

    #[cfg(test)]
    pub(crate) fn questions(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Pieces of messages that other hosts have not said they have.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.lines.borrow().values().map(Line::unacknowledged).sum()
    }

    /// True if a host has said that it has all it was told.
    pub(crate) fn has_taken_all(&self, host: HostId) -> bool {
        self.lines.borrow().get(&host).is_none_or(|line| line.unacknowledged() == 0)
    }

    /// Resolves when every host that can be reached has what it was told.
    pub(crate) async fn all_taken(&self) {
        while self.unacknowledged() > 0 {
            self.taken.notified().await;
        }
    }

    /// The next number above `last` for a change that this host decides. Two hosts that both believe to decide never take the
    /// same one: it would stand for two networks.
    pub(crate) fn next_number(&self, last: u64) -> u64 {
        let (hosts, me) = (self.hosts() as u64, u64::from(self.me.number()));
        last + 1 + (me + hosts - (last + 1) % hosts) % hosts
    }

    /// Notes why a trunk that has not come up will not.
    pub(crate) fn expect_nothing_of(&self, host: HostId, why: String) {
        if let Some(trunk) = self.trunks.borrow_mut().get_mut(&host).filter(|trunk| !trunk.up) {
            trunk.why = why;
        }
    }

    /// Notes what became of a trunk, and tells everybody.
    pub(crate) fn set_trunk(&self, host: HostId, trunk: TrunkState) -> Vec<Incoming> {
        let session = trunk.up.then_some(trunk.session);
        self.trunks.borrow_mut().insert(host, trunk);
        let mine = self.links.borrow_mut().set(host, session);
        if session.is_some() {
            let all = self.links.borrow().all();
            self.announce(host, &all);
        }
        self.flood(host, &mine);
        self.look_again(None)
    }

    fn announce(&self, to: HostId, said: &[Announcement]) {
        match serde_json::to_vec(said) {
            Ok(json) => self.put(to, [&[TRUNKS][..], &json].concat()),
            Err(e) => tracing::error!(error = %e, "cannot encode an announcement"),
        }
    }

    /// Tells all neighbours but one.
    fn flood(&self, except: HostId, said: &Announcement) {
        self.neighbours()
            .into_iter()
            .filter(|h| *h != except)
            .for_each(|h| self.announce(h, std::slice::from_ref(said)));
    }

    /// Trunks have changed, or a host's daemon is no longer in a life: who can be reached now?
    fn look_again(&self, ended: Option<(HostId, u64)>) -> Vec<Incoming> {
        self.changes.set(self.changes.get() + 1);
        let now = self.links.borrow().reach();
        let before = self.reach.replace(now.clone());
        let mut lost = Vec::new();
        if let Some((host, life)) = ended {
            self.begin_line(host, life);
            lost.push(Incoming::Lost(host, ANOTHER_LIFE));
            self.fail_questions(host, ANOTHER_LIFE);
        }
        for host in before.keys().filter(|h| !now.contains_key(h) && ended.is_none_or(|(host, _)| host != **h)) {
            let mut lines = self.lines.borrow_mut();
            let line = lines.entry(*host).or_default();
            line.break_off();
            let said = self.links.borrow_mut().set_contact(*host, line.contact);
            drop(lines);
            self.flood(self.me, &said);
            lost.push(Incoming::Lost(*host, NO_WAY));
            self.fail_questions(*host, NO_WAY);
        }
        self.send_again(true);
        self.taken.notify_one();
        lost
    }

    /// Forgets what was said between this host and a life of another one. What others remember of an earlier life may be
    /// taken for news until that host has said otherwise: then the line is not the one that it knows, so its contact grows.
    fn begin_line(&self, host: HostId, ended: u64) {
        let mut all = self.retired.borrow_mut();
        let retired = all.entry(host).or_default();
        let mut lines = self.lines.borrow_mut();
        let line = lines.entry(host).or_default();
        retired.push_back((ended, line.contact + 1));
        let life = self.links.borrow().life(host);
        let again = retired.iter().position(|(known, _)| Some(*known) == life).and_then(|at| retired.remove(at));
        if retired.len() > LIVES {
            retired.pop_front();
        }
        *line = Line::new(again.map_or(0, |(_, contact)| contact));
        if again.is_some() {
            let said = self.links.borrow_mut().set_contact(host, line.contact);
            drop(lines);
            self.flood(self.me, &said);
        }
    }

    /// Nobody will answer what this host was asked.
    fn fail_questions(&self, host: HostId, why: &str) {
        self.pieces.borrow_mut().remove(&host);
        let mut waiting = self.waiting.borrow_mut();
        let asked: Vec<u64> = waiting.iter().filter(|(_, (h, _))| *h == host).map(|(id, _)| *id).collect();
        for id in asked {
            if let Some((_, sender)) = waiting.remove(&id) {
                // Who asked may have given up.
                let _ = sender.send(Err(self.unreachable(host, why)));
            }
        }
    }

    /// Sends again what may have been lost on the way: all of it if the trunks `changed`.
    pub(crate) fn send_again(&self, changed: bool) {
        let now = Instant::now();
        let mut again = Vec::new();
        for (host, line) in self.lines.borrow_mut().iter_mut().filter(|(h, _)| self.is_up(**h)) {
            again.extend(line.again(now, changed).into_iter().map(|body| (*host, line.contact, body)));
        }
        again.into_iter().for_each(|(host, contact, body)| self.dispatch(host, contact, body));
    }

    pub(crate) fn unreachable(&self, host: HostId, why: &str) -> Failure {
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        failure(
            format!("host {} does not answer{why}", self.name(host)),
            "see `angara cluster status`; check its fabricd, its network and its keys",
        )
    }

    /// Asks another daemon.
    pub(crate) async fn ask(&self, host: HostId, ask: Ask) -> Result<Answer, Failure> {
        self.ask_within(host, ask, ANSWER).await
    }

    pub(crate) async fn ask_within(&self, host: HostId, ask: Ask, limit: Duration) -> Result<Answer, Failure> {
        if !self.is_up(host) {
            let why = self.trunk(host).filter(|s| !s.up).map_or(NO_WAY.into(), |s| s.why);
            return Err(self.unreachable(host, &why));
        }
        let id = self.fresh();
        let (tx, rx) = oneshot::channel();
        self.waiting.borrow_mut().insert(id, (host, tx));
        self.say(host, &Message::Ask(id, ask));
        let answer = tokio::time::timeout(limit, rx).await;
        self.waiting.borrow_mut().remove(&id);
        match answer {
            Ok(Ok(answer)) => answer,
            _ => Err(self.unreachable(host, &format!("no answer within {limit:?}"))),
        }
    }

    /// An answer came.
    pub(crate) fn answered(&self, from: HostId, id: u64, answer: Result<Answer, Failure>) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.get(&id).is_some_and(|(host, _)| *host == from)
            && let Some((_, sender)) = waiting.remove(&id)
        {
            // Who asked may have given up.
            let _ = sender.send(answer);
        }
    }

    /// Says something to each of `hosts`.
    pub(crate) fn tell(&self, hosts: &[HostId], tell: &Tell) {
        for host in hosts {
            self.say(*host, &Message::Tell(tell.clone()));
        }
    }

    pub(crate) fn say(&self, host: HostId, message: &Message) {
        let mut bytes = vec![JSON];
        match serde_json::to_writer(&mut bytes, message) {
            Ok(()) => self.send(host, bytes),
            Err(e) => tracing::error!(error = %e, "cannot encode a message to another host"),
        }
    }

    /// Sends a piece of a stream.
    pub(crate) fn stream(&self, host: HostId, stream: u64, data: &[u8]) {
        let mut bytes = Vec::with_capacity(9 + data.len());
        bytes.push(STREAM);
        bytes.extend_from_slice(&stream.to_le_bytes());
        bytes.extend_from_slice(data);
        self.send(host, bytes);
    }

    fn send(&self, host: HostId, message: Vec<u8>) {
        if !self.is_up(host) {
            return;
        }
        let mut pieces = message.chunks(PIECE).peekable();
        while let Some(piece) = pieces.next() {
            let more = if pieces.peek().is_some() { MORE } else { LAST };
            let piece = [&[more][..], piece].concat();
            let mut lines = self.lines.borrow_mut();
            let Some(line) = lines.get_mut(&host) else { return };
            let (contact, body) = (line.contact, line.send(Instant::now(), piece));
            drop(lines);
            self.dispatch(host, contact, body);
        }
    }

    fn dispatch(&self, to: HostId, contact: u64, body: Body) {
        let Some(life) = self.links.borrow().life(to) else { return };
        let packet = Packet { from: self.me, to, hops: 0, lives: (self.life, life), contact, body };
        if let Some(next) = self.via(to) {
            self.put(next, packet.encode());
        }
    }

    /// Gives a record to the trunk of a neighbour.
    fn put(&self, neighbour: HostId, record: Vec<u8>) {
        tell(&self.data, Command::Tell(neighbour, record));
    }

    /// Takes a record that a neighbour sent; what it led to.
    pub(crate) fn receive(&self, neighbour: HostId, record: &[u8]) -> Vec<Incoming> {
        if record.first() == Some(&TRUNKS) {
            return match serde_json::from_slice::<Vec<Announcement>>(&record[1..]) {
                Ok(all) => all.into_iter().flat_map(|said| self.hear(neighbour, said)).collect(),
                Err(e) => {
                    self.misunderstood(neighbour, &e.to_string());
                    Vec::new()
                }
            };
        }
        let Some(mut packet) = Packet::decode(record) else {
            self.misunderstood(neighbour, "an unknown record");
            return Vec::new();
        };
        if packet.to == self.me {
            return self.take(packet);
        }
        packet.hops = packet.hops.saturating_add(1);
        if (packet.hops as usize) < self.hosts()
            && let Some(next) = self.via(packet.to)
        {
            self.put(next, packet.encode());
        }
        Vec::new()
    }

    /// Messages of a host that were not understood so far.
    pub(crate) fn nonsense(&self, host: HostId) -> u64 {
        self.nonsense.borrow().get(&host).map_or(0, |(count, _)| *count)
    }

    /// Counts one more, and complains.
    pub(crate) fn misunderstood(&self, host: HostId, why: &str) {
        let mut all = self.nonsense.borrow_mut();
        let (count, complaints) = all.entry(host).or_default();
        *count += 1;
        if let Some(left_out) = complaints.allow(Instant::now().into_std()) {
            let host = self.name(host);
            tracing::warn!(host, why, left_out, "a message was not understood; are all daemons of one version?");
        }
    }

    /// A host says which of its trunks are up.
    fn hear(&self, neighbour: HostId, said: Announcement) -> Vec<Incoming> {
        let host = said.host;
        let known = host.index() < self.hosts() && said.trunks.keys().all(|h| h.index() < self.hosts());
        if !known {
            self.misunderstood(neighbour, "an announcement of a host that is not in the cluster file");
            return Vec::new();
        }
        let before = self.links.borrow().life(host);
        let Some(news) = self.links.borrow_mut().take(said) else { return Vec::new() };
        let echo = news.host == self.me;
        self.flood(if echo { self.me } else { neighbour }, &news);
        let ended = before.filter(|life| !echo && *life != news.life).map(|life| (host, life));
        let mut lost = self.look_again(ended);
        let contact = self.links.borrow().contact(host);
        if self.lines.borrow_mut().get_mut(&host).is_some_and(|line| line.adopt(contact)) {
            self.fail_questions(host, GAVE_UP);
            lost.push(Incoming::Lost(host, GAVE_UP));
        }
        lost
    }

    /// A packet that ends here.
    fn take(&self, packet: Packet) -> Vec<Incoming> {
        let from = packet.from;
        // What belongs to another life of either is void; so is what comes before its sender was heard of: it comes again.
        if packet.lives.1 != self.life || self.links.borrow().life(from) != Some(packet.lives.0) || !self.is_up(from) {
            return Vec::new();
        }
        let mut lines = self.lines.borrow_mut();
        let Some(line) = lines.get_mut(&from) else { return Vec::new() };
        let outcome = line.take(packet.contact, packet.body);
        let contact = line.contact;
        drop(lines);
        self.taken.notify_one();
        let mut all = Vec::new();
        if outcome.broken {
            self.fail_questions(from, GAVE_UP);
            all.push(Incoming::Lost(from, GAVE_UP));
        }
        if let Some(answer) = outcome.answer {
            self.dispatch(from, contact, answer);
        }
        all.extend(outcome.piece.and_then(|piece| self.assemble(from, &piece)));
        all
    }

    /// Puts pieces of messages together.
    fn assemble(&self, host: HostId, piece: &[u8]) -> Option<Incoming> {
        let (more, piece) = piece.split_first()?;
        let mut all = self.pieces.borrow_mut();
        let message = all.entry(host).or_default();
        if message.len() + piece.len() > MESSAGE_MAX {
            message.clear();
            self.misunderstood(host, "longer than any message");
            return None;
        }
        message.extend_from_slice(piece);
        if *more == MORE {
            return None;
        }
        let message = std::mem::take(message);
        drop(all);
        let understood = match message.split_first() {
            Some((&JSON, json)) => {
                serde_json::from_slice(json).map(|m| Incoming::Message(host, m)).map_err(|e| e.to_string())
            }
            Some((&STREAM, rest)) => match rest.split_first_chunk::<8>() {
                Some((id, data)) => Ok(Incoming::Stream(host, u64::from_le_bytes(*id), data.to_vec())),
                None => Err("a stream without a number".into()),
            },
            _ => Err("of an unknown kind".into()),
        };
        understood.map_err(|why| self.misunderstood(host, &why)).ok()
    }
}
