//! Directory streams: opendir and its relatives.
use crate::answer::{Answer, Returned, refuse, to_c};
use crate::edge::{Out, Text, export};
use crate::paths::MountPath;
use crate::serve::{NamesFile, at, on, serve};
use crate::{close, descriptors, open, raw, threads};
use dfs::Kind;
use esker_preload_interface::{DirStream, Node};
use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::{Mutex, PoisonError};

/// First word of our streams. Streams of the C library begin with a descriptor, which is never negative.
const MARK: u64 = 0xe5ce_d1e5_8000_0e5c;

/// The content of a `DIR` of ours, as [`MARK`] at its start shows.
#[repr(C)]
struct Stream {
    mark: u64,
    fd: c_int,
    inner: Mutex<Listing>,
    /// The entry that the last call returned.
    entry: libc::dirent64,
}

/// The entries of a directory, with `.` and `..` first. A position of 0 or 1 is before one of these.
pub(crate) struct Listing {
    position: u64,
    entries: DirStream,
}

/// An entry as C sees it.
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) number: u64,
    pub(crate) kind: u8,
    /// Position of the next one.
    pub(crate) next: u64,
}

/// Number of the entries `.` and `..`, which the store does not list.
const DOTS: u64 = 2;

impl Listing {
    pub(crate) fn new(node: &Node) -> Answer<Self> {
        Ok(Self { position: 0, entries: node.entries()? })
    }

    /// The next entry; `.` and `..` come first. `None` at the end.
    pub(crate) fn next(&mut self) -> Answer<Option<Entry>> {
        let node = self.entries.node();
        let dots = |name: &[u8], node: &Node| (name.to_vec(), node.inode().number(), libc::DT_DIR);
        let (name, number, kind) = match self.position {
            0 => dots(b".", node),
            1 => dots(b"..", node.parent()?.as_ref().unwrap_or(node)),
            _ => match self.entries.read()? {
                Some(entry) => {
                    let (number, kind) = (entry.number(), letter(entry.kind()));
                    (entry.name, number, kind)
                }
                None => return Ok(None),
            },
        };
        self.position = if self.position < DOTS { self.position + 1 } else { self.tell() };
        Ok(Some(Entry { name, number, kind, next: self.position }))
    }

    /// Position of the next entry, for [`Listing::seek`].
    fn tell(&self) -> u64 {
        if self.position < DOTS { self.position } else { DOTS + self.entries.tell() }
    }

    pub(crate) fn seek(&mut self, position: u64) {
        self.entries.seek(position.saturating_sub(DOTS));
        self.position = position;
    }
}

/// Converts a kind of file to the number in `d_type`.
fn letter(kind: Kind) -> u8 {
    match kind {
        Kind::File => libc::DT_REG,
        Kind::Directory => libc::DT_DIR,
        Kind::Symlink => libc::DT_LNK,
    }
}

impl Entry {
    /// Writes the entry to C's structure.
    pub(crate) fn write(&self, to: &mut libc::dirent64) {
        to.d_ino = self.number;
        to.d_off = self.next as i64;
        to.d_type = self.kind;
        to.d_reclen = size_of::<libc::dirent64>() as u16;
        let length = self.name.len().min(to.d_name.len() - 1);
        for (to, byte) in to.d_name.iter_mut().zip(&self.name[..length]) {
            *to = *byte as c_char;
        }
        to.d_name[length] = 0;
    }
}

/// A `DIR` of C: ours or the C library's.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Dir(*mut c_void);

impl Returned for Dir {
    const FAILED: Self = Self(std::ptr::null_mut());
}

impl NamesFile for Dir {
    fn is_ours(&self) -> bool {
        Self::is_ours(*self)
    }
}

impl Dir {
    /// Makes a stream for an open directory. The stream owns the descriptor.
    fn new(fd: c_int) -> Answer<Self> {
        let inner = Mutex::new(Listing::new(&descriptors::get(fd)?.node()?)?);
        // SAFETY: an entry of C consists of numbers, for which zero is valid.
        let entry = unsafe { std::mem::zeroed() };
        let stream = Box::new(Stream { mark: MARK, fd, inner, entry });
        Ok(Self(Box::into_raw(stream).cast()))
    }

    fn is_ours(self) -> bool {
        // SAFETY: it is a stream, ours or one of the C library, and both are longer than this.
        !self.0.is_null() && unsafe { self.0.cast::<u64>().read() } == MARK
    }

    /// The stream, if it is ours. One thread at a time uses it, as the C library requires.
    fn stream<'a>(self) -> Option<&'a mut Stream> {
        // SAFETY: it is one of ours, which lives until it is closed.
        self.is_ours().then(|| unsafe { &mut *self.0.cast() })
    }

    /// Frees the stream, but does not close its descriptor.
    fn free(self) {
        // SAFETY: called once, for a stream of ours that came from a box.
        drop(unsafe { Box::from_raw(self.0.cast::<Stream>()) });
    }
}

impl Stream {
    /// Calls `work` with the listing of the stream.
    fn listing<T>(&mut self, work: impl FnOnce(&mut Listing) -> T) -> T {
        work(self.inner.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// The next entry for `readdir`. Null at the end, with errno as it was, or after an error, with errno set.
    fn read(&mut self) -> *mut libc::dirent64 {
        match serve(|| self.listing(Listing::next)) {
            Ok(Some(entry)) => {
                entry.write(&mut self.entry);
                &raw mut self.entry
            }
            Ok(None) => std::ptr::null_mut(),
            Err(error) => to_c(Err(error)),
        }
    }

    /// Stores the next entry in a buffer of the caller (`readdir_r`). Returns 0 or an errno; `result` is null at the
    /// end.
    fn read_into(&mut self, entry: Out<libc::dirent64>, result: Out<*mut libc::dirent64>) -> c_int {
        match serve(|| self.listing(Listing::next)) {
            Ok(Some(found)) => {
                if let Some(to) = entry.values(1).first_mut() {
                    found.write(to);
                }
                result.set(entry.pointer());
                0
            }
            Ok(None) => {
                result.set(std::ptr::null_mut());
                0
            }
            Err(error) => {
                result.set(std::ptr::null_mut());
                let _: c_int = to_c(Err(error));
                threads::errno()
            }
        }
    }
}

/// Flags by which `opendir` opens a directory.
const STREAM: c_int = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;

/// Frees the stream and closes its descriptor.
fn close_stream(dir: Dir, fd: c_int) -> c_int {
    let _ = serve(|| {
        dir.free();
        Ok(())
    });
    close::forget(fd);
    raw::close(fd);
    0
}

/// A stream for an open directory, as for `fdopendir`.
fn adopt(fd: c_int) -> Answer<Dir> {
    match descriptors::get(fd)?.open()?.is_directory() {
        true => Dir::new(fd),
        false => refuse(libc::ENOTDIR),
    }
}

/// Functions of one form under several names.
macro_rules! variants {
    ($($form:ident: $($name:ident)*;)*) => {$($(variants! { @$form $name })*)*};
    (@read $name:ident) => { export! {
        fn $name(dir: Dir) -> *mut libc::dirent64 | next {
            match dir.stream() {
                Some(stream) => stream.read(),
                None => next(dir),
            }
        }
    } };
    (@read_into $name:ident) => { export! {
        fn $name(dir: Dir, entry: Out<libc::dirent64>, result: Out<*mut libc::dirent64>) -> c_int
        | next {
            match dir.stream() {
                Some(stream) => stream.read_into(entry, result),
                None => next(dir, entry, result),
            }
        }
    } };
}

variants! {
    read: readdir readdir64;
    read_into: readdir_r readdir64_r;
}

export! {
    fn opendir(path: Text) -> Dir | next {
        match open::descriptor(path) {
            Some(fd) => on(fd, |_| Dir::new(open::reopen(fd, STREAM)?), || next(path)),
            None => {
                let ours = |path: MountPath<'_>| Dir::new(open::open_path(&path, STREAM, 0)?);
                at(libc::AT_FDCWD, path, ours, |_, path| next(path))
            }
        }
    }

    fn fdopendir(fd: c_int) -> Dir | next {
        on(fd, |_| adopt(fd), || next(fd))
    }

    fn closedir(dir: Dir) -> c_int | next {
        match dir.stream().map(|stream| stream.fd) {
            Some(fd) => close_stream(dir, fd),
            None => next(dir),
        }
    }

    fn rewinddir(dir: Dir) -> () | next {
        match dir.stream() {
            Some(stream) => stream.listing(|listing| listing.seek(0)),
            None => next(dir),
        }
    }

    fn telldir(dir: Dir) -> c_long | next {
        match dir.stream() {
            Some(stream) => stream.listing(|listing| listing.tell() as c_long),
            None => next(dir),
        }
    }

    fn seekdir(dir: Dir, position: c_long) -> () | next {
        match dir.stream() {
            Some(stream) => stream.listing(|listing| listing.seek(position.max(0) as u64)),
            None => next(dir, position),
        }
    }

    fn dirfd(dir: Dir) -> c_int | next {
        match dir.stream() {
            Some(stream) => stream.fd,
            None => next(dir),
        }
    }

    fn getdents64(fd: c_int, room: Out<u8>, size: usize) -> isize | next {
        on(fd, |_| raw_entries(fd, room, size), || next(fd, room, size))
    }
}

/// Bytes of a raw entry before its name.
const HEAD: usize = 19;

/// Serves `getdents64`: writes up to `size` bytes of entries in the kernel's form, and returns their length. The offset
/// of the descriptor is the position in the listing.
pub(crate) fn raw_entries(fd: c_int, room: Out<u8>, size: usize) -> Answer<isize> {
    let file = descriptors::get(fd)?;
    if !file.open()?.is_directory() {
        return refuse(libc::ENOTDIR);
    }
    let position = file.position.seek(fd, 0, libc::SEEK_CUR)? as u64;
    let mut kept = file.listing.lock().unwrap_or_else(PoisonError::into_inner);
    let listing = match &mut *kept {
        Some(listing) => listing,
        none => none.insert(Box::new(Listing::new(&file.node()?)?)),
    };
    // At the start of a directory, the listing begins anew and sees new entries.
    if position == 0 || listing.tell() != position {
        listing.seek(position);
    }
    let filled = fill(listing, room.buffer(size)?)?;
    file.position.seek(fd, listing.tell() as i64, libc::SEEK_SET)?;
    Ok(filled as isize)
}

/// Writes entries in the form of `getdents64` until the next one does not fit, and returns the bytes written. `EINVAL`
/// if not even one fits.
fn fill(listing: &mut Listing, room: &mut [u8]) -> Answer<usize> {
    let mut used = 0;
    loop {
        let before = listing.tell();
        let Some(entry) = listing.next()? else { return Ok(used) };
        let length = (HEAD + entry.name.len() + 1).next_multiple_of(8);
        let Some(record) = room.get_mut(used..used + length) else {
            listing.seek(before);
            return if used == 0 { refuse(libc::EINVAL) } else { Ok(used) };
        };
        record.fill(0);
        record[..8].copy_from_slice(&entry.number.to_ne_bytes());
        record[8..16].copy_from_slice(&entry.next.to_ne_bytes());
        record[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
        record[18] = entry.kind;
        record[HEAD..HEAD + entry.name.len()].copy_from_slice(&entry.name);
        used += length;
    }
}
