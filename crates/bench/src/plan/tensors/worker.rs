//! One process of `tensors`: its open store and files, and the steps on them.
use super::{COLUMNS, ELEMENT_BYTES, Part, ROW_BYTES, Rows};
use crate::buffer::Buffer;
use crate::clock::monotonic_ns;
use crate::errors::Doing;
use crate::job::Member;
use crate::limit::Limit;
use crate::measure::{Measured, Until};
use crate::worker::Work;
use esker::Pool;
use esker::types::info::OpenMode;
use esker_tensors::{DataType, NewTensor, Put, Slab, Strided, TensorStore};
use esker_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Name of the tensor.
const NAME: &str = "t";

/// The job of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The process.
    pub member: Member,
    /// The rows of each process.
    pub part: Part,
    /// The pool by its URL.
    pub pool: String,
    /// The container of the tensor store, which exists.
    pub container: String,
    /// Folder on the same medium for plain files.
    pub files: PathBuf,
}

/// Operation of a process in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Make the data of the round.
    Fill,
    /// pwrite to the file of this process, which has been written completely before.
    Pwrite,
    /// pread from it.
    Pread,
    /// Write the rows to a new file that all share.
    FilePut,
    /// Read the rows of the next process from it.
    FileGet,
    /// Remove it.
    FileRemove,
    /// Begin a PUT.
    Begin,
    /// Write the rows as a part of the PUT.
    Write,
    /// Commit the PUT.
    Commit,
    /// Open the tensor and read the rows of the next process.
    Get,
    /// Remove the tensor.
    Remove,
    /// Compare the rows that were read last with what their process wrote.
    Verify,
}

/// Next operation of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The operation.
    pub phase: Phase,
    /// Number of the round, which its data depend on.
    pub round: u32,
    /// The token of the PUT, for its writers.
    pub token: Option<String>,
}

/// The reply of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Start of the step, end of open, end of transfer and end of close. In seconds of the
    /// monotonic clock.
    pub times_s: [f64; 4],
    /// The token of the PUT that was begun.
    #[serde(default)]
    pub token: Option<String>,
    /// Version and settings of the peer.
    #[serde(default)]
    pub about: Option<String>,
}

/// The state of a process.
pub struct Worker {
    job: Job,
    store: TensorStore,
    limit: Limit,
    /// The PUT that this process has begun.
    put: Option<Put>,
    written: Buffer,
    found: Buffer,
}

/// Records the times of a step.
struct Watch {
    started_s: f64,
    opened_s: f64,
    /// The end of the transfer, if the step has one.
    moved_s: Option<f64>,
}

impl Watch {
    /// Starts a step. Without an [`Self::opened`] it counts as open at once.
    fn start() -> Self {
        let now_s = now_s();
        Self { started_s: now_s, opened_s: now_s, moved_s: None }
    }

    /// Records that the file or tensor is open.
    fn opened(&mut self) {
        self.opened_s = now_s();
    }

    /// Records the end of the transfer.
    fn moved(&mut self) {
        self.moved_s = Some(now_s());
    }

    /// Ends the step. If the transfer has no recorded end, it ends with the step.
    fn finish(self) -> Done {
        let end_s = now_s();
        let moved_s = self.moved_s.unwrap_or(end_s);
        Done { times_s: [self.started_s, self.opened_s, moved_s, end_s], ..Done::default() }
    }
}

fn now_s() -> f64 {
    monotonic_ns() as f64 / 1e9
}

impl Work for Worker {
    type Job = Job;
    type Step = Step;
    type Done = Done;

    fn begin(job: Job) -> Result<Self> {
        job.member.pin()?;
        let pool = Pool::connect(&job.pool, OpenMode::ReadWrite)?;
        let store = TensorStore::open(&pool, &job.container, OpenMode::ReadWrite)?;
        let block = job.part.chunk_rows() * ROW_BYTES;
        let limit = Limit::new(&job.files, block, job.part.bytes() / block)?;
        let [written, found] = [Buffer::new(job.part.bytes())?, Buffer::new(job.part.bytes())?];
        Ok(Self { job, store, limit, put: None, written, found })
    }

    fn take(&mut self, step: Step) -> Result<Done> {
        let blocks = Until::ops(self.job.part.rows / self.job.part.chunk_rows());
        match step.phase {
            Phase::Fill => {
                self.rows(self.job.member.rank, step.round).fill(&mut self.written);
                Ok(Done::default())
            }
            Phase::Pwrite => self.limit.pwrite(blocks).map(Done::from),
            Phase::Pread => self.limit.pread(blocks).map(Done::from),
            Phase::FilePut => self.file_put(),
            Phase::FileGet => self.file_get(),
            Phase::FileRemove => self.file_remove(),
            Phase::Begin => self.begin_put(),
            Phase::Write => self.write(step.token.as_deref().unwrap_or_default()),
            Phase::Commit => self.commit(),
            Phase::Get => self.get(),
            Phase::Remove => self.store.remove(NAME).map(|_| Done::default()),
            Phase::Verify => self.verify(step.round),
        }
    }

    fn name(step: &Step) -> Option<String> {
        Some(format!("{:?}", step.phase))
    }
}

impl Worker {
    fn rows(&self, rank: u32, round: u32) -> Rows {
        let Member { seed, .. } = self.job.member;
        Rows { part: self.job.part, rank, seed: seed as u32, round }
    }

    /// Compares the data read, then overwrites the buffer, so that a later read that does nothing is noticed.
    fn verify(&mut self, round: u32) -> Result<Done> {
        self.rows(self.job.member.neighbour(), round).check(&self.found)?;
        self.found.fill(0xa5);
        Ok(Done::default())
    }

    /// Begins the PUT that all processes write to.
    fn begin_put(&mut self) -> Result<Done> {
        let watch = Watch::start();
        let part = self.job.part;
        let mut new = NewTensor::new(DataType::parse("<i4")?, &part.shape());
        new.chunks = Some(vec![part.chunk_rows(), COLUMNS]);
        let put = self.store.begin(&new)?;
        let token = Some(put.token());
        self.put = Some(put);
        Ok(Done { token, ..watch.finish() })
    }

    /// Writes the rows of this process into the tensor that the first process has begun.
    fn write(&mut self, token: &str) -> Result<Done> {
        let (mut watch, part) = (Watch::start(), self.job.part);
        let put = self.store.resume(token)?;
        watch.opened();
        let data = Strided::contiguous(&self.written, &[part.rows, COLUMNS], ELEMENT_BYTES)?;
        put.write(&[part.first_row(self.job.member.rank), 0], &data)?;
        Ok(watch.finish())
    }

    /// Commits the tensor.
    fn commit(&mut self) -> Result<Done> {
        let watch = Watch::start();
        let put = self.put.take();
        let put = put.ok_or_else(|| Error::new(ErrorKind::Invalid, "no PUT was begun"))?;
        put.commit(Some(NAME))?;
        Ok(watch.finish())
    }

    /// Reads the rows of the next process.
    fn get(&mut self) -> Result<Done> {
        let (mut watch, part) = (Watch::start(), self.job.part);
        let tensor = self.store.open_tensor(NAME)?;
        watch.opened();
        let rows = Slab::new(part.first_row(self.job.member.neighbour()), part.rows);
        tensor.read(&[rows, Slab::new(0, COLUMNS)], &mut self.found)?;
        watch.moved();
        drop(tensor);
        Ok(watch.finish())
    }

    fn file(&self) -> PathBuf {
        self.job.files.join("shared")
    }

    /// Writes the rows of this process into a shared file.
    fn file_put(&mut self) -> Result<Done> {
        let mut watch = Watch::start();
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(self.file());
        let file = file.doing(|| format!("opening {}", self.file().display()))?;
        watch.opened();
        let at = self.job.part.first_row(self.job.member.rank) * ROW_BYTES;
        let written = file.write_all_at(&self.written, at);
        written.doing(|| format!("pwrite to {}", self.file().display()))?;
        watch.moved();
        drop(file);
        Ok(watch.finish())
    }

    /// Reads the rows of the next process from the shared file.
    fn file_get(&mut self) -> Result<Done> {
        let (mut watch, path) = (Watch::start(), self.file());
        let file = OpenOptions::new().read(true).open(&path);
        let file = file.doing(|| format!("opening {}", path.display()))?;
        watch.opened();
        let at = self.job.part.first_row(self.job.member.neighbour()) * ROW_BYTES;
        let read = file.read_exact_at(&mut self.found, at);
        read.doing(|| format!("pread from {}", path.display()))?;
        watch.moved();
        drop(file);
        Ok(watch.finish())
    }

    fn file_remove(&self) -> Result<Done> {
        let removed = std::fs::remove_file(self.file());
        removed.map(|()| Done::default()).doing(|| format!("removing {}", self.file().display()))
    }
}

impl From<Measured> for Done {
    fn from(Measured { start_s, end_s, .. }: Measured) -> Self {
        Self { times_s: [start_s, start_s, end_s, end_s], ..Self::default() }
    }
}
