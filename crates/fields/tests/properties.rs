//! Properties of every key, schema and request. A seed determines all random input; a failure prints it, and
//! `ESKER_SEED` sets it.
#![expect(clippy::expect_used, reason = "a test stops where something fails")]

mod support;

use esker_fields::request::{Request, Selection};
use esker_fields::{Date, Key, KeyType, Schema};
use esker_testing::Random;
use std::cmp::Ordering;
use support::for_random;

/// A random element.
fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.below(from.len() as u64) as usize]
}

/// A text of some length of these characters.
fn text(random: &mut Random, letters: &[u8], longest: u64) -> String {
    let len = random.below(longest + 1);
    (0..len).map(|_| letters[random.below(letters.len() as u64) as usize] as char).collect()
}

/// A valid name.
fn name(random: &mut Random) -> String {
    format!("{}{}", pick(random, &["a", "b", "x"]), text(random, b"abc_019", 6))
}

/// A valid or nearly valid value of some type.
fn value(random: &mut Random) -> String {
    let number =
        || ["0", "1", "7", "06", "0600", "24", "99", "128", "1.5", "-3", "1e3", "2020", "202001"];
    match random.below(6) {
        0 => text(random, b"0123456789", 9),
        1 => text(random, b"0123456789.-+e:hmsdHMTO/", 9),
        2 => format!("20{}", text(random, b"0123456789-", 8)),
        3 => text(random, b"abcdefghijklmnopqrstuvwxyzABC019_-", 8),
        4 => pick(random, &number()).to_owned(),
        _ => format!("{}-{}", pick(random, &number()), pick(random, &["24", "1h30m", "31", "feb"])),
    }
}

#[test]
fn key_parses_from_its_spelling() {
    for_random(2_000, |random| {
        let mut key = Key::new();
        for _ in 0..random.below(8) {
            let value = text(random, b"abcXYZ0189./-+= :!\"#", 12);
            key.set(&name(random), &value).expect("short and without commas");
        }
        assert_eq!(Key::parse(key.as_str()).expect("its own spelling"), key);
        assert_eq!(Key::from_pairs(&key).expect("its own pairs"), key);
        assert_eq!(key.iter().count(), key.len());
        assert!(key.iter().all(|(name, value)| key.get(name) == Some(value)));
        let joined = Key::joined(&[&key, &Key::new(), &key], |_, _, _| false);
        assert_eq!(joined.expect("the same names"), key);
    });
}

#[test]
fn canonicalization_is_idempotent() {
    let today = Date::new(2024, 2, 29);
    for_random(3_000, |random| {
        let value = value(random);
        for kind in KeyType::all() {
            let Ok(form) = kind.canonical(&value, today) else { continue };
            let again = kind.canonical(&form, None);
            assert_eq!(again.expect("canonical"), form, "{kind} {value}");
            assert!(form.len() <= value.len().max(25), "{kind} {value} {form}");
        }
    });
}

#[test]
fn axis_order_is_a_total_order() {
    for_random(2_000, |random| {
        let given = [value(random), value(random), value(random)];
        for kind in KeyType::all() {
            let forms = given.iter().filter_map(|value| kind.canonical(value, None).ok());
            let forms: Vec<_> = forms.collect();
            let [a, b, c] = forms.as_slice() else { continue };
            assert_eq!(kind.compare(a, b), kind.compare(b, a).reverse(), "{kind} {a} {b}");
            assert_eq!(kind.compare(a, b) == Ordering::Equal, a == b, "{kind} {a} {b}");
            if kind.compare(a, b).is_le() && kind.compare(b, c).is_le() {
                assert!(kind.compare(a, c).is_le(), "{kind} {a} {b} {c}");
            }
        }
    });
}

#[test]
fn request_parses_from_its_spelling() {
    for_random(2_000, |random| {
        let mut request = Request::default();
        for _ in 0..random.below(6) {
            let values = (0..=random.below(4)).map(|_| text(random, b"abC01./,=# !-*\"", 8) + "x");
            let values = values.collect();
            // The same name twice is refused and leaves the request as it was.
            let _ = request.add(&name(random), values);
        }
        let spelling = request.to_string();
        assert_eq!(Request::parse(&spelling).expect(&spelling), request);
    });
}

/// Four names of one digit each.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// The names without those that are left out once in `times`.
fn some_names(random: &mut Random, times: u64) -> Vec<&'static str> {
    NAMES.into_iter().filter(|_| !random.one_in(times)).collect()
}

/// A request of some of the names, and the same as plain lists.
fn random_request(random: &mut Random) -> (Request, Vec<(&'static str, Vec<u64>)>) {
    let mut request = Request::default();
    let mut plain = Vec::new();
    for name in some_names(random, 3) {
        let (mut raw, mut values) = (Vec::new(), Vec::new());
        for _ in 0..=random.below(2) {
            let (first, last, by) = (random.below(8), random.below(8), 1 + random.below(3));
            let range: Vec<_> = if first <= last {
                (first..=last).step_by(by as usize).collect()
            } else {
                (last..=first).rev().step_by(by as usize).collect()
            };
            raw.extend([
                first.to_string(),
                "to".into(),
                last.to_string(),
                "by".into(),
                by.to_string(),
            ]);
            values.extend(
                range.into_iter().filter(|value| !values.contains(value)).collect::<Vec<_>>(),
            );
        }
        request.add(name, raw).expect("a new name");
        plain.push((name, values));
    }
    (request, plain)
}

#[test]
fn selections_agree_with_plain_lists() {
    let schema = Schema::parse("a: Integer; b: Double; c: Integer; [a [b? [c?, d?]]]", "test");
    let schema = schema.expect("valid");
    for_random(15, |random| {
        let (request, plain) = random_request(random);
        let selection = request.expand(&schema, Date::today()).expect("numbers");
        let keys: Vec<_> = selection.keys().expect("listed").collect();
        assert_eq!(keys, combinations(&plain), "{request}");
        assert_eq!(selection.count(), Some(keys.len() as u64));
        assert_same_fields(random, &selection, &plain);
        let positions: Vec<_> = keys.iter().map(|key| selection.position(key)).collect();
        assert!(positions.is_sorted() && positions.iter().all(Option::is_some), "{request}");
    });
}

/// All combinations of the values, the last name changing fastest.
fn combinations(plain: &[(&str, Vec<u64>)]) -> Vec<Key> {
    let mut keys = vec![Key::new()];
    for (name, values) in plain {
        let with = |key: &Key, value: &u64| {
            let mut key = key.clone();
            key.set(name, &value.to_string()).map(|()| key).expect("short")
        };
        keys = keys.iter().flat_map(|key| values.iter().map(|value| with(key, value))).collect();
    }
    keys
}

/// Checks that a selection matches random keys exactly as the plain lists do.
fn assert_same_fields(random: &mut Random, selection: &Selection, plain: &[(&str, Vec<u64>)]) {
    for _ in 0..100 {
        let mut key = Key::new();
        for name in some_names(random, 8) {
            key.set(name, &random.below(10).to_string()).expect("short");
        }
        let has = |name: &str, values: &[u64]| {
            key.get(name).map(|value| values.contains(&value.parse().expect("a number")))
        };
        let all = plain.iter().all(|(name, values)| has(name, values) == Some(true));
        let may = plain.iter().all(|(name, values)| has(name, values) != Some(false));
        assert_eq!(selection.matches(&key), all, "{key}");
        assert_eq!(selection.may_match(&key), may, "{key}");
    }
}
