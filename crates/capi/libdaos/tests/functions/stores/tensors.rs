//! Tensors: put whole and in parts, read whole and in slabs, with attributes.
use super::*;
use esker::prelude::OpenMode;
use esker_tensors::{Attribute, AttributeList, DataType, NewTensor, Strided, TensorStore, Value};
use std::ffi::CStr;

fn slab(start: u64, step: u64, count: u64) -> SlabArgument {
    SlabArgument { start, step, count }
}

/// The selected integers, and what the call returned.
fn get(th: Handle, slabs: &mut [SlabArgument], room: usize) -> (c_int, u64, Vec<u16>) {
    let (mut buffer, mut size) = (vec![0; room], room as u64);
    let slabs_at = if slabs.is_empty() { Ptr::null() } else { list(slabs) };
    let target = crate::common::room(&mut buffer);
    let rc = esker_tensor_get(th, slabs_at, slabs.len() as u32, target, at(&mut size), WAIT);
    let numbers = buffer.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
    (rc, size, numbers)
}

fn write(put: Handle, start: u64, rows: u64) -> c_int {
    let numbers = start as u16 * 3..(start + rows) as u16 * 3;
    let data: Vec<u8> = numbers.flat_map(u16::to_le_bytes).collect();
    let (mut start, mut count) = ([start, 0], [rows, 3]);
    let size = data.len() as u64;
    esker_tensor_write(put, 2, list(&mut start), list(&mut count), bytes(&data), size, WAIT)
}

fn info(th: Handle) -> Box<TensorInfo> {
    let mut info: Vec<TensorInfo> = Vec::with_capacity(1);
    // SAFETY: the vector has room for one.
    let target = unsafe { Ptr::new(info.as_mut_ptr()) };
    ok(esker_tensor_query(th, target));
    Box::new(target.get().unwrap())
}

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
    let values: [(&CStr, u32, &[u8]); 5] = [
        (c"flag", 1, &[1]),
        (c"number", 2, &number),
        (c"real", 3, &real),
        (c"units", 4, b"K"),
        (c"raw", 5, &[0, 255]),
    ];
    let mut attrs = values.map(|(name, kind, value)| attr(name, kind, value));
    let (rc, put) = begin_with(&tensors, &mut attrs);
    ok(rc);
    let (mut start, mut count) = ([0], [2]);
    let (start, count) = (list(&mut start), list(&mut count));
    ok(esker_tensor_write(put, 1, start, count, bytes(b"ab"), 2, WAIT));
    ok(esker_tensor_commit(put, text(c"t"), Ptr::null(), WAIT));
    let (_, th) = tensors.open(c"t");
    assert_eq!(info(th).attributes, 5);
    for (name, kind, value) in values {
        let (mut buffer, mut size, mut found) = ([0; 9], 9, 0);
        let target = room(&mut buffer);
        ok(esker_tensor_attribute(th, text(name), at(&mut found), target, at(&mut size)));
        assert_eq!((found, &buffer[..size as usize]), (kind, value));
    }
    let mut name = [0; 10];
    ok(esker_tensor_attribute_name(th, 1, list(&mut name).cast(), 10));
    assert_eq!(word(&name), "number");
    ok(esker_tensor_close(th, WAIT));
    ok(esker_tensor_put_close(put, WAIT));
}

#[test]
fn wrong_attributes_are_refused() {
    let tensors = Tensors::new();
    let wrong: [&mut [Attr]; 5] = [
        &mut [attr(c"a", 0, b"")],
        &mut [attr(c"a", 1, &[2])],
        &mut [attr(c"a", 2, b"four")],
        &mut [attr(c"a", 4, &[0xff])],
        &mut [attr(c"a", 4, b"x"), attr(c"a", 4, b"y")],
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
    let listed = Value::List(AttributeList { items: vec![Attribute::from(Value::Flag(true))] });
    new.attributes.insert("list".into(), listed.into());
    let data = Strided::contiguous(&[7, 0, 9, 0], &[2], 2).unwrap();
    rust.put(&new, &data, Some("of rust")).unwrap();
    let (rc, th) = tensors.open(c"of rust");
    ok(rc);
    assert_eq!(get(th, &mut [], 4), (0, 4, vec![7, 9]));
    let (mut size, none) = (0, Ptr::null());
    let rc = esker_tensor_attribute(th, text(c"list"), none, Ptr::null(), at(&mut size));
    fails(NOTSUPPORTED, "is a list", rc);
    ok(esker_tensor_close(th, WAIT));
}
