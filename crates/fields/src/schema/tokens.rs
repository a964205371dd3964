//! The words and marks of a schema.
use crate::cursor::Cursor;
use esker_types::{Error, ErrorKind, Result};

/// Marks that end a word.
const MARKS: &str = "/=,;:[]?";

/// Reads a schema word by word.
pub(super) struct Tokens<'a> {
    cursor: Cursor<'a>,
    source: &'a str,
}

impl<'a> Tokens<'a> {
    /// Reads `text`, which errors call `source`.
    pub(super) fn new(text: &'a str, source: &'a str) -> Self {
        Self { cursor: Cursor::new(text, "#"), source }
    }

    /// The line that is being read, counted from 1.
    pub(super) fn line(&self) -> usize {
        self.cursor.line()
    }

    /// The next character outside blanks and comments.
    pub(super) fn peek(&mut self) -> Option<char> {
        self.cursor.peek(true)
    }

    /// Reads `mark` if it comes next.
    pub(super) fn takes(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(mark);
        if found {
            self.cursor.skip(mark.len_utf8());
        }
        found
    }

    /// Reads the character `mark`. An error if another one is there; `doing` names what needs the mark.
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

    /// The next word, which may be empty: it ends at a blank, a mark, or a character that `also_ends` it.
    fn word(&mut self, also_ends: impl Fn(char) -> bool) -> &'a str {
        self.peek();
        self.cursor.word(|c| MARKS.contains(c) || also_ends(c))
    }

    /// The next character or the end of the text, for messages.
    pub(super) fn found(&mut self) -> String {
        self.peek().map_or("the end of the text".to_owned(), |next| format!("'{next}'"))
    }

    /// An error that names the line.
    pub(super) fn error(&self, message: String) -> Error {
        Error::new(ErrorKind::Invalid, format!("{}:{}: {message}", self.source, self.line()))
    }
}
