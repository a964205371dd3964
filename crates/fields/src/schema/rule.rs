//! Rules: they match keys and split them.
use crate::kinds::KeyType;
use std::fmt;

/// The three parts into which a rule splits a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// The database: a model run, for example.
    Database,
    /// The index in a database: a kind of level, for example.
    Index,
    /// The field in an index: step, level, parameter.
    Datum,
}

impl Level {
    /// The levels from the outermost to the innermost.
    pub const ALL: [Self; 3] = [Self::Database, Self::Index, Self::Datum];
}

/// Treatment of keys that lack the name of a [`Part`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The rule does not match.
    Required,
    /// The name is left out.
    Optional,
    /// The name gets this canonical value.
    Default(String),
    /// The name is left out, and dropped from keys that have it.
    Hidden,
}

/// The values that a [`Part`] allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Every value of its type.
    Any,
    /// These canonical values.
    OneOf(Vec<String>),
    /// Every value of its type except these canonical ones.
    NoneOf(Vec<String>),
}

/// One name in a level of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub(super) name: String,
    pub(super) kind: KeyType,
    pub(super) presence: Presence,
    pub(super) values: Values,
    /// Number of the name in its schema.
    pub(super) slot: usize,
}

impl Part {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of its values.
    #[must_use]
    pub fn kind(&self) -> KeyType {
        self.kind
    }

    /// Treatment of keys without the name.
    #[must_use]
    pub fn presence(&self) -> &Presence {
        &self.presence
    }

    /// The values it allows.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// True if the keys of database, index and datum contain this part. Hidden parts and the type `Ignore` are left
    /// out.
    pub(super) fn is_kept(&self) -> bool {
        self.presence != Presence::Hidden && self.kind != KeyType::Ignore
    }

    /// True if the list of the part, if it has one, allows a value. An empty `value` stands for a key without the name.
    pub(super) fn admits(&self, value: &str) -> bool {
        let (listed, wanted) = match &self.values {
            Values::Any => return true,
            Values::OneOf(listed) => (listed, true),
            Values::NoneOf(listed) => (listed, false),
        };
        if self.kind == KeyType::Default {
            return listed.iter().any(|one| one.eq_ignore_ascii_case(value)) == wanted;
        }
        self.kind
            .form(value, None)
            .is_some_and(|form| listed.iter().any(|one| **one == *form) == wanted)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.kind != KeyType::Default {
            write!(f, ": {}", self.kind)?;
        }
        match &self.presence {
            Presence::Required => {}
            Presence::Optional => f.write_str("?")?,
            Presence::Default(value) => write!(f, "?{value}")?,
            Presence::Hidden => f.write_str("-")?,
        }
        match &self.values {
            Values::Any => Ok(()),
            Values::OneOf(listed) => write!(f, "={}", listed.join("/")),
            Values::NoneOf(listed) => write!(f, "=!{}", listed.join("/")),
        }
    }
}

/// One path through the three levels of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub(super) levels: [Vec<Part>; 3],
    pub(super) line: usize,
    /// Names that a key must have, and those it may have: one bit for each name of the schema.
    pub(super) required: u128,
    /// The required names whose values are stored.
    stored: u128,
    pub(super) allowed: u128,
    /// Index of the part that is [`Rule::lost`].
    lost: Option<usize>,
}

impl Rule {
    /// A rule of these levels whose last one begins at a line of the schema's text.
    pub(super) fn new(levels: [Vec<Part>; 3], line: usize) -> Self {
        let mut rule = Self { levels, line, required: 0, stored: 0, allowed: 0, lost: None };
        for part in rule.levels.iter().flatten() {
            rule.allowed |= 1 << part.slot;
            if part.presence == Presence::Required {
                rule.required |= 1 << part.slot;
                rule.stored |= u128::from(part.is_kept()) << part.slot;
            }
        }
        let lost = rule.parts().position(|part| rule.loses(part));
        rule.lost = lost;
        rule
    }

    /// A part whose values no level keeps in full: different values would become equal.
    #[must_use]
    pub fn lost(&self) -> Option<&Part> {
        self.parts().nth(self.lost?)
    }

    /// True if different values of a part become equal in split keys: no level keeps the value in full, as when only
    /// the month of a date is kept.
    fn loses(&self, part: &Part) -> bool {
        let of_name = || self.parts().filter(|one| one.is_kept() && one.slot == part.slot);
        let alone = of_name().all(|one| one.kind == part.kind);
        let kept = of_name().any(|one| one.kind.keeps_all());
        part.is_kept() && !kept && (!alone || part.kind.is_part_of_a_date())
    }

    /// The parts of a level, in their order.
    #[must_use]
    pub fn level(&self, level: Level) -> &[Part] {
        &self.levels[level as usize]
    }

    /// The parts of all levels.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.levels.iter().flatten()
    }

    /// The line of the schema's text where its last level begins, counted from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// Whether keys with these names, one bit each, have exactly the names of the rule.
    pub(super) fn fits(&self, present: u128) -> bool {
        self.required & !present == 0 && present & !self.allowed == 0
    }

    /// Whether keys with these names have the names of the rule, except those whose values are not stored.
    pub(super) fn fits_stored(&self, present: u128) -> bool {
        self.stored & !present == 0 && present & !self.allowed == 0
    }
}

/// Shows the three levels on one line, as in a schema.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, level) in self.levels.iter().enumerate() {
            f.write_str(if depth == 0 { "[" } else { " [" })?;
            for (index, part) in level.iter().enumerate() {
                write!(f, "{}{part}", if index == 0 { "" } else { ", " })?;
            }
        }
        f.write_str("]]]")
    }
}
