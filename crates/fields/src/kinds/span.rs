//! Values that are times of day and forecast steps.
use std::borrow::Cow;
use std::fmt;

const MINUTE: u32 = 60;
const HOUR: u32 = 60 * MINUTE;
const DAY: u32 = 24 * HOUR;

/// Canonical form of a time of day: `0600`. Also accepts `6`, `06`, `600`, `06:00`, `06:00:00` and `060000`; seconds
/// must be zero.
pub(super) fn time(value: &str) -> Option<Cow<'_, str>> {
    let (hour, minute) = hour_and_minute(value)?;
    if hour > 23 || minute > 59 {
        return None;
    }
    let done = value.len() == 4 && !value.contains(':');
    Some(if done { Cow::Borrowed(value) } else { Cow::Owned(format!("{hour:02}{minute:02}")) })
}

/// Hour and minute in one of the forms of MARS.
fn hour_and_minute(value: &str) -> Option<(u32, u32)> {
    if value.contains(':') {
        let mut parts = value.split(':');
        let (hour, minute) = (two(parts.next()?)?, two(parts.next()?)?);
        let seconds = parts.next().map_or(Some(0), two)?;
        return (seconds == 0 && parts.next().is_none()).then_some((hour, minute));
    }
    let number = digits(value)?;
    match value.len() {
        1 | 2 => Some((number, 0)),
        3 | 4 => Some((number / 100, number % 100)),
        6 => (number % 100 == 0).then_some((number / 10_000, number / 100 % 100)),
        _ => None,
    }
}

/// A number of one or two digits.
fn two(text: &str) -> Option<u32> {
    if text.len() <= 2 { digits(text) } else { None }
}

/// A number of digits and nothing else; `None` also if it is too large.
fn digits(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Canonical form of a step or a range of steps: `24`, `0-24`, `1h30m`. Also accepts other spellings, such as `024`,
/// `90m` and `1d`.
pub(super) fn step(value: &str) -> Option<Cow<'_, str>> {
    if is_hours(value) {
        return Some(Cow::Borrowed(value));
    }
    let form = Span::parse(value)?.to_string();
    Some(if form == value { Cow::Borrowed(value) } else { Cow::Owned(form) })
}

/// True if the value is a number of hours in canonical form, with at most five digits, so that it does not overflow.
fn is_hours(value: &str) -> bool {
    let bytes = value.as_bytes();
    let plain = bytes.iter().all(u8::is_ascii_digit);
    plain && matches!(bytes.len(), 1..=5) && (bytes.len() == 1 || bytes[0] != b'0')
}

/// A forecast step or a range of them, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    /// The start of the range.
    pub(crate) from: u32,
    /// The end of the range; the same as `from` for a single step.
    pub(crate) to: u32,
}

impl Span {
    /// A single step, this many seconds after the start.
    pub(crate) const fn single(seconds: u32) -> Self {
        Self { from: seconds, to: seconds }
    }

    /// Reads `24`, `1h30m`, `0-24`.
    pub(crate) fn parse(value: &str) -> Option<Self> {
        let Some((from, to)) = value.split_once('-') else {
            return duration(value).map(Self::single);
        };
        let span = Self { from: duration(from)?, to: duration(to)? };
        (span.from <= span.to).then_some(span)
    }
}

/// The range from 0 to a single step: `0-24` for `24`. `None` for ranges and for step 0.
pub(super) fn range_to(value: &str) -> Option<String> {
    let span = Span::parse(value).filter(|span| span.from == span.to && span.to > 0)?;
    Some(Span { from: 0, ..span }.to_string())
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_duration(f, self.from)?;
        if self.from == self.to {
            return Ok(());
        }
        f.write_str("-")?;
        write_duration(f, self.to)
    }
}

/// Writes a duration as FDB does: `24` for whole hours, otherwise with units: `1h30m`.
fn write_duration(f: &mut fmt::Formatter<'_>, seconds: u32) -> fmt::Result {
    let (hours, rest) = (seconds / HOUR, seconds % HOUR);
    if rest == 0 {
        return write!(f, "{hours}");
    }
    for (count, unit) in [(hours, 'h'), (rest / MINUTE, 'm'), (rest % MINUTE, 's')] {
        if count > 0 {
            write!(f, "{count}{unit}")?;
        }
    }
    Ok(())
}

/// Parses a duration, and returns its seconds. A plain number means hours: `24`. With units, larger ones come first:
/// `90m`, `1h30m`, `2d`.
pub(crate) fn duration(text: &str) -> Option<u32> {
    if let Some(hours) = digits(text) {
        return hours.checked_mul(HOUR);
    }
    let (mut seconds, mut number, mut last) = (0u32, None, u32::MAX);
    for byte in text.bytes() {
        if byte.is_ascii_digit() {
            let digit = u32::from(byte - b'0');
            number = Some(number.unwrap_or(0u32).checked_mul(10)?.checked_add(digit)?);
            continue;
        }
        let unit = unit_seconds(byte).filter(|unit| *unit < last)?;
        seconds = seconds.checked_add(number.take()?.checked_mul(unit)?)?;
        last = unit;
    }
    (number.is_none() && last != u32::MAX).then_some(seconds)
}

/// Seconds of a unit.
fn unit_seconds(letter: u8) -> Option<u32> {
    match letter.to_ascii_lowercase() {
        b'd' => Some(DAY),
        b'h' => Some(HOUR),
        b'm' => Some(MINUTE),
        b's' => Some(1),
        _ => None,
    }
}
