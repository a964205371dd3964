//! Journal of a client: its requests, the answers, and their times. It is a file, so that it survives the client.
//!
//! `? 17 put 3 5` is a request at moment 17, and the next line, `! 21 ok`, its answer at moment 21. A request without
//! an answer has an unknown result.
use crate::words::Words;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;

/// Words that the clients of a round share: the moment, the number of ready clients, the number of ended ones, and the
/// phase.
const MOMENT: usize = 0;
const READY: usize = 1;
const ENDED: usize = 2;
const PHASE: usize = 3;
const COUNT: usize = 4;

/// Phases of a round, after the one in which clients open the pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Work = 1,
    End = 2,
}

/// The clock of a round. By it, clients begin and end at the same time.
pub(super) struct Clock(Words);

impl Clock {
    fn path(folder: &Path, round: u64) -> PathBuf {
        folder.join(format!("clock-{round}"))
    }

    pub(super) fn create(folder: &Path, round: u64) -> Self {
        Self(Words::create(&Self::path(folder, round), COUNT))
    }

    pub(super) fn open(folder: &Path, round: u64) -> Self {
        Self(Words::open(&Self::path(folder, round)))
    }

    /// A moment after all earlier ones, in any process.
    pub(super) fn next_moment(&self) -> u64 {
        self.0[MOMENT].fetch_add(1, SeqCst) + 1
    }

    /// The last moment that was drawn.
    pub(super) fn last_moment(&self) -> u64 {
        self.0[MOMENT].load(SeqCst)
    }

    /// Notes that a client is ready.
    pub(super) fn note_ready(&self) {
        self.0[READY].fetch_add(1, SeqCst);
    }

    /// The number of clients that are or were ready.
    pub(super) fn ready(&self) -> u64 {
        self.0[READY].load(SeqCst)
    }

    /// Notes that a client has done all its operations.
    pub(super) fn note_end(&self) {
        self.0[ENDED].fetch_add(1, SeqCst);
    }

    /// The number of clients that have done all their operations.
    pub(super) fn ended(&self) -> u64 {
        self.0[ENDED].load(SeqCst)
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.0[PHASE].store(phase as u64, SeqCst);
    }

    /// True from the beginning of a phase on.
    pub(super) fn has_entered(&self, phase: Phase) -> bool {
        self.0[PHASE].load(SeqCst) >= phase as u64
    }
}

/// A request, its answer, and their moments.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) client: u64,
    pub(super) begin: u64,
    pub(super) request: String,
    /// `None` if the result is unknown.
    pub(super) answer: Option<(u64, String)>,
}

/// The journal of a living client.
pub(super) struct Journal<'c> {
    file: File,
    clock: &'c Clock,
}

fn path(folder: &Path, round: u64, client: u64) -> PathBuf {
    folder.join(format!("journal-{round}-{client}"))
}

impl<'c> Journal<'c> {
    pub(super) fn create(folder: &Path, round: u64, client: u64, clock: &'c Clock) -> Self {
        let file = File::create_new(path(folder, round, client)).expect("creating a journal");
        Self { file, clock }
    }

    /// The moment at which the next request begins.
    pub(super) fn begin(&self) -> u64 {
        self.clock.next_moment()
    }

    /// Notes a request before it is sent. Its parts that change nothing may have been sent since `begin`.
    pub(super) fn note_request(&mut self, begin: u64, request: &str) {
        self.note(&format!("? {begin} {request}\n"));
    }

    /// Notes the answer to the last request.
    pub(super) fn note_answer(&mut self, answer: &str) {
        let end = self.clock.next_moment();
        self.note(&format!("! {end} {answer}\n"));
    }

    fn note(&mut self, line: &str) {
        self.file.write_all(line.as_bytes()).expect("writing to a journal");
    }
}

/// The journals of the first `clients` clients of a round. Some were killed before they had one.
pub(super) fn read(folder: &Path, round: u64, clients: u64) -> Vec<Entry> {
    let texts = (0..clients).filter_map(|client| {
        std::fs::read_to_string(path(folder, round, client)).ok().map(|text| (client, text))
    });
    texts.flat_map(|(client, text)| parse(client, &text)).collect()
}

/// Removes the files of a round.
pub(super) fn remove(folder: &Path, round: u64, clients: u64) {
    let journals = (0..clients).map(|client| path(folder, round, client));
    journals.chain([Clock::path(folder, round)]).for_each(|path| drop(std::fs::remove_file(path)));
}

/// The entries of a journal. Its last line may be incomplete, if the client was killed while it wrote it.
fn parse(client: u64, text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().expect("three words in a line");
        let (mark, moment, rest) = (word(), word().parse().expect("a moment"), word().to_owned());
        match mark {
            "?" => entries.push(Entry { client, begin: moment, request: rest, answer: None }),
            _ => entries.last_mut().expect("a request").answer = Some((moment, rest)),
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_is_read_up_to_a_truncated_line() {
        let entries = parse(7, "? 1 put 2 3\n! 4 ok\n? 5 get 2\n! 6 o");
        let answers: Vec<_> = entries.iter().map(|entry| entry.answer.as_ref()).collect();
        assert_eq!(answers, [Some(&(4, "ok".to_owned())), None]);
        assert_eq!((entries[1].begin, entries[1].request.as_str()), (5, "get 2"));
    }
}
