//! Open files of the mount point, which duplicated descriptors share.
use crate::answer::{Answer, Fail, refuse};
use crate::dirs::Listing;
use crate::identity::Identity;
use crate::limits::TRANSFER_MAX;
use crate::position::Position;
use crate::{left_open, locks, maps, mounted, threads};
use arc_swap::ArcSwapOption;
use dfs::{Attr, Follow, Kind, Open, SetAttr, Time};
use esker::types::ObjectId;
use esker_preload_interface::{File, Node};
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The open file of a descriptor.
pub(crate) struct OpenFile {
    identity: Identity,
    pub(crate) position: Position,
    /// Unset until the first use if the process inherited it through exec.
    content: ArcSwapOption<Content>,
    /// Generation of the process that opened the file or used it last. That process has a lease on it.
    used_in: AtomicU64,
    /// Descriptor of its lock file, -1 before the first lock.
    pub(crate) lock: AtomicI32,
    /// The listing of a directory that `getdents64` continues.
    pub(crate) listing: Mutex<Option<Box<Listing>>>,
}

/// The kind of an open file.
#[derive(Clone)]
pub(crate) enum Content {
    /// A regular file.
    File(Arc<File>),
    /// A directory, or anything opened with `O_PATH`.
    Node(Node),
}

impl Content {
    /// Opens `node` with the flags of `open`.
    pub(crate) fn open(node: Node, flags: c_int) -> Answer<Self> {
        if flags & libc::O_PATH != 0 || node.kind() == Kind::Directory {
            return Ok(Self::Node(node));
        }
        let access = flags & libc::O_ACCMODE;
        let (read, write) = (access != libc::O_WRONLY, access != libc::O_RDONLY);
        let truncate = flags & libc::O_TRUNC != 0;
        if truncate && !write {
            // Linux truncates the file, though it cannot be written to then.
            let now = Some(Time::now());
            node.set_attr(&SetAttr { size: Some(0), mtime: now, ..SetAttr::default() })?;
        }
        let file = node.open(Open { read, write, truncate: truncate && write })?;
        Ok(Self::File(Arc::new(file)))
    }
}

impl OpenFile {
    /// Opens a node with the flags of `open`. With `O_TRUNC`, the mappings of the file are cut, too.
    pub(crate) fn new(node: Node, flags: c_int) -> Answer<Self> {
        let kind = if node.kind() == Kind::Directory { libc::O_DIRECTORY } else { 0 };
        let kept = flags & (libc::O_ACCMODE | libc::O_PATH);
        let identity = Identity { path: node.path()?.into(), oid: node.oid(), flags: kept | kind };
        let content = match flags & (libc::O_TRUNC | libc::O_PATH) {
            libc::O_TRUNC => maps::cut(node.oid(), 0, || Content::open(node, flags))?,
            _ => Content::open(node, flags)?,
        };
        Ok(Self::with(identity, Position::start(flags), Some(content)))
    }

    /// Creates an open file that this process inherited through exec.
    pub(crate) fn inherited(identity: Identity) -> Self {
        Self::with(identity, Position::inherited(), None)
    }

    /// An open file with this content; `None` opens it at the first use.
    fn with(identity: Identity, position: Position, content: Option<Content>) -> Self {
        Self {
            identity,
            position,
            content: ArcSwapOption::from(content.map(Arc::new)),
            used_in: AtomicU64::new(threads::generation()),
            lock: AtomicI32::new(-1),
            listing: Mutex::new(None),
        }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn oid(&self) -> ObjectId {
        self.identity.oid
    }

    /// Releases the locks of the file, and drops its content unless other processes have it open. A removed file is
    /// then freed. Returns the state of its lock file.
    pub(crate) fn release(&self) -> locks::LockFileState {
        let left = locks::closed(self);
        if left != locks::LockFileState::InUse {
            self.drop_content();
        }
        if left == locks::LockFileState::Unlinked {
            // After an error, the next mount frees it.
            let _ = mounted::get().map(|fs| fs.bury(self.identity.oid));
        }
        left
    }

    /// Drops the content. A forked child that has not used the file leaks the content: closing it would store pending
    /// times, which the parent does.
    fn drop_content(&self) {
        if self.leased().is_none() {
            std::mem::forget(self.content.load_full());
        }
        self.content.store(None);
    }

    /// The content of the file, if this process has a lease on it.
    pub(crate) fn leased(&self) -> Option<Arc<Content>> {
        let is_used = self.used_in.load(Ordering::Relaxed) == threads::generation();
        self.content.load_full().filter(|_| is_used)
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.identity.flags & libc::O_DIRECTORY != 0
    }

    /// True for a directory that was not opened with `O_PATH`.
    fn is_listable(&self) -> bool {
        self.identity.flags & (libc::O_DIRECTORY | libc::O_PATH) == libc::O_DIRECTORY
    }

    /// Returns the file for calls that `O_PATH` does not allow.
    ///
    /// # Errors
    /// `EBADF` if it was opened with `O_PATH`.
    pub(crate) fn open(&self) -> Answer<&Self> {
        if self.identity.flags & libc::O_PATH == 0 { Ok(self) } else { refuse(libc::EBADF) }
    }

    /// The open file or node; an inherited one is opened at the first use.
    fn content(&self) -> Answer<Content> {
        match &*self.content.load() {
            Some(content) => {
                self.inherit(content)?;
                Ok(Content::clone(content))
            }
            None => self.reopen(),
        }
    }

    /// Takes a lease on the file for this process, at the first use after a fork. `ESTALE` if the file no longer
    /// exists.
    fn inherit(&self, content: &Content) -> Answer<()> {
        let now = threads::generation();
        if self.used_in.load(Ordering::Relaxed) == now {
            return Ok(());
        }
        let before = self.used_in.swap(now, Ordering::Relaxed);
        let Content::File(file) = content else { return Ok(()) };
        if before == now {
            return Ok(());
        }
        file.inherit().map_err(Fail::from).or_else(|error| {
            self.used_in.store(before, Ordering::Relaxed);
            if error.is_missing() { refuse(libc::ESTALE) } else { Err(error) }
        })
    }

    /// Opens an inherited file by its path, or by its object id if it was removed.
    #[cold]
    fn reopen(&self) -> Answer<Content> {
        let fs = mounted::get()?;
        let node = fs.resolve(&fs.root()?, &self.identity.path, Follow::AllButLast);
        let node = match node {
            Ok(node) if node.oid() == self.identity.oid => node,
            // The file was removed or moved since, and another process still has it open.
            _ => fs.file_in_use(self.identity.oid).or_else(|_| refuse(libc::ESTALE))?,
        };
        let content = Content::open(node, self.identity.flags)?;
        self.content.store(Some(Arc::new(content.clone())));
        Ok(content)
    }

    /// The node of the file.
    pub(crate) fn node(&self) -> Answer<Node> {
        match self.content()? {
            Content::File(file) => Ok(file.node().clone()),
            Content::Node(node) => Ok(node),
        }
    }

    /// The regular file, after writing back changes to its mappings.
    ///
    /// # Errors
    /// `EISDIR` for a directory, `EBADF` for a file opened with `O_PATH`.
    pub(crate) fn file(&self) -> Answer<Arc<File>> {
        // After an error, the changes stay in the mapping, and `fsync` reports it.
        let _ = maps::write_back_of(self.identity.oid);
        self.stored_file()
    }

    /// The regular file, as the store has it: changes to its mappings may not be written back yet.
    ///
    /// # Errors
    /// `EISDIR` for a directory, `EBADF` for a file opened with `O_PATH`.
    pub(crate) fn stored_file(&self) -> Answer<Arc<File>> {
        match self.content()? {
            Content::File(file) => Ok(file),
            Content::Node(_) if self.is_listable() => refuse(libc::EISDIR),
            Content::Node(_) => refuse(libc::EBADF),
        }
    }

    /// The regular file, for a change of its content. Directories cannot be opened for writing.
    ///
    /// # Errors
    /// `EBADF` for a directory, and for a file opened with `O_PATH`.
    pub(crate) fn for_writing(&self) -> Answer<Arc<File>> {
        match self.file() {
            Err(Fail::Errno(libc::EISDIR)) => refuse(libc::EBADF),
            answer => answer,
        }
    }

    /// Attributes of the file.
    pub(crate) fn attr(&self) -> Answer<Attr> {
        match self.content()? {
            Content::File(file) => Ok(file.attr()?),
            Content::Node(node) => Ok(node.attr()?),
        }
    }

    /// Stores pending changes (POSIX: `fsync`).
    pub(crate) fn sync(&self) -> Answer<c_int> {
        match self.open()?.content()? {
            Content::File(file) => {
                let written = maps::write_back_of(self.identity.oid);
                file.sync()?;
                written?;
            }
            Content::Node(_) => mounted::get()?.flush()?,
        }
        Ok(0)
    }

    /// Changes attributes (POSIX: `fchmod`, `fchown`, `futimens`).
    pub(crate) fn set_attr(&self, change: &SetAttr) -> Answer<c_int> {
        match self.content()? {
            Content::File(file) => file.set_attr(change)?,
            Content::Node(node) => node.set_attr(change)?,
        };
        Ok(0)
    }

    /// Reads at the offset of `fd`, and advances it. The offset is advanced first, atomically, so that processes that
    /// share it never read the same bytes.
    pub(crate) fn read(&self, fd: c_int, buffer: &mut [u8]) -> Answer<isize> {
        self.refuse_mode(libc::O_WRONLY)?;
        let length = buffer.len().min(TRANSFER_MAX);
        let file = self.file()?;
        self.advance_by(fd, length, |offset| Ok(file.read_at(offset, &mut buffer[..length])?))
    }

    /// Reads at the offset of `fd` into several buffers. For a directory, only empty buffers are accepted, as in Linux.
    pub(crate) fn read_vector(&self, fd: c_int, buffers: Vec<&mut [u8]>) -> Answer<isize> {
        self.refuse_mode(libc::O_WRONLY)?;
        let length = buffers.iter().map(|buffer| buffer.len()).sum();
        if length == 0 && self.is_listable() {
            return Ok(0);
        }
        let file = self.file()?;
        self.advance_by(fd, length, |offset| Ok(file.read_vectored_at(offset, buffers)?))
    }

    /// Writes at the offset of `fd`, or at the end of the file, and advances the offset.
    pub(crate) fn write(&self, fd: c_int, parts: &[&[u8]]) -> Answer<isize> {
        self.refuse_mode(libc::O_RDONLY)?;
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let file = self.for_writing()?;
        match self.position.appends(fd) {
            true => self.append(&file, fd, parts, length),
            false => self.advance_by(fd, length, |offset| self.put(&file, offset, parts)),
        }
    }

    /// Appends data, and moves the position to its end. Returns the number of bytes written.
    fn append(&self, file: &File, fd: c_int, parts: &[&[u8]], length: usize) -> Answer<isize> {
        if length == 0 {
            return Ok(0);
        }
        let (start, length) = self.append_parts(file, parts)?;
        self.position.seek(fd, start as i64 + length as i64, libc::SEEK_SET)?;
        Ok(length as isize)
    }

    /// Writes data at an offset, also to the pages of programs that have mapped the file. Returns the number of bytes
    /// written.
    fn put(&self, file: &File, offset: u64, parts: &[&[u8]]) -> Answer<usize> {
        // Also what follows a chunk that failed: over nodes, later ones may be stored.
        let whole = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let range = |_: &usize| offset..offset + whole;
        maps::change_content(
            self.oid(),
            Some(file),
            || Ok(file.write_some_at(offset, parts)?),
            range,
        )
    }

    /// Advances the position by `length`, runs `work` at the old one, and moves back by the bytes that `work` did not
    /// transfer. Advancing first keeps other processes from transferring the same bytes.
    fn advance_by(
        &self,
        fd: c_int,
        length: usize,
        work: impl FnOnce(u64) -> Answer<usize>,
    ) -> Answer<isize> {
        let step = length as i64;
        let end = self.position.seek(fd, step, libc::SEEK_CUR)?;
        let result = work((end - step) as u64);
        let done = result.as_ref().map_or(0, |done| *done);
        if done < length {
            let _ = self.position.seek(fd, done as i64 - step, libc::SEEK_CUR);
        }
        result.map(|done| done as isize)
    }

    /// Writes at an offset; with `O_APPEND` at the end, as Linux does. Returns the number of bytes written.
    pub(crate) fn write_at(&self, fd: c_int, parts: &[&[u8]], offset: i64) -> Answer<isize> {
        let offset = self.start(libc::O_RDONLY, offset, parts.iter().map(|part| part.len()))?;
        let file = self.for_writing()?;
        match self.position.appends(fd) {
            true => self.append_parts(&file, parts).map(|(_, length)| length as isize),
            false => Ok(self.put(&file, offset, parts)? as isize),
        }
    }

    /// Writes at the end of the file (Linux: `RWF_APPEND`). Only if `offset` is -1, moves the position of `fd` to the
    /// end of the data. Returns the number of bytes written.
    pub(crate) fn write_at_end(&self, fd: c_int, parts: &[&[u8]], offset: i64) -> Answer<isize> {
        let lengths = || parts.iter().map(|part| part.len());
        match offset {
            -1 => self.refuse_mode(libc::O_RDONLY)?,
            _ => drop(self.start(libc::O_RDONLY, offset, lengths())?),
        }
        let file = self.for_writing()?;
        match offset {
            -1 => self.append(&file, fd, parts, lengths().sum()),
            _ => self.append_parts(&file, parts).map(|(_, length)| length as isize),
        }
    }

    /// Fails with `EBADF` for a file opened in this mode, or with `O_PATH`.
    fn refuse_mode(&self, mode: c_int) -> Answer<()> {
        match self.open()?.identity.flags & libc::O_ACCMODE {
            found if found == mode => refuse(libc::EBADF),
            _ => Ok(()),
        }
    }

    /// Checks the offset of a call, and that the file is not open in the mode `other`, which does not allow the call.
    /// `lengths` are those of the buffers.
    ///
    /// # Errors
    /// `EINVAL` if the offset is negative, or the offset of the last byte overflows, as in Linux; `EBADF` for the mode.
    fn start(
        &self,
        other: c_int,
        offset: i64,
        lengths: impl Iterator<Item = usize>,
    ) -> Answer<u64> {
        let Ok(start) = u64::try_from(offset) else { return refuse(libc::EINVAL) };
        self.refuse_mode(other)?;
        match offset.checked_add(lengths.sum::<usize>() as i64) {
            Some(_) => Ok(start),
            None => refuse(libc::EINVAL),
        }
    }

    /// Reads at an offset, into one buffer.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: i64) -> Answer<isize> {
        let offset = self.start(libc::O_WRONLY, offset, [buffer.len()].into_iter())?;
        Ok(self.file()?.read_at(offset, buffer)? as isize)
    }

    /// Reads at an offset into several buffers. For a directory, only empty buffers are accepted, as in Linux.
    pub(crate) fn read_vector_at(&self, buffers: Vec<&mut [u8]>, offset: i64) -> Answer<isize> {
        let offset =
            self.start(libc::O_WRONLY, offset, buffers.iter().map(|buffer| buffer.len()))?;
        if self.is_listable() && buffers.iter().all(|buffer| buffer.is_empty()) {
            return Ok(0);
        }
        Ok(self.file()?.read_vectored_at(offset, buffers)? as isize)
    }

    /// Moves the offset of `fd` (POSIX: `lseek`).
    pub(crate) fn seek(&self, fd: c_int, offset: i64, whence: c_int) -> Answer<i64> {
        self.open()?;
        if self.is_directory() || whence == libc::SEEK_SET || whence == libc::SEEK_CUR {
            return self.position.seek(fd, offset, whence);
        }
        let from = |offset: i64| u64::try_from(offset).or_else(|_| refuse(libc::ENXIO));
        let file = self.file()?;
        let to = match whence {
            libc::SEEK_END => {
                (file.size()? as i64).checked_add(offset).map_or(refuse(libc::EINVAL), Ok)?
            }
            libc::SEEK_DATA => file.seek_data(from(offset)?)? as i64,
            libc::SEEK_HOLE => file.seek_hole(from(offset)?)? as i64,
            _ => return refuse(libc::EINVAL),
        };
        if to < 0 {
            return refuse(libc::EINVAL);
        }
        self.position.seek(fd, to, libc::SEEK_SET)
    }

    /// Appends `parts`. Returns the offset of the first byte written and the number of bytes written.
    pub(crate) fn append_parts(&self, file: &File, parts: &[&[u8]]) -> Answer<(u64, usize)> {
        let joined;
        let data = match parts {
            [one] => *one,
            many => {
                joined = many.concat();
                &joined
            }
        };
        let range = |(start, length): &(u64, usize)| *start..*start + *length as u64;
        maps::change_content(self.oid(), Some(file), || Ok(file.append_some(data)?), range)
    }
}

impl Drop for OpenFile {
    /// If other processes have the file open, its lease is kept for them.
    fn drop(&mut self) {
        if self.release() != locks::LockFileState::InUse {
            return;
        }
        if let Some(content) = self.leased() {
            left_open::keep(self.identity.oid, content);
        }
        self.drop_content();
    }
}
