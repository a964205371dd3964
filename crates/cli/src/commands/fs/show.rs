//! How entries of a file system are shown.
use crate::shapes;
use crate::units::Bytes;
use dfs::{Attr, Kind, Time};
use esker::types::{Error, Result};
use serde_json::{Value, json};
use std::io::{BufWriter, IsTerminal, StdoutLock, Write};

/// Lines on standard output, written one by one so that long listings need no memory. A reader that closes its end
/// early is not an error.
pub(super) struct Lines {
    out: BufWriter<StdoutLock<'static>>,
    escape: bool,
    end: u8,
    gone: bool,
}

impl Lines {
    /// Lines that end with `end`. On a terminal, names are escaped unless `end` is a zero byte.
    pub(super) fn new(end: u8) -> Self {
        let out = std::io::stdout();
        let escape = end != 0 && out.is_terminal();
        Self { out: BufWriter::new(out.lock()), escape, end, gone: false }
    }

    /// Writes a line that ends with a name; false if the reader has closed its end.
    pub(super) fn line(&mut self, before: &str, name: &[u8]) -> Result<bool> {
        let name = if self.escape { escaped(name) } else { name.to_vec() };
        let written = self
            .out
            .write_all(before.as_bytes())
            .and_then(|()| self.out.write_all(&name))
            .and_then(|()| self.out.write_all(&[self.end]));
        self.check_written(written)
    }

    /// Writes the buffered output. It is not an error if the reader of standard output has closed it.
    pub(super) fn finish(mut self) -> Result<()> {
        let flushed = self.out.flush();
        self.check_written(flushed).map(drop)
    }

    /// Whether to write on: false when the reader of standard output has closed it. Any other error of the write is
    /// returned.
    fn check_written(&mut self, written: std::io::Result<()>) -> Result<bool> {
        match written {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => self.gone = true,
            Err(error) => return Err(Error::io("writing to standard output", &error)),
            Ok(()) => {}
        }
        Ok(!self.gone)
    }
}

/// A name for a terminal: one with control characters, or that is not UTF-8, is escaped as in C.
pub(super) fn escaped(name: &[u8]) -> Vec<u8> {
    let plain = |text: &str| !text.chars().any(char::is_control);
    match std::str::from_utf8(name) {
        Ok(text) if plain(text) => name.to_vec(),
        _ => name.escape_ascii().collect(),
    }
}

/// The kind and mode in the form `drwxr-xr-x`, as `ls -l` shows them.
pub(super) fn mode(kind: Kind, mode: u32) -> String {
    let kind = match kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
    };
    let triple = |shift: u32, special: u32, letters: [char; 2]| {
        let bits = mode >> shift;
        let flag = |bit: u32, letter: char| if bits & bit != 0 { letter } else { '-' };
        let last = match (mode & special != 0, bits & 1 != 0) {
            (false, _) => flag(1, 'x'),
            (true, runs) => letters[usize::from(runs)],
        };
        [flag(4, 'r'), flag(2, 'w'), last]
    };
    let triples = [
        triple(6, 0o4000, ['S', 's']),
        triple(3, 0o2000, ['S', 's']),
        triple(0, 0o1000, ['T', 't']),
    ];
    std::iter::once(kind).chain(triples.into_iter().flatten()).collect()
}

/// A size as a number, or with a unit.
pub(super) fn size(bytes: u64, human: bool) -> String {
    if human { Bytes(bytes).to_string() } else { bytes.to_string() }
}

/// The name of a kind.
pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
    }
}

/// The attributes of an entry, in JSON.
pub(super) fn attr(path: &[u8], attr: &Attr) -> Value {
    json!({
        "path": shapes::bytes(path),
        "kind": kind(attr.kind),
        "mode": format!("{:04o}", attr.mode),
        "uid": attr.uid,
        "gid": attr.gid,
        "size_bytes": attr.size,
        "mtime": time(attr.mtime),
        "ctime": time(attr.ctime),
        "inode": attr.number(),
        "oid": attr.oid.to_string(),
        "chunk_size_bytes": attr.block_size,
    })
}

/// A time with its nanoseconds: `2026-01-31T12:00:00.000000001Z`.
pub(super) fn time(time: Time) -> String {
    shapes::time(time.seconds, time.nanos as i32, 9)
}

/// A time to the second, for people: `2026-01-31 12:00:00`.
pub(super) fn short_time(time: Time) -> String {
    shapes::time(time.seconds, 0, 0).replace('T', " ").replace('Z', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_look_as_everywhere() {
        assert_eq!(mode(Kind::Directory, 0o755), "drwxr-xr-x");
        assert_eq!(mode(Kind::File, 0o4644), "-rwSr--r--");
        assert_eq!(mode(Kind::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(mode(Kind::Symlink, 0o2777), "lrwxrwsrwx");
        assert_eq!(mode(Kind::File, 0), "----------");
    }

    #[test]
    fn terminals_see_no_control_characters() {
        assert_eq!(escaped(b"plain name"), b"plain name");
        assert_eq!(escaped(b"a\nb\xff"), b"a\\nb\\xff");
        assert_eq!(escaped("\u{e4}".as_bytes()), "\u{e4}".as_bytes());
    }
}
