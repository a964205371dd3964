use super::*;

fn kind(result: Result<Key>) -> ErrorKind {
    result.expect_err("refused").kind()
}

#[test]
fn pairs_keep_their_order() {
    let mut key = Key::parse("class=od,expver=0001").expect("a key");
    key.set("date", "20200131").expect("room");
    key.set("class", "rd").expect("room");
    assert_eq!(key.to_string(), "class=rd,expver=0001,date=20200131");
    assert_eq!(key.len(), 3);
    assert_eq!(key.get("expver"), Some("0001"));
    assert_eq!(key.get("step"), None);
    assert_eq!(key.iter().next(), Some(("class", "rd")));
}

#[test]
fn set_replaces_a_value_without_moving_it() {
    let values = ["", "x", "=", "two words", "aaaaaaaa", "\u{e9}"];
    for (name, before, after) in [("a", "", ",b=2,c="), ("b", "a=1,", ",c="), ("c", "a=1,b=2,", "")]
    {
        for value in values {
            let mut key = Key::parse("a=1,b=2,c=").expect("a key");
            key.set(name, value).expect("room");
            assert_eq!(key.as_str(), format!("{before}{name}={value}{after}"));
        }
    }
    let longest = "x".repeat(VALUE_BYTES_MAX);
    let pairs = || (0..KEY_PAIRS_MAX).map(|number| (format!("n{number}"), "1"));
    let mut key = Key::from_pairs(pairs()).expect("a key");
    assert_eq!(key.set("one_more", "1").expect_err("too many").kind(), ErrorKind::KeyTooBig);
    let refused = (0..KEY_PAIRS_MAX).find_map(|n| key.set(&format!("n{n}"), &longest).err());
    assert_eq!(refused.expect("too long").kind(), ErrorKind::KeyTooBig);
    assert!(key.as_str().len() <= KEY_BYTES_MAX && key.len() == KEY_PAIRS_MAX);
}

#[test]
fn blanks_and_cases_are_tidied() {
    let key = Key::parse(" Class = od , grid=0.25/0.25,domain= ").expect("a key");
    assert_eq!(key.as_str(), "class=od,grid=0.25/0.25,domain=");
    assert_eq!(key.get("domain"), Some(""));
    assert!(Key::parse("  ").expect("a key").is_empty());
    let odd = Key::parse("a=b=c,d=two words,e=\u{e9}").expect("a key");
    assert_eq!(odd.get("a"), Some("b=c"));
    assert_eq!(odd.get("d"), Some("two words"));
    assert_eq!(odd.get("e"), Some("\u{e9}"));
}

#[test]
fn invalid_keys_are_refused() {
    for text in
        ["a", "a=1,", "a=1,,b=2", "=1", "1a=2", "a=1,a=2", "A=1,a=2", "a b=1", "a=1\u{7},b=2"]
    {
        assert_eq!(kind(Key::parse(text)), ErrorKind::Invalid, "{text}");
    }
    let mut key = Key::parse("a=1").expect("a key");
    key.set("b", "1,c=2").expect_err("a comma would make two pairs");
    key.set("b\n", "\n").expect("blanks around are dropped");
    assert_eq!(key.as_str(), "a=1,b=");
}

/// The fast comparison of beginnings must not confuse names that begin alike.
#[test]
fn a_name_occurs_once_in_a_key() {
    let names = || (0..KEY_PAIRS_MAX - 1).map(|number| format!("n{number}"));
    let text = names().map(|name| format!("{name}=1")).collect::<Vec<_>>().join(",");
    assert_eq!(Key::parse(&text).expect("a key").as_str(), text);
    for name in names() {
        let twice = format!("{text},{name}=2");
        assert_eq!(kind(Key::parse(&twice)), ErrorKind::Invalid, "{name}");
        assert_eq!(Key::spelt(twice), None);
    }
}

#[test]
fn joined_keys_take_the_innermost_value_unless_an_earlier_one_stays() {
    let [outer, empty, inner] = ["date=2020,class=d1", "", "date=20200131,step=0"]
        .map(|text| Key::parse(text).expect("a key"));
    let last = |_: &str, _: &str, _: &str| false;
    let whole = Key::joined(&[&outer, &empty, &inner], last).expect("short");
    assert_eq!(whole.as_str(), "date=20200131,class=d1,step=0");
    let first = |name: &str, earlier: &str, later: &str| {
        (name, earlier, later) == ("date", "2020", "20200131")
    };
    let whole = Key::joined(&[&outer, &empty, &inner], first).expect("short");
    assert_eq!(whole.as_str(), "date=2020,class=d1,step=0");
    assert_eq!(Key::joined(&[&empty, &outer], last).expect("short"), outer);
}

#[test]
fn limits_hold_to_the_byte() {
    let name = "n".repeat(NAME_BYTES_MAX);
    let value = "v".repeat(VALUE_BYTES_MAX);
    let key = Key::parse(&format!("{name}={value}")).expect("at the limits");
    assert_eq!(key.get(&name), Some(value.as_str()));
    assert_eq!(kind(Key::parse(&format!("{name}n=1"))), ErrorKind::KeyTooBig);
    assert_eq!(kind(Key::parse(&format!("n={value}v"))), ErrorKind::KeyTooBig);

    let pairs = |count: usize| (0..count).map(|n| (format!("n{n}"), "1"));
    assert_eq!(Key::from_pairs(pairs(KEY_PAIRS_MAX)).expect("fits").len(), KEY_PAIRS_MAX);
    assert_eq!(kind(Key::from_pairs(pairs(KEY_PAIRS_MAX + 1))), ErrorKind::KeyTooBig);
}

#[test]
fn longest_key_fits_in_a_key_of_an_object() {
    let text = |bytes: usize| {
        let text = ["a", "b", "c"].map(|name| format!("{name}={}", "v".repeat(248))).join(",");
        format!("{text},d={}", "v".repeat(bytes - text.len() - 3))
    };
    assert_eq!(Key::parse(&text(KEY_BYTES_MAX)).expect("fits").as_str().len(), KEY_BYTES_MAX);
    assert_eq!(kind(Key::parse(&text(KEY_BYTES_MAX + 1))), ErrorKind::KeyTooBig);
    const { assert!(KEY_BYTES_MAX <= esker_types::limits::KEY_MAX) };
}
