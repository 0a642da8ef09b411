//! Teams, and their collectives.
//!
//! Every member calls the same collectives in the same order. Members tell each other which one they are in, so a program
//! where they differ ends with an error that names both, and never with one PE's data in another one's place.

use super::element::Operation;
use super::post::{Post, StreamId, Tag};
use super::symmetric::Symmetric;
use crate::error::{Error, Result};
use angara_net::words;
use angara_net::words::Word as _;
use bytemuck::Pod;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

words! {
    /// Collectives, which messages name by their numbers.
    #[derive(Debug)]
    pub(super) enum Routine {
        /// [`Team::barrier`].
        Barrier = "barrier",
        /// [`Team::all_reduce`].
        AllReduce = "all_reduce",
        /// [`Team::reduce`].
        Reduce = "reduce",
        /// [`Team::broadcast`].
        Broadcast = "broadcast",
        /// [`Team::collect`].
        Collect = "collect",
        /// [`Team::all_to_all`].
        AllToAll = "all_to_all",
        /// [`Team::scan`].
        Scan = "scan",
        /// [`Team::split`].
        Split = "split",
        /// [`super::World::array`].
        Array = "array",
        /// [`super::World::local`].
        Local = "local",
        /// [`super::World::expose`].
        Expose = "expose",
        /// [`super::World::channel`].
        Channel = "channel",
    }
}

/// The name of a routine by its number.
fn named(number: u16) -> &'static str {
    Routine::WORDS.get(usize::from(number)).map_or("something else", |(_, name, _)| name)
}

/// Some PEs of the job, numbered from 0, that do something together.
pub struct Team<'w> {
    symmetric: Arc<Symmetric>,
    post: Rc<RefCell<Post>>,
    /// Name of its messages.
    stream: StreamId,
    /// PEs of the job, by their number in the team.
    members: Vec<usize>,
    me: usize,
    /// Collectives so far.
    count: Cell<u32>,
    /// Teams that this PE has named.
    named: Rc<Cell<u64>>,
    world: PhantomData<&'w ()>,
}

/// A collective that a member is in.
pub(super) struct Call<'t> {
    team: &'t Team<'t>,
    tag: Tag,
    routine: Routine,
}

impl Call<'_> {
    fn n(&self) -> usize {
        self.team.members.len()
    }

    fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        let Team { post, stream, members, .. } = self.team;
        post.borrow_mut().send(*stream, members[to], self.tag, bytes)
    }

    /// The message of member `from`, which is in the same collective, or this fails.
    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        let Team { post, stream, members, .. } = self.team;
        let pe = members[from];
        let name = self.routine.word();
        let (tag, bytes) = post.borrow_mut().receive(*stream, pe, &|| format!("{name}: PE {pe} to take part"))?;
        if tag != self.tag {
            let (there, here) = (named(tag.routine), tag.count.wrapping_add(1));
            return Err(Error::invalid(format!(
                "PE {pe} is in {there} (its collective number {here} of this team), this PE in {name} (number {}); all members call the same ones in the same order",
                self.tag.count.wrapping_add(1)
            )));
        }
        Ok(bytes)
    }

    /// Elements of member `from`: as many as here, or this fails.
    fn receive_elements<T: Pod>(&self, from: usize, len: usize) -> Result<Vec<T>> {
        let bytes = self.receive(from)?;
        if bytes.len() == len * size_of::<T>() {
            return self.elements(from, &bytes);
        }
        let (pe, name, given, size) = (self.team.members[from], self.routine.word(), bytes.len(), size_of::<T>());
        Err(Error::invalid(format!(
            "{name}: PE {pe} has {given} bytes where {len} elements of {size} bytes are due; all members give as many"
        )))
    }

    /// What member `from` has given, as many elements as it is, or this fails.
    fn elements<T: Pod>(&self, from: usize, bytes: &[u8]) -> Result<Vec<T>> {
        let (pe, name, given, size) = (self.team.members[from], self.routine.word(), bytes.len(), size_of::<T>());
        if given.is_multiple_of(size) {
            return Ok(bytemuck::pod_collect_to_vec(bytes));
        }
        Err(Error::invalid(format!("{name}: PE {pe} has {given} bytes, which are not elements of {size}")))
    }

    /// Combines what all members have in the order of their numbers; member 0 has it all then.
    fn to_first<T: Pod>(&self, op: &impl Operation<T>, values: &mut [T]) -> Result<()> {
        let me = self.team.me;
        let mut distance = 1;
        while distance < self.n() {
            if me & distance != 0 {
                return self.send(me - distance, bytemuck::cast_slice(values));
            }
            if me + distance < self.n() {
                let higher = self.receive_elements::<T>(me + distance, values.len())?;
                values.iter_mut().zip(higher).for_each(|(v, higher)| *v = op.combine(*v, higher));
            }
            distance *= 2;
        }
        Ok(())
    }

    /// Gives all members what `root` has.
    fn from<T: Pod>(&self, root: usize, values: &mut [T]) -> Result<()> {
        let n = self.n();
        let me = (self.team.me + n - root) % n;
        let member = |i: usize| (i + root) % n;
        let mut distance = n.next_power_of_two();
        // Whoever has its lowest bit at `distance` gets it from the one without.
        let own = if me == 0 { distance } else { 1 << me.trailing_zeros() };
        if me > 0 {
            let given = self.receive_elements::<T>(member(me - own), values.len())?;
            values.copy_from_slice(&given);
        }
        distance = own / 2;
        while distance > 0 {
            if me + distance < n {
                self.send(member(me + distance), bytemuck::cast_slice(values))?;
            }
            distance /= 2;
        }
        Ok(())
    }

    pub(super) fn all_reduce<T: Pod>(&self, op: &impl Operation<T>, values: &mut [T]) -> Result<()> {
        self.to_first(op, values)?;
        self.from(0, values)
    }

    /// What each member has, by its number.
    fn collect(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (n, me) = (self.n(), self.team.me);
        // The parts of this member and of those behind it.
        let mut parts = vec![mine.to_vec()];
        while parts.len() < n {
            let many = parts.len().min(n - parts.len());
            let distance = parts.len();
            let mut bytes = Vec::new();
            for part in &parts[..many] {
                bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
                bytes.extend_from_slice(part);
            }
            self.send((me + n - distance) % n, &bytes)?;
            let come = self.receive((me + distance) % n)?;
            parts.extend(unpack(&come, many).ok_or_else(|| Error::invalid("collect: a message is cut off"))?);
        }
        parts.rotate_right(me);
        Ok(parts)
    }
}

/// Parts that lie one behind the other, each behind its length.
fn unpack(mut bytes: &[u8], count: usize) -> Option<Vec<Vec<u8>>> {
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        let (len, rest) = bytes.split_first_chunk::<8>()?;
        let len = u64::from_le_bytes(*len) as usize;
        parts.push(rest.get(..len)?.to_vec());
        bytes = &rest[len..];
    }
    Some(parts)
}

impl<'w> Team<'w> {
    /// The team of all PEs.
    pub(super) fn all(symmetric: &Arc<Symmetric>, post: Post) -> Team<'w> {
        let (me, n) = (symmetric.job.my_pe(), symmetric.job.n_pes());
        Team {
            symmetric: symmetric.clone(),
            post: Rc::new(RefCell::new(post)),
            stream: 0,
            members: (0..n).collect(),
            me,
            count: Cell::new(0),
            named: Rc::new(Cell::new(0)),
            world: PhantomData,
        }
    }

    pub(super) fn post(&self) -> &Rc<RefCell<Post>> {
        &self.post
    }

    /// Number of members.
    pub fn n_pes(&self) -> usize {
        self.members.len()
    }
    /// Number of this PE in the team.
    pub fn my_pe(&self) -> usize {
        self.me
    }
    /// PEs of the job, by their number in the team: what [`super::Exposed::at`] takes.
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// Enters a collective.
    pub(super) fn enter(&self, routine: Routine) -> Result<Call<'_>> {
        self.symmetric.called(routine.word())?;
        let count = self.count.replace(self.count.get().wrapping_add(1));
        Ok(Call { team: self, tag: Tag { routine: routine as u16, count }, routine })
    }

    /// Refuses a member that does not exist.
    fn check(&self, routine: Routine, member: usize) -> Result<()> {
        if member < self.n_pes() {
            return Ok(());
        }
        let (name, n) = (routine.word(), self.n_pes());
        Err(Error::invalid(format!("{name}: PE {member} of a team of {n}: they are numbered 0 to {}", n - 1)))
    }

    /// Returns when all members have entered, and everything that they had issued before has taken effect.
    pub fn barrier(&self) -> Result<()> {
        let call = self.enter(Routine::Barrier)?;
        self.symmetric.quiet_threads()?;
        if self.stream == 0 {
            return self.symmetric.job.quiet_barrier();
        }
        self.symmetric.job.ctx().quiet()?;
        let (n, mut distance) = (self.n_pes(), 1);
        while distance < n {
            call.send((self.me + distance) % n, &[])?;
            call.receive((self.me + n - distance) % n)?;
            distance *= 2;
        }
        Ok(())
    }

    /// Combines the elements of all members, each with those at the same index; every member gets the result, the same bits.
    pub fn all_reduce<T: Pod>(&self, op: impl Operation<T>, values: &mut [T]) -> Result<()> {
        self.enter(Routine::AllReduce)?.all_reduce(&op, values)
    }

    /// [`Team::all_reduce`] of one value.
    pub fn reduce_one<T: Pod>(&self, op: impl Operation<T>, value: T) -> Result<T> {
        let mut values = [value];
        self.all_reduce(op, &mut values)?;
        Ok(values[0])
    }

    /// [`Team::all_reduce`] of which only member `root` gets the result. What the others have in `values` then is not said.
    pub fn reduce<T: Pod>(&self, root: usize, op: impl Operation<T>, values: &mut [T]) -> Result<()> {
        self.check(Routine::Reduce, root)?;
        let call = self.enter(Routine::Reduce)?;
        call.to_first(&op, values)?;
        match (root, self.me) {
            (0, _) => {}
            (_, 0) => call.send(root, bytemuck::cast_slice(values))?,
            (root, me) if root == me => values.copy_from_slice(&call.receive_elements(0, values.len())?),
            _ => {}
        }
        Ok(())
    }

    /// Gives all members the elements that member `root` has.
    pub fn broadcast<T: Pod>(&self, root: usize, values: &mut [T]) -> Result<()> {
        self.check(Routine::Broadcast, root)?;
        self.enter(Routine::Broadcast)?.from(root, values)
    }

    /// The elements of all members one behind the other, as many of each as it has.
    pub fn collect<T: Pod>(&self, mine: &[T]) -> Result<Vec<T>> {
        Ok(self.collect_parts(mine)?.concat())
    }

    /// [`Team::collect`], apart for each member.
    pub fn collect_parts<T: Pod>(&self, mine: &[T]) -> Result<Vec<Vec<T>>> {
        let call = self.enter(Routine::Collect)?;
        let parts = call.collect(bytemuck::cast_slice(mine))?;
        parts.iter().enumerate().map(|(from, part)| call.elements(from, part)).collect()
    }

    /// Sends part `i` of `values` to member `i`, and returns the parts that all have sent here, by member. All parts are of one
    /// length.
    ///
    /// Errors: a number of elements that is no multiple of the members.
    pub fn all_to_all<T: Pod>(&self, values: &[T]) -> Result<Vec<T>> {
        let (n, me, len) = (self.n_pes(), self.me, values.len());
        if !len.is_multiple_of(n) {
            return Err(Error::invalid(format!("all_to_all: {len} elements are no equal parts for {n} PEs")));
        }
        let (call, part) = (self.enter(Routine::AllToAll)?, len / n);
        let mut all = values.to_vec();
        for i in 1..n {
            let (to, from) = ((me + i) % n, (me + n - i) % n);
            call.send(to, bytemuck::cast_slice(&values[to * part..][..part]))?;
            all[from * part..][..part].copy_from_slice(&call.receive_elements(from, part)?);
        }
        Ok(all)
    }

    /// [`Team::all_to_all`] of parts that differ in length: `parts[i]` goes to member `i`.
    ///
    /// Errors: more or fewer parts than members.
    pub fn all_to_all_parts<T: Pod>(&self, parts: &[Vec<T>]) -> Result<Vec<Vec<T>>> {
        let (n, me) = (self.n_pes(), self.me);
        if parts.len() != n {
            return Err(Error::invalid(format!("all_to_all: {} parts for {n} PEs", parts.len())));
        }
        let call = self.enter(Routine::AllToAll)?;
        let mut all = vec![Vec::new(); n];
        all[me].clone_from(&parts[me]);
        for i in 1..n {
            let (to, from) = ((me + i) % n, (me + n - i) % n);
            call.send(to, bytemuck::cast_slice(&parts[to]))?;
            all[from] = call.elements(from, &call.receive(from)?)?;
        }
        Ok(all)
    }

    /// Combines the elements of this member with those of all members before it.
    pub fn scan<T: Pod>(&self, op: impl Operation<T>, values: &mut [T]) -> Result<()> {
        let call = self.enter(Routine::Scan)?;
        let (me, n) = (self.me, self.n_pes());
        let mut distance = 1;
        while distance < n {
            if me + distance < n {
                call.send(me + distance, bytemuck::cast_slice(values))?;
            }
            if me >= distance {
                let lower = call.receive_elements::<T>(me - distance, values.len())?;
                values.iter_mut().zip(lower).for_each(|(v, lower)| *v = op.combine(lower, *v));
            }
            distance *= 2;
        }
        Ok(())
    }

    /// Combines the elements of all members before this one; member 0 gets `first`.
    pub fn exclusive_scan<T: Pod>(&self, op: impl Operation<T>, first: T, values: &mut [T]) -> Result<()> {
        self.scan(op, values)?;
        let call = self.enter(Routine::Scan)?;
        if self.me + 1 < self.n_pes() {
            call.send(self.me + 1, bytemuck::cast_slice(values))?;
        }
        match self.me.checked_sub(1) {
            Some(before) => values.copy_from_slice(&call.receive_elements(before, values.len())?),
            None => values.fill(first),
        }
        Ok(())
    }

    /// Makes a team of the members that give the same `color`, in the order of `key` and then of their numbers here. Who gives
    /// none is in no team.
    pub fn split(&self, color: Option<u32>, key: i64) -> Result<Option<Team<'w>>> {
        let call = self.enter(Routine::Split)?;
        // The first member names the teams, by numbers that it has given to none before.
        let mine = [color.map_or(0, |c| u64::from(c) + 1), key as u64, self.named.get()];
        let all = call.collect(bytemuck::cast_slice(&mine))?;
        let rows = all.iter().map(|row| <[u64; 3]>::try_from(bytemuck::pod_collect_to_vec::<u8, u64>(row)));
        let rows = rows.collect::<Result<Vec<_>, _>>().map_err(|_| Error::invalid("split: a message is cut off"))?;
        let mut colors: Vec<u64> = rows.iter().map(|row| row[0]).filter(|color| *color > 0).collect();
        colors.sort_unstable();
        colors.dedup();
        if self.me == 0 {
            self.named.set(self.named.get() + colors.len() as u64);
        }
        let Some(index) = color.and_then(|c| colors.binary_search(&(u64::from(c) + 1)).ok()) else { return Ok(None) };
        let mut members: Vec<(i64, usize)> = Vec::new();
        let same = rows.iter().zip(&self.members).filter(|(row, _)| row[0] == mine[0]);
        members.extend(same.map(|(row, pe)| (row[1] as i64, *pe)));
        members.sort_by_key(|(key, _)| *key);
        let members: Vec<usize> = members.into_iter().map(|(_, pe)| pe).collect();
        let here = self.symmetric.job.my_pe();
        Ok(Some(Team {
            symmetric: self.symmetric.clone(),
            post: self.post.clone(),
            stream: name(self.members[0], rows[0][2] + index as u64),
            me: members.iter().position(|pe| *pe == here).unwrap_or(0),
            members,
            count: Cell::new(0),
            named: self.named.clone(),
            world: PhantomData,
        }))
    }

    /// Fails on every member if members differ in what they say; an error names the first of them that does.
    pub(super) fn agree(&self, call: &Call<'_>, mine: &[u64], what: impl Fn(&[u64]) -> String) -> Result<()> {
        let mut both: Vec<u64> = mine.iter().copied().chain(mine.iter().map(|w| !w)).collect();
        call.all_reduce(&super::And, &mut both)?;
        let same = mine.iter().enumerate().all(|(i, _)| both[i] == !both[mine.len() + i]);
        if same {
            return Ok(());
        }
        let all = call.collect(bytemuck::cast_slice(mine))?;
        let of = |bytes: &Vec<u8>| bytemuck::pod_collect_to_vec::<u8, u64>(bytes);
        let other = all.iter().map(of).enumerate().find(|(_, theirs)| *theirs != mine);
        let (i, theirs) = other.unwrap_or((self.me, mine.to_vec()));
        let (name, pe) = (call.routine.word(), self.members[i]);
        Err(Error::invalid(format!("{name}: PE {pe} has {}, this PE {}", what(&theirs), what(mine))))
    }
}

/// Name number `count` of those that PE `first` gives to teams.
fn name(first: usize, count: u64) -> StreamId {
    ((first as u64 + 1) << 40 | count) << 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routines_have_the_names_of_their_numbers() {
        assert_eq!(named(Routine::Barrier as u16), "barrier");
        assert_eq!(named(Routine::Channel as u16), "channel");
        assert_eq!(named(Routine::Channel as u16 + 1), "something else");
    }

    #[test]
    fn parts_that_are_cut_off_are_refused() {
        let mut bytes = 3u64.to_le_bytes().to_vec();
        bytes.extend([1, 2, 3]);
        assert_eq!(unpack(&bytes, 1), Some(vec![vec![1, 2, 3]]));
        assert_eq!((unpack(&bytes, 2), unpack(&bytes[..10], 1)), (None, None));
        assert_eq!(unpack(&u64::MAX.to_le_bytes(), 1), None);
    }
}
