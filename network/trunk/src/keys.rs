//! Pre-shared keys, and what is derived from them.
//!
//! ```text
//! pre-shared key ── HKDF-SHA256, salt = cluster id ──► per direction:  handshake key (HMAC-SHA256, 16-byte tags)
//!                                                      per session and direction: frame key (AES-128-GCM)
//! ```
//! The frame keys depend on both hosts' nonces, the session's number, the hosts, the direction and the key id, so each is
//! used in one session by one sender, whose packet numbers are the nonces.

use crate::frame::HEADER;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::{hkdf, hmac};
use std::fmt;
use subtle::ConstantTimeEq;

/// Why a key cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// A guessable key.
    #[error("key {id} has {len} bytes; at least 16 random ones are needed")]
    Short {
        /// Id of the key.
        id: u8,
        /// Bytes of the key.
        len: usize,
    },
    /// Two keys under one id.
    #[error("key id {0} is used twice; every key needs its own")]
    Duplicate(u8),
    /// No such key.
    #[error("there is no key {0}; add it before it is made the active one")]
    Unknown(u8),
    /// The key that frames are sent with.
    #[error("key {0} is the active one; activate another before it is removed")]
    Active(u8),
}

/// Pre-shared keys by id. Any of them is accepted, the active one is used for what is sent: to change keys,
/// add the new one on all hosts, then activate it on all, then remove the old one.
#[derive(Clone)]
pub struct KeyRing {
    /// Id and bytes of each key.
    secrets: Vec<(u8, Vec<u8>)>,
    /// Id of the key that frames are sealed with.
    active: u8,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<u8> = self.secrets.iter().map(|(id, _)| *id).collect();
        write!(f, "KeyRing {{ ids: {ids:?}, active: {} }}", self.active)
    }
}

impl KeyRing {
    /// One key, which is the active one.
    pub fn new(id: u8, secret: &[u8]) -> Result<KeyRing, KeyError> {
        let mut ring = KeyRing { secrets: Vec::new(), active: id };
        ring.add(id, secret)?;
        Ok(ring)
    }

    /// One more key to accept.
    pub fn add(&mut self, id: u8, secret: &[u8]) -> Result<(), KeyError> {
        if secret.len() < 16 {
            return Err(KeyError::Short { id, len: secret.len() });
        }
        if self.secrets.iter().any(|(known, _)| *known == id) {
            return Err(KeyError::Duplicate(id));
        }
        self.secrets.push((id, secret.to_vec()));
        Ok(())
    }

    /// The key to send with from now on.
    pub fn activate(&mut self, id: u8) -> Result<(), KeyError> {
        if !self.secrets.iter().any(|(known, _)| *known == id) {
            return Err(KeyError::Unknown(id));
        }
        self.active = id;
        Ok(())
    }

    /// Accepts a key no more.
    pub fn remove(&mut self, id: u8) -> Result<(), KeyError> {
        if id == self.active {
            return Err(KeyError::Active(id));
        }
        let before = self.secrets.len();
        self.secrets.retain(|(known, _)| *known != id);
        if self.secrets.len() == before { Err(KeyError::Unknown(id)) } else { Ok(()) }
    }
}

/// The bytes of any length that [`hkdf`] is asked for.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand<const N: usize>(prk: &hkdf::Prk, info: &[&[u8]]) -> [u8; N] {
    let mut out = [0; N];
    let okm = prk.expand(info, Length(N)).expect("a few bytes are within what HKDF can give");
    okm.fill(&mut out).expect("as many bytes as were asked for");
    out
}

/// Random numbers from a seed that nobody else knows: HKDF with a counter.
pub(crate) struct Random {
    prk: hkdf::Prk,
    drawn: u64,
}

impl Random {
    pub(crate) fn new(seed: &[u8; 32]) -> Self {
        Random { prk: hkdf::Salt::new(hkdf::HKDF_SHA256, b"angara trunk random").extract(seed), drawn: 0 }
    }

    pub(crate) fn draw<const N: usize>(&mut self) -> [u8; N] {
        self.drawn += 1;
        expand(&self.prk, &[&self.drawn.to_le_bytes()])
    }
}

struct Root {
    id: u8,
    prk: hkdf::Prk,
    hello_out: hmac::Key,
    hello_in: hmac::Key,
}

/// The keys of one pair of hosts.
pub(crate) struct Keys {
    local: u16,
    peer: u16,
    roots: Vec<Root>,
    active: u8,
}

impl Keys {
    pub(crate) fn new(ring: &KeyRing, cluster: &[u8; 16], local: u16, peer: u16) -> Keys {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, cluster);
        let root = |(id, secret): &(u8, Vec<u8>)| {
            let prk = salt.extract(secret);
            let hello = |from: u16, to: u16| {
                let key: [u8; 32] = expand(&prk, &[b"angara trunk 1 hello", &from.to_le_bytes(), &to.to_le_bytes()]);
                hmac::Key::new(hmac::HMAC_SHA256, &key)
            };
            Root { id: *id, hello_out: hello(local, peer), hello_in: hello(peer, local), prk }
        };
        Keys { local, peer, roots: ring.secrets.iter().map(root).collect(), active: ring.active }
    }

    pub(crate) fn active(&self) -> u8 {
        self.active
    }

    fn root(&self, id: u8) -> Option<&Root> {
        self.roots.iter().find(|r| r.id == id)
    }

    pub(crate) fn knows(&self, id: u8) -> bool {
        self.root(id).is_some()
    }

    /// Appends the tag of a hello made of all of `out` from `start` on.
    pub(crate) fn tag_hello(&self, start: usize, out: &mut Vec<u8>) {
        let root = self.root(self.active).expect("the active key is in the ring");
        let tag = hmac::sign(&root.hello_out, &out[start..]);
        out.extend_from_slice(&tag.as_ref()[..16]);
    }

    pub(crate) fn hello_is_genuine(&self, id: u8, datagram: &[u8]) -> bool {
        let Some((message, tag)) = datagram.split_last_chunk::<16>() else { return false };
        let Some(root) = self.root(id) else { return false };
        let expected = hmac::sign(&root.hello_in, message);
        expected.as_ref()[..16].ct_eq(tag).into()
    }

    fn frame_key(&self, id: u8, outgoing: bool, nonces: &Nonces) -> Option<LessSafeKey> {
        let (from, to) = if outgoing { (self.local, self.peer) } else { (self.peer, self.local) };
        // Both hosts must write the nonces in the same order.
        let (first, second) =
            if self.local < self.peer { (nonces.local, nonces.peer) } else { (nonces.peer, nonces.local) };
        let key: [u8; 16] = expand(
            &self.root(id)?.prk,
            &[
                b"angara trunk 1 frame",
                &from.to_le_bytes(),
                &to.to_le_bytes(),
                &nonces.session.to_le_bytes(),
                &first,
                &second,
                &[id],
            ],
        );
        Some(LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).expect("16 bytes are an AES-128 key")))
    }
}

/// Values that make a session's keys unique.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Nonces {
    pub(crate) session: u32,
    pub(crate) local: [u8; 16],
    pub(crate) peer: [u8; 16],
}

/// Frame keys of a session, derived when first needed.
pub(crate) struct FrameKeys {
    pub(crate) nonces: Nonces,
    seal: Option<(u8, LessSafeKey)>,
    open: Vec<(u8, LessSafeKey)>,
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl FrameKeys {
    pub(crate) fn new(nonces: Nonces) -> Self {
        FrameKeys { nonces, seal: None, open: Vec::new() }
    }

    /// The ring has changed: derive anew.
    pub(crate) fn forget(&mut self) {
        self.seal = None;
        self.open.clear();
    }

    /// Encrypts the body of the frame that is all of `out` from `start` on, and appends the tag of header and body.
    pub(crate) fn seal(&mut self, keys: &Keys, number: u64, start: usize, out: &mut Vec<u8>) {
        if self.seal.is_none() {
            let key = keys.frame_key(keys.active, true, &self.nonces).expect("the active key is in the ring");
            self.seal = Some((keys.active, key));
        }
        let (_, key) = self.seal.as_ref().expect("derived above");
        let (header, body) = out[start..].split_at_mut(HEADER);
        let tag = key.seal_in_place_separate_tag(nonce(number), Aad::from(header), body);
        out.extend_from_slice(tag.expect("a frame is far below the cipher's limit").as_ref());
    }

    /// True if a frame is the peer's; if so, its body is now plain.
    pub(crate) fn open(&mut self, keys: &Keys, id: u8, number: u64, frame: &mut [u8]) -> bool {
        let found = self.open.iter().position(|(known, _)| *known == id);
        let at = match found {
            Some(at) => at,
            None => {
                let Some(key) = keys.frame_key(id, false, &self.nonces) else { return false };
                self.open.push((id, key));
                self.open.len() - 1
            }
        };
        let Some((header, body)) = frame.split_at_mut_checked(HEADER) else { return false };
        self.open[at].1.open_in_place(nonce(number), Aad::from(&*header), body).is_ok()
    }
}
