use super::*;

/// The 1st of March 2020.
fn today() -> Option<Date> {
    Date::new(2020, 3, 1)
}

#[test]
fn the_table_of_types_is_in_the_order_of_the_types() {
    assert!(TYPES.iter().enumerate().all(|(place, (kind, _, _))| *kind as usize == place));
    assert!(KeyType::all().all(|kind| KeyType::by_name(kind.name()).expect("known") == kind));
}

#[test]
fn an_unknown_type_is_named_with_its_neighbour() {
    let error = KeyType::by_name("Dat").expect_err("unknown");
    assert!(error.message().contains("no type Dat (did you mean Date?)"), "{error}");
}

#[test]
fn every_spelling_has_one_form() {
    let forms: [(KeyType, &str, &str); 18] = [
        (KeyType::Default, "OD od", "od"),
        (KeyType::Integer, "7 007 +7", "7"),
        (KeyType::Integer, "-3 -03", "-3"),
        (KeyType::Double, "500 500.0 5e2 0500 +500", "500"),
        (KeyType::Double, ".5 0.5 0.50 5e-1", "0.5"),
        (KeyType::Date, "20200131 2020-01-31 2020-031", "20200131"),
        (KeyType::Date, "-1 20200229", "20200229"),
        (KeyType::Time, "6 06 600 0600 06:00 6:00 06:00:00 060000", "0600"),
        (KeyType::Step, "24 024 24h 1d 1440m", "24"),
        (KeyType::Step, "0-24 00-24 0-1d", "0-24"),
        (KeyType::Step, "90m 1h30m 5400s", "1h30m"),
        (KeyType::Param, "167 167.128 2t 2T 0167", "167"),
        (KeyType::ParamId, "200151 151.200", "200151"),
        (KeyType::Expver, "1 01 0001", "0001"),
        (KeyType::Year, "2020 20200131 2020-01-31", "2020"),
        (KeyType::YearMonth, "202001 2020-01 20200131", "202001"),
        (KeyType::First3, "icmodel ICM icm", "icm"),
        (KeyType::Grid, "0.25/0.25 0.25+0.25", "0.25+0.25"),
    ];
    for (kind, spellings, form) in forms {
        for given in spellings.split(' ') {
            assert_eq!(kind.canonical(given, today()).expect(given), form, "{kind} {given}");
        }
    }
}

#[test]
fn months_and_days_of_any_year_have_their_forms() {
    for given in ["4", "04", "apr", "Apr", "20200401", "2020-04-30"] {
        assert_eq!(KeyType::ClimateMonthly.canonical(given, None).expect(given), "4");
        assert_eq!(KeyType::Month.canonical(given, None).expect(given), "4");
        assert_eq!(KeyType::MonthOfDate.canonical(given, None).expect(given), "04");
    }
    for given in ["0229", "feb-29", "feb-29", "20200229", "2020-060"] {
        assert_eq!(KeyType::ClimateDaily.canonical(given, None).expect(given), "0229");
    }
}

#[test]
fn invalid_values_of_each_type_are_refused() {
    let wrong: [(KeyType, &str); 10] = [
        (KeyType::Integer, "x 1.5 1e3 - 99999999999999999999"),
        (KeyType::Double, "x nan inf -inf infinity 1e999 1,5"),
        (
            KeyType::Date,
            "notadate 20200230 2020-1-1 1 20201301 2020-366x 2019-366 2020-000 00000101",
        ),
        (KeyType::Time, "24 2400 0660 12:60 x 06:00:01 060001 12345 1:2:3:4"),
        (KeyType::Step, "x -1 24-0 1h2d 1h1h h 0-24-48 1.5 4294967296 99999999999s"),
        (KeyType::Param, "notaparam 256.128 1.256 1.2.3 -1 1234567890"),
        (KeyType::ClimateMonthly, "0 13 januar 202001"),
        (KeyType::ClimateDaily, "0230 1301 feb-30 131 feb"),
        (KeyType::Year, "0 20201 x"),
        (KeyType::YearMonth, "202013 2020 2020-1"),
    ];
    for (kind, values) in wrong {
        for value in values.split(' ') {
            assert!(kind.canonical(value, today()).is_err(), "{kind} {value}");
        }
        assert!(kind.canonical("", today()).is_err(), "{kind}");
    }
    KeyType::Date.canonical("-1", None).expect_err("relative to no day");
}

#[test]
fn an_error_shows_value_type_and_remedy() {
    let said = |kind: KeyType, value, today| {
        kind.canonical(value, today).expect_err("refused").message().to_owned()
    };
    let date = "notadate: not a Date, such as 20200131, 2020-01-31";
    assert_eq!(said(KeyType::Date, "notadate", None), date);
    assert_eq!(said(KeyType::Date, "notadate", today()), format!("{date}, 0, -1"));
    assert!(said(KeyType::Param, "2tt", None).contains("did you mean"));
}

#[test]
fn axes_are_in_the_order_of_their_type() {
    let orders: [(KeyType, &str); 7] = [
        (KeyType::Integer, "-10 -2 0 9 10 100"),
        (KeyType::Double, "-1.5 0 0.5 2 10 1e20"),
        (KeyType::Date, "19991231 20000101 20200229"),
        (KeyType::Time, "0000 0030 0600 1800"),
        (KeyType::Step, "0 0-6 0-24 1m 1h30m 2 6 6-12 100"),
        (KeyType::Default, "1 2 10 an fc"),
        (KeyType::Expver, "0001 0002 10001 hz9o"),
    ];
    for (kind, order) in orders {
        let sorted: Vec<_> = order.split(' ').collect();
        let mut values = sorted.clone();
        values.reverse();
        values.sort_by(|a, b| kind.compare(a, b));
        assert_eq!(values, sorted, "{kind}");
    }
}

#[test]
fn equal_numbers_of_different_spelling_are_told_apart() {
    assert_ne!(KeyType::Default.compare("1", "01"), Ordering::Equal);
    assert_eq!(KeyType::Default.compare("01", "01"), Ordering::Equal);
}

#[test]
fn short_names_of_parameters_are_sorted() {
    let names: Vec<_> = params::short_names().collect();
    assert!(names.is_sorted() && names.len() > 1000);
    for (name, id) in
        [("t", "130"), ("10u", "165"), ("tp", "228"), ("swh", "140229"), ("msl", "151")]
    {
        assert_eq!(KeyType::Param.canonical(name, None).expect("known"), id);
    }
}
