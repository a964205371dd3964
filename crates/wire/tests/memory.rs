//! Memory of decoded messages: an engine reserves as much before it receives them.
use esker_types::ops::{CommitId, Cond};
use esker_types::{Extent, Uuid};
use esker_wire::frame::DECODED_FACTOR;
use esker_wire::message::{AkeyRequest, DkeyRequest, ValueRequest, WriteRequest, encode};
use serde::Serialize;

/// Bytes of memory that an entry of a list takes, per byte of its encoding, rounded up.
fn factor<T: Serialize>(entry: &T) -> u64 {
    let encoded = encode(entry).expect("encoding").len();
    (size_of::<T>() as u64).div_ceil(encoded as u64)
}

/// The entries of lists in requests, each as short as possible, take at most [`DECODED_FACTOR`] times their encoding.
#[test]
fn no_message_takes_more_memory_than_is_accounted_for() {
    let empty: &[u8] = b"";
    let akey =
        AkeyRequest { akey: empty, extents: None, record_size: 0, cond: Cond::NONE, room: None };
    let dkey = DkeyRequest { dkey: empty, cond: Cond::NONE, akeys: Vec::new() };
    let update = (empty, Cond::NONE, ValueRequest::Single(0));
    let oid = esker_types::ObjectId::from_bytes([0; 16]);
    let factors = [
        factor(&akey),
        factor(&dkey),
        factor(&update),
        factor(&(oid, WriteRequest::PunchObject(Cond::NONE))),
        factor(&(oid, WriteRequest::Update(empty, Cond::NONE, Vec::new()))),
        factor(&(oid, WriteRequest::PunchAkeys(empty, Vec::new(), Cond::NONE))),
        factor(&empty),
        factor(&("", Some(empty))),
        factor(&("", None::<&[u8]>)),
        factor(&Extent::new(0, 0)),
        factor(&CommitId(Uuid([0; 16]))),
    ];
    println!("{factors:?}");
    assert!(factors.iter().all(|factor| *factor <= DECODED_FACTOR), "{factors:?}");
}
