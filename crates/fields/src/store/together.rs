//! Reading many fields into one buffer.
use super::retrieve::Field;
use esker_types::{Error, ErrorKind, Result};
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

/// Most threads that read at once, the caller's included. A few threads use the full memory bandwidth; one does not.
const THREADS_MAX: usize = 4;

/// Bytes that justify starting a thread.
const SHARE: usize = 8 << 20;

/// The total length of fields in bytes.
#[must_use]
pub fn bytes_of(fields: &[Field]) -> u64 {
    fields.iter().map(Field::bytes).sum()
}

/// Fills `buffer` with the concatenated bytes of all fields. Several threads read large amounts.
///
/// # Errors
/// [`ErrorKind::Invalid`] if the length of `buffer` is not that of [`bytes_of`]; the first error of [`Field::read_at`],
/// in the order of the fields that were read.
pub fn read_together(fields: &[Field], buffer: &mut [u8]) -> Result<()> {
    if bytes_of(fields) != buffer.len() as u64 {
        let (bytes, len) = (bytes_of(fields), buffer.len());
        let text = format!("a buffer of {len} bytes for fields of {bytes} bytes together");
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    let processors = available_parallelism().map_or(1, usize::from);
    let others = (buffer.len() / SHARE).min(THREADS_MAX).min(processors).saturating_sub(1);
    let work = Work::new(fields, buffer);
    std::thread::scope(|scope| {
        for _ in 0..others {
            // If memory for another thread is missing, this thread does all the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || work.take_part());
        }
        work.take_part();
    });
    work.into_result()
}

/// A field, its number, and its part of the buffer.
type Part<'a> = (usize, &'a Field, &'a mut [u8]);

/// The remaining work, and the first failure.
struct Work<'a> {
    left: Mutex<Vec<Part<'a>>>,
    failed: Mutex<Option<(usize, Error)>>,
}

impl<'a> Work<'a> {
    /// Divides `buffer` among `fields`, in their order.
    fn new(fields: &'a [Field], buffer: &'a mut [u8]) -> Self {
        let mut rest = buffer;
        let mut left = Vec::with_capacity(fields.len());
        for (number, field) in fields.iter().enumerate() {
            let (own, others) = rest.split_at_mut(field.bytes() as usize);
            left.push((number, field, own));
            rest = others;
        }
        // Threads take from the end, so the first field must be last.
        left.reverse();
        Self { left: Mutex::new(left), failed: Mutex::default() }
    }

    /// The next field to read; `None` if all are taken.
    fn next(&self) -> Option<Part<'a>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Body of a reading thread: takes the next field that no thread has taken, reads it, and repeats until all are
    /// taken.
    fn take_part(&self) {
        while let Some((number, field, location)) = self.next() {
            if let Err(error) = field.read_at(0, location) {
                self.fail(number, error);
            }
        }
    }

    /// Records a failure; no more reads start.
    fn fail(&self, number: usize, error: Error) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.as_ref().is_none_or(|(first, _)| number < *first) {
            *failed = Some((number, error));
        }
    }

    /// The first failure, by the order of the work.
    fn into_result(self) -> Result<()> {
        match self.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some((_, error)) => Err(error),
        }
    }
}
