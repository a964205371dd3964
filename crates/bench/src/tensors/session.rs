//! The open store and files of a process of `tensors`, and the steps on them.
use super::worker::{Done, Job, Phase, Step};
use super::{COLUMNS, ELEMENT_BYTES, ROW_BYTES, Rows};
use crate::buffer::Buffer;
use crate::clock::monotonic_ns;
use crate::limit::Limit;
use crate::measure::{Measured, Until};
use esker::Pool;
use esker::types::info::OpenMode;
use esker_tensors::{DataType, NewTensor, Put, Slab, Strided, TensorStore};
use esker_types::{Error, ErrorKind, Result};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Name of the tensor.
const NAME: &str = "t";

/// The state of a process.
pub(super) struct Session {
    job: Job,
    store: TensorStore,
    limit: Limit,
    /// The PUT that this process has begun.
    put: Option<Put>,
    written: Buffer,
    found: Buffer,
}

/// Records the times of a step.
struct Watch([f64; 4]);

impl Watch {
    fn start() -> Self {
        Self([now_s(); 4])
    }

    fn opened(&mut self) {
        self.0[1] = now_s();
    }

    fn moved(&mut self) {
        self.0[2] = now_s();
    }

    /// Ends the step. If the transfer has no recorded end, it ends with the step.
    fn finish(mut self) -> Done {
        self.0[3] = now_s();
        self.0[2] = if self.0[2] <= self.0[1] { self.0[3] } else { self.0[2] };
        Done { times_s: self.0, ..Done::default() }
    }
}

fn now_s() -> f64 {
    monotonic_ns() as f64 / 1e9
}

impl Session {
    pub(super) fn new(job: Job) -> Result<Self> {
        let pool = Pool::connect(&job.pool, OpenMode::ReadWrite)?;
        let store = TensorStore::open(&pool, &job.container, OpenMode::ReadWrite)?;
        let block = job.part.chunk_rows() * ROW_BYTES;
        let limit = Limit::new(&job.files, block, job.part.bytes() / block)?;
        let [written, found] = [Buffer::new(job.part.bytes())?, Buffer::new(job.part.bytes())?];
        Ok(Self { job, store, limit, put: None, written, found })
    }

    pub(super) fn take(&mut self, step: &Step) -> Result<Done> {
        match step.phase {
            Phase::Rest => Ok(Done::default()),
            Phase::Fill => Ok(self.fill(step.round)),
            Phase::Pwrite => self.limit.pwrite(self.blocks()).map(of_limit),
            Phase::Pread => self.limit.pread(self.blocks()).map(of_limit),
            Phase::FilePut => self.file_put(),
            Phase::FileGet => self.file_get(),
            Phase::FileRemove => self.file_remove(),
            Phase::Begin => self.begin(),
            Phase::Write => self.write(step.token.as_deref().unwrap_or_default()),
            Phase::Commit => self.commit(),
            Phase::Get => self.get(),
            Phase::Remove => self.store.remove(NAME).map(|_| Done::default()),
            Phase::Verify => self.verify(step.round),
        }
    }

    fn blocks(&self) -> Until {
        Until::Ops(self.job.part.rows / self.job.part.chunk_rows())
    }

    /// The process whose rows this process reads: the next one.
    fn neighbour(&self) -> u32 {
        (self.job.rank + 1) % self.job.part.procs.max(1)
    }

    fn rows(&self, rank: u32, round: u32) -> Rows {
        Rows { part: self.job.part, rank, seed: self.job.seed, round }
    }

    fn fill(&mut self, round: u32) -> Done {
        self.rows(self.job.rank, round).fill(&mut self.written);
        Done::default()
    }

    /// Compares the data read, then overwrites the buffer, so that a later read that does nothing is noticed.
    fn verify(&mut self, round: u32) -> Result<Done> {
        self.rows(self.neighbour(), round).check(&self.found)?;
        self.found.fill(0xa5);
        Ok(Done::default())
    }

    fn begin(&mut self) -> Result<Done> {
        let watch = Watch::start();
        let part = self.job.part;
        let mut new = NewTensor::new(DataType::parse("<i4")?, &part.shape());
        new.chunks = Some(vec![part.chunk_rows(), COLUMNS]);
        let put = self.store.begin(&new)?;
        let token = Some(put.token());
        self.put = Some(put);
        Ok(Done { token, ..watch.finish() })
    }

    fn write(&mut self, token: &str) -> Result<Done> {
        let (mut watch, part) = (Watch::start(), self.job.part);
        let put = self.store.resume(token)?;
        watch.opened();
        let data = Strided::contiguous(&self.written, &[part.rows, COLUMNS], ELEMENT_BYTES)?;
        put.write(&[part.first_row(self.job.rank), 0], &data)?;
        Ok(watch.finish())
    }

    fn commit(&mut self) -> Result<Done> {
        let watch = Watch::start();
        let put = self.put.take();
        let put = put.ok_or_else(|| Error::new(ErrorKind::Invalid, "no PUT was begun"))?;
        put.commit(Some(NAME))?;
        Ok(watch.finish())
    }

    fn get(&mut self) -> Result<Done> {
        let (mut watch, part) = (Watch::start(), self.job.part);
        let tensor = self.store.open_tensor(NAME)?;
        watch.opened();
        let rows = Slab::new(part.first_row(self.neighbour()), part.rows);
        tensor.read(&[rows, Slab::new(0, COLUMNS)], &mut self.found)?;
        watch.moved();
        drop(tensor);
        Ok(watch.finish())
    }

    fn file(&self) -> PathBuf {
        self.job.files.join("shared")
    }

    fn opened(&self, options: &mut OpenOptions) -> Result<File> {
        options.open(self.file()).map_err(|error| self.file_error("opening", &error))
    }

    fn file_put(&mut self) -> Result<Done> {
        let mut watch = Watch::start();
        let file = self.opened(OpenOptions::new().write(true).create(true).truncate(false))?;
        watch.opened();
        let at = self.job.part.first_row(self.job.rank) * ROW_BYTES;
        let written = file.write_all_at(&self.written, at);
        written.map_err(|error| self.file_error("pwrite to", &error))?;
        watch.moved();
        drop(file);
        Ok(watch.finish())
    }

    fn file_get(&mut self) -> Result<Done> {
        let mut watch = Watch::start();
        let file = self.opened(OpenOptions::new().read(true))?;
        watch.opened();
        let at = self.job.part.first_row(self.neighbour()) * ROW_BYTES;
        let read = file.read_exact_at(&mut self.found, at);
        read.map_err(|error| self.file_error("pread from", &error))?;
        watch.moved();
        drop(file);
        Ok(watch.finish())
    }

    fn file_remove(&self) -> Result<Done> {
        let removed = std::fs::remove_file(self.file());
        removed.map(|()| Done::default()).map_err(|error| self.file_error("removing", &error))
    }

    fn file_error(&self, doing: &str, error: &std::io::Error) -> Error {
        Error::io(format!("{doing} {}", self.file().display()), error)
    }
}

fn of_limit(measured: Measured) -> Done {
    let Measured { start_s, end_s, .. } = measured;
    Done { times_s: [start_s, start_s, end_s, end_s], ..Done::default() }
}
