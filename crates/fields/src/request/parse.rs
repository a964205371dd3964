//! From text to requests.
use super::{Request, invalid};
use crate::limits::{REQUEST_BYTES_MAX, REQUEST_VALUES_MAX, REQUESTS_MAX};
use esker_types::{Error, ErrorKind, Result};
use std::borrow::Cow;

/// Characters that end a word without quotes.
const ENDS: &str = ",/=\"'#!";

pub(super) fn parse_all(text: &str) -> Result<Vec<Request>> {
    if text.len() > REQUEST_BYTES_MAX {
        let message = format!("requests have at most {REQUEST_BYTES_MAX} bytes in one text");
        return Err(Error::new(ErrorKind::Overflow, message));
    }
    let mut parser = Parser { rest: text, line: 1 };
    let mut requests = Vec::new();
    while parser.skip_blank(true).is_some() {
        if requests.len() == REQUESTS_MAX {
            let message = format!("one text has at most {REQUESTS_MAX} requests");
            return Err(Error::new(ErrorKind::Overflow, message));
        }
        requests.push(parser.request()?);
    }
    Ok(requests)
}

/// A value as a request must spell it: in quotes where it would mean something else without.
pub(super) fn quoted(value: &str) -> Cow<'_, str> {
    let special = |c: char| c.is_whitespace() || ENDS.contains(c);
    if !value.contains(special) {
        return Cow::Borrowed(value);
    }
    let quote = if value.contains('"') { '\'' } else { '"' };
    Cow::Owned(format!("{quote}{value}{quote}"))
}

/// Whether a request can spell the value, between quotes if need be.
pub(super) fn has_spelling(value: &str) -> bool {
    let both = value.contains('"') && value.contains('\'');
    !both && !value.contains('\n')
}

struct Parser<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Parser<'a> {
    /// The next character behind blanks and comments; ends of lines are skipped where `lines` says so.
    fn skip_blank(&mut self, lines: bool) -> Option<char> {
        loop {
            let next = self.rest.chars().next()?;
            match next {
                '#' | '!' => self.skip(self.rest.find('\n').unwrap_or(self.rest.len())),
                '\n' if !lines => return Some(next),
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

    /// Whether `mark` comes next, on this line or, with a comma, on a later one; then it is read.
    fn takes(&mut self, mark: char) -> bool {
        let before = (self.rest, self.line);
        let found = self.skip_blank(mark == ',') == Some(mark);
        if found {
            self.skip(1);
        } else {
            (self.rest, self.line) = before;
        }
        found
    }

    /// `verb, name = a/b, name = c`, or the same without a verb.
    fn request(&mut self) -> Result<Request> {
        let mut request = Request::default();
        let first = self.word("a verb or a name")?;
        if self.takes('=') {
            self.values(&mut request, &first)?;
        } else {
            request.verb = self.verb(&first)?;
        }
        while self.takes(',') {
            if self.skip_blank(true).is_none() {
                break;
            }
            let name = self.word("a name")?;
            if !self.takes('=') {
                return Err(self.error(format!("{name} lacks a value; write {name}=value")));
            }
            self.values(&mut request, &name)?;
        }
        match self.skip_blank(false) {
            None | Some('\n') => Ok(request),
            Some(other) => {
                Err(self.error(format!("a comma or the end of the line is due before '{other}'")))
            }
        }
    }

    fn verb(&self, word: &str) -> Result<String> {
        let plain =
            word.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_'));
        if plain {
            return Ok(word.to_ascii_lowercase());
        }
        Err(self.error(format!("{word:?} is neither a verb such as retrieve nor name=value")))
    }

    fn values(&mut self, request: &mut Request, name: &str) -> Result<()> {
        let mut values = Vec::new();
        loop {
            self.skip_blank(true);
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

    /// A word, or what stands between quotes.
    fn word(&mut self, what: &str) -> Result<String> {
        if let Some(quote @ ('"' | '\'')) = self.skip_blank(false) {
            return self.text_in_quotes(quote);
        }
        let ends = |c: char| c.is_whitespace() || ENDS.contains(c);
        let (word, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        if word.is_empty() {
            let next = self.rest.chars().next().filter(|c| *c != '\n');
            let found =
                next.map_or("at the end of the line".to_owned(), |c| format!("before '{c}'"));
            return Err(self.error(format!("{what} is missing {found}")));
        }
        Ok(word.to_owned())
    }

    fn text_in_quotes(&mut self, quote: char) -> Result<String> {
        self.skip(1);
        let inside = self.rest.find(quote).and_then(|end| self.rest.get(..end));
        let Some(inside) = inside.filter(|inside| !inside.contains('\n')) else {
            return Err(
                self.error(format!("the text that begins with {quote} lacks its end on this line"))
            );
        };
        self.skip(inside.len() + 1);
        Ok(inside.to_owned())
    }

    fn error(&self, message: String) -> Error {
        invalid(format!("request, line {}: {message}", self.line))
    }
}
