//! How adapters are named: LIDs, GIDs, addresses of nodes, numbers of queue pairs.
//!
//! An adapter is at a node of the torus. All of its names follow from the node's number n, so that none has to be asked
//! for: LID n + 1, GUID `0x0200a26a00000000 + n + 1`, IPv4 address 10.162.(n / 256).(n % 256). Several processes may have
//! an adapter at the same node each, as several programs share one on hardware: the lowest [`LANE_BITS`] of the number of
//! a queue pair tell which one has it.

use crate::pair::PathAttributes;
use std::net::Ipv4Addr;

/// Bits of a queue pair's number that name the adapter at its node: 64 adapters at most.
pub const LANE_BITS: u32 = 6;
/// Bits of a queue pair's number.
pub const NUMBER_BITS: u32 = 24;
/// The first part of every GUID, of an organisation that nobody is: locally administered.
const GUID: u64 = 0x0200_a26a_0000_0000;
/// Nodes that have a LID of their own: unicast LIDs end at 0xbfff.
pub const NODES_MAX: u32 = 0xbfff;

/// The link layer that a port shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkLayer {
    /// InfiniBand: LIDs, one GID.
    InfiniBand,
    /// Ethernet: RoCE, without LIDs; GIDs of versions 1 and 2, of the link and of IPv4.
    Ethernet,
}

/// Type of an entry of the table of GIDs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GidType {
    /// InfiniBand.
    Ib,
    /// RoCE version 1.
    RoceV1,
    /// RoCE version 2.
    RoceV2,
}

/// GUID of the adapter at a node, as a number.
pub fn guid(node: u32) -> u64 {
    GUID + u64::from(node) + 1
}

/// LID of the port of the adapter at a node.
pub fn lid(node: u32) -> u16 {
    (node + 1) as u16
}

/// IPv4 address of a node.
pub fn ipv4(node: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 162, (node >> 8) as u8, node as u8)
}

/// The node of an IPv4 address, if it is one of a node.
pub fn node_of_ipv4(at: Ipv4Addr) -> Option<u32> {
    let [10, 162, high, low] = at.octets() else { return None };
    Some(u32::from(high) << 8 | u32::from(low))
}

/// The GIDs of a port, by index.
pub fn gids(link: LinkLayer, node: u32) -> Vec<([u8; 16], GidType)> {
    let local = link_local(link, node);
    let mapped = ipv4(node).to_ipv6_mapped().octets();
    match link {
        LinkLayer::InfiniBand => vec![(local, GidType::Ib)],
        LinkLayer::Ethernet => vec![
            (local, GidType::RoceV1),
            (local, GidType::RoceV2),
            (mapped, GidType::RoceV1),
            (mapped, GidType::RoceV2),
        ],
    }
}

/// The GID of the link: its prefix and the GUID, which for Ethernet is made of the MAC address.
fn link_local(link: LinkLayer, node: u32) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[..2].copy_from_slice(&[0xfe, 0x80]);
    let interface = match link {
        LinkLayer::InfiniBand => guid(node).to_be_bytes(),
        LinkLayer::Ethernet => {
            let [a, b, c, d, e, f] = mac(node);
            [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
        }
    };
    gid[8..].copy_from_slice(&interface);
    gid
}

/// MAC address of a node, locally administered.
pub fn mac(node: u32) -> [u8; 6] {
    let [b, c, d, e] = (node + 1).to_be_bytes();
    [0x02, 0xa2, b, c, d, e]
}

/// The node of a GID, if it is one of a node.
pub fn node_of_gid(gid: &[u8; 16]) -> Option<u32> {
    let address = std::net::Ipv6Addr::from(*gid);
    if let Some(v4) = address.to_ipv4_mapped() {
        return node_of_ipv4(v4);
    }
    let interface: [u8; 8] = gid[8..].try_into().ok()?;
    let number = u64::from_be_bytes(interface);
    let from_guid = number.checked_sub(GUID + 1).filter(|node| *node <= u64::from(NODES_MAX));
    let from_mac = || {
        let [a, b, c, 0xff, 0xfe, d, e, f] = interface else { return None };
        let node = u32::from_be_bytes([c, d, e, f]).checked_sub(1)?;
        ([a, b] == [0, 0xa2]).then_some(u64::from(node))
    };
    if gid[..8] != [0xfe, 0x80, 0, 0, 0, 0, 0, 0] {
        return None;
    }
    from_guid.or_else(from_mac).map(|node| node as u32)
}

/// The node that a path leads to: that of its GID where it has one of ours, else that of its LID.
pub fn node_of_path(path: &PathAttributes) -> Option<u32> {
    let by_gid = path.is_global.then(|| node_of_gid(&path.dgid)).flatten();
    by_gid.or_else(|| u32::from(path.dlid).checked_sub(1))
}

/// The adapter at its node that a queue pair belongs to.
pub fn lane_of(number: u32) -> u32 {
    number & ((1 << LANE_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_node_leads_back() {
        for node in [0, 1, 7, 255, 256, 40_000] {
            for link in [LinkLayer::InfiniBand, LinkLayer::Ethernet] {
                for (gid, _) in gids(link, node) {
                    assert_eq!(node_of_gid(&gid), Some(node), "{link:?} {gid:x?}");
                }
            }
            assert_eq!(node_of_ipv4(ipv4(node)), Some(node));
            let path = PathAttributes { dlid: lid(node), ..PathAttributes::default() };
            assert_eq!(node_of_path(&path), Some(node));
        }
        assert_eq!(node_of_gid(&[0; 16]), None);
        assert_eq!(node_of_path(&PathAttributes::default()), None);
    }
}
