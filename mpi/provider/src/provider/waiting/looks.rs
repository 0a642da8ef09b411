//! Looks in vain, where time is virtual: after how many a call stands still, and when it believes that nothing can happen.

use crate::provider::here::Here;

/// Looks in vain after which one who waits stands still. A library may need some to go on by itself.
const VAIN: u32 = 8;
/// The same of Open MPI, which does at every eighth look what it thinks can wait.
const VAIN_OPEN_MPI: u32 = 32;
/// Set in every process that its launcher starts.
const OPEN_MPI: &str = "OMPI_COMM_WORLD_RANK";
/// The same after it has been told that nothing can happen any more, before it believes that.
const VAIN_AT_LAST: u32 = 200_000;
/// After this many looks in vain a call that has not yielded will not.
const NEVER_YIELDS: u32 = 4 * VAIN_OPEN_MPI;

/// Looks in vain within a call that waits.
pub(crate) struct Looks {
    /// Those since something was sent or came, or the library was told of something but that there is no message.
    vain: u32,
    /// The number of that call.
    call: u32,
    /// It is to stand once it has no lock that other threads need ...
    is_to_stand: bool,
    /// ... which is where it yields, if it does. The number of the last call in which somebody has.
    yields_in: Option<u32>,
    /// [`VAIN`] here.
    most: u32,
    /// Nothing can happen any more, it was told, unless this process goes on by itself.
    in_doubt: bool,
    /// A question is being asked, and what it is about may have come already.
    pub(in crate::provider) asks: bool,
}

impl Looks {
    pub(in crate::provider) fn new() -> Looks {
        let most = if std::env::var_os(OPEN_MPI).is_some() { VAIN_OPEN_MPI } else { VAIN };
        Looks { vain: 0, call: 0, is_to_stand: false, yields_in: None, most, in_doubt: false, asks: false }
    }

    /// A message has come.
    #[inline]
    pub(in crate::provider) fn something_came(&mut self) {
        (self.vain, self.in_doubt) = (0, false);
    }

    /// The library above has something to do, or is told of something, without a message that has come just now.
    #[inline]
    pub(in crate::provider) fn goes_on(&mut self, here: &Here) {
        here.adapter().changes_something();
        self.end(here);
    }

    /// Looks in vain that come after this are counted from 0.
    #[inline]
    fn end(&mut self, here: &Here) {
        if self.vain > 0 || self.in_doubt {
            self.went_on(here);
        }
    }

    /// A call has gone on by itself after N looks in vain, or after it stood although it could.
    #[cold]
    #[inline(never)]
    fn went_on(&mut self, here: &Here) {
        let stood = if self.in_doubt { self.most } else { 0 };
        let looks = std::mem::take(&mut self.vain) + stood;
        // Where threads take turns, somebody else may have gone on: those looks were no way of the library to go on.
        if here.adapter().takes_turns() && here.adapter().blocking_call() != Some(self.call) {
            return;
        }
        here.adapter().went_on_after(looks, looks <= self.most / 2);
    }

    /// One more in a call. True if they are enough to stand.
    pub(in crate::provider) fn one_more(&mut self, here: &Here, call: u32) -> bool {
        if self.call != call {
            // What another call has done, or looked for, counts in that one alone.
            self.end(here);
            self.begin(call);
            self.in_doubt = false;
        }
        self.vain += 1;
        let enough = if self.in_doubt { VAIN_AT_LAST } else { self.most };
        self.vain >= enough && !self.asks
    }

    fn begin(&mut self, call: u32) {
        (self.call, self.vain, self.is_to_stand) = (call, 0, false);
    }

    /// The call is to stand as soon as it has no lock of its library's.
    pub(in crate::provider) fn will_stand(&mut self) {
        self.is_to_stand = true;
    }

    #[inline]
    pub(crate) fn is_to_stand(&self) -> bool {
        self.is_to_stand
    }

    /// The call with this number yields. True if it is to stand here.
    pub(crate) fn yields(&mut self, call: Option<u32>) -> bool {
        self.yields_in = call;
        self.is_to_stand && call == Some(self.call)
    }

    /// True if the call with this number, which is to stand, has no better place for that than here.
    pub(crate) fn stands_without_yield(&self, call: Option<u32>) -> bool {
        let yields = self.yields_in == call && (self.in_doubt || self.vain < NEVER_YIELDS);
        call == Some(self.call) && !yields
    }

    /// The call stands where it is. True if it might go on by itself, as it has not been told that nothing can happen.
    pub(in crate::provider) fn stand_at_once(&mut self) -> bool {
        self.vain = 0;
        !self.in_doubt
    }

    /// The call stands, as it was to, while others have their turns. Returns its number, and [`Looks::stand_at_once`].
    pub(in crate::provider) fn begin_to_stand(&mut self) -> (u32, bool) {
        self.is_to_stand = false;
        (self.call, self.stand_at_once())
    }

    /// A call has stood while others made theirs.
    pub(in crate::provider) fn is_back(&mut self, here: &Here, call: u32) {
        self.end(here);
        self.begin(call);
    }

    pub(in crate::provider) fn doubt(&mut self, in_doubt: bool) {
        self.in_doubt = in_doubt;
    }
}
