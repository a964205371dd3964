//! The processes of a benchmark. They run this program and are synchronized over pipes.
use crate::interrupt;
use crate::job::LoadStep;
use crate::measure::Measured;
use crate::names::Named;
use crate::worker::{Answer, parse, send};
use esker_types::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// How to start the worker processes of a benchmark.
#[derive(Clone, Debug, Default)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// Arguments that make it serve as a worker on its standard input and output.
    pub worker: Vec<OsString>,
    /// Environment variables that its processes get in addition.
    pub variables: Vec<(String, String)>,
}

/// The kinds of workers: `esker-bench worker KIND` serves as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WorkerKind {
    /// Array and kv, and the limit of the medium
    Load,
    /// Field-io and segments
    FieldIo,
    /// Transactions
    Tx,
    /// Stores that grow
    Growth,
    /// Field stores
    Fields,
    /// Tensor stores
    Tensors,
    /// Pools through an engine
    Engine,
    /// Pools by S3
    S3,
    /// Mdtest and ior
    Posix,
}

/// The command `esker`: the one that started this program, else the one beside it or on PATH.
///
/// # Errors
/// [`ErrorKind::NotFound`], with the remedy.
pub fn esker_program() -> Result<PathBuf> {
    let given = std::env::var_os("ESKER").map(PathBuf::from);
    given.or_else(|| esker_cli::programs::companion("esker")).ok_or_else(|| {
        let message = "the command esker is neither beside esker-bench nor on PATH: install both, or name it in the variable ESKER";
        Error::new(ErrorKind::NotFound, message)
    })
}

/// This program.
fn own_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| Error::io("finding this program", &error))
}

impl Launcher {
    /// Starts this program again as a worker.
    ///
    /// # Errors
    /// If the path of this program is unknown.
    pub fn for_kind(kind: WorkerKind) -> Result<Self> {
        let worker = vec!["worker".into(), kind.name().into()];
        Ok(Self { program: own_program()?, worker, variables: Vec::new() })
    }

    /// The process gets a group of its own. Ctrl-C then reaches only the main process, which ends the others.
    fn start(&self) -> Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.worker).envs(self.variables.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let doing = || format!("starting {}", self.program.display());
        command.spawn().map_err(|error| Error::io(doing(), &error))
    }
}

/// Starts the process that removes `folder` at the end of its standard input.
///
/// # Errors
/// If the process cannot be started.
pub(crate) fn start_janitor(folder: &Path) -> Result<Child> {
    let worker = vec!["janitor".into(), folder.into()];
    Launcher { program: own_program()?, worker, variables: Vec::new() }.start()
}

/// Worker processes that take the same steps. They end when this value is dropped or its process dies.
pub struct Processes {
    workers: Vec<Worker>,
    failed: bool,
}

struct Worker {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Processes {
    /// Starts one process for each job and waits until all are ready.
    ///
    /// # Errors
    /// If a process cannot be started, or reports that it cannot begin.
    pub fn start(launcher: &Launcher, jobs: &[impl Serialize]) -> Result<Self> {
        let workers = jobs.iter().map(|_| Worker::start(launcher)).collect::<Result<_>>()?;
        let mut processes = Self { workers, failed: false };
        processes.ask::<IgnoredAny>(jobs).map(|_| processes)
    }

    /// Starts a process for each rank.
    ///
    /// # Errors
    /// Same as [`Processes::start`].
    pub fn start_ranks<J: Serialize>(
        launcher: &Launcher,
        procs: u32,
        job: impl Fn(u32) -> J,
    ) -> Result<Self> {
        Self::start(launcher, &(0..procs).map(job).collect::<Vec<_>>())
    }

    /// Number of processes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.workers.len()
    }

    /// Sends all processes the same message. Returns one reply per process.
    ///
    /// # Errors
    /// The first error that a process reports.
    pub fn ask_all<D: DeserializeOwned>(
        &mut self,
        message: impl Serialize + Clone,
    ) -> Result<Vec<D>> {
        self.ask(&vec![message; self.workers.len()])
    }

    /// Makes all processes take a step at the same time. Returns one entry per process.
    ///
    /// # Errors
    /// The first error that a process reports.
    pub fn step(&mut self, step: LoadStep) -> Result<Vec<Measured>> {
        self.ask_all(step)
    }

    /// Sends each process its message, then waits for all answers. Returns one answer per process.
    ///
    /// # Errors
    /// The first error that a process reports; [`ErrorKind::Canceled`] if this process receives a signal to end.
    pub fn ask<A: DeserializeOwned>(&mut self, messages: &[impl Serialize]) -> Result<Vec<A>> {
        let mut sent = self.workers.iter_mut().zip(messages).enumerate();
        let sent = sent
            .try_for_each(|(rank, (worker, message))| named(rank, worker.send_message(message)));
        let answers = sent.and_then(|()| self.receive_answers());
        self.failed |= answers.is_err();
        answers
    }

    /// Reads answers in the order of arrival, so that it detects a process that ends while others work.
    fn receive_answers<A: DeserializeOwned>(&mut self) -> Result<Vec<A>> {
        let mut answers: Vec<Option<A>> = self.workers.iter().map(|_| None).collect();
        while answers.iter().any(Option::is_none) {
            for rank in self.ready(&answers)? {
                if let (Some(worker), Some(slot)) =
                    (self.workers.get_mut(rank), answers.get_mut(rank))
                {
                    *slot = Some(named(rank, worker.receive_answer())?);
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Processes with an unread answer. Returns an empty list after [`SIGNAL_CHECK_INTERVAL`].
    fn ready<A>(&self, answers: &[Option<A>]) -> Result<Vec<usize>> {
        interrupt::check()?;
        let silent =
            || (0..answers.len()).filter(|&rank| answers.get(rank).is_some_and(Option::is_none));
        let output = |rank: usize| self.workers.get(rank).map(|worker| worker.output.get_ref());
        let mut polled: Vec<_> =
            silent().filter_map(output).map(|output| PollFd::new(output, PollFlags::IN)).collect();
        match poll(&mut polled, Some(&SIGNAL_CHECK_INTERVAL)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::io("waiting for processes", &error.into())),
        }
        let ready = silent().zip(&polled).filter(|(_, polled)| !polled.revents().is_empty());
        Ok(ready.map(|(rank, _)| rank).collect())
    }
}

/// Interval at which a wait checks for signals.
const SIGNAL_CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

fn named<T>(rank: usize, result: Result<T>) -> Result<T> {
    result.map_err(|error| {
        Error::new(error.kind(), format!("process {rank} of the benchmark: {error}"))
    })
}

impl Worker {
    fn start(launcher: &Launcher) -> Result<Self> {
        let mut process = launcher.start()?;
        let input = process.stdin.take();
        let output = process.stdout.take().ok_or_else(ended_error)?;
        Ok(Self { process, input, output: BufReader::new(output) })
    }

    fn send_message(&mut self, message: &impl Serialize) -> Result<()> {
        send(self.input.as_mut().ok_or_else(ended_error)?, message).map_err(|_| ended_error())
    }

    fn receive_answer<A: DeserializeOwned>(&mut self) -> Result<A> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        match read.map_err(|error| Error::io("reading its answer", &error))? {
            0 => Err(ended_error()),
            _ => match parse(&line)? {
                Answer::Done(answer) => Ok(answer),
                Answer::Failed(why) => Err(Error::new(ErrorKind::Io, why)),
            },
        }
    }
}

impl Drop for Processes {
    /// Ends idle workers by closing their input. After a failure, workers may be in the middle of a step, and are
    /// killed.
    fn drop(&mut self) {
        for worker in &mut self.workers {
            drop(worker.input.take());
            if self.failed {
                let _ = worker.process.kill();
            }
        }
        for worker in &mut self.workers {
            let _ = worker.process.wait();
        }
    }
}

#[cold]
fn ended_error() -> Error {
    Error::new(ErrorKind::Io, "it has ended unexpectedly")
}

/// Attempts to remove a directory while the last workers end.
const REMOVALS: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(100);

/// Cleans up after a benchmark, however it ended. Waits for the end of `input`, which the kernel closes with the
/// benchmark's process, then removes `folder` with its contents. Returns true if the directory no longer exists.
pub fn serve_janitor(mut input: impl Read, folder: &Path) -> bool {
    let mut rest = [0; 64];
    while matches!(input.read(&mut rest), Ok(1..)) {}
    for _ in 0..REMOVALS {
        let _ = std::fs::remove_dir_all(folder);
        if !folder.exists() {
            return true;
        }
        std::thread::sleep(REMOVAL_PAUSE);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Job;

    fn shell(script: &str) -> Launcher {
        let worker = ["-c", script].map(OsString::from).to_vec();
        Launcher {
            program: "/bin/sh".into(),
            worker,
            variables: vec![("SAID".to_owned(), "6".to_owned())],
        }
    }

    fn job() -> Job {
        Job { procs: 2, size_bytes: 1, ops: 1, ..Job::default() }
    }

    fn done_answer(ops: u64) -> String {
        serde_json::to_string(&Answer::Done(Measured { ops, ..Measured::default() })).unwrap()
    }

    #[test]
    fn all_processes_take_each_step() {
        let answer = |ops| format!("read line; echo '{}';", done_answer(ops));
        let script = format!("test $SAID = 6 && {{ {}{} }}", answer(0), answer(5));
        let mut processes = Processes::start(&shell(&script), &[job(), job()]).unwrap();
        let round = processes.step(LoadStep::Pread).unwrap();
        assert_eq!(round.iter().map(|one| one.ops).collect::<Vec<_>>(), [5, 5]);
    }

    #[test]
    fn death_or_error_of_process_is_reported() {
        let error = Processes::start(&shell("read line"), &[job()]).err().unwrap();
        assert_eq!(error.message(), "process 0 of the benchmark: it has ended unexpectedly");
        let script = r#"read line; echo '{"failed":"no pool"}'; exec sleep 1000"#;
        let error = Processes::start(&shell(script), &[job()]).err().unwrap();
        assert_eq!(error.message(), "process 0 of the benchmark: no pool");
    }

    #[test]
    fn error_names_missing_program() {
        let nothing = Launcher { program: "/no/program".into(), ..shell("") };
        let error = Processes::start(&nothing, &[job()]).err().unwrap();
        assert!(error.message().contains("/no/program"));
    }

    #[test]
    fn janitor_removes_folder_at_end_of_input() {
        let folder = std::env::temp_dir().join(format!("esker-janitor-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("within")).unwrap();
        assert!(serve_janitor("some words".as_bytes(), &folder));
        assert!(!folder.exists());
        assert!(serve_janitor("".as_bytes(), &folder));
    }
}
