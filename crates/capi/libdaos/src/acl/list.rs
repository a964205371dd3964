//! Access control lists: a header of 8 bytes (version, length of the entries), then the entries.
use super::ace::{self, ACE_BYTES, Ace, len_of, short, size};
use super::principal::Kind;
use crate::abi::{Bytes, Ptr, Str};
use crate::boundary;
use crate::boundary::guard;
use crate::code::{self, Code, Result};
use crate::memory;
use std::ffi::{c_char, c_int};

/// Bytes of the header of a list.
const LIST_BYTES: usize = 8;
const VERSION: u16 = 1;
/// `DAOS_ACL_MAX_ACE_LEN`.
const ENTRIES_BYTES_MAX: usize = 65536;

/// Length in bytes of a list in memory of C, according to its header.
pub(crate) fn list_len(at: Bytes) -> Result<usize> {
    let header = at.needed()?.read(LIST_BYTES as u64)?;
    let len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    Ok(LIST_BYTES + len as usize)
}

/// The bytes of a list in memory of C, header included. Only the header is checked.
pub(crate) fn bytes_of<'a>(at: Bytes) -> Result<&'a [u8]> {
    let (version, len) = (short(at.needed()?.read(LIST_BYTES as u64)?, 0), list_len(at)?);
    match version == VERSION && len <= LIST_BYTES + ENTRIES_BYTES_MAX {
        true => at.read(len as u64),
        false => Err(Code::INVAL),
    }
}

/// The bytes of a list in memory of C, after validation.
pub(crate) fn checked<'a>(at: Bytes) -> Result<&'a [u8]> {
    valid(bytes_of(at)?)
}

/// Validates a list: its entries must be valid, sorted by kind, and at most one per principal.
pub(crate) fn valid(bytes: &[u8]) -> Result<&[u8]> {
    let aces = unpack(bytes)?;
    let in_order = aces.windows(2).all(|pair| pair[0].kind <= pair[1].kind);
    let repeats =
        |(index, ace): (usize, &Ace)| aces[..index].iter().any(|a| a.is(ace.kind, &ace.name));
    match in_order && aces.iter().all(Ace::is_valid) && !aces.iter().enumerate().any(repeats) {
        true => Ok(bytes),
        false => Err(Code::INVAL),
    }
}

/// Decodes the entries that follow the header of a list in its memory layout. `INVAL` if the header or an entry is cut
/// off.
pub(crate) fn unpack(bytes: &[u8]) -> Result<Vec<Ace>> {
    let mut rest = bytes.get(LIST_BYTES..).ok_or(Code::INVAL)?;
    let mut aces = Vec::new();
    while !rest.is_empty() {
        let (ace, len) = Ace::take(rest)?;
        aces.push(ace);
        rest = &rest[len..];
    }
    Ok(aces)
}

/// Encodes entries as a list, sorted by kind.
pub(crate) fn pack(mut aces: Vec<Ace>) -> Result<Vec<u8>> {
    aces.sort_by_key(|ace| ace.kind);
    let entries: Vec<u8> = aces.iter().flat_map(Ace::to_bytes).collect();
    if entries.len() > ENTRIES_BYTES_MAX {
        return Err(Code::INVAL);
    }
    let mut bytes = VERSION.to_le_bytes().to_vec();
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&entries);
    Ok(bytes)
}

/// Encodes entries as a list, which C frees.
pub(crate) fn allocate(aces: Vec<Ace>) -> Result<Bytes> {
    Ok(memory::copy(&pack(aces)?)?.cast())
}

/// Creates a list from copies of entries. Null if one of them is malformed. C frees the list.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_create(aces: Ptr<Bytes>, count: u16) -> Bytes {
    guard(Ptr::null(), || create(aces, count).unwrap_or(Ptr::null()))
}

fn create(aces: Ptr<Bytes>, count: u16) -> Result<Bytes> {
    let aces = aces.list(usize::from(count))?.into_iter().map(Ace::read);
    allocate(aces.collect::<Result<Vec<_>>>()?)
}

/// Copies a list.
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

/// Returns the length of a list in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_get_size(acl: Bytes) -> isize {
    size(|| list_len(acl))
}

/// Returns a pointer to the entry after `current`, or to the first one if `current` is null. Null at the end.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_get_next_ace(acl: Bytes, current: Bytes) -> Bytes {
    guard(Ptr::null(), || next(acl, current).unwrap_or(Ptr::null()))
}

/// The entry after `current`, or the first one if `current` is null. `NONEXIST` at the end, `INVAL` if `current` is not
/// in the list.
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

/// Converts a principal that C passes. `name` is ignored for kinds without a name.
fn principal<'a>(kind: u32, name: Str) -> Result<(Kind, &'a str)> {
    let kind = Kind::from_code(kind)?;
    Ok((kind, if kind.has_name() { name.text()? } else { "" }))
}

/// Finds the entry of a principal, and stores a pointer into the list in `ace`.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_get_ace_for_principal(
    acl: Bytes,
    kind: u32,
    name: Str,
    ace: Ptr<Bytes>,
) -> c_int {
    boundary::always(|| {
        let (kind, name) = principal(kind, name)?;
        ace.needed()?;
        let aces = unpack(bytes_of(acl)?)?;
        let index = aces.iter().position(|ace| ace.is(kind, name)).ok_or(Code::NONEXIST)?;
        let before: usize = aces[..index].iter().map(|ace| ace.to_bytes().len()).sum();
        ace.set(acl.cast::<u8>().at(LIST_BYTES + before).cast());
        Ok(())
    })
}

/// Replaces the caller's list by a new one of these entries, and frees the old one.
fn replace(acl: Ptr<Bytes>, aces: Vec<Ace>) -> Result<()> {
    let (old, new) = (acl.get()?, allocate(aces)?);
    acl.set(new);
    memory::free(old);
    Ok(())
}

/// Adds an entry, or replaces the one of its principal.
pub(crate) fn merge(aces: &mut Vec<Ace>, new: Ace) {
    match aces.iter_mut().find(|ace| ace.is(new.kind, &new.name)) {
        Some(old) => *old = new,
        None => aces.push(new),
    }
}

/// Adds an entry, or replaces the one of its principal.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_add_ace(acl: Ptr<Bytes>, new: Bytes) -> c_int {
    boundary::always(|| {
        let mut aces = unpack(bytes_of(acl.get()?)?)?;
        merge(&mut aces, Ace::read(new)?);
        replace(acl, aces)
    })
}

/// Removes the entry of a principal.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_remove_ace(acl: Ptr<Bytes>, kind: u32, name: Str) -> c_int {
    boundary::always(|| {
        let (kind, name) = principal(kind, name)?;
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
            code::print(&format!("Access Control List: {} entries", aces.len()));
            aces.iter().for_each(|ace| code::print(&format!("\t{}", ace::described(ace))));
        }
        Err(_) => code::print("Access Control List: none, or not valid"),
    });
}

/// Checks a list and its entries.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_validate(acl: Bytes) -> c_int {
    boundary::always(|| checked(acl).map(drop))
}

/// Parses a list from the texts of its entries.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_from_strs(texts: Ptr<Str>, count: usize, acl: Ptr<Bytes>) -> c_int {
    boundary::always(|| {
        if count == 0 {
            return Err(Code::INVAL);
        }
        let texts = texts.list(count)?.into_iter();
        let aces = texts.map(|text| ace::parse(text.text()?)).collect::<Result<Vec<_>>>()?;
        let packed = pack(aces)?;
        acl.needed()?.set(memory::copy(valid(&packed)?)?.cast());
        Ok(())
    })
}

/// Formats a list as an array of texts, which C frees; an empty list as a null pointer.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_to_strs(acl: Bytes, texts: Ptr<Ptr<Str>>, count: Ptr<usize>) -> c_int {
    boundary::always(|| {
        let (texts, count) = (texts.needed()?, count.needed()?);
        let written = texts_of(acl)?;
        let strings = written.iter().map(|text| memory::string(text.as_bytes()));
        let strings = strings.collect::<Result<Vec<_>>>()?;
        let none = strings.is_empty();
        texts.set(if none { Ptr::null() } else { memory::copy(&strings)? });
        count.set(strings.len());
        Ok(())
    })
}

/// Validates a list and formats each entry as text.
fn texts_of(acl: Bytes) -> Result<Vec<String>> {
    unpack(checked(acl)?)?.iter().map(ace::to_text).collect()
}

/// Prints a list as text; a null pointer is an empty list.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_to_stream(stream: Ptr<libc::FILE>, acl: Bytes, verbose: bool) -> c_int {
    boundary::always(|| {
        stream.needed()?;
        let written = if acl.is_null() { Vec::new() } else { texts_of(acl)? };
        print(stream, if written.is_empty() { "# Entries:\n#   None\n" } else { "# Entries:\n" })?;
        for text in written {
            if verbose {
                print(stream, &format!("# {}\n", ace::verbose(&text)?))?;
            }
            print(stream, &format!("{text}\n"))?;
        }
        Ok(())
    })
}

/// Writes a text to a stream of C.
fn print(stream: Ptr<libc::FILE>, text: &str) -> Result<()> {
    let start: *const c_char = text.as_ptr().cast();
    // SAFETY: the caller owns the stream, and the text has this many bytes.
    let written = unsafe { libc::fwrite(start.cast(), 1, text.len(), stream.raw()) };
    if written == text.len() { Ok(()) } else { Err(Code::MISC) }
}
