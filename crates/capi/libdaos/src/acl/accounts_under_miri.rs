//! Users and groups under Miri, which cannot query the system: one user, and one group of the same name and number.
use crate::code::{Code, Result};

const ID: libc::uid_t = 0;
const NAME: &str = "root";

pub(crate) fn user_name(uid: libc::uid_t) -> Result<String> {
    if uid == ID { Ok(NAME.to_owned()) } else { Err(Code::NONEXIST) }
}

pub(crate) fn group_name(gid: libc::gid_t) -> Result<String> {
    user_name(gid)
}

pub(crate) fn uid_of(name: &str) -> Result<libc::uid_t> {
    if name == NAME { Ok(ID) } else { Err(Code::NONEXIST) }
}

pub(crate) fn gid_of(name: &str) -> Result<libc::gid_t> {
    uid_of(name)
}

pub(crate) fn effective_user() -> libc::uid_t {
    ID
}

pub(crate) fn real_owner() -> (libc::uid_t, libc::gid_t) {
    (ID, ID)
}

pub(crate) fn effective_groups() -> Vec<libc::gid_t> {
    vec![ID]
}
