//! Intent of a commit over several targets: the edits of all targets but the first.
use crate::shard::change::IndexEdit;
use esker_types::limits::TARGETS_MAX;
use esker_types::{Checksum, Epoch, Error, ErrorKind, Result};

/// A decoded intent.
#[derive(Debug)]
pub(crate) struct Intent {
    pub(crate) epoch: Epoch,
    /// Edits, by target number.
    pub(crate) parts: Vec<(u32, Vec<IndexEdit>)>,
}

const PUT: u8 = 1;
const DELETE: u8 = 2;
const DELETE_ALL: u8 = 3;

/// Encodes the edits of a commit at `epoch`, with one journal per target. The first target is the coordinator, whose
/// edits are left out.
pub(super) fn encode(epoch: Epoch, targets: &[u32], journals: &[Vec<IndexEdit>]) -> Vec<u8> {
    let mut out = epoch.0.to_le_bytes().to_vec();
    for (target, steps) in targets.iter().zip(journals).skip(1) {
        out.extend_from_slice(&target.to_le_bytes());
        out.extend_from_slice(&(steps.len() as u32).to_le_bytes());
        steps.iter().for_each(|step| encode_step(step, &mut out));
    }
    // Releases that do not know the checksum decode it as a target without steps.
    let sum = sum_of(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(&0_u32.to_le_bytes());
    out
}

/// Bit of a checksum, which no number of a target has.
const SUM: u32 = 1 << 31;

/// Checksum at the end of an intent.
fn sum_of(content: &[u8]) -> u32 {
    Checksum::Crc32c.sum(content) as u32 | SUM
}

/// An intent without its checksum; `None` if they do not match. An intent of an earlier release has no checksum: its
/// last bytes are the epoch of its commit, which is not below 2^32.
fn verified(bytes: &[u8]) -> Option<&[u8]> {
    let Some((content, last)) = bytes.split_last_chunk::<8>() else { return Some(bytes) };
    let last = u64::from_le_bytes(*last);
    match u32::try_from(last) {
        Ok(sum) if sum & SUM != 0 => (sum == sum_of(content)).then_some(content),
        _ => Some(bytes),
    }
}

/// Appends an edit to `out`, as [`take_step`] decodes it.
pub(super) fn encode_step(step: &IndexEdit, out: &mut Vec<u8>) {
    let (tag, key, value) = match step {
        IndexEdit::Put(key, value) => (PUT, key, Some(value)),
        IndexEdit::Delete(key) => (DELETE, key, None),
        IndexEdit::DeleteAll(prefix) => (DELETE_ALL, prefix, None),
    };
    out.push(tag);
    for part in [Some(key), value].into_iter().flatten() {
        out.extend_from_slice(&(part.len() as u32).to_le_bytes());
        out.extend_from_slice(part);
    }
}

/// Decodes an intent. Fails with `Corrupt` if it is damaged.
pub(super) fn decode(bytes: &[u8]) -> Result<Intent> {
    Intent::parse(bytes).ok_or_else(|| {
        Error::new(
            ErrorKind::Corrupt,
            "the intent of a commit over several targets is damaged: run `esker pool check --repair`",
        )
    })
}

impl Intent {
    /// Decodes an intent; `None` if it is damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (epoch, mut rest) = verified(bytes)?.split_first_chunk()?;
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let target = take_number(&mut rest).filter(|number| *number < TARGETS_MAX as u32)?;
            let count = take_number(&mut rest)?;
            let steps = (0..count).map(|_| take_step(&mut rest)).collect::<Option<_>>()?;
            parts.push((target, steps));
        }
        Some(Self { epoch: Epoch(u64::from_le_bytes(*epoch)), parts })
    }
}

/// Decodes an edit from the start of `rest`, and removes its bytes from there. `None` if there is no valid edit.
pub(super) fn take_step(rest: &mut &[u8]) -> Option<IndexEdit> {
    let (&tag, tail) = rest.split_first()?;
    *rest = tail;
    let key = take_bytes(rest)?;
    match tag {
        PUT => Some(IndexEdit::Put(key, take_bytes(rest)?)),
        DELETE => Some(IndexEdit::Delete(key)),
        DELETE_ALL => Some(IndexEdit::DeleteAll(key)),
        _ => None,
    }
}

/// Decodes a number of four bytes from the start of `rest`, and removes its bytes from there. `None` if `rest` is too
/// short.
pub(super) fn take_number(rest: &mut &[u8]) -> Option<u32> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(u32::from_le_bytes(*head))
}

/// Takes bytes that are preceded by their number; `None` if `rest` is too short.
pub(super) fn take_bytes(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let len = take_number(rest)?;
    let (head, tail) = rest.split_at_checked(len as usize)?;
    *rest = tail;
    Some(head.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intents_round_trip() {
        let steps = vec![
            IndexEdit::Put(b"key".to_vec(), b"value".to_vec()),
            IndexEdit::Delete(b"gone".to_vec()),
            IndexEdit::DeleteAll(b"all".to_vec()),
        ];
        let journals = [Vec::new(), steps.clone()];
        let bytes = encode(Epoch(9), &[0, 3], &journals);
        let intent = decode(&bytes).unwrap();
        assert_eq!((intent.epoch, intent.parts), (Epoch(9), vec![(3, steps)]));
        for cut in 9..bytes.len() {
            let is_old = cut == bytes.len() - 8;
            assert_eq!(decode(&bytes[..cut]).is_ok(), is_old, "cut at {cut}");
        }
    }

    /// An intent whose epoch or steps have changed would bring back removed data.
    #[test]
    fn every_flipped_bit_of_an_intent_is_detected() {
        let steps = vec![IndexEdit::Put(b"key".to_vec(), b"value".to_vec())];
        let bytes = encode(Epoch(9), &[0, 3], &[Vec::new(), steps]);
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let refused = decode(&damaged).map(drop).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corrupt, "bit {bit}");
        }
    }

    #[test]
    fn random_intents_are_read_or_refused() {
        let mut random = crate::tests::Random::new(1);
        for _ in 0..esker_testing::rounds(20_000) {
            let mut bytes = random.bytes(200);
            // Small numbers are valid counts and lengths more often than random ones.
            bytes.iter_mut().for_each(|byte| *byte %= 9);
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn fuzz_intents() {
        let steps = vec![
            IndexEdit::Put(b"key".to_vec(), b"value".to_vec()),
            IndexEdit::Delete(b"gone".to_vec()),
        ];
        let intent = encode(Epoch(9), &[0, 3], &[Vec::new(), steps]);
        esker_testing::fuzz("intents", &[intent], |bytes| drop(decode(bytes)));
    }
}
