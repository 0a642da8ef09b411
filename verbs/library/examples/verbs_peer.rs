//! One of two processes that write, read, add and send to each other, with every byte checked. It uses whatever
//! libibverbs is preloaded, and no headers of one.
//!
//! `verbs_peer DIRECTORY NUMBER ROUNDS`: the number is 0 or 1; both leave in the directory what the other has to know. It
//! ends with 0 after so many rounds, with 3 once a completion has failed, with 2 where there is no adapter.

use angara_verbs_library::abi::structs::*;
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, mem, process, ptr};

/// Bytes of each area: where the other writes, what it is written from, where is read to, two to receive.
const AREA: usize = 1 << 20;
const SIZES: [usize; 7] = [0, 1, 100, 4096, 5000, 70_000, AREA - 8];
/// Longer than any wait that has no reason.
const PATIENCE: Duration = Duration::from_secs(120);
const ALL_RIGHTS: c_int = 15;

/// A function of the preloaded library.
fn function<T: Copy>(name: &CStr) -> T {
    // SAFETY: a name.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if at.is_null() {
        eprintln!("no {name:?}: is the library preloaded?");
        process::exit(2);
    }
    assert_eq!(size_of::<T>(), size_of::<*mut c_void>());
    // SAFETY: the caller names the type that the function has.
    unsafe { mem::transmute_copy(&at) }
}

/// What the other one has to know.
#[derive(Clone, Copy)]
struct Address {
    lid: u16,
    qp: u32,
    key: u32,
    at: u64,
}

struct Peer {
    me: u64,
    context: *mut ibv_context,
    cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    mr: *mut ibv_mr,
    memory: *mut u8,
    lid: u16,
    /// An empty write is on its way that only asks whether the other one is there.
    asks: Cell<bool>,
}

/// Who hears nothing for so long asks.
const SILENCE: Duration = Duration::from_millis(100);
const ASKING: u64 = 500;

fn no_adapter(what: &str) -> ! {
    eprintln!("{what}: {}", std::io::Error::last_os_error());
    process::exit(2)
}

impl Peer {
    fn open(me: u64) -> Peer {
        let list = function::<unsafe extern "C" fn(*mut c_int) -> *mut *mut ibv_device>(c"ibv_get_device_list");
        let open = function::<unsafe extern "C" fn(*mut ibv_device) -> *mut ibv_context>(c"ibv_open_device");
        let query =
            function::<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int>(c"ibv_query_port");
        let pd = function::<unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_pd>(c"ibv_alloc_pd");
        type Register = unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
        let register = function::<Register>(c"ibv_reg_mr");
        type CreateCq =
            unsafe extern "C" fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
        let create_cq = function::<CreateCq>(c"ibv_create_cq");
        type CreateQp = unsafe extern "C" fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
        let create_qp = function::<CreateQp>(c"ibv_create_qp");
        // SAFETY: functions as infiniband/verbs.h declares them, each given what the one before has returned.
        unsafe {
            let mut count = 0;
            let all = list(&raw mut count);
            if all.is_null() || count == 0 {
                no_adapter("no device");
            }
            let context = open(*all);
            if context.is_null() {
                no_adapter("the device does not open");
            }
            let mut port: ibv_port_attr = mem::zeroed();
            assert_eq!(query(context, 1, &raw mut port), 0);
            let pd = pd(context);
            assert!(!pd.is_null());
            let memory = libc::mmap(
                ptr::null_mut(),
                5 * AREA,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(memory, libc::MAP_FAILED);
            let mr = register(pd, memory, 5 * AREA, ALL_RIGHTS);
            let cq = create_cq(context, 64, ptr::null_mut(), ptr::null_mut(), 0);
            assert!(!mr.is_null() && !cq.is_null());
            let mut init: ibv_qp_init_attr = mem::zeroed();
            (init.send_cq, init.recv_cq, init.qp_type, init.sq_sig_all) = (cq, cq, 2, 1);
            init.cap =
                ibv_qp_cap { max_send_wr: 16, max_recv_wr: 16, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
            let qp = create_qp(pd, &raw mut init);
            assert!(!qp.is_null());
            Peer { me, context, cq, qp, mr, memory: memory.cast(), lid: port.lid, asks: Cell::new(false) }
        }
    }

    /// Leaves the own address, and waits for the other's.
    fn meet(&self, dir: &Path) -> Address {
        // SAFETY: objects that are alive.
        let (qp, key) = unsafe { ((*self.qp).qp_num, (*self.mr).rkey) };
        let text = format!("{} {} {} {}", self.lid, qp, key, self.memory as u64);
        let own = dir.join(self.me.to_string());
        fs::write(own.with_extension("new"), text).expect("written");
        fs::rename(own.with_extension("new"), own).expect("renamed");
        let began = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(dir.join((1 - self.me).to_string())) {
                let words: Vec<u64> = text.split(' ').map(|word| word.parse().expect("a number")).collect();
                return Address { lid: words[0] as u16, qp: words[1] as u32, key: words[2] as u32, at: words[3] };
            }
            assert!(began.elapsed() < PATIENCE, "the other one does not come");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn connect(&self, to: Address) {
        type Modify = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
        let modify = function::<Modify>(c"ibv_modify_qp");
        let mut attr = ibv_qp_attr { port_num: 1, qp_access_flags: 14, dest_qp_num: to.qp, ..ibv_qp_attr::default() };
        (attr.path_mtu, attr.ah_attr.dlid, attr.ah_attr.port_num) = (5, to.lid, 1);
        (attr.max_rd_atomic, attr.max_dest_rd_atomic, attr.min_rnr_timer) = (4, 4, 1);
        (attr.timeout, attr.retry_cnt, attr.rnr_retry) = (14, 2, 7);
        let steps = [
            (1, 1 | 8 | 16 | 32),
            (2, 1 | 128 | 256 | 1 << 20 | 1 << 12 | 1 << 17 | 1 << 15),
            (3, 1 | 512 | 1024 | 2048 | 1 << 16 | 1 << 13),
        ];
        for (state, mask) in steps {
            attr.qp_state = state;
            // SAFETY: a queue pair that is alive, and attributes.
            assert_eq!(unsafe { modify(self.qp, &raw mut attr, mask) }, 0, "to {state}");
        }
    }

    fn area(&self, number: usize) -> *mut u8 {
        // SAFETY: there are five.
        unsafe { self.memory.add(number * AREA) }
    }
    fn element(&self, area: usize, len: usize) -> ibv_sge {
        // SAFETY: a region that is alive.
        ibv_sge { addr: self.area(area) as u64, length: len as u32, lkey: unsafe { (*self.mr).lkey } }
    }

    fn receive(&self, round: usize) {
        let mut sge = self.element(3 + round % 2, AREA);
        let mut wr =
            ibv_recv_wr { wr_id: 1000 + round as u64, next: ptr::null_mut(), sg_list: &raw mut sge, num_sge: 1 };
        let mut bad = ptr::null_mut();
        // SAFETY: a queue pair, its context, and a request on the stack.
        let posted = unsafe { ((*self.context).ops.post_recv.expect("there"))(self.qp, &raw mut wr, &raw mut bad) };
        assert_eq!(posted, 0, "a receive");
    }

    /// `opcode` as `enum ibv_wr_opcode` numbers them.
    fn post(&self, opcode: u32, place: (usize, usize), at: u64, key: u32) {
        self.post_as(opcode.into(), opcode, place, (at, key));
    }
    fn post_as(&self, wr_id: u64, opcode: u32, (area, len): (usize, usize), (at, key): (u64, u32)) {
        let mut sge = self.element(area, len);
        // SAFETY: integers and pointers may be 0.
        let mut wr: ibv_send_wr = unsafe { mem::zeroed() };
        (wr.wr_id, wr.sg_list, wr.num_sge, wr.opcode, wr.send_flags) = (wr_id, &raw mut sge, 1, opcode, 2);
        match opcode {
            6 => wr.wr.atomic = Atomic { remote_addr: at, compare_add: 1, swap: 0, rkey: key },
            _ => wr.wr.rdma = Rdma { remote_addr: at, rkey: key },
        }
        let mut bad = ptr::null_mut();
        // SAFETY: as above.
        let posted = unsafe { ((*self.context).ops.post_send.expect("there"))(self.qp, &raw mut wr, &raw mut bad) };
        assert_eq!(posted, 0, "a request of kind {opcode}");
    }

    /// The next completion. One that failed ends the program.
    fn next(&self) -> ibv_wc {
        let began = Instant::now();
        loop {
            // SAFETY: a completion queue, its context, room for one.
            let (count, wc) = unsafe {
                let mut wc: ibv_wc = mem::zeroed();
                (((*self.context).ops.poll_cq.expect("there"))(self.cq, 1, &raw mut wc), wc)
            };
            assert!(count >= 0);
            if count == 1 && wc.status != 0 {
                println!("failed: status {} of {}", wc.status, wc.wr_id);
                process::exit(3);
            }
            if count == 1 && wc.wr_id == ASKING {
                self.asks.set(false);
            } else if count == 1 {
                return wc;
            }
            if began.elapsed() > SILENCE && !self.asks.replace(true) {
                self.post_as(ASKING, 0, (1, 0), (0, 0));
            }
            assert!(began.elapsed() < PATIENCE, "no completion");
            std::thread::yield_now();
        }
    }

    fn fill(&self, who: u64, round: usize, len: usize, area: usize) {
        // SAFETY: an area of the own memory, which nothing is written to now.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.area(area), len) };
        bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = pattern(who, round, i));
    }
    fn check(&self, who: u64, round: usize, len: usize, area: usize) {
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(self.area(area), len) };
        let wrong = (0..len).find(|i| bytes[*i] != pattern(who, round, *i));
        assert_eq!(wrong, None, "round {round}, {len} bytes of {who} in area {area}");
    }

    fn round(&self, round: usize, to: Address) {
        let len = SIZES[round % SIZES.len()];
        self.receive(round + 1);
        self.fill(self.me, round, len, 1);
        self.post(0, (1, len), to.at, to.key);
        self.post(4, (2, len), to.at, to.key);
        let mut come = self.wait(&[0, 4]);
        self.check(self.me, round, len, 2);
        self.post(6, (2, 8), to.at + AREA as u64 - 8, to.key);
        self.post(2, (1, len), 0, 0);
        come += self.wait(&[6, 2]);
        // SAFETY: the word that the addition has brought.
        let old = unsafe { self.area(2).cast::<u64>().read_volatile() };
        assert_eq!(old, round as u64, "nobody else adds");
        while come == 0 {
            come = self.wait_one(&mut Vec::new());
        }
        assert_eq!(come, 1000 + round as u64);
        self.check(1 - self.me, round, len, 3 + round % 2);
    }

    /// Waits for these, in order. Returns the receive that came between, or 0.
    fn wait(&self, kinds: &[u64]) -> u64 {
        let mut left = kinds.to_vec();
        let mut came = 0;
        while !left.is_empty() {
            came += self.wait_one(&mut left);
        }
        came
    }
    fn wait_one(&self, left: &mut Vec<u64>) -> u64 {
        let wc = self.next();
        if wc.wr_id >= 1000 {
            return wc.wr_id;
        }
        assert_eq!(left.first(), Some(&wc.wr_id), "completions are not in order");
        left.remove(0);
        0
    }
}

fn pattern(who: u64, round: usize, i: usize) -> u8 {
    (who as usize * 101 + round * 13 + i * 7 + i / 251) as u8
}

/// A child that ends at once, as programs do, and one that becomes another program.
fn fork() {
    for becomes in [false, true] {
        // SAFETY: the child calls nothing that needs other threads.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let program = [c"true".as_ptr(), ptr::null()];
            // SAFETY: a list that ends.
            unsafe {
                if becomes {
                    libc::execvp(program[0], program.as_ptr());
                }
                libc::exit(0);
            }
        }
        let mut status = -1;
        // SAFETY: room for a status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child ends well");
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, dir, me, rounds] = &words[..] else { panic!("DIRECTORY NUMBER ROUNDS") };
    println!("pid {}", process::id());
    let peer = Peer::open(me.parse().expect("0 or 1"));
    let to = peer.meet(Path::new(dir));
    peer.connect(to);
    peer.receive(0);
    for round in 0..rounds.parse().expect("a number") {
        peer.round(round, to);
        if round == 0 {
            fork();
            println!("goes");
        }
    }
    println!("done");
}
