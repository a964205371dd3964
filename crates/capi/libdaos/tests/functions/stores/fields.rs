//! Fields: archived, flushed, retrieved, listed and wiped.
use super::*;
use esker::prelude::OpenMode;
use esker_fields::{FieldStore, Key};

#[test]
fn fields_read_back_after_the_flush() {
    let fields = Fields::new();
    ok(fields.archive("run=a,type=fc,step=6", b"six"));
    let (mut count, mut sum) = (0, 0);
    ok(esker_field_pending(fields.fsh, at(&mut count), at(&mut sum)));
    assert_eq!((count, sum), (1, 3));
    fails(NONEXIST, "1 of 1 fields are missing", fields.retrieve("run=a,type=fc,step=6", 9).0);
    ok(esker_field_flush(fields.fsh, WAIT));
    let (rc, size, buffer) = fields.retrieve("type=fc,step=6,run=a", 5);
    ok(rc);
    assert_eq!((size, &buffer[..]), (3, &b"six.."[..]));
}

#[test]
fn a_size_query_and_a_small_buffer_read_nothing() {
    let fields = Fields::new();
    fields.fill();
    let (mut key, mut size) = (Pairs::new("run=a,type=fc,step=1"), 0);
    let none = Ptr::null();
    ok(esker_field_retrieve(fields.fsh, key.at(), key.len(), none, at(&mut size), WAIT));
    assert_eq!(size, 6);
    let (rc, size, buffer) = fields.retrieve("run=a,type=fc,step=1", 5);
    fails(REC2BIG, "a buffer of 5 bytes for 6 bytes", rc);
    assert_eq!((size, &buffer[..]), (6, &b"....."[..]));
}

#[test]
fn a_selection_has_the_order_of_the_request() {
    let fields = Fields::new();
    fields.fill();
    let (rc, sel, count) = fields.select("run=a,type=fc,step=2/0", false);
    ok(rc);
    assert_eq!(count, 2);
    assert_eq!(entry(sel, 0), ("run=a,type=fc,step=2".to_owned(), 6));
    let (mut buffer, mut size) = ([0; 12], 12);
    ok(esker_field_read(sel, 0, 2, room(&mut buffer), at(&mut size), WAIT));
    assert_eq!((&buffer, size), (b"step 2step 0", 12));
    let rc = esker_field_read(sel, 1, 2, room(&mut buffer), at(&mut size), WAIT);
    fails(INVAL, "2 fields from number 1 on, of 2", rc);
    let rc = esker_field_entry(sel, 0, list(&mut buffer).cast(), 3, Ptr::null());
    fails(OVERFLOW, "key has 3 bytes of the 21", rc);
    ok(esker_field_select_close(sel, WAIT));
    fails(NO_HDL, "a selection of fields", esker_field_select_close(sel, WAIT));
}

#[test]
fn a_selection_needs_every_field_and_a_list_does_not() {
    let fields = Fields::new();
    fields.fill();
    let request = "run=a,type=fc,step=0/9";
    fails(NONEXIST, "step=9", fields.select(request, false).0);
    for (request, lists) in [(request, true), ("run=a,type=fc,step=0/9,expect=any", false)] {
        let (rc, sel, count) = fields.select(request, lists);
        ok(rc);
        assert_eq!(count, 1);
        ok(esker_field_select_close(sel, WAIT));
    }
    let (rc, sel, count) = fields.select("", true);
    ok(rc);
    assert_eq!(count, 3);
    ok(esker_field_select_close(sel, WAIT));
}

#[test]
fn a_wipe_only_counts_unless_it_is_told_to_remove() {
    let fields = Fields::new();
    fields.fill();
    for (flags, left) in [(0, 3), (DOIT, 1)] {
        let (mut request, mut counts) = (Pairs::new("run=a,step=0/1"), RemovedCounts::default());
        let (pairs, count) = (request.at(), request.len());
        ok(esker_field_wipe(fields.fsh, pairs, count, flags, at(&mut counts), WAIT));
        assert_eq!(counts, RemovedCounts { fields: 2, bytes: 12, ..RemovedCounts::default() });
        let (_, sel, count) = fields.select("", true);
        assert_eq!(count, left);
        ok(esker_field_select_close(sel, WAIT));
    }
    let (mut request, flags) = (Pairs::new("step=2"), DOIT);
    let (pairs, count) = (request.at(), request.len());
    let rc = esker_field_wipe(fields.fsh, pairs, count, flags, Ptr::null(), WAIT);
    fails(INVAL, "name the whole database", rc);
}

#[test]
fn a_purge_frees_masked_fields() {
    let fields = Fields::new();
    fields.fill();
    fields.fill();
    for (flags, masked) in [(0, 3), (DOIT, 3), (DOIT, 0)] {
        let mut counts = RemovedCounts::default();
        ok(esker_field_purge(fields.fsh, Ptr::null(), 0, flags, at(&mut counts), WAIT));
        assert_eq!((counts.fields, counts.masked, counts.bytes), (0, masked, masked * 6));
    }
    ok(fields.retrieve("run=a,type=fc,step=0", 6).0);
}

#[test]
fn closing_refuses_to_lose_unflushed_fields() {
    let fields = Fields::new();
    ok(fields.archive("run=a,type=fc,step=6", b"six"));
    fails(BUSY, "1 fields wait for a flush", esker_field_store_close(fields.fsh, 0, WAIT));
    ok(esker_field_flush(fields.fsh, WAIT));
    let mut other = NONE;
    ok(esker_field_store_open(fields.store.coh, Ptr::null(), 0, at(&mut other), WAIT));
    ok(esker_field_store_close(other, 0, WAIT));
}

#[test]
fn the_schema_of_a_store_is_verified() {
    let fields = Fields::new();
    let (mut buffer, mut size, mut other) = ([0; 100], 100, NONE);
    ok(esker_field_schema(fields.fsh, list(&mut buffer).cast(), at(&mut size)));
    assert_eq!(&buffer[..size as usize], SCHEMA.to_bytes());
    let open = |schema, handle: &mut Handle| {
        esker_field_store_open(fields.store.coh, schema, CREATE, at(handle), WAIT)
    };
    fails(MISMATCH, "another schema", open(text(c"[run [type [number]]]"), &mut other));
    fails(INVAL, "schema", open(text(c"[run"), &mut other));
    ok(open(text(SCHEMA), &mut other));
    ok(esker_field_store_close(other, 0, WAIT));
}

#[test]
fn rust_reads_fields_of_c_and_c_those_of_rust() {
    let fields = Fields::new();
    fields.fill();
    let pool = esker::Pool::connect(fields.store.name.to_str().unwrap(), OpenMode::ReadWrite);
    let rust = FieldStore::open(&pool.unwrap(), "test", OpenMode::ReadWrite).unwrap();
    let key = Key::parse("run=a,type=fc,step=1").unwrap();
    assert_eq!(rust.field(&key).unwrap().read().unwrap(), b"step 1");
    let mut writer = rust.writer();
    writer.archive(&key, b"changed").unwrap();
    writer.flush().unwrap();
    let (rc, size, buffer) = fields.retrieve("run=a,type=fc,step=1", 7);
    ok(rc);
    assert_eq!((size, &buffer[..]), (7, &b"changed"[..]));
}
