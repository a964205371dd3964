//! Keys that are too long for the index. The index key contains their first bytes and a hash, and the record contains
//! the rest. `docs/format.md` has the layout of both.
use esker_types::limits::{KEY_PAIR_MAX, KEY_WHOLE_MAX};
use esker_types::{
    Error, ErrorKind, KeyBuffer, KeyKind, Result, check_key_length, decode_key, encode_key,
};
use sha2::{Digest, Sha256};
use smallvec::SmallVec;

/// Separates the first bytes of a cut key from its hash. It sorts after the end of a key and before any other
/// continuation.
const CUT: [u8; 2] = [0, 1];
/// End of an encoded key, complete or cut.
const END: [u8; 2] = [0, 0];
/// Number of hex digits of the hash. As text it has no zero bytes.
const HASH_LEN: usize = 32;
/// Number of bytes that follow the first bytes of a cut key.
const STUB_LEN: usize = CUT.len() + HASH_LEN + END.len();

/// Maximum length of an encoded dkey. A longer one would leave no space for an akey.
pub(crate) const DKEY_ROOM: usize = KEY_PAIR_MAX - 3;

pub(crate) fn damaged_error() -> Error {
    Error::new(ErrorKind::Corrupt, "the index has a damaged key: run `esker pool check`")
}

/// Bytes of dkey and akey that an index key omits; empty if the index key has them completely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut<'k> {
    pub(crate) dkey: &'k [u8],
    pub(crate) akey: &'k [u8],
}

impl<'k> LeftOut<'k> {
    pub(crate) fn is_empty(&self) -> bool {
        self.dkey.is_empty() && self.akey.is_empty()
    }

    /// Appends the encoded form for a record.
    pub(crate) fn encode<const N: usize>(&self, out: &mut SmallVec<[u8; N]>) {
        for part in [self.dkey, self.akey] {
            out.extend_from_slice(&(part.len() as u32).to_le_bytes());
            out.extend_from_slice(part);
        }
    }

    /// Decodes omitted bytes from the start of `bytes`; also returns the bytes that follow. `None` if `bytes` is too
    /// short.
    pub(crate) fn split(bytes: &'k [u8]) -> Option<(Self, &'k [u8])> {
        let part = |bytes: &'k [u8]| {
            let (len, rest) = bytes.split_first_chunk()?;
            rest.split_at_checked(u32::from_le_bytes(*len) as usize)
        };
        let (dkey, rest) = part(bytes)?;
        let (akey, rest) = part(rest)?;
        Some((Self { dkey, akey }, rest))
    }
}

/// Appends the encoded `key` to `out`: complete if it fits into `room` bytes, otherwise cut.
#[inline]
pub(crate) fn encode(
    kind: KeyKind,
    key: &[u8],
    room: usize,
    out: &mut impl KeyBuffer,
) -> Result<()> {
    match is_whole(kind, key, room) {
        true => encode_key(kind, key, out),
        false => encode_cut(key, room, out),
    }
}

/// The bytes of `key` that [`encode`] omits if the index key has `room` bytes for it.
#[inline]
pub(crate) fn left_out(kind: KeyKind, key: &[u8], room: usize) -> &[u8] {
    match is_whole(kind, key, room) {
        true => &[],
        false => &key[prefix_len(key, room)..],
    }
}

/// True if the index key contains the complete key: all integers, and bytes that fit into `room`. The bytes of a short
/// key need not be counted for that.
#[inline]
fn is_whole(kind: KeyKind, key: &[u8], room: usize) -> bool {
    let most = 2 * key.len() + END.len();
    kind == KeyKind::Integer
        || key.len() <= KEY_WHOLE_MAX && (most <= room || escaped(key) + END.len() <= room)
}

/// Length of a byte in an encoded key, where a zero byte is escaped.
fn escaped_byte(byte: u8) -> usize {
    if byte == 0 { 2 } else { 1 }
}

/// Length of an encoded key without its end.
fn escaped(key: &[u8]) -> usize {
    key.iter().map(|byte| escaped_byte(*byte)).sum()
}

/// Number of leading bytes of a cut key that the index key contains, in `room` bytes with the end. It is less than the
/// length of the key.
fn prefix_len(key: &[u8], room: usize) -> usize {
    let mut left = room.saturating_sub(END.len()).min(DKEY_ROOM - STUB_LEN);
    let fits = |byte: &&u8| {
        let rest = left.checked_sub(escaped_byte(**byte));
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    key.iter().take(KEY_WHOLE_MAX).take_while(fits).count()
}

/// Appends the first bytes of a long key, and a stub in place of the others: a mark and the hash of the complete key.
#[cold]
fn encode_cut(key: &[u8], room: usize, out: &mut impl KeyBuffer) -> Result<()> {
    check_key_length(key)?;
    let first = &key[..prefix_len(key, room)];
    if !first.is_empty() {
        let mut encoded = Vec::new();
        encode_key(KeyKind::Bytes, first, &mut encoded)?;
        out.put(encoded.strip_suffix(&END).unwrap_or(&encoded));
    }
    out.put(&CUT);
    out.put(hash(key).as_bytes());
    out.put(&END);
    Ok(())
}

/// First half of the SHA-256 hash, in hex digits. It is infeasible to find two keys with the same one.
fn hash(key: &[u8]) -> String {
    let sum = Sha256::digest(key);
    sum.iter().take(HASH_LEN / 2).map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes the key that [`encode`] encoded as `encoded`, omitting `rest`.
///
/// # Errors
/// `Corrupt` if `encoded` and `rest` do not match.
pub(crate) fn decode(kind: KeyKind, encoded: &[u8], rest: &[u8]) -> Result<Vec<u8>> {
    let key = match stub(kind, encoded) {
        None => decode_key(kind, encoded).filter(|_| rest.is_empty()),
        Some((_, sum)) => start(kind, encoded).and_then(|(mut key, _)| {
            key.extend_from_slice(rest);
            (hash(&key).as_bytes() == sum).then_some(key)
        }),
    };
    key.ok_or_else(damaged_error)
}

/// The bytes of a key that its encoded form contains, and true if these are all of them; `None` if it is damaged.
pub(crate) fn start(kind: KeyKind, encoded: &[u8]) -> Option<(Vec<u8>, bool)> {
    match stub(kind, encoded) {
        None => decode_key(kind, encoded).map(|key| (key, true)),
        Some((first, _)) => decode_key(kind, &[first, &END].concat()).map(|key| (key, false)),
    }
}

/// The encoded first bytes and the hash of a cut key; `None` for a complete key.
fn stub(kind: KeyKind, encoded: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = encoded.len().checked_sub(STUB_LEN).filter(|_| kind == KeyKind::Bytes)?;
    let (first, stub) = encoded.split_at(at);
    let sum = stub.strip_prefix(&CUT)?.strip_suffix(&END)?;
    Some((first, sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use crate::format::keys::{Key, Table};
    use crate::format::record::{Body, Record};
    use crate::tests::Scratch;
    use esker_types::info::ContainerId;
    use esker_types::limits::KEY_MAX;
    use esker_types::{Epoch, ObjectId, encoded_len};

    fn encoded(key: &[u8], room: usize) -> Vec<u8> {
        let mut out = Vec::new();
        encode(KeyKind::Bytes, key, room, &mut out).unwrap();
        out
    }

    /// Keys of all kinds: short ones, long ones with a common prefix, and keys of zero bytes.
    fn keys() -> Vec<Vec<u8>> {
        let mut random = crate::tests::Random::new(8);
        let sizes = [1, 900, 1023, 1024, 1025, 1900, 5000, KEY_MAX];
        let mut keys: Vec<_> =
            sizes.iter().flat_map(|&len| [vec![b'k'; len], vec![0; len]]).collect();
        for len in sizes {
            keys.push(
                (0..len).map(|_| random.bytes(2).first().map_or(0, |byte| byte % 3)).collect(),
            );
        }
        keys
    }

    /// `room` is the number of bytes that an index key has left for the key.
    #[test]
    fn keys_round_trip_with_omitted_bytes() {
        for key in keys() {
            for room in [3, 34, 800, 1000, DKEY_ROOM] {
                let (index, rest) = (encoded(&key, room), left_out(KeyKind::Bytes, &key, room));
                assert!(
                    index.len() <= (room - END.len()).min(DKEY_ROOM - STUB_LEN) + STUB_LEN
                        || rest.is_empty()
                );
                assert_eq!(encoded_len(KeyKind::Bytes, &index), Some(index.len()));
                assert_eq!(decode(KeyKind::Bytes, &index, rest), Ok(key.clone()));
                assert!(decode(KeyKind::Bytes, &index, &[rest, b"x"].concat()).is_err());
                assert_eq!(rest.is_empty(), encoded_whole(&key) == index);
            }
        }
    }

    fn encoded_whole(key: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_key(KeyKind::Bytes, key, &mut out).unwrap();
        out
    }

    /// Encodes each key as a dkey, with each key as the akey below it.
    #[test]
    fn short_keys_stay_complete_and_every_pair_fits() {
        for dkey in keys() {
            let first = encoded(&dkey, DKEY_ROOM);
            let room = KEY_PAIR_MAX - first.len();
            for akey in keys() {
                let second = encoded(&akey, room);
                assert!(first.len() + second.len() <= KEY_PAIR_MAX + STUB_LEN - END.len());
                let whole = [encoded_whole(&dkey), encoded_whole(&akey)].concat();
                if dkey.len().max(akey.len()) <= KEY_WHOLE_MAX && whole.len() <= KEY_PAIR_MAX {
                    assert_eq!([&first[..], &second].concat(), whole);
                }
            }
        }
    }

    /// Records whose long key does not match the hash, as a writer with damaged memory may store them.
    #[test]
    fn check_detects_wrong_rest_of_long_key() {
        let mut pool = Scratch::new(32 << 20, |spec| spec.targets = Some(1));
        let (oid, long) = (ObjectId::default(), vec![b'k'; 5000]);
        let dkey = Key::dkey(Table::Data, ContainerId(1), oid, &long).unwrap();
        let key = dkey.akey(oid, b"a").unwrap().single();
        let right = dkey.left_out(oid, &long, b"a");
        for (left_out, problems) in [(right, 0), (LeftOut { dkey: b"other", akey: b"" }, 1)] {
            let (epoch, body) = (Epoch(1), Body::Inline(b"v"));
            let record = Record { epoch, record_size: 1, count: 1, left_out, body };
            let target = &pool.opened().targets[0];
            target.change(|change| change.put_record(&key, &record)).unwrap();
            pool.close();
            let report = Pool::check(&pool.path(), false, &mut |_, _| {}).unwrap();
            assert_eq!(report.problems.len(), problems, "{:?}", report.problems);
            pool.reopen();
        }
    }

    #[test]
    fn first_bytes_decide_the_order() {
        let start = vec![b'm'; KEY_WHOLE_MAX - 1];
        let key = |end: &[u8]| [&start[..], end].concat();
        let sorted =
            [key(b""), key(b"a"), key(b"a long one"), key(b"b"), key(b"b long"), vec![b'n']];
        let all: Vec<_> = sorted.iter().map(|key| encoded(key, DKEY_ROOM)).collect();
        assert!(all.is_sorted());
        assert!(!left_out(KeyKind::Bytes, &sorted[2], DKEY_ROOM).is_empty());
    }
}
