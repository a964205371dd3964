//! Canonical spellings of numbers and words.
use std::borrow::Cow;

/// Numbers from this value on are written with an exponent, so that their spelling stays short.
const PLAIN_BELOW: f64 = 1e15;

/// Numbers below this value are written with an exponent, too.
const PLAIN_FROM: f64 = 1e-5;

/// A whole number without leading zeros.
pub(super) fn integer(value: &str) -> Option<Cow<'_, str>> {
    if is_plain(value) {
        return Some(Cow::Borrowed(value));
    }
    value.parse::<i64>().ok().map(|number| Cow::Owned(number.to_string()))
}

/// A finite number in its shortest spelling.
pub(super) fn double(value: &str) -> Option<Cow<'_, str>> {
    if is_plain(value) && value.len() <= 15 {
        return Some(Cow::Borrowed(value));
    }
    let starts = value.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+'));
    let number: f64 = value.parse().ok().filter(|number: &f64| starts && number.is_finite())?;
    Some(Cow::Owned(shortest(number)))
}

/// Shortest spelling of a number.
fn shortest(number: f64) -> String {
    let size = number.abs();
    match size {
        0.0 => "0".to_owned(),
        _ if (PLAIN_FROM..PLAIN_BELOW).contains(&size) => number.to_string(),
        _ => format!("{number:e}"),
    }
}

/// Whether it is the canonical spelling of a whole number of no more than 18 digits and no sign.
fn is_plain(value: &str) -> bool {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    digits && (1..=18).contains(&value.len()) && (value.len() == 1 || !value.starts_with('0'))
}

/// The value in lower case: the MARS language ignores case.
pub(super) fn lower(value: &str) -> Cow<'_, str> {
    if value.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(value.to_ascii_lowercase());
    }
    Cow::Borrowed(value)
}

/// A version of an experiment, filled up with zeros to four characters.
pub(super) fn expver(value: &str) -> Option<Cow<'_, str>> {
    if value.len() >= 4 {
        return Some(lower(value));
    }
    let short = !value.is_empty() && value.is_ascii();
    short.then(|| Cow::Owned(format!("{:0>4}", value.to_ascii_lowercase())))
}

/// The first three characters.
pub(super) fn first3(value: &str) -> Cow<'_, str> {
    let end = value.char_indices().nth(3).map_or(value.len(), |(index, _)| index);
    lower(value[..end].trim_end())
}

/// A grid, with `+` where requests have `/`.
pub(super) fn grid(value: &str) -> Cow<'_, str> {
    if value.contains('/') {
        Cow::Owned(value.to_ascii_lowercase().replace('/', "+"))
    } else {
        lower(value)
    }
}
