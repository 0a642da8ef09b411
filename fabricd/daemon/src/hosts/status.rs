//! What a daemon knows of its cluster, for `angara cluster status`.

use crate::ask::ask;
use crate::daemon::Daemon;
use angara_net::HostId;
use angara_plane::Command;
use angara_plane::trunks::TrunkFigures;
use angara_protocol::msg::{ClusterStatus, Flow, PeerStatus};

impl Daemon {
    /// This daemon's view of its cluster; `None` if it is of none.
    pub(crate) async fn cluster_status(&self) -> Option<ClusterStatus> {
        let messages = self.cluster.messages.as_ref()?;
        let agreed = self.cluster.ballots.agreed.borrow().clone();
        let (figures, strangers, engine) = ask(&self.data, Command::TrunkFigures).await.unwrap_or_default();
        let peer = |f: &TrunkFigures| {
            let s = &f.stats;
            let trunk = messages.trunk(f.host);
            let flow = |datagrams, bytes| Flow { datagrams, bytes };
            let refused = [
                ("foreign", s.refused.foreign),
                ("unknown key", s.refused.key),
                ("old session", s.refused.session),
                ("forged", s.refused.tag),
                ("replayed", s.refused.replay),
                ("violation", s.refused.violation),
            ];
            PeerStatus {
                host: messages.name(f.host).into(),
                via: messages.via(f.host).filter(|via| *via != f.host).map(|via| messages.name(via).into()),
                reached: messages.is_up(f.host),
                member: agreed.members.contains_key(&f.host),
                address: f.address.to_string(),
                links: f.links as u32,
                up: f.up,
                since_s: trunk.as_ref().map_or(0.0, |s| s.since.elapsed().as_secs_f64()),
                why: trunk.as_ref().map_or(String::new(), |s| s.why.clone()),
                session: trunk.map_or(0, |s| s.session as u64),
                rtt_us: s.rtt.as_secs_f64() * 1e6,
                loss: s.loss,
                mtu: s.mtu as u32,
                sent: flow(s.frames_sent, s.bytes_sent),
                received: flow(s.frames_received, s.bytes_received),
                replays: s.retransmissions,
                backlog: f.backlog as u64,
                nonsense: f.nonsense + messages.nonsense(f.host),
                refused: refused.into_iter().filter(|r| r.1 > 0).map(|(why, n)| (why.to_string(), n)).collect(),
            }
        };
        let first = messages.group().into_keys().next().unwrap_or(messages.me);
        let joined = |a, b| agreed.edges.iter().any(|e| (e.0, e.1) == (a, b));
        let members: Vec<HostId> = agreed.members.keys().copied().collect();
        let pairs = members.iter().flat_map(|a| members.iter().filter(move |b| a < b).map(move |b| (*a, *b)));
        let dead_trunks =
            pairs.filter(|(a, b)| !joined(*a, *b)).map(|(a, b)| [messages.name(a).into(), messages.name(b).into()]);
        Some(ClusterStatus {
            file: messages.member.cluster.path.display().to_string(),
            host: messages.name(messages.me).into(),
            start: self.start,
            at_us: self.started.elapsed().as_micros() as u64,
            engine,
            peers: figures.iter().map(peer).collect(),
            strangers,
            change: agreed.number,
            leader: messages.name(first).into(),
            holding_s: self.cluster.ballots.held.get().map(|since| since.elapsed().as_secs_f64()),
            settled: self.is_settled(),
            dead_trunks: dead_trunks.collect(),
        })
    }
}
