//! A position in a text that is read word by word.

/// The rest of a text, and the line it begins on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a str,
    line: usize,
    /// Characters that begin a comment, which goes up to the end of its line.
    comments: &'static str,
}

impl<'a> Cursor<'a> {
    /// A cursor at the beginning of a text. Each character of `comments` begins a comment.
    pub(crate) fn new(text: &'a str, comments: &'static str) -> Self {
        Self { rest: text, line: 1, comments }
    }

    /// The line that is being read, counted from 1.
    pub(crate) fn line(&self) -> usize {
        self.line
    }

    /// The text that is not read yet.
    pub(crate) fn rest(&self) -> &'a str {
        self.rest
    }

    /// The next character after blanks and comments, which are skipped; `None` at the end of the text. Line ends count
    /// as blanks if `lines` is set.
    pub(crate) fn peek(&mut self, lines: bool) -> Option<char> {
        loop {
            let next = self.rest.chars().next()?;
            if self.comments.contains(next) {
                self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if !next.is_whitespace() || (next == '\n' && !lines) {
                return Some(next);
            } else {
                self.line += usize::from(next == '\n');
                self.skip(next.len_utf8());
            }
        }
    }

    /// Skips `bytes` bytes, which end between characters.
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// Reads up to a blank, a comment or a character that `ends` the word, which may be empty.
    pub(crate) fn word(&mut self, ends: impl Fn(char) -> bool) -> &'a str {
        let end = |c: char| c.is_whitespace() || self.comments.contains(c) || ends(c);
        let (word, rest) = self.rest.split_at(self.rest.find(end).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }
}
