//! Lists through the elements of a slab, so that an element can be in several and leave each in constant time.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::ops;

/// Where an element is.
pub(crate) type Index = u32;

const NONE: Index = Index::MAX;

/// Neighbours of an element in one list.
#[derive(Clone, Copy)]
pub(super) struct Links {
    before: Index,
    after: Index,
}

impl Links {
    pub(super) const NONE: Links = Links { before: NONE, after: NONE };

    pub(super) fn next(&self) -> Option<Index> {
        (self.after != NONE).then_some(self.after)
    }
}

/// First and last element of a list.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    first: Index,
    last: Index,
}

impl Ends {
    pub(super) const NONE: Ends = Ends { first: NONE, last: NONE };

    pub(super) fn first(&self) -> Option<Index> {
        (self.first != NONE).then_some(self.first)
    }
}

/// Whatever has elements at places.
pub(super) trait Elements: ops::IndexMut<Index, Output: Sized> {}

impl<S: ops::IndexMut<Index, Output: Sized>> Elements for S {}

/// Appends the element at `at`.
pub(super) fn push<S: Elements>(
    slab: &mut S,
    ends: &mut Ends,
    at: Index,
    links: impl Fn(&mut S::Output) -> &mut Links,
) {
    *links(&mut slab[at]) = Links { before: ends.last, after: NONE };
    match ends.last {
        NONE => ends.first = at,
        last => links(&mut slab[last]).after = at,
    }
    ends.last = at;
}

/// Takes the element at `at` out.
pub(super) fn unlink<S: Elements>(
    slab: &mut S,
    ends: &mut Ends,
    at: Index,
    links: impl Fn(&mut S::Output) -> &mut Links,
) {
    let Links { before, after } = std::mem::replace(links(&mut slab[at]), Links::NONE);
    match before {
        NONE => ends.first = after,
        before => links(&mut slab[before]).after = after,
    }
    match after {
        NONE => ends.last = before,
        after => links(&mut slab[after]).before = before,
    }
}

/// Elements that stay where they are.
pub(super) struct Slab<T> {
    elements: Vec<Option<T>>,
    free: Vec<Index>,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Slab<T> {
        Slab { elements: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.elements.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, element: T) -> Index {
        match self.free.pop() {
            Some(at) => {
                self.elements[at as usize] = Some(element);
                at
            }
            None => {
                self.elements.push(Some(element));
                assert!(self.elements.len() < NONE as usize, "a slab is full");
                self.elements.len() as Index - 1
            }
        }
    }

    pub(super) fn remove(&mut self, at: Index) -> T {
        let element = self.elements[at as usize].take().expect("an element is there until it is removed");
        self.free.push(at);
        if self.len() == 0 && self.elements.len() > 4096 {
            // A burst is over: give its memory back.
            *self = Slab::new();
        }
        element
    }

    pub(super) fn into_elements(self) -> impl Iterator<Item = T> {
        self.elements.into_iter().flatten()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Index, &T)> {
        self.elements.iter().enumerate().filter_map(|(at, element)| Some((at as Index, element.as_ref()?)))
    }
}

impl<T> ops::Index<Index> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, at: Index) -> &T {
        self.elements[at as usize].as_ref().expect("an element is there until it is removed")
    }
}

impl<T> ops::IndexMut<Index> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, at: Index) -> &mut T {
        self.elements[at as usize].as_mut().expect("an element is there until it is removed")
    }
}

/// Neighbours of the elements of a slab, kept apart from them: an element is in as many lists as there are of these.
#[derive(Default)]
pub(super) struct Chains(Vec<Links>);

impl Chains {
    /// There is a place for the element at `at`.
    pub(super) fn reach(&mut self, at: Index) {
        if self.0.len() <= at as usize {
            self.0.resize(at as usize + 1, Links::NONE);
        }
    }
}

impl ops::Index<Index> for Chains {
    type Output = Links;
    fn index(&self, at: Index) -> &Links {
        &self.0[at as usize]
    }
}

impl ops::IndexMut<Index> for Chains {
    fn index_mut(&mut self, at: Index) -> &mut Links {
        &mut self.0[at as usize]
    }
}

/// Multiplies and folds. Tags come from programs of the same user, so nobody gains by collisions.
#[derive(Default)]
pub(super) struct Fold(u64);

impl Fold {
    fn add(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x2545_f491_4f6c_dd1d) * 0x9e37_79b9_7f4a_7c15_u128;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.add(u64::from(*b)));
    }
    fn write_u32(&mut self, word: u32) {
        self.add(u64::from(word));
    }
    fn write_u64(&mut self, word: u64) {
        self.add(word);
    }
}

/// Lists by key. A list without elements is not kept.
pub(super) struct Table<K>(HashMap<K, Ends, BuildHasherDefault<Fold>>);

impl<K> Default for Table<K> {
    fn default() -> Table<K> {
        Table(HashMap::default())
    }
}

impl<K: Hash + Eq> Table<K> {
    #[inline]
    pub(super) fn first(&self, key: &K) -> Option<Index> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(key).and_then(Ends::first)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn ends(&mut self, key: K) -> &mut Ends {
        self.0.entry(key).or_insert(Ends::NONE)
    }

    pub(super) fn tidy(&mut self, key: &K) {
        if self.0.get(key).is_some_and(|ends| ends.first().is_none()) {
            self.0.remove(key);
            if self.0.is_empty() && self.0.capacity() > 4096 {
                self.0.shrink_to(0);
            }
        }
    }
}
