//! One process of a benchmark: reads a job, then steps, one line of JSON each, and answers each.
use crate::buffer::Buffer;
use crate::job::{Job, LoadStep, Slot, WARM_UP};
use crate::limit::Limit;
use crate::load::{self, Load};
use crate::measure::{Measured, Until, measure};
use crate::payload::Payload;
use crate::processes::WorkerKind;
use esker_types::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::time::Duration;

/// The reply to a job or step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer<A> {
    /// Success. For a job: the worker is ready.
    Done(A),
    /// Failure, with the reason.
    Failed(String),
}

/// Messages to a worker that starts each step together with the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order<S> {
    /// Prepare a step.
    Prepare(S),
    /// Take the step.
    Begin {
        /// The step.
        step: S,
        /// The common start, by the monotonic clock of the node.
        start_ns: u64,
    },
}

/// The work of a worker process: one job, and its steps.
pub trait Work: Sized {
    /// The first message.
    type Job: DeserializeOwned;
    /// The messages that follow.
    type Step: DeserializeOwned;
    /// The reply to a step.
    type Done: Serialize + Default;

    /// Prepares the job.
    ///
    /// # Errors
    /// If the job cannot begin.
    fn begin(job: Self::Job) -> Result<Self>;

    /// Takes a step.
    ///
    /// # Errors
    /// The error, with the name of the step.
    fn take(&mut self, step: Self::Step) -> Result<Self::Done>;
}

/// Serves on standard input and output until the end of the input. The process ends with its parent.
///
/// # Errors
/// Same as [`serve_work`].
pub fn serve(kind: WorkerKind) -> Result<()> {
    end_with_parent()?;
    match kind {
        WorkerKind::Load => serve_stdio::<Worker>(),
        WorkerKind::FieldIo => serve_stdio::<crate::field_io::worker::Worker>(),
        WorkerKind::Tx => serve_stdio::<crate::tx::worker::Worker>(),
        WorkerKind::Growth => serve_stdio::<crate::growth::worker::Worker>(),
        WorkerKind::Fields => serve_stdio::<crate::fields::worker::Worker>(),
        WorkerKind::Tensors => serve_stdio::<crate::tensors::worker::Worker>(),
        WorkerKind::Engine => serve_stdio::<crate::engine::Worker>(),
        WorkerKind::S3 => serve_stdio::<crate::s3::Worker>(),
        WorkerKind::Posix => serve_stdio::<crate::posix::worker::Worker>(),
    }
}

fn serve_stdio<W: Work>() -> Result<()> {
    serve_work::<W>(std::io::stdin().lock(), std::io::stdout())
}

/// Serves a job and its steps until the end of the input.
///
/// # Errors
/// If reading or writing messages fails. Failures of a job or step are replies, not errors.
pub fn serve_work<W: Work>(mut input: impl BufRead, mut output: impl Write) -> Result<()> {
    let Some(job) = receive::<W::Job>(&mut input)? else { return Ok(()) };
    let mut worker = match W::begin(job) {
        Ok(worker) => worker,
        Err(error) => return send(&mut output, &Answer::<W::Done>::Failed(error.to_string())),
    };
    send(&mut output, &Answer::Done(W::Done::default()))?;
    while let Some(step) = receive::<W::Step>(&mut input)? {
        let answer = match worker.take(step) {
            Ok(done) => Answer::Done(done),
            Err(error) => Answer::Failed(error.to_string()),
        };
        send(&mut output, &answer)?;
    }
    Ok(())
}

/// Ends this process when its parent dies, even in the middle of a step. To Linux the parent is the thread that started
/// the process, so the thread that starts [`crate::processes::Processes`] must outlive it.
///
/// # Errors
/// Errors of the system call.
fn end_with_parent() -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| Error::io("requesting to end with the parent process", &error.into()))
}

fn receive<T: for<'a> Deserialize<'a>>(input: &mut impl BufRead) -> Result<Option<T>> {
    let mut line = String::new();
    let read = input.read_line(&mut line);
    match read.map_err(|error| Error::io("reading a message of a benchmark", &error))? {
        0 => Ok(None),
        _ => parse(&line).map(Some),
    }
}

/// Parses a message.
///
/// # Errors
/// [`ErrorKind::Invalid`] if the line is not such a message.
pub(crate) fn parse<T: for<'a> Deserialize<'a>>(line: &str) -> Result<T> {
    serde_json::from_str(line)
        .map_err(|error| Error::new(ErrorKind::Invalid, format!("message of a benchmark: {error}")))
}

/// Writes one line.
///
/// # Errors
/// If the other process has ended.
pub(crate) fn send(output: &mut impl Write, message: &impl Serialize) -> Result<()> {
    let gone = |error| Error::io("writing a message of a benchmark", &error);
    let mut line = serde_json::to_vec(message).map_err(|error| gone(error.into()))?;
    line.push(b'\n');
    output.write_all(&line).and_then(|()| output.flush()).map_err(gone)
}

/// State of a worker between steps.
pub(crate) struct Worker {
    job: Job,
    payload: Payload,
    buffer: Buffer,
    limit: Limit,
    load: Option<Box<dyn Load>>,
}

impl Work for Worker {
    type Job = Job;
    type Step = LoadStep;
    type Done = Measured;

    fn begin(job: Job) -> Result<Self> {
        Self::new(job)
    }

    fn take(&mut self, step: LoadStep) -> Result<Measured> {
        self.run(step)
            .map_err(|error| Error::new(error.kind(), format!("{}: {error}", step.name())))
    }
}

impl Worker {
    fn new(job: Job) -> Result<Self> {
        let load = job.store.as_ref().map(|store| load::open(&job, store)).transpose()?;
        Self::with_load(job, load)
    }

    pub(crate) fn with_load(job: Job, load: Option<Box<dyn Load>>) -> Result<Self> {
        let limit = Limit::new(&job.folder, job.size_bytes, job.ops)?;
        let payload = Payload::new(job.seed, job.size_bytes)?;
        Ok(Self { payload, buffer: Buffer::new(job.size_bytes)?, limit, load, job })
    }

    fn run(&mut self, step: LoadStep) -> Result<Measured> {
        match step {
            LoadStep::Pwrite => self.limit.pwrite(self.until()),
            LoadStep::PwriteSync => self.limit.pwrite_sync(self.until()),
            LoadStep::Pread => self.limit.pread(self.until()),
            LoadStep::Memcpy => self.limit.memcpy(self.until()),
            LoadStep::Write(round) => self.each(self.job.rank, round, Self::write),
            LoadStep::Read(round) => self.each(self.neighbour(), round, Self::read),
            LoadStep::Verify(round) => self.each(self.neighbour(), round, Self::verify),
            LoadStep::Remove(round) => self.each(self.job.rank, round, Self::remove),
        }
    }

    fn until(&self) -> Until {
        let elapsed = self.job.seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
        elapsed.map_or(Until::Ops(self.job.ops), Until::Elapsed)
    }

    /// The process whose data this process reads: the next one.
    fn neighbour(&self) -> u32 {
        (self.job.rank + 1) % self.job.procs.max(1)
    }

    fn each(
        &mut self,
        rank: u32,
        round: u32,
        mut op: impl FnMut(&mut Self, &mut dyn Load, Slot) -> Result<()>,
    ) -> Result<Measured> {
        let Some(mut load) = self.load.take() else {
            return Err(missing_store());
        };
        let (ops, bytes) = (Until::Ops(self.ops_of(round)), self.job.size_bytes);
        let measured =
            measure(ops, bytes, |index| op(self, &mut *load, Slot { rank, round, op: index }));
        self.load = Some(load);
        measured
    }

    /// Writes the block of a slot.
    pub(crate) fn write_slot(&mut self, slot: Slot) -> Result<()> {
        self.load.as_mut().ok_or_else(missing_store)?.write(slot, self.payload.block(slot))
    }

    /// Reads the block of a slot.
    pub(crate) fn read_slot(&mut self, slot: Slot) -> Result<()> {
        self.load.as_mut().ok_or_else(missing_store)?.read(slot, &mut self.buffer)
    }

    /// The warm-up does an eighth more operations, because the share of each target differs from round to round.
    fn ops_of(&self, round: u32) -> u64 {
        if round == WARM_UP { self.job.ops + self.job.ops / 8 } else { self.job.ops }
    }

    fn write(&mut self, load: &mut dyn Load, slot: Slot) -> Result<()> {
        load.write(slot, self.payload.block(slot))
    }

    fn read(&mut self, load: &mut dyn Load, slot: Slot) -> Result<()> {
        load.read(slot, &mut self.buffer)
    }

    fn verify(&mut self, load: &mut dyn Load, slot: Slot) -> Result<()> {
        self.buffer.fill(0);
        load.read(slot, &mut self.buffer)?;
        match *self.buffer == *self.payload.block(slot) {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Corrupt,
                format!("the data read for {slot:?} is not the data written"),
            )),
        }
    }

    fn remove(&mut self, load: &mut dyn Load, slot: Slot) -> Result<()> {
        load.remove(slot)
    }
}

#[cold]
pub(crate) fn missing_store() -> Error {
    Error::new(ErrorKind::Invalid, "this job has no store")
}

#[cfg(test)]
mod tests;
