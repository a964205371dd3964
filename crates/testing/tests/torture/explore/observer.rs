//! Processes that use a pool while a writer is stopped, on request of the test.
use super::changes::Plan;
use super::content::{Item, all_items, ordered};
use super::copies;
use super::handles::Handles;
use crate::common::{self, Worker};
use esker_testing::HANG;
use esker_types::Result;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Time after which a process that waits for a lock counts as waiting for the writer.
const WAITING: Duration = Duration::from_millis(30);
/// Time limit for a process that must not wait, on a busy machine too.
const STUCK: Duration = Duration::from_secs(20);
/// Time between two polls of a process that has not answered.
const POLL: Duration = Duration::from_millis(3);

/// Separates the parts of an answer.
const SEPARATOR: char = '\t';
/// Failure of an observer that waits although it must not. It accepts no further requests.
pub(super) const WAITS: &str = "an observer waits for the writer";
/// Prefix of the answer to a request that failed.
const FAILED: &str = "failed: ";

/// A request to an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request<'p> {
    /// Reads all items from the pool, which it has had open from the start.
    Read { turn: u64, put: u64 },
    /// Opens the pool, reads all items, and closes it.
    OpenAndRead { turn: u64, put: u64 },
    /// Puts a number where the writer does not.
    Put { number: u64 },
    /// Expects that no lease remains.
    ExpectAbandoned,
    /// Checks a copy of the pool.
    Check { home: &'p Path, turn: u64, puts: [u64; 2] },
}

impl Request<'_> {
    fn to_line(self) -> String {
        match self {
            Self::Read { turn, put } => format!("read {turn} {put}\n"),
            Self::OpenAndRead { turn, put } => format!("open-and-read {turn} {put}\n"),
            Self::Put { number } => format!("put {number}\n"),
            Self::ExpectAbandoned => "abandoned\n".to_owned(),
            Self::Check { home, turn, puts } => {
                format!("check {turn} {} {} {}\n", puts[0], puts[1], home.display())
            }
        }
    }
}

/// Body of an observer. Arguments: directory, plan, and `open` if it opens the pool at once.
pub(crate) fn run() {
    let arguments = common::arguments();
    let [home, plan @ .., role] = &arguments[..] else { panic!("arguments: {arguments:?}") };
    let (home, plan) = (Path::new(home), Plan::from_arguments(plan));
    let over_nodes = plan.kind.is_over_nodes();
    let mut handles = (role == "open").then(|| open(home, over_nodes).expect("opening"));
    // Requests arrive on the standard input, which is a socket, and answers are sent on it.
    let stream =
        std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned().expect("a socket");
    let mut stream = UnixStream::from(stream);
    writeln!(stream, "ready").expect("answering");
    let requests = BufReader::new(stream.try_clone().expect("a socket"));
    for request in requests.lines() {
        let request = request.expect("a request");
        let answer = catch_unwind(AssertUnwindSafe(|| answer(plan, home, &mut handles, &request)));
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => format!("{FAILED}{error}"),
            Err(panic) => format!("{FAILED}{}", text_of(&*panic)),
        };
        writeln!(stream, "{}", answer.replace('\n', " ")).expect("answering");
    }
}

/// Opens the pool and reads once: the first read gets a reader slot of LMDB.
fn open(home: &Path, over_nodes: bool) -> Result<Handles> {
    let handles = Handles::open(home, over_nodes)?;
    handles.read_all(0, false).map(|_| handles)
}

/// The message of a panic.
fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Executes a request and returns the answer.
fn answer(plan: Plan, home: &Path, open: &mut Option<Handles>, request: &str) -> Result<String> {
    let words: Vec<_> = request.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    match (words[0], open) {
        ("read", Some(handles)) => read(handles, number(1), number(2)),
        ("open-and-read", _) => {
            let handles = Handles::open(home, plan.kind.is_over_nodes())?;
            read(&handles, number(1), number(2))
        }
        ("put", Some(handles)) => handles.put_elsewhere(number(1)).map(|()| String::new()),
        ("abandoned", Some(handles)) => {
            copies::expect_abandoned(plan, handles).map(|()| String::new())
        }
        ("check", _) => {
            let copy = Path::new(words[4]);
            let found = copies::check(plan, copy, number(1), [number(2), number(3)])?;
            Ok(format!("{}{SEPARATOR}{}", join(&found.read), join(&found.salvaged)))
        }
        _ => panic!("unknown request: {request}"),
    }
}

/// Reads all items, and expects that a put of another writer is visible.
fn read(handles: &Handles, turn: u64, put: u64) -> Result<String> {
    let found = handles.read_all(turn, false)?;
    // Reading the other item over nodes resolves the commits that are in doubt.
    if matches!(handles, Handles::One(_)) {
        let last = handles.last_elsewhere()?;
        assert!(last >= put, "put {put} was acknowledged, the last one that is visible is {last}");
    }
    Ok(join(&found))
}

/// The texts of items as one line.
fn join(found: &[(Item, String)]) -> String {
    let texts: Vec<_> = found.iter().map(|(_, text)| text.as_str()).collect();
    texts.join(&SEPARATOR.to_string())
}

/// Splits an answer into the items of each read, in the order of the turn.
pub(super) fn split(plan: Plan, answer: &str, turn: u64) -> Vec<Vec<(Item, String)>> {
    let items = ordered(all_items(plan.kind.is_over_nodes()), turn);
    let texts: Vec<_> = answer.split(SEPARATOR).map(str::to_owned).collect();
    assert!(texts.len().is_multiple_of(items.len()), "an answer: {answer}");
    texts
        .chunks(items.len())
        .map(|read| items.iter().copied().zip(read.iter().cloned()).collect())
        .collect()
}

/// State of a request.
pub(super) enum Answer {
    /// Answered; the text of an error if it failed.
    Given(std::result::Result<String, String>),
    /// The observer waits for a lock or for another process.
    Waits,
}

/// Handle of an observer process.
pub(super) struct Observer {
    worker: Worker,
    stream: BufReader<UnixStream>,
    line: String,
}

impl Observer {
    /// Starts an observer; with `open`, it opens the pool at once.
    pub(super) fn start(plan: Plan, home: &Path, open: bool) -> Self {
        let (ours, theirs) = UnixStream::pair().expect("a socket");
        let role = if open { "open" } else { "closed" };
        let arguments = format!("{} {} {role}", home.display(), plan.to_arguments());
        let set = |command: &mut Command| {
            command.stdin(OwnedFd::from(theirs));
        };
        let worker = Worker::start_with("explore-observe", &arguments, set);
        ours.set_read_timeout(Some(POLL)).expect("a timeout");
        let mut observer = Self { worker, stream: BufReader::new(ours), line: String::new() };
        assert!(matches!(observer.await_answer(), Ok(ready) if ready == "ready"));
        observer
    }

    /// Sends a request. The last one must have been answered.
    pub(super) fn ask(&mut self, request: Request<'_>) {
        let sent = self.stream.get_mut().write_all(request.to_line().as_bytes());
        sent.expect("asking an observer");
    }

    /// Sends a request and waits for its answer.
    pub(super) fn expect(&mut self, request: Request<'_>) -> std::result::Result<String, String> {
        self.ask(request);
        self.await_answer()
    }

    /// Waits for the answer.
    pub(super) fn await_answer(&mut self) -> std::result::Result<String, String> {
        match self.poll(STUCK) {
            Answer::Given(answer) => answer,
            Answer::Waits => Err(WAITS.to_owned()),
        }
    }

    /// Waits for the answer, or until it is certain that the observer waits for the writer. If it has waited before and
    /// sleeps, it still waits.
    pub(super) fn await_answer_or_wait(&mut self, has_waited: bool) -> Answer {
        self.poll(if has_waited { Duration::ZERO } else { WAITING })
    }

    /// Waits for the answer. After `limit`, returns [`Answer::Waits`] as soon as the observer waits for a lock.
    fn poll(&mut self, limit: Duration) -> Answer {
        let begun = Instant::now();
        loop {
            match self.stream.read_line(&mut self.line) {
                Ok(0) => return Answer::Given(Err("the process has ended".to_owned())),
                Ok(_) => return Answer::Given(self.take_line()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("an answer: {error}"),
            }
            if begun.elapsed() > limit && self.is_blocked() {
                return Answer::Waits;
            }
            assert!(begun.elapsed() <= HANG, "an observer neither answers nor waits");
        }
    }

    /// The line that was read, as the result of the request.
    fn take_line(&mut self) -> std::result::Result<String, String> {
        let line = std::mem::take(&mut self.line);
        let line = line.trim_end_matches('\n');
        match line.strip_prefix(FAILED) {
            Some(text) => Err(text.to_owned()),
            None => Ok(line.to_owned()),
        }
    }

    /// True if the observer sleeps in a system call that waits for a lock.
    fn is_blocked(&self) -> bool {
        let call = std::fs::read_to_string(format!("/proc/{}/syscall", self.worker.0.id()));
        let call = call.unwrap_or_default();
        let number = call.split(' ').next().and_then(|number| number.parse().ok());
        matches!(number, Some(libc::SYS_futex | libc::SYS_fcntl))
    }

    /// Makes the observer close the pool and end.
    pub(super) fn finish(mut self) {
        let _ = self.stream.get_mut().shutdown(std::net::Shutdown::Both);
        self.worker.finish_soon();
    }
}
