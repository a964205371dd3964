//! Positions of listings inside a `daos_anchor_t`.
use crate::abi::{self, Ptr};
use crate::code::{Code, Result};
use esker::types::ops::Anchor;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

const START: u16 = 0;
const KEY: u16 = 2;
const END: u16 = 3;

/// The first byte of the buffer is the length of the position in it.
const INLINE_MAX: usize = 103;
/// In place of a length: the position is parked, under the number that follows.
const PARKED: u8 = 0xff;
/// Positions parked with one handle; the oldest make room.
const PARKED_MAX: usize = 256;

/// Positions too long for an anchor, kept with the handle they were listed through.
#[derive(Default)]
pub(crate) struct Parked(Mutex<Shelf>);

#[derive(Default)]
struct Shelf {
    first: u64,
    positions: VecDeque<Vec<u8>>,
}

impl Parked {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, position: Vec<u8>) -> u64 {
        let mut shelf = self.shelf();
        if shelf.positions.len() == PARKED_MAX {
            shelf.positions.pop_front();
            shelf.first += 1;
        }
        shelf.positions.push_back(position);
        shelf.first + shelf.positions.len() as u64 - 1
    }

    fn get(&self, number: u64) -> Option<Vec<u8>> {
        let shelf = self.shelf();
        let index = usize::try_from(number.checked_sub(shelf.first)?).ok()?;
        shelf.positions.get(index).cloned()
    }
}

/// Reads where a listing stands.
pub(crate) fn read(anchor: Ptr<abi::Anchor>, parked: &Parked) -> Result<Anchor> {
    let anchor = anchor.get()?;
    match anchor.kind {
        START => Ok(Anchor::Start),
        END => Ok(Anchor::End),
        KEY => {
            let position = position(&anchor.buf, parked).ok_or(Code::INVAL)?;
            Ok(Anchor::After { shard: u32::from(anchor.shard), position })
        }
        _ => Err(Code::INVAL),
    }
}

fn position(buf: &[u8; 104], parked: &Parked) -> Option<Vec<u8>> {
    match buf[0] {
        PARKED => parked.get(u64::from_le_bytes(buf.get(1..9)?.try_into().ok()?)),
        len => Some(buf.get(1..=usize::from(len))?.to_vec()),
    }
}

/// Writes where a listing stands.
pub(crate) fn write(anchor: Ptr<abi::Anchor>, at: Anchor, parked: &Parked) {
    let mut out = abi::Anchor { kind: START, shard: 0, flags: 0, sub_anchors: 0, buf: [0; 104] };
    match at {
        Anchor::Start => {}
        Anchor::End => out.kind = END,
        Anchor::After { shard, position } => {
            out.kind = KEY;
            out.shard = shard as u16;
            pack(&mut out.buf, position, parked);
        }
    }
    anchor.set(out);
}

fn pack(buf: &mut [u8; 104], position: Vec<u8>, parked: &Parked) {
    match position.len() {
        len @ 0..=INLINE_MAX => {
            buf[0] = len as u8;
            buf[1..=len].copy_from_slice(&position);
        }
        _ => {
            buf[0] = PARKED;
            buf[1..9].copy_from_slice(&parked.put(position).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(at: Anchor) -> Anchor {
        let parked = Parked::default();
        let mut raw = abi::Anchor { kind: 9, shard: 9, flags: 9, sub_anchors: 9, buf: [9; 104] };
        // SAFETY: it is an anchor of this function.
        let anchor = unsafe { Ptr::new(&raw mut raw) };
        write(anchor, at, &parked);
        read(anchor, &parked).unwrap()
    }

    #[test]
    fn positions_of_any_length_come_back() {
        for len in [0, 1, 102, 103, 104, 1000] {
            let at = Anchor::After { shard: 7, position: vec![3; len] };
            assert_eq!(there_and_back(at.clone()), at);
        }
        assert_eq!(there_and_back(Anchor::Start), Anchor::Start);
        assert_eq!(there_and_back(Anchor::End), Anchor::End);
    }

    #[test]
    fn what_is_parked_is_bounded() {
        let parked = Parked::default();
        let first = parked.put(vec![0]);
        let last = (1..=PARKED_MAX).map(|n| parked.put(vec![n as u8])).last().unwrap();
        assert_eq!(parked.get(first), None);
        assert_eq!(parked.get(last), Some(vec![PARKED_MAX as u8]));
        assert_eq!(parked.get(last + 1), None);
    }
}
