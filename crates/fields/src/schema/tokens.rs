//! The words and marks of a schema.
use esker_types::{Error, ErrorKind, Result};

/// Marks that end a word.
const MARKS: &str = "/=,;:[]?";

/// Reads a schema word by word.
pub(super) struct Tokens<'a> {
    rest: &'a str,
    source: &'a str,
    line: usize,
}

impl<'a> Tokens<'a> {
    /// Reads `text`, which errors call `source`.
    pub(super) fn new(text: &'a str, source: &'a str) -> Self {
        Self { rest: text, source, line: 1 }
    }

    /// The line that is being read, counted from 1.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// The next character that is neither blank nor in a comment.
    pub(super) fn peek(&mut self) -> Option<char> {
        loop {
            let next = self.rest.chars().next()?;
            match next {
                '#' => self.skip(self.rest.find('\n').unwrap_or(self.rest.len())),
                '\n' => {
                    self.line += 1;
                    self.skip(1);
                }
                _ if next.is_whitespace() => self.skip(next.len_utf8()),
                _ => return Some(next),
            }
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// Whether `mark` comes next; then it is read.
    pub(super) fn takes(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(mark);
        if found {
            self.skip(mark.len_utf8());
        }
        found
    }

    /// Reads `mark`.
    pub(super) fn demand(&mut self, mark: char, doing: &str) -> Result<()> {
        if self.takes(mark) {
            return Ok(());
        }
        let found = self.found();
        Err(self.error(format!("{doing} needs '{mark}' here, not {found}")))
    }

    /// A name: it ends at a blank, a mark or a dash.
    pub(super) fn name(&mut self, what: &str) -> Result<&'a str> {
        let word = self.word(|c| c == '-');
        if !word.is_empty() {
            return Ok(word);
        }
        let found = self.found();
        Err(self.error(format!("{what} is missing before {found}")))
    }

    /// A value, which may be empty: it ends at a blank or a mark.
    pub(super) fn value(&mut self) -> &'a str {
        self.word(|_| false)
    }

    fn word(&mut self, also_ends: impl Fn(char) -> bool) -> &'a str {
        self.peek();
        let ends = |c: char| c.is_whitespace() || c == '#' || MARKS.contains(c) || also_ends(c);
        let (word, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    /// What comes next, for people.
    pub(super) fn found(&mut self) -> String {
        self.peek().map_or("the end of the text".to_owned(), |next| format!("'{next}'"))
    }

    /// An error that names the place.
    pub(super) fn error(&self, message: String) -> Error {
        Error::new(ErrorKind::Invalid, format!("{}:{}: {message}", self.source, self.line))
    }
}
