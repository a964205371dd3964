//! The tree of starters on other nodes. Each starts several more, so that many nodes take little longer than one.
use super::order::{Down, Order, Own, Place, Reach, State, Up, to_line};
use esker::types::ErrorKind;
use esker_os::start_thread;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Most bytes of a starter's standard error that are read for an error message.
const STDERR_BYTES_MAX: u64 = 1 << 16;

/// Starters that this process has started.
pub(crate) struct Tree(Vec<Branch>);

/// A starter, with all starters below it.
struct Branch {
    to: Sender<String>,
    threads: [JoinHandle<()>; 2],
}

impl Tree {
    /// Starts starters for all of `places`: at most [`Order::fanout`] directly. Their messages are sent to `reports`.
    pub(crate) fn grow(order: &Order, places: &[Place], reports: &Sender<Up>) -> Self {
        let branches = split(places, order.fanout).into_iter().filter_map(|places| {
            let first = places.first()?;
            let order = Order { places: places.to_vec(), own: Own::First, ..order.clone() };
            let pending = Pending::for_places(places, reports, None);
            Branch::start(command(&order, first), Stdio::piped(), order, pending)
        });
        Self(branches.collect())
    }

    /// Runs one launcher that starts a starter on each node. The launcher outlives this process, so its standard error
    /// is written to `log`.
    pub(crate) fn by_launcher(
        launcher: Command,
        log: &Path,
        order: Order,
        reports: &Sender<Up>,
    ) -> Self {
        let pending = Pending::for_places(&order.places, reports, Some(log.to_owned()));
        let errors = File::create(log).map_or_else(|_| Stdio::null(), Stdio::from);
        Self(Branch::start(launcher, errors, order, pending).into_iter().collect())
    }

    /// Sends a message to all starters below this one.
    pub(crate) fn tell(&self, what: &Down) {
        let line = to_line(what);
        for branch in &self.0 {
            // A starter that has ended reports that itself.
            let _ = branch.to.send(line.clone());
        }
    }

    /// Closes the input of the starters, and waits until they have ended.
    pub(crate) fn end(self) {
        let threads: Vec<_> = self.0.into_iter().map(|Branch { threads, .. }| threads).collect();
        for thread in threads.into_iter().flatten() {
            let _ = thread.join();
        }
    }

    /// Closes the input of the starters by dropping the senders of their threads, and does not wait for them.
    pub(crate) fn leave(self) {}
}

impl Branch {
    /// Runs a command that is to become a starter. If it cannot be run, its nodes are reported to have failed.
    fn start(
        mut command: Command,
        errors: Stdio,
        order: Order,
        mut pending: Pending,
    ) -> Option<Self> {
        // An interrupt from the terminal must reach this process only, which then ends the starters in order.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors).process_group(0);
        let ((to, lines), (input, inputs), (starter, starters)) =
            (channel::<String>(), channel(), channel());
        // The threads exist before the starter: one without them would stay.
        let writer = start_thread(move || inputs.iter().for_each(|to| write_lines(to, &lines)));
        let reader = start_thread(move || {
            starters.iter().for_each(|(child, pending)| relay(child, pending));
        });
        let threads = match (writer, reader) {
            (Ok(writer), Ok(reader)) => [writer, reader],
            (Err(error), _) | (_, Err(error)) => {
                pending.fail(error.message());
                return None;
            }
        };
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let program = command.get_program().to_string_lossy().into_owned();
                pending.fail(&format!("running {program}: {error}"));
                return None;
            }
        };
        let _ = to.send(to_line(&Down::Start(Box::new(order))));
        let _ = input.send(child.stdin.take());
        let _ = starter.send((child, pending));
        Some(Self { to, threads })
    }
}

/// The command that starts a starter for the first place of an order.
fn command(order: &Order, first: &Place) -> Command {
    let mut command = match &order.reach {
        Reach::Local => Command::new(&order.program),
        Reach::Shell(words) => {
            let program = words.first().map_or("ssh", String::as_str);
            let mut command = Command::new(program);
            command.args(words.iter().skip(1)).arg(&first.host);
            // The shell on the other node parses this word.
            command.arg(quoted(&order.program.to_string_lossy()));
            command
        }
        // MPI passes standard input to the first process of a command only, so each node gets its own command.
        Reach::Mpi(words) => {
            let program = words.first().map_or("mpirun", String::as_str);
            let mut command = Command::new(program);
            command.args(words.iter().skip(1)).args(["-n", "1", "-host", &first.host]);
            command.arg(&order.program);
            command
        }
    };
    command.args(["engine", "start"]);
    command
}

/// Quotes a word so that a shell takes it literally.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Divides the places into at most `parts` slices whose lengths differ by at most one.
fn split(places: &[Place], parts: usize) -> Vec<&[Place]> {
    bounds(places.len(), parts).map(|range| &places[range]).collect()
}

/// Ranges that split `count` places into at most `parts` ranges of nearly the same size.
pub fn bounds(count: usize, parts: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = parts.clamp(1, count.max(1));
    (0..parts).map(move |part| count * part / parts..count * (part + 1) / parts)
}

/// Writes each line to the standard input of a starter below, until there are no more or that starter has ended.
fn write_lines(input: Option<impl Write>, lines: &Receiver<String>) {
    let Some(mut input) = input else { return };
    for line in lines {
        if input.write_all(line.as_bytes()).and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}

/// Forwards the messages of a starter. When the starter ends, its nodes without a last report are reported as failed.
fn relay(mut child: Child, mut pending: Pending) {
    let errors = child.stderr.take();
    let errors = start_thread(move || errors.map(read_stderr).unwrap_or_default());
    let out = child.stdout.take().map(BufReader::new);
    let mut others = String::new();
    for line in out.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(up) => pending.report(up),
            // Another line, for example output of the shell when it starts.
            Err(_) => others = line,
        }
    }
    let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
    let mut errors = errors.ok().and_then(|errors| errors.join().ok()).unwrap_or_default();
    // The standard error of a launcher is this file.
    if let Some(log) = &pending.log {
        errors = std::fs::read_to_string(log).unwrap_or_default();
    }
    let why = [last_line(&errors), &others].into_iter().find(|why| !why.is_empty());
    pending.fail(why.unwrap_or(&format!("its starter ended: {status}")));
}

/// The text that a starter wrote to standard error, up to a limit.
fn read_stderr(errors: impl Read) -> String {
    let mut text = Vec::new();
    let _ = errors.take(STDERR_BYTES_MAX).read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn last_line(text: &str) -> &str {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim_start_matches("esker: ")
}

/// Nodes of a branch that have not sent their last report.
struct Pending {
    nodes: BTreeSet<u32>,
    reports: Sender<Up>,
    /// File with the standard error of the launcher.
    log: Option<PathBuf>,
}

impl Pending {
    fn for_places(places: &[Place], reports: &Sender<Up>, log: Option<PathBuf>) -> Self {
        let nodes = places.iter().map(|place| place.number).collect();
        Self { nodes, reports: reports.clone(), log }
    }

    /// Passes a report on to the parent.
    fn report(&mut self, up: Up) {
        if up.state.is_last() {
            self.nodes.remove(&up.node);
        }
        let _ = self.reports.send(up);
    }

    /// Reports all nodes of the branch without a last report as failed.
    fn fail(&mut self, message: &str) {
        for node in std::mem::take(&mut self.nodes) {
            let state = State::Failed { kind: ErrorKind::Io, message: message.to_owned() };
            let _ = self.reports.send(Up { node, state });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_split_evenly() {
        let places: Vec<_> = (0..20)
            .map(|number| Place { number, name: String::new(), host: String::new() })
            .collect();
        let sizes = |parts| split(&places, parts).iter().map(|part| part.len()).collect::<Vec<_>>();
        assert_eq!(sizes(8), [2, 3, 2, 3, 2, 3, 2, 3]);
        assert_eq!(sizes(100), [1; 20]);
        assert_eq!(split(&places, 3).concat(), places);
        assert!(split(&places[..0], 8).concat().is_empty());
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(quoted("/a b/c"), "'/a b/c'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
