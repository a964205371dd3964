//! Arguments of the calls of `esker.h`. Each check names the argument that it refuses.
use super::failure::{Failure, Result};
use crate::abi::{Bytes, Ptr, Str};
use crate::code::Code;
use std::ffi::c_uint;

/// `esker_pair_t`: a name and a value, or a list of values.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Pair {
    /// The name.
    pub name: Str,
    /// The value.
    pub value: Str,
}

/// Reads the pairs of a key or request, each a name and its value. `name` is the name of the argument, for errors.
pub(super) fn pairs<'a>(
    pairs: Ptr<Pair>,
    count: u32,
    name: &str,
) -> Result<Vec<(&'a str, &'a str)>> {
    let most = esker_fields::limits::KEY_PAIRS_MAX;
    let pairs = list(pairs, count, most, "KEY_PAIRS_MAX", name)?;
    let both = pairs.into_iter().enumerate().map(|(number, pair)| {
        let key = text(pair.name, &format!("the name of pair {number} of {name}"))?;
        Ok((key, text(pair.value, &format!("the value of {key} of {name}"))?))
    });
    both.collect()
}

/// Reads `count` entries, at most `most`. For errors, `limit` is the name of that limit and `name` that of the
/// argument.
pub(super) fn list<T: Copy>(
    entries: Ptr<T>,
    count: u32,
    most: usize,
    limit: &str,
    name: &str,
) -> Result<Vec<T>> {
    let count = count as usize;
    if count > most {
        return Err(Failure::invalid(format!(
            "{name}: {count} entries are more than {most} ({limit})"
        )));
    }
    entries.list(count).map_err(|_| null(name))
}

/// Reads a string argument. The error names the argument if it is null, too long or not UTF-8.
pub(super) fn text<'a>(text: Str, name: &str) -> Result<&'a str> {
    if text.is_null() {
        return Err(null(name));
    }
    text.text()
        .map_err(|_| Failure::invalid(format!("{name} is longer than 1 MiB, or is not UTF-8")))
}

/// Reads a string argument that may be null. The error names the argument if it is too long or not UTF-8.
pub(super) fn optional_text<'a>(it: Str, name: &str) -> Result<Option<&'a str>> {
    if it.is_null() { Ok(None) } else { text(it, name).map(Some) }
}

/// The `size` bytes at a pointer of the caller, which the function only reads. `name` is the argument's name, for the
/// error.
pub(super) fn bytes<'a>(bytes: Bytes, size: u64, name: &str) -> Result<&'a [u8]> {
    bytes.read(size).map_err(|_| {
        let text =
            format!("{name} is a null pointer, or {size} bytes are more than any memory has");
        Failure::invalid(text)
    })
}

/// Returns the address for a result of a call. The error names the argument if the address is null.
pub(super) fn needed<T>(result: Ptr<T>, name: &str) -> Result<Ptr<T>> {
    result.needed().map_err(|_| null(name))
}

/// Refuses flags other than the `known` ones of a call.
pub(super) fn flags(given: c_uint, known: c_uint) -> Result<()> {
    match given & !known {
        0 => Ok(()),
        unknown => {
            Err(Failure::invalid(format!("unknown flags {unknown:#x}: this call knows {known:#x}")))
        }
    }
}

/// The failure for an argument that is a null pointer.
#[cold]
fn null(name: &str) -> Failure {
    Failure::invalid(format!("{name} is a null pointer"))
}

/// Fills the caller's buffer of `size` bytes by `read`; a null buffer is not filled. `size` becomes `length`. A buffer
/// that is too small stays as it is.
pub(super) fn fill(
    buf: Bytes,
    size: Ptr<u64>,
    length: u64,
    read: impl FnOnce(&mut [u8]) -> Result<()>,
) -> Result<()> {
    let room = if buf.is_null() { 0 } else { needed(size, "size")?.get()? };
    needed(size, "size")?.set(length);
    if buf.is_null() {
        return Ok(());
    }
    if room < length {
        let text = format!("a buffer of {room} bytes for {length} bytes: nothing was read");
        return Err(Failure::new(Code::REC2BIG, text));
    }
    read(buf.write(length)?)
}

/// Copies a text and a NUL to `buf`, a buffer of `room` bytes, unless it is null. `name` is the name of the argument,
/// for the error.
pub(super) fn give_text(buf: Str, room: u64, text: &str, name: &str) -> Result<()> {
    if buf.is_null() {
        return Ok(());
    }
    let length = text.len() as u64 + 1;
    if room < length {
        let text = format!("{name} has {room} bytes of the {length} that {text:?} and a NUL take");
        return Err(Failure::new(Code::OVERFLOW, text));
    }
    let target = buf.cast().write(length)?;
    target[..text.len()].copy_from_slice(text.as_bytes());
    target[text.len()] = 0;
    Ok(())
}
