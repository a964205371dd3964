//! Versions, errors, classes, times, ranks, the system.
use crate::common::*;
use daos::abi::{Ptr, Timespec};
use daos::errors::{d_errdesc, d_errstr};
use daos::init::*;
use daos::mgmt::*;
use daos::oclass::*;
use daos::ranks::*;
use std::ffi::{CStr, c_char};

fn string(text: *const c_char) -> String {
    // SAFETY: the library returns strings that end in NUL.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

#[test]
fn errors_have_names() {
    for (code, name, description) in [
        (0, "DER_SUCCESS", "Success"),
        (-1001, "DER_NO_PERM", "The caller has no permission for this"),
        (-1005, "DER_NONEXIST", "The entity does not exist"),
        (-1046, "DER_QUOTA_LIMIT", "The quota is used up"),
        (-2001, "DER_IO", "Reading or writing the medium failed"),
        (-2052, "DER_IGNORE", "Skip this item"),
        (-1047, "DER_UNKNOWN", "Unknown error code -1047"),
        (1005, "DER_UNKNOWN", "Unknown error code 1005"),
        (i32::MIN, "DER_UNKNOWN", "Unknown error code -2147483648"),
        (i32::MAX, "DER_UNKNOWN", "Unknown error code 2147483647"),
    ] {
        assert_eq!(
            (string(d_errstr(code)), string(d_errdesc(code))),
            (name.into(), description.into())
        );
    }
}

#[test]
fn versions_are_returned() {
    let (mut major, mut minor, mut fix) = (0, 0, 0);
    assert_eq!(daos_version_get(at(&mut major), at(&mut minor), at(&mut fix)), 0);
    assert_eq!((major, minor, fix), (2, 8, 0));
    assert_eq!(daos_version_get(at(&mut major), Ptr::null(), at(&mut fix)), INVAL);
    let (mut major, mut minor, mut patch, mut tag) = (0, 0, 0, text(c"x"));
    let (major, minor, patch) = (at(&mut major), at(&mut minor), at(&mut patch));
    assert_eq!(dc_mgmt_srv_version(major, minor, patch, at(&mut tag)), 0);
    assert_eq!((major.get(), tag.is_null()), (Ok(2), true));
    assert_eq!(dc_mgmt_srv_version(major, minor, patch, Ptr::null()), INVAL);
}

#[test]
fn classes_have_names() {
    assert_eq!(daos_oclass_name2id(text(c"S1")), 0x0100_0001);
    assert_eq!(daos_oclass_name2id(text(c"EC_2P1GX")), 0x2000_ffff);
    assert_eq!(daos_oclass_name2id(text(c"RP_XSF")), 80);
    assert_eq!(daos_oclass_name2id(text(c"OC_S1")), 0);
    assert_eq!(daos_oclass_name2id(Ptr::null()), 0);
    let mut name = [1; 24];
    assert_eq!(daos_oclass_id2name(0x0100_0010, room(&mut name).cast()), 0);
    assert_eq!(&name[..4], b"S16\0");
    assert_eq!(daos_oclass_id2name(0, room(&mut name).cast()), -1);
    assert_eq!(&name[..8], b"UNKNOWN\0");
    assert_eq!(daos_oclass_id2name(1, Ptr::null()), -1);
    let mut names = [0; 8192];
    let len = daos_oclass_names_list(names.len(), room(&mut names).cast());
    let listed = std::str::from_utf8(&names[..len as usize]).unwrap();
    assert_eq!(listed.matches(", ").count() as i32, daos_oclass_nr(0));
    assert!(listed.contains("S1, ") && listed.ends_with(", "));
    assert_eq!(daos_oclass_names_list(len as usize, room(&mut names).cast()), OVERFLOW as isize);
    assert_eq!(daos_oclass_names_list(0, room(&mut names).cast()), INVAL as isize);
    assert_eq!(daos_oclass_names_list(9, Ptr::null()), INVAL as isize);
}

#[test]
fn epochs_convert_to_times() {
    let mut time = Timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(daos_hlc2timespec(1 << 61, at(&mut time)), 0);
    assert_eq!((time.tv_sec, time.tv_nsec), (1_753_574_388, 75_855_872));
    let mut seconds = 0;
    assert_eq!(daos_hlc2timestamp(1 << 61, at(&mut seconds)), 0);
    assert_eq!(seconds, 1_753_574_388);
    assert_eq!(daos_hlc2timespec(0, Ptr::null()), INVAL);
    assert_eq!(daos_hlc2timestamp(0, Ptr::null()), INVAL);
    assert_eq!(daos_hlc2timespec(u64::MAX, at(&mut time)), 0);
}

#[test]
fn ranks_come_in_lists() {
    let ranks = |list: Ptr<daos::abi::RankList>| {
        let list = list.get().unwrap();
        list.ranks.list(list.nr as usize).unwrap()
    };
    let three = d_rank_list_alloc(3);
    assert_eq!(ranks(three), [0, 1, 2]);
    let mut copy = Ptr::null();
    assert_eq!(d_rank_list_dup(at(&mut copy), three), 0);
    d_rank_list_free(three);
    assert_eq!(ranks(copy), [0, 1, 2]);
    d_rank_list_free(copy);
    assert_eq!(d_rank_list_dup(at(&mut copy), Ptr::null()), 0);
    assert!(copy.is_null());
    assert_eq!(d_rank_list_dup(Ptr::null(), copy), INVAL);
    d_rank_list_free(Ptr::null());
    let parsed = daos_rank_list_parse(text(c"4:2:9"), text(c":"));
    assert_eq!(ranks(parsed), [4, 2, 9]);
    d_rank_list_free(parsed);
    for bad in [c"", c"x", c"1:-2"] {
        assert!(daos_rank_list_parse(text(bad), text(c":")).is_null());
    }
}

#[test]
fn the_system_is_described() {
    let _store = Store::new();
    let mut info = Ptr::null();
    assert_eq!(daos_mgmt_get_sys_info(Ptr::null(), at(&mut info)), 0);
    let name: Vec<u8> = info.get().unwrap().system_name[..12].iter().map(|c| *c as u8).collect();
    assert_eq!(name, b"daos_server\0");
    daos_mgmt_put_sys_info(info);
    assert_eq!(daos_mgmt_get_sys_info(Ptr::null(), Ptr::null()), INVAL);
    let long = daos_mgmt_get_sys_info(text(c"a name of 16 B.."), at(&mut info));
    assert_eq!(long, OVERFLOW);
    let mut count = 0;
    assert_eq!(daos_mgmt_list_pools(Ptr::null(), at(&mut count), Ptr::null(), WAIT), 0);
    assert_eq!(daos_mgmt_list_pools(Ptr::null(), Ptr::null(), Ptr::null(), WAIT), INVAL);
    assert_eq!(daos_pool_stop_svc(NONE, WAIT), NOSYS);
    assert_eq!(daos_debug_set_params(Ptr::null(), 0, 0, 0, 0, WAIT), NOSYS);
    assert_eq!(daos_debug_add_mark(text(c"mark")), NOSYS);
    assert_eq!(daos_mgmt_get_bs_state(Ptr::null(), Ptr::null(), Ptr::null(), WAIT), NOSYS);
}
