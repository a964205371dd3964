//! One process of a benchmark: reads a job, then orders, one line of JSON each, and answers each.
use crate::clock::wait_until;
use crate::errors::Doing;
use crate::processes::WorkerKind;
use esker_types::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::AsFd;

/// The reply to a job or an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer<A> {
    /// Success. For a job: the worker is ready.
    Done(A),
    /// Failure of a program in another language, with the reason.
    Failed(String),
    /// Failure of this program, with the kind of the error and the reason.
    Error(ErrorKind, String),
}

/// A message to a worker after its job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order<S> {
    /// Prepare a step.
    Prepare(S),
    /// Take the step.
    Begin {
        /// The step.
        step: S,
        /// The common start, by the monotonic clock of the node; 0 for at once.
        start_ns: u64,
    },
}

/// The work of a worker process: one job, and its steps.
pub trait Work: Sized {
    /// The first message.
    type Job: DeserializeOwned;
    /// An order for the process.
    type Step: DeserializeOwned;
    /// The reply to a step.
    type Done: Serialize + Default;

    /// Prepares the job.
    ///
    /// # Errors
    /// If the job cannot begin.
    fn begin(job: Self::Job) -> Result<Self>;

    /// Prepares a step, before its time starts.
    ///
    /// # Errors
    /// If the step cannot begin.
    fn prepare(&mut self, _step: &Self::Step) -> Result<()> {
        Ok(())
    }

    /// Takes a step.
    ///
    /// # Errors
    /// Errors of the operations.
    fn take(&mut self, step: Self::Step) -> Result<Self::Done>;

    /// Name of a step in messages of errors; `None` if the messages need no name.
    fn name(_step: &Self::Step) -> Option<String> {
        None
    }
}

/// Serves on standard input and output until the end of the input. The process ends with its parent.
///
/// # Errors
/// Same as [`serve_work`].
pub fn serve(kind: WorkerKind) -> Result<()> {
    end_with_parent()?;
    match kind {
        WorkerKind::Load => serve_stdio::<crate::load::Worker>(),
        WorkerKind::FieldIo => serve_stdio::<crate::field_io::worker::Worker>(),
        WorkerKind::Tx => serve_stdio::<crate::plan::tx::Worker>(),
        WorkerKind::Growth => serve_stdio::<crate::plan::growth::Worker>(),
        WorkerKind::Fields => serve_stdio::<crate::fields::worker::Worker>(),
        WorkerKind::Tensors => serve_stdio::<crate::plan::tensors::Worker>(),
        WorkerKind::Engine => serve_stdio::<crate::plan::engine::Client>(),
        WorkerKind::EngineServer => serve_stdio::<crate::plan::engine::Server>(),
        WorkerKind::S3 => serve_stdio::<crate::plan::s3::Client>(),
        WorkerKind::S3Server => serve_stdio::<crate::plan::s3::Servers>(),
        WorkerKind::Mdtest => serve_stdio::<crate::posix::mdtest::Worker>(),
        WorkerKind::Ior => serve_stdio::<crate::posix::ior::Worker>(),
    }
}

fn serve_stdio<W: Work>() -> Result<()> {
    let answers = take_stdout().doing(|| "preparing standard output")?;
    serve_work::<W>(std::io::stdin().lock(), answers)
}

/// Returns standard output for messages to the main process, and redirects it to standard error for all other code,
/// because the library of DAOS writes its log there.
fn take_stdout() -> std::io::Result<File> {
    let output = std::io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(std::io::stderr())?;
    Ok(output.into())
}

/// Serves a job and its steps until the end of the input.
///
/// # Errors
/// If reading or writing messages fails. Failures of a job or step are replies, not errors.
pub fn serve_work<W: Work>(mut input: impl BufRead, mut output: impl Write) -> Result<()> {
    let Some(job) = receive::<W::Job>(&mut input)? else { return Ok(()) };
    let mut worker = match W::begin(job) {
        Ok(worker) => worker,
        Err(error) => return send(&mut output, &error_answer::<W>(&error)),
    };
    send(&mut output, &Answer::Done(W::Done::default()))?;
    while let Some(order) = receive::<Order<W::Step>>(&mut input)? {
        let answer = match execute(&mut worker, order) {
            Ok(done) => Answer::Done(done),
            Err(error) => error_answer::<W>(&error),
        };
        send(&mut output, &answer)?;
    }
    Ok(())
}

fn error_answer<W: Work>(error: &Error) -> Answer<W::Done> {
    Answer::Error(error.kind(), error.to_string())
}

/// Prepares a step, or takes it at its start time. The text of an error begins with the name of the step.
pub(crate) fn execute<W: Work>(worker: &mut W, order: Order<W::Step>) -> Result<W::Done> {
    let (Order::Prepare(step) | Order::Begin { step, .. }) = &order;
    let name = W::name(step);
    let done = match order {
        Order::Prepare(step) => worker.prepare(&step).map(|()| W::Done::default()),
        Order::Begin { step, start_ns } => {
            wait_until(start_ns);
            worker.take(step)
        }
    };
    match name {
        Some(name) => done.doing(|| name),
        None => done,
    }
}

/// Ends this process when its parent dies, even in the middle of a step. To Linux the parent is the thread that started
/// the process, so the thread that starts [`crate::processes::Processes`] must outlive it.
fn end_with_parent() -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .doing(|| "requesting to end with the parent process")
}

/// Receives a message; `None` at the end of the input.
fn receive<T: DeserializeOwned>(input: &mut impl BufRead) -> Result<Option<T>> {
    let mut line = String::new();
    match input.read_line(&mut line).doing(|| "reading a message of a benchmark")? {
        0 => Ok(None),
        _ => parse(&line).map(Some),
    }
}

/// Parses a message.
pub(crate) fn parse<T: DeserializeOwned>(line: &str) -> Result<T> {
    serde_json::from_str(line)
        .map_err(|error| Error::new(ErrorKind::Invalid, format!("message of a benchmark: {error}")))
}

/// Writes one line.
pub(crate) fn send(output: &mut impl Write, message: &impl Serialize) -> Result<()> {
    let line = serde_json::to_vec(message).map_err(std::io::Error::from);
    line.and_then(|line| output.write_all(&[&line[..], b"\n"].concat()))
        .and_then(|()| output.flush())
        .doing(|| "writing a message of a benchmark")
}
