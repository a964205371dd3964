//! The order of values on an axis.
use super::{KeyType, Span};

/// The rank of a canonical value on its axis: numbers first, by number, then texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    number: i64,
    end: u32,
    text: Box<str>,
}

impl Rank {
    /// The rank of a canonical value, by which values are sorted: numbers by size, and all else as text.
    pub(crate) fn new(kind: KeyType, value: &str) -> Self {
        if kind == KeyType::Step
            && let Some(span) = Span::parse(value)
        {
            return Self {
                number: ordered(f64::from(span.from)),
                end: span.to,
                text: Box::default(),
            };
        }
        let text = |number: i64| Self { number, end: 0, text: Box::from(value) };
        match number_of(value).map(ordered) {
            Some(number) if is_number(kind) => Self { number, end: 0, text: Box::default() },
            // Spellings of equal numbers, such as 1 and 0001, are different texts.
            Some(number) => text(number),
            None => text(i64::MAX),
        }
    }
}

/// True for a type in which equal numbers have the same canonical value, so that values can be sorted by number alone.
fn is_number(kind: KeyType) -> bool {
    use KeyType::{Default, Expver, First3, Grid, Ignore};
    !matches!(kind, Default | Expver | First3 | Grid | Ignore)
}

/// The number that a text spells, if it does.
fn number_of(value: &str) -> Option<f64> {
    let first = value.bytes().next()?;
    let may_be = first.is_ascii_digit() || first == b'-';
    if may_be { value.parse().ok().filter(|number: &f64| number.is_finite()) } else { None }
}

/// An integer with the order of the number: its bits, inverted for negative numbers.
fn ordered(number: f64) -> i64 {
    let bits = number.to_bits().cast_signed();
    bits ^ (((bits >> 63).cast_unsigned() >> 1).cast_signed())
}
