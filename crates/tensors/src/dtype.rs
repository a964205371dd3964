//! Types of elements: those of numpy with a fixed size.
use crate::limits::{DEPTH_MAX, DIMENSIONS_MAX, ITEM_BYTES_MAX};
use esker_types::{Error, ErrorKind, Result};
use prost::Message;
use std::collections::BTreeSet;

/// The type of an element, with its byte order.
///
/// The store moves elements as bytes. The type gives their number, and tells readers how to interpret them.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DataType {
    /// Code in the form of numpy's `dtype.str`, such as `<f8`; `|V` and the size in bytes for a structured type.
    #[prost(string, tag = "1")]
    pub code: String,
    /// The members of a structured type, none for others.
    #[prost(message, repeated, tag = "2")]
    pub fields: Vec<Field>,
}

/// A member of a structured type.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Field {
    /// Its name, which no other member has.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Offset in the element, in bytes.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    /// Its type.
    #[prost(message, optional, tag = "3")]
    pub data_type: Option<DataType>,
    /// Its shape, if it is an array itself.
    #[prost(uint64, repeated, tag = "4")]
    pub shape: Vec<u64>,
    /// Numpy's title of it, usually empty.
    #[prost(string, tag = "5")]
    pub title: String,
}

/// Units of dates and durations.
const UNITS: [&str; 13] = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"];

impl DataType {
    /// A type that is not structured, by numpy's `dtype.str`: byte order, kind, size, and the unit of dates and
    /// durations.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the code is not that of a type of fixed size.
    pub fn parse(code: &str) -> Result<Self> {
        let new = Self { code: code.to_owned(), fields: Vec::new() };
        new.check()?;
        Ok(new)
    }

    /// A structured type of `size` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if a member does not fit, or two have the same name.
    pub fn structured(size: u64, fields: Vec<Field>) -> Result<Self> {
        let new = Self { code: format!("|V{size}"), fields };
        new.check()?;
        Ok(new)
    }

    /// Bytes of an element.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the type has no fixed size.
    pub fn size(&self) -> Result<u64> {
        size_of(&self.code).ok_or_else(|| unknown_type_error(&self.code))
    }

    /// Checks that the type is valid.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]; the message names the invalid part.
    pub fn check(&self) -> Result<()> {
        self.check_level(0)
    }

    /// Checks a type that is nested `level` deep in others: its depth, its size and its members.
    fn check_level(&self, level: usize) -> Result<()> {
        let size = self.size()?;
        if level > DEPTH_MAX || size > ITEM_BYTES_MAX {
            let text = format!(
                "type {} has more than {DEPTH_MAX} levels (DEPTH_MAX) or {ITEM_BYTES_MAX} bytes (ITEM_BYTES_MAX)",
                self.code
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        if !self.fields.is_empty() && !self.code.contains('V') {
            let text = format!("type {} has members, but is not a structured one", self.code);
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let mut names = BTreeSet::new();
        for field in &self.fields {
            field.check_in(size, level)?;
            if !names.insert(&field.name) {
                return Err(field.wrong("is there twice"));
            }
        }
        Ok(())
    }
}

impl Field {
    /// Checks a member of a type of `size` bytes that is nested `level` deep: its own type, its dimensions, and that it
    /// fits.
    fn check_in(&self, size: u64, level: usize) -> Result<()> {
        self.data_type()?.check_level(level + 1)?;
        if self.shape.len() > DIMENSIONS_MAX {
            return Err(self.wrong("has too many dimensions"));
        }
        let end = self.bytes()?.checked_add(self.offset);
        if end.is_none_or(|end| end > size) {
            return Err(self.wrong("does not fit in its type"));
        }
        Ok(())
    }

    /// Its type. An error if the stored message has none.
    pub(crate) fn data_type(&self) -> Result<&DataType> {
        self.data_type.as_ref().ok_or_else(|| self.wrong("has no type"))
    }

    /// Bytes of the member.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let item = self.data_type()?.size()?;
        let all = self.shape.iter().try_fold(item, |bytes, count| bytes.checked_mul(*count));
        all.ok_or_else(|| self.wrong("is too long"))
    }

    /// The error for this member. `what` completes the sentence about it.
    #[cold]
    fn wrong(&self, what: &str) -> Error {
        Error::new(ErrorKind::Invalid, format!("the member {:?} of a type {what}", self.name))
    }
}

/// Bytes of an element of the type with this code; `None` if the code is unknown.
fn size_of(code: &str) -> Option<u64> {
    let mut letters = code.chars();
    let (order, kind, rest) = (letters.next()?, letters.next()?, letters.as_str());
    let (digits, unit) = match rest.split_once('[') {
        Some((digits, unit)) => (digits, Some(unit.strip_suffix(']')?)),
        None => (rest, None),
    };
    if !"<>|".contains(order) || !digits.bytes().all(|one| one.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    let is_known = match kind {
        'b' => number == 1,
        'i' | 'u' => [1, 2, 4, 8].contains(&number),
        'f' => [2, 4, 8, 12, 16].contains(&number),
        'c' => [8, 16, 24, 32].contains(&number),
        'm' | 'M' => number == 8,
        'S' | 'U' | 'V' => true,
        _ => false,
    };
    let is_date = matches!(kind, 'm' | 'M');
    let fits = is_known && (is_date || unit.is_none()) && unit.is_none_or(is_unit);
    // Texts are stored in UTF-32, and their size counts characters.
    let bytes = if kind == 'U' { number.checked_mul(4)? } else { number };
    // Numbers of several bytes need a byte order, which `|` does not give.
    (fits && (order != '|' || bytes <= 1 || matches!(kind, 'S' | 'V' | 'U'))).then_some(bytes)
}

/// True for a unit of time, such as `s`, also with a count before it, such as `25s`.
fn is_unit(text: &str) -> bool {
    let name = text.trim_start_matches(|one: char| one.is_ascii_digit());
    UNITS.contains(&name)
}

#[cold]
fn unknown_type_error(code: &str) -> Error {
    let text = format!(
        "elements of type {code:?} cannot be stored: use a type of a fixed size (bool, int, uint, float, complex, S, U, \
         V, datetime64 or timedelta64), written as numpy's dtype.str, such as <f8"
    );
    Error::new(ErrorKind::Invalid, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_numpy() {
        let known = [
            ("|b1", 1),
            ("|i1", 1),
            (">u2", 2),
            ("<f2", 2),
            ("<f16", 16),
            (">c8", 8),
            ("|S10", 10),
            ("<U3", 12),
            ("|V7", 7),
            ("<M8[ns]", 8),
            (">m8[25s]", 8),
            ("<m8", 8),
            ("|S0", 0),
        ];
        for (code, bytes) in known {
            assert_eq!(DataType::parse(code).unwrap().size(), Ok(bytes), "{code}");
        }
    }

    #[test]
    fn other_types_are_refused() {
        for code in [
            "", "f8", "|O", "|O8", "|i4", "<i3", "<f8[s]", "<M8[x]", "<M4[s]", "|V", "<i+4", "<T16",
        ] {
            assert_eq!(DataType::parse(code).unwrap_err().kind(), ErrorKind::Invalid, "{code}");
        }
    }

    fn field(name: &str, offset: u64, code: &str) -> Field {
        let data_type = Some(DataType::parse(code).unwrap());
        Field { name: name.into(), offset, data_type, ..Field::default() }
    }

    #[test]
    fn members_must_fit_and_differ() {
        assert!(DataType::structured(12, vec![field("a", 0, "<f4"), field("b", 4, "<f8")]).is_ok());
        assert!(
            DataType::structured(11, vec![field("a", 0, "<f4"), field("b", 4, "<f8")]).is_err()
        );
        assert!(
            DataType::structured(12, vec![field("a", 0, "<f4"), field("a", 4, "<f8")]).is_err()
        );
        let long = Field { shape: vec![u64::MAX, 2], ..field("a", 0, "<f4") };
        assert!(DataType::structured(12, vec![long]).is_err());
    }
}
