//! Descriptors: the state that a kernel has for an open file, its offset and open flags.
use crate::namespace::fail;
use crate::words;
use dfs::{File, Kind, Node, Open, SetAttr};
use esker::types::{ErrorKind, Result};
use std::cell::Cell;
use std::rc::Rc;

/// Descriptors that a sequence can have open.
const SLOTS: usize = 8;
/// How far into a hole it is read, and how far back from its end.
const LOOK: u64 = 4 << 20;

/// An open file or directory; duplicates share it.
pub(crate) struct Descriptor {
    node: Node,
    /// `None` for a directory.
    file: Option<File>,
    append: bool,
    offset: Cell<u64>,
}

/// The open descriptors, by their number in a sequence.
#[derive(Default)]
pub(crate) struct Handles([Option<Rc<Descriptor>>; SLOTS]);

impl Handles {
    /// Stores a descriptor under the number that `word` spells. One with this number is closed.
    pub(crate) fn put(&mut self, word: &str, descriptor: Descriptor) {
        *self.slot(word) = Some(Rc::new(descriptor));
    }

    /// The slot of the descriptor whose number `word` spells.
    fn slot(&mut self, word: &str) -> &mut Option<Rc<Descriptor>> {
        &mut self.0[words::number::<usize>(word) % SLOTS]
    }

    /// The descriptor whose number `word` spells; `NoHandle` if it is not open.
    fn get(&mut self, word: &str) -> Result<Rc<Descriptor>> {
        self.slot(word).clone().ok_or_else(|| ErrorKind::NoHandle.into())
    }

    /// Performs the operation `name` if it is one on a descriptor; `None` for other operations. A result without text
    /// is empty.
    pub(crate) fn perform(&mut self, name: &str, arguments: &[&str]) -> Option<Result<String>> {
        let done = |result: Result<()>| Some(result.map(|()| String::new()));
        match (name, arguments) {
            ("close", [file]) => {
                let taken = self.get(file);
                *self.slot(file) = None;
                done(taken.map(drop))
            }
            ("dup", [from, to]) => {
                let shared = self.get(from);
                done(shared.map(|shared| *self.slot(to) = Some(shared)))
            }
            (_, [file, rest @ ..]) => {
                let descriptor = match self.get(file) {
                    Ok(descriptor) => descriptor,
                    Err(error) => return is_known(name).then(|| refused(name, rest, error)),
                };
                descriptor.perform(name, rest)
            }
            _ => None,
        }
    }
}

/// Names of operations whose first word is a descriptor.
fn is_known(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "fsync",
        "fdatasync",
        "read",
        "readv",
        "pread",
        "preadv",
        "write",
        "writev",
        "pwrite",
        "pwritev",
        "seek",
        "ftruncate",
        "fallocate",
        "fstat",
        "fchmod",
        "futimens",
    ];
    NAMES.contains(&name)
}

/// Linux checks some numbers before it checks the descriptor.
fn refused(name: &str, arguments: &[&str], error: esker::types::Error) -> Result<String> {
    let first = arguments.first().map_or(0, |word| words::number::<i64>(word));
    match name {
        "pread" | "pwrite" | "preadv" | "pwritev" | "ftruncate" if first < 0 => {
            fail(ErrorKind::Invalid)
        }
        _ => Err(error),
    }
}

/// A number that must not be negative.
fn unsigned(word: &str) -> Result<u64> {
    u64::try_from(words::number::<i64>(word)).or_else(|_| fail(ErrorKind::Invalid))
}

/// The lengths of the buffers of a vectored operation.
fn lens(word: &str) -> Vec<usize> {
    word.split(',').map(words::number).collect()
}

impl Descriptor {
    /// Opens a node with the flags of the operation `open`.
    pub(crate) fn new(node: Node, flags: &str) -> Result<Self> {
        let open = Open {
            read: flags.starts_with('r'),
            write: flags.starts_with('w') || flags.starts_with("rw"),
            truncate: flags.contains("+trunc"),
        };
        let file = match node.kind() {
            Kind::Directory => None,
            _ => Some(node.open(open)?),
        };
        Ok(Self { node, file, append: flags.contains("+append"), offset: Cell::new(0) })
    }

    /// Performs the operation `name` on this descriptor; `None` if the operation is unknown.
    fn perform(&self, name: &str, arguments: &[&str]) -> Option<Result<String>> {
        let done = |result: Result<()>| result.map(|()| String::new());
        Some(match (name, arguments) {
            ("fsync" | "fdatasync", []) => done(self.file.as_ref().map_or(Ok(()), File::sync)),
            ("read", [len]) => self.read(None, &[words::number(len)]),
            ("readv", [all]) => self.read_vectors(None, &lens(all)),
            ("pread", [at, len]) => {
                unsigned(at).and_then(|at| self.read(Some(at), &[words::number(len)]))
            }
            ("preadv", [at, all]) => {
                unsigned(at).and_then(|at| self.read_vectors(Some(at), &lens(all)))
            }
            ("write", [len, seed]) => self.write(None, &[words::number(len)], seed),
            ("writev", [all, seed]) => self.write(None, &lens(all), seed),
            ("pwrite", [at, len, seed]) => {
                unsigned(at).and_then(|at| self.write(Some(at), &[words::number(len)], seed))
            }
            ("pwritev", [at, all, seed]) => {
                unsigned(at).and_then(|at| self.write(Some(at), &lens(all), seed))
            }
            ("seek", [whence, offset]) => self.seek(whence, words::number(offset)),
            ("ftruncate", [len]) => done(self.truncate(len)),
            ("fallocate", [how, at, len]) => done(self.allocate(how, at, len)),
            // The attributes of a removed directory are not compared.
            ("fstat" | "fchmod" | "futimens", _) if self.is_removed_directory() => {
                Ok(String::new())
            }
            ("fstat", []) => self.attr().map(|attr| words::attr(&attr)),
            ("fchmod", [mode]) => {
                self.set(SetAttr { mode: Some(words::octal(mode)), ..SetAttr::default() })
            }
            ("futimens", [time]) => {
                self.set(SetAttr { mtime: words::time(time), ..SetAttr::default() })
            }
            _ => return None,
        })
    }

    /// The attributes of the open file or directory.
    fn attr(&self) -> Result<dfs::Attr> {
        match &self.file {
            Some(file) => file.attr(),
            None => self.node.attr(),
        }
    }

    fn is_removed_directory(&self) -> bool {
        self.file.is_none() && self.node.attr().is_ok_and(|attr| attr.nlink == 0)
    }

    /// Sets attributes. An empty set must not change the file, not even its times.
    fn set(&self, set: SetAttr) -> Result<String> {
        if set != SetAttr::default() {
            match &self.file {
                Some(file) => file.set_attr(&set)?,
                None => self.node.set_attr(&set)?,
            };
        }
        Ok(String::new())
    }

    /// A directory cannot be read, but a vectored read of zero bytes succeeds.
    fn read_vectors(&self, at: Option<u64>, lens: &[usize]) -> Result<String> {
        match self.file.is_none() && lens.iter().all(|len| *len == 0) {
            true => Ok(words::bytes(&[])),
            false => self.read(at, lens),
        }
    }

    /// Reads into buffers of these lengths: from `at` on or, without it, from the offset, which advances.
    fn read(&self, at: Option<u64>, lens: &[usize]) -> Result<String> {
        let Some(file) = &self.file else { return fail(ErrorKind::IsDirectory) };
        let mut buffers: Vec<_> = lens.iter().map(|len| vec![0xee_u8; *len]).collect();
        let offset = at.unwrap_or(self.offset.get());
        let got = match buffers.as_mut_slice() {
            [one] => file.read_at(offset, one)?,
            many => {
                file.read_vectored_at(offset, many.iter_mut().map(Vec::as_mut_slice).collect())?
            }
        };
        if at.is_none() {
            self.offset.set(offset + got as u64);
        }
        Ok(words::bytes(&buffers.concat()[..got]))
    }

    /// Writes buffers of these lengths, with data that follows from `seed`: at `at` or, without it, at the offset, which
    /// advances. With `O_APPEND`, writes at the end of the file.
    fn write(&self, at: Option<u64>, lens: &[usize], seed: &str) -> Result<String> {
        let Some(file) = self.file.as_ref().filter(|file| file.mode().write) else {
            return fail(ErrorKind::NoHandle);
        };
        let data = words::fill(lens.iter().sum(), words::number(seed));
        let offset = at.unwrap_or(self.offset.get());
        let end = match (self.append, lens) {
            (true, _) => file.append(&data)? + data.len() as u64,
            (false, [_]) => offset + file.write_at(offset, &data)? as u64,
            (false, many) => {
                let mut rest = data.as_slice();
                let cut = |len: &usize| {
                    let (part, after) = rest.split_at(*len);
                    rest = after;
                    part
                };
                let parts: Vec<_> = many.iter().map(cut).collect();
                offset + file.write_vectored_at(offset, &parts)? as u64
            }
        };
        if at.is_none() && !data.is_empty() {
            self.offset.set(end);
        }
        Ok(data.len().to_string())
    }

    fn truncate(&self, len: &str) -> Result<()> {
        let len = unsigned(len)?;
        match &self.file {
            Some(file) if file.mode().write => file.set_len(len),
            _ => fail(ErrorKind::Invalid),
        }
    }

    /// `fallocate`: `how` is `punch` for a hole, `keep` to keep the size, or `alloc`.
    fn allocate(&self, how: &str, at: &str, len: &str) -> Result<()> {
        let (at, len) = (unsigned(at)?, unsigned(len)?);
        if len == 0 {
            return fail(ErrorKind::Invalid);
        }
        let Some(file) = &self.file else { return fail(ErrorKind::NoHandle) };
        match how {
            "punch" => file.punch(at, len),
            _ => file.allocate(at, len, how == "keep"),
        }
    }

    /// `lseek` from the beginning, the offset or the end; or the check of a hole for `data` and `hole`.
    fn seek(&self, whence: &str, offset: i64) -> Result<String> {
        let Some(file) = &self.file else { return Ok(String::new()) };
        let from = match whence {
            "set" => 0,
            "cur" => self.offset.get() as i64,
            "end" => file.size()? as i64,
            _ => return self.seek_hole(file, whence, offset),
        };
        let to = from.checked_add(offset).filter(|to| *to >= 0);
        let Some(to) = to else { return fail(ErrorKind::Invalid) };
        self.offset.set(to as u64);
        Ok(to.to_string())
    }

    /// Checks that the hole at or after `offset` has no data. A file system may choose where holes start, so their
    /// position is not compared.
    fn seek_hole(&self, file: &File, whence: &str, offset: i64) -> Result<String> {
        let size = file.size()?;
        let Some(offset) = u64::try_from(offset).ok().filter(|offset| *offset < size) else {
            return fail(ErrorKind::PastEnd);
        };
        let begin = if whence == "hole" { file.seek_hole(offset)? } else { offset };
        let end = match file.seek_data(begin) {
            Err(error) if error.kind() == ErrorKind::PastEnd => size,
            end => end?,
        };
        let (whole, read) = ((begin, end), file.node().open(Open::READ)?);
        let parts = match end - begin > LOOK {
            true => [(begin, begin + LOOK), (end - LOOK, end)],
            false => [whole, (end, end)],
        };
        for (from, to) in parts {
            let mut bytes = vec![0xee; (to - from) as usize];
            let got = read.read_at(from, &mut bytes)?;
            assert!(bytes[..got].iter().all(|byte| *byte == 0), "data in a hole");
        }
        self.offset.set(0);
        Ok(String::new())
    }
}
