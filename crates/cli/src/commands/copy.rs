//! `esker cont copy`: containers from pool to pool.
use crate::args::JobsArg;
use crate::open::split;
use crate::output::{Answer, Bar, watched};
use crate::shapes::count;
use crate::units::{Bytes, amount_and_rate};
use clap::Args;
use esker::copy::{self, Options, Progress, Summary};
use esker::types::Result;
use esker::types::info::OpenMode;
use esker::{Container, Pool, Wait};
use serde_json::{Value, json};
use std::time::Instant;

const COPYING: &str = "\
SRC and DST are POOL/CONT. The pools may be of different kinds: a pool of this machine, one of plain files \
(posix:/path), one on Ceph (rados:CEPH_POOL), one of a DAOS system \
(daos:POOL). All objects are copied with their IDs, as are attributes, properties, \
the checksum and the next number for object IDs. Snapshots are not copied.

If the pool of SRC supports snapshots, the copy is consistent: a temporary snapshot is taken for it, or --snapshot \
names an existing one. On other pools (posix:), each object is copied as it is found, so nothing should write \
to SRC meanwhile.

DST is called DST.copying until it is complete. If a copy is interrupted, even by a crash, the same command resumes it: \
it reads the same snapshot and skips what is already copied. All data is read back and compared with the source, \
unless --no-verify is given. Do not run it twice at the same time: the second command fails, or, on posix: and rados: \
pools, takes over the copy, and the first one fails.

Whatever the pool of DST cannot store is reported before anything is copied: holes of arrays, akeys other than those \
of Key-Values and Arrays on posix: pools, and replicated object classes on pools with a single fault domain.

Examples:
  esker cont copy tank/run1 posix:/lustre/archive/run1
  esker cont copy tank/run1 rados:data/run1?conf=/etc/ceph/ceph.conf --snapshot monday
  esker cont copy tank/run1 daos:prod/run1
  esker cont copy daos:prod/run1 tank/back";

/// Copy a container to a pool of any kind
///
/// Copies in parallel, verifies what it wrote, and can be resumed.
#[derive(Args)]
#[command(after_long_help = COPYING)]
pub(crate) struct Copy {
    /// Container to copy, as POOL/CONT
    #[arg(value_name = "SRC")]
    source: String,
    /// Container to create, as POOL/LABEL
    #[arg(value_name = "DST")]
    dest: String,
    /// Copy this snapshot, given by name or epoch
    #[arg(long, value_name = "SNAPSHOT")]
    snapshot: Option<String>,
    /// Write zeros in place of holes if the pool of DST does not support holes
    #[arg(long)]
    zeros: bool,
    /// Copy nothing: count objects and keys, and check that DST can store them
    #[arg(long, short = 'n')]
    dry_run: bool,
    #[command(flatten)]
    how: CopyArgs,
}

/// Options that `cont copy` and `cont drain` share.
#[derive(Args)]
pub(super) struct CopyArgs {
    /// Do not read back and compare what was written
    #[arg(long)]
    no_verify: bool,
    #[command(flatten)]
    jobs: JobsArg,
}

impl CopyArgs {
    /// Returns the options in the form that the library takes.
    pub(super) fn options(&self) -> Options {
        let workers = self.jobs.given().unwrap_or_default();
        Options { workers, verify: !self.no_verify, ..Options::default() }
    }
}

impl Copy {
    pub(super) fn run(self) -> Result<Answer> {
        let ((from_pool, from), (to_pool, label)) = (split(&self.source)?, split(&self.dest)?);
        // Without `--snapshot`, the copy takes a temporary snapshot of the source.
        let keeps_still = self.snapshot.is_some() || self.dry_run;
        let from_mode = if keeps_still { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let to_mode = if self.dry_run { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let from = Pool::connect(&from_pool, from_mode)?.open_container(from, from_mode).wait()?;
        let to = Pool::connect(&to_pool, to_mode)?;
        let options = self.options(&from)?;
        if self.dry_run {
            let found = copy::survey(&from, &to, &options)?;
            let text = format!("{}: DST can store them", objects_and_keys(&found));
            return Ok(Answer::new(shape(&found, 0.0), text));
        }
        let (start, progress) = (Instant::now(), Progress::default());
        let summary =
            with_progress(&progress, || copy::copy(&from, &to, label, &options, &progress))?;
        Ok(answer(&summary, start.elapsed().as_secs_f64()))
    }

    /// Options of the copy.
    fn options(&self, from: &Container) -> Result<Options> {
        let snapshot = self.snapshot.as_ref().map(|name| from.find_snapshot(name).wait());
        let snapshot = snapshot.transpose()?;
        Ok(Options { zeros: self.zeros, snapshot, ..self.how.options() })
    }
}

/// Does `work`, and shows its progress on terminals.
pub(super) fn with_progress<T>(progress: &Progress, work: impl FnOnce() -> T) -> T {
    watched(Bar::spinner, |bar| bar.say(&so_far(&progress.summary())), work)
}

fn so_far(summary: &Summary) -> String {
    format!("{}, {}", objects_and_keys(summary), Bytes(summary.bytes))
}

fn objects_and_keys(summary: &Summary) -> String {
    format!("{}, {}", count(summary.objects, "object"), count(summary.keys, "key"))
}

/// Answer with the amounts copied and the rate.
pub(super) fn answer(summary: &Summary, seconds: f64) -> Answer {
    let amount = amount_and_rate(summary.bytes, seconds);
    let mut lines = vec![format!("copied {}, {amount}", objects_and_keys(summary))];
    if summary.verified > 0 {
        lines.push(format!("verified {}", Bytes(summary.verified)));
    }
    if summary.resumed {
        lines.push("resumed an interrupted copy; its objects are not counted again".into());
    }
    Answer::confirmation(shape(summary, seconds), lines.join("\n"))
}

/// The answer as JSON.
fn shape(summary: &Summary, seconds: f64) -> Value {
    json!({
        "objects": summary.objects,
        "keys": summary.keys,
        "copied_bytes": summary.bytes,
        "verified_bytes": summary.verified,
        "removed": summary.removed,
        "epoch": summary.epoch.map(|epoch| epoch.0),
        "resumed": summary.resumed,
        "seconds": seconds,
    })
}
