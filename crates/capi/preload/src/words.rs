//! `wordexp`: the C library finds the paths that match a pattern by internal calls. Here this library expands the
//! patterns in the mount point, and the C library all else. The C library then makes the result from quoted words.
use crate::edge::{Out, Text, export};
use std::ffi::{CStr, CString, c_char, c_int};

/// `wordexp_t` of C.
#[repr(C)]
struct Words {
    count: usize,
    words: *mut *mut c_char,
    offset: usize,
}

/// Flags that affect the expansion (glibc: `WRDE_NOCMD`, `WRDE_SHOWERR`, `WRDE_UNDEF`). The others affect the output.
const EXPANDING: c_int = 4 | 16 | 32;

/// Errors (glibc: `WRDE_NOSPACE`, `WRDE_BADCHAR`, `WRDE_SYNTAX`).
const NO_SPACE: c_int = 1;
const BAD_CHARACTER: c_int = 2;
const BAD_SYNTAX: c_int = 5;

/// Characters of patterns, and bytes that replace them: in quotes, and elsewhere. The C library does not change these
/// bytes.
const SPECIAL: &[u8] = b"*?[";
const QUOTED: &[u8] = b"\x01\x02\x03";
const FREE: &[u8] = b"\x04\x05\x06";

// SAFETY: as the C library declares it.
unsafe extern "C" {
    fn wordfree(words: *mut Words);
}

/// The text with other bytes in place of the special characters of patterns, so that the C library leaves these to this
/// library. The bytes are `QUOTED` in quotes, `FREE` elsewhere. Those in `$(...)` and the like stay.
fn replace_special(mut rest: &[u8]) -> Vec<u8> {
    let (mut text, mut in_double) = (Vec::new(), false);
    while let [first, after @ ..] = rest {
        let (length, stands_for): (usize, &[u8]) = match (*first, in_double) {
            (b'\\', _) => (rest.len().min(2), QUOTED),
            (b'\'', false) => (1 + length_until(after, b'\''), QUOTED),
            (b'$' | b'`', _) => (length_of_expansion(rest), SPECIAL),
            (_, true) => (1, QUOTED),
            (_, false) => (1, FREE),
        };
        in_double ^= *first == b'"';
        text.extend(rest[..length].iter().map(|byte| exchange(*byte, SPECIAL, stands_for)));
        rest = &rest[length..];
    }
    text
}

/// The byte of `to` at the position of `byte` in `from`; `byte` itself if `from` does not contain it.
fn exchange(byte: u8, from: &[u8], to: &[u8]) -> u8 {
    from.iter().position(|special| *special == byte).map_or(byte, |at| to[at])
}

/// Returns the number of bytes up to and including the first `end`, or of the whole text if it has none.
fn length_until(text: &[u8], end: u8) -> usize {
    text.iter().position(|byte| *byte == end).map_or(text.len(), |at| at + 1)
}

/// Length of `$(...)`, `${...}` or a command in backquotes, which have their own quotes. It is 2 for `$*` and `$?`, 1
/// for the `$` of another variable.
fn length_of_expansion(text: &[u8]) -> usize {
    let (open, close) = match text {
        [b'`', after @ ..] => return 1 + length_until(after, b'`'),
        [b'$', b'(', ..] => (b'(', b')'),
        [b'$', b'{', ..] => (b'{', b'}'),
        [b'$', b'*' | b'?', ..] => return 2,
        _ => return 1,
    };
    let mut depth = 0;
    for (at, byte) in text.iter().enumerate() {
        depth += i32::from(*byte == open) - i32::from(*byte == close);
        if *byte == close && depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// True for a word with special characters outside quotes. In values of variables they do not count, as in the C
/// library.
fn is_pattern(word: &[u8]) -> bool {
    word.iter().any(|byte| FREE.contains(byte))
}

/// The original text of a word, with the replaced characters restored.
fn plain(word: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| exchange(exchange(*byte, QUOTED, SPECIAL), FREE, SPECIAL);
    word.iter().map(plain).collect()
}

/// The paths that match a word with patterns; the word itself if none does.
fn matches(word: &[u8]) -> Vec<Vec<u8>> {
    let mut pattern = Vec::new();
    for byte in word {
        if *byte == b'\\' || QUOTED.contains(byte) {
            pattern.push(b'\\');
        }
        pattern.extend(plain(&[*byte]));
    }
    let pattern = CString::new(pattern).unwrap_or_default();
    // SAFETY: a `glob_t` of C consists of numbers and pointers, for which zero is valid.
    let mut found: libc::glob_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pattern ends with a zero byte; the function is ours, and fills `found`.
    let result = unsafe { libc::glob(pattern.as_ptr(), 0, None, &raw mut found) };
    let list = match result {
        0 => strings(found.gl_pathv, found.gl_pathc),
        _ => vec![plain(word)],
    };
    // SAFETY: `glob` filled it.
    unsafe { libc::globfree(&raw mut found) };
    list
}

/// Copies the `count` strings of an array of C.
fn strings(array: *mut *mut c_char, count: usize) -> Vec<Vec<u8>> {
    let list = Out::at(array as usize).values(count);
    let bytes = |text: &*mut c_char| Text::at(*text as usize).bytes().unwrap_or_default().to_vec();
    list.iter().map(bytes).collect()
}

/// The words in single quotes and separated by spaces, so that they expand to themselves.
fn in_quotes(words: &[Vec<u8>]) -> Vec<u8> {
    let mut text = Vec::new();
    for word in words {
        text.push(b'\'');
        for byte in word {
            match byte {
                b'\'' => text.extend_from_slice(b"'\\''"),
                byte => text.push(*byte),
            }
        }
        text.extend_from_slice(b"' ");
    }
    text
}

/// Expands a text with `theirs`, and then patterns in the mount point. Returns the words in quotes, for another call of
/// the C library.
///
/// # Errors
/// The number that `wordexp` returns.
fn expand(text: &[u8], theirs: impl Fn(Text, Out<Words>) -> c_int) -> Result<CString, c_int> {
    if text.iter().any(|byte| QUOTED.contains(byte) || FREE.contains(byte)) {
        return Err(BAD_CHARACTER);
    }
    let text = CString::new(replace_special(text)).map_err(|_| BAD_SYNTAX)?;
    let mut found = Words { count: 0, words: std::ptr::null_mut(), offset: 0 };
    match theirs(Text::from_c_str(&text), Out::from_mut(&mut found)) {
        0 => {}
        error => return Err(error),
    }
    let words = strings(found.words, found.count);
    // SAFETY: the C library filled it.
    unsafe { wordfree(&raw mut found) };
    let expand =
        |word: Vec<u8>| if is_pattern(&word) { matches(&word) } else { vec![plain(&word)] };
    let words: Vec<Vec<u8>> = words.into_iter().flat_map(expand).collect();
    CString::new(in_quotes(&words)).map_err(|_| NO_SPACE)
}

/// True if something in the text may be a pattern.
fn has_pattern(text: &CStr) -> bool {
    text.to_bytes().iter().any(|byte| SPECIAL.contains(byte))
}

export! {
    fn wordexp(text: Text, out: Out<Words>, flags: c_int) -> c_int | next {
        match text.c_str().filter(|text| has_pattern(text)) {
            Some(wanted) => {
                let expanding = |text, out| next(text, out, flags & EXPANDING);
                match expand(wanted.to_bytes(), expanding) {
                    Ok(words) => next(Text::from_c_str(&words), out, flags),
                    Err(error) => error,
                }
            }
            None => next(text, out, flags),
        }
    }
}
