//! Arrays through the C functions.
use crate::common::*;
use daos::abi::{ArrayIod, ArrayStbuf, Handle, Iov, ObjId, Ptr, Range, Sgl};
use daos::array::*;
use daos::global::{daos_array_global2local, daos_array_local2global};
use daos::object::daos_obj_close;
use daos::tx::{daos_tx_commit, daos_tx_open};
use std::ffi::c_int;

/// Cells of a chunk.
const CHUNK: u64 = 10;

/// Creates and opens an array with cells of `cell` bytes.
fn create(store: &Store, oid: ObjId, cell: u64) -> Handle {
    let mut oh = NONE;
    assert_eq!(daos_array_create(store.coh, oid, NONE, cell, CHUNK, at(&mut oh), WAIT), 0);
    oh
}

/// Opens a new array with cells of 1 byte, which does not store its attributes.
fn with_attr(store: &Store, otype: u32) -> Handle {
    let mut oh = NONE;
    let oid = store.oid(otype, SX);
    let opened =
        daos_array_open_with_attr(store.coh, oid, NONE, OBJ_RW, 1, CHUNK, at(&mut oh), WAIT);
    assert_eq!(opened, 0);
    oh
}

fn iod(ranges: &mut [Range]) -> ArrayIod {
    let nr = ranges.len() as u64;
    ArrayIod { nr, rgs: list(ranges), nr_short_read: u64::MAX, nr_read: u64::MAX }
}

fn write(oh: Handle, ranges: &mut [Range], data: &[u8]) -> c_int {
    let mut iovs = [iov(data)];
    daos_array_write(oh, NONE, at(&mut iod(ranges)), at(&mut sgl(&mut iovs)), WAIT)
}

/// Reads ranges. Returns the result of the call, the bytes read, and the bytes past the end.
fn read(oh: Handle, ranges: &mut [Range], buffer: &mut [u8]) -> (c_int, u64, u64) {
    let mut iovs = [iov_room(buffer)];
    let mut iod = iod(ranges);
    let done = daos_array_read(oh, NONE, at(&mut iod), at(&mut sgl(&mut iovs)), WAIT);
    (done, iod.nr_read, iod.nr_short_read)
}

fn size(oh: Handle) -> u64 {
    let mut size = u64::MAX;
    assert_eq!(daos_array_get_size(oh, NONE, at(&mut size), WAIT), 0);
    size
}

fn cells(idx: u64, len: u64) -> Range {
    Range { idx, len }
}

#[test]
fn cells_span_chunks_and_buffers() {
    let store = Store::new();
    let oh = create(&store, store.oid(ARRAY, SX), 2);
    let data: Vec<u8> = (0..50).collect();
    assert_eq!(write(oh, &mut [cells(7, 20), cells(90, 0), cells(100, 5)], &data), 0);
    let (mut a, mut b) = ([0; 13], [0; 37]);
    let mut iovs = [iov_room(&mut a), iov_room(&mut b)];
    let mut ranges = [cells(7, 20), cells(100, 5)];
    let mut iod = iod(&mut ranges);
    let done = daos_array_read(oh, NONE, at(&mut iod), at(&mut sgl(&mut iovs)), WAIT);
    assert_eq!((done, [&a[..], &b[..]].concat()), (0, data));
    assert_eq!((iod.nr_read, iod.nr_short_read), (u64::MAX, u64::MAX), "unchanged");
    assert_eq!(size(oh), 105);
    assert_eq!(daos_array_close(oh, WAIT), 0);
    assert_eq!(daos_array_close(oh, WAIT), NO_HDL);
}

#[test]
fn creating_twice_is_refused_and_opening_returns_the_sizes() {
    let store = Store::new();
    let oid = store.oid(ARRAY, S1);
    let oh = create(&store, oid, 4);
    let mut other = NONE;
    let again = daos_array_create(store.coh, oid, NONE, 4, CHUNK, at(&mut other), WAIT);
    assert_eq!(again, EXIST);
    let (mut cell, mut chunk) = (0, 0);
    let open = |oid, mode, cell: &mut u64, chunk: &mut u64, oh: &mut Handle| {
        daos_array_open(store.coh, oid, NONE, mode, at(cell), at(chunk), at(oh), WAIT)
    };
    assert_eq!(open(oid, OBJ_RO, &mut cell, &mut chunk, &mut other), 0);
    assert_eq!((cell, chunk), (4, CHUNK));
    assert_eq!(write(other, &mut [cells(0, 1)], &[0; 4]), NO_PERM);
    assert_eq!(daos_array_get_attr(other, at(&mut chunk), at(&mut cell)), 0);
    assert_eq!((cell, chunk), (4, CHUNK));
    assert_eq!(open(store.oid(ARRAY, S1), OBJ_RW, &mut cell, &mut chunk, &mut other), NONEXIST);
    assert_eq!(open(store.oid(ARRAY_ATTR, S1), OBJ_RW, &mut cell, &mut chunk, &mut other), INVAL);
    assert_eq!(daos_array_destroy(oh, NONE, WAIT), 0);
    assert_eq!(open(oid, OBJ_RW, &mut cell, &mut chunk, &mut other), NONEXIST);
    assert_eq!(daos_obj_close(oh, WAIT), 0, "daos_obj_close accepts arrays");
}

#[test]
fn emptying_an_array_is_a_change() {
    let store = Store::new();
    for otype in [ARRAY, ARRAY_BYTE] {
        let oh = create(&store, store.oid(otype, S1), 1);
        write(oh, &mut [cells(0, 25)], &[b'x'; 25]);
        let mut stat = ArrayStbuf::default();
        assert_eq!(daos_array_stat(oh, NONE, at(&mut stat), WAIT), 0);
        let before = stat.max_epoch;
        assert_eq!(daos_array_set_size(oh, NONE, 0, WAIT), 0);
        assert_eq!(daos_array_stat(oh, NONE, at(&mut stat), WAIT), 0);
        assert!(stat.size == 0 && stat.max_epoch > before);
    }
}

#[test]
fn other_objects_cannot_be_opened_as_arrays() {
    let store = Store::new();
    let mut oh = NONE;
    let kv = store.oid(KV_HASHED, S1);
    let array = store.oid(ARRAY, S1);
    let create =
        |oid, cell, chunk, oh| daos_array_create(store.coh, oid, NONE, cell, chunk, oh, WAIT);
    assert_eq!(create(kv, 1, 1, at(&mut oh)), INVAL);
    assert_eq!(create(array, 0, 1, at(&mut oh)), INVAL);
    assert_eq!(create(array, 1, 0, at(&mut oh)), INVAL);
    assert_eq!(create(array, 1, 1, Ptr::null()), INVAL);
    let attr = |oid, cell, chunk, oh| {
        daos_array_open_with_attr(store.coh, oid, NONE, OBJ_RW, cell, chunk, oh, WAIT)
    };
    assert_eq!(attr(array, 1, 1, at(&mut oh)), INVAL);
    let bytes = store.oid(ARRAY_BYTE, S1);
    assert_eq!(attr(bytes, 0, 1, at(&mut oh)), INVAL);
    assert_eq!(attr(bytes, 1, 0, at(&mut oh)), INVAL);
    assert_eq!(attr(bytes, 1, 1, at(&mut oh)), 0);
}

#[test]
fn lengths_must_match() {
    let store = Store::new();
    let oh = create(&store, store.oid(ARRAY, S1), 2);
    assert_eq!(write(oh, &mut [cells(0, 4)], &[0; 7]), INVAL);
    assert_eq!(write(oh, &mut [cells(0, 4)], &[0; 9]), INVAL);
    assert_eq!(write(oh, &mut [cells(u64::MAX, 4)], &[0; 8]), INVAL);
    assert_eq!(read(oh, &mut [cells(0, 4)], &mut [0; 7]).0, INVAL);
    let mut iovs = [iov(&[0; 8])];
    iovs[0].buf_len = 7;
    let mut ranges = [cells(0, 4)];
    let mut iod = iod(&mut ranges);
    let mut sgl = sgl(&mut iovs);
    let write = |iod, sgl| daos_array_write(oh, NONE, iod, sgl, WAIT);
    assert_eq!(write(at(&mut iod), at(&mut sgl)), INVAL, "the length exceeds the buffer");
    assert_eq!(write(Ptr::null(), at(&mut sgl)), INVAL);
    assert_eq!(write(at(&mut iod), Ptr::null()), INVAL);
    iod.rgs = Ptr::null();
    assert_eq!(write(at(&mut iod), at(&mut sgl)), INVAL);
    iod.nr = u64::MAX;
    assert_eq!(write(at(&mut iod), at(&mut sgl)), NOTSUPPORTED);
    let mut none = Sgl { nr: u32::MAX, nr_out: 0, iovs: Ptr::null() };
    iod.nr = 0;
    assert_eq!(write(at(&mut iod), at(&mut none)), INVAL);
}

#[test]
fn many_short_ranges_are_not_supported() {
    let store = Store::new();
    let oh = create(&store, store.oid(ARRAY, S1), 1);
    let mut ranges: Vec<_> = (0..16385).map(|index| cells(index * 2, 1)).collect();
    assert_eq!(write(oh, &mut ranges, &[1; 16385]), NOTSUPPORTED);
    assert_eq!(write(oh, &mut ranges[1..], &[1; 16384]), 0);
}

#[test]
fn reading_a_hole_leaves_the_buffer_unchanged() {
    let store = Store::new();
    let oh = create(&store, store.oid(ARRAY, S1), 1);
    write(oh, &mut [cells(2, 2)], b"xy");
    let mut buffer = *b"........";
    assert_eq!(read(oh, &mut [cells(0, 8)], &mut buffer).0, 0);
    assert_eq!(&buffer, b"..xy....");
}

#[test]
fn an_array_of_bytes_reads_like_a_file() {
    let store = Store::new();
    let oh = with_attr(&store, ARRAY_BYTE);
    write(oh, &mut [cells(2, 2)], b"xy");
    write(oh, &mut [cells(25, 1)], b"z");
    let mut buffer = [b'.'; 30];
    assert_eq!(read(oh, &mut [cells(0, 30)], &mut buffer), (0, 26, 4));
    assert_eq!(&buffer[..4], b"\0\0xy");
    assert_eq!(&buffer[4..], b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0z....");
}

#[test]
fn sizes_grow_and_shrink() {
    let store = Store::new();
    let oh = with_attr(&store, ARRAY_ATTR);
    assert_eq!(size(oh), 0);
    write(oh, &mut [cells(0, 35)], &[b'x'; 35]);
    for wanted in [35, 12, 40, 10, 1, 0] {
        assert_eq!(daos_array_set_size(oh, NONE, wanted, WAIT), 0);
        assert_eq!(size(oh), wanted);
    }
    let mut stat = ArrayStbuf::default();
    write(oh, &mut [cells(3, 1)], b"x");
    assert_eq!(daos_array_stat(oh, NONE, at(&mut stat), WAIT), 0);
    assert_eq!(stat.size, 4);
    assert!(stat.max_epoch > 0);
    assert_eq!(daos_array_stat(oh, NONE, Ptr::null(), WAIT), INVAL);
    assert_eq!(daos_array_get_size(oh, NONE, Ptr::null(), WAIT), INVAL);
}

#[test]
fn punched_cells_are_holes() {
    let store = Store::new();
    let oh = with_attr(&store, ARRAY_ATTR);
    write(oh, &mut [cells(0, 20)], &[b'x'; 20]);
    let mut ranges = [cells(8, 4)];
    assert_eq!(daos_array_punch(oh, NONE, at(&mut iod(&mut ranges)), WAIT), 0);
    let mut buffer = [b'.'; 20];
    read(oh, &mut [cells(0, 20)], &mut buffer);
    assert_eq!(&buffer, b"xxxxxxxx....xxxxxxxx");
    assert_eq!(daos_array_punch(oh, NONE, Ptr::null(), WAIT), INVAL);
    assert_eq!(daos_array_set_size(oh, NONE, 1 << 60, WAIT), 0);
    let mut ranges = [cells(3, (1 << 60) - 4)];
    assert_eq!(daos_array_punch(oh, NONE, at(&mut iod(&mut ranges)), WAIT), 0);
    read(oh, &mut [cells(0, 8)], &mut buffer[..8]);
    assert_eq!((&buffer[..3], size(oh)), (&b"xxx"[..], 1 << 60));
}

#[test]
fn punch_in_a_transaction_applies_to_its_own_writes() {
    let store = Store::new();
    let oh = with_attr(&store, ARRAY_BYTE);
    let mut th = NONE;
    assert_eq!(daos_tx_open(store.coh, at(&mut th), 0, WAIT), 0);
    let (mut iovs, mut ranges) = ([iov(&[b'x'; 20])], [cells(0, 20)]);
    let wrote = daos_array_write(oh, th, at(&mut iod(&mut ranges)), at(&mut sgl(&mut iovs)), WAIT);
    assert_eq!(wrote, 0);
    for range in [cells(0, 5), cells(15, 1 << 60)] {
        assert_eq!(daos_array_punch(oh, th, at(&mut iod(&mut [range])), WAIT), 0);
    }
    assert_eq!(daos_tx_commit(th, WAIT), 0);
    let mut buffer = [b'.'; 20];
    read(oh, &mut [cells(0, 20)], &mut buffer);
    assert_eq!((&buffer, size(oh)), (b"\0\0\0\0\0xxxxxxxxxx.....", 15));
}

#[test]
fn punch_beyond_the_end_leaves_the_size() {
    let store = Store::new();
    for oh in [create(&store, store.oid(ARRAY, SX), 1), with_attr(&store, ARRAY_BYTE)] {
        write(oh, &mut [cells(0, 12)], &[b'x'; 12]);
        for (range, left) in [(cells(14, 100), 12), (cells(11, 100), 11), (cells(95, 1), 11)] {
            assert_eq!(daos_array_punch(oh, NONE, at(&mut iod(&mut [range])), WAIT), 0);
            assert_eq!(size(oh), left);
        }
    }
}

#[test]
fn a_handle_can_use_another_chunk_size() {
    let store = Store::new();
    let oh = with_attr(&store, ARRAY_BYTE);
    assert_eq!(daos_array_update_chunk_size(oh, 4), 0);
    assert_eq!(daos_array_update_chunk_size(oh, 0), INVAL);
    let (mut chunk, mut cell) = (0, 0);
    assert_eq!(daos_array_get_attr(oh, at(&mut chunk), at(&mut cell)), 0);
    assert_eq!((chunk, cell), (4, 1));
    assert_eq!(write(oh, &mut [cells(2, 6)], b"abcdef"), 0);
    assert_eq!(size(oh), 8);
    let keeps = create(&store, store.oid(ARRAY, S1), 1);
    assert_eq!(daos_array_update_chunk_size(keeps, 4), NOTSUPPORTED);
}

/// The global form of an array.
fn blob(oh: Handle) -> Vec<u8> {
    let mut glob = Iov { buf: Ptr::null(), buf_len: 0, len: 0 };
    assert_eq!(daos_array_local2global(oh, at(&mut glob)), 0);
    assert_eq!(glob.buf_len, 72);
    let mut blob = vec![0; 72];
    glob = iov_room(&mut blob[..71]);
    assert_eq!((daos_array_local2global(oh, at(&mut glob)), glob.buf_len), (TRUNC, 72));
    glob = iov_room(&mut blob);
    assert_eq!(daos_array_local2global(oh, at(&mut glob)), 0);
    blob
}

#[test]
fn an_array_is_opened_from_a_global_handle() {
    let store = Store::new();
    for oh in [create(&store, store.oid(ARRAY, S1), 1), with_attr(&store, ARRAY_BYTE)] {
        write(oh, &mut [cells(0, 3)], b"abc");
        let blob = blob(oh);
        assert_eq!(&blob[..4], &0xdaca_0387_u32.to_le_bytes());
        let mut other = NONE;
        let open = |glob, oh| daos_array_global2local(store.coh, glob, 0, oh);
        assert_eq!(open(iov(&blob), at(&mut other)), 0);
        let mut buffer = [0; 3];
        assert_eq!(read(other, &mut [cells(0, 3)], &mut buffer).0, 0);
        assert_eq!(&buffer, b"abc");
        assert_eq!(open(iov(&blob[..71]), at(&mut other)), INVAL);
        let mut bad = blob.clone();
        bad[0] ^= 1;
        assert_eq!(open(iov(&bad), at(&mut other)), INVAL);
        assert_eq!(open(iov(&blob), Ptr::null()), INVAL);
    }
}
