//! An open file of the mount point, which duplicated descriptors share.
use crate::answer::{Answer, Fail, no};
use crate::identity::Identity;
use crate::limits::TRANSFER_MAX;
use crate::{fork, locks, maps, mounted, raw};
use arc_swap::ArcSwapOption;
use dfs::{Attr, File, Follow, Kind, Node, Open, SetAttr};
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// The open file of a descriptor. The kernel keeps its offset.
pub(crate) struct OpenFile {
    identity: Identity,
    appends: AtomicBool,
    /// Unset until the first use if inherited from another program.
    content: ArcSwapOption<Content>,
    /// The process that opened it.
    generation: u64,
    /// The process that used it last.
    used_in: AtomicU64,
    /// Descriptor of its lock file, -1 before the first lock.
    pub(crate) lock: AtomicI32,
}

/// The kind of an open file.
pub(crate) enum Content {
    /// A regular file.
    File(File),
    /// A directory, or anything opened with `O_PATH`.
    Node(Node),
}

impl Content {
    /// Opens what `node` names, by the flags of `open`.
    pub(crate) fn open(node: Node, flags: c_int) -> Answer<Self> {
        if flags & libc::O_PATH != 0 || node.kind() == Kind::Directory {
            return Ok(Self::Node(node));
        }
        let access = flags & libc::O_ACCMODE;
        let write = access != libc::O_RDONLY;
        let truncate = flags & libc::O_TRUNC != 0;
        let open = Open { read: access != libc::O_WRONLY, write: write || truncate, truncate };
        Ok(Self::File(node.open(open)?))
    }

    fn node(&self) -> Node {
        match self {
            Self::File(file) => file.node().clone(),
            Self::Node(node) => node.clone(),
        }
    }
}

impl OpenFile {
    pub(crate) fn new(node: Node, flags: c_int) -> Answer<Self> {
        let kind = if node.kind() == Kind::Directory { libc::O_DIRECTORY } else { 0 };
        let kept = flags & (libc::O_ACCMODE | libc::O_PATH);
        let identity = Identity { path: node.path().into(), oid: node.oid(), flags: kept | kind };
        let appends = flags & libc::O_APPEND != 0;
        Ok(Self::with(identity, appends, Some(Content::open(node, flags)?)))
    }

    /// An open file inherited through exec.
    pub(crate) fn inherited(identity: Identity, appends: bool) -> Self {
        Self::with(identity, appends, None)
    }

    fn with(identity: Identity, appends: bool, content: Option<Content>) -> Self {
        Self {
            identity,
            appends: AtomicBool::new(appends),
            content: ArcSwapOption::from(content.map(Arc::new)),
            generation: fork::generation(),
            used_in: AtomicU64::new(fork::generation()),
            lock: AtomicI32::new(-1),
        }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// True if writes go to the end (`O_APPEND`).
    pub(crate) fn appends(&self) -> bool {
        self.appends.load(Ordering::Relaxed)
    }

    pub(crate) fn set_appends(&self, appends: bool) {
        self.appends.store(appends, Ordering::Relaxed);
    }

    /// Releases its locks, and frees the content of a removed file that nobody else has open.
    pub(crate) fn let_go(&self) {
        if locks::closed(self) {
            self.close();
            let _ = mounted::get().map(|fs| fs.bury(self.identity.oid));
        }
    }

    /// Until a child uses a file that its parent opened, only the parent closes it: the pending times are the parent's to
    /// store.
    fn close(&self) {
        let (content, now) = (self.content.swap(None), fork::generation());
        if self.generation != now && self.used_in.load(Ordering::Relaxed) != now {
            std::mem::forget(content);
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.identity.flags & libc::O_DIRECTORY != 0
    }

    /// True for a directory that was not opened as a path only.
    fn lists(&self) -> bool {
        self.identity.flags & (libc::O_DIRECTORY | libc::O_PATH) == libc::O_DIRECTORY
    }

    fn content(&self) -> Answer<Arc<Content>> {
        match self.content.load_full() {
            Some(content) => {
                self.inherit(&content)?;
                Ok(content)
            }
            None => self.reopen(),
        }
    }

    /// At the first use in a forked child, takes a lease of its own on the file.
    fn inherit(&self, content: &Content) -> Answer<()> {
        let now = fork::generation();
        if self.used_in.load(Ordering::Relaxed) == now
            || self.used_in.swap(now, Ordering::Relaxed) == now
        {
            return Ok(());
        }
        match content {
            Content::File(file) => Ok(file.inherit()?),
            Content::Node(_) => Ok(()),
        }
    }

    #[cold]
    fn reopen(&self) -> Answer<Arc<Content>> {
        let fs = mounted::get()?;
        let node = fs.resolve(&fs.root(), &self.identity.path, Follow::AllButLast);
        let node = match node {
            Ok(node) if node.oid() == self.identity.oid => node,
            // Removed or moved since, while somebody has it open.
            _ => fs.file_in_use(self.identity.oid).or_else(|_| no(libc::ESTALE))?,
        };
        let content = Arc::new(Content::open(node, self.identity.flags)?);
        self.content.store(Some(content.clone()));
        Ok(content)
    }

    /// What it names.
    pub(crate) fn node(&self) -> Answer<Node> {
        self.content().map(|content| content.node())
    }

    /// Runs `work` on a regular file, after writing back changes to its mappings.
    ///
    /// # Errors
    /// `EISDIR` for a directory, `EBADF` for what was opened as a path only.
    pub(crate) fn file<T>(&self, work: impl FnOnce(&File) -> Answer<T>) -> Answer<T> {
        maps::write_back_of(self.identity.oid);
        self.whole(work)
    }

    /// Runs `work` on a regular file.
    pub(crate) fn whole<T>(&self, work: impl FnOnce(&File) -> Answer<T>) -> Answer<T> {
        match &*self.content()? {
            Content::File(file) => work(file),
            Content::Node(_) if self.lists() => no(libc::EISDIR),
            Content::Node(_) => no(libc::EBADF),
        }
    }

    /// As [`OpenFile::file`], for what changes the content: no directory is open for that.
    ///
    /// # Errors
    /// `EBADF` for a directory, and for what was opened as a path only.
    pub(crate) fn for_writing<T>(&self, work: impl FnOnce(&File) -> Answer<T>) -> Answer<T> {
        match self.file(work) {
            Err(Fail::Errno(libc::EISDIR)) => no(libc::EBADF),
            answer => answer,
        }
    }

    pub(crate) fn attr(&self) -> Answer<Attr> {
        match &*self.content()? {
            Content::File(file) => Ok(file.attr()?),
            Content::Node(node) => Ok(node.attr()?),
        }
    }

    /// Stores pending changes (POSIX: `fsync`).
    pub(crate) fn sync(&self) -> Answer<c_int> {
        match &*self.content()? {
            Content::File(file) => {
                maps::write_back_of(self.identity.oid);
                file.sync()?;
            }
            Content::Node(node) => node.fs().flush()?,
        }
        Ok(0)
    }

    /// Changes attributes (POSIX: `fchmod`, `fchown`, `futimens`).
    pub(crate) fn set_attr(&self, change: &SetAttr) -> Answer<c_int> {
        match &*self.content()? {
            Content::File(file) => file.set_attr(change)?,
            Content::Node(node) => node.set_attr(change)?,
        };
        Ok(0)
    }

    /// Reads at the offset of `fd`, which advances. The offset is advanced first, atomically, so that others who share it
    /// never read the same bytes.
    pub(crate) fn read(&self, fd: c_int, buffer: &mut [u8]) -> Answer<isize> {
        let length = buffer.len().min(TRANSFER_MAX);
        self.file(|file| {
            self.moving(fd, length, |offset| Ok(file.read_at(offset, &mut buffer[..length])?))
        })
    }

    /// As [`OpenFile::read`], into several buffers. Nothing can be read of a directory, as in Linux.
    pub(crate) fn read_vector(&self, fd: c_int, buffers: Vec<&mut [u8]>) -> Answer<isize> {
        let length = buffers.iter().map(|buffer| buffer.len()).sum();
        if length == 0 && self.lists() {
            return Ok(0);
        }
        self.file(|file| {
            self.moving(fd, length, |offset| Ok(file.read_vectored_at(offset, buffers)?))
        })
    }

    /// Writes at the offset of `fd`, or at the end of the file, and advances the offset.
    pub(crate) fn write(&self, fd: c_int, parts: &[&[u8]]) -> Answer<isize> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.for_writing(|file| {
            if self.appends() {
                return append(file, fd, parts, length);
            }
            self.moving(fd, length, |offset| self.put(file, offset, parts))
        })
    }

    fn put(&self, file: &File, offset: u64, parts: &[&[u8]]) -> Answer<usize> {
        let length = file.write_vectored_at(offset, parts)?;
        maps::written(self.identity.oid, offset, parts);
        Ok(length)
    }

    fn moving(
        &self,
        fd: c_int,
        length: usize,
        work: impl FnOnce(u64) -> Answer<usize>,
    ) -> Answer<isize> {
        let step = length as i64;
        let end = raw::seek(fd, step, libc::SEEK_CUR).or_else(|_| no(libc::EFBIG))?;
        let result = work((end - step) as u64);
        let done = result.as_ref().map_or(0, |done| *done);
        if done < length {
            let _ = raw::seek(fd, done as i64 - step, libc::SEEK_CUR);
        }
        result.map(|done| done as isize)
    }

    /// Writes at an offset; with `O_APPEND` at the end, as Linux does.
    pub(crate) fn write_at(&self, parts: &[&[u8]], offset: i64) -> Answer<isize> {
        let Ok(offset) = u64::try_from(offset) else { return no(libc::EINVAL) };
        self.for_writing(|file| match self.appends() {
            true => append_parts(file, parts).map(|(_, length)| length as isize),
            false => Ok(self.put(file, offset, parts)? as isize),
        })
    }

    /// Reads at an offset, into one buffer.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: i64) -> Answer<isize> {
        let Ok(offset) = u64::try_from(offset) else { return no(libc::EINVAL) };
        self.file(|file| Ok(file.read_at(offset, buffer)? as isize))
    }

    /// As [`OpenFile::read_at`], into several buffers. Nothing can be read of a directory, as in Linux.
    pub(crate) fn read_vector_at(&self, buffers: Vec<&mut [u8]>, offset: i64) -> Answer<isize> {
        let Ok(offset) = u64::try_from(offset) else { return no(libc::EINVAL) };
        if self.lists() && buffers.iter().all(|buffer| buffer.is_empty()) {
            return Ok(0);
        }
        self.file(|file| Ok(file.read_vectored_at(offset, buffers)? as isize))
    }

    /// Moves the offset of `fd` (POSIX: `lseek`).
    pub(crate) fn seek(&self, fd: c_int, offset: i64, whence: c_int) -> Answer<i64> {
        if self.is_directory() || whence == libc::SEEK_SET || whence == libc::SEEK_CUR {
            return raw::seek(fd, offset, whence);
        }
        let from = |offset: i64| u64::try_from(offset).or_else(|_| no(libc::ENXIO));
        let to = self.file(|file| match whence {
            libc::SEEK_END => {
                (file.size()? as i64).checked_add(offset).map_or(no(libc::EOVERFLOW), Ok)
            }
            libc::SEEK_DATA => Ok(file.seek_data(from(offset)?)? as i64),
            libc::SEEK_HOLE => Ok(file.seek_hole(from(offset)?)? as i64),
            _ => no(libc::EINVAL),
        })?;
        if to < 0 {
            return no(libc::EINVAL);
        }
        raw::seek(fd, to, libc::SEEK_SET)
    }
}

fn append(file: &File, fd: c_int, parts: &[&[u8]], length: usize) -> Answer<isize> {
    if length == 0 {
        return Ok(0);
    }
    let (start, length) = append_parts(file, parts)?;
    raw::seek(fd, start as i64 + length as i64, libc::SEEK_SET)?;
    Ok(length as isize)
}

/// The offset and length of written data.
fn append_parts(file: &File, parts: &[&[u8]]) -> Answer<(u64, usize)> {
    let joined;
    let data = match parts {
        [one] => *one,
        many => {
            joined = many.concat();
            &joined
        }
    };
    Ok((file.append(data)?, data.len()))
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.let_go();
        self.close();
    }
}
