//! Entries.
use super::fields::{Ace, Kind, len_of};
use super::{pure, size};
use crate::abi::{Bytes, Ptr, Str};
use crate::code::{Code, Result};
use crate::edge::guard;
use crate::memory;
use std::ffi::{c_char, c_int};

/// A name that goes into an entry with its NUL and padding is shorter.
const NAME_MAX: usize = 1 << 15;

/// Makes an entry without permissions.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_create(kind: u32, name: Str) -> Bytes {
    guard(Ptr::null(), || make(kind, name).unwrap_or(Ptr::null()))
}

fn make(kind: u32, name: Str) -> Result<Bytes> {
    let kind = Kind::from_code(kind)?;
    let name = if kind.has_name() { name.text()? } else { "" };
    let ace = Ace::new(kind, name);
    if kind.has_name() && !(1..NAME_MAX).contains(&name.len()) {
        return Err(Code::INVAL);
    }
    Ok(memory::copy(&ace.to_bytes())?.cast())
}

/// Frees an entry.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_free(ace: Bytes) {
    memory::free(ace);
}

/// Bytes of an entry.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_get_size(ace: Bytes) -> isize {
    size(|| len_of(ace))
}

/// Whether the fields of an entry go together.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_is_valid(ace: Bytes) -> bool {
    guard(false, || Ace::read(ace).is_ok_and(|ace| ace.is_valid()))
}

/// Prints an entry.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_dump(ace: Bytes, tabs: u32) {
    guard((), || {
        let tabs = "\t".repeat(tabs.min(64) as usize);
        match Ace::read(ace) {
            Ok(ace) => println!("{tabs}{}", described(&ace)),
            Err(_) => println!("{tabs}Access Control Entry: none, or not valid"),
        }
    });
}

pub(super) fn described(ace: &Ace) -> String {
    format!(
        "Access Control Entry: access {:#x}, principal {:?} {:?}, flags {:#x}, allow {:#x}, audit \
         {:#x}, alarm {:#x}",
        ace.access, ace.kind, ace.name, ace.flags, ace.perms[0], ace.perms[1], ace.perms[2]
    )
}

/// Name of the principal.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_get_principal_str(ace: Bytes) -> Ptr<c_char> {
    guard(Ptr::null(), || {
        let Ok(known) = Ace::read(ace) else { return Ptr::null() };
        let special = match known.kind {
            Kind::Owner => c"OWNER@",
            Kind::OwnerGroup => c"GROUP@",
            Kind::Everyone => c"EVERYONE@",
            Kind::User | Kind::Group => {
                return ace.cast::<c_char>().at(super::fields::ACE_BYTES);
            }
        };
        // SAFETY: C reads the string and nothing else.
        unsafe { Ptr::new(special.as_ptr().cast_mut()) }
    })
}

/// Reads an entry from text.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_from_str(text: Str, ace: Ptr<Bytes>) -> c_int {
    pure(|| {
        let read = super::text::read(text.text()?)?;
        ace.needed()?.set(memory::copy(&read.to_bytes())?.cast());
        Ok(())
    })
}

/// Writes an entry as text.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_to_str(ace: Bytes, buf: Str, len: usize) -> c_int {
    pure(|| put(&super::text::write(&Ace::read(ace)?)?, buf, len))
}

/// Puts text and its NUL into a buffer, cut where it is short.
pub(super) fn put(text: &str, buf: Str, len: usize) -> Result<()> {
    let room = buf.needed()?.cast::<std::ffi::c_void>().write(len as u64)?;
    let (last, room) = room.split_last_mut().ok_or(Code::INVAL)?;
    let fits = text.len().min(room.len());
    room[..fits].copy_from_slice(&text.as_bytes()[..fits]);
    *room.get_mut(fits).unwrap_or(last) = 0;
    if fits < text.len() { Err(Code::TRUNC) } else { Ok(()) }
}
