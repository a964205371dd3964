//! Days of the Gregorian calendar.
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A day of the Gregorian calendar, shown as `20200131`; years 1 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// The day, where the calendar has it.
    #[must_use]
    pub const fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let valid = year >= 1
            && year <= 9999
            && month >= 1
            && month <= 12
            && day >= 1
            && day <= days_of_month(year, month);
        if valid { Some(Self { year, month, day }) } else { None }
    }

    /// Today in UTC, by the clock of this machine.
    #[must_use]
    pub fn today() -> Self {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
        let days = i64::try_from(seconds / 86400).unwrap_or(0);
        Self::from_days(days).unwrap_or(Self { year: 1970, month: 1, day: 1 })
    }

    /// The day so many days after 1970-01-01.
    #[must_use]
    pub fn from_days(days: i64) -> Option<Self> {
        if !(-800_000..=3_000_000).contains(&days) {
            return None;
        }
        // Counted from 0000-03-01, so that the leap day is the last of a year, in eras of 400 years.
        let since = days + 719_468;
        let (era, of_era) = (since.div_euclid(146_097), since.rem_euclid(146_097));
        let of_400 = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * of_400 + of_400 / 4 - of_400 / 100);
        let month_from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = of_400 + era * 400 + i64::from(month <= 2);
        Self::new(u16::try_from(year).ok()?, u8::try_from(month).ok()?, u8::try_from(day).ok()?)
    }

    /// Days since 1970-01-01.
    #[must_use]
    pub fn days(self) -> i64 {
        let year = i64::from(self.year) - i64::from(self.month <= 2);
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let month_from_march = (i64::from(self.month) + 9) % 12;
        let of_year = (153 * month_from_march + 2) / 5 + i64::from(self.day) - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }

    /// So many days later; earlier where `days` is negative.
    #[must_use]
    pub fn plus_days(self, days: i64) -> Option<Self> {
        Self::from_days(self.days().checked_add(days)?)
    }

    /// The year, 1 to 9999.
    #[must_use]
    pub const fn year(self) -> u16 {
        self.year
    }

    /// The month, 1 to 12.
    #[must_use]
    pub const fn month(self) -> u8 {
        self.month
    }

    /// The day of the month, 1 to 31.
    #[must_use]
    pub const fn day(self) -> u8 {
        self.day
    }
}

const fn days_of_month(year: u16, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        _ => 31,
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}{:02}{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests;
