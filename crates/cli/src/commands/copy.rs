//! `esker cont copy`.
use crate::open::split;
use crate::output::Answer;
use crate::progress::Bar;
use clap::Args;
use esker::copy::{self, Options, Progress, Summary};
use esker::types::Result;
use esker::types::info::OpenMode;
use esker::{Container, Pool, Wait};
use esker_bench::units::{Bytes, mib_per_s};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

const COPYING: &str = "\
SRC and DST are POOL/CONT; the pools may be of different sorts: a pool of this machine, one of plain files \
(posix:/path), one on Ceph (rados:POOL). All objects are copied as they are, with their ids, and so are attributes, \
properties, the checksum and the next number for object ids. Snapshots are not.

Where SRC has snapshots, the copy is of one moment: a snapshot is made for it, and dropped in the end (--snapshot \
copies one that is there). On others (posix:) each object is copied as it is met: let nobody write meanwhile.

DST is called DST.copying until it is whole. The same command goes on where one was stopped, also by a \
crash: it reads the same snapshot and skips what was done. All that is written is read back and compared with \
what was read, unless --no-verify.

What the pool of DST cannot hold is an error before anything is copied: holes of arrays and akeys beside those \
of Key-Values and Arrays on posix: pools, and object classes with replicas where there is one fault domain.";

/// Copy a container to another pool, of any sort
///
/// In parallel, checksummed, and resumable.
#[derive(Args)]
#[command(after_long_help = COPYING)]
pub(crate) struct Copy {
    /// Container that is copied, as POOL/CONT
    #[arg(value_name = "SRC")]
    source: String,
    /// Container that is made, as POOL/LABEL
    #[arg(value_name = "DST")]
    dest: String,
    /// Copy the state of this snapshot, by name or epoch
    #[arg(long, value_name = "SNAPSHOT")]
    snapshot: Option<String>,
    /// Where the pool of DST has no holes, put zeros in their place
    #[arg(long)]
    zeros: bool,
    /// Copy nothing: count objects and keys, and say whether DST can hold them
    #[arg(long, short = 'n')]
    dry_run: bool,
    #[command(flatten)]
    how: How,
}

/// What all copies of containers have in common.
#[derive(Args)]
pub(super) struct How {
    /// Do not read back what was written
    #[arg(long)]
    no_verify: bool,
    /// Threads that copy [default: one for each processor, at least 4]
    #[arg(long, short = 'j', value_name = "N", default_value_t = 0, hide_default_value = true)]
    workers: usize,
}

impl How {
    pub(super) fn options(&self) -> Options {
        Options { workers: self.workers, verify: !self.no_verify, ..Options::default() }
    }
}

impl Copy {
    pub(super) fn run(self) -> Result<Answer> {
        let ((from_pool, from), (to_pool, label)) = (split(&self.source)?, split(&self.dest)?);
        let keeps_still = self.snapshot.is_some() || self.dry_run;
        let from_mode = if keeps_still { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let to_mode = if self.dry_run { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let from = Pool::connect(from_pool, from_mode)?.open_container(from, from_mode).wait()?;
        let to = Pool::connect(to_pool, to_mode)?;
        let options = self.options(&from)?;
        if self.dry_run {
            let found = copy::survey(&from, &to, &options)?;
            let text = format!("{} objects, {} keys; DST can hold them", found.objects, found.keys);
            return Ok(Answer::new(shape(&found, 0.0), text));
        }
        let (start, progress) = (Instant::now(), Progress::default());
        let summary = watched(&progress, || copy::copy(&from, &to, label, &options, &progress))?;
        Ok(answer(&summary, start.elapsed().as_secs_f64()))
    }

    fn options(&self, from: &Container) -> Result<Options> {
        let snapshot = self.snapshot.as_ref().map(|name| from.find_snapshot(name).wait());
        let snapshot = snapshot.transpose()?;
        Ok(Options { zeros: self.zeros, snapshot, ..self.how.options() })
    }
}

/// Shows how far `work` is, on terminals only.
pub(super) fn watched<T>(progress: &Progress, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if std::io::stderr().is_terminal() {
            scope.spawn(|| {
                let bar = Bar::spinner();
                while !done.load(Ordering::Relaxed) {
                    bar.say(&so_far(&progress.summary()));
                    std::thread::sleep(TICK);
                }
            });
        }
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}

fn so_far(summary: &Summary) -> String {
    let (objects, keys) = (summary.objects, summary.keys);
    format!("{objects} objects, {keys} keys, {}", Bytes(summary.bytes))
}

pub(super) fn answer(summary: &Summary, seconds: f64) -> Answer {
    let rate = mib_per_s(summary.bytes, seconds);
    let mut lines = vec![format!("{} in {seconds:.2} s, {rate:.0} MiB/s", so_far(summary))];
    if summary.verified > 0 {
        lines.push(format!("{} were read back and are the same", Bytes(summary.verified)));
    }
    if summary.resumed {
        lines.push(
            "went on with a copy that was stopped; what that had copied is not counted".into(),
        );
    }
    Answer::new(shape(summary, seconds), lines.join("\n"))
}

pub(super) fn shape(summary: &Summary, seconds: f64) -> Value {
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
