//! Schemas: the names of a key, the types of their values, and how a key splits.
//!
//! The language is FDB's: see `docs/fields.md`.
mod explain;
mod parse;
mod rule;
mod tokens;

pub use rule::{Level, Part, Presence, Rule, Values};

use crate::key::Key;
use crate::kinds::KeyType;
use crate::limits::{SCHEMA_BYTES_MAX, SCHEMA_NAMES_MAX};
use crate::request::ABSENT;
use esker_types::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The schema that comes with Esker.
const DEFAULT_MARS: &str = include_str!("../../schema/mars");

/// A parsed schema. Clones share it.
#[derive(Clone, Debug)]
pub struct Schema {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    text: String,
    source: String,
    rules: Vec<Rule>,
    /// Names by slot, and the slots in the order of how their names begin.
    names: Vec<String>,
    sorted: Vec<(u64, usize)>,
    /// For each slot the types it has in rules and declarations, the one for requests first.
    kinds: Vec<Vec<KeyType>>,
    /// Names that some rule makes optional: one bit for each.
    optional: u128,
    /// Names of which no rule keeps the values: one bit for each.
    unkept: u128,
}

/// A key in the three levels of its rule, all values canonical.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Index of the rule in [`Schema::rules`] that matched.
    pub rule: usize,
    /// The key of the database.
    pub database: Key,
    /// The key of the index in its database.
    pub index: Key,
    /// The key of the field in its index.
    pub datum: Key,
    /// The complete key: [`Schema::whole`] of the three parts.
    pub whole: Key,
}

impl Schema {
    /// Reads a schema. Errors call the text `source`.
    ///
    /// # Errors
    /// If the text is invalid; the message names the line, the cause and the remedy.
    pub fn parse(text: &str, source: &str) -> Result<Self> {
        let schema = Self::of_store(text, source)?;
        schema.refuse_loss()?;
        Ok(schema)
    }

    /// Rejects rules under which fields would overwrite each other.
    pub(crate) fn refuse_loss(&self) -> Result<()> {
        self.rules().iter().try_for_each(|rule| self.refuse_loss_by(rule))
    }

    /// Rejects a rule under which fields would overwrite each other.
    fn refuse_loss_by(&self, rule: &Rule) -> Result<()> {
        rule.lost().map_or(Ok(()), |part| Err(explain::lossy_rule_error(self, rule, part)))
    }

    /// Reads the schema of a store, which an earlier release may have made with rules that are rejected now.
    ///
    /// # Errors
    /// If the text is invalid; the message names the line, the cause and the remedy.
    pub(crate) fn of_store(text: &str, source: &str) -> Result<Self> {
        if text.len() > SCHEMA_BYTES_MAX {
            let message = format!("{source}: a schema has at most {SCHEMA_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::Overflow, message));
        }
        let parsed = parse::parse(text, source)?;
        let beginnings = parsed.names.iter().map(|name| beginning(name));
        let mut sorted: Vec<_> = beginnings.zip(0..).collect();
        sorted.sort_unstable();
        let kinds = parsed.names.iter().enumerate();
        let kinds = kinds.map(|(slot, name)| kinds_of(slot, name, &parsed.types, &parsed.rules));
        let kinds = kinds.collect();
        let (rules, names) = (parsed.rules, parsed.names);
        let parts = rules.iter().flat_map(Rule::parts);
        let parts = parts.filter(|part| part.presence == Presence::Optional);
        let optional = slots_of(parts);
        let parts = || rules.iter().flat_map(Rule::parts);
        let unkept = slots_of(parts()) & !slots_of(parts().filter(|part| part.is_kept()));
        let (text, source) = (text.to_owned(), source.to_owned());
        let inner = Inner { text, source, rules, names, sorted, kinds, optional, unkept };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The schema that comes with Esker, for keys of the MARS language.
    ///
    /// # Errors
    /// None in practice: the tests parse it.
    pub fn default_mars() -> Result<Self> {
        Self::parse(DEFAULT_MARS, "default")
    }

    /// The text it was read from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.inner.text
    }

    /// The name of its text, such as a file name.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.inner.source
    }

    /// The rules in the order in which they are tried.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.inner.rules
    }

    /// The names of its rules, in the order of their first appearance.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.inner.names.iter().map(String::as_str)
    }

    /// The type of a name in requests: the declared one; else the finest that a rule gives it.
    #[must_use]
    pub fn type_of(&self, name: &str) -> Option<KeyType> {
        self.kinds(name).first().copied()
    }

    /// Whether some rule lets keys lack a name and gives it no default.
    pub(crate) fn is_optional(&self, name: &str) -> bool {
        self.slot(name).is_some_and(|slot| self.inner.optional & (1 << slot) != 0)
    }

    /// Whether rules have a name and none keeps its values, so that no field can be selected by them.
    pub(crate) fn is_unkept(&self, name: &str) -> bool {
        self.slot(name).is_some_and(|slot| self.inner.unkept & (1 << slot) != 0)
    }

    /// All types that a name has in the schema. Requests are read by the first one.
    pub(crate) fn kinds(&self, name: &str) -> &[KeyType] {
        self.slot(name).map_or(&[], |slot| &self.inner.kinds[slot])
    }

    /// Splits a key by the first rule that matches: the key has exactly the names of the rule, with values that it
    /// allows. An empty value counts as none. If no rule matches, values that are not stored may be missing, so that
    /// the complete key of a field is split in the same way as the key under which the field was archived.
    ///
    /// # Errors
    /// If no rule matches; the message says what is missing, surplus or invalid, its type, and valid examples.
    pub fn split(&self, key: &Key) -> Result<Split> {
        self.split_by(key, &[Rule::fits, Rule::fits_stored])
    }

    /// Splits a key for archiving, by the first rule that matches: values that are not stored may not be missing.
    ///
    /// # Errors
    /// The errors of [`Schema::split`].
    pub fn split_strictly(&self, key: &Key) -> Result<Split> {
        self.split_by(key, &[Rule::fits])
    }

    /// Splits a key by the first rule whose names fit by the first of the given functions, or else by the next one.
    fn split_by(&self, key: &Key, fits: &[fn(&Rule, u128) -> bool]) -> Result<Split> {
        let (values, present) = self.values(key)?;
        let found = fits.iter().find_map(|fits| {
            let rules = self.inner.rules.iter().enumerate();
            let mut fitting = rules.filter(|(_, rule)| fits(rule, present));
            fitting.find(|(_, rule)| rule.parts().all(|part| values.admitted_by(part)))
        });
        let Some((index, rule)) = found else {
            return Err(explain::no_rule_error(self, key, &values, present));
        };
        let [database, index_key, datum] = &rule.levels;
        let database = values.level(database)?;
        let (index_key, datum) = (values.level(index_key)?, values.level(datum)?);
        let whole = self.whole(&[&database, &index_key, &datum])?;
        Ok(Split { rule: index, database, index: index_key, datum, whole })
    }

    /// A complete key without the default values of its rule.
    #[must_use]
    pub fn without_defaults(&self, key: &Key) -> Key {
        let Ok(split) = self.split(key) else { return key.clone() };
        let rule = &self.rules()[split.rule];
        let is_default = |(name, value): &(&str, &str)| {
            let has_default = |part: &Part| {
                part.name == *name && part.presence == Presence::Default((*value).to_owned())
            };
            rule.parts().any(has_default)
        };
        let given = key.iter().filter(|pair| !is_default(pair));
        Key::from_pairs(given).unwrap_or_else(|_| key.clone())
    }

    /// Splits a key for archiving: none of its values may be lost.
    ///
    /// # Errors
    /// The errors of [`Schema::split`]. An error if other keys would be split in the same way, if the complete key
    /// would be split in another way than the key, or if a level would have no name.
    pub fn split_to_archive(&self, key: &Key) -> Result<Split> {
        let split = self.split_strictly(key)?;
        self.refuse_loss_by(&self.rules()[split.rule])?;
        if let Some((name, value)) = split.whole.iter().find(|(_, value)| value.contains('/')) {
            return Err(explain::several_values_error(name, value));
        }
        let mut pairs = split.whole.iter();
        if let Some((name, _)) =
            pairs.find(|(name, value)| *value == ABSENT && self.is_optional(name))
        {
            return Err(explain::absent_value_error(name));
        }
        for (part, level) in [(&split.database, "its database"), (&split.datum, "it")] {
            if part.is_empty() {
                return Err(explain::no_name_left_error(self, key, level));
            }
        }
        let rule = &self.rules()[split.rule];
        let mut whole = split.whole.clone();
        // The complete key does not have values that are not stored.
        for part in rule.parts().filter(|part| !part.is_kept()) {
            let given = key.get(&part.name).filter(|_| part.presence == Presence::Required);
            given.map_or(Ok(()), |value| whole.set(&part.name, value))?;
        }
        // Readers may use the complete key, which must lead to the same field.
        let same = |again: Split| Split { rule: split.rule, ..again } == split;
        let settled = |whole: &Key| whole == key || self.split(whole).is_ok_and(same);
        if settled(&whole) && (whole == split.whole || settled(&split.whole)) {
            Ok(split)
        } else {
            Err(explain::ambiguous_error(self, key, &split.whole))
        }
    }

    /// Joins the parts of a key. A name on several levels keeps the position of the outermost and takes the value of
    /// the innermost; of a date and its month, the date is kept on whichever level it is.
    ///
    /// # Errors
    /// If the result exceeds the limits of a key.
    pub fn whole(&self, parts: &[&Key]) -> Result<Key> {
        Key::joined(parts, |name, outer, inner| {
            self.follows(name, outer, inner) && !self.follows(name, inner, outer)
        })
    }

    /// True if some type of the name turns the value `from` into `value`, as the type of months turns a date into its
    /// month.
    fn follows(&self, name: &str, from: &str, value: &str) -> bool {
        let mut kinds = self.kinds(name).iter();
        kinds.any(|kind| kind.form(from, None).is_some_and(|form| form == value))
    }

    /// The values of a key by slot, and which slots have one.
    fn values<'a>(&self, key: &'a Key) -> Result<(Slots<'a>, u128)> {
        let mut values = Slots([""; SCHEMA_NAMES_MAX]);
        let mut present = 0;
        for (name, value) in key {
            let slot = self.slot(name).ok_or_else(|| explain::unknown_name_error(self, name))?;
            values.0[slot] = value;
            present |= u128::from(!value.is_empty()) << slot;
        }
        Ok((values, present))
    }

    /// Number of a name in the schema.
    fn slot(&self, name: &str) -> Option<usize> {
        let (names, sorted) = (&self.inner.names, &self.inner.sorted);
        let begins = beginning(name);
        let first = sorted.partition_point(|(known, _)| *known < begins);
        let alike = sorted[first..].iter().take_while(|(known, _)| *known == begins);
        alike.map(|(_, slot)| *slot).find(|slot| names[*slot] == name)
    }

    /// The error for a name that the schema does not have.
    pub(crate) fn unknown_name_error(&self, name: &str) -> Error {
        explain::unknown_name_error(self, name)
    }
}

/// The slots of parts: one bit for each.
fn slots_of<'a>(parts: impl Iterator<Item = &'a Part>) -> u128 {
    parts.fold(0, |slots, part| slots | 1 << part.slot)
}

/// The first eight bytes of a name as a number. They distinguish most names, and numbers are compared faster than
/// texts.
fn beginning(name: &str) -> u64 {
    let bytes = name.bytes().chain(std::iter::repeat(0)).take(8);
    bytes.fold(0, |sum, byte| sum << 8 | u64::from(byte))
}

/// Values of a key by the slots of their names; those without are empty.
struct Slots<'a>([&'a str; SCHEMA_NAMES_MAX]);

impl Slots<'_> {
    /// True if a part of a rule allows the value of its name, or the key lacks the name and may do so.
    fn admitted_by(&self, part: &Part) -> bool {
        let value = self.0[part.slot];
        (value.is_empty() && part.presence != Presence::Required) || part.admits(value)
    }

    /// The part of the key that belongs to a level.
    fn level(&self, parts: &[Part]) -> Result<Key> {
        let mut key = Key::with_capacity(16 * parts.len());
        for part in parts.iter().filter(|part| part.is_kept()) {
            let value = self.0[part.slot];
            match &part.presence {
                Presence::Default(default) if value.is_empty() => key.push(&part.name, default),
                _ if value.is_empty() => {}
                _ => key.push(&part.name, &explain::canonical(part, value)?),
            }
        }
        Ok(key)
    }
}

/// The types of a name, the one for requests first. The declared type comes first, then `Date`; `Ignore` comes last.
fn kinds_of(
    slot: usize,
    name: &str,
    declared: &BTreeMap<String, KeyType>,
    rules: &[Rule],
) -> Vec<KeyType> {
    let parts = rules.iter().flat_map(Rule::parts).filter(|part| part.slot == slot);
    let mut kinds: Vec<KeyType> = parts.map(|part| part.kind).collect();
    // The sort is stable: among equally fine types, the first one of the schema stays first.
    kinds.sort_by_key(|kind| (*kind != KeyType::Date, matches!(kind, KeyType::Ignore)));
    if let Some(kind) = declared.get(name) {
        kinds.insert(0, *kind);
    }
    let mut seen = Vec::new();
    kinds.retain(|kind| {
        !seen.contains(kind) && {
            seen.push(*kind);
            true
        }
    });
    kinds
}

#[cfg(test)]
mod tests;
