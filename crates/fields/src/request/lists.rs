//! Expansion of the values of a name to canonical ones: lists, ranges, `all`.
use super::{ABSENT, invalid};
use crate::date::Date;
use crate::key::checked_value;
use crate::kinds::{KeyType, ticks};
use crate::limits::REQUEST_VALUES_MAX;
use esker_types::{Error, ErrorKind, Result};
use std::collections::HashSet;

/// The values of one name while they are expanded.
pub(super) struct List<'a> {
    name: &'a str,
    /// The types that the name has in the schema, in the order in which they are tried.
    kinds: &'a [KeyType],
    /// Whether fields may lack the name, so that [`ABSENT`] is a value.
    optional: bool,
    today: Date,
    values: Vec<String>,
    seen: HashSet<String>,
}

/// The canonical values that the words `raw` of a request select for a name, in the order of the words; none if all are
/// wanted. `optional` says whether fields may lack the name.
pub(super) fn values(
    name: &str,
    kinds: &[KeyType],
    raw: &[String],
    (optional, today): (bool, Date),
) -> Result<Option<Vec<String>>> {
    if let [only] = raw
        && is_all(only)
    {
        return Ok(None);
    }
    let mut list = List { name, kinds, optional, today, values: Vec::new(), seen: HashSet::new() };
    // A grid is one value that has slashes.
    if kinds.first() == Some(&KeyType::Grid) && !matches!(raw, [only] if list.is_absent(only)) {
        list.add(&raw.join("/"))?;
        return Ok(Some(list.values));
    }
    let mut rest = raw;
    while let Some((first, others)) = rest.split_first() {
        rest = match others {
            [word, to, others @ ..] if is(word, "to") => list.range(first, to, others)?,
            _ => list.add_single(first).map(|()| others)?,
        };
    }
    Ok(Some(list.values))
}

/// True for the words that stand for all values.
fn is_all(word: &str) -> bool {
    is(word, "all") || word == "*"
}

/// True if two words are equal, ignoring case.
fn is(word: &str, other: &str) -> bool {
    word.eq_ignore_ascii_case(other)
}

impl List<'_> {
    /// Whether a word selects fields without the name.
    fn is_absent(&self, raw: &str) -> bool {
        self.optional && is(raw, ABSENT)
    }

    /// Adds a value that is not in a range.
    fn add_single(&mut self, raw: &str) -> Result<()> {
        if self.is_absent(raw) {
            return self.push(ABSENT.to_owned());
        }
        if is_all(raw) {
            return Err(self.error(format!("{raw} stands alone or not at all")));
        }
        if is(raw, "to") || is(raw, "by") {
            return Err(
                self.error(format!("{raw} is out of place; write first/to/last/by/distance"))
            );
        }
        self.add(raw)
    }

    /// Adds a value in its canonical form.
    fn add(&mut self, raw: &str) -> Result<()> {
        let (_, value) = self.canonical(raw)?;
        checked_value(self.name, &value)?;
        self.push(value)
    }

    /// Adds a value, unless the list has it.
    fn push(&mut self, value: String) -> Result<()> {
        if self.seen.contains(&value) {
            return Ok(());
        }
        if self.values.len() == REQUEST_VALUES_MAX {
            return Err(self.too_many_values_error());
        }
        self.seen.insert(value.clone());
        self.values.push(value);
        Ok(())
    }

    /// The value in the first type for which it is valid.
    fn canonical(&self, raw: &str) -> Result<(KeyType, String)> {
        let today = Some(self.today);
        let forms = self.kinds.iter().map(|kind| (*kind, kind.form(raw, today)));
        let found = forms.filter_map(|(kind, form)| Some((kind, form?.into_owned()))).next();
        found.map_or_else(|| Err(self.value_error(raw)), Ok)
    }

    /// Error of a value that no type of the name takes.
    fn value_error(&self, raw: &str) -> Error {
        let kind = self.kinds.first().copied().unwrap_or_default();
        match kind.canonical(raw, Some(self.today)) {
            Ok(_) => self.error(format!("{raw} is not taken")),
            Err(error) => invalid(format!("{}={}", self.name, error.message())),
        }
    }

    /// Adds the values of `first/to/last`, and of `by/distance` if that follows. Returns the words behind it.
    fn range<'r>(&mut self, first: &str, last: &str, rest: &'r [String]) -> Result<&'r [String]> {
        let (kind, first_value) = self.canonical(first)?;
        let (_, last_value) = self.canonical(last)?;
        let (by, rest) = match rest {
            [word, by, rest @ ..] if is(word, "by") => (Some(by), rest),
            _ => (None, rest),
        };
        let shown =
            format!("{first}/to/{last}{}", by.map_or(String::new(), |by| format!("/by/{by}")));
        let ends = ticks::tick(kind, &first_value).zip(ticks::tick(kind, &last_value));
        let Some(((from, to), usual)) = ends.zip(ticks::default_distance(kind)) else {
            return Err(
                self.error(format!("{shown}: values of type {kind} have no such range; list them"))
            );
        };
        let distance = by.map_or(Some(usual), |by| ticks::distance(kind, by));
        let distance = distance.and_then(|distance| towards(from, to, distance, by.is_some()));
        let Some(distance) = distance else {
            return Err(self
                .error(format!("{shown} leads nowhere; give a distance from {first} to {last}")));
        };
        self.walk(kind, from, to, distance)?;
        Ok(rest)
    }

    /// Adds the values of a range. Both ends and the distance between values, which is not 0, are in ticks.
    fn walk(&mut self, kind: KeyType, from: i64, to: i64, distance: i64) -> Result<()> {
        let count = (i128::from(to) - i128::from(from)) / i128::from(distance) + 1;
        let count = usize::try_from(count).ok().filter(|count| *count <= REQUEST_VALUES_MAX);
        let count = count.ok_or_else(|| self.too_many_values_error())?;
        let mut at = from;
        for _ in 0..count {
            let value = ticks::value_at(kind, at);
            let value = value.ok_or_else(|| self.error(format!("the range leaves type {kind}")))?;
            self.push(value)?;
            at = at.saturating_add(distance);
        }
        Ok(())
    }

    fn too_many_values_error(&self) -> Error {
        let message =
            format!("{} has over {REQUEST_VALUES_MAX} values; ask for fewer at a time", self.name);
        Error::new(ErrorKind::Overflow, message)
    }

    fn error(&self, message: String) -> Error {
        invalid(format!("{}: {message}", self.name))
    }
}

/// The distance with the sign that leads from one end to the other; `None` if neither sign does. Only a distance that
/// the request has `given` may be negative.
fn towards(from: i64, to: i64, distance: i64, given: bool) -> Option<i64> {
    let down = to < from;
    match distance {
        0 => None,
        _ if from == to => Some(distance.saturating_abs()),
        _ if distance < 0 && !(down && given) => None,
        _ if down => Some(-distance.saturating_abs()),
        _ => Some(distance),
    }
}
