//! Explains why a schema rejects a key.
use super::rule::{Part, Presence, Rule, Values};
use super::{Schema, Slots};
use crate::key::Key;
use crate::kinds::nearest;
use crate::request::ABSENT;
use esker_types::{Error, ErrorKind, Result};
use std::borrow::Cow;

/// The canonical form of a value for a part of a rule. The error for an invalid value names the part.
pub(super) fn canonical<'a>(part: &Part, value: &'a str) -> Result<Cow<'a, str>> {
    part.kind
        .canonical(value, None)
        .map_err(|error| Error::new(error.kind(), format!("{}={}", part.name, error.message())))
}

/// The error for a name that no rule has.
#[cold]
pub(super) fn unknown_name_error(schema: &Schema, name: &str) -> Error {
    let hint = nearest(name, schema.names());
    let mut known: Vec<_> = schema.names().collect();
    known.sort_unstable();
    let (source, known) = (schema.source(), known.join(", "));
    let message = format!("the schema {source} has no name {name}{hint}; it has {known}");
    Error::new(ErrorKind::Invalid, message)
}

/// The error for a key that no rule matches. It shows why the nearest rule does not.
#[cold]
pub(super) fn no_rule_error(
    schema: &Schema,
    key: &Key,
    values: &Slots<'_>,
    present: u128,
) -> Error {
    let mismatches =
        schema.rules().iter().map(|rule| (rule, mismatches(schema, rule, values, present)));
    let nearest = mismatches.min_by_key(|(_, mismatches)| weight(mismatches));
    let Some((rule, mismatches)) = nearest else {
        return Error::new(
            ErrorKind::Invalid,
            format!("the schema {} has no rule", schema.source()),
        );
    };
    let said: Vec<_> = mismatches.iter().map(|(_, text)| text.as_str()).collect();
    let (said, source, line) = (said.join("; "), schema.source(), rule.line());
    let message = format!(
        "no rule of the schema {source} matches {key}: {said}. Nearest rule, line {line}: {rule}"
    );
    Error::new(ErrorKind::Invalid, message)
}

/// The error for a rule under which no level keeps the complete value of some name.
pub(super) fn lossy_rule_error(schema: &Schema, rule: &Rule, part: &Part) -> Error {
    let (source, line, name, kind) = (schema.source(), rule.line(), &part.name, part.kind);
    let text = format!(
        "{source}:{line}: {name}: {kind} keeps a part of {name} only, and no level of the rule keeps all of it: \
         fields that differ in the rest would take each other's place"
    );
    let remedy = format!("write {name}: Date, or another type that keeps it, on one of its levels");
    Error::new(ErrorKind::Invalid, format!("{text}; {remedy}"))
}

/// The error for a value that requests read as the absence of the name.
pub(super) fn absent_value_error(name: &str) -> Error {
    let text = format!(
        "{name}={ABSENT} stands for fields without {name} in requests: leave {name} out of the key"
    );
    Error::new(ErrorKind::Invalid, text)
}

/// The error for archiving a key with a value that requests would read as several values.
pub(super) fn several_values_error(name: &str, value: &str) -> Error {
    let text =
        format!("{name}={value}: a field has one value of a name, and / stands between several");
    Error::new(ErrorKind::Invalid, text)
}

/// The error for archiving a key whose values the schema turns into those of another field.
pub(super) fn ambiguous_error(schema: &Schema, key: &Key, whole: &Key) -> Error {
    let text = format!(
        "{key}: the schema {} makes it {whole}, and of that another field",
        schema.source()
    );
    let remedy = "give every name that has a default, or change the rule";
    Error::new(ErrorKind::Invalid, format!("{text}; {remedy}"))
}

/// The error for archiving a key that has no name for a level.
pub(super) fn no_name_left_error(schema: &Schema, key: &Key, level: &str) -> Error {
    let text =
        format!("{key}: the schema {} leaves no name of it to name {level}", schema.source());
    Error::new(ErrorKind::Invalid, format!("{text}; give it a name of that level"))
}

/// How far a rule is from a key.
fn weight(mismatches: &[(usize, String)]) -> usize {
    mismatches.iter().map(|(weight, _)| weight).sum()
}

/// Reasons why a rule does not match, with weights: an invalid value counts more than a missing name.
fn mismatches(
    schema: &Schema,
    rule: &Rule,
    values: &Slots<'_>,
    present: u128,
) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for part in rule.parts() {
        let value = values.0[part.slot];
        if value.is_empty() {
            if part.presence == Presence::Required {
                found.push((2, format!("{} is missing ({})", part.name, part.kind.examples())));
            }
        } else if !part.admits(value) {
            found.push((5, refusal_reason(part, value)));
        }
    }
    let names = schema.names().enumerate();
    let surplus = names.filter(|(slot, _)| present & !rule.allowed & (1 << slot) != 0);
    found.extend(surplus.map(|(slot, name)| (3, format!("{name}={} is surplus", values.0[slot]))));
    found
}

/// The reason, for an error, why a part of a rule does not accept a value.
fn refusal_reason(part: &Part, value: &str) -> String {
    if let Err(error) = canonical(part, value) {
        return error.to_string();
    }
    match &part.values {
        Values::OneOf(listed) => format!("{}={value} is none of {}", part.name, listed.join("/")),
        Values::NoneOf(listed) => format!("{}={value} is one of {}", part.name, listed.join("/")),
        Values::Any => format!("{}={value} is not taken", part.name),
    }
}
