//! When something happened, in the calendar.
use esker::types::Epoch;

const DAY_S: i64 = 24 * 3600;

/// `2026-01-31T12:00:00Z`.
pub(crate) fn utc(epoch: Epoch) -> String {
    calendar(epoch.unix_time().as_secs() as i64) + "Z"
}

/// `2026-01-31T12:00:00` of seconds since the start of 1970, in UTC.
pub(crate) fn calendar(seconds: i64) -> String {
    let (year, month, day) = date(seconds.div_euclid(DAY_S));
    let time = seconds.rem_euclid(DAY_S);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// Year, month and day, of days since the start of 1970. Counts in years that begin in March, so that
/// the leap day is the last of its year.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(59), (1970, 3, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(-1), (1969, 12, 31));
        assert_eq!(date(20_819), (2027, 1, 1));
        assert_eq!(utc(Epoch(0)), "2021-01-01T00:00:00Z");
        assert_eq!(utc(Epoch(90_061_000_000_000)), "2021-01-02T01:01:00Z");
    }
}
