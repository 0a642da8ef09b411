//! What there is: an adapter is a device with a folder of its own, to which links of its classes lead.

use crate::process::{Adapter, adapters};
use angara_hca::Network;
use angara_hca::address::{GidType, LinkLayer, gids, guid, lid};
use angara_verbs_process::PortCounters;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};

/// Something with a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Node {
    File(String),
    Link(String),
    /// A device of characters: its minor number.
    Device(u32),
    /// Names in it.
    Folder(Vec<String>),
}

/// Where something is once links are followed.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) at: PathBuf,
    pub(crate) node: Node,
}

const CLASS: &str = "/sys/class/infiniband";
const CLASS_VERBS: &str = "/sys/class/infiniband_verbs";
const DEVICES: &str = "/sys/devices/angara";
const DEV: &str = "/dev/infiniband";

/// Whether a path may be here. Every file that a program opens is asked this.
#[inline]
pub(crate) fn may_be_here(path: &[u8]) -> bool {
    [CLASS, DEVICES, DEV].iter().any(|prefix| path.starts_with(prefix.as_bytes()))
}

/// What files say of an adapter.
struct Device {
    name: String,
    node: u32,
    link: LinkLayer,
    is_up: bool,
    counters: PortCounters,
}

impl Device {
    fn of(adapter: &'static Adapter) -> Device {
        let (is_up, counters) = adapter.with(|hca| (hca.network().is_up(), hca.network().counters()));
        Device { name: adapter.name().into(), node: adapter.node(), link: adapter.link(), is_up, counters }
    }
}

/// Nodes by their paths; folders are not among them.
#[derive(Default)]
struct Tree(BTreeMap<PathBuf, Node>);

impl Tree {
    fn of(devices: &[Device]) -> Tree {
        let mut tree = Tree::default();
        tree.files(CLASS_VERBS, [("abi_version", "6".into())]);
        tree.put(format!("{DEV}/rdma_cm"), Node::Device(255));
        devices.iter().enumerate().for_each(|(index, device)| tree.adapter(index, device));
        tree
    }

    fn put(&mut self, at: String, node: Node) {
        self.0.insert(at.into(), node);
    }

    /// Files of a folder, each with a line.
    fn files<const N: usize>(&mut self, folder: &str, files: [(&str, String); N]) {
        for (name, text) in files {
            self.put(format!("{folder}/{name}"), Node::File(format!("{text}\n")));
        }
    }

    fn port(&mut self, folder: &str, adapter: &Device) {
        let (state, physical) = if adapter.is_up { ("4: ACTIVE", "5: LinkUp") } else { ("1: DOWN", "3: Disabled") };
        let (link, lids) = match adapter.link {
            LinkLayer::InfiniBand => ("InfiniBand", (lid(adapter.node), lid(0))),
            LinkLayer::Ethernet => ("Ethernet", (0, 0)),
        };
        self.files(
            folder,
            [
                ("state", state.into()),
                ("phys_state", physical.into()),
                ("rate", "56 Gb/sec (4X FDR)".into()),
                ("link_layer", link.into()),
                ("lid", format!("{:#x}", lids.0)),
                ("sm_lid", format!("{:#x}", lids.1)),
                ("lid_mask_count", "0".into()),
                ("sm_sl", "0".into()),
                ("cap_mask", "0x00010000".into()),
                ("pkeys/0", "0xffff".into()),
            ],
        );
        let PortCounters { sent, received } = adapter.counters;
        // Bytes are counted by fours, as adapters do.
        self.files(
            &format!("{folder}/counters"),
            [
                ("port_xmit_data", (sent.bytes / 4).to_string()),
                ("port_xmit_packets", sent.packets.to_string()),
                ("port_rcv_data", (received.bytes / 4).to_string()),
                ("port_rcv_packets", received.packets.to_string()),
            ],
        );
        for (index, (gid, kind)) in gids(adapter.link, adapter.node).into_iter().enumerate() {
            let kind = if kind == GidType::RoceV2 { "RoCE v2" } else { "IB/RoCE v1" };
            let file = |what: &str| format!("{folder}/{what}/{index}");
            self.put(file("gids"), Node::File(format!("{}\n", groups(&gid))));
            self.put(file("gid_attrs/types"), Node::File(format!("{kind}\n")));
        }
    }

    fn adapter(&mut self, index: usize, adapter: &Device) {
        let (name, uverbs, device) = (&adapter.name, format!("uverbs{index}"), format!("{DEVICES}/hca{index}"));
        let (ib, verbs) = (format!("{device}/infiniband/{name}"), format!("{device}/infiniband_verbs/{uverbs}"));
        let guid = groups(&guid(adapter.node).to_be_bytes());
        self.files(&device, [("vendor", "0xa26a".into()), ("device", "0x0001".into()), ("numa_node", "0".into())]);
        self.files(
            &ib,
            [
                ("node_type", "1: CA".into()),
                ("node_guid", guid.clone()),
                ("sys_image_guid", guid),
                ("node_desc", name.clone()),
                ("fw_ver", "0.1".into()),
                ("hw_rev", "1".into()),
                ("hca_type", "angara".into()),
                ("board_id", "ANGARA".into()),
            ],
        );
        let minor = 192 + index as u32;
        self.files(&verbs, [("ibdev", name.clone()), ("abi_version", "1".into()), ("dev", format!("231:{minor}"))]);
        self.port(&format!("{ib}/ports/1"), adapter);
        // The interface that everybody has: scripts want one.
        self.put(format!("{device}/net/lo"), Node::Link("/sys/class/net/lo".into()));
        for own in [&ib, &verbs] {
            self.put(format!("{own}/device"), Node::Link(device.clone()));
        }
        self.put(format!("{CLASS}/{name}"), Node::Link(ib));
        self.put(format!("{CLASS_VERBS}/{uverbs}"), Node::Link(verbs));
        self.put(format!("{DEV}/{uverbs}"), Node::Device(minor));
    }

    /// What is at a path that has no links in it.
    fn get(&self, at: &Path) -> Option<Node> {
        if let Some(node) = self.0.get(at) {
            return Some(node.clone());
        }
        let below = self.0.keys().filter_map(|path| path.strip_prefix(at).ok()?.components().next());
        let mut names: Vec<String> = below.map(|name| name.as_os_str().to_string_lossy().into_owned()).collect();
        names.dedup();
        (!names.is_empty()).then_some(Node::Folder(names))
    }

    /// What is at a path; links on the way are followed, and the last, too, if asked for.
    fn find(&self, path: &str, follow: bool) -> Option<Found> {
        let mut at = PathBuf::from("/");
        let mut rest: Vec<_> = Path::new(path).components().rev().map(|part| part.as_os_str().to_owned()).collect();
        // Links of ours lead nowhere but to folders.
        for _ in 0..64 {
            let Some(part) = rest.pop() else { break };
            match Path::new(&part).components().next() {
                Some(Component::ParentDir) => drop(at.pop()),
                Some(Component::Normal(name)) => at.push(name),
                _ => continue,
            }
            if let Some(Node::Link(to)) = self.0.get(&at)
                && (follow || !rest.is_empty())
            {
                rest.extend(Path::new(to).components().rev().map(|part| part.as_os_str().to_owned()));
                at = PathBuf::from("/");
            }
        }
        let node = self.get(&at)?;
        Some(Found { at, node })
    }
}

/// Pairs of bytes as hexadecimal digits, with colons between.
fn groups(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (index, pair) in bytes.chunks_exact(2).enumerate() {
        let colon = if index > 0 { ":" } else { "" };
        write!(out, "{colon}{:02x}{:02x}", pair[0], pair[1]).expect("into a string");
    }
    out
}

/// What is at a path, with links followed up to the last name, or all.
pub(crate) fn find(path: &str, follow: bool) -> Option<Found> {
    if !may_be_here(path.as_bytes()) {
        return None;
    }
    let devices: Vec<Device> = adapters().ok()?.iter().map(|adapter| Device::of(adapter)).collect();
    Tree::of(&devices).find(path, follow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_verbs_process::Traffic;

    fn find(path: &str, follow: bool) -> Option<Found> {
        let port = Traffic { packets: 3, bytes: 40 };
        let counters = PortCounters { sent: port, received: Traffic::default() };
        let device = Device { name: "angara0".into(), node: 0, link: LinkLayer::InfiniBand, is_up: true, counters };
        Tree::of(&[device]).find(path, follow)
    }

    fn at(path: &str) -> Option<String> {
        find(path, true).map(|found| found.at.to_string_lossy().into_owned())
    }

    #[test]
    fn links_lead_to_the_device() {
        let device = || Some("/sys/devices/angara/hca0".to_owned());
        assert_eq!(at("/sys/class/infiniband/angara0/../.."), device());
        assert_eq!(at("/sys/class/infiniband//angara0/device/"), device());
        assert_eq!(at("/sys/class/infiniband_verbs/uverbs0/device"), device());
        assert_eq!(at("/sys/class/infiniband/other"), None);
        assert_eq!(at("/sys/class/net"), None);
        let link = find("/sys/class/infiniband/angara0", false).expect("a link");
        assert_eq!(link.node, Node::Link("/sys/devices/angara/hca0/infiniband/angara0".into()));
    }

    #[test]
    fn files_and_folders_are_what_programs_expect() {
        let node = |path| find(path, true).map(|found| found.node);
        let gid = "fe80:0000:0000:0000:0200:a26a:0000:0001\n";
        assert_eq!(node("/sys/class/infiniband/angara0/ports/1/gids/0"), Some(Node::File(gid.into())));
        let sent = "/sys/class/infiniband/angara0/ports/1/counters/port_xmit_data";
        assert_eq!(node(sent), Some(Node::File("10\n".into())));
        assert_eq!(node("/sys/class/infiniband"), Some(Node::Folder(vec!["angara0".into()])));
        assert_eq!(node("/sys/class/infiniband/angara0/device/net"), Some(Node::Folder(vec!["lo".into()])));
        assert_eq!(node("/dev/infiniband/uverbs0"), Some(Node::Device(192)));
    }
}
