//! Keys: ordered pairs of name and value, stored as text.
use crate::limits::{KEY_BYTES_MAX, KEY_PAIRS_MAX, NAME_BYTES_MAX, VALUE_BYTES_MAX};
use esker_types::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Initial capacity for the text of a key.
const KEY_BYTES_EXPECTED: usize = 192;

/// Ordered pairs of name and value, spelt `class=od,expver=0001`.
///
/// Names are lower-case letters, digits and underscores, and unique in a key. A value is any text without commas and
/// control characters; an empty one says that the name has no value. Two keys are equal if their texts are, so the
/// order of the pairs counts; keys of a [`crate::schema::Split`] have the
/// order of the schema. Limits: [`crate::limits`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The text: one allocation, and nothing to format when the key is shown or stored.
    text: String,
}

impl Key {
    /// A key without pairs.
    #[must_use]
    pub const fn new() -> Self {
        Self { text: String::new() }
    }

    /// A key of these pairs, in their order.
    ///
    /// # Errors
    /// The errors of [`Key::set`]; an error if a name occurs twice.
    pub fn from_pairs<N: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self> {
        let mut key = Self::with_capacity(KEY_BYTES_EXPECTED);
        let mut marks = 0;
        for (count, (name, value)) in pairs.into_iter().enumerate() {
            let name = checked_name(name.as_ref())?;
            // Equal names have equal marks, so most names need no search.
            let mark = mark_of(&name);
            if marks & mark != 0 && key.get(&name).is_some() {
                return Err(invalid(format!("{name} occurs twice in a key; give it once")));
            }
            marks |= mark;
            key.append(count, &name, checked_value(&name, value.as_ref())?)?;
        }
        Ok(key)
    }

    /// Reads `class=od,expver=0001`. Blanks around names and values are dropped.
    ///
    /// # Errors
    /// The errors of [`Key::from_pairs`]; an error if a pair has no `=`.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if is_canonical(text) {
            return Ok(Self { text: text.to_owned() });
        }
        let pairs: Result<Vec<_>> = text.split(',').map(|pair| pair_of(pair, text)).collect();
        Self::from_pairs(pairs?)
    }

    /// The value of `name`, which is lower-case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Sets the value of `name`: in place if the key has it, else at the end.
    ///
    /// # Errors
    /// If the name, the value or the key exceeds its limit or has invalid characters.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let name = checked_name(name)?;
        let value = checked_value(&name, value)?;
        let Some(old) = self.value_range(&name) else {
            return self.append(self.len(), &name, value);
        };
        Self::check_room(old.start + value.len() + self.text.len() - old.end, &name, value)?;
        self.text.replace_range(old, value);
        Ok(())
    }

    /// Range of the value of `name` in the text.
    fn value_range(&self, name: &str) -> Option<Range<usize>> {
        let mut pairs = self.iter();
        loop {
            let start = self.text.len() - pairs.rest.len();
            let (known, value) = pairs.next()?;
            if known == name {
                let start = start + known.len() + 1;
                return Some(start..start + value.len());
            }
        }
    }

    /// The pairs in their order.
    #[must_use]
    pub fn iter(&self) -> Pairs<'_> {
        Pairs { rest: &self.text }
    }

    /// How many pairs it has.
    #[must_use]
    pub fn len(&self) -> usize {
        let commas = self.text.bytes().filter(|byte| *byte == b',').count();
        commas + usize::from(!self.is_empty())
    }

    /// Whether it has no pairs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The spelling of the key, `class=od,expver=0001`, as [`fmt::Display`] shows it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The pairs of all `parts` in their order. A name that occurs in several of them keeps the position of the first
    /// and takes the value of the last, unless `stays(name, earlier, later)` keeps an earlier one.
    ///
    /// # Errors
    /// If the result exceeds the limits of a key.
    pub fn joined(parts: &[&Self], stays: impl Fn(&str, &str, &str) -> bool) -> Result<Self> {
        let room = parts.iter().map(|part| part.text.len() + 1).sum();
        let mut whole = Self::with_capacity(room);
        for part in parts.iter().filter(|part| !part.is_empty()) {
            whole.text.push_str(if whole.is_empty() { "" } else { "," });
            whole.text.push_str(&part.text);
        }
        if is_canonical(&whole.text) {
            return Ok(whole);
        }
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for (name, value) in parts.iter().flat_map(|part| part.iter()) {
            match pairs.iter_mut().find(|(known, _)| *known == name) {
                Some((_, earlier)) if stays(name, earlier, value) => {}
                Some((_, earlier)) => *earlier = value,
                None => pairs.push((name, value)),
            }
        }
        let mut whole = Self::new();
        let mut pairs = pairs.into_iter().enumerate();
        pairs.try_for_each(|(count, (name, value))| whole.append(count, name, value))?;
        Ok(whole)
    }

    /// The key whose text is exactly `text`, if a fast check accepts it; other texts need [`Key::parse`].
    pub(crate) fn spelt(text: String) -> Option<Self> {
        is_canonical(&text).then_some(Self { text })
    }

    /// Adds a pair that was checked before and whose name is new to a key of `count` pairs.
    fn append(&mut self, count: usize, name: &str, value: &str) -> Result<()> {
        let comma = usize::from(!self.is_empty());
        Self::check_room(self.text.len() + comma + name.len() + 1 + value.len(), name, value)?;
        if count == KEY_PAIRS_MAX {
            return Err(too_big(format!(
                "a key has at most {KEY_PAIRS_MAX} pairs; {name} exceeds that"
            )));
        }
        self.push(name, value);
        Ok(())
    }

    /// Fails if the text of a key, with the pair `name=value` in it, has more than [`KEY_BYTES_MAX`] bytes. `bytes` is
    /// its length.
    fn check_room(bytes: usize, name: &str, value: &str) -> Result<()> {
        if bytes <= KEY_BYTES_MAX {
            return Ok(());
        }
        Err(too_big(format!("the key has over {KEY_BYTES_MAX} bytes at {name}={value}")))
    }

    /// Appends `name=value` to the text. The caller has checked that both are valid, and that the order is right.
    pub(crate) fn push(&mut self, name: &str, value: &str) {
        if !self.text.is_empty() {
            self.text.push(',');
        }
        self.text.push_str(name);
        self.text.push('=');
        self.text.push_str(value);
    }

    /// An empty key with room for `bytes` of spelling.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes) }
    }
}

/// The pairs of a text that spells a key.
pub(crate) fn pairs(text: &str) -> Pairs<'_> {
    Pairs { rest: text }
}

/// The pairs of a key in their order.
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = cut(self.rest, b'=')?;
        let (value, rest) = cut(rest, b',').unwrap_or((rest, ""));
        self.rest = rest;
        Some((name, value))
    }
}

/// The text before and after the first `mark`, which is ASCII. Names and values are short: this takes half the time
/// of `split_once`, which prepares for long ones.
fn cut(text: &str, mark: u8) -> Option<(&str, &str)> {
    let at = text.bytes().position(|byte| byte == mark)?;
    Some((&text[..at], &text[at + 1..]))
}

impl<'a> IntoIterator for &'a Key {
    type Item = (&'a str, &'a str);
    type IntoIter = Pairs<'a>;

    fn into_iter(self) -> Pairs<'a> {
        self.iter()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Key {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

/// Splits `name=value`. `text` is the complete key, for the error.
fn pair_of<'a>(pair: &'a str, text: &str) -> Result<(&'a str, &'a str)> {
    pair.split_once('=').ok_or_else(|| {
        invalid(format!("{pair:?} in the key {text:?} has no '='; write name=value,name=value"))
    })
}

/// The name in the form of keys: in lower case, and without blanks around it. Fails if a key cannot have it.
fn checked_name(name: &str) -> Result<Cow<'_, str>> {
    if name.len() <= NAME_BYTES_MAX && is_name(name) {
        return Ok(Cow::Borrowed(name));
    }
    let name = name.trim().to_ascii_lowercase();
    if name.len() > NAME_BYTES_MAX {
        return Err(too_big(format!("the name {name:?} has over {NAME_BYTES_MAX} bytes")));
    }
    if !is_name(&name) {
        let rule = "names are letters, digits and underscores and begin with a letter";
        return Err(invalid(format!("{name:?} is not a valid name: {rule}")));
    }
    Ok(Cow::Owned(name))
}

/// Whether `text` can be a name of a key.
pub(crate) fn is_name(text: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.bytes().all(rest)
}

/// Whether `text` is exactly the text of a key, with unique names and within all limits. Takes one pass, because nearly
/// all texts of programs are canonical. Values beyond ASCII take the slow path.
fn is_canonical(text: &str) -> bool {
    let mut names = [""; KEY_PAIRS_MAX];
    let mut rest = Pairs { rest: text };
    let (mut count, mut bytes, mut marks) = (0, 0, 0);
    for (name, value) in rest.by_ref() {
        if count == KEY_PAIRS_MAX || !is_plain(name, value) {
            return false;
        }
        let mark = mark_of(name);
        if marks & mark != 0 && names[..count].contains(&name) {
            return false;
        }
        marks |= mark;
        names[count] = name;
        count += 1;
        bytes += name.len() + value.len() + 2;
    }
    // Not counted: a comma at the end, or a last pair without '='.
    text.len() <= KEY_BYTES_MAX && bytes == text.len() + usize::from(count > 0)
}

/// A bit of a 64-bit set for a name, chosen by a hash. If the bit is not yet set, no equal name is in the set.
fn mark_of(name: &str) -> u64 {
    let sum = name.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    1 << (sum % u64::BITS)
}

/// Whether a pair can be added to a key unchanged.
fn is_plain(name: &str, value: &str) -> bool {
    let short = name.len() <= NAME_BYTES_MAX && value.len() <= VALUE_BYTES_MAX;
    short && is_name(name) && is_plain_value(value)
}

/// Whether a value consists of visible ASCII characters without commas, so that keys have it unchanged.
fn is_plain_value(value: &str) -> bool {
    value.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && byte != b',')
}

/// The value in the form of keys: without blanks around it. Fails if a key cannot have it; `name` is for the error.
pub(crate) fn checked_value<'a>(name: &str, value: &'a str) -> Result<&'a str> {
    if value.len() <= VALUE_BYTES_MAX && is_plain_value(value) {
        return Ok(value);
    }
    let value = value.trim();
    if value.len() > VALUE_BYTES_MAX {
        return Err(too_big(format!("the value of {name} has over {VALUE_BYTES_MAX} bytes")));
    }
    if value.contains(|c: char| c == ',' || c.is_control()) {
        let rule = "values have no commas and no control characters";
        return Err(invalid(format!("{name}={value:?}: {rule}")));
    }
    Ok(value)
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

fn too_big(message: String) -> Error {
    Error::new(ErrorKind::KeyTooBig, message)
}

#[cfg(test)]
mod tests;
