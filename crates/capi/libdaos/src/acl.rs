//! Access control lists (`daos_security.h`): plain functions over memory.
#[cfg_attr(miri, path = "accounts_under_miri.rs")]
pub(crate) mod accounts;
pub mod ace;
pub mod list;
pub mod perms;
pub mod principal;

pub(crate) use ace::Ace;
pub(crate) use list::{checked, pack, unpack};
pub(crate) use principal::Kind;
