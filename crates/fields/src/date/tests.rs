use super::*;

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn days_count_as_the_calendar_does() {
    let mut expected = Date::new(1, 1, 1).expect("a day");
    let first = expected.days();
    let last = Date::new(9999, 12, 31).expect("a day").days();
    for days in first..=last {
        let day = Date::from_days(days).expect("in range");
        assert_eq!(day, expected);
        assert_eq!(day.days(), days);
        expected = next(day).unwrap_or(expected);
    }
    assert_eq!(Date::from_days(first - 1), None);
    assert_eq!(Date::from_days(last + 1), None);
    assert_eq!(Date::new(1970, 1, 1).expect("a day").days(), 0);
}

/// The day behind another one, by trying.
fn next(day: Date) -> Option<Date> {
    let (y, m, d) = (day.year(), day.month(), day.day());
    Date::new(y, m, d + 1).or_else(|| Date::new(y, m + 1, 1)).or_else(|| Date::new(y + 1, 1, 1))
}

#[test]
fn leap_years_follow_the_gregorian_rule() {
    for (year, leap) in [(1900, false), (2000, true), (2019, false), (2020, true), (2100, false)] {
        assert_eq!(Date::new(year, 2, 29).is_some(), leap, "{year}");
    }
    assert_eq!(Date::new(0, 1, 1), None);
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
