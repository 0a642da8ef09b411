//! Capabilities of the provider, and whether a program's request fits them.

use crate::abi::constants::*;
use crate::abi::structs::*;
use crate::address::{Address, Name};
use crate::provider::Outcome;
use crate::{ATOMIC_MAX, INJECT_MAX, MESSAGE_MAX, ORDERED_MAX, memory::PIECES};
use angara_protocol::mpi::MpiCosts;
use std::ptr::null_mut;

/// Request of a program, as far as it says.
#[derive(Default)]
pub(crate) struct Hints {
    pub(crate) caps: u64,
    pub(crate) addr_format: u32,
    pub(crate) tx: Option<TxAttr>,
    pub(crate) rx: Option<RxAttr>,
    pub(crate) ep: Option<EpAttr>,
    pub(crate) domain: Option<DomainAttr>,
    pub(crate) provider: Option<String>,
    pub(crate) domain_name: Option<String>,
    pub(crate) fabric_name: Option<String>,
    /// Addresses; an error if they are of another kind.
    pub(crate) source: Option<Outcome<Address>>,
    pub(crate) destination: Option<Outcome<Address>>,
}

/// Signs in the environment that this provider is meant.
pub(crate) struct Meant {
    /// `FI_PROVIDER`.
    pub(crate) filter: Option<String>,
    /// `ANGARA_JOB` or `ANGARA_DOMAIN` is set.
    pub(crate) launched: bool,
}

impl Meant {
    /// Of this process.
    pub(crate) fn here() -> Meant {
        let is_set = |name: &str| std::env::var_os(name).is_some();
        Meant { filter: std::env::var("FI_PROVIDER").ok(), launched: is_set("ANGARA_JOB") || is_set("ANGARA_DOMAIN") }
    }
}

/// An answer. Its pointers are null until it is given out.
pub(crate) struct Offer {
    pub(crate) info: Info,
    pub(crate) tx: TxAttr,
    pub(crate) rx: RxAttr,
    pub(crate) ep: EpAttr,
    pub(crate) domain: DomainAttr,
    pub(crate) source: Address,
    pub(crate) destination: Option<Address>,
}

/// Capabilities that are had by asking.
const PRIMARY: u64 = MSG | RMA | TAGGED | ATOMIC;
const MODIFIERS: u64 = READ | WRITE | RECV | SEND | REMOTE_READ | REMOTE_WRITE;
const SECONDARY: u64 = MULTI_RECV | SOURCE | DIRECTED_RECV | RMA_EVENT | LOCAL_COMM | REMOTE_COMM | FENCE;
// Peers being near or far is a matter of the domain, not of contexts.
const TX_CAPS: u64 = PRIMARY | SEND | READ | WRITE | FENCE;
const RX_CAPS: u64 = PRIMARY | RECV | REMOTE_READ | REMOTE_WRITE | MULTI_RECV | SOURCE | DIRECTED_RECV | RMA_EVENT;
const TX_FLAGS: u64 = COMPLETION | INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE | MATCH_COMPLETE;
const RX_FLAGS: u64 = COMPLETION | MULTI_RECV;
const ORDER: u64 = ORDER_SAS | ORDER_PAIRS | ORDER_RMA;

const OPERATIONS: usize = 4096;
const MANY: usize = 1 << 12;

pub(crate) const NAME: &str = "angara";

/// The capabilities that an answer has: with none asked for, all.
fn caps(asked: u64) -> Result<u64, String> {
    let all = PRIMARY | MODIFIERS | SECONDARY;
    if asked & !all != 0 {
        return Err(format!("capabilities {:#x} are not offered", asked & !all));
    }
    if asked & (PRIMARY | MODIFIERS | SECONDARY & !(LOCAL_COMM | REMOTE_COMM)) == 0 {
        return Ok(all);
    }
    let primary = if asked & PRIMARY == 0 { PRIMARY } else { asked & PRIMARY };
    let mut modifiers = 0;
    if primary & (MSG | TAGGED) != 0 {
        modifiers |= if asked & (SEND | RECV) == 0 { SEND | RECV } else { asked & (SEND | RECV) };
    }
    if primary & (RMA | ATOMIC) != 0 {
        let kinds = READ | WRITE | REMOTE_READ | REMOTE_WRITE;
        modifiers |= if asked & kinds == 0 { kinds } else { asked & kinds };
    }
    Ok(primary | modifiers | asked | LOCAL_COMM | REMOTE_COMM)
}

/// True if a filter or a hint names this provider. A list has commas, layers have semicolons.
fn names(list: &str) -> bool {
    let list = list.trim();
    match list.strip_prefix('^') {
        Some(_) => false,
        None => list.split([',', ';']).any(|name| name.trim().eq_ignore_ascii_case(NAME)),
    }
}

/// `FI_PROVIDER` names this provider, or who started the program does: another one would be a surprise.
pub(crate) fn is_named() -> bool {
    let meant = Meant::here();
    meant.launched || meant.filter.is_some_and(|filter| names(&filter))
}

fn is_meant(hints: &Hints, meant: &Meant) -> Result<(), String> {
    match (&hints.provider, &meant.filter) {
        (Some(provider), _) if names(provider) => Ok(()),
        (Some(provider), _) => Err(format!("provider {provider} is asked for")),
        (None, Some(filter)) if names(filter) => Ok(()),
        (None, _) if meant.launched => Ok(()),
        _ => {
            Err("nobody asks for it: name it in FI_PROVIDER or the hints, or start the program with `angara run`"
                .into())
        }
    }
}

/// `value` where none is asked for, else what is asked for if that is no more.
fn most(what: &str, value: usize, asked: Option<usize>) -> Result<usize, String> {
    match asked {
        Some(asked) if asked > value => Err(format!("{what} of {asked} is more than {value}")),
        _ => Ok(value),
    }
}

/// The answer to `hints`, or why there is none.
pub(crate) fn answer(version: u32, hints: &Hints, meant: &Meant) -> Result<Offer, String> {
    is_meant(hints, meant)?;
    // Intel MPI asks without a version.
    if version >= self::version(3, 0) {
        return Err(format!("API version {}.{} is not known here", version >> 16, version & 0xffff));
    }
    for (what, name) in [("domain", &hints.domain_name), ("fabric", &hints.fabric_name)] {
        if let Some(name) = name.as_ref().filter(|name| *name != NAME) {
            return Err(format!("{what} {name} is asked for, there is {NAME}"));
        }
    }
    if !matches!(hints.addr_format, 0 | ADDR_ANGARA | ADDR_STR) {
        return Err(format!(
            "address format {} is asked for, there are FI_ADDR_STR and one of our own",
            hints.addr_format
        ));
    }
    let ours = |address: Option<Outcome<Address>>| {
        address.transpose().map_err(|_| "the hints have an address of another kind".to_owned())
    };
    let (source, destination) = (ours(hints.source)?.unwrap_or(Address::Name(Name::ANY)), ours(hints.destination)?);
    let caps = caps(hints.caps)?;
    let ep = endpoint(hints.ep.as_ref())?;
    let tx = transmit(caps, hints.tx.as_ref())?;
    let rx = receive(caps, hints.rx.as_ref())?;
    let domain = domain(version, caps, hints.domain.as_ref())?;
    let info = Info {
        next: null_mut(),
        caps,
        mode: 0,
        addr_format: if hints.addr_format == ADDR_STR { ADDR_STR } else { ADDR_ANGARA },
        src_addrlen: 0,
        dest_addrlen: 0,
        src_addr: null_mut(),
        dest_addr: null_mut(),
        handle: null_mut(),
        tx_attr: null_mut(),
        rx_attr: null_mut(),
        ep_attr: null_mut(),
        domain_attr: null_mut(),
        fabric_attr: null_mut(),
        nic: null_mut(),
    };
    Ok(Offer { info, tx, rx, ep, domain, source, destination })
}

fn endpoint(asked: Option<&EpAttr>) -> Result<EpAttr, String> {
    if let Some(asked) = asked {
        if !matches!(asked.kind, 0 | EP_RDM) {
            return Err(format!("endpoints of type {} are asked for, there is FI_EP_RDM", asked.kind));
        }
        if !matches!(asked.protocol, 0 | PROTO_ANGARA) {
            return Err(format!("protocol {:#x} is asked for", asked.protocol));
        }
        // One context each; FI_SHARED_CONTEXT is not offered.
        most("number of contexts", 1, Some(asked.tx_ctx_cnt.max(asked.rx_ctx_cnt)))?;
        most("message size", MESSAGE_MAX, Some(asked.max_msg_size))?;
        if asked.auth_key_size != 0 {
            return Err("authorization keys are not offered".into());
        }
    }
    Ok(EpAttr {
        kind: EP_RDM,
        protocol: PROTO_ANGARA,
        protocol_version: 1,
        max_msg_size: MESSAGE_MAX,
        msg_prefix_size: 0,
        max_order_raw_size: ORDERED_MAX,
        max_order_war_size: ORDERED_MAX,
        max_order_waw_size: ORDERED_MAX,
        mem_tag_format: asked.map_or(0, |asked| asked.mem_tag_format).max(TAG_GENERIC),
        tx_ctx_cnt: 1,
        rx_ctx_cnt: 1,
        auth_key_size: 0,
        auth_key: null_mut(),
    })
}

fn transmit(caps: u64, asked: Option<&TxAttr>) -> Result<TxAttr, String> {
    if let Some(asked) = asked {
        if asked.caps & !(caps & TX_CAPS | LOCAL_COMM | REMOTE_COMM) != 0 {
            return Err(format!("transmit capabilities {:#x} are not offered", asked.caps & !(caps & TX_CAPS)));
        }
        if asked.op_flags & !TX_FLAGS != 0 {
            return Err(format!("transmit flags {:#x} are not offered", asked.op_flags & !TX_FLAGS));
        }
        order(asked.msg_order)?;
        most("inject size", inject_size(), Some(asked.inject_size))?;
        most("number of transmit operations", OPERATIONS, Some(asked.size))?;
        most("number of pieces", PIECES, Some(asked.iov_limit.max(asked.rma_iov_limit)))?;
    }
    Ok(TxAttr {
        caps: some_of(caps & TX_CAPS, asked.map(|asked| asked.caps)),
        mode: 0,
        op_flags: asked.map_or(0, |asked| asked.op_flags),
        msg_order: ORDER,
        comp_order: 0,
        inject_size: inject_size(),
        size: OPERATIONS,
        iov_limit: PIECES,
        rma_iov_limit: PIECES,
        tclass: 0,
    })
}

/// What is injected is sent at once. Where time is virtual, a machine may say that less is.
fn inject_size() -> usize {
    MpiCosts::from_env().map_or(INJECT_MAX, |costs| INJECT_MAX.min(costs.eager as usize))
}

fn receive(caps: u64, asked: Option<&RxAttr>) -> Result<RxAttr, String> {
    if let Some(asked) = asked {
        if asked.caps & !(caps & RX_CAPS | LOCAL_COMM | REMOTE_COMM) != 0 {
            return Err(format!("receive capabilities {:#x} are not offered", asked.caps & !(caps & RX_CAPS)));
        }
        if asked.op_flags & !RX_FLAGS != 0 {
            return Err(format!("receive flags {:#x} are not offered", asked.op_flags & !RX_FLAGS));
        }
        order(asked.msg_order)?;
        most("number of receives", OPERATIONS, Some(asked.size))?;
        most("number of pieces", PIECES, Some(asked.iov_limit))?;
    }
    Ok(RxAttr {
        caps: some_of(caps & RX_CAPS, asked.map(|asked| asked.caps)),
        mode: 0,
        op_flags: asked.map_or(0, |asked| asked.op_flags),
        msg_order: ORDER,
        comp_order: 0,
        total_buffered_recv: 0,
        size: OPERATIONS,
        iov_limit: PIECES,
    })
}

/// Those of `all` that are asked for, or all of them.
fn some_of(all: u64, asked: Option<u64>) -> u64 {
    match asked.map_or(0, |asked| asked & all) {
        0 => all,
        some => some,
    }
}

fn order(asked: u64) -> Result<(), String> {
    match asked & !ORDER {
        0 => Ok(()),
        other => Err(format!("message order {other:#x} is not offered")),
    }
}

/// Registration as the program knows it: until 1.4 it chose between two ways; since then it lists what it can do, and less
/// is asked of it here.
fn mr_mode(version: u32, asked: i32) -> i32 {
    match asked {
        MR_BASIC => MR_BASIC,
        MR_SCALABLE => MR_SCALABLE,
        0 if version < self::version(1, 5) => MR_SCALABLE,
        _ => 0,
    }
}

fn domain(version: u32, caps: u64, asked: Option<&DomainAttr>) -> Result<DomainAttr, String> {
    if let Some(asked) = asked {
        most("size of a key", 8, Some(asked.mr_key_size))?;
        most("size of completion data", 8, Some(asked.cq_data_size))?;
        for (what, count) in [("queues", asked.cq_cnt), ("endpoints", asked.ep_cnt), ("counters", asked.cntr_cnt)] {
            most(what, MANY, Some(count))?;
        }
        if asked.caps & !(LOCAL_COMM | REMOTE_COMM) != 0 {
            return Err(format!("domain capabilities {:#x} are not offered", asked.caps));
        }
        if asked.auth_key_size != 0 {
            return Err("authorization keys are not offered".into());
        }
    }
    let or = |get: fn(&DomainAttr) -> i32, other: i32| asked.map(get).filter(|value| *value != 0).unwrap_or(other);
    let auto = asked.is_some_and(|a| a.control_progress == PROGRESS_AUTO || a.data_progress == PROGRESS_AUTO);
    let progress = if auto { PROGRESS_AUTO } else { PROGRESS_MANUAL };
    Ok(DomainAttr {
        domain: null_mut(),
        name: null_mut(),
        threading: or(|a| a.threading, THREAD_SAFE),
        control_progress: progress,
        data_progress: progress,
        resource_mgmt: RM_ENABLED,
        // Both kinds are the same here: 0 is no preference.
        av_type: or(|a| a.av_type, 0),
        mr_mode: mr_mode(version, asked.map_or(0, |asked| asked.mr_mode)),
        mr_key_size: 8,
        cq_data_size: 8,
        cq_cnt: MANY,
        ep_cnt: MANY,
        tx_ctx_cnt: MANY,
        rx_ctx_cnt: MANY,
        max_ep_tx_ctx: 1,
        max_ep_rx_ctx: 1,
        max_ep_stx_ctx: 0,
        max_ep_srx_ctx: 0,
        cntr_cnt: MANY,
        mr_iov_limit: PIECES,
        caps: caps & (LOCAL_COMM | REMOTE_COMM),
        mode: 0,
        auth_key: null_mut(),
        auth_key_size: 0,
        max_err_data: 0,
        mr_cnt: 1 << 20,
        tclass: 0,
    })
}

// The shortest longest message of a mailbox has 2 KiB.
const _: () = assert!(2 * ATOMIC_MAX + 4 * 24 + 36 <= 2048);

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(caps: u64) -> Hints {
        Hints { caps, provider: Some("angara".into()), ..Hints::default() }
    }
    const NOBODY: Meant = Meant { filter: None, launched: false };

    #[test]
    fn it_answers_only_when_it_is_meant() {
        let plain = Hints::default();
        let told = |filter: &str, launched| {
            answer(version(1, 17), &plain, &Meant { filter: (!filter.is_empty()).then(|| filter.into()), launched })
                .is_ok()
        };
        assert!(!told("", false) && !told("tcp,verbs", false) && !told("^angara", false) && !told("^tcp", false));
        assert!(told("angara", false) && told("tcp, angara", false) && told("", true));
        assert!(answer(version(1, 17), &asked(0), &NOBODY).is_ok());
        let other = Hints { provider: Some("tcp".into()), ..Hints::default() };
        assert!(answer(version(1, 17), &other, &Meant { filter: Some("angara".into()), launched: true }).is_err());
    }

    #[test]
    fn what_is_asked_for_is_answered() {
        let caps = |asked_for| answer(version(2, 0), &asked(asked_for), &NOBODY).map(|offer| offer.info.caps).ok();
        assert_eq!(caps(0), Some(PRIMARY | MODIFIERS | SECONDARY));
        assert_eq!(caps(MSG), Some(MSG | SEND | RECV | LOCAL_COMM | REMOTE_COMM));
        assert_eq!(caps(TAGGED | SEND), Some(TAGGED | SEND | LOCAL_COMM | REMOTE_COMM));
        assert_eq!(caps(RMA | REMOTE_READ), Some(RMA | REMOTE_READ | LOCAL_COMM | REMOTE_COMM));
        assert_eq!(caps(1 << 5), None, "multicast");
        assert_eq!(caps(1 << 47 | MSG), None, "device memory");
        assert!(answer(version(9, 0), &asked(0), &NOBODY).is_err());
        assert!(answer(0, &asked(0), &NOBODY).is_ok());
    }

    #[test]
    fn contexts_have_what_the_endpoint_has_and_nothing_of_the_domain() {
        for caps in [0, MSG, TAGGED | LOCAL_COMM, RMA | ATOMIC | REMOTE_COMM] {
            let offer = answer(version(1, 17), &asked(caps), &NOBODY).expect("offered");
            assert_eq!((offer.tx.caps | offer.rx.caps) & (LOCAL_COMM | REMOTE_COMM), 0, "{caps:#x}");
            assert_eq!((offer.tx.caps | offer.rx.caps) & !offer.info.caps, 0, "{caps:#x}");
            assert_eq!((offer.tx.caps | offer.rx.caps) & caps, caps & !(LOCAL_COMM | REMOTE_COMM), "{caps:#x}");
        }
        let tx = TxAttr { caps: MSG | LOCAL_COMM, ..answer(version(1, 17), &asked(0), &NOBODY).expect("offered").tx };
        let hints = Hints { tx: Some(tx), ..asked(MSG | TAGGED) };
        assert_eq!(answer(version(1, 17), &hints, &NOBODY).map(|offer| offer.tx.caps).ok(), Some(MSG));
    }

    #[test]
    fn registration_is_as_the_program_knows_it() {
        assert_eq!([0, 1, 2].map(|mode| mr_mode(version(1, 4), mode)), [MR_SCALABLE, MR_BASIC, MR_SCALABLE]);
        assert_eq!([0, 1, 2, 1 << 4].map(|mode| mr_mode(version(1, 17), mode)), [0, MR_BASIC, MR_SCALABLE, 0]);
    }
}
