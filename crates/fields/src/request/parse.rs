//! Parser of requests.
use super::{Request, invalid};
use crate::cursor::Cursor;
use crate::limits::{REQUEST_BYTES_MAX, REQUEST_VALUES_MAX, REQUESTS_MAX};
use esker_types::{Error, ErrorKind, Result};
use std::borrow::Cow;

/// Characters that begin a comment.
const COMMENTS: &str = "#!";

/// Other characters that end an unquoted word.
const ENDS: &str = ",/=\"'";

/// Parses all requests of `text`, which has at most `REQUEST_BYTES_MAX` bytes.
pub(super) fn parse_all(text: &str) -> Result<Vec<Request>> {
    if text.len() > REQUEST_BYTES_MAX {
        let message = format!("requests have at most {REQUEST_BYTES_MAX} bytes in one text");
        return Err(Error::new(ErrorKind::Overflow, message));
    }
    let mut parser = Parser { cursor: Cursor::new(text, COMMENTS) };
    let mut requests = Vec::new();
    while parser.cursor.peek(true).is_some() {
        if requests.len() == REQUESTS_MAX {
            let message = format!("one text has at most {REQUESTS_MAX} requests");
            return Err(Error::new(ErrorKind::Overflow, message));
        }
        requests.push(parser.request()?);
    }
    Ok(requests)
}

/// The spelling of a value in a request: quoted if it would mean something else otherwise.
pub(super) fn quoted(value: &str) -> Cow<'_, str> {
    let special = |c: char| c.is_whitespace() || ENDS.contains(c) || COMMENTS.contains(c);
    if !value.contains(special) {
        return Cow::Borrowed(value);
    }
    let quote = if value.contains('"') { '\'' } else { '"' };
    Cow::Owned(format!("{quote}{value}{quote}"))
}

/// Whether a request can spell the value, quoted if necessary.
pub(super) fn has_spelling(value: &str) -> bool {
    let both = value.contains('"') && value.contains('\'');
    !both && !value.contains('\n')
}

struct Parser<'a> {
    cursor: Cursor<'a>,
}

impl Parser<'_> {
    /// Reads `mark` if it comes next, on this line or, for a comma, on a later one.
    fn takes(&mut self, mark: char) -> bool {
        let before = self.cursor;
        let found = self.cursor.peek(mark == ',') == Some(mark);
        if found {
            self.cursor.skip(1);
        } else {
            self.cursor = before;
        }
        found
    }

    /// Parses one request: `verb, name = a/b, name = c`, or the same without a verb. It ends at the end of a line
    /// without a comma.
    fn request(&mut self) -> Result<Request> {
        let mut request = Request::default();
        let first = self.word("a verb or a name")?;
        if self.takes('=') {
            self.parse_values(&mut request, &first)?;
        } else {
            request.verb = self.parse_verb(&first)?;
        }
        while self.takes(',') {
            if self.cursor.peek(true).is_none() {
                break;
            }
            let name = self.word("a name")?;
            if !self.takes('=') {
                return Err(self.error(format!("{name} lacks a value; write {name}=value")));
            }
            self.parse_values(&mut request, &name)?;
        }
        match self.cursor.peek(false) {
            None | Some('\n') => Ok(request),
            Some(other) => {
                Err(self.error(format!("a comma or the end of the line is due before '{other}'")))
            }
        }
    }

    /// The verb of a request in lower case. Fails if `word` has other characters than letters, `-` and `_`.
    fn parse_verb(&self, word: &str) -> Result<String> {
        let plain =
            word.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_'));
        if plain {
            return Ok(word.to_ascii_lowercase());
        }
        Err(self.error(format!("{word:?} is neither a verb such as retrieve nor name=value")))
    }

    /// The values of a name, which are separated by `/`.
    fn parse_values(&mut self, request: &mut Request, name: &str) -> Result<()> {
        let mut values = Vec::new();
        loop {
            self.cursor.peek(true);
            values.push(self.word("a value")?);
            if values.len() > REQUEST_VALUES_MAX {
                let message = format!("{name} has over {REQUEST_VALUES_MAX} values");
                return Err(Error::new(ErrorKind::Overflow, message));
            }
            if !self.takes('/') {
                break;
            }
        }
        request.add(name, values).map_err(|error| self.error(error.to_string()))
    }

    /// Parses a word or a quoted text. `what` says in the error what is missing.
    fn word(&mut self, what: &str) -> Result<String> {
        if let Some(quote @ ('"' | '\'')) = self.cursor.peek(false) {
            return self.parse_quoted(quote);
        }
        let word = self.cursor.word(|c| ENDS.contains(c));
        if word.is_empty() {
            let next = self.cursor.rest().chars().next().filter(|c| *c != '\n');
            let found =
                next.map_or("at the end of the line".to_owned(), |c| format!("before '{c}'"));
            return Err(self.error(format!("{what} is missing {found}")));
        }
        Ok(word.to_owned())
    }

    /// A text in quotes.
    fn parse_quoted(&mut self, quote: char) -> Result<String> {
        self.cursor.skip(1);
        let inside = self.cursor.rest().split_once(quote).map(|(inside, _)| inside);
        let Some(inside) = inside.filter(|inside| !inside.contains('\n')) else {
            return Err(
                self.error(format!("the text that begins with {quote} lacks its end on this line"))
            );
        };
        self.cursor.skip(inside.len() + 1);
        Ok(inside.to_owned())
    }

    fn error(&self, message: String) -> Error {
        invalid(format!("request, line {}: {message}", self.cursor.line()))
    }
}
