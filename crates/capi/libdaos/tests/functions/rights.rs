//! Access control lists of containers, as the C functions enforce them.
use crate::common::*;
use daos::abi::{ContInfo, Handle, Prop, PropEntry, PropValue, Ptr};
use daos::acl::list::{daos_acl_free, daos_acl_from_strs};
use daos::acl::principal::daos_acl_uid_to_principal;
use daos::attribute::{daos_cont_list_attr, daos_cont_set_attr};
use daos::container::access::*;
use daos::container::*;
use daos::dfs::check::dfs_cont_scan;
use daos::dfs::create::{dfs_cont_create_with_label, dfs_cont_set_owner};
use daos::duns::duns_link_cont;
use daos::global::*;
use daos::kv::*;
use daos::property::*;
use daos::snapshot::daos_cont_create_snap;
use std::ffi::{CString, c_int};

const LABEL: u32 = 0x1001;
const SNAPSHOT_MAX: u32 = 0x1009;
const ACL: u32 = 0x100a;
const OWNER: u32 = 0x100d;

/// The principal of the user that runs the test.
fn me() -> String {
    let mut name = Ptr::null();
    // SAFETY: it only returns a number.
    assert_eq!(daos_acl_uid_to_principal(unsafe { libc::geteuid() }, at(&mut name)), 0);
    read(name)
}

/// Gives the container to another user, with a list that grants these permissions to the user of the test.
fn store_granting(perms: &str) -> Store {
    let store = Store::new();
    let none = Ptr::null();
    assert_eq!(daos_cont_set_owner_no_check(store.coh, text(c"nobody@"), none, WAIT), 0);
    assert_eq!(overwrite(store.coh, &format!("A::{}:{perms}", me())), 0);
    store
}

/// Replaces the list of a container by one entry, and returns the result of the call.
fn overwrite(coh: Handle, entry: &str) -> c_int {
    let entry = CString::new(entry).unwrap();
    let mut acl = Ptr::null();
    assert_eq!(daos_acl_from_strs(at(&mut text(&entry)), 1, at(&mut acl)), 0);
    let done = daos_cont_overwrite_acl(coh, acl, WAIT);
    daos_acl_free(acl);
    done
}

fn try_open(store: &Store, flags: u32) -> (c_int, Handle) {
    let mut coh = NONE;
    let name = text(c"test");
    let opened = daos_cont_open2(store.poh, name, flags, at(&mut coh), Ptr::null(), WAIT);
    (opened, coh)
}

/// An open container on which the user has these permissions.
fn opened(perms: &str, flags: u32) -> (Store, Handle) {
    let store = store_granting(perms);
    let (done, coh) = try_open(&store, flags);
    assert_eq!(done, 0, "{perms}");
    (store, coh)
}

#[test]
fn opening_needs_a_permission_of_the_mode() {
    for (perms, flags, expected) in [
        ("", RO, NO_PERM),
        ("w", RO, NO_PERM),
        ("r", RO, 0),
        ("t", RO, 0),
        ("a", RO, 0),
        ("r", RW, NO_PERM),
        ("rd", RW, NO_PERM),
        ("w", RW, NO_PERM),
        ("rw", RO, 0),
        ("rw", RW, 0),
        ("tA", RW, 0),
        ("rwdtTaAo", EX, NO_PERM),
    ] {
        let store = store_granting(perms);
        daos_cont_close(store.coh, WAIT);
        let (done, coh) = try_open(&store, flags);
        assert_eq!(done, expected, "{perms} {flags}");
        daos_cont_close(coh, WAIT);
    }
}

#[test]
fn open_without_permission_evicts_no_handle() {
    const EVICT: u32 = 0x20;
    const EVICT_ALL: u32 = 0x40;
    let (store, coh) = opened("r", RO);
    for flags in [RW | EVICT, EX | EVICT_ALL] {
        assert_eq!(try_open(&store, flags).0, NO_PERM, "{flags:#x}");
        let queried = daos_cont_query(coh, at(&mut ContInfo::default()), Ptr::null(), WAIT);
        assert_eq!(queried, 0, "{flags:#x}");
    }
    let (done, new) = try_open(&store, RO | EVICT);
    assert_eq!((done, daos_cont_close(new, WAIT), daos_cont_close(coh, WAIT)), (0, 0, 0));
}

/// The owner, as the list of properties of a container names it.
fn owner(coh: Handle) -> String {
    let prop = asking(OWNER, 0);
    assert_eq!(daos_cont_query(coh, at(&mut ContInfo::default()), prop, WAIT), 0);
    let owner = read(prop.get().unwrap().entries.get().unwrap().value.string());
    daos_prop_free(prop);
    owner
}

#[test]
fn owner_of_container_stays_if_its_root_cannot_change() {
    let change = |coh| dfs_cont_set_owner(coh, text(c"other@"), 4321, Ptr::null(), u32::MAX);
    let store = Store::new();
    let before = owner(store.coh);
    assert_eq!((change(store.coh), owner(store.coh)), (libc::EINVAL, before), "no file system");

    let (label, mut coh) = (text(c"files"), NONE);
    let (attr, uuid, dfs) = (Ptr::null(), Ptr::null(), Ptr::null());
    let made = dfs_cont_create_with_label(store.poh, label, attr, uuid, at(&mut coh), dfs);
    assert_eq!((made, overwrite(coh, "A::OWNER@:rto")), (0, 0));
    daos_cont_close(coh, WAIT);
    assert_eq!(daos_cont_open2(store.poh, label, RW, at(&mut coh), Ptr::null(), WAIT), 0);
    let before = owner(coh);
    assert_eq!((change(coh), owner(coh)), (libc::EPERM, before), "the user may not write");
    daos_cont_close(coh, WAIT);
}

/// Writes a value to the container, and returns the result of the first call that fails, or 0.
fn put(coh: Handle) -> c_int {
    let (mut oh, mut oid) = (NONE, daos::abi::ObjId { lo: 9, hi: 0 });
    daos::object::daos_obj_generate_oid2(coh, at(&mut oid), KV_HASHED, S1, 0, 0);
    match daos_kv_open(coh, oid, OBJ_RW, at(&mut oh), WAIT) {
        0 => daos_kv_put(oh, NONE, 0, text(c"key"), 1, bytes(b"v"), WAIT),
        code => code,
    }
}

#[test]
fn data_access_needs_permission() {
    let denied = NO_PERM;
    for (perms, put_gives, set_gives, list_gives) in [
        ("rw", 0, 0, 0),
        ("rT", denied, denied, 0),
        ("tw", denied, 0, denied),
        ("tT", denied, denied, denied),
    ] {
        let (_store, coh) = opened(perms, RW);
        assert_eq!(put(coh), put_gives, "{perms}");
        let snap = daos_cont_create_snap(coh, at(&mut 0), Ptr::null(), WAIT);
        assert_eq!(snap, put_gives, "{perms}");
        let (mut name, mut value, mut size) = (text(c"name"), bytes(b"v"), 1);
        let set = daos_cont_set_attr(coh, 1, at(&mut name), at(&mut value), at(&mut size), WAIT);
        assert_eq!(set, set_gives, "{perms}");
        let listed = daos_cont_list_attr(coh, Ptr::null(), at(&mut size), WAIT);
        assert_eq!(listed, list_gives, "{perms}");
        daos_cont_close(coh, WAIT);
    }
}

/// A list with one property.
fn asking(kind: u32, value: u64) -> Ptr<Prop> {
    let prop = daos_prop_alloc(1);
    // SAFETY: the property is a number.
    let value = unsafe { PropValue::new(value) };
    prop.get().unwrap().entries.set(PropEntry { kind, value, ..PropEntry::default() });
    prop
}

#[test]
fn reading_properties_needs_permission() {
    for (perms, label, acl, owner, all) in [
        ("r", NO_PERM, NO_PERM, NO_PERM, NO_PERM),
        ("t", 0, NO_PERM, 0, NO_PERM),
        ("a", NO_PERM, 0, 0, NO_PERM),
        ("ta", 0, 0, 0, 0),
    ] {
        let (_store, coh) = opened(perms, RO);
        let query = |prop: Ptr<Prop>| {
            let done = daos_cont_query(coh, at(&mut ContInfo::default()), prop, WAIT);
            daos_prop_free(prop);
            done
        };
        assert_eq!(query(Ptr::null()), 0, "{perms}");
        let codes = [LABEL, ACL, OWNER].map(|kind| query(asking(kind, 0)));
        assert_eq!(codes, [label, acl, owner], "{perms}");
        assert_eq!(query(daos_prop_alloc(0)), all, "{perms}");
        let mut shown = Ptr::null();
        assert_eq!(daos_cont_get_acl(coh, at(&mut shown), WAIT), acl, "{perms}");
        daos_prop_free(shown);
        daos_cont_close(coh, WAIT);
    }
}

#[test]
fn changing_properties_needs_permission() {
    let own = format!("A::{}:r", me());
    for (perms, set, acl, owner) in [
        ("rw", NO_PERM, NO_PERM, NO_PERM),
        ("rT", 0, NO_PERM, NO_PERM),
        ("rA", NO_PERM, 0, NO_PERM),
        ("ro", NO_PERM, NO_PERM, 0),
        ("rwTAo", 0, 0, 0),
    ] {
        let (_store, coh) = opened(perms, RW);
        let most = asking(SNAPSHOT_MAX, 5);
        assert_eq!(daos_cont_set_prop(coh, most, WAIT), set, "{perms}");
        daos_prop_free(most);
        assert_eq!(daos_cont_status_clear(coh, WAIT), set, "{perms}");
        let none = Ptr::null();
        let given = daos_cont_set_owner_no_check(coh, text(c"bin@"), none, WAIT);
        assert_eq!(given, owner, "{perms}");
        assert_eq!(overwrite(coh, &own), acl, "{perms}");
        let deleted = daos_cont_delete_acl(coh, 1, text(c"nobody-of-that-name@"), WAIT);
        assert_eq!(deleted, if acl == 0 { NONEXIST } else { acl }, "{perms}");
        daos_cont_close(coh, WAIT);
    }
}

#[test]
fn scans_and_links_need_permission() {
    for (perms, scan, link) in [
        ("", libc::EPERM, libc::EPERM),
        ("w", libc::EPERM, libc::EPERM),
        ("t", libc::EPERM, libc::EINVAL),
        ("r", libc::EINVAL, libc::EPERM),
    ] {
        let store = store_granting(perms);
        let name = text(c"test");
        assert_eq!(dfs_cont_scan(store.poh, name, 0, Ptr::null()), scan, "{perms}");
        // The container has no layout, which is the error of a user who may see that.
        assert_eq!(duns_link_cont(store.poh, name, text(c"/nowhere/path")), link, "{perms}");
    }
}

#[test]
fn the_owner_may_always_read_and_change_the_list() {
    let store = Store::new();
    assert_eq!(overwrite(store.coh, "A::OWNER@:"), 0);
    let (done, coh) = try_open(&store, RW);
    assert_eq!((done, put(coh)), (0, NO_PERM));
    assert_eq!(overwrite(coh, "A::OWNER@:rw"), 0);
    daos_cont_close(coh, WAIT);
    let (done, coh) = try_open(&store, RW);
    assert_eq!((done, put(coh)), (0, 0));
    daos_cont_close(coh, WAIT);
}

#[test]
fn a_global_handle_grants_the_permissions_of_its_original() {
    let (store, coh) = opened("rT", RW);
    let mut room = [0; 256];
    let mut glob = iov_room(&mut room);
    assert_eq!(daos_cont_local2global(coh, at(&mut glob)), 0);
    for strange in [0, 1] {
        let mut blob = room[..glob.len].to_vec();
        // With 1, the blob looks like one of another process.
        blob[8] ^= strange;
        let mut other = NONE;
        assert_eq!(daos_cont_global2local(store.poh, iov(&blob), at(&mut other)), 0);
        assert_eq!((put(other), overwrite(other, "A::OWNER@:rw")), (NO_PERM, NO_PERM));
        let most = asking(SNAPSHOT_MAX, 5);
        assert_eq!(daos_cont_set_prop(other, most, WAIT), 0, "as the original handle");
        daos_prop_free(most);
        daos_cont_close(other, WAIT);
    }
    daos_cont_close(coh, WAIT);
}
