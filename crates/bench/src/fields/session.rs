//! The open store of a process of `fields`, and the operations on it.
use super::grib::Messages;
use super::message::Message;
use super::worker::{Done, EventTime, Job};
use super::{Field, Phase};
use crate::buffer::Buffer;
use crate::clock::monotonic_ns;
use crate::job::Slot;
use crate::load::Load;
use crate::load::files::{Files, FilesUrl};
use crate::measure::{Measured, Meter, Until, measure};
use esker::Pool;
use esker::types::info::OpenMode;
use esker_fields::request::Request;
use esker_fields::{Date, FieldStore, Selection, Watch};
use esker_types::{Error, ErrorKind, Result};
use std::time::Duration;

/// How long a reader waits for the next field.
const FIELD_TIMEOUT: Duration = Duration::from_secs(60);

/// The state of a process.
pub(super) struct Session {
    pub(super) job: Job,
    pub(super) message: Message,
    pub(super) buffer: Buffer,
    pub(super) messages: Messages,
    /// The round, and its open store.
    pub(super) open: Option<(u32, Open)>,
    pub(super) watch: Option<Watch>,
}

pub(super) struct Open {
    store: FieldStore,
    pub(super) files: Files,
}

impl Session {
    pub(super) fn new(job: Job) -> Result<Self> {
        let bytes = job.shape.size_bytes;
        let (message, buffer) = (Message::new(job.seed, bytes)?, Buffer::new(bytes)?);
        let messages = job.grib.as_deref().map(Messages::read).transpose()?.unwrap_or_default();
        let messages = messages.share(job.rank, job.procs);
        Ok(Self { messages, message, buffer, job, open: None, watch: None })
    }

    /// Opens the store of a round.
    pub(super) fn enter(&mut self, round: u32) -> Result<()> {
        if self.open.as_ref().is_some_and(|(known, _)| *known == round) {
            return Ok(());
        }
        self.watch = None;
        self.open = None;
        let Job { pool, files, procs, durable, .. } = &self.job;
        let label = label(pool.container.as_str(), round);
        let store = FieldStore::open(
            &Pool::connect(&pool.url, OpenMode::ReadWrite)?,
            &label,
            OpenMode::ReadWrite,
        )?;
        let url = FilesUrl { folder: files.clone(), fsync: *durable };
        let files = Files::new(&url, &label, *procs)?;
        self.open = Some((round, Open { store, files }));
        Ok(())
    }

    pub(super) fn store(&self) -> Result<FieldStore> {
        self.open.as_ref().map(|(_, open)| open.store.clone()).ok_or_else(closed)
    }

    /// The process whose fields this process reads: the next one.
    pub(super) fn neighbour(&self) -> u32 {
        (self.job.rank + 1) % self.job.procs.max(1)
    }

    /// The fields of some processes.
    pub(super) fn selection(&self, owners: std::ops::Range<u32>) -> Result<Selection> {
        let request = Request::from_pairs(self.job.shape.request(owners))?;
        request.expand(self.store()?.schema(), Date::today())
    }

    /// Writes or reads a plain file for each field.
    pub(super) fn files(&mut self, phase: Phase, round: u32) -> Result<Measured> {
        let (shape, own, next) = (self.job.shape, self.job.rank, self.neighbour());
        let Self { open, message, buffer, .. } = self;
        let (_, open) = open.as_mut().ok_or_else(closed)?;
        measure(Until::Ops(shape.fields()), shape.size_bytes, |index| {
            let slot = |rank| Slot { rank, round, op: index };
            if phase == Phase::FileRead {
                return open.files.read(slot(next), buffer);
            }
            let key = shape.key(Field { owner: own, index })?;
            open.files.write(slot(own), message.field_for_key(&key))
        })
    }

    /// Archives all fields and flushes each step. Reports when each flush began.
    pub(super) fn archive(&mut self) -> Result<Done> {
        let (shape, owner) = (self.job.shape, self.job.rank);
        let mut writer = self.store()?.writer();
        let mut event_times = Vec::new();
        let measured = measure(Until::Ops(shape.fields()), shape.size_bytes, |index| {
            let key = shape.key(Field { owner, index })?;
            writer.archive(&key, self.message.field_for_key(&key))?;
            if (index + 1) % shape.per_step() == 0 {
                let step = index / shape.per_step();
                event_times.push(EventTime { writer: owner, step, ns: monotonic_ns() });
                writer.flush()?;
            }
            Ok(())
        })?;
        Ok(Done { measured, event_times })
    }
}

/// Name of the container of a round, and of its directory of plain files.
#[must_use]
pub fn label(container: &str, round: u32) -> String {
    format!("{container}-{round}")
}

#[cold]
fn closed() -> Error {
    Error::new(ErrorKind::Invalid, "the round of this step is not open")
}

impl Session {
    /// Subscribes to the fields of all processes.
    pub(super) fn subscribe(&mut self) -> Result<()> {
        let selection = self.selection(0..self.job.procs)?;
        self.watch = Some(self.store()?.watch(&selection, true)?);
        Ok(())
    }

    /// Reads every field as soon as it is visible. Reports when each was.
    pub(super) fn watch(&mut self) -> Result<Done> {
        let shape = self.job.shape;
        let all = shape.fields() * u64::from(self.job.procs);
        let Some(mut watch) = self.watch.take() else {
            return Err(Error::new(ErrorKind::Invalid, "nothing is watched"));
        };
        let (mut meter, mut event_times) = (Meter::start(), Vec::new());
        while (event_times.len() as u64) < all {
            let Some(field) = watch.next(FIELD_TIMEOUT)? else {
                return Err(nothing(event_times.len(), all));
            };
            let (writer, step) = shape.origin(field.key())?;
            event_times.push(EventTime { writer, step, ns: monotonic_ns() });
            field.read_at(0, &mut self.buffer)?;
            meter.tick(1, field.bytes())?;
            if self.job.verify {
                self.message.check(field.key(), &self.buffer)?;
            }
        }
        Ok(Done { measured: meter.finish(), event_times })
    }
}

#[cold]
fn nothing(seen: usize, all: u64) -> Error {
    let text = format!(
        "{seen} of {all} fields became visible, then none for {} s",
        FIELD_TIMEOUT.as_secs()
    );
    Error::new(ErrorKind::TimedOut, text)
}
