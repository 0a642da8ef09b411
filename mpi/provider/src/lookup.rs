//! Lookup of hosts and services by the system.

use crate::address::{Address, Name};
use std::ffi::CString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Hosts and ports that a node and a service name, those that the system prefers first.
fn find(node: Option<&str>, service: Option<&str>, numeric: bool) -> Result<Vec<SocketAddr>, String> {
    let text =
        |text: Option<&str>| text.map(CString::new).transpose().map_err(|_| "a name has a zero in it".to_owned());
    let (node, service) = (text(node)?, text(service)?);
    let p = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
    // SAFETY: all zero is a valid hint: any family; strings that end and a result that is freed below.
    unsafe {
        let mut hints: libc::addrinfo = std::mem::zeroed();
        hints.ai_socktype = libc::SOCK_STREAM;
        hints.ai_flags = libc::AI_PASSIVE | if numeric { libc::AI_NUMERICHOST } else { 0 };
        let mut first = std::ptr::null_mut();
        let error = libc::getaddrinfo(p(&node), p(&service), &hints, &mut first);
        if error != 0 {
            return Err(std::ffi::CStr::from_ptr(libc::gai_strerror(error)).to_string_lossy().into_owned());
        }
        let mut all = Vec::new();
        let mut at: *const libc::addrinfo = first;
        while let Some(info) = at.as_ref() {
            all.extend(socket_address(info.ai_addr));
            at = info.ai_next;
        }
        libc::freeaddrinfo(first);
        Ok(all)
    }
}

/// # Safety
/// Null, or an address of the length that its family has.
unsafe fn socket_address(p: *const libc::sockaddr) -> Option<SocketAddr> {
    // SAFETY: the caller promises what the callee asks for.
    unsafe {
        match i32::from(p.as_ref()?.sa_family) {
            libc::AF_INET => {
                let v4 = p.cast::<libc::sockaddr_in>().read_unaligned();
                Some(SocketAddr::new(
                    Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into(),
                    u16::from_be(v4.sin_port),
                ))
            }
            libc::AF_INET6 => {
                let v6 = p.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(SocketAddr::new(Ipv6Addr::from(v6.sin6_addr.s6_addr).into(), u16::from_be(v6.sin6_port)))
            }
            _ => None,
        }
    }
}

/// Returns what a node and a service name here. A node that is this machine to itself (`localhost`) is any host.
fn name(node: Option<&str>, service: Option<&str>, numeric: bool) -> Result<Name, String> {
    if node.is_none() && service.is_none() {
        return Ok(Name::ANY);
    }
    let found = find(node, service, numeric)
        .map_err(|why| format!("node {} and service {}: {why}", node.unwrap_or("-"), service.unwrap_or("-")))?;
    let service = found.first().map_or(0, |found| found.port());
    let host = found.iter().map(|found| found.ip().to_canonical()).collect::<Vec<_>>();
    let anywhere = host.iter().any(|host| host.is_loopback() || host.is_unspecified());
    // Hosts are told by IPv4 rather than by IPv6: they have addresses of both.
    let host = host.iter().find(|host| host.is_ipv4()).or(host.first()).copied();
    Ok(Name { host: host.filter(|_| !anywhere), service })
}

/// Returns what a node and a service address: the node may also be the text of an address.
pub(crate) fn address(node: Option<&str>, service: Option<&str>, numeric: bool) -> Result<Address, String> {
    match node.and_then(Address::parse) {
        Some(address) if service.is_none() => Ok(address),
        _ => name(node, service, numeric).map(Address::Name),
    }
}

/// The addresses of this host that others may know it by.
pub(crate) fn own_hosts() -> Vec<IpAddr> {
    let mut all = Vec::new();
    // SAFETY: a list that the system makes and that is freed below; addresses are as long as their families say.
    unsafe {
        let mut first = std::ptr::null_mut();
        if libc::getifaddrs(&mut first) != 0 {
            return all;
        }
        let mut at: *const libc::ifaddrs = first;
        while let Some(interface) = at.as_ref() {
            all.extend(socket_address(interface.ifa_addr).map(|address| address.ip().to_canonical()));
            at = interface.ifa_next;
        }
        libc::freeifaddrs(first);
    }
    all.retain(|host| !host.is_loopback());
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_services_are_names() {
        let name = |node, service| name(node, service, true);
        assert_eq!(name(None, None), Ok(Name::ANY));
        assert_eq!(name(None, Some("9228")), Ok(Name { host: None, service: 9228 }));
        for here in ["127.0.0.1", "127.0.0.2", "::1", "0.0.0.0"] {
            assert_eq!(name(Some(here), Some("7")), Ok(Name { host: None, service: 7 }), "{here}");
        }
        let host = Some("192.0.2.7".parse().expect("an address"));
        assert_eq!(name(Some("192.0.2.7"), None), Ok(Name { host, service: 0 }));
        let error = name(Some("not a host"), Some("1")).expect_err("no address");
        assert!(error.contains("not a host"), "{error}");
    }

    #[test]
    fn addresses_of_this_host_are_not_those_that_every_host_has() {
        assert!(own_hosts().iter().all(|host| !host.is_loopback()));
    }
}
