//! The words of sequences and results, as `tests/posix/replay.c` reads and prints them.
use dfs::{Attr, Kind, Time};
use std::fmt::Write;

/// Times before it were set by the sequence; all others are of now.
const LONG_AGO: i64 = 1_600_000_000;

/// A path as it stands in a sequence: %XX is a byte, % alone the empty path, ~ at the beginning `base`.
pub(crate) fn decode(word: &str, base: &[u8]) -> Vec<u8> {
    let mut path = Vec::new();
    let mut rest = word;
    if let Some(after) = word.strip_prefix('~') {
        path.extend_from_slice(base);
        rest = after;
    }
    let mut bytes = rest.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => path.extend(hexadecimal(bytes.next(), bytes.next())),
            _ => path.push(byte),
        }
    }
    path
}

/// The byte that two hexadecimal digits spell; `None` if they do not.
fn hexadecimal(high: Option<u8>, low: Option<u8>) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(high?)? * 16 + digit(low?)?) as u8)
}

/// Bytes as one word of a result.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut word = String::new();
    for &byte in bytes {
        if byte.is_ascii_graphic() && !b"%,:|".contains(&byte) {
            word.push(char::from(byte));
        } else {
            let _ = write!(word, "%{byte:02x}");
        }
    }
    word
}

/// A link's target, `base` as ~.
pub(crate) fn target(bytes: &[u8], base: &[u8]) -> String {
    match bytes.strip_prefix(base) {
        Some(rest) => format!("~{}", encode(rest)),
        None => encode(bytes),
    }
}

/// The number that a word spells, or 0.
pub(crate) fn number<T: std::str::FromStr + Default>(word: &str) -> T {
    word.parse().unwrap_or_default()
}

/// The octal number that a word spells, or 0.
pub(crate) fn octal(word: &str) -> u32 {
    u32::from_str_radix(word, 8).unwrap_or_default()
}

/// A time argument of a sequence: a time to set, that of now, or `None` to omit it.
pub(crate) fn time(word: &str) -> Option<Time> {
    match word.split_once('.') {
        Some((seconds, nanos)) => Some(Time { seconds: number(seconds), nanos: number(nanos) }),
        None => (word == "now").then(Time::now),
    }
}

/// Bytes that follow from a seed.
pub(crate) fn fill(len: usize, seed: u64) -> Vec<u8> {
    let byte = |at: usize| seed as usize * 167 + at * 13 + (at >> 8) * 7 + 1;
    (0..len).map(|at| byte(at) as u8).collect()
}

/// Length and hash of the data read (FNV-1a).
pub(crate) fn bytes(data: &[u8]) -> String {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = data.iter().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{} {hash:016x}", data.len())
}

/// A sum of the data of a file; zeros add nothing.
pub(crate) fn sum(offset: u64, data: &[u8]) -> u64 {
    let term = |(at, &byte): (usize, &u8)| {
        (offset + at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_mul(u64::from(byte))
    };
    data.iter().enumerate().map(term).fold(0, u64::wrapping_add)
}

/// The letter for a kind.
pub(crate) fn kind(kind: Kind) -> char {
    match kind {
        Kind::File => 'f',
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
    }
}

/// Attributes, without what file systems may choose freely.
pub(crate) fn attr(attr: &Attr) -> String {
    let Attr { mode, size, nlink, mtime, .. } = attr;
    let what = match attr.kind {
        Kind::File => format!("f {mode:o} {size} {nlink}"),
        Kind::Directory => format!("d {mode:o}"),
        Kind::Symlink => format!("l {nlink}"),
    };
    match mtime.seconds < LONG_AGO {
        true => format!("{what} {}.{:09}", mtime.seconds, mtime.nanos),
        false => format!("{what} now"),
    }
}
