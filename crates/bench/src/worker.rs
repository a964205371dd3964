//! One process of a benchmark: reads a job, then steps, one line of JSON each, and answers each.
use crate::buffer::Buffer;
use crate::job::{Job, LoadStep, Slot, WARM_UP};
use crate::limit::Limit;
use crate::load::{self, Load};
use crate::measure::{Measured, Until, measure};
use crate::payload::Payload;
use esker_types::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::time::Duration;

/// The answer to a job or step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer<A> {
    /// It was done. The answer to a job says that the worker is ready.
    Done(A),
    /// It could not be done; why.
    Failed(String),
}

/// What a worker process is told where all must be ready before any begins.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order<S> {
    /// To get ready for a step.
    Prepare(S),
    /// To take it.
    Begin {
        /// The step.
        step: S,
        /// The common start, by the monotonic clock of the node.
        start_ns: u64,
    },
}

/// What a worker process does: one job, and steps of it.
pub trait Work: Sized {
    /// What it is told once.
    type Job: DeserializeOwned;
    /// What it is told then, again and again.
    type Step: DeserializeOwned;
    /// What it answers to a step.
    type Done: Serialize + Default;

    /// Gets ready.
    ///
    /// # Errors
    /// What stands against it.
    fn begin(job: Self::Job) -> Result<Self>;

    /// Takes a step.
    ///
    /// # Errors
    /// What went wrong, with the name of the step.
    fn take(&mut self, step: Self::Step) -> Result<Self::Done>;
}

/// Serves `array`, `kv` and limits until there is no more input.
///
/// # Errors
/// As [`serve_work`].
pub fn serve(input: impl BufRead, output: impl Write) -> Result<()> {
    serve_work::<Worker>(input, output)
}

/// Serves until there is no more input.
///
/// # Errors
/// Where the other side cannot be heard or told. What fails in a job or step is told to the other side.
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

/// From here on this process is ended when the one that started it dies, even in the middle of a step.
/// To Linux that is the thread that started it: fleets must be started by one that lasts as long as they.
///
/// # Errors
/// Where the system refuses.
pub fn end_with_parent() -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| Error::io("asking to end with the benchmark", &error.into()))
}

fn receive<T: for<'a> Deserialize<'a>>(input: &mut impl BufRead) -> Result<Option<T>> {
    let mut line = String::new();
    let read = input.read_line(&mut line);
    match read.map_err(|error| Error::io("reading a line of a benchmark", &error))? {
        0 => Ok(None),
        _ => parse(&line).map(Some),
    }
}

/// Reads what stands in a line.
///
/// # Errors
/// [`ErrorKind::Invalid`] where it is something else.
pub(crate) fn parse<T: for<'a> Deserialize<'a>>(line: &str) -> Result<T> {
    serde_json::from_str(line)
        .map_err(|error| Error::new(ErrorKind::Invalid, format!("line of a benchmark: {error}")))
}

/// Writes one line.
///
/// # Errors
/// Where the other side is gone.
pub(crate) fn send(output: &mut impl Write, message: &impl Serialize) -> Result<()> {
    let gone = |error| Error::io("writing a line of a benchmark", &error);
    let mut line = serde_json::to_vec(message).map_err(|error| gone(error.into()))?;
    line.push(b'\n');
    output.write_all(&line).and_then(|()| output.flush()).map_err(gone)
}

/// The state a worker keeps from step to step.
struct Worker {
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

    fn with_load(job: Job, load: Option<Box<dyn Load>>) -> Result<Self> {
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

    /// Whose data this process reads: never its own where there is another.
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
            return Err(Error::new(ErrorKind::Invalid, "this job has no store"));
        };
        let (ops, bytes) = (Until::Ops(self.ops_of(round)), self.job.size_bytes);
        let measured =
            measure(ops, bytes, |index| op(self, &mut *load, Slot { rank, round, op: index }));
        self.load = Some(load);
        measured
    }

    /// The warm-up takes an eighth more: how much falls on which target differs from round to round.
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
                format!("what was read for {slot:?} is not what was written"),
            )),
        }
    }

    fn remove(&mut self, load: &mut dyn Load, slot: Slot) -> Result<()> {
        load.remove(slot)
    }
}

#[cfg(test)]
mod tests;
