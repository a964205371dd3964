//! `esker pool salvage`.
use super::pool::{DurabilityArg, PoolDirectory};
use crate::args::PoolArg;
use crate::output::{Answer, Bar};
use crate::shapes;
use crate::units::Bytes;
use clap::Args;
use esker::copy::{self, Progress, Summary};
use esker::types::info::{Durability, OpenMode};
use esker::types::{Error, ErrorKind, Result};
use esker::{Pool, names};
use esker_store::{Access, Losses, PoolSpec, Salvage as Remains, Superblock};
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const SALVAGING: &str = "\
Use this for a pool that no longer opens, or if `esker pool check` reports damaged index pages. POOL is read, never \
changed, and no process may use it meanwhile. NEW is created with the size, the targets, the durability and the group \
of POOL, unless you give others. If NEW turns out to be too small, it is removed again.

Everything readable is copied: containers with their UUIDs, labels, attributes and properties, and objects as they are. \
This includes Key-Values, Arrays, file systems and field stores. The checksums of values and of index records are \
verified. Snapshots are not copied. A container whose label is lost gets the label lost-N.

All losses are listed, and the exit status is 1 if there are any. The other records of an array survive; lost records \
read as if they had never been written. In a file system, `esker fs check` finds the files whose names are lost.

A salvage that is killed leaves NEW behind, with containers that have no label yet. Run `esker pool destroy --recursive NEW` and \
start again.

Examples:
  esker pool salvage tank tank2
  esker pool salvage esker:/scratch/tank tank2 --dir /data/pools --size 20G";

/// Copy what is readable of a damaged pool into a new one
///
/// The damaged pool is not changed. All losses are listed, and the exit status is 1 if there are any.
#[derive(Args)]
#[command(after_long_help = SALVAGING)]
pub(crate) struct Salvage {
    #[command(flatten)]
    pool: PoolArg,
    /// Label of the new pool
    #[arg(value_name = "NEW")]
    new: String,
    /// Size of the new pool with its index: 512MiB, 4G, 1.5T [default: the size of POOL]
    #[arg(long, short, value_name = "SIZE")]
    size: Option<Bytes>,
    #[command(flatten)]
    directory: PoolDirectory,
    /// Number of targets of the new pool [default: the number of POOL]
    #[arg(long, value_name = "N")]
    targets: Option<u32>,
    /// Failures that an acknowledged update of the new pool survives [default: the durability of POOL]
    #[arg(long, value_name = "LEVEL")]
    durability: Option<DurabilityArg>,
    /// Let the members of this group use the new pool [default: the group of POOL, if that has one]
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
}

impl Salvage {
    pub(super) fn run(self) -> Result<Answer> {
        let damaged = names::find(&self.pool.pool)?;
        let mut from = Remains::open(&damaged)?;
        let group = self.group(&damaged, from.superblock())?;
        let (path, made) = self.directory.create(&self.spec(from.superblock(), group))?;
        match fill(&mut from, &path) {
            Ok(summary) => Ok(answer(&from, &path, &made, summary)),
            // Removes the new pool, so that the command can be repeated, perhaps with another size.
            Err(error) => Err(match esker_store::Pool::destroy(&path, true) {
                Ok(()) => with_size_hint(&made.label, error),
                Err(left) => not_removed_error(&made.label, &error, &left),
            }),
        }
    }

    /// Group of the new pool: as given, or that of the damaged pool in `directory`. None if only the owner uses it.
    fn group(&self, directory: &Path, damaged: &Superblock) -> Result<Option<String>> {
        if self.group.is_some() || damaged.access == Access::Private {
            return Ok(self.group.clone());
        }
        let status = std::fs::metadata(directory);
        let status = status
            .map_err(|error| Error::io(format!("reading {}", directory.display()), &error))?;
        Ok(Some(status.gid().to_string()))
    }

    /// Returns the specification of the new pool. Its size, targets and durability are those of the damaged pool unless
    /// an option sets them.
    fn spec(&self, damaged: &Superblock, group: Option<String>) -> PoolSpec {
        let size = self.size.map_or_else(|| damaged.reserved_bytes(), |size| size.0);
        let alike = self.size.is_none() && self.targets.is_none();
        PoolSpec {
            targets: self.targets.or(Some(damaged.targets)),
            durability: Some(self.durability.map_or(damaged.durability, Durability::from)),
            group,
            guarded: damaged.guarded,
            write_buffer: Some(damaged.has_write_buffer()),
            segment_bytes: alike.then_some(damaged.segment_bytes),
            ..PoolSpec::new(&self.new, size)
        }
    }
}

/// Copies into the new pool all that can be read.
fn fill(from: &mut Remains, path: &Path) -> Result<Summary> {
    let to = Pool::connect(&format!("esker:{}", path.display()), OpenMode::ReadWrite)?;
    let bar = Bar::steps("salvaging");
    copy::salvage(from, &to, &Progress::default(), &mut |done, all| bar.update(done, all))
}

/// Adds to an error for lack of space that the new pool was too small, and has been removed.
fn with_size_hint(new: &str, error: Error) -> Error {
    match error.kind() {
        ErrorKind::NoSpace => {
            let text = format!(
                "{new} was too small for all data and has been removed ({}): give a larger --size",
                error.message()
            );
            Error::new(ErrorKind::NoSpace, text)
        }
        _ => error,
    }
}

fn not_removed_error(new: &str, error: &Error, left: &Error) -> Error {
    let text = format!(
        "{}; the incomplete pool {new} could not be removed ({}): run `esker pool destroy --recursive {new}`",
        error.message(),
        left.message()
    );
    Error::new(error.kind(), text)
}

/// The answer of the command.
fn answer(from: &Remains, path: &Path, made: &Superblock, summary: Summary) -> Answer {
    let losses = from.losses();
    let snapshots: u64 = from.containers().iter().map(|found| found.snapshots).sum();
    let response = json!({
        "pool": shapes::superblock(path, made),
        "objects": summary.objects,
        "keys": summary.keys,
        "copied_bytes": summary.bytes,
        "snapshots_left_out": snapshots,
        "lost_count": losses.count,
        "lost": losses.lines,
    });
    let mut lines: Vec<_> = losses.lines.iter().map(|line| format!("lost: {line}")).collect();
    if snapshots > 0 {
        lines.push(format!("not copied: {}", shapes::count(snapshots, "snapshot")));
    }
    let (objects, keys) =
        (shapes::count(summary.objects, "object"), shapes::count(summary.keys, "key"));
    let bytes = Bytes(summary.bytes);
    lines.push(format!(
        "saved {objects} with {keys} and {bytes} in pool {}: {}",
        made.label,
        path.display()
    ));
    Answer::new(response, lines.join("\n")).with_trouble(trouble(losses))
}

/// Error of the command if something was lost.
fn trouble(losses: &Losses) -> Option<Error> {
    let first = losses.lines.first()?;
    let text = format!(
        "{}, the first of them: {first}; everything else is in the new pool",
        shapes::count(losses.count.max(1), "thing") + " lost"
    );
    Some(Error::new(ErrorKind::Corrupt, text))
}
