//! Fields as people and programs see them.
use crate::when;
use esker_fields::{Holder, Key, Listed, Place};
use serde_json::{Map, Value, json};
use std::time::UNIX_EPOCH;

pub(super) fn key(key: &Key) -> Value {
    let pairs = key.iter().map(|(name, value)| (name.to_owned(), Value::from(value)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

pub(super) fn listed(listed: &Listed) -> Value {
    with_place(&listed.key, &listed.place)
}

pub(super) fn with_place(name: &Key, place: &Place) -> Value {
    json!({
        "key": key(name),
        "size_bytes": place.bytes,
        "archived": archived(place),
        "holder": holder(place),
    })
}

/// When it was archived, in UTC.
pub(super) fn archived(place: &Place) -> String {
    let since = place.archived.duration_since(UNIX_EPOCH).unwrap_or_default();
    when::calendar(since.as_secs() as i64) + "Z"
}

/// What holds its bytes: an object id, or a file and where in it.
pub(super) fn holder(place: &Place) -> String {
    match &place.holder {
        Holder::Array(oid) => oid.to_string(),
        Holder::File { path, offset } => format!("{}:{offset}", path.display()),
    }
}

/// A key with its place behind it.
pub(super) fn long(name: &Key, place: &Place) -> String {
    format!("{name}  {}  {}  {}", place.bytes, archived(place), holder(place))
}
