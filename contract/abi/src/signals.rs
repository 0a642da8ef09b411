//! Threads without signals: those are the program's, whose handlers do not expect to run on a thread that is not.

/// No signal handler runs on the calling thread while this lives, nor ever on threads that it starts meanwhile.
pub struct NoSignals {
    before: libc::sigset_t,
    /// It is the thread's that made it.
    thread: std::marker::PhantomData<*const ()>,
}

impl NoSignals {
    /// From now on.
    #[allow(clippy::new_without_default, reason = "it does something")]
    pub fn new() -> NoSignals {
        // SAFETY: two sets of signals on this thread's stack.
        unsafe {
            let (mut every, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut every);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const every, &raw mut before);
            NoSignals { before, thread: std::marker::PhantomData }
        }
    }
}

impl Drop for NoSignals {
    fn drop(&mut self) {
        // SAFETY: the set that was there before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}
