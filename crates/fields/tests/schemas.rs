//! Random schemas compared with a simple interpretation of their rules, and invalid texts that must never cause a
//! panic.
#![expect(clippy::expect_used, reason = "a test stops where something fails")]

mod support;

use esker_fields::request::Request;
use esker_fields::schema::{Level, Presence, Rule, Values};
use esker_fields::{Date, Key, KeyType, Schema};
use esker_testing::Random;
use support::for_random;

/// A level of a rule with some of the names that are left.
fn level(random: &mut Random, names: &mut Vec<&'static str>) -> String {
    let mut parts = Vec::new();
    for _ in 0..=random.below(2) {
        let place = random.below(names.len() as u64) as usize;
        let ends = ["", "?", "?7", "-", "=1/2", "=!1/2", ": Integer", ": Integer?", ": Integer=03"];
        parts.push(format!("{}{}", names.remove(place), ends[random.below(9) as usize]));
    }
    parts.join(", ")
}

/// A schema of one to five random rules.
fn random_schema(random: &mut Random) -> Schema {
    let mut text = String::new();
    for _ in 0..=random.below(4) {
        let names = &mut vec!["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let [one, two, three] = [(); 3].map(|()| level(random, names));
        text.push_str(&format!("[{one} [{two} [{three}]]]\n"));
    }
    Schema::parse(&text, "random").expect(&text)
}

/// Whether a rule matches a key, by the definition in the manual.
fn takes(rule: &Rule, key: &Key) -> bool {
    let known = |name: &str| rule.parts().any(|part| part.name() == name);
    key.iter().all(|(name, _)| known(name))
        && rule.parts().all(|part| match (key.get(part.name()), part.values()) {
            (None, _) => *part.presence() != Presence::Required,
            (Some(_), Values::Any) => true,
            (Some(value), Values::OneOf(listed)) => listed.contains(&canonical(part.kind(), value)),
            (Some(value), Values::NoneOf(listed)) => {
                !listed.contains(&canonical(part.kind(), value))
            }
        })
}

/// The canonical form of a value, which must be valid.
fn canonical(kind: KeyType, value: &str) -> String {
    kind.canonical(value, None).expect("a number").into_owned()
}

/// The part of a key that belongs to a level of a rule.
fn part_of(rule: &Rule, level: Level, key: &Key) -> Key {
    let mut part_of = Key::new();
    for part in rule.level(level) {
        let given = key.get(part.name()).map(|value| canonical(part.kind(), value));
        let value = match part.presence() {
            Presence::Hidden => None,
            Presence::Default(value) => given.or(Some(value.clone())),
            _ => given,
        };
        if let Some(value) = value {
            part_of.set(part.name(), &value).expect("short");
        }
    }
    part_of
}

#[test]
fn first_matching_rule_splits_the_key() {
    for_random(300, |random| {
        let schema = random_schema(random);
        for _ in 0..50 {
            let names = schema.rules()[0].parts().map(|part| part.name());
            let names = names.chain(["a"]).filter(|_| !random.one_in(4)).collect::<Vec<_>>();
            let mut key = Key::new();
            for name in names.into_iter().filter(|name| schema.type_of(name).is_some()) {
                key.set(name, ["1", "2", "3", "03"][random.below(4) as usize]).expect("short");
            }
            let expected = schema.rules().iter().position(|rule| takes(rule, &key));
            let split = schema.split(&key);
            assert_eq!(
                split.as_ref().ok().map(|split| split.rule),
                expected,
                "{key}\n{}",
                schema.text()
            );
            let (Ok(split), Some(place)) = (split, expected) else { continue };
            let parts = [&split.database, &split.index, &split.datum];
            let wanted = Level::ALL.map(|level| part_of(&schema.rules()[place], level, &key));
            assert_eq!(parts, wanted.each_ref(), "{key}\n{}", schema.text());
        }
    });
}

#[test]
fn displayed_rule_parses_to_the_same_rule() {
    for_random(300, |random| {
        let schema = random_schema(random);
        let shown: String = schema.rules().iter().map(|rule| format!("{rule}\n")).collect();
        let again = Schema::parse(&shown, "shown").expect(&shown);
        assert_eq!(again.rules(), schema.rules());
    });
}

const SCHEMA: &str =
    "date: Date; [a, date: Year [b=!x/y, c?1 [date: Date, step: Step?, grid-, e: Ignore]]]";
const REQUEST: &str =
    "retrieve,date=-1/to/0,step=0/to/24/by/6,class=\"a,b\",param=2t # end\nlist,all=*";
const KEY: &str = "class=od,expver=0001,date=20200131,step=0-24,param=167.128";

/// A valid text with some bytes changed, left out, doubled or added.
fn damaged(random: &mut Random, text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..random.below(6) {
        let place = random.below(bytes.len().max(1) as u64) as usize;
        let some =
            *b"[]=?!/,:;-#\"' \n\0\xc3\xa90A".get(random.below(21) as usize).unwrap_or(&b'[');
        match random.below(4) {
            0 if place < bytes.len() => bytes[place] = some,
            1 if place < bytes.len() => drop(bytes.remove(place)),
            2 => bytes.extend_from_within(place.min(bytes.len())..),
            _ => bytes.insert(place.min(bytes.len()), some),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Passes a text to every parser. They only have to return.
fn read_all(schema: &Schema, text: &str) {
    if let Ok(key) = Key::parse(text) {
        let _ = schema.split(&key);
    }
    if let Ok(parsed) = Schema::parse(text, "damaged") {
        let _ = parsed.split(&Key::parse(KEY).expect("a key"));
    }
    for request in Request::parse_all(text).unwrap_or_default() {
        if let Ok(selection) = request.expand(schema, Date::today()) {
            let _ = selection.keys().map(|keys| keys.take(10).count());
        }
    }
    for kind in KeyType::all() {
        let _ = kind.canonical(text, Some(Date::today()));
        let _ = kind.compare(text, KEY);
    }
}

#[test]
fn parsers_return_for_any_text() {
    let schema = Schema::default_mars().expect("valid");
    for_random(1_000, |random| {
        for text in [SCHEMA, REQUEST, KEY] {
            read_all(&schema, &damaged(random, text));
        }
        let len = random.below(60);
        read_all(&schema, &String::from_utf8_lossy(&random.bytes(len as usize)));
        let start = random.below(schema.text().len() as u64 - 400) as usize;
        read_all(&schema, &damaged(random, &schema.text()[start..start + 400]));
    });
}
