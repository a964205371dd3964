//! Records of tables.
use super::functions::djb2;
use super::table::{EPHEMERAL, Known, LRU, Table};
use crate::abi::{Bytes, Link, Ptr};
use crate::code::{self, Code, Result};
use crate::edge::guard;
use std::ffi::c_int;

impl Known {
    fn bucket_of(&self, key: Bytes, len: u32) -> Result<Ptr<Link>> {
        let hash = match self.ops.key_hash {
            // SAFETY: the caller's own function and key.
            Some(hash) => unsafe { hash(self.at, key.raw(), len) },
            None => djb2(key.read(len.into())?),
        };
        Ok(self.bucket(hash))
    }

    fn find(&self, key: Bytes, len: u32) -> Result<Option<Ptr<Link>>> {
        let compare = self.ops.key_cmp.ok_or(Code::INVAL)?;
        let bucket = self.bucket_of(key, len)?;
        // SAFETY: the caller's own function, record and key.
        let is_it = |link: &Ptr<Link>| unsafe { compare(self.at, *link, key.raw(), len) };
        Ok(bucket.links().find(is_it))
    }

    fn add_reference(&self, link: Ptr<Link>) {
        if let Some(add) = self.ops.rec_addref {
            // SAFETY: the caller's own function and record.
            unsafe { add(self.at, link) }
        }
    }

    /// True where it was the last.
    fn drop_reference(&self, link: Ptr<Link>) -> bool {
        // SAFETY: the caller's own function and record.
        self.ops.rec_decref.is_some_and(|drop| unsafe { drop(self.at, link) })
    }

    fn free(&self, link: Ptr<Link>) {
        if let Some(free) = self.ops.rec_free {
            // SAFETY: the caller's own function, and a record nobody refers to.
            unsafe { free(self.at, link) }
        }
    }

    /// The table itself refers to its records, unless they leave with their last reference.
    fn link(&self, bucket: Ptr<Link>, link: Ptr<Link>) {
        if !self.has(EPHEMERAL) {
            self.add_reference(link);
        }
        bucket.insert_after(link);
    }

    pub(super) fn unlink(&self, link: Ptr<Link>) {
        link.remove();
        if !self.has(EPHEMERAL) && self.drop_reference(link) {
            self.free(link);
        }
    }

    /// A record whose last reference was given up.
    fn bury(&self, link: Ptr<Link>) {
        if self.has(EPHEMERAL) && !link.is_alone() {
            link.remove();
        }
        self.free(link);
    }

    /// A record that was found is referred to, and was used last.
    fn hand_out(&self, bucket: Ptr<Link>, link: Ptr<Link>) -> Ptr<Link> {
        self.add_reference(link);
        if self.has(LRU) {
            link.remove();
            bucket.insert_after(link);
        }
        link
    }
}

fn with<T>(table: Ptr<Table>, failed: T, work: impl FnOnce(&Known) -> Result<T>) -> T {
    let work = || {
        let known = Known::new(table)?;
        let _locked = known.lock();
        work(&known)
    };
    guard(Err(Code::MISC), work).unwrap_or(failed)
}

fn status(table: Ptr<Table>, work: impl FnOnce(&Known) -> Result<()>) -> c_int {
    with(table, Code::INVAL.0, |known| Ok(code::of(work(known))))
}

/// The record of this key, or no record.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_find(table: Ptr<Table>, key: Bytes, len: u32) -> Ptr<Link> {
    with(table, Ptr::null(), |known| {
        let found = known.find(key, len)?.ok_or(Code::NONEXIST)?;
        Ok(known.hand_out(known.bucket_of(key, len)?, found))
    })
}

/// The record of this key, or the one to insert.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_find_insert(
    table: Ptr<Table>,
    key: Bytes,
    len: u32,
    link: Ptr<Link>,
) -> Ptr<Link> {
    with(table, Ptr::null(), |known| {
        let bucket = known.bucket_of(key, len)?;
        if let Some(found) = known.find(key, len)? {
            return Ok(known.hand_out(bucket, found));
        }
        known.link(bucket, link.needed()?);
        Ok(link)
    })
}

/// Inserts a record.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_insert(
    table: Ptr<Table>,
    key: Bytes,
    len: u32,
    link: Ptr<Link>,
    exclusive: bool,
) -> c_int {
    status(table, |known| {
        if len == 0 {
            return Err(Code::INVAL);
        }
        let (_, link) = (key.needed()?, link.needed()?);
        if exclusive && known.find(key, len)?.is_some() {
            return Err(Code::EXIST);
        }
        known.link(known.bucket_of(key, len)?, link);
        Ok(())
    })
}

/// Inserts a record that gets its key here.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_insert_anonym(
    table: Ptr<Table>,
    link: Ptr<Link>,
    arg: Bytes,
) -> c_int {
    status(table, |known| {
        let init = known.ops.key_init.ok_or(Code::INVAL)?;
        let hash = known.ops.rec_hash.ok_or(Code::INVAL)?;
        let link = link.needed()?;
        // SAFETY: the caller's own functions and record.
        let hash = unsafe {
            init(known.at, link, arg.raw());
            hash(known.at, link)
        };
        known.link(known.bucket(hash), link);
        Ok(())
    })
}

/// Removes the record of this key.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_delete(table: Ptr<Table>, key: Bytes, len: u32) -> bool {
    with(table, false, |known| {
        let found = known.find(key, len)?;
        found.into_iter().for_each(|link| known.unlink(link));
        Ok(found.is_some())
    })
}

/// Removes this record.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_delete_at(table: Ptr<Table>, link: Ptr<Link>) -> bool {
    with(table, false, |known| {
        let linked = !link.is_alone();
        if linked {
            known.unlink(link);
        }
        Ok(linked)
    })
}

/// Moves a record to the end of its bucket.
fn evict(known: &Known, link: Ptr<Link>, bucket: Ptr<Link>) -> bool {
    let may = known.has(LRU) && !link.is_alone();
    if may {
        link.remove();
        bucket.insert_before(link);
    }
    may
}

/// Moves the record of this key to the end of its bucket.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_evict(table: Ptr<Table>, key: Bytes, len: u32) -> bool {
    with(table, false, |known| {
        let found = known.find(key, len)?.ok_or(Code::NONEXIST)?;
        Ok(evict(known, found, known.bucket_of(key, len)?))
    })
}

/// Moves this record to the end of its bucket.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_evict_at(table: Ptr<Table>, link: Ptr<Link>) -> bool {
    with(table, false, |known| {
        let hash = known.ops.rec_hash.ok_or(Code::INVAL)?;
        // SAFETY: the caller's own function and record.
        let hash = unsafe { hash(known.at, link.needed()?) };
        Ok(evict(known, link, known.bucket(hash)))
    })
}

/// Takes a reference.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_addref(table: Ptr<Table>, link: Ptr<Link>) {
    with(table, (), |known| {
        known.add_reference(link.needed()?);
        Ok(())
    });
}

/// Gives up a reference; the last one frees the record.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_decref(table: Ptr<Table>, link: Ptr<Link>) {
    with(table, (), |known| {
        if known.drop_reference(link.needed()?) {
            known.bury(link);
        }
        Ok(())
    });
}

/// Gives up several references.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_ndecref(table: Ptr<Table>, count: c_int, link: Ptr<Link>) -> c_int {
    status(table, |known| {
        let left = drop_references(known, link.needed()?, count)?;
        if !left {
            known.bury(link);
        }
        Ok(())
    })
}

/// True where some are left.
fn drop_references(known: &Known, link: Ptr<Link>, count: c_int) -> Result<bool> {
    if let Some(drop) = known.ops.rec_ndecref {
        // SAFETY: the caller's own function and record.
        return match unsafe { drop(known.at, link, count) } {
            0 => Ok(true),
            error if error < 0 => Err(Code(error)),
            _ => Ok(false),
        };
    }
    for dropped in 1..=count {
        if known.drop_reference(link) {
            return if dropped == count { Ok(false) } else { Err(Code::INVAL) };
        }
    }
    Ok(true)
}

/// Whether the record is in no table.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_unlinked(link: Ptr<Link>) -> bool {
    link.is_alone()
}

/// Some record.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_first(table: Ptr<Table>) -> Ptr<Link> {
    with(table, Ptr::null(), |known| known.links().next().ok_or(Code::NONEXIST))
}
