//! Read-ahead: reads the next fields while the caller uses one.
//!
//! Threads pass runs of fields, because passing costs more than reading a small field.
use super::retrieve::Field;
use super::together::bytes_of;
use crate::limits::{AHEAD_BYTES, AHEAD_RUN_BYTES, AHEAD_RUNS};
use esker_types::{Error, ErrorKind, Result, memory};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Calls `visit` with each field and its bytes, in order, while another thread reads the next ones: at most
/// [`AHEAD_BYTES`], unless a single field is longer. The caller's thread reads up to [`AHEAD_RUN_BYTES`] in total
/// itself.
///
/// # Errors
/// The first read error, in order; errors of `visit`.
pub fn read_ahead(
    fields: &[Field],
    mut visit: impl FnMut(&Field, &[u8]) -> Result<()>,
) -> Result<()> {
    let first = run(fields);
    if first.len() == fields.len() {
        return Run::read(first, Vec::new()).visit(&mut visit).map(drop);
    }
    let (to_caller, read) = channel();
    let (used, back) = channel();
    std::thread::scope(|scope| {
        let reader =
            || Reader { back, spare: Vec::new(), runs: 0, bytes: 0 }.read(fields, to_caller);
        let started = std::thread::Builder::new().spawn_scoped(scope, reader);
        started.map_err(|error| {
            let text = format!("no memory for a thread that reads fields: {error}");
            Error::new(ErrorKind::NoMemory, text)
        })?;
        use_all(fields, read, used, &mut visit)
    })
}

/// The first fields of the list that are read as one run: as many as have at most [`AHEAD_RUN_BYTES`] in total, but at
/// least one.
fn run(fields: &[Field]) -> &[Field] {
    let mut bytes = 0;
    let small = fields.iter().take_while(|field| {
        bytes += field.bytes();
        bytes <= AHEAD_RUN_BYTES
    });
    let count = small.count().max(1).min(fields.len());
    &fields[..count]
}

/// Visits the runs of these fields as they arrive, and returns their buffers to the reader.
fn use_all(
    mut fields: &[Field],
    read: Receiver<Run<'_>>,
    used: Sender<Vec<u8>>,
    visit: &mut impl FnMut(&Field, &[u8]) -> Result<()>,
) -> Result<()> {
    while !fields.is_empty() {
        let run = read.recv().map_err(|_| reader_ended_error())?;
        fields = &fields[run.fields.len()..];
        // After the last run, the reader does not receive it any more.
        let _ = used.send(run.visit(visit)?);
    }
    Ok(())
}

#[cold]
fn reader_ended_error() -> Error {
    Error::new(ErrorKind::Canceled, "the thread that reads fields ended before all were read")
}

/// Fields that were read together.
struct Run<'a> {
    fields: &'a [Field],
    /// Bytes of the fields in their order, up to the first field that cannot be read.
    bytes: Vec<u8>,
    error: Option<Error>,
}

impl<'a> Run<'a> {
    /// Reads the fields into `bytes`, the buffer of an earlier run. To allocate new memory would cost as much as the
    /// read.
    fn read(fields: &'a [Field], mut bytes: Vec<u8>) -> Self {
        if let Err(error) = memory::resize(&mut bytes, bytes_of(fields) as usize) {
            return Self { fields, bytes: Vec::new(), error: Some(error) };
        }
        let mut at = 0;
        for field in fields {
            let end = at + field.bytes() as usize;
            if let Err(error) = field.read_at(0, &mut bytes[at..end]) {
                bytes.truncate(at);
                return Self { fields, bytes, error: Some(error) };
            }
            at = end;
        }
        Self { fields, bytes, error: None }
    }

    /// Calls `visit` for each field with its bytes. Returns the buffer, so that the next run can use it. Fails if the
    /// read has failed, after the fields before the failure.
    fn visit(self, visit: &mut impl FnMut(&Field, &[u8]) -> Result<()>) -> Result<Vec<u8>> {
        let mut rest = &self.bytes[..];
        for field in self.fields {
            let Some((own, others)) = rest.split_at_checked(field.bytes() as usize) else { break };
            visit(field, own)?;
            rest = others;
        }
        self.error.map_or(Ok(self.bytes), Err)
    }
}

/// Reads runs ahead of their use.
struct Reader {
    /// Used buffers.
    back: Receiver<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    /// Runs that were read and not used yet, and their bytes.
    runs: usize,
    bytes: u64,
}

impl Reader {
    /// Reads and sends all runs. Ends early if the receiver is gone.
    fn read<'a>(mut self, mut fields: &'a [Field], to: Sender<Run<'a>>) {
        while !fields.is_empty() {
            let (first, rest) = fields.split_at(run(fields).len());
            let Some(buffer) = self.buffer(bytes_of(first)) else { return };
            if to.send(Run::read(first, buffer)).is_err() {
                return;
            }
            fields = rest;
        }
    }

    /// A buffer for a run of this length, once it fits in the limits.
    fn buffer(&mut self, bytes: u64) -> Option<Vec<u8>> {
        while let Ok(used) = self.back.try_recv() {
            self.take_back(used);
        }
        while self.runs > 0 && (self.runs == AHEAD_RUNS || self.bytes + bytes > AHEAD_BYTES) {
            let used = self.back.recv().ok()?;
            self.take_back(used);
        }
        self.runs += 1;
        self.bytes += bytes;
        Some(self.spare.pop().unwrap_or_default())
    }

    /// Receives the buffer of a run that the caller has finished, so that a later run uses it again.
    fn take_back(&mut self, used: Vec<u8>) {
        self.runs -= 1;
        self.bytes -= used.len() as u64;
        self.spare.push(used);
    }
}
