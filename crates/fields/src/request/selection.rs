//! Selections: the fields that a request selects.
use super::invalid;
use crate::axes::Axes;
use crate::key::Key;
use crate::kinds::{KeyType, Rank};
use crate::limits::{COMBINATIONS_MAX, KEY_BYTES_MAX};
use crate::schema::Schema;
use esker_types::{Error, ErrorKind, Result};
use std::collections::{HashMap, HashSet};

/// Lists of at most this many values are searched linearly.
const SHORT: usize = 8;

/// The value of a request that selects fields without the name, if the schema makes the name optional.
pub(crate) const ABSENT: &str = "off";

/// The fields that a request selects: for each of its names all values, or a list of canonical ones.
#[derive(Clone, Debug)]
pub struct Selection {
    schema: Schema,
    wanted: Vec<Wanted>,
    /// Whether fields may be missing: `expect=any`.
    pub(super) any: bool,
    /// A name of the request that selects nothing, because the schema does not store its values.
    pub(super) unkept: Option<String>,
}

/// The wanted values of one name.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    name: String,
    kind: KeyType,
    /// None if all values are wanted.
    values: Option<Vec<String>>,
    indexes: ValueIndexes,
    /// Index of [`ABSENT`] among the values, if fields without the name are wanted.
    absent: Option<u32>,
}

/// Indexes of the wanted values in the list, by every form that a value has in some rule.
#[derive(Clone, Debug)]
enum ValueIndexes {
    /// A few, searched linearly.
    Few(Vec<(Box<str>, u32)>),
    Many(HashMap<Box<str>, u32>),
}

impl ValueIndexes {
    /// Indexes of values by all forms that they have in the types of a name.
    fn new<'a>(kinds: &[KeyType], values: impl Iterator<Item = (u32, &'a str)>) -> Self {
        let forms = values.flat_map(|(index, value)| {
            let forms = kinds.iter().filter_map(|kind| kind.form(value, None));
            let forms = forms.chain([value.into()]).filter(|form| !form.is_empty());
            forms.map(move |form| (form.into(), index))
        });
        Self::from_forms(forms)
    }

    /// Indexes by form. If a form occurs twice, the first index counts.
    fn from_forms(forms: impl Iterator<Item = (Box<str>, u32)>) -> Self {
        let mut indexes = HashMap::new();
        forms.for_each(|(form, index)| _ = indexes.entry(form).or_insert(index));
        if indexes.len() > SHORT {
            Self::Many(indexes)
        } else {
            Self::Few(indexes.into_iter().collect())
        }
    }

    /// The indexes with further spellings of values.
    fn with(&self, more: impl Iterator<Item = (Box<str>, u32)>) -> Self {
        match self {
            Self::Few(indexes) => Self::from_forms(indexes.iter().cloned().chain(more)),
            Self::Many(indexes) => Self::from_forms(
                indexes.iter().map(|(form, index)| (form.clone(), *index)).chain(more),
            ),
        }
    }

    /// Position in the request's list of the value that has the canonical form `value`; `None` if the list lacks it.
    fn get(&self, value: &str) -> Option<u32> {
        match self {
            Self::Few(indexes) => {
                indexes.iter().find(|(form, _)| **form == *value).map(|(_, index)| *index)
            }
            Self::Many(indexes) => indexes.get(value).copied(),
        }
    }
}

impl Wanted {
    /// The wanted `values` of a name with these types, at least one. If the name is optional, the value
    /// [`ABSENT`] selects fields that lack it.
    pub(super) fn new(
        name: &str,
        kinds: &[KeyType],
        values: Option<Vec<String>>,
        optional: bool,
    ) -> Self {
        let kind = kinds.first().copied().unwrap_or_default();
        let listed = || (0..).zip(values.iter().flatten());
        let absent = listed().find(|(_, value)| optional && *value == ABSENT);
        let absent = absent.map(|(index, _)| index);
        let present = listed().filter(|(index, _)| Some(*index) != absent);
        let indexes =
            ValueIndexes::new(kinds, present.map(|(index, value)| (index, value.as_str())));
        Self { name: name.to_owned(), kind, values, indexes, absent }
    }

    /// Whether a value of the list selects fields without the name.
    fn is_absent(&self, value: &str) -> bool {
        self.absent.is_some() && value == ABSENT
    }

    /// Position in the list of the key's value for this name. For a key without the name: that of [`ABSENT`]. `None` if
    /// the request does not want the key.
    fn index_in(&self, key: &Key) -> Option<u32> {
        key.get(&self.name).map_or(self.absent, |value| self.index(value))
    }

    /// Position in the list of a value; 0 if the request wants all values, `None` if it does not want this one.
    fn index(&self, value: &str) -> Option<u32> {
        if self.values.is_none() { Some(0) } else { self.indexes.get(value) }
    }

    /// Sort position of a value: its position in the request's list. If the request wants all values, the type decides
    /// their order.
    fn position(&self, value: &str) -> (u32, Option<Rank>) {
        let rank = self.values.is_none().then(|| Rank::new(self.kind, value));
        (self.index(value).unwrap_or(u32::MAX), rank)
    }
}

/// Fields over a range of steps from the start of the forecast, such as `0-24`: a request for step 24 may mean them.
impl Wanted {
    /// A copy that also matches ranges of steps: if `24` is in the list, `0-24` is matched at the same position.
    fn with_ranges(&self) -> Self {
        let values = (0..).zip(self.values.iter().flatten());
        let ranges =
            values.filter_map(|(index, value)| Some((self.kind.range_to(value)?.into(), index)));
        Self { indexes: self.indexes.with(ranges), ..self.clone() }
    }

    /// The range up to a value, if the range itself is not wanted.
    fn range_to(&self, value: &str) -> Option<String> {
        self.values.as_ref()?;
        self.kind.range_to(value).filter(|range| self.indexes.get(range).is_none())
    }
}

/// The rank of a field in the order of a request. Smaller ones come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    parts: Vec<(u32, Option<Rank>)>,
}

impl Selection {
    /// A selection of the fields that have one of the wanted values of each name.
    pub(super) fn new(schema: &Schema, wanted: Vec<Wanted>) -> Self {
        Self { schema: schema.clone(), wanted, any: false, unkept: None }
    }

    /// Selects every field.
    #[must_use]
    pub fn everything(schema: &Schema) -> Self {
        Self::new(schema, Vec::new())
    }

    /// Whether fields may be missing: the request says `expect=any`.
    #[must_use]
    pub fn expects_any(&self) -> bool {
        self.any
    }

    /// Refuses a selection by which fields are removed, if it is broader than its request: the request has a name whose
    /// values the schema does not store.
    pub(crate) fn refuse_unkept(&self) -> Result<()> {
        self.unkept.as_ref().map_or(Ok(()), |name| {
            let text = format!(
                "the schema does not store values of {name}: fields archived with other values would be removed \
                 too; to remove them all, leave {name} out"
            );
            Err(invalid(text))
        })
    }

    /// The schema by which the request was expanded to this selection.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Whether a field of this key is selected. The key has canonical values. A key that lacks a name of the selection
    /// matches only if all values of the name, or fields without it, are wanted.
    #[must_use]
    pub fn matches(&self, key: &Key) -> bool {
        let mut found = 0;
        for (name, value) in key {
            if let Some(wanted) = self.wanted(name) {
                if wanted.index(value).is_none() {
                    return false;
                }
                found += 1;
            }
        }
        found == self.wanted.len() || self.has_listed(key)
    }

    /// A copy in which each step also selects the range up to it: `0-24` if 24 is wanted.
    pub(crate) fn with_ranges(&self) -> Self {
        let wanted = self.wanted.iter().map(Wanted::with_ranges).collect();
        Self { wanted, ..self.clone() }
    }

    /// The key with the range of steps that the step of `key` may also mean.
    pub(crate) fn range_of(&self, key: &Key) -> Option<Key> {
        let mut ranged = self.wanted.iter().filter(|wanted| wanted.kind.has_ranges());
        let (name, range) = ranged
            .find_map(|wanted| Some((&wanted.name, wanted.range_to(key.get(&wanted.name)?)?)))?;
        let mut key = key.clone();
        key.set(name, &range).ok()?;
        Some(key)
    }

    /// True if the key has every name for which the request lists values. A name may be missing if [`ABSENT`] is among
    /// its values.
    fn has_listed(&self, key: &Key) -> bool {
        self.demanded_names().all(|name| key.get(name).is_some())
    }

    /// Whether fields below a part of a key, such as [`crate::schema::Split::database`], may be selected: all values
    /// of the part are wanted.
    #[must_use]
    pub fn may_match(&self, part: &Key) -> bool {
        let mut pairs = part.iter();
        pairs.all(|(name, value)| {
            self.wanted(name).is_none_or(|wanted| wanted.index(value).is_some())
        })
    }

    /// The listed values that none of `keys` has, each as a key of one pair, in the order of the request. A value also
    /// counts as matched by the other forms it has in the schema, and by the range up to it.
    pub(crate) fn unmatched<'a>(&self, keys: impl Iterator<Item = &'a Key>) -> Vec<Key> {
        let listed = self.wanted.iter().filter(|wanted| wanted.values.is_some());
        let mut listed: Vec<_> = listed.map(|wanted| (wanted, HashSet::new())).collect();
        for key in keys {
            for (wanted, found) in &mut listed {
                found.insert(key.get(&wanted.name).unwrap_or(ABSENT));
            }
        }
        listed.iter().flat_map(|(wanted, found)| self.missing_values(wanted, found)).collect()
    }

    /// The listed values that no field has, for fields with the values in `axes`. The empty value means that a field
    /// lacks the name.
    pub(crate) fn unmatched_by(&self, axes: &Axes) -> Vec<Key> {
        let missing = |wanted: &Wanted| {
            let values = axes.values(&wanted.name);
            let found = values.map(|value| if value.is_empty() { ABSENT } else { value }).collect();
            self.missing_values(wanted, &found)
        };
        self.wanted.iter().flat_map(missing).collect()
    }

    /// The listed values of a name that are not in `found`, each as a key of one pair.
    fn missing_values(&self, wanted: &Wanted, found: &HashSet<&str>) -> Vec<Key> {
        let values = wanted.values.iter().flatten();
        let missing = values.filter(|value| !self.is_among(wanted, value, found)).map(|value| {
            let mut pair = Key::new();
            pair.push(&wanted.name, value);
            pair
        });
        missing.collect()
    }

    /// True if the wanted `value` is in `found`: as it is, in a form of another type of the name in the schema, or as
    /// the range up to a step.
    fn is_among(&self, wanted: &Wanted, value: &str, found: &HashSet<&str>) -> bool {
        let mut forms = self.schema.kinds(&wanted.name).iter();
        let range = wanted.kind.range_to(value);
        found.contains(value)
            || forms.any(|kind| kind.form(value, None).is_some_and(|form| found.contains(&*form)))
            || range.is_some_and(|range| found.contains(range.as_str()))
    }

    /// The names of the request, in its order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.wanted.iter().map(|wanted| wanted.name.as_str())
    }

    /// The names whose values are listed, of which none is the absence of the name.
    pub(crate) fn demanded_names(&self) -> impl Iterator<Item = &str> {
        let listed = self.wanted.iter().filter(|wanted| wanted.values.is_some());
        listed.filter(|wanted| wanted.absent.is_none()).map(|wanted| wanted.name.as_str())
    }

    /// True if the request also selects fields without the name: [`ABSENT`] is among its values.
    pub(crate) fn lists_absence(&self, name: &str) -> bool {
        self.wanted(name).is_some_and(|wanted| wanted.absent.is_some())
    }

    /// The index of a field's combination in [`Selection::keys`]; `None` if all values of a name are wanted, or the
    /// field is not selected.
    pub(crate) fn number(&self, key: &Key) -> Option<usize> {
        self.wanted.iter().try_fold(0, |number, wanted| {
            let index = wanted.index_in(key)?;
            Some(number * wanted.values.as_ref()?.len() + index as usize)
        })
    }

    /// The values that are listed for a name, in the order of the request; none if all are wanted.
    #[must_use]
    pub fn values(&self, name: &str) -> Option<&[String]> {
        self.wanted(name)?.values.as_deref()
    }

    /// Number of combinations of the listed values; none if all values of some name are wanted, or if the number
    /// exceeds `u64`.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        self.wanted.iter().try_fold(1u64, |count, wanted| {
            count.checked_mul(wanted.values.as_ref()?.len().try_into().ok()?)
        })
    }

    /// Every combination of the listed values in the order of the request, the last name changing fastest.
    ///
    /// # Errors
    /// If all values of some name are wanted, so that the combinations are unknown; if there are more than
    /// [`COMBINATIONS_MAX`]; if they are too long for keys.
    pub fn keys(&self) -> Result<Keys<'_>> {
        if let Some(wanted) = self.wanted.iter().find(|wanted| wanted.values.is_none()) {
            let name = &wanted.name;
            return Err(invalid(format!(
                "{name}=all names no values; list them, or look up what exists"
            )));
        }
        let count = self.count().filter(|count| *count <= COMBINATIONS_MAX).ok_or_else(|| {
            let message = "the request has over {} combinations; ask for fewer at a time";
            too_many(message.replace("{}", &COMBINATIONS_MAX.to_string()))
        })?;
        let longest: usize = self.wanted.iter().map(longest).sum();
        if longest > KEY_BYTES_MAX + 1 {
            return Err(too_many(format!("keys of the request have over {KEY_BYTES_MAX} bytes")));
        }
        Ok(Keys { selection: self, next: 0, count, bytes: longest })
    }

    /// The rank of a field in the order of the request; none if it is not selected. Values rank by the list, or, if all
    /// are wanted, by the order of their type. Names that the request does not have come last, in the order of their
    /// types.
    #[must_use]
    pub fn position(&self, key: &Key) -> Option<Position> {
        if !self.matches(key) {
            return None;
        }
        let absent = self.wanted.iter().map(|wanted| (wanted.absent.unwrap_or(0), None));
        let mut parts: Vec<_> = absent.collect();
        for (name, value) in key {
            match self.wanted.iter().position(|wanted| wanted.name == name) {
                Some(index) => parts[index] = self.wanted[index].position(value),
                None => {
                    let kind = self.schema.type_of(name).unwrap_or_default();
                    parts.push((0, Some(Rank::new(kind, value))));
                }
            }
        }
        Some(Position { parts })
    }

    /// The wanted values of a name; `None` if the request does not have the name.
    fn wanted(&self, name: &str) -> Option<&Wanted> {
        self.wanted.iter().find(|wanted| wanted.name == name)
    }
}

/// Most bytes that a name adds to the text of a key: the name, its longest listed value, `=` and `,`.
fn longest(wanted: &Wanted) -> usize {
    let value = wanted.values.iter().flatten().map(String::len).max();
    wanted.name.len() + value.unwrap_or(0) + 2
}

fn too_many(message: String) -> Error {
    Error::new(ErrorKind::Overflow, message)
}

/// The combinations of a selection; see [`Selection::keys`].
#[derive(Clone, Debug)]
pub struct Keys<'a> {
    selection: &'a Selection,
    next: u64,
    count: u64,
    /// Most bytes of one key.
    bytes: usize,
}

impl Keys<'_> {
    /// Key of a field of the selection by its number.
    fn key(&self, number: u64) -> Key {
        let mut key = Key::with_capacity(self.bytes);
        let mut weight = self.count;
        for wanted in &self.selection.wanted {
            let values = wanted.values.as_deref().unwrap_or_default();
            let Ok(len @ 1..) = u64::try_from(values.len()) else { continue };
            weight /= len;
            let index = usize::try_from(number / weight % len).unwrap_or(0);
            if !wanted.is_absent(&values[index]) {
                key.push(&wanted.name, &values[index]);
            }
        }
        key
    }
}

impl Iterator for Keys<'_> {
    type Item = Key;

    fn next(&mut self) -> Option<Key> {
        let number = self.next;
        (number < self.count).then(|| {
            self.next += 1;
            self.key(number)
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.count - self.next).ok();
        (left.unwrap_or(usize::MAX), left)
    }
}
