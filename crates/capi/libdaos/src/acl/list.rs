//! Lists of entries.
use super::fields::{
    ACE_BYTES, Ace, Kind, LIST_BYTES, bytes_of, checked, len_of, list_len, pack, unpack, valid,
};
use super::{entry, pure, size};
use crate::abi::{Bytes, Ptr, Str};
use crate::code::{Code, Result};
use crate::edge::guard;
use crate::memory;
use std::ffi::{c_char, c_int};

/// A list in memory for C to free.
pub(crate) fn give(aces: Vec<Ace>) -> Result<Bytes> {
    Ok(memory::copy(&pack(aces)?)?.cast())
}

/// Makes a list of copies of entries.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_create(aces: Ptr<Bytes>, count: u16) -> Bytes {
    guard(Ptr::null(), || create(aces, count).unwrap_or(Ptr::null()))
}

fn create(aces: Ptr<Bytes>, count: u16) -> Result<Bytes> {
    let aces = aces.list(usize::from(count))?.into_iter().map(Ace::read);
    give(aces.collect::<Result<Vec<_>>>()?)
}

/// A copy of a list.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_dup(acl: Bytes) -> Bytes {
    let copy = || Ok(memory::copy(bytes_of(acl)?)?.cast());
    guard(Ptr::null(), || copy().unwrap_or_else(|_: Code| Ptr::null()))
}

/// Frees a list.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_free(acl: Bytes) {
    memory::free(acl);
}

/// Bytes of a list.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_get_size(acl: Bytes) -> isize {
    size(|| list_len(acl))
}

/// The entry after another.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_get_next_ace(acl: Bytes, current: Bytes) -> Bytes {
    guard(Ptr::null(), || next(acl, current).unwrap_or(Ptr::null()))
}

fn next(acl: Bytes, current: Bytes) -> Result<Bytes> {
    let len = bytes_of(acl)?.len();
    let offset = match current.is_null() {
        true => LIST_BYTES,
        false => {
            let at = (current.raw() as usize).wrapping_sub(acl.raw() as usize);
            if at < LIST_BYTES || at.saturating_add(ACE_BYTES) > len {
                return Err(Code::INVAL);
            }
            at + len_of(current)?
        }
    };
    match offset.saturating_add(ACE_BYTES) <= len {
        true => Ok(acl.cast::<u8>().at(offset).cast()),
        false => Err(Code::NONEXIST),
    }
}

fn wanted<'a>(kind: u32, name: Str) -> Result<(Kind, &'a str)> {
    let kind = Kind::from_code(kind)?;
    Ok((kind, if kind.has_name() { name.text()? } else { "" }))
}

/// Finds the entry of a principal.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_get_ace_for_principal(
    acl: Bytes,
    kind: u32,
    name: Str,
    ace: Ptr<Bytes>,
) -> c_int {
    pure(|| {
        let (kind, name) = wanted(kind, name)?;
        ace.needed()?;
        let aces = unpack(bytes_of(acl)?)?;
        let index = aces.iter().position(|ace| ace.is(kind, name)).ok_or(Code::NONEXIST)?;
        let before: usize = aces[..index].iter().map(|ace| ace.to_bytes().len()).sum();
        ace.set(acl.cast::<u8>().at(LIST_BYTES + before).cast());
        Ok(())
    })
}

/// Puts a changed list in place of the one before.
fn replace(acl: Ptr<Bytes>, aces: Vec<Ace>) -> Result<()> {
    let (old, new) = (acl.get()?, give(aces)?);
    acl.set(new);
    memory::free(old);
    Ok(())
}

/// Adds an entry, or puts it in place of that of its principal.
pub(crate) fn merge(aces: &mut Vec<Ace>, new: Ace) {
    match aces.iter_mut().find(|ace| ace.is(new.kind, &new.name)) {
        Some(old) => *old = new,
        None => aces.push(new),
    }
}

/// Adds an entry, or replaces that of its principal.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_add_ace(acl: Ptr<Bytes>, new: Bytes) -> c_int {
    pure(|| {
        let mut aces = unpack(bytes_of(acl.get()?)?)?;
        merge(&mut aces, Ace::read(new)?);
        replace(acl, aces)
    })
}

/// Removes the entry of a principal.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_remove_ace(acl: Ptr<Bytes>, kind: u32, name: Str) -> c_int {
    pure(|| {
        let (kind, name) = wanted(kind, name)?;
        if kind.has_name() && name.is_empty() {
            return Err(Code::INVAL);
        }
        let mut aces = unpack(bytes_of(acl.get()?)?)?;
        let before = aces.len();
        aces.retain(|ace| !ace.is(kind, name));
        if aces.len() == before { Err(Code::NONEXIST) } else { replace(acl, aces) }
    })
}

/// Prints a list.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_dump(acl: Bytes) {
    guard((), || match bytes_of(acl).and_then(unpack) {
        Ok(aces) => {
            println!("Access Control List: {} entries", aces.len());
            aces.iter().for_each(|ace| println!("\t{}", entry::described(ace)));
        }
        Err(_) => println!("Access Control List: none, or not valid"),
    });
}

/// Checks a list and its entries.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_validate(acl: Bytes) -> c_int {
    pure(|| checked(acl).map(drop))
}

/// Reads a list from the texts of its entries.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_from_strs(texts: Ptr<Str>, count: usize, acl: Ptr<Bytes>) -> c_int {
    pure(|| {
        if count == 0 {
            return Err(Code::INVAL);
        }
        let texts = texts.list(count)?.into_iter();
        let aces = texts.map(|text| super::text::read(text.text()?)).collect::<Result<Vec<_>>>()?;
        let packed = pack(aces)?;
        acl.needed()?.set(memory::copy(valid(&packed)?)?.cast());
        Ok(())
    })
}

/// Writes a list as an array of texts.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_to_strs(acl: Bytes, texts: Ptr<Ptr<Str>>, count: Ptr<usize>) -> c_int {
    pure(|| {
        let (texts, count) = (texts.needed()?, count.needed()?);
        let written = written(acl)?;
        let strings = written.iter().map(|text| memory::string(text.as_bytes()));
        let strings = strings.collect::<Result<Vec<_>>>()?;
        let none = strings.is_empty();
        texts.set(if none { Ptr::null() } else { memory::copy(&strings)? });
        count.set(strings.len());
        Ok(())
    })
}

fn written(acl: Bytes) -> Result<Vec<String>> {
    unpack(checked(acl)?)?.iter().map(super::text::write).collect()
}

/// Prints a list as text; no list is an empty one.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_to_stream(stream: Ptr<libc::FILE>, acl: Bytes, verbose: bool) -> c_int {
    pure(|| {
        stream.needed()?;
        let written = if acl.is_null() { Vec::new() } else { written(acl)? };
        say(stream, if written.is_empty() { "# Entries:\n#   None\n" } else { "# Entries:\n" })?;
        for text in written {
            if verbose {
                say(stream, &format!("# {}\n", super::verbose::of(&text)?))?;
            }
            say(stream, &format!("{text}\n"))?;
        }
        Ok(())
    })
}

fn say(stream: Ptr<libc::FILE>, text: &str) -> Result<()> {
    let start: *const c_char = text.as_ptr().cast();
    // SAFETY: the stream is the caller's, the text has so many bytes.
    let written = unsafe { libc::fwrite(start.cast(), 1, text.len(), stream.raw()) };
    if written == text.len() { Ok(()) } else { Err(Code::MISC) }
}
