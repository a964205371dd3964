//! Comparing access control lists in lists of properties.
use crate::abi::{PropEntry, Ptr};
use crate::acl;
use crate::code::{self, Code};
use crate::edge::guard;
use std::ffi::c_int;

/// Compares two entries.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_entry_cmp_acl(a: Ptr<PropEntry>, b: Ptr<PropEntry>) -> c_int {
    guard(Code::MISC.0, || {
        let of = |entry: Ptr<PropEntry>| acl::checked(entry.get()?.value.pointer());
        code::of((|| match of(a)? == of(b)? {
            true => Ok(()),
            false => Err(Code::MISMATCH),
        })())
    })
}
