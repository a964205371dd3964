//! Properties through the C functions.
use crate::common::*;
use daos::abi::{Handle, ObjId, Prop, PropEntry, PropValue, Ptr, Roots};
use daos::acl::list::*;
use daos::acl::perms::daos_cont_get_perms;
use daos::container::access::*;
use daos::container::*;
use daos::pool::daos_pool_query;
use daos::property::daos_prop_entry_cmp_acl;
use daos::property::daos_prop_from_str;
use daos::property::*;
use std::ffi::CStr;

const LABEL: u32 = 0x1001;
const LAYOUT: u32 = 0x1002;
const CSUM: u32 = 0x1004;
const REDUN_FAC: u32 = 0x1007;
const SNAPSHOT_MAX: u32 = 0x1009;
const ACL: u32 = 0x100a;
const COMPRESS: u32 = 0x100b;
const OWNER: u32 = 0x100d;
const GROUP: u32 = 0x100e;
const ROOTS: u32 = 0x1011;
const STATUS: u32 = 0x1012;
const ALLOCED_OID: u32 = 0x1013;
const GLOBAL_VERSION: u32 = 0x1017;

/// A list of properties with these numbers as values.
fn numbers(values: &[(u32, u64)]) -> Ptr<Prop> {
    let prop = daos_prop_alloc(values.len() as u32);
    let entries = prop.get().unwrap().entries;
    for (index, (kind, value)) in values.iter().enumerate() {
        // SAFETY: the properties are numbers.
        let value = unsafe { PropValue::new(*value) };
        entries.at(index).set(PropEntry { kind: *kind, value, ..PropEntry::default() });
    }
    prop
}

/// The entry of a property.
fn entry(prop: Ptr<Prop>, kind: u32) -> PropEntry {
    daos_prop_entry_get(prop, kind).get().unwrap()
}

/// Opens a new container with these properties, or returns the error of its creation.
fn create(store: &Store, label: &CStr, prop: Ptr<Prop>) -> Result<Handle, i32> {
    let made = daos_cont_create_with_label(store.poh, text(label), prop, Ptr::null(), WAIT);
    daos_prop_free(prop);
    let mut coh = NONE;
    daos_cont_open2(store.poh, text(label), RW, at(&mut coh), Ptr::null(), WAIT);
    if made == 0 { Ok(coh) } else { Err(made) }
}

/// The values of properties of a container.
fn query(coh: Handle, kinds: &[u32]) -> Ptr<Prop> {
    let prop = numbers(&kinds.iter().map(|kind| (*kind, 0)).collect::<Vec<_>>());
    assert_eq!(daos_cont_query(coh, Ptr::null(), prop, WAIT), 0);
    prop
}

#[test]
fn every_property_has_a_value() {
    let store = Store::new();
    let all = daos_prop_alloc(0);
    assert_eq!(daos_cont_query(store.coh, Ptr::null(), all, WAIT), 0);
    assert_eq!(all.get().unwrap().nr, 26);
    assert_eq!(read(entry(all, LABEL).value.string()), "test");
    assert!(read(entry(all, OWNER).value.string()).ends_with('@'));
    assert_eq!(entry(all, LAYOUT).value.number(), 0);
    assert_eq!(entry(all, CSUM).value.number(), 2);
    let roots: Roots = entry(all, ROOTS).value.pointer().get().unwrap();
    assert_eq!(roots.oids[0].lo, 0);
    assert_ne!(roots.oids[0].hi, 0, "as DAOS, every container has a root");
    assert_eq!(roots.oids[1..], [ObjId::default(); 3]);
    assert_eq!(daos_acl_validate(entry(all, ACL).value.pointer()), 0);
    daos_prop_free(all);
    let all = daos_prop_alloc(0);
    let none = Ptr::<Ptr<daos::abi::RankList>>::null();
    assert_eq!(daos_pool_query(store.poh, none, Ptr::null(), all, WAIT), 0);
    assert_eq!(all.get().unwrap().nr, 27);
    assert_eq!(read(entry(all, 1).value.string()), "memory");
    assert_eq!(entry(all, 8).value.pointer::<daos::abi::RankList>().get().unwrap().nr, 1);
    daos_prop_free(all);
}

#[test]
fn properties_set_at_creation_are_returned() {
    let store = Store::new();
    let prop = numbers(&[(LAYOUT, 1), (CSUM, 3), (ROOTS, 0), (ALLOCED_OID, 500), (LABEL, 0)]);
    let mut roots = Roots::default();
    roots.oids[1] = ObjId { lo: 3, hi: 4 };
    assert_eq!(daos_prop_set_ptr(prop, ROOTS, at(&mut roots).cast(), 64), 0);
    assert_eq!(daos_prop_set_str(prop, LABEL, text(c"fs"), 2), 0);
    let coh = create(&store, c"fs", prop).unwrap();
    let prop = query(coh, &[LAYOUT, CSUM, ROOTS, ALLOCED_OID]);
    let value = |kind| entry(prop, kind).value.number();
    assert_eq!((value(LAYOUT), value(CSUM), value(ALLOCED_OID)), (1, 3, 500));
    assert_eq!(entry(prop, ROOTS).value.pointer::<Roots>().get().unwrap(), roots);
    daos_prop_free(prop);
}

#[test]
fn unsupported_features_are_refused() {
    let store = Store::new();
    for (kind, value, code) in [
        (CSUM, 1, NOTSUPPORTED),
        (CSUM, 5, NOTSUPPORTED),
        (CSUM, 8, INVAL),
        (REDUN_FAC, 9, INVAL),
        (COMPRESS, 1, NOTSUPPORTED),
        (GLOBAL_VERSION, 1, NO_PERM),
        (0x2000, 1, INVAL),
        (3, 1, INVAL),
    ] {
        let made = create(&store, c"bad", numbers(&[(kind, value)]));
        assert_eq!(made, Err(code), "{kind:#x} = {value}");
    }
    let prop = numbers(&[(LABEL, 0)]);
    daos_prop_set_str(prop, LABEL, text(c"other"), 5);
    assert_eq!(create(&store, c"label", prop), Err(INVAL), "two labels");
    let broken = Prop { nr: 3, reserved: 0, entries: Ptr::null() };
    let made = daos_cont_create2(store.poh, Ptr::null(), at(&mut { broken }), WAIT);
    assert_eq!(made, INVAL);
}

#[test]
fn owners_must_be_principals() {
    let store = Store::new();
    for (kind, name, code) in [
        (OWNER, c"bob", INVAL),
        (OWNER, c"", INVAL),
        (GROUP, c"a@b@c", INVAL),
        (OWNER, c"bob@", 0),
        (GROUP, c"readers@", 0),
    ] {
        let owned = || {
            let prop = numbers(&[(kind, 0)]);
            daos_prop_set_str(prop, kind, text(name), name.to_bytes().len() as u64);
            prop
        };
        let made = create(&store, c"owned", owned());
        assert_eq!(made.err().unwrap_or(0), code, "{kind:#x} {name:?}");
        let _ = made.map(|coh| daos_cont_close(coh, WAIT));
        daos_cont_destroy(store.poh, text(c"owned"), 1, WAIT);
        let coh = create(&store, c"changed", Ptr::null()).unwrap();
        let prop = owned();
        assert_eq!(daos_cont_set_prop(coh, prop, WAIT), code, "{kind:#x} {name:?}");
        daos_prop_free(prop);
        daos_cont_destroy(store.poh, text(c"changed"), 1, WAIT);
        daos_cont_close(coh, WAIT);
    }
}

#[test]
fn properties_fixed_at_creation_cannot_be_changed() {
    let store = Store::new();
    let set = |prop: Ptr<Prop>| {
        let done = daos_cont_set_prop(store.coh, prop, WAIT);
        daos_prop_free(prop);
        done
    };
    assert_eq!(set(numbers(&[(ALLOCED_OID, 1)])), NO_PERM);
    assert_eq!(set(numbers(&[(LAYOUT, 1)])), NO_PERM);
    // `DAOS_PROP_CO_CLEAR` beside the status "unclean": the status becomes healthy.
    assert_eq!(set(numbers(&[(STATUS, 1 << 48 | 1 << 32)])), 0);
    let prop = numbers(&[(LABEL, 0)]);
    daos_prop_set_str(prop, LABEL, text(c"renamed"), 7);
    assert_eq!(set(prop), 0);
    let prop = query(store.coh, &[LABEL, STATUS]);
    assert_eq!(read(entry(prop, LABEL).value.string()), "renamed");
    assert_eq!(entry(prop, STATUS).value.number(), 0);
    daos_prop_free(prop);
    assert_eq!(daos_cont_status_clear(store.coh, WAIT), 0);
    assert_eq!(daos_cont_set_prop(store.coh, Ptr::null(), WAIT), INVAL);
    assert_eq!(daos_cont_set_prop(NONE, Ptr::null(), WAIT), NO_HDL);
}

#[test]
fn the_number_of_snapshots_is_limited() {
    let store = Store::new();
    let coh = create(&store, c"few", numbers(&[(SNAPSHOT_MAX, 1)])).unwrap();
    let mut epoch = 0;
    let mut snap = || daos::snapshot::daos_cont_create_snap(coh, at(&mut epoch), Ptr::null(), WAIT);
    assert_eq!(snap(), 0);
    assert_eq!(snap(), OVERFLOW);
    let more = numbers(&[(LABEL, 0), (SNAPSHOT_MAX, 2)]);
    daos_prop_set_str(more, LABEL, text(c"few"), 3);
    assert_eq!(daos_cont_set_prop(coh, more, WAIT), 0, "with its current label");
    daos_prop_free(more);
    assert_eq!(snap(), 0);
    assert_eq!(snap(), OVERFLOW);
}

#[test]
fn a_redundancy_factor_is_stored() {
    let store = Store::new();
    let coh = create(&store, c"safe", numbers(&[(REDUN_FAC, 1)])).unwrap();
    let prop = query(coh, &[REDUN_FAC]);
    assert_eq!(entry(prop, REDUN_FAC).value.number(), 1);
    daos_prop_free(prop);
}

#[test]
fn a_container_without_a_label_has_an_empty_one() {
    let store = Store::new();
    let mut uuid = [0; 16];
    assert_eq!(daos_cont_create2(store.poh, at(&mut uuid), Ptr::null(), WAIT), 0);
    let name = std::ffi::CString::new(esker::types::Uuid(uuid).to_string()).unwrap();
    let mut coh = NONE;
    daos_cont_open2(store.poh, text(&name), RW, at(&mut coh), Ptr::null(), WAIT);
    let prop = query(coh, &[LABEL]);
    assert_eq!(read(entry(prop, LABEL).value.string()), "");
    daos_prop_free(prop);
}

#[test]
fn lists_are_allocated_merged_and_freed() {
    assert!(daos_prop_alloc(129).is_null());
    daos_prop_free(Ptr::null());
    let old = numbers(&[(LABEL, 0), (LAYOUT, 1)]);
    assert_eq!(daos_prop_set_str(old, LABEL, text(c"first"), 5), 0);
    assert_eq!(daos_prop_set_str(old, LABEL, text(c"label"), 3), 0);
    assert_eq!(daos_prop_set_str(old, OWNER, text(c"me@"), 3), NONEXIST);
    assert_eq!(daos_prop_set_str(old, LABEL, Ptr::null(), 3), INVAL);
    assert_eq!(daos_prop_set_str(Ptr::null(), LABEL, text(c"x"), 1), INVAL);
    let new = numbers(&[(LAYOUT, 2), (CSUM, 3)]);
    let mut merged = Ptr::null();
    assert_eq!(daos_prop_merge2(old, new, at(&mut merged)), 0);
    daos_prop_free(old);
    daos_prop_free(new);
    assert_eq!(merged.get().unwrap().nr, 3);
    assert_eq!(read(entry(merged, LABEL).value.string()), "lab");
    assert_eq!(entry(merged, LAYOUT).value.number(), 2);
    assert!(daos_prop_entry_get(merged, OWNER).is_null());
    let copy = daos_prop_merge(merged, Ptr::null());
    let (label, layout) = (daos_prop_entry_get(copy, LABEL), daos_prop_entry_get(copy, LAYOUT));
    assert!(daos_prop_has_str(label) && !daos_prop_has_str(layout));
    assert!(!daos_prop_has_ptr(label) && !daos_prop_has_byteval(label));
    daos_prop_free(copy);
    daos_prop_free(merged);
}

#[test]
fn text_is_parsed_to_a_list() {
    let parse =
        |words: &CStr, prop| daos_prop_from_str(text(words), words.to_bytes().len() as u64, prop);
    let mut prop = Ptr::null();
    assert_eq!(parse(c"label:run1;cksum:crc64", at(&mut prop)), 0);
    assert_eq!(read(entry(prop, LABEL).value.string()), "run1");
    assert_eq!(entry(prop, CSUM).value.number(), 3);
    daos_prop_free(prop);
    assert_eq!(parse(c"colour:red", at(&mut prop)), INVAL);
    assert_eq!(parse(c"label:x", Ptr::null()), INVAL);
    assert_eq!(daos_prop_from_str(Ptr::null(), 3, at(&mut prop)), INVAL);
}

#[test]
fn access_lists_of_containers_can_be_changed() {
    let store = Store::new();
    let shown = || {
        let mut prop = Ptr::null();
        assert_eq!(daos_cont_get_acl(store.coh, at(&mut prop), WAIT), 0);
        prop
    };
    let before = shown();
    let mut acl = Ptr::null();
    let mut words = [text(c"A::bob@:r"), text(c"A::OWNER@:rw")];
    assert_eq!(daos_acl_from_strs(list(&mut words), 2, at(&mut acl)), 0);
    assert_eq!(daos_cont_update_acl(store.coh, acl, WAIT), 0);
    let after = shown();
    let acl_of = |prop| daos_prop_entry_get(prop, ACL);
    assert_eq!(daos_prop_entry_cmp_acl(acl_of(before), acl_of(after)), MISMATCH);
    let delete = |name| daos_cont_delete_acl(store.coh, 1, text(name), WAIT);
    assert_eq!(delete(c"bob@"), 0);
    assert_eq!(delete(c"bob@"), NONEXIST);
    assert_eq!(daos_cont_overwrite_acl(store.coh, acl, WAIT), 0);
    let mut count = 0;
    let mut texts = Ptr::null();
    let end = shown();
    let of = entry(end, ACL).value.pointer();
    assert_eq!(daos_acl_to_strs(of, at(&mut texts), at(&mut count)), 0);
    assert_eq!(
        texts.list(count).unwrap().into_iter().map(read).collect::<Vec<_>>(),
        ["A::OWNER@:rw", "A::bob@:r"]
    );
    assert_eq!(daos_cont_overwrite_acl(store.coh, Ptr::null(), WAIT), INVAL);
    let owner = |name| daos_cont_set_owner_no_check(store.coh, name, Ptr::null(), WAIT);
    assert_eq!(owner(text(c"unknown@")), 0);
    assert_eq!(owner(text(c"no-at")), INVAL);
    let both = daos_cont_set_owner_no_check(store.coh, text(c"bob@"), text(c"no-at"), WAIT);
    assert_eq!(both, INVAL);
    let unchanged = shown();
    assert_eq!(read(entry(unchanged, OWNER).value.string()), "unknown@");
    daos_prop_free(unchanged);
    assert_eq!(owner(Ptr::null()), INVAL);
    let known = text(c"no-such-user-here@");
    assert_eq!(daos_cont_set_owner(store.coh, known, Ptr::null(), WAIT), NONEXIST);
    let changed = shown();
    assert_eq!(read(entry(changed, OWNER).value.string()), "unknown@");
    let mut perms = 0;
    let none = Ptr::null();
    assert_eq!(daos_cont_get_perms(changed, 0, none, 0, at(&mut perms)), 0);
    assert_eq!(perms, 0, "root is not the owner any more");
    [before, after, end, changed].into_iter().for_each(|prop| daos_prop_free(prop));
    daos_acl_free(acl);
}
