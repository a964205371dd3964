//! Days of the Gregorian calendar.
use jiff::civil;
use jiff::{Span, Timestamp, tz::TimeZone};
use std::fmt;

const EPOCH: civil::Date = civil::date(1970, 1, 1);

/// A day of the Gregorian calendar, shown as `20200131`; years 1 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Date(civil::Date);

impl Date {
    /// The day, if the calendar has it.
    #[must_use]
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let (month, day) = (i8::try_from(month).ok()?, i8::try_from(day).ok()?);
        civil::Date::new(i16::try_from(year).ok()?, month, day).ok().and_then(Self::from_civil)
    }

    /// Today in UTC, by the clock of this machine.
    #[must_use]
    pub fn today() -> Self {
        Self::from_civil(TimeZone::UTC.to_datetime(Timestamp::now()).date()).unwrap_or(Self(EPOCH))
    }

    /// The day `days` days after 1970-01-01.
    #[must_use]
    pub fn from_days(days: i64) -> Option<Self> {
        let span = Span::new().try_days(days).ok()?;
        EPOCH.checked_add(span).ok().and_then(Self::from_civil)
    }

    /// Days since 1970-01-01.
    #[must_use]
    pub fn days(self) -> i64 {
        self.0.duration_since(EPOCH).as_hours() / 24
    }

    /// The day `days` days later; earlier if `days` is negative.
    #[must_use]
    pub fn plus_days(self, days: i64) -> Option<Self> {
        Self::from_days(self.days().checked_add(days)?)
    }

    /// The year, 1 to 9999.
    #[must_use]
    pub fn year(self) -> u16 {
        self.0.year().unsigned_abs()
    }

    /// The month, 1 to 12.
    #[must_use]
    pub fn month(self) -> u8 {
        self.0.month().unsigned_abs()
    }

    /// The day of the month, 1 to 31.
    #[must_use]
    pub fn day(self) -> u8 {
        self.0.day().unsigned_abs()
    }

    /// The day, unless it is before the year 1.
    fn from_civil(date: civil::Date) -> Option<Self> {
        (date.year() >= 1).then_some(Self(date))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}{:02}{:02}", self.year(), self.month(), self.day())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_from_1970_over_the_years_that_fields_have() {
        for (days, text) in [
            (-719_162, "00010101"),
            (-1, "19691231"),
            (0, "19700101"),
            (11_016, "20000229"),
            (2_932_896, "99991231"),
        ] {
            let day = Date::from_days(days).expect(text);
            assert_eq!((day.to_string().as_str(), day.days()), (text, days));
        }
        assert_eq!(Date::from_days(-719_163), None);
        assert_eq!(Date::from_days(2_932_897), None);
    }

    #[test]
    fn days_outside_the_calendar_are_refused() {
        for (year, leap) in [(1900, false), (2000, true), (2019, false), (2020, true)] {
            assert_eq!(Date::new(year, 2, 29).is_some(), leap, "{year}");
        }
        assert_eq!(Date::new(0, 1, 1), None);
        assert_eq!(Date::new(10_000, 1, 1), None);
        assert_eq!(Date::new(2020, 13, 1), None);
        assert_eq!(Date::new(2020, 4, 31), None);
    }

    #[test]
    fn days_are_added() {
        let day = Date::new(2020, 3, 1).expect("a day");
        assert_eq!(day.plus_days(-1).expect("a day").to_string(), "20200229");
        assert_eq!(day.plus_days(i64::MAX), None);
        assert!(Date::today() > Date::new(2024, 1, 1).expect("a day"));
    }
}
