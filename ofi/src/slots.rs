//! Things with numbers that others name: a number that has been given back is not that of the next thing in its place.

const INDEX_BITS: u32 = 18;
const INDEX: u32 = (1 << INDEX_BITS) - 1;

/// Most things at once.
pub(crate) const MOST: usize = INDEX as usize;

struct Slot<T> {
    serial: u32,
    thing: Option<T>,
}

/// Numbered things.
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    taken: usize,
}

impl<T> Slots<T> {
    pub(crate) const fn new() -> Slots<T> {
        Slots { slots: Vec::new(), free: Vec::new(), taken: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    pub(crate) fn is_full(&self) -> bool {
        self.taken >= MOST
    }

    /// # Panics
    /// If there are [`MOST`] things; see [`Slots::is_full`].
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        self.taken += 1;
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize].thing = Some(thing);
                index
            }
            None => {
                assert!(self.slots.len() < MOST, "{MOST} numbers are taken");
                // Serials begin at 1, so that no number is 0.
                self.slots.push(Slot { serial: 1, thing: Some(thing) });
                self.slots.len() as u32 - 1
            }
        };
        self.slots[index as usize].serial << INDEX_BITS | index
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        let slot = self.slots.get((id & INDEX) as usize)?;
        if slot.serial == id >> INDEX_BITS { slot.thing.as_ref() } else { None }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        let slot = self.slots.get_mut((id & INDEX) as usize)?;
        if slot.serial == id >> INDEX_BITS { slot.thing.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let slot = self.slots.get_mut((id & INDEX) as usize).filter(|slot| slot.serial == id >> INDEX_BITS)?;
        let thing = slot.thing.take()?;
        slot.serial = (slot.serial + 1) & (u32::MAX >> INDEX_BITS);
        slot.serial += u32::from(slot.serial == 0);
        self.free.push(id & INDEX);
        self.taken -= 1;
        Some(thing)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| Some((slot.serial << INDEX_BITS | index as u32, slot.thing.as_ref()?)))
    }

    pub(crate) fn ids(&self, keep: impl Fn(&T) -> bool) -> Vec<u32> {
        self.iter().filter(|(_, thing)| keep(thing)).map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_one_thing_only() {
        let mut slots = Slots::new();
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
}
