//! Values that are days, months and years.
use crate::date::Date;
use std::borrow::Cow;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Canonical form of a date: `20200131`. Also accepts `2020-01-31`, and days relative to `today` (`0`, `-1`) if that
/// is given.
pub(super) fn date(value: &str, today: Option<Date>) -> Option<Cow<'_, str>> {
    if let Some(day) = yyyy_mm_dd(value) {
        let done = value.len() == 8 && !value.contains('-');
        return Some(if done { Cow::Borrowed(value) } else { Cow::Owned(day.to_string()) });
    }
    day_in(value, today).map(|day| Cow::Owned(day.to_string()))
}

/// Parses a date. With `today`, the value may be relative to it: `0` or a negative number of days.
pub(crate) fn day_in(value: &str, today: Option<Date>) -> Option<Date> {
    yyyy_mm_dd(value).or_else(|| relative(value, today?))
}

/// The day that 0 or a negative number of days from `today` leads to.
fn relative(value: &str, today: Date) -> Option<Date> {
    let days: i64 = value.parse().ok()?;
    (days <= 0).then(|| today.plus_days(days)).flatten()
}

/// The day of `20200131`, `2020-01-31` or `2020-031`.
pub(crate) fn yyyy_mm_dd(value: &str) -> Option<Date> {
    let bytes = value.as_bytes();
    match bytes.len() {
        8 if bytes[4] == b'-' => {
            let of_year: i64 = digits(&bytes[5..])?.into();
            let day = Date::new(digits(&bytes[..4])?, 1, 1)?;
            let found = day.plus_days(of_year - 1)?;
            (of_year > 0 && found.year() == day.year()).then_some(found)
        }
        8 => Date::new(digits(&bytes[..4])?, small(&bytes[4..6])?, small(&bytes[6..])?),
        10 if bytes[4] == b'-' && bytes[7] == b'-' => {
            Date::new(digits(&bytes[..4])?, small(&bytes[5..7])?, small(&bytes[8..])?)
        }
        _ => None,
    }
}

/// Canonical form of a day of any year: `0131`. Also accepts `jan-31` and dates.
pub(super) fn climate_daily(value: &str) -> Option<Cow<'_, str>> {
    let (month, day) = day_of_any_year(value)?;
    // 2000 is a leap year: the 29th of February is a day of some year.
    Date::new(2000, month, day)?;
    Some(borrow_if_equal(value, format!("{month:02}{day:02}")))
}

/// Month and day in one of the forms of MARS.
fn day_of_any_year(value: &str) -> Option<(u8, u8)> {
    if let Some(day) = yyyy_mm_dd(value) {
        return Some((day.month(), day.day()));
    }
    if let Some((month, day)) = value.split_once('-') {
        return Some((named_month(month)?, small(day.as_bytes())?));
    }
    let bytes = value.as_bytes();
    let four = bytes.len() == 4;
    if four { Some((small(&bytes[..2])?, small(&bytes[2..])?)) } else { None }
}

/// Canonical form of a month: `1` to `12`. Also accepts `01`, `jan` and dates.
pub(super) fn month(value: &str) -> Option<Cow<'_, str>> {
    Some(borrow_if_equal(value, month_number(value)?.to_string()))
}

/// Canonical form of the month of a date: `01` to `12`. Accepts the same values as [`month`].
pub(super) fn month_of_date(value: &str) -> Option<Cow<'_, str>> {
    Some(borrow_if_equal(value, format!("{:02}", month_number(value)?)))
}

/// Number of the month in one of the forms of MARS.
fn month_number(value: &str) -> Option<u8> {
    if let Some(day) = yyyy_mm_dd(value) {
        return Some(day.month());
    }
    let short = value.len() <= 2;
    let number = if short { small(value.as_bytes()) } else { named_month(value) };
    number.filter(|number| (1..=12).contains(number))
}

/// The number of a month, by the first three letters of its name.
fn named_month(name: &str) -> Option<u8> {
    let place = MONTHS.iter().position(|month| name.eq_ignore_ascii_case(month))?;
    u8::try_from(place + 1).ok()
}

/// Canonical form of a year: `2020`. Also accepts dates.
pub(super) fn year(value: &str) -> Option<Cow<'_, str>> {
    let year = match yyyy_mm_dd(value) {
        Some(day) => day.year(),
        None if value.len() <= 4 => digits(value.as_bytes()).filter(|year| *year > 0)?,
        None => return None,
    };
    Some(borrow_if_equal(value, year.to_string()))
}

/// Canonical form of year and month: `202001`. Also accepts `2020-01` and dates.
pub(super) fn year_month(value: &str) -> Option<Cow<'_, str>> {
    let bytes = value.as_bytes();
    let day = match bytes.len() {
        6 => Date::new(digits(&bytes[..4])?, small(&bytes[4..])?, 1)?,
        7 if bytes[4] == b'-' => Date::new(digits(&bytes[..4])?, small(&bytes[5..])?, 1)?,
        _ => yyyy_mm_dd(value)?,
    };
    Some(borrow_if_equal(value, format!("{:04}{:02}", day.year(), day.month())))
}

/// `form`, borrowed if it equals `value`.
fn borrow_if_equal(value: &str, form: String) -> Cow<'_, str> {
    if value == form { Cow::Borrowed(value) } else { Cow::Owned(form) }
}

/// A number of at most four digits that fits in a byte.
fn small(bytes: &[u8]) -> Option<u8> {
    digits(bytes).and_then(|number| u8::try_from(number).ok())
}

/// A number of at most four digits and nothing else.
fn digits(bytes: &[u8]) -> Option<u16> {
    if bytes.is_empty() || bytes.len() > 4 {
        return None;
    }
    bytes.iter().try_fold(0, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + u16::from(byte - b'0'))
    })
}
