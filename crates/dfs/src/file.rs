//! Open files.
use crate::attr::{self, Attr, SetAttr};
use crate::entry::EntryLocation;
use crate::inode::{Inode, Kind};
use crate::limits::{CHUNKS_MAX, FILE_SIZE_MAX, RETRIES_MAX};
use crate::node::Node;
use crate::open::Closed;
use crate::orphans;
use crate::set_attr;
use esker::types::ops::{Sink, Source};
use esker::types::{Error, ErrorKind, Extent, Result};
use esker::{Access, Array, ArrayRead, Proof, View, Wait, side_by_side, task};
use std::sync::atomic::{AtomicU64, Ordering};

/// How to open a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Truncate it (POSIX: `O_TRUNC`).
    pub truncate: bool,
}

impl Open {
    /// For reading.
    pub const READ: Self = Self { read: true, write: false, truncate: false };
    /// For writing.
    pub const WRITE: Self = Self { read: false, write: true, truncate: false };
    /// For both.
    pub const BOTH: Self = Self { read: true, write: true, truncate: false };
}

/// Version of the content of a file: see [`File::version`].
#[derive(Debug)]
pub struct Version(Proof);

/// Bytes of one atomic append; a longer one is split.
const APPEND_BYTES_MAX: usize = 64 << 20;

/// An open regular file. Its content stays while it is open, even if its name is removed.
pub struct File {
    node: Node,
    open: Open,
    content: Array,
    closed: bool,
    /// Number of losses of the lease (`Container::lease_losses`) when the file was last known to exist.
    losses: AtomicU64,
}

impl Node {
    /// Opens this regular file (POSIX: `open` without `O_CREAT`).
    ///
    /// # Errors
    /// [`ErrorKind::IsDirectory`], [`ErrorKind::Loop`] for a symbolic link, [`ErrorKind::ReadOnly`] for
    /// writing if the file system is mounted read-only; [`ErrorKind::NotFound`] if the name was removed or
    /// moved since the lookup.
    pub fn open(&self, open: Open) -> Result<File> {
        let refuse = |kind, what: &str| {
            let path = self.path();
            Err(Error::new(kind, format!("{} is {what}", String::from_utf8_lossy(&path))))
        };
        match self.kind() {
            Kind::File => {}
            Kind::Directory => return refuse(ErrorKind::IsDirectory, "a directory"),
            Kind::Symlink => return refuse(ErrorKind::Loop, "a symbolic link"),
        }
        if open.write || open.truncate {
            self.fs().check_writable()?;
        }
        let content = attr::content(self.fs().mounted(), self.inode())?;
        let is_new = self.has_lease();
        let losses = AtomicU64::new(self.fs().container().lease_losses(self.oid()));
        self.fs().mounted().open_files.open(self.oid(), self.new_open_file())?;
        let file = File { node: self.clone(), open, content, closed: false, losses };
        // A file that was created with a lease is empty, and nothing could remove its content.
        if is_new {
            return Ok(file);
        }
        // If it was removed between the lookup and the lease, its content may be gone.
        if !file.is_cached() && file.stored()?.is_none() {
            return Err(self.gone_error());
        }
        if open.truncate {
            file.resize(0)?;
        }
        Ok(file)
    }

    /// Opens the file to change its size. A symbolic link has none to set, so it is refused.
    pub(crate) fn open_for_writing(&self) -> Result<File> {
        match self.kind() {
            Kind::Symlink => {
                Err(Error::new(ErrorKind::Invalid, "the size of a symbolic link cannot be set"))
            }
            _ => self.open(Open::WRITE),
        }
    }
}

impl File {
    /// The node it was opened from.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The modes in which it was opened.
    #[must_use]
    pub fn mode(&self) -> Open {
        self.open
    }

    /// The array that holds the bytes.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.content
    }

    /// Reads from `offset` on and returns the number of bytes: fewer than requested only at the end of the file. Holes
    /// read as zeros (POSIX: `pread`).
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`] if it is not open for reading; errors of the backend.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read_into(offset, Sink::One(buffer)).wait()
    }

    /// Reads as [`File::read_at`] into several buffers in turn (POSIX: `preadv`).
    ///
    /// # Errors
    /// The errors of [`File::read_at`].
    pub fn read_vectored_at(&self, offset: u64, buffers: Vec<&mut [u8]>) -> Result<usize> {
        self.read_into(offset, Sink::Many(buffers)).wait()
    }

    /// Reads as [`File::read_at`] and [`File::read_vectored_at`], without blocking. On a local pool the future is ready
    /// at the first poll.
    ///
    /// # Errors
    /// The errors of [`File::read_at`]; [`ErrorKind::NotFound`] if the content is lost because the connection to its
    /// node was interrupted.
    pub async fn read_into(&self, offset: u64, sink: Sink<'_>) -> Result<usize> {
        self.check_readable()?;
        let sink = end_at_largest_size(offset, sink);
        match sink.len() {
            0 => Ok(0),
            len => {
                let range = [Extent::new(offset, len)];
                Ok(self.read_ranges(&range, sink).await?.bytes as usize)
            }
        }
    }

    /// Reads several ranges in turn, as [`Array::read`] does, without blocking.
    ///
    /// # Errors
    /// The errors of [`File::read_into`] and of [`Array::read`].
    pub async fn read_ranges(&self, ranges: &[Extent], sink: Sink<'_>) -> Result<ArrayRead> {
        self.check_readable()?;
        let read = self.content.read(ranges, sink, self.node.fs().view()).await?;
        self.check_lease()?;
        Ok(read)
    }

    /// The `len` bytes from `offset` on, in place; `None` if they cannot be used so, because they are not one extent of
    /// a pool in memory, or because this process has too many views. The view keeps a segment of the pool from being
    /// used again: drop it soon ([`View`]).
    ///
    /// # Errors
    /// The errors of [`File::read_at`].
    pub fn view_at(&self, offset: u64, len: u64) -> Result<Option<View>> {
        self.check_readable()?;
        let view = self.content.view(Extent::new(offset, len), false, self.node.fs().view());
        match view.wait() {
            Err(error)
                if [ErrorKind::NotSupported, ErrorKind::Overflow].contains(&error.kind()) =>
            {
                Ok(None)
            }
            view => view.map(Some),
        }
    }

    /// Writes all of `data` from `offset` on (POSIX: `pwrite`). Each chunk changes atomically; a reader may see the
    /// chunks of one call change one after the other.
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`] if it is not open for writing, [`ErrorKind::FileTooBig`] beyond
    /// [`FILE_SIZE_MAX`], [`ErrorKind::NoSpace`].
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        self.write_from(offset, Source::One(data)).wait()
    }

    /// Writes as [`File::write_at`] from several buffers in turn (POSIX: `pwritev`).
    ///
    /// # Errors
    /// The errors of [`File::write_at`].
    pub fn write_vectored_at(&self, offset: u64, data: &[&[u8]]) -> Result<usize> {
        self.write_from(offset, source_of(data)).wait()
    }

    /// Writes as [`File::write_at`] and [`File::write_vectored_at`], without blocking. On a local pool the future is
    /// ready at the first poll. If the caller drops the future earlier, each chunk is either written or unchanged.
    ///
    /// # Errors
    /// The errors of [`File::write_at`].
    pub async fn write_from(&self, offset: u64, source: Source<'_>) -> Result<usize> {
        let (done, rest) = self.write_pieces(offset, source).await?;
        rest.map(|()| done as usize)
    }

    /// Writes as [`File::write_vectored_at`] does. Returns the number of bytes written, which are fewer than `data` has
    /// if an error occurs after the first chunk (POSIX: `pwritev`). Over nodes, later chunks may have been written, too.
    ///
    /// # Errors
    /// The errors of [`File::write_at`], if the first chunk was not written.
    pub fn write_some_at(&self, offset: u64, data: &[&[u8]]) -> Result<usize> {
        let (done, rest) = self.write_pieces(offset, source_of(data)).wait()?;
        if done > 0 { Ok(done as usize) } else { rest.map(|()| 0) }
    }

    /// Writes chunk by chunk. Returns the number of bytes written before the first chunk that failed, and its error.
    async fn write_pieces(&self, offset: u64, source: Source<'_>) -> Result<(u64, Result<()>)> {
        self.check_writable()?;
        let len = source.len();
        self.check_end(offset, len)?;
        if len == 0 {
            return Ok((0, Ok(())));
        }
        let (done, rest) = self.write_chunks(offset, source).await?;
        if done > 0 {
            self.check_lease()?;
            self.note_write().await?;
        }
        Ok((done, rest))
    }

    /// Writes several ranges in turn, as [`Array::write`] does, without blocking: a local pool writes all or none of
    /// them, a pool over nodes each chunk as a whole.
    ///
    /// # Errors
    /// The errors of [`File::write_at`] and of [`Array::write`].
    pub async fn write_ranges(&self, ranges: &[Extent], source: Source<'_>) -> Result<()> {
        if let [range] = ranges
            && range.count == source.len()
        {
            return self.write_from(range.start, source).await.map(drop);
        }
        self.check_writable()?;
        ranges.iter().try_for_each(|range| self.check_end(range.start, range.count))?;
        self.content.write(ranges, source, Access::Latest).await?;
        self.check_lease()?;
        if source.is_empty() { Ok(()) } else { self.note_write().await }
    }

    /// Writes chunk by chunk: each is one update on one target, so targets need no coordination. Returns the number of
    /// bytes written before the first chunk that failed, and its error.
    async fn write_chunks(&self, offset: u64, source: Source<'_>) -> Result<(u64, Result<()>)> {
        let (chunk, len) = (self.content.attributes().chunk_size, source.len());
        let first = (chunk - offset % chunk).min(len);
        if first == len {
            let range = [Extent::new(offset, len)];
            self.content.write(&range, source, Access::Latest).await?;
            return Ok((len, Ok(())));
        }
        // Over nodes, the stripe mark must be stored before any chunk but the first.
        self.content.prepare_write(offset + len, Access::Latest).await?;
        let mut done = 0;
        let chunks = std::iter::from_fn(|| {
            let count = (chunk - (offset + done) % chunk).min(len - done);
            let from = done;
            done += count;
            (count > 0).then_some((from, count))
        });
        let write = |(from, count): (u64, u64)| async move {
            let part = source.part(from, count);
            let range = [Extent::new(offset + from, count)];
            match self.content.write(&range, Source::One(&part), Access::Latest).await {
                Ok(()) => Ok(()),
                Err(error) => Err((from, error)),
            }
        };
        let result = match self.node.fs().container().capabilities().asynchronous {
            true => {
                let writes = chunks.map(|chunk| task(write(chunk))).collect();
                side_by_side(writes, CHUNKS_MAX).await.into_iter().collect()
            }
            false => in_turn(chunks.map(write)).await,
        };
        Ok(match result {
            Ok(()) => (len, Ok(())),
            Err((done, error)) => (done, Err(error)),
        })
    }

    /// Appends `data` to the file and returns the offset. Concurrent appends of all processes do not overwrite each
    /// other (POSIX: `O_APPEND`). Data of up to 64 MiB is appended atomically (`APPEND_BYTES_MAX`).
    ///
    /// # Errors
    /// The errors of [`File::write_at`]. The beginning of longer data may have been appended; [`File::append_some`]
    /// returns how much.
    pub fn append(&self, data: &[u8]) -> Result<u64> {
        let (begin, _, rest) = self.append_pieces(data)?;
        rest.map(|()| begin)
    }

    /// Appends `data` as [`File::append`] does. Returns the offset and the number of bytes appended, which are fewer
    /// than `data` has if an error occurs after the first 64 MiB (POSIX: `write` with `O_APPEND`).
    ///
    /// # Errors
    /// The errors of [`File::write_at`], if nothing was appended.
    pub fn append_some(&self, data: &[u8]) -> Result<(u64, usize)> {
        self.append_pieces(data).map(|(begin, done, _)| (begin, done))
    }

    /// Appends `data` piece by piece. Returns the offset, the number of bytes appended, and the error of a piece after
    /// the first.
    fn append_pieces(&self, data: &[u8]) -> Result<(u64, usize, Result<()>)> {
        self.check_writable()?;
        if data.is_empty() {
            return Ok((self.size()?, 0, Ok(())));
        }
        let (first, rest) = data.split_at(data.len().min(APPEND_BYTES_MAX));
        let (begin, mut done) = (self.append_piece(first)?, first.len());
        let result = rest.chunks(APPEND_BYTES_MAX).try_for_each(|piece| {
            self.append_piece(piece)?;
            done += piece.len();
            Ok(())
        });
        self.check_lease()?;
        self.note_write().wait()?;
        Ok((begin, done, result))
    }

    /// Writes `piece` at the end of the file, in a transaction: two processes that append never overwrite each other.
    /// Returns the offset.
    fn append_piece(&self, piece: &[u8]) -> Result<u64> {
        self.node.fs().transact(|access| {
            let end = self.content.size(access).wait()?;
            self.check_end(end, piece.len() as u64)?;
            let range = [Extent::new(end, piece.len() as u64)];
            self.content.write(&range, Source::One(piece), access).wait()?;
            Ok(end)
        })
    }

    /// The size of the file in bytes.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] as for [`File::read_into`]; errors of the backend.
    pub fn size(&self) -> Result<u64> {
        let size = self.content.size(self.node.fs().view()).wait()?;
        self.check_lease()?;
        Ok(size)
    }

    /// The version of its content, for [`File::is_unchanged`]. `None` if the backend does not track changes.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn version(&self) -> Result<Option<Version>> {
        let proof = self.node.fs().container().object_version(self.node.oid()).wait()?;
        Ok(proof.map(Version))
    }

    /// True if its content has not changed since this version. False if it may have changed.
    #[must_use]
    pub fn is_unchanged(&self, since: &Version) -> bool {
        self.node.fs().container().is_unchanged(&since.0) == Some(true)
    }

    /// The attributes of the file (POSIX: `fstat`). A removed file has link count 0. If its entry is not found, because
    /// directories above it were moved, returns the attributes at the time of opening.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn attr(&self) -> Result<Attr> {
        let fs = self.node.fs();
        match self.stored()? {
            Some((location, inode)) => Ok(Attr::fetch(fs, &inode)?.at(&location)),
            None => {
                let nlink = u32::from(self.location().is_some());
                Ok(Attr { nlink, ..Attr::fetch(fs, self.node.inode())? })
            }
        }
    }

    /// Changes attributes (POSIX: `fchmod`, `fchown`, `futimens`, `ftruncate`).
    ///
    /// # Errors
    /// The errors of [`Node::set_attr`]; [`ErrorKind::NotFound`] if its entry is not found because directories above it
    /// were moved.
    pub fn set_attr(&self, set: &SetAttr) -> Result<Attr> {
        if let Some(size) = set.size {
            self.set_len(size)?;
        }
        let (fs, oid) = (self.node.fs(), self.node.oid());
        for _ in 1..RETRIES_MAX {
            let found = match self.stored()? {
                None => orphans::find_used(fs, oid, fs.view())?,
                found => found,
            };
            let Some((location, _)) = found else { break };
            match set_attr::store(fs, &location, oid, set) {
                // The entry was just moved or removed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                stored => return stored.map(|attr| attr.at(&location)),
            }
        }
        Err(self.node.gone_error())
    }

    /// Stores its pending times (POSIX: `fsync`). Its data is as durable as every write to the pool.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn sync(&self) -> Result<()> {
        let fs = self.node.fs();
        fs.mounted().open_files.store_time(fs.container(), self.node.oid())
    }

    /// In a forked child, takes a lease of its own on the file. Until then, or until the child writes to it, only the
    /// lease of the parent keeps the content if the name is removed.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if it was removed, and no process had a lease on it any more.
    pub fn inherit(&self) -> Result<()> {
        let fs = self.node.fs();
        fs.mounted().open_files.open(self.node.oid(), self.node.new_open_file())?;
        // A read-only backend that presents other objects as files does not track files without a name.
        match fs.is_read_only() || self.stored()?.is_some() {
            true => Ok(()),
            false => Err(self.node.gone_error()),
        }
    }

    /// Closes it. Dropping it does the same, but loses errors.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn close(mut self) -> Result<()> {
        self.end()
    }

    /// Closes the file, once: stores what is due, and releases the lease if no other handle is open.
    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let mounted = self.node.fs().mounted();
        let stored = self.sync();
        if let Some(last) = mounted.open_files.close(self.node.oid()) {
            self.release_lease(last)?;
        }
        stored
    }

    /// Releases the lease of a closed file. Frees the content at once, if the file lost its name and no process has it
    /// open.
    fn release_lease(&self, last: Closed) -> Result<()> {
        let (fs, inode) = (self.node.fs(), self.node.inode());
        // Over the network, the close does not wait for the release. A file without a name is freed at once.
        if fs.mounted().is_slow() && last.has_name {
            return fs.release_later(last.lease, *inode);
        }
        match last.lease.release().wait()? {
            true => orphans::bury(fs.mounted(), inode),
            false => Ok(()),
        }
    }

    /// Location of the file's entry as this process last saw it; `None` if the entry is known to be gone.
    fn location(&self) -> Option<EntryLocation> {
        let open_files = &self.node.fs().mounted().open_files;
        open_files.location(self.node.oid(), || self.node.location())
    }

    /// True if a read lease covers the file's entry, so that it certainly exists now.
    fn is_cached(&self) -> bool {
        let mounted = self.node.fs().mounted();
        let cached = |location| mounted.entry_cache.inode(mounted.container(), &location);
        self.location().and_then(cached).is_some_and(|inode| inode.oid == self.node.oid())
    }

    /// The inode of the file and the location of its entry, even if another process moved or removed it. `None` if
    /// neither its last location nor the orphans have it.
    fn stored(&self) -> Result<Option<(EntryLocation, Inode)>> {
        let fs = self.node.fs();
        if let Some(location) = self.location()
            && let Some(inode) = self.node.inode_at(&location, fs.view())?
        {
            return Ok(Some((location, inode)));
        }
        let found = orphans::find(fs, self.node.oid(), fs.view())?;
        if let Some((location, inode)) = &found {
            match location.is_orphans() {
                true => fs.mounted().note_removal(inode.oid),
                false => fs.mounted().note_move(inode, location),
            }
        }
        Ok(found)
    }

    /// Records that its content changed now.
    pub(crate) async fn note_write(&self) -> Result<()> {
        let (fs, oid, new) = (self.node.fs(), self.node.oid(), self.node.new_open_file());
        fs.mounted().open_files.note_write(fs.container(), oid, new).await
    }

    /// Records a change of its content, as [`File::note_write`] does, after a check that the content was not freed.
    pub(crate) fn note_change(&self) -> Result<()> {
        self.check_lease()?;
        self.note_write().wait()
    }

    /// Checks that the file still exists, if its lease was lost since the last check. Until the lease was taken again,
    /// another process could free the content of a removed file.
    pub(crate) fn check_lease(&self) -> Result<()> {
        let losses = self.node.fs().container().lease_losses(self.node.oid());
        if losses == self.losses.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.stored()?.is_none() {
            return Err(self.lost_error());
        }
        self.losses.store(losses, Ordering::Release);
        Ok(())
    }

    /// The error for a file whose content was freed while its lease was lost.
    #[cold]
    fn lost_error(&self) -> Error {
        let path = self.node.path();
        let text = format!(
            "the content of {} is lost: the file was removed while the connection to its node was interrupted",
            String::from_utf8_lossy(&path)
        );
        Error::new(ErrorKind::NotFound, text)
    }

    /// Fails with `NoHandle` if the file is not open for reading.
    fn check_readable(&self) -> Result<()> {
        match self.open.read {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::NoHandle, "the file is not open for reading")),
        }
    }

    /// Fails with `NoHandle` if the file is not open for writing.
    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.open.write {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::NoHandle, "the file is not open for writing")),
        }
    }

    /// Fails with `FileTooBig` if the `len` bytes at `offset` end after `FILE_SIZE_MAX`.
    pub(crate) fn check_end(&self, offset: u64, len: u64) -> Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= FILE_SIZE_MAX => Ok(()),
            _ => Err(Error::new(
                ErrorKind::FileTooBig,
                format!("the largest size of a file is {FILE_SIZE_MAX} bytes (FILE_SIZE_MAX)"),
            )),
        }
    }
}

/// Shortens the buffers of a read at `offset`, so that it ends at the largest size of a file.
fn end_at_largest_size(offset: u64, sink: Sink<'_>) -> Sink<'_> {
    let mut room = FILE_SIZE_MAX.saturating_sub(offset);
    if sink.len() <= room {
        return sink;
    }
    let mut shortened = |buffer| {
        let buffer: &mut [u8] = buffer;
        let len = room.min(buffer.len() as u64);
        room -= len;
        &mut buffer[..len as usize]
    };
    match sink {
        Sink::None => Sink::None,
        Sink::One(buffer) => Sink::One(shortened(buffer)),
        Sink::Many(buffers) => Sink::Many(buffers.into_iter().map(shortened).collect()),
    }
}

impl Drop for File {
    /// Closes the file. An error is lost here; [`File::close`] returns it.
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The data of several buffers.
fn source_of<'a>(data: &'a [&'a [u8]]) -> Source<'a> {
    match data {
        [one] => Source::One(one),
        many => Source::Many(many),
    }
}

/// Runs futures one after the other, up to the first that fails.
async fn in_turn<E, W>(works: impl Iterator<Item = W>) -> std::result::Result<(), E>
where
    W: Future<Output = std::result::Result<(), E>>,
{
    for work in works {
        work.await?;
    }
    Ok(())
}
