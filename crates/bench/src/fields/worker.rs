//! One process of `fields`: its open store, and the operations on it.
use super::grib::Messages;
use super::message::Message;
use super::{APART, Field, Phase, SCATTERED_MAX, Shape};
use crate::buffer::Buffer;
use crate::clock::monotonic_ns;
use crate::errors::ensure_intact;
use crate::job::{Member, Slot};
use crate::limit::{LIMIT_FILE_BYTES, Limit};
use crate::load::Load;
use crate::load::files::{Files, FilesUrl};
use crate::measure::{Measured, Meter, Until, measure};
use crate::names::Named;
use crate::worker::Work;
use esker::Pool;
use esker::types::info::OpenMode;
use esker_fields::request::Request;
use esker_fields::{Date, FieldStore, Selection, Watch, read_ahead};
use esker_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// How long a reader waits for the next field.
const FIELD_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of fields that a watcher compares. It keeps their keys and locations in memory.
const COMPARED_MAX: usize = 1 << 16;

/// The job of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The process. Those from `procs` on are watchers.
    #[serde(flatten)]
    pub member: Member,
    /// Pool by name, UUID or URL.
    pub pool: String,
    /// Prefix of the containers of the rounds.
    pub container: String,
    /// Folder on the same medium for plain files.
    pub files: PathBuf,
    /// Every write waits for the medium (durability `commit`).
    pub durable: bool,
    /// Shape of the archived data.
    pub shape: Shape,
    /// A file of GRIB messages, for the phases that are about them.
    pub grib: Option<PathBuf>,
    /// Watchers compare the fields that they read.
    pub verify: bool,
}

/// A phase of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldsStep {
    /// Operation of the step.
    pub phase: Phase,
    /// Number of the round; 0 warms up.
    pub round: u32,
}

/// The reply of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The phase.
    pub measured: Measured,
    /// When flushes began, or when fields became visible.
    pub event_times: Vec<EventTime>,
}

/// The time of an event: the process that archived the fields and their step, and nanoseconds of the monotonic clock.
pub type EventTime = ((u32, u64), u64);

/// The state of a process.
pub struct Worker {
    pub(super) job: Job,
    pub(super) message: Message,
    pub(super) buffer: Buffer,
    pub(super) messages: Messages,
    /// The round, its open store, and its plain files.
    open: Option<(u32, FieldStore, Files)>,
    watch: Option<Watch>,
    /// None for watchers.
    limit: Option<Limit>,
}

impl Work for Worker {
    type Job = Job;
    type Step = FieldsStep;
    type Done = Done;

    fn begin(job: Job) -> Result<Self> {
        job.member.pin()?;
        let (size, member) = (job.shape.size_bytes, job.member);
        let blocks = job.shape.fields().min((LIMIT_FILE_BYTES / size).max(1));
        let works = member.rank < member.procs;
        let limit = works.then(|| Limit::new(&job.files, size, blocks)).transpose()?;
        let messages = job.grib.as_deref().map(Messages::read).transpose()?.unwrap_or_default();
        Ok(Self {
            message: Message::new(member.seed, size)?,
            buffer: Buffer::new(size)?,
            messages: messages.share(member.rank, member.procs),
            open: None,
            watch: None,
            limit,
            job,
        })
    }

    fn prepare(&mut self, step: &FieldsStep) -> Result<()> {
        if !matches!(step.phase, Phase::Pwrite | Phase::PwriteSync | Phase::Pread) {
            self.enter(step.round)?;
        }
        if step.phase == Phase::Watch {
            let selection = self.selection(0..self.job.member.procs)?;
            // `true`: fields that are flushed before the watch begins are found too.
            self.watch = Some(self.store()?.watch(&selection, true)?);
        }
        Ok(())
    }

    fn take(&mut self, step: FieldsStep) -> Result<Done> {
        let fields = self.job.shape.fields();
        let measured = match step.phase {
            Phase::Archive | Phase::ArchiveWatched => return self.archive(),
            Phase::Watch => return self.watch(),
            Phase::Pwrite => self.limit(Limit::pwrite),
            Phase::PwriteSync => self.limit(Limit::pwrite_sync),
            Phase::Pread => self.limit(Limit::pread),
            Phase::FileWrite => self.write_files(step.round),
            Phase::FileRead => self.read_files(step.round),
            Phase::List => self.list(),
            Phase::Axes => self.axes(),
            Phase::Retrieve => self.retrieve(fields),
            Phase::Request => self.request(false),
            Phase::InOrder => self.retrieve(self.some()),
            Phase::Scattered => self.scattered(),
            Phase::Verify => self.request(true),
            Phase::GribFiles => self.grib_files(step.round),
            Phase::ArchiveGrib => self.archive_grib(),
            Phase::VerifyGrib => self.verify_grib(),
            // A worker in Python measures these.
            Phase::PythonRetrieve | Phase::PythonRequest | Phase::PythonViews => {
                Ok(Measured::default())
            }
        };
        Ok(Done { measured: measured?, event_times: Vec::new() })
    }

    fn name(step: &FieldsStep) -> Option<String> {
        Some(step.phase.name())
    }
}

impl Worker {
    /// Opens the field store and the files of a round, unless they are open. Closes those of another round first.
    fn enter(&mut self, round: u32) -> Result<()> {
        if self.open.as_ref().is_some_and(|(known, ..)| *known == round) {
            return Ok(());
        }
        self.watch = None;
        self.open = None;
        let Job { pool, container, files, durable, member, .. } = &self.job;
        let (label, mode) = (label(container, round), OpenMode::ReadWrite);
        let store = FieldStore::open(&Pool::connect(pool, mode)?, &label, mode)?;
        let url = FilesUrl { folder: files.clone(), fsync: *durable };
        self.open = Some((round, store, Files::new(&url, &label, member.procs)?));
        Ok(())
    }

    pub(super) fn store(&self) -> Result<FieldStore> {
        self.open.as_ref().map(|(_, store, _)| store.clone()).ok_or_else(closed)
    }

    /// Measures the medium by `measure`, with one operation for each field of this process. A watcher has no files for
    /// that, and its result is zero.
    fn limit(&self, measure: fn(&Limit, Until) -> Result<Measured>) -> Result<Measured> {
        let ops = Until::ops(self.job.shape.fields());
        self.limit.as_ref().map_or(Ok(Measured::default()), |limit| measure(limit, ops))
    }

    /// Selects the fields that the processes `owners` archive.
    pub(super) fn selection(&self, owners: Range<u32>) -> Result<Selection> {
        let request = Request::from_pairs(self.job.shape.request(owners))?;
        request.expand(self.store()?.schema(), Date::today())
    }

    /// Writes a plain file for each field.
    fn write_files(&mut self, round: u32) -> Result<Measured> {
        let (shape, rank) = (self.job.shape, self.job.member.rank);
        let (_, _, files) = self.open.as_mut().ok_or_else(closed)?;
        measure(Until::ops(shape.fields()), shape.size_bytes, |op| {
            let key = shape.key(Field { owner: rank, index: op })?;
            files.write(Slot { rank, round, op }, self.message.field_for_key(&key))
        })
    }

    /// Reads the plain files of the next process.
    fn read_files(&mut self, round: u32) -> Result<Measured> {
        let (shape, rank) = (self.job.shape, self.job.member.neighbour());
        let (_, _, files) = self.open.as_mut().ok_or_else(closed)?;
        measure(Until::ops(shape.fields()), shape.size_bytes, |op| {
            files.read(Slot { rank, round, op }, &mut self.buffer)
        })
    }

    /// Writes a plain file for each message.
    fn grib_files(&mut self, round: u32) -> Result<Measured> {
        let (rank, messages) = (self.job.member.rank, &self.messages);
        let (_, _, files) = self.open.as_mut().ok_or_else(closed)?;
        let mut meter = Meter::start();
        for op in 0..self.job.shape.fields() {
            let message = messages.nth(op);
            files.write(Slot { rank, round, op }, message)?;
            meter.tick(1, message.len() as u64)?;
        }
        Ok(meter.finish())
    }

    /// Archives all fields and flushes each step. Reports when each flush began.
    fn archive(&mut self) -> Result<Done> {
        let (shape, owner) = (self.job.shape, self.job.member.rank);
        let mut writer = self.store()?.writer();
        let mut event_times = Vec::new();
        let measured = measure(Until::ops(shape.fields()), shape.size_bytes, |index| {
            let key = shape.key(Field { owner, index })?;
            writer.archive(&key, self.message.field_for_key(&key))?;
            if (index + 1) % shape.per_step() == 0 {
                let step = index / shape.per_step();
                event_times.push(((owner, step), monotonic_ns()));
                writer.flush()?;
            }
            Ok(())
        })?;
        Ok(Done { measured, event_times })
    }

    /// Reads each field as soon as a flush has made it visible, until all are read. Reports the time at which each was
    /// found. With `verify`, reads and compares up to [`COMPARED_MAX`] of them again afterwards, unmeasured.
    fn watch(&mut self) -> Result<Done> {
        let shape = self.job.shape;
        let all = shape.fields() * u64::from(self.job.member.procs);
        let Some(mut watch) = self.watch.take() else { return Err(closed()) };
        let (mut meter, mut event_times, mut found) = (Meter::start(), Vec::new(), Vec::new());
        while (event_times.len() as u64) < all {
            let field =
                watch.next(FIELD_TIMEOUT)?.ok_or_else(|| timeout_error(event_times.len(), all))?;
            event_times.push((shape.origin(field.key())?, monotonic_ns()));
            field.read_at(0, &mut self.buffer)?;
            meter.tick(1, field.bytes())?;
            if self.job.verify && found.len() < COMPARED_MAX {
                found.push(field);
            }
        }
        let measured = meter.finish();
        for field in found {
            field.read_at(0, &mut self.buffer)?;
            self.message.check(field.key(), &self.buffer)?;
        }
        Ok(Done { measured, event_times })
    }
}

/// Name of the container of a round, and of its directory of plain files.
pub fn label(container: &str, round: u32) -> String {
    format!("{container}-{round}")
}

#[cold]
fn closed() -> Error {
    Error::new(ErrorKind::Invalid, "the round of this step is not open")
}

#[cold]
fn timeout_error(seen: usize, all: u64) -> Error {
    let text = format!(
        "{seen} of {all} fields became visible, then none for {} s",
        FIELD_TIMEOUT.as_secs()
    );
    Error::new(ErrorKind::TimedOut, text)
}

impl Worker {
    /// Lists the fields of all processes. Fails if their number differs from the number archived.
    pub(super) fn list(&mut self) -> Result<Measured> {
        let (all, store) =
            (self.job.shape.fields() * u64::from(self.job.member.procs), self.store()?);
        let mut meter = Meter::start();
        let selection = self.selection(0..self.job.member.procs)?;
        let mut count = 0;
        store.visit(&selection, false, |_| {
            count += 1;
            Ok(true)
        })?;
        meter.tick(count, 0)?;
        counted(count, all)?;
        Ok(meter.finish())
    }

    /// Queries the axes of all fields: the values of each keyword. Fails if they describe more or fewer fields than
    /// were archived.
    pub(super) fn axes(&mut self) -> Result<Measured> {
        let (all, store) =
            (self.job.shape.fields() * u64::from(self.job.member.procs), self.store()?);
        let mut meter = Meter::start();
        let selection = self.selection(0..self.job.member.procs)?;
        let axes = store.axes(&selection)?;
        meter.tick(all, 0)?;
        let values = APART.map(|name| axes.values(name).count() as u64);
        counted(values.iter().product(), all)?;
        Ok(meter.finish())
    }

    /// Finds and reads the first `count` fields of the next process, one at a time.
    pub(super) fn retrieve(&mut self, count: u64) -> Result<Measured> {
        let owner = self.job.member.neighbour();
        self.one_by_one((0..count).map(|index| Field { owner, index }).collect())
    }

    /// Finds and reads fields of any process in random order, one at a time.
    pub(super) fn scattered(&mut self) -> Result<Measured> {
        let (fields, procs) = (self.job.shape.fields(), u64::from(self.job.member.procs));
        let seed = self.job.member.seed ^ (u64::from(self.job.member.rank) << 32);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut any = || {
            let number = random.u64(..fields * procs);
            Field { owner: (number / fields) as u32, index: number % fields }
        };
        let some = (0..self.some()).map(|_| any()).collect();
        self.one_by_one(some)
    }

    /// Number of fields that [`Phase::InOrder`] and [`Phase::Scattered`] read.
    pub(super) fn some(&self) -> u64 {
        self.job.shape.fields().min(SCATTERED_MAX)
    }

    /// Finds and reads `fields` one at a time, and measures each as one operation.
    fn one_by_one(&mut self, fields: Vec<Field>) -> Result<Measured> {
        let (shape, store) = (self.job.shape, self.store()?);
        measure(Until::ops(fields.len() as u64), shape.size_bytes, |number| {
            let Some(field) = fields.get(number as usize) else { return Ok(()) };
            let found = store.field(&shape.key(*field)?)?;
            counted(found.bytes(), shape.size_bytes)?;
            found.read_at(0, &mut self.buffer)
        })
    }

    /// Retrieves all fields of the next process by one request, and compares them if `verify`.
    pub(super) fn request(&mut self, verify: bool) -> Result<Measured> {
        let (shape, store, owner) = (self.job.shape, self.store()?, self.job.member.neighbour());
        let mut meter = Meter::start();
        let selection = self.selection(owner..owner + 1)?;
        let fields = store.retrieve(&selection)?;
        counted(fields.len() as u64, shape.fields())?;
        read_ahead(&fields, |field, bytes| {
            meter.tick(1, bytes.len() as u64)?;
            if verify { self.message.check(field.key(), bytes) } else { Ok(()) }
        })?;
        Ok(meter.finish())
    }
}

/// Fails if fewer or more fields, or bytes of a field, were found than archived.
fn counted(found: u64, archived: u64) -> Result<()> {
    ensure_intact(found == archived, || format!("found {found} of {archived} archived fields"))
}

#[cfg(test)]
mod tests;
