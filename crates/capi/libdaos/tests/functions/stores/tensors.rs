//! Tensors: put whole and in parts, read whole and in slabs, with attributes.
use super::*;
use daos::snapshot::daos_cont_create_snap;
use esker::prelude::OpenMode;
use esker_tensors::{Attribute, AttributeList, DataType, NewTensor, Strided, TensorStore, Value};
use std::ffi::CStr;

fn slab(start: u64, step: u64, count: u64) -> SlabArgument {
    SlabArgument { start, step, count }
}

/// Reads slabs. Returns the result of the call, the size in bytes, and the integers read.
fn get(th: Handle, slabs: &mut [SlabArgument], room: usize) -> (c_int, u64, Vec<u16>) {
    let (mut buffer, mut size) = (vec![0; room], room as u64);
    let slabs_at = if slabs.is_empty() { Ptr::null() } else { list(slabs) };
    let target = crate::common::room(&mut buffer);
    let rc = esker_tensor_get(th, slabs_at, slabs.len() as u32, target, at(&mut size), WAIT);
    let numbers = buffer.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
    (rc, size, numbers)
}

/// Writes `rows` rows from `start` on. The value of each element is its number.
fn write(put: Handle, start: u64, rows: u64) -> c_int {
    let numbers = start as u16 * 3..(start + rows) as u16 * 3;
    let data: Vec<u8> = numbers.flat_map(u16::to_le_bytes).collect();
    let (mut start, mut count) = ([start, 0], [rows, 3]);
    let size = data.len() as u64;
    esker_tensor_write(put, 2, list(&mut start), list(&mut count), bytes(&data), size, WAIT)
}

/// The description that `query` returns.
fn described(
    handle: Handle,
    query: extern "C" fn(Handle, Ptr<TensorInfo>) -> c_int,
) -> Box<TensorInfo> {
    let mut info: Vec<TensorInfo> = Vec::with_capacity(1);
    // SAFETY: the vector has room for one.
    let target = unsafe { Ptr::new(info.as_mut_ptr()) };
    ok(query(handle, target));
    Box::new(target.get().unwrap())
}

fn info(th: Handle) -> Box<TensorInfo> {
    described(th, esker_tensor_query)
}

/// The text before the NUL.
fn word(bytes: &[u8]) -> &str {
    CStr::from_bytes_until_nul(bytes).unwrap().to_str().unwrap()
}

#[test]
fn a_tensor_is_read_whole_and_in_slabs() {
    let tensors = Tensors::new();
    ok(tensors.put(c"t"));
    let (rc, th) = tensors.open(c"t");
    ok(rc);
    assert_eq!(get(th, &mut [], 24), (0, 24, (0..12).collect()));
    let mut odd_rows = [slab(1, 2, 2), slab(1, 1, 2)];
    assert_eq!(get(th, &mut odd_rows, 8), (0, 8, vec![4, 5, 10, 11]));
    let (rc, size, numbers) = get(th, &mut [], 22);
    fails(REC2BIG, "a buffer of 22 bytes for 24 bytes", rc);
    assert_eq!((size, numbers), (24, vec![0; 11]));
    fails(INVAL, "does not fit", get(th, &mut [slab(0, 1, 5), slab(0, 1, 3)], 30).0);
    fails(INVAL, "does not fit", get(th, &mut [slab(0, 1, 1)], 30).0);
    fails(INVAL, "does not fit", get(th, &mut [slab(0, 0, 2), slab(0, 1, 3)], 30).0);
    let info = info(th);
    assert_eq!((word(&info.name), word(&info.dtype)), ("t", "<u2"));
    assert_eq!((info.ndim, info.item, info.bytes, &info.shape[..3]), (2, 2, 24, &[4, 3, 0][..]));
    assert!(info.committed_ms > 0 && info.chunks[..2] == [4, 3]);
    ok(esker_tensor_close(th, WAIT));
}

#[test]
fn a_put_by_many_is_visible_from_its_commit_on() {
    let tensors = Tensors::new();
    let (put, mut joined, mut token) = (tensors.begin(), NONE, [0; 37]);
    ok(esker_tensor_token(put, list(&mut token).cast()));
    ok(esker_tensor_join(tensors.tsh, list(&mut token).cast(), at(&mut joined), WAIT));
    ok(write(put, 0, 2));
    fails(NONEXIST, "no tensor", tensors.open(c"t").0);
    fails(INVAL, "cannot be committed", esker_tensor_commit(put, text(c"t"), Ptr::null(), WAIT));
    ok(write(joined, 2, 2));
    let mut uuid = [0; 37];
    ok(esker_tensor_commit(put, text(c"t"), list(&mut uuid).cast(), WAIT));
    assert_eq!(uuid, token);
    fails(ALREADY, "was committed", write(joined, 0, 1));
    ok(esker_tensor_put_close(put, WAIT));
    ok(esker_tensor_put_close(joined, WAIT));
    let (rc, th) = tensors.open(c"t");
    ok(rc);
    assert_eq!(get(th, &mut [], 24), (0, 24, (0..12).collect()));
    ok(esker_tensor_close(th, WAIT));
}

#[test]
fn an_aborted_put_cannot_be_joined() {
    let tensors = Tensors::new();
    let (put, mut joined, mut token) = (tensors.begin(), NONE, [0; 37]);
    ok(esker_tensor_token(put, list(&mut token).cast()));
    ok(esker_tensor_abort(put, WAIT));
    let token = list(&mut token).cast();
    fails(NONEXIST, "aborted", esker_tensor_join(tensors.tsh, token, at(&mut joined), WAIT));
    ok(esker_tensor_put_close(put, WAIT));
}

#[test]
fn tensors_are_listed_renamed_and_removed() {
    let tensors = Tensors::new();
    ok(tensors.put(c"b"));
    ok(tensors.put(c"a"));
    ok(esker_tensor_rename(tensors.tsh, text(c"b"), text(c"c"), WAIT));
    let (mut listed, mut count) = (NONE, 0);
    ok(esker_tensor_list(tensors.tsh, at(&mut listed), at(&mut count), WAIT));
    assert_eq!(count, 2);
    let (rc, th) = tensors.open(c"c");
    ok(rc);
    let mut described = info(th);
    ok(esker_tensor_entry(listed, 1, at(&mut *described)));
    assert_eq!((word(&described.name), described.chunks[0]), ("c", 0));
    fails(INVAL, "tensor 2 of a list of 2", esker_tensor_entry(listed, 2, at(&mut *described)));
    ok(esker_tensor_list_close(listed, WAIT));
    ok(esker_tensor_remove(tensors.tsh, text(c"c"), WAIT));
    fails(NONEXIST, "\"c\"", tensors.open(c"c").0);
    ok(esker_tensor_close(th, WAIT));
}

fn attr(name: &CStr, kind: u32, value: &[u8]) -> Attr {
    Attr { name: text(name), value: bytes(value), size: value.len() as u64, kind, padding: 0 }
}

/// Begins a tensor with these attributes. Returns the result of the call and the handle.
fn begin_with(tensors: &Tensors, attrs: &mut [Attr]) -> (c_int, Handle) {
    let (mut put, mut shape, dtype) = (NONE, [2], text(c"|u1"));
    let (shape, attrs, count) = (list(&mut shape), list(attrs), attrs.len() as u32);
    let chunks = Ptr::null();
    let rc =
        esker_tensor_begin(tensors.tsh, dtype, 1, shape, chunks, attrs, count, at(&mut put), WAIT);
    (rc, put)
}

#[test]
fn attributes_of_each_type_survive() {
    let tensors = Tensors::new();
    let (number, real) = ((-7i64).to_ne_bytes(), 2.5f64.to_ne_bytes());
    let numbers = [number, 9i64.to_ne_bytes()].concat();
    let values: [(&CStr, u32, &[u8]); 10] = [
        (c"flag", 1, &[1]),
        (c"number", 2, &number),
        (c"real", 3, &real),
        (c"units", 4, b"K"),
        (c"raw", 5, &[0, 255]),
        (c"flags", 257, &[1, 0]),
        (c"numbers", 258, &numbers),
        (c"reals", 259, &real),
        (c"words", 260, b"a\0\0b c\0"),
        (c"none", 256, &[]),
    ];
    let given = |(name, kind, value): (&'static CStr, u32, &[u8])| {
        // An empty list is given as one of any type.
        attr(name, if kind == 256 { 259 } else { kind }, value)
    };
    let mut attrs = values.map(given);
    let (rc, put) = begin_with(&tensors, &mut attrs);
    ok(rc);
    let (mut start, mut count) = ([0], [2]);
    let (start, count) = (list(&mut start), list(&mut count));
    ok(esker_tensor_write(put, 1, start, count, bytes(b"ab"), 2, WAIT));
    ok(esker_tensor_commit(put, text(c"t"), Ptr::null(), WAIT));
    let (_, th) = tensors.open(c"t");
    assert_eq!(info(th).attributes, 10);
    for (name, kind, value) in values {
        let (mut buffer, mut size, mut found) = ([0; 20], 20, 0);
        let target = room(&mut buffer);
        ok(esker_tensor_attribute(th, text(name), at(&mut found), target, at(&mut size)));
        assert_eq!((found, &buffer[..size as usize]), (kind, value));
    }
    let mut name = [0; 10];
    ok(esker_tensor_attribute_name(th, 3, list(&mut name).cast(), 10));
    assert_eq!(word(&name), "number");
    ok(esker_tensor_close(th, WAIT));
    ok(esker_tensor_put_close(put, WAIT));
}

#[test]
fn wrong_attributes_are_refused() {
    let tensors = Tensors::new();
    let wrong: [&mut [Attr]; 9] = [
        &mut [attr(c"a", 0, b"")],
        &mut [attr(c"a", 1, &[2])],
        &mut [attr(c"a", 2, b"four")],
        &mut [attr(c"a", 4, &[0xff])],
        &mut [attr(c"a", 4, b"x"), attr(c"a", 4, b"y")],
        &mut [attr(c"a", 257, &[2])],
        &mut [attr(c"a", 258, b"nine byte")],
        &mut [attr(c"a", 260, b"no NUL")],
        &mut [attr(c"a", 261, b"bytes")],
    ];
    for attrs in wrong {
        fails(INVAL, "attribute \"a\"", begin_with(&tensors, attrs).0);
    }
}

#[test]
fn rust_reads_tensors_of_c_and_c_those_of_rust() {
    let tensors = Tensors::new();
    ok(tensors.put(c"of c"));
    let pool = esker::Pool::connect(tensors.store.name.to_str().unwrap(), OpenMode::ReadWrite);
    let rust = TensorStore::open(&pool.unwrap(), "test", OpenMode::ReadWrite).unwrap();
    assert_eq!(rust.open_tensor("of c").unwrap().grid().shape(), [4, 3]);
    let mut new = NewTensor::new(DataType::parse("<u2").unwrap(), &[2]);
    let listed = |items| Value::List(AttributeList { items }).into();
    let flag = Attribute::from(Value::Flag(true));
    let mixed = vec![flag.clone(), Value::Integer(1).into()];
    new.attributes.insert("flags".into(), listed(vec![flag.clone()]));
    new.attributes.insert("mixed".into(), listed(mixed));
    new.attributes.insert("nested".into(), listed(vec![listed(vec![flag])]));
    let data = Strided::contiguous(&[7, 0, 9, 0], &[2], 2).unwrap();
    rust.put(&new, &data, Some("of rust")).unwrap();
    let (rc, th) = tensors.open(c"of rust");
    ok(rc);
    assert_eq!(get(th, &mut [], 4), (0, 4, vec![7, 9]));
    let (mut buffer, mut size, mut kind) = ([0], 1, 0);
    let (target, size) = (room(&mut buffer), at(&mut size));
    ok(esker_tensor_attribute(th, text(c"flags"), at(&mut kind), target, size));
    assert_eq!((kind, buffer), (257, [1]));
    for name in [c"mixed", c"nested"] {
        let rc = esker_tensor_attribute(th, text(name), Ptr::null(), Ptr::null(), size);
        fails(NOTSUPPORTED, "read it with Python or Rust", rc);
    }
    ok(esker_tensor_close(th, WAIT));
}

#[test]
fn a_snapshot_shows_tensors_that_were_replaced() {
    let tensors = Tensors::new();
    let (coh, mut epoch, mut snapshot) = (tensors.store.coh, 0, NONE);
    ok(tensors.put(c"t"));
    ok(daos_cont_create_snap(coh, at(&mut epoch), Ptr::null(), WAIT));
    ok(esker_tensor_remove(tensors.tsh, text(c"t"), WAIT));
    ok(esker_tensor_store_at(tensors.tsh, epoch, at(&mut snapshot), WAIT));
    let mut th = NONE;
    ok(esker_tensor_open(snapshot, text(c"t"), at(&mut th), WAIT));
    assert_eq!(get(th, &mut [], 24), (0, 24, (0..12).collect()));
    ok(esker_tensor_close(th, WAIT));
    fails(NO_PERM, "read-only", esker_tensor_remove(snapshot, text(c"t"), WAIT));
    let other = esker_tensor_store_at(tensors.tsh, epoch + 1, at(&mut th), WAIT);
    fails(NONEXIST, "no snapshot", other);
    ok(esker_tensor_store_close(snapshot, WAIT));
}

#[test]
fn a_put_is_described_to_the_processes_that_join_it() {
    let tensors = Tensors::new();
    let put = tensors.begin();
    let described = described(put, esker_tensor_put_query);
    assert_eq!((word(&described.name), word(&described.dtype)), ("", "<u2"));
    assert_eq!((described.ndim, &described.shape[..2], described.bytes), (2, &[4, 3][..], 24));
    assert_eq!((described.chunks[0], described.committed_ms), (4, 0));
    ok(esker_tensor_put_close(put, WAIT));
}

#[test]
fn a_collection_frees_puts_that_were_never_committed() {
    let tensors = Tensors::new();
    ok(esker_tensor_put_close(tensors.begin(), WAIT));
    for (age, flags, puts) in [(3600, DOIT, 0), (0, 0, 1), (0, DOIT, 1), (0, DOIT, 0)] {
        let mut counts = CollectedCounts::default();
        ok(esker_tensor_collect(tensors.tsh, age, flags, at(&mut counts), WAIT));
        assert_eq!((counts.puts, counts.removed), (puts, 0), "age {age}");
    }
    fails(INVAL, "unknown flags", esker_tensor_collect(tensors.tsh, 0, 1, Ptr::null(), WAIT));
}
