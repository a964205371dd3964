//! Random keys under random schemas, compared with a map. Fields are listed, retrieved, masked, purged and wiped as the
//! schema says, whichever levels have which names.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

mod support;

use esker_conformance::place::{Place, nodes};
use esker_fields::request::{Request, Selection};
use esker_fields::{Date, FieldStore, Key, Schema};
use esker_testing::Random;
use std::collections::{BTreeMap, BTreeSet};
use support::for_random;

const DAYS: [&str; 4] = ["20200131", "20200630", "20210131", "20210630"];
const VALUES: [&str; 3] = ["1", "2", "3"];

/// A name of a schema.
#[derive(Clone, Debug)]
struct Part {
    name: String,
    presence: Presence,
}

/// Treatment of keys that lack a name: as in a schema.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Presence {
    Required,
    Optional,
    Default(&'static str),
}

/// A rule for the keys with its `kind`; `date` may be on all three levels.
#[derive(Clone, Debug)]
struct Rule {
    kind: usize,
    levels: [Vec<Part>; 3],
    /// Its keys have a date: the year in the database, the month in the index, the day in the datum.
    dated: bool,
}

impl Part {
    /// A part with this name and a random presence.
    fn random(name: String, random: &mut Random) -> Self {
        let presence = match random.below(4) {
            0 => Presence::Optional,
            1 => Presence::Default(VALUES[random.below(3) as usize]),
            _ => Presence::Required,
        };
        Self { name, presence }
    }

    /// The part as a schema spells it.
    fn text(&self) -> String {
        match self.presence {
            Presence::Required => self.name.clone(),
            Presence::Optional => format!("{}?", self.name),
            Presence::Default(value) => format!("{}?{value}", self.name),
        }
    }
}

impl Rule {
    /// A rule for a kind, with random names on each level.
    fn random(kind: usize, random: &mut Random) -> Self {
        let mut names = ["a", "b", "c", "d", "e", "f"].map(String::from).to_vec();
        let mut level = || {
            let count = random.below(3);
            let take = |_| names.swap_remove(random.below(names.len() as u64) as usize);
            let names: Vec<_> = (0..count).map(take).collect();
            names.into_iter().map(|name| Part::random(name, random)).collect()
        };
        let levels = [level(), level(), level()];
        Self { kind, levels, dated: random.one_in(2) }
    }

    /// The rule as a schema spells it.
    fn text(&self) -> String {
        let level = |index: usize, first: &str, date: &str| {
            let date = self.dated.then(|| date.to_owned());
            let first = Some(first.to_owned()).filter(|first| !first.is_empty());
            let parts = self.levels[index].iter().map(Part::text);
            first.into_iter().chain(date).chain(parts).collect::<Vec<_>>().join(", ")
        };
        let [database, index, datum] = [
            level(0, &format!("kind={}", self.kind), "date: Year"),
            level(1, "type", "date: Month"),
            level(2, "step: Integer", "date: Date"),
        ];
        format!("[ {database} [ {index} [ {datum} ]]]")
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.levels.iter().flatten()
    }

    /// A key as a user gives it, and the same key with the pairs that the schema adds.
    fn key(&self, random: &mut Random) -> (Pairs, Pairs) {
        let mut pairs = Pairs::new();
        pairs.insert("kind".into(), self.kind.to_string());
        pairs.insert("type".into(), value(random));
        pairs.insert("step".into(), value(random));
        if self.dated {
            pairs.insert("date".into(), DAYS[random.below(4) as usize].into());
        }
        let mut whole = pairs.clone();
        for part in self.parts() {
            let given = part.presence == Presence::Required || random.one_in(2);
            let stored = match part.presence {
                _ if given => value(random),
                Presence::Default(value) => value.into(),
                _ => continue,
            };
            whole.insert(part.name.clone(), stored.clone());
            if given {
                pairs.insert(part.name.clone(), stored);
            }
        }
        (pairs, whole)
    }
}

type Pairs = BTreeMap<String, String>;

fn value(random: &mut Random) -> String {
    VALUES[random.below(3) as usize].into()
}

fn key(pairs: &Pairs) -> Key {
    Key::from_pairs(pairs).unwrap()
}

fn pairs(key: &Key) -> Pairs {
    key.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The values that a request selects, by name.
type Wanted = BTreeMap<String, BTreeSet<String>>;

/// A random request for names of the rules.
fn wanted(rules: &[Rule], random: &mut Random) -> Wanted {
    let mut wanted = Wanted::new();
    let of_rules = rules.iter().flat_map(Rule::parts).map(|part| part.name.as_str());
    let date = rules.iter().any(|rule| rule.dated).then_some("date");
    let names: BTreeSet<&str> = of_rules.chain(["kind", "type", "step"]).chain(date).collect();
    for name in names {
        if !random.one_in(3) {
            continue;
        }
        let one = |random: &mut Random| match name {
            "date" => DAYS[random.below(4) as usize].to_owned(),
            _ => value(random),
        };
        let values = (0..1 + random.below(2)).map(|_| one(random));
        wanted.insert(name.into(), values.collect());
    }
    wanted
}

/// True if a field has one of the wanted values of each wanted name.
fn is_wanted(pairs: &Pairs, wanted: &Wanted) -> bool {
    wanted.iter().all(|(name, values)| pairs.get(name).is_some_and(|value| values.contains(value)))
}

/// The selection of a request.
fn select(store: &FieldStore, wanted: &Wanted) -> Selection {
    let pairs = wanted
        .iter()
        .map(|(name, values)| (name.clone(), values.iter().cloned().collect::<Vec<_>>().join("/")));
    let today = Date::new(2024, 6, 15).unwrap();
    Request::from_pairs(pairs).unwrap().expand(store.schema(), today).unwrap()
}

/// The store, and its expected content: the fields that readers see, and the number of masked fields.
struct Case {
    rules: Vec<Rule>,
    store: FieldStore,
    fields: BTreeMap<Pairs, Vec<u8>>,
    masked: u64,
}

impl Case {
    /// A store with a random schema.
    fn new(random: &mut Random) -> Self {
        let count = 1 + random.below(3) as usize;
        let rules: Vec<_> = (1..=count).map(|kind| Rule::random(kind, random)).collect();
        let text = rules.iter().map(Rule::text).collect::<Vec<_>>().join("\n");
        println!("{text}");
        let place = Place::new("model");
        let schema = Schema::parse(&text, "random").unwrap();
        let store = FieldStore::create(&place.pool(), &place.label, &schema).unwrap();
        Self { rules, store, fields: BTreeMap::new(), masked: 0 }
    }

    /// Archives some random fields, and flushes them.
    fn archive(&mut self, random: &mut Random) {
        let mut writer = self.store.writer();
        for _ in 0..1 + random.below(12) {
            let rule = &self.rules[random.below(self.rules.len() as u64) as usize];
            let (given, whole) = rule.key(random);
            let len = 1 + random.below(40);
            let data = random.bytes(len as usize);
            writer.archive(&key(&given), &data).unwrap();
            self.masked += u64::from(self.fields.insert(whole, data).is_some());
        }
        writer.flush().unwrap();
    }

    /// Purges, which must remove exactly the masked fields.
    fn purge(&mut self) {
        let everything = Selection::everything(self.store.schema());
        let purged = self.store.purge(&everything, true, |_| Ok(())).unwrap();
        assert_eq!((purged.masked, purged.unflushed, purged.removed), (self.masked, 0, 0));
        self.masked = 0;
    }

    /// Wipes by the key of a field's database and some further names of the field.
    fn wipe(&mut self, random: &mut Random) {
        self.purge();
        let Some(field) = self.fields.keys().nth(random.below(8) as usize).cloned() else { return };
        let rule = self.rules.iter().find(|rule| rule.kind.to_string() == field["kind"]).unwrap();
        let mut names: Vec<_> = rule.levels[0].iter().map(|part| part.name.clone()).collect();
        names.extend(["kind".into()].into_iter().chain(rule.dated.then(|| "date".into())));
        names.extend(field.keys().filter(|_| random.one_in(4)).cloned());
        let wanted: Wanted = names
            .into_iter()
            .filter_map(|name| Some((name.clone(), BTreeSet::from([field.get(&name)?.clone()]))))
            .collect();
        let before = self.fields.len();
        self.fields.retain(|pairs, _| !is_wanted(pairs, &wanted));
        let wiped = self.store.wipe(&select(&self.store, &wanted), true, |_| Ok(())).unwrap();
        assert_eq!(wiped.fields, (before - self.fields.len()) as u64, "{wanted:?}");
    }

    /// Checks that a listing and a search have exactly the wanted fields.
    fn check(&self, wanted: &Wanted) {
        let selection = select(&self.store, wanted);
        let matching = || self.fields.iter().filter(|(pairs, _)| is_wanted(pairs, wanted));
        let expected: BTreeMap<_, _> =
            matching().map(|(pairs, data)| (pairs.clone(), data.clone())).collect();
        let listed = self.store.list(&selection).unwrap();
        let listed: Vec<_> = listed.iter().map(|listed| pairs(&listed.key)).collect();
        assert_eq!(listed.len(), expected.len(), "{wanted:?}: {listed:?}");
        assert!(listed.iter().all(|pairs| expected.contains_key(pairs)), "{wanted:?}: {listed:?}");
        let found = self.store.find(&selection).unwrap().fields;
        let found: BTreeMap<_, _> =
            found.iter().map(|field| (pairs(field.key()), field.read().unwrap())).collect();
        assert_eq!(found, expected, "{wanted:?}");
    }

    /// Looks up each field by its key, and checks its bytes.
    fn check_each(&self) {
        for (pairs, data) in &self.fields {
            assert_eq!(&self.store.field(&key(pairs)).unwrap().read().unwrap(), data, "{pairs:?}");
        }
    }
}

#[test]
fn fields_under_random_schemas_agree_with_a_map() {
    // Over nodes, each check asks the engines about all stripes.
    let cases = if nodes().is_some() { 15 } else { 60 };
    for_random(cases, |random| {
        let mut case = Case::new(random);
        for _ in 0..12 {
            match random.below(6) {
                0 => case.purge(),
                1 => case.wipe(random),
                _ => case.archive(random),
            }
            case.check(&Wanted::new());
            (0..4).for_each(|_| case.check(&wanted(&case.rules, random)));
        }
        case.check_each();
    });
}
