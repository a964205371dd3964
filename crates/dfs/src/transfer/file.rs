//! Copies one file, at once or in parts by several workers.
use super::progress::add;
use super::tree::{Child, Meta, Tree};
use super::walk::OpenDir;
use super::worker::{Buffers, Copier, Job};
use super::{BUFFER_BYTES, PART_BYTES};
use crate::Kind;
use esker::types::{Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file that is being copied. The last reference completes the copy.
struct Copying<S: Tree, D: Tree> {
    node: S::Node,
    meta: Meta,
    source: S::File,
    made: D::Node,
    target: D::File,
    into: Arc<OpenDir<D>>,
    name: Vec<u8>,
    has_failed: AtomicBool,
}

/// A part of a file.
pub(super) struct Part<S: Tree, D: Tree> {
    copying: Arc<Copying<S, D>>,
    range: Range<u64>,
}

impl<S: Tree, D: Tree> Copier<'_, S, D> {
    /// Copies a file, or skips it if the copy exists already.
    pub(super) fn copy_file(
        &self,
        into: &Arc<OpenDir<D>>,
        child: &Child<S::Node>,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let meta = self.from.meta(&child.node)?;
        add(&self.progress.bytes_found, meta.size);
        if let Some((there, found)) = self.present(into, &child.name)? {
            if self.is_done(&child.node, &meta, (&there, &found), buffers)? {
                add(&self.progress.skipped, 1);
                add(&self.progress.bytes_passed, meta.size);
                return Ok(());
            }
            self.refuse_itself(&child.node, &there)?;
            if found.kind != Some(Kind::File) {
                self.make_way(into, &child.name, &found)?;
            }
        }
        let source = self.from.open(&child.node)?;
        let (made, target) = self.to.create(&into.node, &child.name, &self.as_kept(meta))?;
        let (into, has_failed) = (Arc::clone(into), AtomicBool::new(false));
        let (node, name) = (child.node.clone(), child.name.clone());
        let whole = Copying { node, meta, source, made, target, into, name, has_failed };
        if meta.may_have_holes()
            && let Err(error) = self.to.set_len(&whole.target, meta.size)
        {
            // After a failure, `queue_parts` queues nothing, and removes what was made.
            self.fail(&whole, error);
        }
        self.queue_parts(Arc::new(whole), buffers);
        Ok(())
    }

    /// True if an earlier run has copied this file: size and modification time are equal and, with `verify`, all bytes
    /// too. False without `resume`. `there` is the existing copy, and `found` its metadata.
    fn is_done(
        &self,
        node: &S::Node,
        meta: &Meta,
        (there, found): (&D::Node, &Meta),
        buffers: &mut Buffers,
    ) -> Result<bool> {
        if !self.options.resume || !meta.looks_like(found) {
            return Ok(false);
        }
        if !self.options.verify {
            return Ok(true);
        }
        let (source, target) = (self.from.open(node)?, self.to.open(there)?);
        self.is_same((&source, &target), meta, 0..meta.size, buffers)
    }

    /// Queues the parts of a large file for other workers, and copies those that do not fit the queue. Skips parts
    /// without data: a file may hold far less than its size.
    fn queue_parts(&self, copying: Arc<Copying<S, D>>, buffers: &mut Buffers) {
        let (size, mut at) = (copying.meta.size, 0);
        while at < size && !self.has_ended(&copying) {
            match self.next_data(&copying, at, size) {
                Ok(data) => {
                    add(&self.progress.bytes_passed, data.start - at);
                    at = data.start.saturating_add(PART_BYTES).min(size);
                    let part = Part { copying: Arc::clone(&copying), range: data.start..at };
                    if let Some(part) = self.hand_over(part) {
                        self.copy_part(part, buffers);
                    }
                }
                Err(error) => self.fail(&copying, error),
            }
        }
        self.release(copying);
    }

    /// True if a file needs no more work.
    fn has_ended(&self, copying: &Copying<S, D>) -> bool {
        copying.has_failed.load(Ordering::Relaxed) || self.progress.is_stopped()
    }

    /// Reports the first failure of a file.
    fn fail(&self, copying: &Copying<S, D>, error: Error) {
        if !copying.has_failed.swap(true, Ordering::Relaxed) {
            self.progress.fail(self.from.path(&copying.node), error);
        }
    }

    /// Queues a part of a large file for any worker. Returns it if the caller should copy it: the file is small, or the
    /// queue is full.
    fn hand_over(&self, part: Part<S, D>) -> Option<Part<S, D>> {
        if part.copying.meta.size <= PART_BYTES || part.range.is_empty() {
            return Some(part);
        }
        match self.queue.try_push(Job::Part(part)) {
            Err(Job::Part(part)) => Some(part),
            _ => None,
        }
    }

    /// Copies a range of a file, unless another range has failed. The last range finishes the file.
    pub(super) fn copy_part(&self, part: Part<S, D>, buffers: &mut Buffers) {
        let Part { copying, range } = part;
        if !copying.has_failed.load(Ordering::Relaxed)
            && let Err(error) = self.copy_range(&copying, range, buffers)
        {
            self.fail(&copying, error);
        }
        self.release(copying);
    }

    /// Copies the data in a range without its holes, and verifies the copy if asked to.
    fn copy_range(
        &self,
        file: &Copying<S, D>,
        range: Range<u64>,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let mut at = range.start;
        while at < range.end && !self.progress.is_stopped() {
            let data = self.next_data(file, at, range.end)?;
            add(&self.progress.bytes_passed, data.start - at);
            self.copy_data(file, data.clone(), &mut buffers.data)?;
            at = data.end;
        }
        let files = (&file.source, &file.target);
        match !self.options.verify || self.is_same(files, &file.meta, range, buffers)? {
            true => Ok(()),
            false => Err(differs_error()),
        }
    }

    /// The next range with data between `at` and `end`; empty at `end` if there is none. A file without holes is not
    /// searched.
    fn next_data(&self, file: &Copying<S, D>, at: u64, end: u64) -> Result<Range<u64>> {
        if !file.meta.may_have_holes() {
            return Ok(at..end);
        }
        let (start, stop) = self.from.data(&file.source, at)?.unwrap_or((end, end));
        Ok(start.clamp(at, end)..stop.clamp(at, end))
    }

    /// Copies a range that has data, by way of `buffer`. A source that ends within the range has changed, which is an
    /// error.
    fn copy_data(&self, file: &Copying<S, D>, range: Range<u64>, buffer: &mut [u8]) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let wanted = piece(at, range.end);
            let count = self.from.read(&file.source, at, &mut buffer[..wanted])?;
            if count == 0 {
                return Err(changed_error());
            }
            self.to.write(&file.target, at, &buffer[..count])?;
            add(&self.progress.bytes, count as u64);
            add(&self.progress.bytes_passed, count as u64);
            at += count as u64;
        }
        Ok(())
    }

    /// Compares a range on both sides byte by byte, except holes on both.
    fn is_same(
        &self,
        (source, target): (&S::File, &D::File),
        meta: &Meta,
        range: Range<u64>,
        buffers: &mut Buffers,
    ) -> Result<bool> {
        let mut at = range.start;
        while at < range.end {
            if meta.may_have_holes() {
                let next = [self.from.data(source, at)?, self.to.data(target, at)?];
                at = next.iter().flatten().map(|(start, _)| *start).min().unwrap_or(range.end);
                if at >= range.end {
                    break;
                }
            }
            let wanted = piece(at, range.end);
            let ours = self.from.read(source, at, &mut buffers.data[..wanted])?;
            let theirs = self.to.read(target, at, &mut buffers.other[..wanted])?;
            if ours < wanted || buffers.data[..ours] != buffers.other[..theirs] {
                return Ok(false);
            }
            add(&self.progress.bytes_verified, ours as u64);
            at += ours as u64;
        }
        Ok(true)
    }

    /// Drops a reference to a file being copied. The last one completes the copy, or removes the unfinished copy after
    /// an error.
    fn release(&self, copying: Arc<Copying<S, D>>) {
        let Some(copying) = Arc::into_inner(copying) else { return };
        let Copying { node, meta, source, made, target, into, name, has_failed } = copying;
        drop(source);
        let is_complete = !has_failed.into_inner() && !self.progress.is_stopped();
        let finished = is_complete.then(|| self.finish(&node, &meta, &made, target));
        if let Some(Ok(())) = finished {
            add(&self.progress.files, 1);
        } else {
            let removed = self
                .to
                .abandon(&into.node, &name, &made)
                .map_err(|error| not_removed_error(&error));
            let errors = finished.and_then(Result::err).into_iter().chain(removed.err());
            errors.for_each(|error| self.progress.fail(self.from.path(&node), error));
        }
        self.leave(into);
    }

    /// Completes a file after all its data is copied. Fails if the original has changed since `meta` was read.
    fn finish(&self, node: &S::Node, meta: &Meta, made: &D::Node, target: D::File) -> Result<()> {
        let now = self.from.meta(node)?;
        if !now.looks_like(meta) {
            return Err(changed_error());
        }
        if meta.names > 1 {
            add(&self.progress.more_names, 1);
        }
        self.copy_xattrs(node, |name, value| self.to.set_file_xattr(made, &target, name, value))?;
        self.to.finish(made, target, self.options.keep.then_some(meta))
    }
}

/// Size in bytes of the next piece of `at..end` that fits in a buffer.
fn piece(at: u64, end: u64) -> usize {
    (end - at).min(BUFFER_BYTES as u64) as usize
}

#[cold]
fn changed_error() -> Error {
    Error::new(
        ErrorKind::Busy,
        "changed while it was copied; copy it again when no process writes to it",
    )
}

#[cold]
fn not_removed_error(error: &Error) -> Error {
    let message = format!(
        "its incomplete copy could not be removed: {}; copy it again, or remove what is there",
        error.message()
    );
    Error::new(error.kind(), message)
}

#[cold]
fn differs_error() -> Error {
    Error::new(
        ErrorKind::Checksum,
        "the data read back differs from the data written: the medium or the memory is faulty",
    )
}
