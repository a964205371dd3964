//! Values that are words.
use std::borrow::Cow;

/// The value in lower case: the MARS language does not tell cases apart.
pub(super) fn lower(value: &str) -> Cow<'_, str> {
    if value.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(value.to_ascii_lowercase());
    }
    Cow::Borrowed(value)
}

/// A version of an experiment, filled up with zeros to four characters.
pub(super) fn expver(value: &str) -> Option<Cow<'_, str>> {
    if value.len() >= 4 {
        return Some(lower(value));
    }
    let short = !value.is_empty() && value.is_ascii();
    short.then(|| Cow::Owned(format!("{:0>4}", value.to_ascii_lowercase())))
}

/// The first three characters.
pub(super) fn first3(value: &str) -> Cow<'_, str> {
    let end = value.char_indices().nth(3).map_or(value.len(), |(index, _)| index);
    lower(value[..end].trim_end())
}

/// A grid, with `+` where requests have `/`.
pub(super) fn grid(value: &str) -> Cow<'_, str> {
    if value.contains('/') {
        Cow::Owned(value.to_ascii_lowercase().replace('/', "+"))
    } else {
        lower(value)
    }
}
