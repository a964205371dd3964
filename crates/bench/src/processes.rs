//! The processes of a benchmark. They run this program and are synchronized over pipes.
use crate::clock::monotonic_ns;
use crate::errors::Doing;
use crate::interrupt;
use crate::names::Named;
use crate::worker::{Answer, Order, parse, send};
use esker_types::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::marker::PhantomData;
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
    /// The engine of a pool
    EngineServer,
    /// Pools by S3
    S3,
    /// The server of a pool by S3
    S3Server,
    /// Names, as mdtest
    Mdtest,
    /// Transfers, as ior
    Ior,
}

/// The command `esker`: the one that started this program, else the one beside it or on PATH.
pub fn esker_program() -> Result<PathBuf> {
    let given = std::env::var_os("ESKER").map(PathBuf::from);
    given.or_else(|| esker_cli::programs::companion("esker")).ok_or_else(|| {
        let message = "the command esker is neither beside esker-bench nor on PATH: install both, or name it in the variable ESKER";
        Error::new(ErrorKind::NotFound, message)
    })
}

impl Launcher {
    /// Starts this program again as a worker, whose kind follows.
    pub fn new() -> Result<Self> {
        Self::for_words(vec!["worker".into()])
    }

    /// Starts this program again as a worker of this kind.
    pub fn for_kind(kind: WorkerKind) -> Result<Self> {
        Ok(Self::new()?.with_kind(kind))
    }

    /// Adds the kind of the worker.
    pub fn with_kind(mut self, kind: WorkerKind) -> Self {
        self.worker.push(kind.name().into());
        self
    }

    /// Starts this program again with these arguments.
    fn for_words(worker: Vec<OsString>) -> Result<Self> {
        let program = std::env::current_exe().doing(|| "finding this program")?;
        Ok(Self { program, worker, variables: Vec::new() })
    }

    /// Starts the worker in its own process group. Ctrl-C then reaches only the main process, which ends the workers.
    fn start(&self) -> Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.worker).envs(self.variables.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        command.spawn().doing(|| format!("starting {}", self.program.display()))
    }
}

/// Starts the process that removes `folder` at the end of its standard input.
pub(crate) fn start_janitor(folder: &Path) -> Result<Child> {
    Launcher::for_words(vec!["janitor".into(), folder.into()])?.start()
}

/// Worker processes that take steps `S` and reply with `D`. They end when this value is dropped or its process dies.
pub struct Processes<S, D> {
    workers: Vec<Process>,
    failed: bool,
    messages: PhantomData<fn(S) -> D>,
}

struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl<S: Serialize, D: DeserializeOwned> Processes<S, D> {
    /// Starts a worker of this kind for each job and waits until all are ready.
    pub fn launch(
        kind: WorkerKind,
        jobs: impl IntoIterator<Item = impl Serialize>,
    ) -> Result<Self> {
        Self::start(&Launcher::for_kind(kind)?, jobs)
    }

    /// Starts one process for each job and waits until all are ready.
    pub fn start(
        launcher: &Launcher,
        jobs: impl IntoIterator<Item = impl Serialize>,
    ) -> Result<Self> {
        let jobs: Vec<_> = jobs.into_iter().collect();
        let workers = jobs.iter().map(|_| Process::start(launcher)).collect::<Result<_>>()?;
        let mut processes = Self { workers, failed: false, messages: PhantomData };
        processes.ask(&jobs).map(|_| processes)
    }

    /// Number of processes.
    pub fn count(&self) -> usize {
        self.workers.len()
    }

    /// Makes all processes take the same step, each as soon as it reads the message. Returns one reply per process.
    pub fn all(&mut self, step: S) -> Result<Vec<D>> {
        self.ask(&vec![Order::Begin { step: &step, start_ns: 0 }; self.count()])
    }

    /// Makes each process take its step, as soon as it reads the message.
    pub fn each(&mut self, steps: &[S]) -> Result<Vec<D>> {
        self.begin(steps, 0)
    }

    /// Makes the first process take a step, and returns its reply.
    pub fn first(&mut self, step: S) -> Result<D> {
        let done = self.begin(&[step], 0)?;
        done.into_iter().next().ok_or_else(ended_error)
    }

    /// Makes each process prepare its step, then makes all take their steps at the same time.
    pub fn together(&mut self, steps: &[S]) -> Result<Vec<D>> {
        self.ask(&steps.iter().map(Order::Prepare).collect::<Vec<_>>())?;
        self.begin(steps, start_ns(steps.len()))
    }

    /// Makes the first `steps.len()` processes take their steps at the time `start_ns`. The others wait for the next
    /// message.
    fn begin(&mut self, steps: &[S], start_ns: u64) -> Result<Vec<D>> {
        self.ask(&steps.iter().map(|step| Order::Begin { step, start_ns }).collect::<Vec<_>>())
    }

    /// Sends the first processes a message each, then waits for their answers.
    ///
    /// # Errors
    /// The first error that a process reports; [`ErrorKind::Canceled`] if this process receives a signal to end.
    fn ask(&mut self, messages: &[impl Serialize]) -> Result<Vec<D>> {
        let mut sent = self.workers.iter_mut().zip(messages).enumerate();
        let sent = sent
            .try_for_each(|(rank, (worker, message))| named(rank, worker.send_message(message)));
        let answers = sent.and_then(|()| self.receive_answers(messages.len()));
        self.failed |= answers.is_err();
        answers
    }

    /// Reads answers in the order of arrival, so that it detects a process that ends while others work.
    fn receive_answers(&mut self, count: usize) -> Result<Vec<D>> {
        let mut answers: Vec<Option<D>> = self.workers.iter().take(count).map(|_| None).collect();
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
    fn ready(&self, answers: &[Option<D>]) -> Result<Vec<usize>> {
        interrupt::check()?;
        let silent = (0..).zip(answers).filter(|(_, answer)| answer.is_none());
        let silent: Vec<usize> = silent.map(|(rank, _)| rank).collect();
        let workers = silent.iter().filter_map(|&rank| self.workers.get(rank));
        let mut polled: Vec<_> =
            workers.map(|worker| PollFd::new(worker.output.get_ref(), PollFlags::IN)).collect();
        match poll(&mut polled, Some(&SIGNAL_CHECK_INTERVAL)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::io("waiting for processes", &error.into())),
        }
        let ready = silent.into_iter().zip(&polled);
        let ready = ready.filter(|(_, polled)| !polled.revents().is_empty());
        Ok(ready.map(|(rank, _)| rank).collect())
    }
}

/// Time between sending a start time and the start. Each of `procs` processes must read the message from its pipe
/// before.
pub(crate) fn notice_ns(procs: usize) -> u64 {
    2_000_000 + 50_000 * procs as u64
}

/// A common start for `procs` processes, by the monotonic clock.
pub(crate) fn start_ns(procs: usize) -> u64 {
    monotonic_ns() + notice_ns(procs)
}

/// Interval at which a wait checks for signals.
const SIGNAL_CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Names the process in an error.
fn named<T>(rank: usize, result: Result<T>) -> Result<T> {
    result.doing(|| format!("process {rank} of the benchmark"))
}

impl Process {
    /// Starts a process, and takes its pipes.
    fn start(launcher: &Launcher) -> Result<Self> {
        let mut child = launcher.start()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(ended_error)?;
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    fn send_message(&mut self, message: &impl Serialize) -> Result<()> {
        send(self.input.as_mut().ok_or_else(ended_error)?, message).map_err(|_| ended_error())
    }

    /// Waits for the answer of a process. Fails if the process has ended or reports an error.
    fn receive_answer<A: DeserializeOwned>(&mut self) -> Result<A> {
        let mut line = String::new();
        match self.output.read_line(&mut line).doing(|| "reading its answer")? {
            0 => Err(ended_error()),
            _ => match parse(&line)? {
                Answer::Done(answer) => Ok(answer),
                Answer::Failed(why) => Err(Error::new(ErrorKind::Io, why)),
                Answer::Error(kind, why) => Err(Error::new(kind, why)),
            },
        }
    }
}

impl<S, D> Drop for Processes<S, D> {
    /// Ends idle workers by closing their input. After a failure, workers may be in the middle of a step, and are
    /// killed.
    fn drop(&mut self) {
        for worker in &mut self.workers {
            drop(worker.input.take());
            if self.failed {
                let _ = worker.child.kill();
            }
        }
        for worker in &mut self.workers {
            let _ = worker.child.wait();
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
    use crate::measure::Measured;

    fn shell(script: &str) -> Launcher {
        let worker = ["-c", script].map(OsString::from).to_vec();
        Launcher {
            program: "/bin/sh".into(),
            worker,
            variables: vec![("SAID".to_owned(), "6".to_owned())],
        }
    }

    fn start(script: &str, jobs: &[&str]) -> Result<Processes<&'static str, Measured>> {
        Processes::start(&shell(script), jobs)
    }

    fn done_answer(ops: u64) -> String {
        serde_json::to_string(&Answer::Done(Measured { ops, ..Measured::default() })).unwrap()
    }

    #[test]
    fn all_processes_take_each_step() {
        let answer = |ops| format!("read line; echo '{}';", done_answer(ops));
        let script = format!("test $SAID = 6 && {{ {}{} }}", answer(0), answer(5));
        let round = start(&script, &["job"; 2]).unwrap().all("step").unwrap();
        assert_eq!(round.iter().map(|one| one.ops).collect::<Vec<_>>(), [5, 5]);
    }

    #[test]
    fn death_or_error_of_process_is_reported() {
        let error = start("read line", &["job"]).err().unwrap();
        assert_eq!(error.message(), "process 0 of the benchmark: it has ended unexpectedly");
        let script = r#"read line; echo '{"failed":"no pool"}'; exec sleep 1000"#;
        let error = start(script, &["job"]).err().unwrap();
        assert_eq!(error.message(), "process 0 of the benchmark: no pool");
        let script = r#"read line; echo '{"error":["NoSpace","full"]}'; exec sleep 1000"#;
        let error = start(script, &["job"]).err().unwrap();
        let expected = (ErrorKind::NoSpace, "process 0 of the benchmark: full");
        assert_eq!((error.kind(), error.message()), expected);
    }

    #[test]
    fn error_names_missing_program() {
        let nothing = Launcher { program: "/no/program".into(), ..shell("") };
        let error = Processes::<(), ()>::start(&nothing, ["job"]).err().unwrap();
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
