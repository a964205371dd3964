//! Values that filters compute with, and their types.
use crate::code::{Code, Result};
use std::cmp::Ordering;

/// Code of a division by zero (`DER_DIV_BY_ZERO`).
const DIV_BY_ZERO: Code = Code(-2047);

/// A type of data, with the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataType {
    Unsigned(usize),
    Signed(usize),
    Real(usize),
    /// Any bytes.
    Binary,
    /// Bytes after their number, of 8 bytes.
    Sized,
    /// Bytes up to the first that is zero.
    Terminated,
}

/// Class of a type: only values of the same class can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Unsigned,
    Signed,
    Real,
    Text,
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Unsigned(u64),
    Signed(i64),
    Real(f64),
    Text(&'a [u8]),
}

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    BitAnd,
}

impl DataType {
    /// The type of this name, as it is in `daos_pipeline.h` without `DAOS_FILTER_TYPE_`.
    pub(super) fn by_name(name: &str) -> Option<Self> {
        let number = |make: fn(usize) -> Self, bytes: &str, sizes: &[usize]| {
            bytes.parse().ok().filter(|bytes| sizes.contains(bytes)).map(make)
        };
        match name {
            "BINARY" => Some(Self::Binary),
            "STRING" => Some(Self::Sized),
            "CSTRING" => Some(Self::Terminated),
            _ => match name.split_at_checked(name.len().checked_sub(1)?)? {
                ("UINTEGER", bytes) => number(Self::Unsigned, bytes, &[1, 2, 4, 8]),
                ("INTEGER", bytes) => number(Self::Signed, bytes, &[1, 2, 4, 8]),
                ("REAL", bytes) => number(Self::Real, bytes, &[4, 8]),
                _ => None,
            },
        }
    }

    /// Class of a type: values of one class can be compared.
    pub(super) fn class(self) -> Class {
        match self {
            Self::Unsigned(_) => Class::Unsigned,
            Self::Signed(_) => Class::Signed,
            Self::Real(_) => Class::Real,
            Self::Binary | Self::Sized | Self::Terminated => Class::Text,
        }
    }

    /// The value that begins with `data`; `None` if it is too short for one.
    pub(super) fn read(self, data: &[u8]) -> Option<Value<'_>> {
        match self {
            Self::Unsigned(bytes) => unsigned(data, bytes).map(Value::Unsigned),
            Self::Signed(bytes) => {
                let unused = 64 - 8 * bytes as u32;
                let number = unsigned(data, bytes)?.cast_signed();
                Some(Value::Signed(number << unused >> unused))
            }
            Self::Real(4) => {
                let bits = unsigned(data, 4)? as u32;
                Some(Value::Real(f64::from(f32::from_bits(bits))))
            }
            Self::Real(bytes) => {
                unsigned(data, bytes).map(|bits| Value::Real(f64::from_bits(bits)))
            }
            Self::Binary => Some(Value::Text(data)),
            Self::Sized => {
                let (size, text) = data.split_at_checked(8)?;
                let size = usize::try_from(unsigned(size, 8)?).unwrap_or(usize::MAX);
                Some(Value::Text(&text[..size.min(text.len())]))
            }
            Self::Terminated => {
                let len = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
                Some(Value::Text(&data[..len]))
            }
        }
    }
}

/// A number of the first `bytes` bytes, the lowest first.
fn unsigned(data: &[u8], bytes: usize) -> Option<u64> {
    let bytes = data.get(..bytes)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

impl Value<'_> {
    /// Converts the value to a real number, for aggregations; `None` for text.
    pub(super) fn real(self) -> Option<f64> {
        match self {
            Self::Unsigned(number) => Some(number as f64),
            Self::Signed(number) => Some(number as f64),
            Self::Real(number) => Some(number),
            Self::Text(_) => None,
        }
    }

    /// The order of two values of one class. Texts are compared over the length of the shorter one: they are unordered
    /// if only their lengths differ, as in DAOS.
    pub(super) fn order(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Unsigned(left), Self::Unsigned(right)) => Some(left.cmp(&right)),
            (Self::Signed(left), Self::Signed(right)) => Some(left.cmp(&right)),
            (Self::Real(left), Self::Real(right)) => left.partial_cmp(&right),
            (Self::Text(left), Self::Text(right)) => {
                let len = left.len().min(right.len());
                let order = left[..len].cmp(&right[..len]);
                (order.is_ne() || left.len() == right.len()).then_some(order)
            }
            _ => None,
        }
    }
}

impl Arithmetic {
    /// The result for two numbers of one class; integers wrap around.
    pub(super) fn apply<'a>(self, left: Value<'_>, right: Value<'_>) -> Result<Value<'a>> {
        match (left, right) {
            (Value::Unsigned(left), Value::Unsigned(right)) => {
                self.unsigned(left, right).map(Value::Unsigned)
            }
            (Value::Signed(left), Value::Signed(right)) => {
                self.signed(left, right).map(Value::Signed)
            }
            (Value::Real(left), Value::Real(right)) => self.real(left, right).map(Value::Real),
            _ => Err(Code::INVAL),
        }
    }

    /// Applies the operation to two unsigned numbers. Results wrap around at 2^64; a division by zero is an error.
    fn unsigned(self, left: u64, right: u64) -> Result<u64> {
        match self {
            Self::Add => Ok(left.wrapping_add(right)),
            Self::Sub => Ok(left.wrapping_sub(right)),
            Self::Mul => Ok(left.wrapping_mul(right)),
            Self::Div => left.checked_div(right).ok_or(DIV_BY_ZERO),
            Self::BitAnd => Ok(left & right),
        }
    }

    /// Applies the operator to two signed numbers. They wrap on overflow.
    fn signed(self, left: i64, right: i64) -> Result<i64> {
        match self {
            Self::Add => Ok(left.wrapping_add(right)),
            Self::Sub => Ok(left.wrapping_sub(right)),
            Self::Mul => Ok(left.wrapping_mul(right)),
            Self::Div if right == 0 => Err(DIV_BY_ZERO),
            Self::Div => Ok(left.wrapping_div(right)),
            Self::BitAnd => Ok(left & right),
        }
    }

    /// Applies the operation to two real numbers. A division by zero is an error. So is [`Self::BitAnd`], which is
    /// defined for integers only.
    fn real(self, left: f64, right: f64) -> Result<f64> {
        match self {
            Self::Add => Ok(left + right),
            Self::Sub => Ok(left - right),
            Self::Mul => Ok(left * right),
            Self::Div if right == 0.0 => Err(DIV_BY_ZERO),
            Self::Div => Ok(left / right),
            Self::BitAnd => Err(Code::INVAL),
        }
    }
}

/// Whether a text matches a pattern: `%` matches any bytes, `_` one byte, and `\` makes the next byte literal.
///
/// # Errors
/// [`Code::INVAL`] for a pattern that ends with `\`.
pub(crate) fn is_like(text: &[u8], pattern: &[u8]) -> Result<bool> {
    let pattern = symbols(pattern)?;
    let (mut at, mut next) = (0, 0);
    // Last `%` and the byte it was tried at: after a mismatch, matching resumes there, one byte later.
    let mut retry: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(next) {
            Some(Symbol::Any) => {
                retry = Some((next, at));
                next += 1;
            }
            Some(symbol) if symbol.matches(text[at]) => {
                at += 1;
                next += 1;
            }
            _ => match &mut retry {
                None => return Ok(false),
                Some((any, from)) => {
                    *from += 1;
                    (next, at) = (*any + 1, *from);
                }
            },
        }
    }
    Ok(pattern[next..].iter().all(|symbol| *symbol == Symbol::Any))
}

/// One symbol of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symbol {
    Any,
    One,
    Byte(u8),
}

impl Symbol {
    fn matches(self, byte: u8) -> bool {
        self == Self::One || self == Self::Byte(byte)
    }
}

/// Parses a pattern of `LIKE`.
fn symbols(pattern: &[u8]) -> Result<Vec<Symbol>> {
    let mut bytes = pattern.iter();
    let mut symbols = Vec::with_capacity(pattern.len());
    while let Some(byte) = bytes.next() {
        symbols.push(match byte {
            b'%' => Symbol::Any,
            b'_' => Symbol::One,
            b'\\' => Symbol::Byte(*bytes.next().ok_or(Code::INVAL)?),
            byte => Symbol::Byte(*byte),
        });
    }
    Ok(symbols)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_sql() {
        let like = |text: &str, pattern: &str| is_like(text.as_bytes(), pattern.as_bytes());
        for (text, pattern, is) in [
            ("file.91", "%.9%", true),
            ("file.9", "%.9%", true),
            ("file.8", "%.9%", false),
            ("aXbXc", "a%X_", true),
            ("abab", "%ab", true),
            ("", "%", true),
            ("", "_", false),
            ("a%", "a\\%", true),
            ("ab", "a\\%", false),
            ("abc", "abc%%", true),
        ] {
            assert_eq!(like(text, pattern), Ok(is), "{text} like {pattern}");
        }
        assert_eq!(like("a", "a\\"), Err(Code::INVAL));
    }

    #[test]
    fn numbers_are_read_with_their_sign() {
        let data = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        assert_eq!(DataType::Signed(4).read(&data), Some(Value::Signed(-1)));
        assert_eq!(DataType::Signed(8).read(&data), Some(Value::Signed(0xffff_ffff)));
        assert_eq!(DataType::Unsigned(2).read(&data), Some(Value::Unsigned(0xffff)));
        assert_eq!(DataType::Unsigned(8).read(&data[1..]), None);
        assert_eq!(DataType::Real(4).read(&1.5f32.to_le_bytes()), Some(Value::Real(1.5)));
        assert_eq!(DataType::by_name("REAL2"), None);
        assert_eq!(DataType::by_name("INTEGER"), None);
    }

    #[test]
    fn division_by_zero_is_an_error() {
        let (zero, least) = (Value::Signed(0), Value::Signed(i64::MIN));
        assert_eq!(Arithmetic::Div.apply(least, zero), Err(DIV_BY_ZERO));
        assert_eq!(Arithmetic::Div.apply(least, Value::Signed(-1)), Ok(least));
        let zero = Value::Unsigned(0);
        assert_eq!(Arithmetic::Div.apply(zero, zero), Err(DIV_BY_ZERO));
        assert_eq!(Arithmetic::Div.apply(Value::Real(1.0), Value::Real(0.0)), Err(DIV_BY_ZERO));
    }
}
