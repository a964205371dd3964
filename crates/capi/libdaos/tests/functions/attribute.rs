//! Attributes through the C functions.
use crate::common::*;
use daos::abi::{Bytes, Handle, Ptr, Str};
use daos::attribute::*;
use std::ffi::{CString, c_int};

/// Calls the functions for pools, or those for containers.
struct Attributes {
    oh: Handle,
    is_pool: bool,
}

impl Attributes {
    fn set(&self, names: &mut [Str], values: &mut [Bytes], sizes: &mut [u64]) -> c_int {
        let call = if self.is_pool { daos_pool_set_attr } else { daos_cont_set_attr };
        let n = names.len() as c_int;
        call(self.oh, n, list(names), list(values), list(sizes), WAIT)
    }

    fn get(&self, names: &mut [Str], values: Ptr<Bytes>, sizes: &mut [u64]) -> c_int {
        let call = if self.is_pool { daos_pool_get_attr } else { daos_cont_get_attr };
        call(self.oh, names.len() as c_int, list(names), values, list(sizes), WAIT)
    }

    fn list(&self, buf: Str, size: &mut u64) -> c_int {
        let call = if self.is_pool { daos_pool_list_attr } else { daos_cont_list_attr };
        call(self.oh, buf, at(size), WAIT)
    }

    fn del(&self, names: &mut [Str]) -> c_int {
        let call = if self.is_pool { daos_pool_del_attr } else { daos_cont_del_attr };
        call(self.oh, names.len() as c_int, list(names), WAIT)
    }
}

/// Runs a check on the attributes of a pool, and on those of a container.
fn for_both(check: impl Fn(&Attributes)) {
    let store = Store::new();
    check(&Attributes { oh: store.poh, is_pool: true });
    check(&Attributes { oh: store.coh, is_pool: false });
}

#[test]
fn stored_values_are_read_back() {
    for_both(|attributes| {
        let mut names = [text(c"one"), text(c"two"), text(c"none")];
        let mut values = [bytes(b"value"), bytes(b"2")];
        assert_eq!(attributes.set(&mut names[..2], &mut values, &mut [5, 1]), 0);
        let mut sizes = [9; 3];
        assert_eq!(attributes.get(&mut names, Ptr::null(), &mut sizes), 0);
        assert_eq!(sizes, [5, 1, 0]);
        let (mut long, mut short) = ([b'.'; 8], [b'.'; 3]);
        let mut twice = [names[0], names[0]];
        let mut buffers = [room(&mut long), room(&mut short)];
        let mut sizes = [8, 3];
        assert_eq!(attributes.get(&mut twice, list(&mut buffers), &mut sizes), 0);
        assert_eq!((sizes, &long, &short), ([5, 5], b"value...", b"val"));
    });
}

#[test]
fn a_call_for_missing_attributes_only_fails() {
    for_both(|attributes| {
        let mut size = [9];
        assert_eq!(attributes.get(&mut [text(c"none")], Ptr::null(), &mut size), NONEXIST);
        assert_eq!(size, [0]);
    });
}

#[test]
fn empty_values_are_refused() {
    for_both(|attributes| {
        let (mut names, mut values) = ([text(c"a"), text(c"b")], [bytes(b"1"), bytes(b"")]);
        assert_eq!(attributes.set(&mut names, &mut values, &mut [1, 0]), INVAL);
        assert_eq!(attributes.get(&mut names, Ptr::null(), &mut [9; 2]), NONEXIST, "none is set");
    });
}

#[test]
fn names_are_listed() {
    for_both(|attributes| {
        let mut names = [text(c"b"), text(c"aa")];
        attributes.set(&mut names, &mut [bytes(b"1"), bytes(b"2")], &mut [1, 1]);
        let mut size = u64::MAX;
        assert_eq!(attributes.list(Ptr::null(), &mut size), 0);
        assert_eq!(size, 5);
        let mut buffer = [b'.'; 8];
        size = 8;
        assert_eq!(attributes.list(room(&mut buffer).cast(), &mut size), 0);
        assert_eq!((size, &buffer), (5, b"aa\0b\0..."));
        (size, buffer) = (4, [b'.'; 8]);
        assert_eq!((attributes.list(room(&mut buffer).cast(), &mut size), size), (0, 5));
        assert_eq!(&buffer, b"aa\0.....", "whole names only");
        (size, buffer) = (2, [b'.'; 8]);
        assert_eq!((attributes.list(room(&mut buffer).cast(), &mut size), size), (0, 5));
        assert_eq!(&buffer, b"b\0......", "a shorter name behind a longer one");
        assert_eq!(attributes.del(&mut names[..1]), 0);
        size = 8;
        attributes.list(room(&mut buffer).cast(), &mut size);
        assert_eq!(size, 3);
    });
}

#[test]
fn bad_arguments_are_refused() {
    for_both(|attributes| {
        let long = CString::new(vec![b'n'; 512]).unwrap();
        for bad in [text(c""), text(&long), Ptr::null()] {
            assert_eq!(attributes.set(&mut [bad], &mut [bytes(b"1")], &mut [1]), INVAL);
            assert_eq!(attributes.get(&mut [bad], Ptr::null(), &mut [1]), INVAL);
            assert_eq!(attributes.del(&mut [bad]), INVAL);
        }
        assert_eq!(attributes.set(&mut [], &mut [], &mut []), INVAL);
        assert_eq!(attributes.set(&mut [text(c"n")], &mut [Ptr::null()], &mut [1]), INVAL);
        assert_eq!(attributes.set(&mut [text(c"n")], &mut [bytes(b"1")], &mut [1 << 40]), OVERFLOW);
        let ok = CString::new(vec![b'n'; 511]).unwrap();
        assert_eq!(attributes.set(&mut [text(&ok)], &mut [bytes(b"1")], &mut [1]), 0);
    });
    let store = Store::new();
    let many = daos_cont_get_attr(store.coh, -1, Ptr::null(), Ptr::null(), Ptr::null(), WAIT);
    assert_eq!(many, INVAL);
    let many = daos_cont_del_attr(store.coh, c_int::MAX, at(&mut text(c"n")), WAIT);
    assert_eq!(many, INVAL);
    assert_eq!(daos_pool_list_attr(NONE, Ptr::null(), Ptr::null(), WAIT), NO_HDL);
    assert_eq!(daos_pool_list_attr(store.poh, Ptr::null(), Ptr::null(), WAIT), INVAL);
}
