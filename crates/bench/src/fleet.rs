//! The processes of a benchmark, started from this very program and kept in step over pipes.
use crate::job::{Job, Step};
use crate::measure::Measured;
use crate::worker::{Answer, parse, send};
use esker_types::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// How this program is started again as a helper of a benchmark.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// Arguments with which it calls [`crate::worker::serve`] on its standard input and output.
    pub worker: Vec<OsString>,
    /// Arguments with which it calls [`crate::janitor::serve`]; the folder follows.
    pub janitor: Vec<OsString>,
}

impl Launcher {
    fn start(&self, arguments: &[OsString]) -> Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let doing = || format!("starting {}", self.program.display());
        command.spawn().map_err(|error| Error::io(doing(), &error))
    }

    /// Starts the process that removes `folder` once its standard input ends.
    ///
    /// # Errors
    /// Where the process cannot be started.
    pub fn start_janitor(&self, folder: &Path) -> Result<Child> {
        let mut arguments = self.janitor.clone();
        arguments.push(folder.into());
        self.start(&arguments)
    }
}

/// Worker processes that wait for the same step. They end when this is dropped, or its process dies.
pub struct Fleet {
    workers: Vec<Worker>,
    failed: bool,
}

struct Worker {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Fleet {
    /// Starts one process for each job and waits until all are ready.
    ///
    /// # Errors
    /// Where a process cannot be started, or says why it cannot begin.
    pub fn start(launcher: &Launcher, jobs: &[Job]) -> Result<Self> {
        let workers = jobs.iter().map(|_| Worker::start(launcher)).collect::<Result<_>>()?;
        let mut fleet = Self { workers, failed: false };
        for (worker, job) in fleet.workers.iter_mut().zip(jobs) {
            worker.tell(job)?;
        }
        fleet.hear().map(|_| fleet)
    }

    /// Has all processes take a step at the same time; one entry for each.
    ///
    /// # Errors
    /// What went wrong in the first process in which something did.
    pub fn step(&mut self, step: Step) -> Result<Vec<Measured>> {
        for worker in &mut self.workers {
            worker.tell(&step)?;
        }
        self.hear()
    }

    fn hear(&mut self) -> Result<Vec<Measured>> {
        let heard = self.workers.iter_mut().enumerate().map(|(rank, worker)| {
            worker.hear().map_err(|error| {
                Error::new(error.kind(), format!("process {rank} of the benchmark: {error}"))
            })
        });
        let heard: Result<_> = heard.collect();
        self.failed |= heard.is_err();
        heard
    }
}

impl Worker {
    fn start(launcher: &Launcher) -> Result<Self> {
        let mut process = launcher.start(&launcher.worker)?;
        let input = process.stdin.take();
        let output = process.stdout.take().ok_or_else(gone)?;
        Ok(Self { process, input, output: BufReader::new(output) })
    }

    fn tell(&mut self, message: &impl serde::Serialize) -> Result<()> {
        send(self.input.as_mut().ok_or_else(gone)?, message)
    }

    fn hear(&mut self) -> Result<Measured> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        match read.map_err(|error| Error::io("reading its answer", &error))? {
            0 => Err(gone()),
            _ => match parse(&line)? {
                Answer::Done(measured) => Ok(measured),
                Answer::Failed(why) => Err(Error::new(ErrorKind::Io, why)),
            },
        }
    }
}

impl Drop for Fleet {
    /// Ends idle workers by ending their input; after a failure some may be in the middle of a step.
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
fn gone() -> Error {
    Error::new(ErrorKind::Io, "it has died")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Launcher {
        let worker = ["-c", script].map(OsString::from).to_vec();
        Launcher { program: "/bin/sh".into(), worker, janitor: Vec::new() }
    }

    fn job() -> Job {
        Job {
            rank: 0,
            procs: 2,
            size_bytes: 1,
            ops: 1,
            seed: 0,
            folder: PathBuf::new(),
            seconds: None,
            store: None,
        }
    }

    fn done(ops: u64) -> String {
        serde_json::to_string(&Answer::Done(Measured { ops, ..Measured::default() })).unwrap()
    }

    #[test]
    fn all_processes_take_each_step() {
        let answer = |ops| format!("read line; echo '{}';", done(ops));
        let script = format!("{}{}", answer(0), answer(5));
        let mut fleet = Fleet::start(&shell(&script), &[job(), job()]).unwrap();
        let round = fleet.step(Step::Pread).unwrap();
        assert_eq!(round.iter().map(|one| one.ops).collect::<Vec<_>>(), [5, 5]);
    }

    #[test]
    fn a_process_that_dies_or_refuses_is_told_of() {
        let error = Fleet::start(&shell("read line"), &[job()]).err().unwrap();
        assert_eq!(error.message(), "process 0 of the benchmark: it has died");
        let script = r#"read line; echo '{"failed":"no pool"}'; sleep 1000"#;
        let error = Fleet::start(&shell(script), &[job()]).err().unwrap();
        assert_eq!(error.message(), "process 0 of the benchmark: no pool");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let nothing = Launcher { program: "/no/program".into(), ..shell("") };
        let error = Fleet::start(&nothing, &[job()]).err().unwrap();
        assert!(error.message().contains("/no/program"));
    }
}
