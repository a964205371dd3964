//! `esker fields`: weather and climate fields by key.
mod archive;
mod change;
mod files;
mod look;
mod retrieve;
mod schema;
mod select;
mod shown;
mod turns;
mod watch;

use crate::output::Answer;
use clap::Subcommand;
use esker::types::Result;

/// Archive fields by key, list, find and read them
///
/// A field is bytes under a key such as class=od,date=20240610,step=24,param=167; what names a key has, a schema
/// says. GRIB messages bring their keys with them (ecCodes reads them, where it is installed).
#[derive(Subcommand)]
pub(crate) enum FieldsCommand {
    Archive(archive::Archive),
    Adopt(archive::Adopt),
    Retrieve(retrieve::Retrieve),
    List(look::List),
    Inspect(look::Inspect),
    Axes(look::Axes),
    Status(look::Status),
    Stats(look::Stats),
    Where(look::Where),
    Dump(look::Dump),
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
            Self::Watch(watch) => watch.run(json),
            Self::Move(moved) => moved.run(),
            Self::Wipe(wipe) => wipe.run(),
            Self::Purge(purge) => purge.run(),
            Self::Schema(schema) => schema.run(),
        }
    }
}
