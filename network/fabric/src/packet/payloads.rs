//! Payloads of packets, in reusable slots.

use crate::routes::NONE;
use angara_abi::PAYLOAD_MAX;
use bytes::Bytes;

/// Payload slots with a count of users: each of 256 bytes, or as long as a train's data.
#[derive(Default, Debug)]
pub(crate) struct Payloads {
    data: Vec<[u8; PAYLOAD_MAX]>,
    users: Vec<u16>,
    free: Vec<u32>,
    /// Contents of trains; their slots have [`TRAIN`] set.
    trains: Vec<Bytes>,
    train_users: Vec<u16>,
    free_trains: Vec<u32>,
}

/// Marks slots of trains.
const TRAIN: u32 = 1 << 30;

impl Payloads {
    /// A slot with one user; its old contents are still in it.
    #[inline]
    pub(crate) fn alloc(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.users[slot as usize] = 1;
            return slot;
        }
        self.data.push([0; PAYLOAD_MAX]);
        self.users.push(1);
        self.data.len() as u32 - 1
    }
    /// A slot for what a train carries, with one user.
    pub(crate) fn alloc_train(&mut self, contents: Bytes) -> u32 {
        if let Some(slot) = self.free_trains.pop() {
            (self.trains[slot as usize], self.train_users[slot as usize]) = (contents, 1);
            return slot | TRAIN;
        }
        self.trains.push(contents);
        self.train_users.push(1);
        (self.trains.len() as u32 - 1) | TRAIN
    }
    #[inline]
    pub(crate) fn retain(&mut self, slot: u32) {
        if slot == NONE {
        } else if slot & TRAIN == 0 {
            self.users[slot as usize] += 1;
        } else {
            self.train_users[(slot & !TRAIN) as usize] += 1;
        }
    }
    #[inline]
    pub(crate) fn release(&mut self, slot: u32) {
        if slot == NONE {
            return;
        }
        if slot & TRAIN != 0 {
            return self.release_train(slot & !TRAIN);
        }
        let users = &mut self.users[slot as usize];
        debug_assert!(*users > 0, "payload {slot} released twice");
        *users -= 1;
        if *users == 0 {
            self.free.push(slot);
        }
    }
    #[inline(never)]
    fn release_train(&mut self, slot: u32) {
        let users = &mut self.train_users[slot as usize];
        debug_assert!(*users > 0, "train {slot} released twice");
        *users -= 1;
        if *users == 0 {
            self.trains[slot as usize] = Bytes::new();
            self.free_trains.push(slot);
        }
    }
    #[inline]
    pub(crate) fn get(&self, slot: u32, len: usize) -> &[u8] {
        match slot {
            NONE => &[],
            _ if slot & TRAIN == 0 => &self.data[slot as usize][..len],
            _ => &self.train(slot)[..len],
        }
    }
    /// Returns what a train carries.
    pub(crate) fn train(&self, slot: u32) -> &Bytes {
        &self.trains[(slot & !TRAIN) as usize]
    }
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut [u8; PAYLOAD_MAX] {
        &mut self.data[slot as usize]
    }
    pub(crate) fn in_use(&self) -> usize {
        self.data.len() - self.free.len() + self.trains.len() - self.free_trains.len()
    }
}
