//! The world: this PE's part in its job.

use super::array::{Exposed, Local};
use super::channel::{self, Channel};
use super::context::Context;
use super::element::Fits;
use super::post::Post;
use super::symmetric::Symmetric;
use super::team::{Routine, Team};
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::job::Job;
use angara_protocol::env;
use bytemuck::Pod;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

/// This process has or had a world.
static BEGUN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// What the last panic of this thread said, and where it was.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// This process as one PE of a job, and the operations of its main thread ([`Context`]). [`World::all`] is the team of all PEs.
///
/// When it is dropped, this PE leaves: what it has issued is complete, and others may go on reading and writing its arrays. If
/// the thread panics, the job ends with what it said and where.
pub struct World {
    context: Context<'static>,
    all: Team<'static>,
    channels: Cell<u64>,
    /// Some thread has a stream of its own.
    threads: Cell<bool>,
}

impl Deref for World {
    type Target = Context<'static>;
    #[inline(always)]
    fn deref(&self) -> &Context<'static> {
        &self.context
    }
}

impl World {
    /// Joins the job that a launcher, such as `angara run`, has started this process for. Without one the job has this PE
    /// alone. Returns when all PEs have joined.
    ///
    /// Errors: a second world; whatever keeps this process from joining.
    pub fn init() -> Result<World> {
        if BEGUN.swap(true, Ordering::AcqRel) {
            return Err(Error::invalid(
                "this process has, or had, a world: it is one PE and joins its job once; hand on a reference",
            ));
        }
        World::join().inspect_err(|_| BEGUN.store(false, Ordering::Release))
    }

    fn join() -> Result<World> {
        let heap = || {
            let asked = env::symmetric_size(|name| std::env::var_os(name)).map_err(Error::Invalid)?;
            Ok(asked.unwrap_or(env::DEFAULT_HEAP) as usize)
        };
        let job = Arc::new(Job::start(&[], heap)?);
        let post = Post::open(&job)?;
        let symmetric = Arc::new(Symmetric::new(job.clone(), Post::bytes(job.n_pes()))?);
        listen_to_panics();
        job.barrier(false)?;
        let all = Team::all(&symmetric, post);
        let context = Context::new(symmetric, None);
        Ok(World { context, all, channels: Cell::new(0), threads: Cell::new(false) })
    }

    fn job(&self) -> &Arc<Job> {
        &self.context.symmetric().job
    }

    /// Number of this PE.
    #[inline]
    pub fn my_pe(&self) -> usize {
        self.job().my_pe()
    }
    /// Number of PEs.
    #[inline]
    pub fn n_pes(&self) -> usize {
        self.job().n_pes()
    }
    /// The driver's view of the same job: the network's shape, nodes, traffic. What it writes by itself to memory of arrays is
    /// its caller's responsibility.
    pub fn driver(&self) -> &Job {
        self.job()
    }

    /// The team of all PEs.
    pub fn all(&self) -> &Team<'_> {
        &self.all
    }

    /// [`Team::barrier`] of all PEs.
    pub fn barrier(&self) -> Result<()> {
        self.all.barrier()
    }

    /// A stream of operations for another thread.
    pub fn context(&self) -> Result<Context<'_>> {
        let symmetric = self.context.symmetric();
        let adapter = &symmetric.job.adapter;
        if !self.threads.replace(true) {
            adapter.with_threads();
        }
        let mut ctx = Ctx::new(adapter.clone());
        ctx.with_threads();
        let stream = Arc::new(ctx);
        symmetric.add(&stream);
        Ok(Context::new(symmetric.clone(), Some(stream)))
    }

    /// Makes an array of `len` elements on every PE, all zero. All PEs call this, with the same type and length.
    ///
    /// Errors, on every PE: types or lengths that differ, too little memory.
    pub fn array<T: Pod>(&self, len: usize) -> Result<Exposed<'_, T>> {
        let () = Fits::<T>::CHECKED;
        let symmetric = self.context.symmetric();
        let call = self.all.enter(Routine::Array)?;
        symmetric.quiet_all()?;
        let asked = symmetric.asked::<T>(len);
        let what = |words: &[u64]| format!("array {} of {} elements of {} bytes", words[0], words[2], words[1]);
        self.all.agree(&call, &asked, what)?;
        let mut dropped = symmetric.dropped();
        call.all_reduce(&super::And, &mut dropped)?;
        let block = symmetric.take(asked, &dropped)?;
        // Nobody writes to the block before all have cleared it.
        self.all.barrier()?;
        Ok(Exposed::new(block, len))
    }

    /// Makes an array that is this PE's alone, until it is exposed. All PEs call this, with the same type and length.
    ///
    /// Errors: as [`World::array`].
    pub fn local_array<T: Pod>(&self, len: usize) -> Result<Local<'_, T>> {
        let (block, len) = self.array::<T>(len)?.into_block();
        Ok(Local::new(block, len))
    }

    /// From now on other PEs may read and write the array. All PEs call this, with the same array.
    ///
    /// Errors, on every PE: arrays that differ. The array is lost then.
    pub fn expose<'w, T: Pod>(&self, array: Local<'w, T>) -> Result<Exposed<'w, T>> {
        self.change(Routine::Expose, array.id())?;
        let (block, len) = array.into_block();
        Ok(Exposed::new(block, len))
    }

    /// Returns when everything that was issued before, by anybody, has taken effect; from then on the array is this PE's alone.
    /// All PEs call this, with the same array.
    ///
    /// Errors, on every PE: arrays that differ. The array is lost then.
    pub fn local<'w, T: Pod>(&self, array: Exposed<'w, T>) -> Result<Local<'w, T>> {
        self.change(Routine::Local, array.id())?;
        let (block, len) = array.into_block();
        Ok(Local::new(block, len))
    }

    fn change(&self, routine: Routine, id: u64) -> Result<()> {
        let call = self.all.enter(routine)?;
        self.context.symmetric().quiet_all()?;
        self.all.agree(&call, &[id], |words| format!("array {}", words[0]))
    }

    /// Opens a channel for values of `T` between all PEs. All PEs call this.
    ///
    /// Errors, on every PE: types of different size.
    pub fn channel<T: Pod>(&self) -> Result<Channel<'_, T>> {
        let () = Fits::<T>::CHECKED;
        let call = self.all.enter(Routine::Channel)?;
        let count = self.channels.replace(self.channels.get() + 1);
        self.all.agree(&call, &[size_of::<T>() as u64], |words| format!("values of {} bytes", words[0]))?;
        Ok(Channel::new(self.context.symmetric(), self.all.post(), channel::name(count)))
    }

    /// Computes for `ns` nanoseconds, as the program says: they pass in virtual time, else this thread works as long.
    pub fn compute(&self, ns: u64) -> Result<()> {
        self.job().compute(ns)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let job = self.job();
        if std::thread::panicking() {
            let why = PANIC.with_borrow_mut(Option::take).unwrap_or_else(|| "panic".into());
            return job.abort(101, &why, false);
        }
        // Where that fails the job has ended, or the process ends with the error of an operation before.
        let _ = self.context.symmetric().quiet_all();
        job.detach();
    }
}

/// Remembers what a panic says, for the job to end with.
fn listen_to_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let place = info.location().map_or(String::new(), |at| format!(" at {at}"));
            let payload = info.payload();
            let owned = || payload.downcast_ref::<String>().map(String::as_str);
            let text = payload.downcast_ref::<&str>().copied().or_else(owned).unwrap_or("panic");
            let said = PANIC.try_with(|said| said.replace(Some(format!("panicked{place}: {text}"))));
            drop(said);
            before(info);
        }));
    });
}
