//! Messages in a stream of bytes.
use super::frame::{BEGIN, Frame, frame};
use esker_types::{Error, ErrorKind, Result};
use memchr::memmem;
use std::io::{self, Read};

/// Bytes per read.
const READ_BYTES: usize = 256 << 10;

/// Most bytes that are allocated for the stated length of a message before its bytes arrive.
const RESERVED_BYTES: usize = 16 << 20;

/// A message and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<B> {
    /// Its number in the stream, from 1; damaged ones count.
    pub number: u64,
    /// Its offset in the stream, in bytes.
    pub offset: u64,
    /// The complete message, from `GRIB` to `7777`.
    pub bytes: B,
}

/// Bytes that belong to no message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Zeros between messages.
    pub padding: u64,
    /// Anything else between messages.
    pub junk: u64,
    /// From the beginning of a damaged message to the next message.
    pub damaged: u64,
}

/// Finds messages of both editions in bytes in memory, without copying.
///
/// Bytes between messages are skipped and counted. A damaged message is an error that says where it is and what is
/// wrong with it; the iteration continues with the next message.
///
/// ```
/// let mut messages = esker_fields::grib::Scan::new(b"\0\0GRIB and so on");
/// let error = messages.next().unwrap().unwrap_err();
/// assert!(error.message().starts_with("damaged GRIB message 1 at byte 2: "));
/// assert!(messages.next().is_none());
/// assert_eq!((messages.skipped().padding, messages.skipped().damaged), (2, 14));
/// ```
#[derive(Clone, Debug)]
pub struct Scan<'a> {
    rest: &'a [u8],
    tally: Tally,
}

impl<'a> Scan<'a> {
    /// An iterator over the messages in `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, tally: Tally::default() }
    }

    /// Bytes skipped so far.
    #[must_use]
    pub fn skipped(&self) -> Skipped {
        self.tally.skipped
    }
}

impl<'a> Iterator for Scan<'a> {
    type Item = Result<Message<&'a [u8]>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (window, step) = (self.rest, step(self.rest, true));
        let used = self.tally.take(window, &step);
        self.rest = window.get(used..).unwrap_or_default();
        match step {
            SearchResult::Whole(at, length) => {
                let bytes = window.get(at..at + length).unwrap_or_default();
                Some(Ok(self.tally.message(bytes)))
            }
            SearchResult::Damaged(_, what) => Some(Err(self.tally.error(&what))),
            SearchResult::Nothing(_) | SearchResult::More(..) => None,
        }
    }
}

/// Finds messages of both editions in a stream, as [`Scan`] does.
///
/// Memory: one message and 256 KiB. A read error ends the iteration.
#[derive(Debug)]
pub struct Messages<R> {
    input: R,
    /// Bytes that were read; those from `start` on are not consumed yet.
    window: Vec<u8>,
    start: usize,
    ended: bool,
    tally: Tally,
}

impl<R: Read> Messages<R> {
    /// The messages in `input`.
    pub fn new(input: R) -> Self {
        Self { input, window: Vec::new(), start: 0, ended: false, tally: Tally::default() }
    }

    /// Bytes skipped so far.
    pub fn skipped(&self) -> Skipped {
        self.tally.skipped
    }

    /// Reads until the window has at least `bytes` bytes from `start` on, or the input ends.
    fn fill(&mut self, bytes: usize) -> io::Result<()> {
        // Moves at most as many bytes as were consumed since the last move.
        if self.start >= self.window.len() / 2 {
            self.window.drain(..self.start);
            self.start = 0;
        }
        let missing = (self.start + bytes).saturating_sub(self.window.len());
        let wanted = missing.next_multiple_of(READ_BYTES);
        self.window.reserve(wanted.min(RESERVED_BYTES));
        let read = (&mut self.input).take(wanted as u64).read_to_end(&mut self.window)?;
        self.ended = read < wanted;
        Ok(())
    }

    /// Returns the message of `length` bytes at offset `at` of the window, and removes it and all before it from the
    /// window. If the message begins the window and is at least half of it, the bytes after it are copied, not the
    /// message.
    fn cut(&mut self, at: usize, length: usize) -> Vec<u8> {
        if at > 0 || length < self.window.len() / 2 {
            self.start = at + length;
            return self.window.get(at..self.start).unwrap_or_default().to_vec();
        }
        let rest = self.window.get(length..).unwrap_or_default().to_vec();
        let mut message = std::mem::replace(&mut self.window, rest);
        message.truncate(length);
        message
    }

    /// Ends the iteration, and returns its error for a failed read.
    fn read_error(&mut self, error: &io::Error) -> Error {
        (self.ended, self.start) = (true, self.window.len());
        Error::io(format_args!("reading GRIB messages beyond byte {}", self.tally.offset), error)
    }
}

impl<R: Read> Iterator for Messages<R> {
    type Item = Result<Message<Vec<u8>>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let window = self.window.get(self.start..).unwrap_or_default();
            let step = step(window, self.ended);
            let used = self.tally.take(window, &step);
            // Number of bytes that the next search needs after the `used` ones.
            let wanted = match step {
                // `cut` also removes the `used` bytes from the window.
                SearchResult::Whole(at, length) => {
                    let bytes = self.cut(self.start + at, length);
                    return Some(Ok(self.tally.message(bytes)));
                }
                SearchResult::Damaged(_, what) => {
                    self.start += used;
                    return Some(Err(self.tally.error(&what)));
                }
                SearchResult::Nothing(_) if self.ended => return None,
                SearchResult::Nothing(_) => BEGIN.len(),
                SearchResult::More(_, wanted) => wanted,
            };
            self.start += used;
            if let Err(error) = self.fill(wanted) {
                return Some(Err(self.read_error(&error)));
            }
        }
    }
}

/// Result of searching a window for a message.
enum SearchResult {
    /// No message begins in this many bytes.
    Nothing(usize),
    /// A message: its start and its length.
    Whole(usize, usize),
    /// A message may begin here: its start, and the number of bytes from there that are needed to decide.
    More(usize, usize),
    /// A damaged message: its start, and what is wrong.
    Damaged(usize, String),
}

/// Searches for the next message; `ended` means that no more bytes follow.
fn step(window: &[u8], ended: bool) -> SearchResult {
    let Some(at) = memmem::find(window, BEGIN) else {
        // The last bytes may be the beginning of the next `GRIB`.
        let begun = if ended { 0 } else { BEGIN.len() - 1 };
        return SearchResult::Nothing(window.len().saturating_sub(begun));
    };
    let there = window.get(at..).unwrap_or_default();
    match frame(there) {
        Frame::Whole(length) => SearchResult::Whole(at, length),
        Frame::Damaged(what) => SearchResult::Damaged(at, what),
        Frame::More(wanted) if !ended => SearchResult::More(at, wanted),
        Frame::More(wanted) => {
            let what = format!("it ends after {} of {wanted} bytes", there.len());
            SearchResult::Damaged(at, what)
        }
    }
}

/// The position of the iteration, and the bytes it skipped.
#[derive(Clone, Debug, Default)]
struct Tally {
    number: u64,
    /// The offset at which the iteration continues.
    offset: u64,
    /// The offset of the last message.
    found: u64,
    /// Whether the previous message was damaged, so that the next bytes count as damaged too.
    in_damage: bool,
    skipped: Skipped,
}

impl Tally {
    /// Counts the skipped bytes and the message or damage that a search has found in `window`. Returns the number of
    /// bytes to remove from the beginning of `window`.
    fn take(&mut self, window: &[u8], step: &SearchResult) -> usize {
        let (at, rest) = match *step {
            SearchResult::Nothing(bytes) => (bytes, 0),
            SearchResult::More(at, _) => (at, 0),
            SearchResult::Whole(at, length) => (at, length),
            SearchResult::Damaged(at, _) => (at, BEGIN.len()),
        };
        self.skip(window.get(..at).unwrap_or_default());
        self.found = self.offset + at as u64;
        self.offset = self.found + rest as u64;
        if rest > 0 {
            self.number += 1;
            self.in_damage = matches!(step, SearchResult::Damaged(..));
        }
        if self.in_damage {
            self.skipped.damaged += rest as u64;
        }
        at + rest
    }

    /// Counts bytes between messages: padding, if they are zeros, or junk; after a damaged message they count as
    /// damaged.
    fn skip(&mut self, bytes: &[u8]) {
        let zeros = bytes.iter().filter(|byte| **byte == 0).count() as u64;
        let others = bytes.len() as u64 - zeros;
        if self.in_damage {
            self.skipped.damaged += zeros + others;
        } else {
            self.skipped.padding += zeros;
            self.skipped.junk += others;
        }
    }

    /// The message that the last search has found.
    fn message<B>(&self, bytes: B) -> Message<B> {
        Message { number: self.number, offset: self.found, bytes }
    }

    /// Error of a damaged message.
    fn error(&self, what: &str) -> Error {
        let (number, offset) = (self.number, self.found);
        let message = format!("damaged GRIB message {number} at byte {offset}: {what}");
        Error::new(ErrorKind::Invalid, message)
    }
}
