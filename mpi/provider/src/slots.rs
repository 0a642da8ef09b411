//! Things with numbers that others name: a number that has been given back is never that of another thing.

/// A number: where a thing is, and how often somebody has been there before.
pub(crate) trait Number: Copy {
    const INDEX_BITS: u32;
    const SERIAL_BITS: u32;
    fn new(bits: u64) -> Self;
    fn bits(self) -> u64;
}

/// Endpoints, whose numbers are part of addresses, and other objects that a program opens.
impl Number for u32 {
    const INDEX_BITS: u32 = 18;
    const SERIAL_BITS: u32 = 14;
    #[inline]
    fn new(bits: u64) -> u32 {
        bits as u32
    }
    #[inline]
    fn bits(self) -> u64 {
        u64::from(self)
    }
}

/// Number of an operation under way: as large as a [`Head`](crate::wire::Head) has room for.
impl Number for u64 {
    const INDEX_BITS: u32 = 24;
    const SERIAL_BITS: u32 = 24;
    #[inline]
    fn new(bits: u64) -> u64 {
        bits
    }
    #[inline]
    fn bits(self) -> u64 {
        self
    }
}

struct Slot<T> {
    serial: u32,
    thing: Option<T>,
}

/// Numbered things.
pub(crate) struct Slots<T, N = u32> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    taken: usize,
    number: std::marker::PhantomData<N>,
}

impl<T, N: Number> Slots<T, N> {
    /// Most places: those whose serials are used up count.
    const PLACES: usize = (1 << N::INDEX_BITS) - 1;
    const LAST_SERIAL: u32 = (1 << N::SERIAL_BITS) - 1;

    pub(crate) const fn new() -> Slots<T, N> {
        Slots { slots: Vec::new(), free: Vec::new(), taken: 0, number: std::marker::PhantomData }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() >= Self::PLACES
    }

    fn number(index: usize, serial: u32) -> N {
        N::new(u64::from(serial) << N::INDEX_BITS | index as u64)
    }

    #[inline]
    fn index(number: N) -> usize {
        (number.bits() & ((1 << N::INDEX_BITS) - 1)) as usize
    }

    #[inline]
    fn is_of(slot: &Slot<T>, number: N) -> bool {
        u64::from(slot.serial) == number.bits() >> N::INDEX_BITS
    }

    /// # Panics
    /// If there is no place; see [`Slots::is_full`].
    pub(crate) fn insert(&mut self, thing: T) -> N {
        self.taken += 1;
        let index = match self.free.pop() {
            Some(index) => index as usize,
            None => {
                assert!(self.slots.len() < Self::PLACES, "{} numbers are taken", Self::PLACES);
                // Serials begin at 1, so that no number is 0.
                self.slots.push(Slot { serial: 1, thing: None });
                self.slots.len() - 1
            }
        };
        let slot = &mut self.slots[index];
        slot.thing = Some(thing);
        Self::number(index, slot.serial)
    }

    #[inline]
    pub(crate) fn get(&self, number: N) -> Option<&T> {
        let slot = self.slots.get(Self::index(number))?;
        if Self::is_of(slot, number) { slot.thing.as_ref() } else { None }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: N) -> Option<&mut T> {
        let slot = self.slots.get_mut(Self::index(number))?;
        if Self::is_of(slot, number) { slot.thing.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, number: N) -> Option<T> {
        let index = Self::index(number);
        let slot = self.slots.get_mut(index).filter(|slot| Self::is_of(slot, number))?;
        let thing = slot.thing.take()?;
        self.taken -= 1;
        // A place whose serials are used up stays empty: no number comes back.
        if slot.serial < Self::LAST_SERIAL {
            slot.serial += 1;
            self.free.push(index as u32);
        }
        Some(thing)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (N, &T)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(index, slot)| Some((Self::number(index, slot.serial), slot.thing.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.thing.as_mut())
    }

    pub(crate) fn ids(&self, keep: impl Fn(&T) -> bool) -> Vec<N> {
        self.iter().filter(|(_, thing)| keep(thing)).map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_one_thing_only() {
        let mut slots: Slots<i32> = Slots::new();
        let mut former = Vec::new();
        for i in 0..100 {
            let id = slots.insert(i);
            assert!(id != 0 && !former.contains(&id));
            assert!(former.iter().all(|id| slots.get(*id).is_none()));
            assert_eq!(slots.remove(id), Some(i));
            assert_eq!(slots.remove(id), None);
            former.push(id);
        }
        let (a, b) = (slots.insert(1), slots.insert(2));
        assert_eq!((slots.get(a), slots.get(b), slots.len()), (Some(&1), Some(&2), 2));
        assert_eq!(slots.ids(|thing| *thing == 2), [b]);
    }

    #[test]
    fn no_number_comes_back_when_the_serials_of_a_place_are_used_up() {
        let mut slots: Slots<()> = Slots::new();
        let mut former = std::collections::HashSet::new();
        for _ in 0..3 << u32::SERIAL_BITS {
            let id = slots.insert(());
            assert!(former.insert(id), "{id:#x} was given before");
            slots.remove(id);
        }
        assert_eq!(slots.slots.len(), 4, "a place for as many numbers as there are serials, 1 to the last");
    }

    #[test]
    fn there_are_millions_of_what_is_under_way() {
        let mut slots: Slots<(), u64> = Slots::new();
        let last = (0..1 << 21).map(|_| slots.insert(())).last().expect("many");
        assert!(!slots.is_full() && slots.get(last).is_some() && last < 1 << 48);
    }
}
