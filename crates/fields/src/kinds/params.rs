//! Parameters: numbers and short names.
use std::borrow::Cow;
use std::sync::LazyLock;

/// Short names and numbers, sorted by name.
static NAMES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let lines = include_str!("../../schema/params").lines();
    lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' ')).collect()
});

/// The table whose parameters are known by their number alone.
const COMMON_TABLE: u32 = 128;

/// Canonical id of a parameter: `167` for `167`, `167.128` and the short name `2t`, and `151200` for `151.200`. Numbers
/// such as `200151` do not change. `None` for other values.
pub(super) fn param(value: &str) -> Option<Cow<'_, str>> {
    if let Some(number) = digits(value) {
        let done = !value.starts_with('0') || value == "0";
        return Some(if done { Cow::Borrowed(value) } else { Cow::Owned(number.to_string()) });
    }
    if let Some((number, table)) = value.split_once('.') {
        return in_table(digits(number)?, digits(table)?).map(|id| Cow::Owned(id.to_string()));
    }
    let name = value.to_ascii_lowercase();
    let place = NAMES.binary_search_by(|(known, _)| (*known).cmp(&name)).ok()?;
    NAMES.get(place).map(|(_, id)| Cow::Borrowed(*id))
}

/// All short names of parameters, such as `2t`, to suggest one near a misspelt name.
pub(crate) fn short_names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name)
}

/// Number of a parameter in a table of GRIB 1.
fn in_table(number: u32, table: u32) -> Option<u32> {
    if number > 255 || table > 255 {
        return None;
    }
    Some(if matches!(table, 0 | COMMON_TABLE) { number } else { table * 1000 + number })
}

/// A number of at most nine digits and nothing else.
fn digits(text: &str) -> Option<u32> {
    let plain = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}
