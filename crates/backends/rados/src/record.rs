//! Records: the omap entries of akeys (docs/format.md, "The rados layout").
//!
//! The first byte is the kind, so that a guard can distinguish single values without further data from everything
//! else.
use super::piece::{Body, Location, Piece};
use esker_backend::encoding::{Parts, finish, put_bytes, put_u32, put_u64};
use esker_backend::object::records::{Records, Stored};
use esker_types::{Checksum, Epoch, Extent};
use std::sync::Arc;

/// A single value stored in the record.
pub(super) const INLINE: u8 = 1;
/// A single value stored in a blob. Guards compare for less than this; Ceph compares bytes as signed numbers, so all
/// kinds are below 128.
pub(super) const APART: u8 = 2;
/// The records of an array.
const ARRAY: u8 = 3;

/// Length of the header of a value that is stored in its record.
const INLINE_HEAD: usize = 1 + 8 + 4;

/// Codes for the location of a body in a record.
const HERE: u32 = 0;
const OWN: u32 = 1;
const ELSEWHERE: u32 = 2;

/// The record of a single value, given in parts, that is stored in the record itself. The checksum covers the value and
/// its epoch.
pub(super) fn inline(epoch: Epoch, value: &[&[u8]]) -> Vec<u8> {
    let len: usize = value.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(INLINE_HEAD + len);
    out.push(INLINE);
    out.extend_from_slice(&epoch.0.to_le_bytes());
    // Room for the checksum.
    out.extend_from_slice(&[0; 4]);
    value.iter().for_each(|part| out.extend_from_slice(part));
    let sum = inline_sum(&out);
    out[9..INLINE_HEAD].copy_from_slice(&sum);
    out
}

/// Checksum of the value, and of the kind and epoch in front of it.
fn inline_sum(record: &[u8]) -> [u8; 4] {
    let sum = Checksum::Crc32c.sum(&record[INLINE_HEAD..]) ^ Checksum::Crc32c.sum(&record[..9]);
    (sum as u32).to_le_bytes()
}

/// Encodes the omap value of an akey: its epoch, and its value or references to the objects with its data.
pub(super) fn encode(epoch: Epoch, stored: &Stored<Piece>) -> Vec<u8> {
    match stored {
        Stored::Single(piece) => encode_single(epoch, piece),
        Stored::Array(records) => encode_array(epoch, records),
    }
}

/// The record of a single value: the value itself, or where its bytes are.
fn encode_single(epoch: Epoch, piece: &Piece) -> Vec<u8> {
    if let Some(bytes) = piece.bytes() {
        return inline(epoch, &[bytes]);
    }
    let mut out = vec![APART];
    put_u64(&mut out, epoch.0);
    put_body(&mut out, piece);
    finish(out)
}

/// The record of an array: each body once, then the runs, each with the index of its body and the offset in it.
fn encode_array(epoch: Epoch, records: &Records<Piece>) -> Vec<u8> {
    let mut out = vec![ARRAY];
    put_u64(&mut out, epoch.0);
    put_u64(&mut out, records.record_size);
    let runs = runs(records);
    let bodies = bodies(&runs);
    put_u32(&mut out, bodies.len() as u32);
    bodies.iter().for_each(|piece| put_body(&mut out, piece));
    put_u32(&mut out, runs.len() as u32);
    for (run, epoch, piece) in &runs {
        let index = bodies.iter().position(|body| same(body, piece)).unwrap_or_default();
        let from = if piece.bytes().is_some() { 0 } else { piece.from };
        put_u64(&mut out, run.start);
        put_u64(&mut out, run.count);
        put_u64(&mut out, epoch.0);
        put_u32(&mut out, index as u32);
        put_u64(&mut out, from);
    }
    finish(out)
}

/// Runs of an array with their pieces.
pub(super) fn runs(records: &Records<Piece>) -> Vec<(Extent, Epoch, Piece)> {
    let all = records.stored();
    let all = all.filter_map(|run| {
        let piece = records.payload(run.extent.start)?;
        Some((run.extent, run.epoch, piece.clone()))
    });
    all.collect()
}

/// Returns the bodies of the runs, each once. A body is stored bytes to which several pieces may refer. A piece in
/// memory counts as a separate body, so that only the bytes it refers to are stored.
fn bodies(runs: &[(Extent, Epoch, Piece)]) -> Vec<&Piece> {
    let mut bodies: Vec<&Piece> = Vec::new();
    for (_, _, piece) in runs {
        // Pieces of the same body are usually adjacent.
        if !bodies.iter().rev().any(|body| same(body, piece)) {
            bodies.push(piece);
        }
    }
    bodies
}

/// True if both pieces refer to the same body.
fn same(a: &Piece, b: &Piece) -> bool {
    let here = a.bytes().is_some();
    match here {
        true => Arc::ptr_eq(&a.body, &b.body) && (a.from, a.len) == (b.from, b.len),
        false => Arc::ptr_eq(&a.body, &b.body),
    }
}

/// Appends a body: its bytes, or their location, length and checksums.
fn put_body(out: &mut Vec<u8>, piece: &Piece) {
    if let Some(bytes) = piece.bytes() {
        put_u32(out, HERE);
        return put_bytes(out, bytes);
    }
    match &piece.body.location {
        Location::ObjectData(offset) => {
            put_u32(out, OWN);
            put_u64(out, *offset);
        }
        Location::Blob(id) => {
            put_u32(out, ELSEWHERE);
            out.extend_from_slice(id);
        }
        Location::Inline(_) => put_u32(out, HERE),
    }
    put_u64(out, piece.body.len);
    put_bytes(out, &piece.body.sums);
}

/// Decodes a record; `None` if it is damaged.
pub(super) fn decode(record: &[u8]) -> Option<(Epoch, Stored<Piece>)> {
    match *record.first()? {
        INLINE => {
            let value = record.get(INLINE_HEAD..)?;
            let epoch = Epoch(u64::from_le_bytes(record[1..9].try_into().ok()?));
            let sound = inline_sum(record) == record[9..INLINE_HEAD];
            sound.then(|| (epoch, Stored::Single(Piece::here(value.to_vec()))))
        }
        kind => {
            // Fails unless the checksum at the end is right.
            let mut parts = Parts::sealed(record)?;
            parts.take(1)?;
            let epoch = Epoch(parts.u64()?);
            match kind {
                APART => Some((epoch, Stored::Single(take_body(&mut parts)?))),
                ARRAY => Some((epoch, Stored::Array(take_records(&mut parts)?))),
                _ => None,
            }
        }
    }
}

/// Decodes a body, as a piece of all its bytes; `None` if it is damaged.
fn take_body(parts: &mut Parts<'_>) -> Option<Piece> {
    let location = match parts.u32()? {
        HERE => return Some(Piece::here(parts.bytes()?.to_vec())),
        OWN => Location::ObjectData(parts.u64()?),
        ELSEWHERE => Location::Blob(parts.take(16)?.try_into().ok()?),
        _ => return None,
    };
    let (len, sums) = (parts.u64()?, parts.bytes()?.to_vec());
    Some(Piece::whole(Body { location, len, sums }))
}

/// Decodes the bodies and the runs of an array; `None` if bytes are missing, or a run does not fit into its body.
fn take_records(parts: &mut Parts<'_>) -> Option<Records<Piece>> {
    let mut records = Records::new(parts.u64()?);
    let count = parts.u32()?;
    let bodies: Vec<Piece> = (0..count).map(|_| take_body(parts)).collect::<Option<_>>()?;
    for _ in 0..parts.u32()? {
        let extent = Extent::new(parts.u64()?, parts.u64()?);
        let epoch = Epoch(parts.u64()?);
        let body = bodies.get(parts.u32()? as usize)?;
        let (from, len) = (parts.u64()?, extent.count.checked_mul(records.record_size)?);
        let fits = from.checked_add(len)? <= body.len;
        records.put(extent, fits.then(|| Piece { from, len, ..body.clone() })?, epoch);
    }
    Some(records)
}

/// Returns all pieces of which a value consists: one for a single value, one for each run of an array.
pub(super) fn pieces(stored: &Stored<Piece>) -> Vec<Piece> {
    match stored {
        Stored::Single(piece) => vec![piece.clone()],
        Stored::Array(records) => runs(records).into_iter().map(|(_, _, piece)| piece).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_backend::object::records::Payload;
    use esker_types::ops::Source;

    /// An array with four runs of records: in the record, in the data of the object, and in a RADOS object of its own.
    fn array() -> Stored<Piece> {
        let mut records = Records::new(2);
        records.write(Extent::new(4, 3), Source::One(b"abcdef"), 0, Epoch(7));
        let own = Body { location: Location::ObjectData(64), len: 40, sums: vec![1; 4] };
        records.put(Extent::new(10, 10), Piece::whole(own).part(20, 20), Epoch(8));
        let apart = Body { location: Location::Blob([9; 16]), len: 8, sums: vec![2; 4] };
        records.put(Extent::new(1 << 60, 4), Piece::whole(apart), Epoch(9));
        records.remove(Extent::new(12, 2));
        Stored::Array(records)
    }

    #[test]
    fn records_round_trip() {
        let single = Stored::Single(Piece::here(b"value".to_vec()));
        for stored in [array(), single, Stored::Single(Piece::here(Vec::new()))] {
            let record = encode(Epoch(11), &stored);
            let (epoch, again) = decode(&record).unwrap();
            assert_eq!(epoch, Epoch(11));
            assert_eq!(encode(Epoch(11), &again), record);
        }
        let Some((_, Stored::Array(records))) = decode(&encode(Epoch(1), &array())) else {
            panic!("an array")
        };
        assert_eq!(runs(&records).len(), 4);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn every_flipped_bit_is_detected() {
        for stored in [array(), Stored::Single(Piece::here(b"value".to_vec()))] {
            let record = encode(Epoch(11), &stored);
            for bit in 0..record.len() * 8 {
                let mut bad = record.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&bad).is_none(), "bit {bit}");
            }
            (0..record.len()).for_each(|len| assert!(decode(&record[..len]).is_none(), "{len}"));
        }
    }

    #[test]
    fn fuzz_records() {
        let mut bytes = [array(), Stored::Single(Piece::here(b"value".to_vec()))]
            .map(|stored| encode(Epoch(11), &stored));
        bytes.iter_mut().for_each(|bytes| bytes.truncate(bytes.len() - 4));
        esker_testing::fuzz("rados-records", &bytes, |body| {
            if let Some((epoch, stored)) = decode(&finish(body.to_vec())) {
                encode(epoch, &stored);
            }
        });
    }
}
