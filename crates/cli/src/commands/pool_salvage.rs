//! `esker pool salvage`.
use super::new_pool::Place;
use crate::args::PoolArg;
use crate::output::Answer;
use crate::progress::Bar;
use crate::shapes;
use clap::Args;
use esker::copy::{self, Progress, Summary};
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker::{Pool, names};
use esker_bench::units::Bytes;
use esker_store::{Losses, PoolSpec, Salvage as Remains, Superblock};
use serde_json::json;
use std::path::Path;

const SALVAGING: &str = "\
For a pool that no longer opens, or of which `esker pool check` says that pages of an index are damaged. POOL is only read, \
never changed, and nobody may use it meanwhile. NEW is made, with the size, the targets and the durability of POOL \
unless other ones are given; where it is too small it goes again.

All that can be read goes over: containers with their ids, labels, attributes and properties, objects as they are, and \
so Key-Values, Arrays, file systems and field stores. Values are compared with their checksums, records of the index \
with their seals. Snapshots do not go over. A container whose label is lost is called lost-N.

What is lost is listed, and the exit status is 1 where anything is. Of an array, the other records go over; what is lost reads \
as if it had never been written. In a file system, `esker fs check` finds files whose names are lost.

A salvage that is killed leaves NEW behind, and no container in it has a label yet: `esker pool destroy NEW`, and begin anew.

Examples:
  esker pool salvage tank tank2
  esker pool salvage esker:/scratch/tank tank2 --dir /data/pools --size 20G";

/// Save what can be read of a damaged pool into a new one
///
/// The damaged pool is only read. Exit status 1 where anything is lost, which is listed.
#[derive(Args)]
#[command(after_long_help = SALVAGING)]
pub(crate) struct Salvage {
    #[command(flatten)]
    pool: PoolArg,
    /// Label of the pool that is made
    #[arg(value_name = "NEW")]
    new: String,
    /// Size of the new pool with its index: 512MiB, 4G, 1.5T [default: that of POOL]
    #[arg(long, short, value_name = "SIZE")]
    size: Option<Bytes>,
    #[command(flatten)]
    place: Place,
    /// Number of targets of the new pool [default: as many as POOL has]
    #[arg(long, value_name = "N")]
    targets: Option<u32>,
}

impl Salvage {
    pub(super) fn run(self) -> Result<Answer> {
        let mut from = Remains::open(&names::find(&self.pool.pool)?)?;
        let (path, made) = self.place.create(&self.spec(from.superblock()))?;
        match fill(&mut from, &path) {
            Ok(summary) => Ok(answer(&from, &path, &made, summary)),
            // So that the same command, with another size perhaps, begins anew.
            Err(error) => Err(match esker_store::Pool::destroy(&path, true) {
                Ok(()) => hint(&made.label, error),
                Err(left) => unfinished(&made.label, &error, &left),
            }),
        }
    }

    fn spec(&self, damaged: &Superblock) -> PoolSpec {
        let size = self.size.map_or_else(|| damaged.reserved_bytes(), |size| size.0);
        let alike = self.size.is_none() && self.targets.is_none();
        PoolSpec {
            targets: self.targets.or(Some(damaged.targets)),
            durability: Some(damaged.durability),
            guarded: damaged.guarded,
            segment_bytes: alike.then_some(damaged.segment_bytes),
            ..PoolSpec::new(&self.new, size)
        }
    }
}

fn fill(from: &mut Remains, path: &Path) -> Result<Summary> {
    let to = Pool::connect(&format!("esker:{}", path.display()), OpenMode::ReadWrite)?;
    let bar = Bar::steps("salvaging");
    copy::salvage(from, &to, &Progress::default(), &mut |done, all| bar.update(done, all))
}

fn hint(new: &str, error: Error) -> Error {
    match error.kind() {
        ErrorKind::NoSpace => {
            let text = format!(
                "{new} had no room for everything and is removed again ({}): give it a larger --size",
                error.message()
            );
            Error::new(ErrorKind::NoSpace, text)
        }
        _ => error,
    }
}

fn unfinished(new: &str, error: &Error, left: &Error) -> Error {
    let text = format!(
        "{}; and {new}, which is not whole, is still there: {}: remove it with `esker pool destroy {new}`",
        error.message(),
        left.message()
    );
    Error::new(error.kind(), text)
}

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
        lines.push(format!("{snapshots} snapshots were left out"));
    }
    let (objects, keys, bytes) = (summary.objects, summary.keys, Bytes(summary.bytes));
    lines.push(format!(
        "{objects} objects with {keys} keys and {bytes} are in pool {}: {}",
        made.label,
        path.display()
    ));
    Answer::new(response, lines.join("\n")).with_trouble(trouble(losses))
}

fn trouble(losses: &Losses) -> Option<Error> {
    let first = losses.lines.first()?;
    let text = format!(
        "of {} things that are lost, the first: {first}; all else is in the new pool",
        losses.count.max(1)
    );
    Some(Error::new(ErrorKind::Corrupt, text))
}
