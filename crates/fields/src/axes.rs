//! Axes: the values that each name has in many keys.
use crate::key::Key;
use crate::kinds::{KeyType, Rank};
use crate::schema::Schema;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

/// The values that each name has in a set of keys, in the order of its type.
#[derive(Clone, Debug)]
pub struct Axes {
    schema: Schema,
    axes: BTreeMap<String, Axis>,
}

/// The values of one name.
#[derive(Clone, Debug, Default)]
struct Axis {
    kind: KeyType,
    /// All values so far, to skip known ones quickly.
    known: HashSet<Box<str>>,
    sorted: BTreeSet<(Rank, Box<str>)>,
}

impl Axes {
    /// Empty axes, for keys that `schema` made canonical.
    #[must_use]
    pub fn new(schema: &Schema) -> Self {
        Self { schema: schema.clone(), axes: BTreeMap::new() }
    }

    /// Adds the values of a key, which are canonical.
    pub fn add(&mut self, key: &Key) {
        for (name, value) in key {
            self.add_value(name, value);
        }
    }

    /// Adds a canonical value of a name.
    pub fn add_value(&mut self, name: &str, value: &str) {
        if !self.axes.contains_key(name) {
            let kind = self.schema.type_of(name).unwrap_or_default();
            self.axes.insert(name.to_owned(), Axis { kind, ..Axis::default() });
        }
        let Some(axis) = self.axes.get_mut(name) else { return };
        if !axis.known.contains(value) {
            axis.known.insert(value.into());
            axis.sorted.insert((Rank::new(axis.kind, value), value.into()));
        }
    }

    /// Each name, sorted, with its values in the order of its type.
    pub fn iter(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = &str>)> {
        self.axes.iter().map(|(name, axis)| (name.as_str(), axis.values()))
    }

    /// The values of a name in the order of its type.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.axes.get(name).into_iter().flat_map(Axis::values)
    }

    /// Whether a name has a canonical value in some key.
    #[must_use]
    pub fn contains(&self, name: &str, value: &str) -> bool {
        self.axes.get(name).is_some_and(|axis| axis.known.contains(value))
    }

    /// The axes as a map.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, Vec<String>> {
        let owned = |(name, values): (&str, _)| (name.to_owned(), strings(values));
        self.iter().map(owned).collect()
    }
}

impl Axis {
    /// The values in the order of their type.
    fn values(&self) -> impl Iterator<Item = &str> {
        self.sorted.iter().map(|(_, value)| &**value)
    }
}

fn strings<'a>(values: impl Iterator<Item = &'a str>) -> Vec<String> {
    values.map(str::to_owned).collect()
}

/// A line for each name: `step=0/6/12`.
impl fmt::Display for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, values) in self.iter() {
            writeln!(f, "{name}={}", strings(values).join("/"))?;
        }
        Ok(())
    }
}
