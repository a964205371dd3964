//! Read-ahead: reads the next fields while the caller uses one.
use super::retrieve::Field;
use crate::limits::{AHEAD_BYTES, AHEAD_FIELDS};
use esker_types::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Threads that read, beside the caller's.
const READERS: usize = 1;

/// Calls `visit` with each field and its bytes, in order, while it reads the next ones: at most [`AHEAD_FIELDS`] of
/// at most [`AHEAD_BYTES`] together, unless a single one is longer.
///
/// # Errors
/// The first read error, in order; errors of `visit`.
pub fn read_ahead(
    fields: &[Field],
    mut visit: impl FnMut(&Field, &[u8]) -> Result<()>,
) -> Result<()> {
    if let [field] = fields {
        return visit(field, &field.read()?);
    }
    let queue = Queue::default();
    std::thread::scope(|scope| {
        for _ in 0..READERS.min(fields.len()) {
            scope.spawn(|| queue.fill(fields));
        }
        let result = queue.drain(fields, &mut visit);
        queue.stop();
        result
    })
}

/// Fields that are read but not used yet.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
    stopped: AtomicBool,
}

#[derive(Default)]
struct QueueState {
    /// The next one to be read.
    next: usize,
    /// The one that is wanted.
    wanted: usize,
    bytes: u64,
    read: BTreeMap<usize, Result<Vec<u8>>>,
    /// Buffers for reuse: fresh memory would cost as much as reading into it.
    spare: Vec<Vec<u8>>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // No thread may be between checking and waiting.
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Takes the next field to read, once there is room for it.
    fn take(&self, fields: &[Field]) -> Option<usize> {
        let mut state = self.lock();
        loop {
            let next = state.next;
            let field = fields.get(next)?;
            if self.stopped.load(Ordering::Acquire) {
                return None;
            }
            let fits =
                state.bytes + field.bytes() <= AHEAD_BYTES && next < state.wanted + AHEAD_FIELDS;
            if fits || next == state.wanted {
                state.next += 1;
                state.bytes += field.bytes();
                return Some(next);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn fill(&self, fields: &[Field]) {
        while let Some(at) = self.take(fields) {
            let buffer = self.lock().spare.pop().unwrap_or_default();
            let bytes = fields.get(at).map_or_else(lost, |field| read_into(field, buffer));
            self.lock().read.insert(at, bytes);
            self.changed.notify_all();
        }
    }

    fn drain(
        &self,
        fields: &[Field],
        visit: &mut impl FnMut(&Field, &[u8]) -> Result<()>,
    ) -> Result<()> {
        for (at, field) in fields.iter().enumerate() {
            let bytes = self.wait_for(at)?;
            visit(field, &bytes)?;
            let mut state = self.lock();
            state.spare.push(bytes);
            state.bytes -= field.bytes();
            state.wanted = at + 1;
            drop(state);
            self.changed.notify_all();
        }
        Ok(())
    }

    fn wait_for(&self, at: usize) -> Result<Vec<u8>> {
        let mut state = self.lock();
        loop {
            if let Some(bytes) = state.read.remove(&at) {
                return bytes;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn read_into(field: &Field, mut buffer: Vec<u8>) -> Result<Vec<u8>> {
    buffer.resize(usize::try_from(field.bytes()).unwrap_or(usize::MAX), 0);
    field.read_at(0, &mut buffer)?;
    Ok(buffer)
}

fn lost() -> Result<Vec<u8>> {
    Err(Error::new(ErrorKind::Canceled, "a field was lost between threads"))
}
