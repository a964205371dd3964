//! Requests in the MARS language, and the fields they select.
//!
//! The language is described in `docs/fields.md`.
mod expand;
mod lists;
mod parse;
mod selection;

pub use selection::{Keys, Position, Selection};

use crate::date::Date;
use crate::key::is_name;
use crate::limits::{KEY_PAIRS_MAX, NAME_BYTES_MAX};
use crate::schema::Schema;
use esker_types::{Error, ErrorKind, Result};
use std::fmt;

/// What a request without a verb does.
const DEFAULT_VERB: &str = "retrieve";

/// A request as it was written: a verb, and for each name its values in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    verb: String,
    pairs: Vec<(String, Vec<String>)>,
}

impl Default for Request {
    fn default() -> Self {
        Self { verb: DEFAULT_VERB.to_owned(), pairs: Vec::new() }
    }
}

impl Request {
    /// A request of these names, each with its values between slashes: `("step", "0/to/24/by/6")`.
    ///
    /// # Errors
    /// Where a name cannot be one of a key or stands twice, or a value is missing.
    pub fn from_pairs<N: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self> {
        let mut request = Self::default();
        for (name, values) in pairs {
            let values = values.as_ref().split('/').map(|value| value.trim().to_owned()).collect();
            request.add(name.as_ref(), values)?;
        }
        Ok(request)
    }

    /// Reads any number of requests. One ends where a line does not end with a comma, a slash or `=`.
    ///
    /// # Errors
    /// Names the line, what is wrong there and what would be right.
    pub fn parse_all(text: &str) -> Result<Vec<Self>> {
        parse::parse_all(text)
    }

    /// Reads exactly one request.
    ///
    /// # Errors
    /// As [`Request::parse_all`], and where there are none or many.
    pub fn parse(text: &str) -> Result<Self> {
        let mut requests = Self::parse_all(text)?;
        match (requests.pop(), requests.len()) {
            (Some(request), 0) => Ok(request),
            (None, _) => Err(invalid("there is no request in the text".to_owned())),
            (_, more) => Err(invalid(format!(
                "one request was wanted, not {}; end lines that go on with a comma",
                more + 1
            ))),
        }
    }

    /// Adds a name with its values, each as it is.
    ///
    /// # Errors
    /// As [`Request::from_pairs`].
    pub fn add(&mut self, name: &str, values: Vec<String>) -> Result<()> {
        let name = name.trim().to_ascii_lowercase();
        if name.len() > NAME_BYTES_MAX || !is_name(&name) {
            return Err(invalid(format!("{name:?} is no name of a key; write name=value")));
        }
        if self.get(&name).is_some() {
            return Err(invalid(format!("{name} stands twice in a request; write {name}=a/b")));
        }
        if values.is_empty() || values.iter().any(String::is_empty) {
            return Err(invalid(format!("{name} lacks a value; write {name}=a/b")));
        }
        if let Some(value) = values.iter().find(|value| !parse::has_spelling(value)) {
            let message =
                format!("{name}: {value:?} has both quotes or an end of line; no request can");
            return Err(invalid(message));
        }
        if self.pairs.len() == KEY_PAIRS_MAX {
            let message = format!("a request has at most {KEY_PAIRS_MAX} names; {name} is beyond");
            return Err(Error::new(ErrorKind::Overflow, message));
        }
        self.pairs.push((name, values));
        Ok(())
    }

    /// What it asks for, in lower case; `retrieve` where it does not say.
    #[must_use]
    pub fn verb(&self) -> &str {
        &self.verb
    }

    /// The values of a name as they were written, `to` and `by` included.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[String]> {
        let found = self.pairs.iter().find(|(known, _)| known == name);
        found.map(|(_, values)| values.as_slice())
    }

    /// Its names with their values in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.pairs.iter().map(|(name, values)| (name.as_str(), values.as_slice()))
    }

    /// Takes a name out, such as `target`, and gives its values.
    pub fn take(&mut self, name: &str) -> Option<Vec<String>> {
        let place = self.pairs.iter().position(|(known, _)| known == name)?;
        Some(self.pairs.remove(place).1)
    }

    /// The fields it selects: lists and ranges written out, values canonical, dates counted from `today`.
    ///
    /// # Errors
    /// Names the name, the value, its type and what is allowed; for a name that the schema does not have,
    /// those it has.
    pub fn expand(&self, schema: &Schema, today: Date) -> Result<Selection> {
        expand::expand(self, schema, today)
    }
}

/// On one line, as [`Request::parse`] reads it.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verb)?;
        for (name, values) in self.iter() {
            let values: Vec<_> = values.iter().map(|value| parse::quoted(value)).collect();
            write!(f, ",{name}={}", values.join("/"))?;
        }
        Ok(())
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests;
