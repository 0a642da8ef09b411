//! Other keys while the daemon runs: the key files and their ids are read again, whatever they were before.
//!
//! To change a key without a break, every host first accepts the new one, then every host sends with it, then
//! every host forgets the old one (`angara cluster keys reload` after each change of the cluster file).

use super::wires::key_ring;
use crate::ask::{ask, dead};
use crate::daemon::Daemon;
use crate::failure::failure;
use angara_cluster::{Cluster, Keys};
use angara_plane::Command;
use angara_protocol::msg::{Failure, Reply};

impl Daemon {
    /// Reads the keys that the cluster file names now. What is wrong with them leaves those in use as they are.
    pub(crate) async fn reload_keys(&self) -> Result<Reply, Failure> {
        match self.read_keys() {
            Ok(keys) => {
                let (accepted, current): (Vec<u8>, u8) = (keys.all.keys().copied().collect(), keys.current);
                let ring = key_ring(&keys).map_err(|e| failure(e.to_string(), "see the log of fabricd"))?;
                ask(&self.data, |reply| Command::SetKeys(ring, reply)).await.map_err(dead)?;
                tracing::info!(?accepted, current, "keys read again");
                Ok(Reply::Keys { accepted, current })
            }
            Err(f) => {
                tracing::error!(why = f.message, "the keys were read again and refused; those in use stay");
                Err(f)
            }
        }
    }

    fn read_keys(&self) -> Result<Keys, Failure> {
        let Some(messages) = &self.cluster.messages else {
            return Err(failure("this daemon is no part of a cluster", "start it with --cluster FILE --host NAME"));
        };
        let refused = |why: String| failure(why, "mend it and try again; the keys in use stay");
        let cluster = Cluster::load(&messages.member.cluster.path).map_err(|e| refused(e.to_string()))?;
        let keys = cluster.load_keys().map_err(|e| refused(e.to_string()))?;
        if messages.member.cluster.differs_beside_keys(&cluster) {
            tracing::warn!(
                file = %cluster.path.display(),
                "the cluster file has changed in more than its keys; the rest takes effect when fabricd starts again"
            );
        }
        Ok(keys)
    }
}
