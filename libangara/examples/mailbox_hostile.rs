//! A PE that writes nonsense into the mailboxes of all others, where its own words and messages go, beside PEs whose messages
//! must not notice.
//!
//! ```text
//! angara run -n 4 --path ring target/release/examples/mailbox_hostile MESSAGES    PE 1 is the hostile one
//! target/release/examples/mailbox_hostile domain                                  hostile to all in the domain, until it is killed
//! ```

use angara::angara_abi::account::Class;
use angara::angara_abi::desc::{Place, Region};
use angara::angara_abi::random::SplitMix;
use angara::mailbox::{Mailbox, Peer, SendError};
use angara::open::Join;
use angara::{Amo, AmoOp, Error, Job, Launch, Result};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(100);
/// Bytes of a seat of libfabric's domains.
const SEAT: usize = 96 << 20;
const HOSTILE: usize = 1;
const SLOT: usize = 256;
const LINE: usize = 64;

/// Where things are in a mailbox, as `docs/explain/mailbox.md` says.
struct Layout {
    start: u64,
    pes: usize,
    slots: usize,
    rings: usize,
}

impl Layout {
    fn new(mailbox: &Mailbox, at: Place) -> Layout {
        let pes = mailbox.job().n_pes();
        let slots = mailbox.message_max() * 4 / SLOT;
        Layout { start: at.offset, pes, slots, rings: Mailbox::bytes(pes) - pes * slots * SLOT }
    }
    fn place(&self, offset: usize) -> Place {
        Place { region: Region::Heap, offset: self.start + offset as u64 }
    }
    fn lane(&self, seat: usize) -> usize {
        (LINE + self.pes.div_ceil(64) * 8).next_multiple_of(LINE) + seat * LINE
    }
    fn ring(&self, seat: usize) -> usize {
        self.rings + seat * self.slots * SLOT
    }
    /// For words between this program's PEs, behind the mailbox.
    fn behind(&self) -> usize {
        Mailbox::bytes(self.pes).next_multiple_of(4096)
    }
}

fn write(job: &Job, pe: usize, place: Place, bytes: &[u8]) -> Result<()> {
    // SAFETY: a live slice of its own length.
    unsafe { job.ctx().put(Class::Put, pe, place, bytes.as_ptr(), bytes.len()) }
}

/// One piece of nonsense to `to`: words and slots that only this PE should write there, as mailboxes never write them, or a
/// message of random bytes.
fn nonsense(mailbox: &mut Mailbox, layout: &Layout, to: usize, random: &mut SplitMix) -> Result<()> {
    let (me, peer) = (mailbox.me(), mailbox.peer(to));
    let job = mailbox.job().clone();
    let tag = me.generation.rotate_left(16) ^ peer.generation;
    let any = random.draw();
    let (lane, ring) = (layout.lane(me.seat as usize), layout.ring(me.seat as usize));
    let slot = ring + random.below(layout.slots as u64) as usize * SLOT;
    match random.below(8) {
        // A contact of another generation, or of none.
        0 => write(&job, to, layout.place(lane), &any.to_le_bytes())?,
        1 => write(
            &job,
            to,
            layout.place(lane),
            &(u64::from(u32::MAX) | u64::from(peer.generation) << 32).to_le_bytes(),
        )?,
        // Credit for what was never sent.
        2 => {
            let credit = u64::from(any as u32) | u64::from(tag) << 32;
            write(&job, to, layout.place(lane + 8), &credit.to_le_bytes())?;
        }
        // A slot that looks right, of any number and length.
        3 => {
            let pair = u64::from(me.generation) | u64::from(peer.generation) << 32;
            let seal = any & 0xffff_0000_0000_00ff | u64::from(tag) << 16;
            write(&job, to, layout.place(slot + SLOT - 16), &[pair.to_le_bytes(), seal.to_le_bytes()].concat())?;
        }
        4 => write(&job, to, layout.place(slot), &[any as u8; SLOT])?,
        // Bells and bits without a contact.
        5 => {
            let amo = |op, operand| Amo { op, width: 8, operand, comparand: 0, fetch: false };
            job.ctx().amo(Class::Sync, to, layout.place(LINE), amo(AmoOp::Or, any))?;
            job.ctx().amo(Class::Sync, to, layout.place(0), amo(AmoOp::Add, any))?;
        }
        // Messages as a mailbox sends them, but with random contents.
        _ => {
            let bytes: Vec<u8> = (0..any % 600).map(|_| random.draw() as u8).collect();
            match mailbox.try_send(peer, &[IoSlice::new(&bytes)]) {
                Ok(()) | Err(SendError::Full | SendError::Gone) => {}
                Err(SendError::Job(error)) => return Err(error),
                Err(error) => panic!("{error}"),
            }
        }
    }
    Ok(())
}

/// Hostile to all that are there, until it is killed.
fn domain() -> Result<()> {
    let job = Arc::new(Join::from_env(SEAT)?.join()?.job);
    let at = job.locate(job.heap(), Mailbox::bytes(job.n_pes())).expect("room for a mailbox");
    let mut mailbox = Mailbox::open(job.clone(), at)?;
    let layout = Layout::new(&mailbox, at);
    let mut random = SplitMix(std::process::id().into());
    println!("seat {} is hostile", job.my_pe());
    loop {
        let others = (0..job.n_pes()).filter(|seat| *seat != job.my_pe() && job.pe_entry(*seat).seat.taken());
        for to in others.collect::<Vec<_>>() {
            // One that has left meanwhile is no failure.
            match nonsense(&mut mailbox, &layout, to, &mut random) {
                Ok(()) | Err(Error::Unreachable { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        mailbox.receive(100, &mut |_, _| {})?;
        // The others want cores, too.
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// The hostile PE of a job: nonsense until the others have done, then credit that cannot be.
fn hostile(mailbox: &mut Mailbox, layout: &Layout) -> Result<()> {
    let job = mailbox.job().clone();
    let mut random = SplitMix(7);
    let end = Instant::now() + PATIENCE;
    for to in (0..job.n_pes()).filter(|pe| *pe != HOSTILE).cycle() {
        nonsense(mailbox, layout, to, &mut random)?;
        mailbox.receive(100, &mut |_, _| {})?;
        if read(&job, layout, 0) == job.n_pes() as u64 - 1 {
            break;
        }
        assert!(Instant::now() < end, "the others are not done");
    }
    for to in (0..job.n_pes()).filter(|pe| *pe != HOSTILE) {
        let peer = mailbox.peer(to);
        let tag = mailbox.me().generation.rotate_left(16) ^ peer.generation;
        let credit = u64::from(u32::MAX / 4) | u64::from(tag) << 32;
        write(&job, to, layout.place(layout.lane(HOSTILE) + 8), &credit.to_le_bytes())?;
    }
    job.ctx().quiet()?;
    for to in (0..job.n_pes()).filter(|pe| *pe != HOSTILE) {
        write(&job, to, layout.place(layout.behind() + 8), &1u64.to_le_bytes())?;
    }
    job.ctx().quiet()
}

/// A word behind this PE's mailbox.
fn read(job: &Job, layout: &Layout, word: usize) -> u64 {
    let p = job.local(layout.place(layout.behind() + 8 * word)).cast::<u64>();
    // SAFETY: an aligned word of this PE's heap that others write whole.
    unsafe { std::sync::atomic::AtomicU64::from_ptr(p) }.load(std::sync::atomic::Ordering::Acquire)
}

/// Numbers among the honest PEs, beside whatever the hostile one does.
fn honest(mailbox: &mut Mailbox, layout: &Layout, count: u64) -> std::result::Result<(), SendError> {
    let job = mailbox.job().clone();
    let others: Vec<usize> = (0..job.n_pes()).filter(|pe| *pe != HOSTILE && *pe != job.my_pe()).collect();
    let (mut out, mut came) = (vec![0; job.n_pes()], vec![0; job.n_pes()]);
    let end = Instant::now() + PATIENCE;
    while others.iter().any(|pe| out[*pe] < count || came[*pe] < count) {
        assert!(Instant::now() < end, "{out:?} sent, {came:?} received of {count}");
        for &pe in &others {
            let peer = mailbox.peer(pe);
            while out[pe] < count && sends(mailbox, peer, out[pe])? {
                out[pe] += 1;
            }
        }
        let him = mailbox.peer(HOSTILE);
        match sends(mailbox, him, 0) {
            Ok(_) | Err(SendError::Gone) => {}
            Err(error) => return Err(error),
        }
        mailbox.receive(100, &mut |from, message| {
            if from.seat as usize != HOSTILE {
                let mut number = [0; 8];
                message.copy(0, &mut number);
                assert_eq!(
                    (message.len() as u64, u64::from_le_bytes(number)),
                    (8 + came[from.seat as usize] % 500, came[from.seat as usize])
                );
                came[from.seat as usize] += 1;
            }
        })?;
    }
    let done = Amo { op: AmoOp::Add, width: 8, operand: 1, comparand: 0, fetch: false };
    job.ctx().amo(Class::Sync, HOSTILE, layout.place(layout.behind()), done)?;
    // Whose credit cannot be is not sent to any more.
    job.wait(|| read(&job, layout, 1) == 1, &|| "the hostile PE's last word".into())?;
    let him = mailbox.peer(HOSTILE);
    while !matches!(sends(mailbox, him, 0), Err(SendError::Gone)) {
        assert!(Instant::now() < end, "impossible credit was taken for real");
    }
    Ok(())
}

fn sends(mailbox: &mut Mailbox, to: Peer, number: u64) -> std::result::Result<bool, SendError> {
    let rest = vec![0; (number % 500) as usize];
    match mailbox.try_send(to, &[IoSlice::new(&number.to_le_bytes()), IoSlice::new(&rest)]) {
        Ok(()) => Ok(true),
        Err(SendError::Full) => Ok(false),
        Err(error) => Err(error),
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let argument = std::env::args().nth(1).unwrap_or_default();
    if argument == "domain" {
        return Ok(domain()?);
    }
    let count = argument.parse()?;
    let job = Arc::new(Job::attach(&Launch::from_env()?, &[])?);
    let at = job.locate(job.heap(), Mailbox::bytes(job.n_pes()) + 8192).expect("room for a mailbox: --heap");
    let mut mailbox = Mailbox::open(job.clone(), at)?;
    let layout = Layout::new(&mailbox, at);
    match job.my_pe() {
        HOSTILE => hostile(&mut mailbox, &layout)?,
        _ => honest(&mut mailbox, &layout, count).map_err(|error| format!("PE {}: {error}", job.my_pe()))?,
    }
    job.barrier(false)?;
    println!("PE {}: ok", job.my_pe());
    job.detach();
    Ok(())
}
