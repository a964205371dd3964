//! Arguments that are refused by name.
use super::*;

#[test]
fn null_pointers_are_refused_by_name() {
    let (fields, tensors) = (Fields::new(), Tensors::new());
    let (fsh, tsh, mut size) = (fields.fsh, tensors.tsh, 0);
    let mut key = Pairs::new("run=a,type=fc,step=0");
    let open = |store| esker_field_store_open(store, Ptr::null(), CREATE, Ptr::null(), WAIT);
    fails(INVAL, "fsh is a null pointer", open(fields.store.coh));
    let archive = |key, data| esker_field_archive(fsh, key, 3, data, 1, WAIT);
    fails(INVAL, "key is a null pointer", archive(Ptr::null(), bytes(b"x")));
    fails(INVAL, "data is a null pointer", archive(key.at(), Ptr::null()));
    let mut retrieve = |size| esker_field_retrieve(fsh, key.at(), 3, Ptr::null(), size, WAIT);
    fails(INVAL, "size is a null pointer", retrieve(Ptr::null()));
    key.entries[1].value = Ptr::null();
    let rc = esker_field_retrieve(fsh, key.at(), 3, Ptr::null(), at(&mut size), WAIT);
    fails(INVAL, "the value of type of key is a null pointer", rc);
    fails(INVAL, "name is a null pointer", esker_tensor_remove(tsh, Ptr::null(), WAIT));
    fails(INVAL, "th is a null pointer", esker_tensor_open(tsh, text(c"t"), Ptr::null(), WAIT));
    let list_them = esker_tensor_list(tsh, Ptr::null(), at(&mut size), WAIT);
    fails(INVAL, "list is a null pointer", list_them);
}

#[test]
fn unknown_flags_are_refused() {
    let (fields, mut handle, mut key) = (Fields::new(), NONE, Pairs::new("run=a"));
    let open = esker_field_store_open(fields.store.coh, Ptr::null(), 2, at(&mut handle), WAIT);
    fails(INVAL, "unknown flags 0x2: this call knows 0x1", open);
    fails(INVAL, "unknown flags 0x1", esker_field_store_close(fields.fsh, 1, WAIT));
    let (pairs, count) = (key.at(), key.len());
    let wipe = esker_field_wipe(fields.fsh, pairs, count, 5, Ptr::null(), WAIT);
    fails(INVAL, "unknown flags 0x1", wipe);
    let open = esker_tensor_store_open(fields.store.coh, 8, at(&mut handle), WAIT);
    fails(INVAL, "unknown flags 0x8", open);
}

#[test]
fn handles_of_another_kind_are_refused() {
    let (fields, tensors, mut handle) = (Fields::new(), Tensors::new(), NONE);
    fails(NO_HDL, "a field store", esker_field_flush(tensors.tsh, WAIT));
    fails(NO_HDL, "a field store", esker_field_flush(fields.store.coh, WAIT));
    fails(NO_HDL, "a tensor store", esker_tensor_store_close(fields.fsh, WAIT));
    fails(NO_HDL, "a PUT", esker_tensor_abort(tensors.tsh, WAIT));
    fails(NO_HDL, "a list of tensors", esker_tensor_list_close(NONE, WAIT));
    let open = esker_tensor_store_open(fields.store.poh, CREATE, at(&mut handle), WAIT);
    fails(NO_HDL, "The handle is not valid", open);
    assert_eq!(handle, NONE);
}

#[test]
fn a_store_is_not_made_in_a_container_that_holds_something_else() {
    let (fields, mut handle) = (Fields::new(), NONE);
    fields.fill();
    let open = esker_tensor_store_open(fields.store.coh, CREATE, at(&mut handle), WAIT);
    fails(INVAL, "holds no tensors", open);
    let empty = Store::new();
    let open = esker_field_store_open(empty.coh, Ptr::null(), 0, at(&mut handle), WAIT);
    fails(INVAL, "holds no fields", open);
}

#[test]
fn sizes_that_do_not_agree_are_refused() {
    let tensors = Tensors::new();
    let (put, mut start, mut count) = (tensors.begin(), [0, 0], [1, 3]);
    let mut write = |ndim, size| {
        let (start, count) = (list(&mut start), list(&mut count));
        esker_tensor_write(put, ndim, start, count, bytes(&[0; 6]), size, WAIT)
    };
    fails(INVAL, "5 bytes are not the elements", write(2, 5));
    fails(INVAL, "does not fit", write(1, 2));
    fails(INVAL, "33 entries are more than 32 (DIMENSIONS_MAX)", write(33, 6));
    let mut key = Pairs::new("run=a");
    let rc = esker_field_archive(NONE, key.at(), 65, bytes(b"x"), 1, WAIT);
    fails(NO_HDL, "a field store", rc);
    let fields = Fields::new();
    let rc = esker_field_archive(fields.fsh, key.at(), 65, bytes(b"x"), 1, WAIT);
    fails(INVAL, "65 entries are more than 64 (KEY_PAIRS_MAX)", rc);
    fails(INVAL, "a field of no bytes", fields.archive("run=a,type=fc,step=0", b""));
    fails(INVAL, "step", fields.archive("run=a,type=fc", b"x"));
    ok(esker_tensor_put_close(put, WAIT));
}

#[test]
fn texts_of_failures_belong_to_their_thread() {
    let fields = Fields::new();
    fails(NONEXIST, "step=0", fields.retrieve("run=a,type=fc,step=0", 0).0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(last_text(), "");
            fails(INVAL, "unknown flags", esker_field_store_close(fields.fsh, 64, WAIT));
        });
    });
    assert!(last_text().contains("step=0"), "{}", last_text());
}
