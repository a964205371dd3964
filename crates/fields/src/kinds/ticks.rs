//! Ranges such as `20200101/to/20200131/by/2`: each type that has ranges maps its values to integers, called ticks. So
//! the values of a range are computed by adding integers.
//!
//! A tick is a day of dates, a minute of times, a second of steps, a month of year and month, a millionth of a
//! [`KeyType::Double`], and 1 of all other types.
use super::calendar::yyyy_mm_dd;
use super::span::{Span, duration};
use super::{KeyType, spelling};
use crate::date::Date;

const MICRO: f64 = 1e6;
const MINUTES_A_DAY: i64 = 24 * 60;

/// The default distance in ticks between the values of a range, as in the MARS language. `None` if the type has no
/// ranges.
pub(crate) fn default_distance(kind: KeyType) -> Option<i64> {
    match kind {
        KeyType::Double => tick(kind, "1"),
        KeyType::Time => Some(6 * 60),
        KeyType::Step => Some(12 * 3600),
        KeyType::Param | KeyType::ParamId | KeyType::Expver => None,
        KeyType::First3 | KeyType::Grid | KeyType::Ignore => None,
        _ => Some(1),
    }
}

/// The distance in ticks that `by/...` gives. Its argument is a number of days for dates, a duration for times and
/// steps (a plain number means hours), and a number for other types.
pub(crate) fn distance(kind: KeyType, by: &str) -> Option<i64> {
    let (sign, size) = by.strip_prefix('-').map_or((1, by), |size| (-1, size));
    // Numbers are parsed with a sign of their own, but a distance has at most one.
    if sign < 0 && size.starts_with(['-', '+']) {
        return None;
    }
    let size: i64 = match kind {
        KeyType::Step => i64::from(duration(size)?),
        // A time of day is the distance from 0000.
        KeyType::Time if size.len() == 4 || size.contains(':') => {
            tick(kind, &super::span::time(size)?)?
        }
        // Times have no seconds.
        KeyType::Time => i64::from(duration(size).filter(|seconds| seconds % 60 == 0)?) / 60,
        KeyType::Double => tick(kind, size)?,
        _ => size.parse().ok()?,
    };
    size.checked_mul(sign)
}

/// The tick of a canonical value. `None` if the type has no ranges, or the value is a range of steps.
pub(crate) fn tick(kind: KeyType, value: &str) -> Option<i64> {
    match kind {
        KeyType::Integer | KeyType::Year | KeyType::Month => value.parse().ok(),
        // A text with leading zeros or a sign would lose them.
        KeyType::Default => value.parse().ok().filter(|tick: &i64| tick.to_string() == value),
        KeyType::ClimateMonthly | KeyType::MonthOfDate => value.parse().ok(),
        KeyType::Double => micros(value.parse().ok()?),
        KeyType::Date => yyyy_mm_dd(value).map(Date::days),
        KeyType::ClimateDaily => yyyy_mm_dd(&format!("2000{value}")).map(Date::days),
        KeyType::Time => split_number(value, 100).map(|(hour, minute)| hour * 60 + minute),
        KeyType::YearMonth => split_number(value, 100).map(|(year, month)| year * 12 + month - 1),
        KeyType::Step => {
            Span::parse(value).filter(|span| span.from == span.to).map(|span| span.to.into())
        }
        _ => None,
    }
}

/// The canonical value of a tick, the reverse of [`tick`]. `None` if the type has no such value: for example, no time
/// is later than 2359.
pub(crate) fn value_at(kind: KeyType, tick: i64) -> Option<String> {
    match kind {
        KeyType::Integer | KeyType::Default => Some(tick.to_string()),
        KeyType::Double => spelling::double(&decimal(tick)).map(Into::into),
        KeyType::Date => Date::from_days(tick).map(|day| day.to_string()),
        KeyType::ClimateDaily => {
            // A day of any year has the tick of that day in 2000, which is a leap year.
            let day = Date::from_days(tick).filter(|day| day.year() == 2000)?;
            Some(format!("{:02}{:02}", day.month(), day.day()))
        }
        KeyType::Time if (0..MINUTES_A_DAY).contains(&tick) => {
            Some(format!("{:02}{:02}", tick / 60, tick % 60))
        }
        KeyType::YearMonth => {
            Some(format!("{:04}{:02}", tick.div_euclid(12), tick.rem_euclid(12) + 1))
        }
        KeyType::Step => Some(Span::single(u32::try_from(tick).ok()?).to_string()),
        _ => kind.form(&tick.to_string(), None).map(Into::into),
    }
}

/// A number in millionths; `None` if it has more than six decimal places or is too large.
fn micros(number: f64) -> Option<i64> {
    let scaled = (number * MICRO).round();
    let exact = (scaled / MICRO - number).abs() <= f64::EPSILON * number.abs();
    // Below 2^53 every whole number is exact.
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
    (exact && scaled.abs() < 9e15).then_some(scaled as i64)
}

/// A number of millionths in decimal notation.
fn decimal(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let (whole, rest) = (micros.unsigned_abs() / 1_000_000, micros.unsigned_abs() % 1_000_000);
    let text = format!("{sign}{whole}.{rest:06}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Quotient and remainder of the division by `by` of the number that a text spells.
fn split_number(value: &str, by: i64) -> Option<(i64, i64)> {
    value.parse::<i64>().ok().map(|number| (number / by, number % by))
}
