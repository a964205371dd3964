//! Requests in the MARS language, and the fields they select.
//!
//! The language is described in `docs/fields.md`.
mod lists;
mod parse;
mod selection;

pub(crate) use selection::ABSENT;
pub use selection::{Keys, Position, Selection};

use crate::date::Date;
use crate::key::is_name;
use crate::limits::{KEY_PAIRS_MAX, NAME_BYTES_MAX};
use crate::schema::Schema;
use esker_types::{Error, ErrorKind, Result};
use selection::Wanted;
use std::fmt;

/// The verb of a request that gives none.
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
    /// A request of these names, each with its values separated by slashes: `("step", "0/to/24/by/6")`.
    ///
    /// # Errors
    /// If a name is invalid or occurs twice, or a value is missing.
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

    /// Reads any number of requests. A request ends at the first line that does not end with a comma, a slash or `=`.
    ///
    /// # Errors
    /// If the text is invalid; the message names the line, the cause and the remedy.
    pub fn parse_all(text: &str) -> Result<Vec<Self>> {
        parse::parse_all(text)
    }

    /// Parses a text that has exactly one request.
    ///
    /// # Errors
    /// The errors of [`Request::parse_all`]; an error unless the text has exactly one request.
    pub fn parse(text: &str) -> Result<Self> {
        let mut requests = Self::parse_all(text)?;
        match (requests.pop(), requests.len()) {
            (Some(request), 0) => Ok(request),
            (None, _) => Err(invalid("the text has no request".to_owned())),
            (_, more) => Err(invalid(format!(
                "one request was expected, not {}; end continued lines with a comma",
                more + 1
            ))),
        }
    }

    /// Adds a name with its values, each as it is.
    ///
    /// # Errors
    /// The errors of [`Request::from_pairs`].
    pub fn add(&mut self, name: &str, values: Vec<String>) -> Result<()> {
        let name = name.trim().to_ascii_lowercase();
        if name.len() > NAME_BYTES_MAX || !is_name(&name) {
            return Err(invalid(format!("{name:?} is not a valid name; write name=value")));
        }
        if self.get(&name).is_some() {
            return Err(invalid(format!("{name} occurs twice in a request; write {name}=a/b")));
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
            let message =
                format!("a request has at most {KEY_PAIRS_MAX} names; {name} exceeds that");
            return Err(Error::new(ErrorKind::Overflow, message));
        }
        self.pairs.push((name, values));
        Ok(())
    }

    /// The verb of the request, in lower case; `retrieve` if it gives none.
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

    /// The names of the request with their values in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.pairs.iter().map(|(name, values)| (name.as_str(), values.as_slice()))
    }

    /// Removes a name, such as `target`, and returns its values.
    pub fn take(&mut self, name: &str) -> Option<Vec<String>> {
        let place = self.pairs.iter().position(|(known, _)| known == name)?;
        Some(self.pairs.remove(place).1)
    }

    /// The fields it selects: lists and ranges expanded, values canonical, dates relative to `today`.
    ///
    /// # Errors
    /// If a value is invalid: the message names the name, the value, its type and valid examples. If the schema does
    /// not have a name: the message lists those it has.
    pub fn expand(&self, schema: &Schema, today: Date) -> Result<Selection> {
        expand(self, schema, today)
    }
}

/// One line that [`Request::parse`] reads.
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

/// Names that say what to do with the fields, and do not select them.
const NOT_FOR_SELECTION: [&str; 8] =
    ["database", "expect", "fieldset", "padding", "process", "source", "target", "use"];

/// Names that ask for fields to be processed.
const PROCESSING: [&str; 13] = [
    "accuracy",
    "area",
    "bitmap",
    "format",
    "frame",
    "gaussian",
    "grid",
    "interpolation",
    "packing",
    "resol",
    "rotation",
    "specification",
    "truncation",
];

/// Expands a request: each name with its values in canonical form.
pub(super) fn expand(request: &Request, schema: &Schema, today: Date) -> Result<Selection> {
    let (mut wanted, mut any, mut unkept) = (Vec::new(), false, None);
    for (name, raw) in request.iter() {
        let kinds = schema.kinds(name);
        if kinds.is_empty() {
            if NOT_FOR_SELECTION.contains(&name) {
                any |=
                    name == "expect" && matches!(raw, [value] if value.eq_ignore_ascii_case("any"));
                continue;
            }
            return Err(unknown_name_error(schema, name));
        }
        // Fields do not have such names, although the keys under which they were archived may.
        if schema.is_unkept(name) {
            unkept = Some(name.to_owned());
            continue;
        }
        let optional = schema.is_optional(name);
        let values = lists::values(name, kinds, raw, (optional, today))?;
        wanted.push(Wanted::new(name, kinds, values, optional));
    }
    let mut selection = Selection::new(schema, wanted);
    (selection.any, selection.unkept) = (any, unkept);
    Ok(selection)
}

fn unknown_name_error(schema: &Schema, name: &str) -> Error {
    if PROCESSING.contains(&name) {
        let remedy = "fields come as they were archived; leave it out and process them afterwards";
        return invalid(format!("{name} asks for processing: {remedy}"));
    }
    schema.unknown_name_error(name)
}

#[cfg(test)]
mod tests;
