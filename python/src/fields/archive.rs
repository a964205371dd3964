//! Archiving from Python.
use crate::buffer::Readable;
use esker::generation;
use esker::types::{Error, ErrorKind, Result};
use esker_fields::grib::{self, EcCodes, Identify, Labelled, Learned, Message, Messages, Scan};
use esker_fields::{FieldStore, FieldWriter, Key};
use pyo3::prelude::*;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// The source of bytes to archive.
pub(super) enum Source {
    Memory(Readable),
    Path(PathBuf),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Source {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(path) = object.extract::<PathBuf>() {
            return Ok(Self::Path(path));
        }
        match object.hasattr("read")? {
            true => object.call_method0("read")?.extract().map(Self::Memory),
            false => object.extract().map(Self::Memory),
        }
    }
}

/// Archivers of open stores, to be ended when the interpreter exits. The list is only changed while the GIL is held,
/// so its lock is never held during a fork.
static OPEN: Mutex<Vec<Weak<Archiver>>> = Mutex::new(Vec::new());

/// Ends open archivers when the interpreter exits; reports lost fields on standard error.
#[pyfunction]
pub(crate) fn finish_fields(py: Python<'_>) {
    let open = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    for archiver in open.iter().filter_map(Weak::upgrade) {
        let label = &archiver.store.container().info().label;
        match py.detach(|| archiver.finish()) {
            Ok((0, _)) => {}
            Ok(lost) => say(&format!("field store {label}: {}", unflushed(lost))),
            Err(error) => {
                say(&format!("field store {label} could not be flushed at the end: {error}"))
            }
        }
    }
}

/// Prints a line on standard error, unless it is closed.
fn say(message: &str) {
    let _ = writeln!(std::io::stderr(), "esker: {message}");
}

/// The message about fields that are lost.
pub(super) fn unflushed((fields, bytes): (usize, u64)) -> String {
    format!(
        "{fields} fields of {bytes} bytes were archived and never flushed, and are lost: call flush(), or open the \
         store with flush_on_close=True"
    )
}

/// The writer of a store, and its cache about messages. It belongs to one process: a child made by fork has its own,
/// because a lock of its parent may never be released in the child.
pub(super) struct Archiver {
    generation: u64,
    store: FieldStore,
    writer: Mutex<FieldWriter>,
    /// True once the store is closed: nothing more is archived.
    is_closed: AtomicBool,
    /// Whether closing the store flushes unflushed fields.
    flush_on_close: bool,
    key_reader: OnceLock<Labelled<Learned<EcCodes>>>,
}

impl Archiver {
    /// A writer for a store. [`finish_fields`] finishes it at exit if it still exists.
    pub(super) fn new(store: &FieldStore, flush_on_close: bool) -> Arc<Self> {
        let (writer, key_reader) = (Mutex::new(store.writer()), OnceLock::new());
        let (generation, store) = (generation(), store.clone());
        let is_closed = AtomicBool::new(false);
        let new =
            Arc::new(Self { generation, store, writer, is_closed, flush_on_close, key_reader });
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|one| one.strong_count() > 0);
        open.push(Arc::downgrade(&new));
        new
    }

    /// An archiver for a child made by fork.
    pub(super) fn anew(&self) -> Arc<Self> {
        Self::new(&self.store, self.flush_on_close)
    }

    /// Finishes it for good: threads that archive later get an error.
    pub(super) fn close(&self) -> Result<(usize, u64)> {
        self.is_closed.store(true, Ordering::Relaxed);
        self.finish()
    }

    /// Flushes pending fields if the store is configured so. Returns the number of fields that are lost, and their
    /// bytes.
    pub(super) fn finish(&self) -> Result<(usize, u64)> {
        // After a fork, the fields of the parent are not those of the child, and its lock may be held forever.
        if self.is_inherited() {
            return Ok((0, 0));
        }
        // Waits for threads that archive at the same time. They do not need the GIL while they have the lock.
        let mut writer = self.writer();
        if self.flush_on_close {
            writer.flush()?;
        }
        Ok(writer.pending())
    }

    /// True in a child of the process that made it.
    pub(super) fn is_inherited(&self) -> bool {
        self.generation != generation()
    }

    fn writer(&self) -> MutexGuard<'_, FieldWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer, to archive a field. Fails once the store is closed, since the field would be lost without a warning.
    fn open_writer(&self) -> Result<MutexGuard<'_, FieldWriter>> {
        let writer = self.writer();
        if self.is_closed.load(Ordering::Relaxed) {
            let text = "another thread closed the field store meanwhile: open it again";
            return Err(Error::new(ErrorKind::NoHandle, text));
        }
        Ok(writer)
    }

    /// Archives all bytes as one field.
    pub(super) fn field(&self, key: &Key, data: &Source) -> Result<()> {
        match data {
            Source::Memory(bytes) => self.open_writer()?.archive(key, bytes.bytes()),
            Source::Path(path) => {
                let bytes =
                    std::fs::read(path).map_err(|error| io_error("reading", path, &error))?;
                self.open_writer()?.archive(key, &bytes)
            }
        }
    }

    /// Archives the fields of GRIB messages, and counts them.
    pub(super) fn messages(&self, data: &Source) -> Result<usize> {
        self.each_field(data, |key, field| self.open_writer()?.archive(&key, field))
    }

    /// The complete and canonical keys under which GRIB messages would be archived.
    pub(super) fn keys(&self, data: &Source) -> Result<Vec<Key>> {
        let keys = Mutex::new(Vec::new());
        self.each_field(data, |key, _| {
            let split = self.store.schema().split_to_archive(&key)?;
            keys.lock().unwrap_or_else(PoisonError::into_inner).push(split.whole);
            Ok(())
        })?;
        Ok(keys.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adopts the fields of a GRIB file, with the values of `set` in their keys, and counts them.
    pub(super) fn adopt(&self, path: &Path, set: Option<&Key>) -> Result<usize> {
        let path = path.canonicalize().map_err(|error| io_error("resolving", path, &error))?;
        let file = File::open(&path).map_err(|error| io_error("opening", &path, &error))?;
        let adopted = all(Messages::new(file), |message| {
            if grib::Fields::split(&message.bytes).nth(1).is_some() {
                let text = "a message with several fields cannot be adopted: archive it";
                return Err(Error::new(ErrorKind::NotSupported, text));
            }
            let mut key = self.key_reader()?.identify(&message.bytes)?;
            set.into_iter().flatten().try_for_each(|(name, value)| key.set(name, value))?;
            self.open_writer()?.adopt(&key, &path, message.offset, message.bytes.len() as u64)?;
            Ok(1)
        });
        adopted.map_err(|error| in_file(&path, &error))
    }

    /// Calls `work` with the key and the bytes of each field of GRIB messages; returns their number.
    fn each_field(&self, data: &Source, work: impl Fn(Key, &[u8]) -> Result<()>) -> Result<usize> {
        match data {
            Source::Memory(bytes) => {
                all(Scan::new(bytes.bytes()), |message| self.fields(&message.bytes, &work))
            }
            Source::Path(path) => {
                let file = File::open(path).map_err(|error| io_error("opening", path, &error))?;
                let done = all(Messages::new(file), |message| self.fields(&message.bytes, &work));
                done.map_err(|error| in_file(path, &error))
            }
        }
    }

    /// Calls `work` with each field of one message.
    fn fields<B: AsRef<[u8]>>(
        &self,
        message: &B,
        work: impl Fn(Key, &[u8]) -> Result<()>,
    ) -> Result<usize> {
        let key_reader = self.key_reader()?;
        let mut count = 0;
        for field in grib::Fields::split(message.as_ref()) {
            let field = field?;
            work(key_reader.identify(&field)?, &field)?;
            count += 1;
        }
        Ok(count)
    }

    /// The reader of the keys of messages, which loads ecCodes at the first use.
    fn key_reader(&self) -> Result<&Labelled<Learned<EcCodes>>> {
        if let Some(key_reader) = self.key_reader.get() {
            return Ok(key_reader);
        }
        let key_reader = Labelled(Learned::new(EcCodes::new()?));
        Ok(self.key_reader.get_or_init(|| key_reader))
    }

    pub(super) fn flush(&self) -> Result<()> {
        self.writer().flush()
    }

    /// Discards the fields archived since the last flush: another writer replaces the one that has them.
    pub(super) fn discard(&self) -> Result<()> {
        *self.writer() = self.store.writer();
        Ok(())
    }

    /// Number of fields archived since the last flush, and their bytes.
    pub(super) fn pending(&self) -> Result<(usize, u64)> {
        Ok(self.writer().pending())
    }
}

/// Calls `work` with each message and returns the sum of the fields it counts. After a damaged message the others are
/// processed, and the first damage is returned at the end. Any other error is returned at once.
fn all<B: AsRef<[u8]>>(
    messages: impl Iterator<Item = Result<Message<B>>>,
    work: impl Fn(&Message<B>) -> Result<usize>,
) -> Result<usize> {
    let (mut count, mut damage) = (0, None);
    for message in messages {
        let done = message.and_then(|message| {
            work(&message).map_err(|error| numbered(&error, message.number, message.offset))
        });
        match done {
            Ok(fields) => count += fields,
            Err(error) if is_of_input(&error) => damage = damage.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    match damage {
        Some(error) => {
            let text = format!("{error} ({count} other fields were archived)");
            Err(Error::new(error.kind(), text))
        }
        None if count == 0 => {
            let text = "the data contains no GRIB message: pass a key to archive other bytes";
            Err(Error::new(ErrorKind::Invalid, text))
        }
        None => Ok(count),
    }
}

/// The error of one message, with its number and its offset in bytes.
fn numbered(error: &Error, number: u64, offset: u64) -> Error {
    Error::new(error.kind(), format!("GRIB message {number} at byte {offset}: {error}"))
}

fn in_file(path: &Path, error: &Error) -> Error {
    Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// True for errors of one message, after which other messages are archived; false if the pool is full.
fn is_of_input(error: &Error) -> bool {
    use ErrorKind::{Corrupt, Invalid, KeyTooBig, NotFound, NotSupported, RecordTooBig};
    matches!(error.kind(), Corrupt | Invalid | KeyTooBig | NotFound | NotSupported | RecordTooBig)
}

fn io_error(doing: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::io(format_args!("{doing} {}", path.display()), error)
}
