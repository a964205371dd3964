//! `esker fields`: weather and climate fields by key.
mod archive;
mod change;
mod check;
mod files;
mod inspect;
mod parallel_archive;
mod retrieve;
mod schema;
mod select;
mod watch;

use crate::output::Answer;
use crate::shapes;
use clap::Subcommand;
use esker::types::Result;
use esker_fields::{FieldLocation, Holder, Key, Listed};
use serde_json::{Map, Value, json};
use std::time::UNIX_EPOCH;

/// Archive, list, retrieve and remove weather and climate fields by key
///
/// A field is a sequence of bytes under a key such as class=od,date=20240610,step=24,param=167. The schema of the store
/// defines the names in a key. The keys of GRIB messages are read by ecCodes, which must be installed for that.
#[derive(Subcommand)]
pub(crate) enum FieldsCommand {
    Archive(archive::Archive),
    Adopt(archive::Adopt),
    Retrieve(retrieve::Retrieve),
    #[command(visible_alias = "ls")]
    List(inspect::List),
    Inspect(inspect::Inspect),
    Axes(inspect::Axes),
    Status(inspect::Status),
    Stats(inspect::Stats),
    Where(inspect::Where),
    Dump(inspect::Dump),
    Check(check::Check),
    Watch(watch::Watch),
    Move(change::Move),
    Wipe(change::Wipe),
    Purge(change::Purge),
    Schema(schema::Schema),
}

impl FieldsCommand {
    pub(crate) fn run(self, json: bool) -> Result<Answer> {
        match self {
            Self::Archive(archive) => archive.run(),
            Self::Adopt(adopt) => adopt.run(),
            Self::Retrieve(retrieve) => retrieve.run(json),
            Self::List(list) => list.run(),
            Self::Inspect(inspect) => inspect.run(),
            Self::Axes(axes) => axes.run(),
            Self::Status(status) => status.run(),
            Self::Stats(stats) => stats.run(),
            Self::Where(place) => place.run(),
            Self::Dump(dump) => dump.run(),
            Self::Check(check) => check.run(),
            Self::Watch(watch) => watch.run(json),
            Self::Move(moved) => moved.run(),
            Self::Wipe(wipe) => wipe.run(),
            Self::Purge(purge) => purge.run(),
            Self::Schema(schema) => schema.run(),
        }
    }
}

/// Converts the key of a field to a JSON object of its names and values.
fn key(key: &Key) -> Value {
    let pairs = key.iter().map(|(name, value)| (name.to_owned(), Value::from(value)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// A field of a listing, in JSON.
fn listed(listed: &Listed) -> Value {
    with_place(&listed.key, &listed.location)
}

/// A key and its place, in JSON.
fn with_place(name: &Key, place: &FieldLocation) -> Value {
    json!({
        "key": key(name),
        "size_bytes": place.bytes,
        "archived": archived(place),
        "holder": holder(place),
    })
}

/// Time at which a field was archived, in UTC.
fn archived(place: &FieldLocation) -> String {
    let since = place.archived.duration_since(UNIX_EPOCH).unwrap_or_default();
    shapes::time(since.as_secs() as i64, 0, 0)
}

/// Location of the bytes of a field: an object ID, or a file and the offset in it.
fn holder(place: &FieldLocation) -> String {
    match &place.holder {
        Holder::Array(oid) => oid.to_string(),
        Holder::File { path, offset } => format!("{}:{offset}", path.display()),
    }
}

/// A line with a key and its location.
fn long(name: &Key, place: &FieldLocation) -> String {
    format!("{name}  {}  {}  {}", place.bytes, archived(place), holder(place))
}
