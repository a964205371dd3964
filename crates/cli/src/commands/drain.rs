//! `esker cont drain`.
use super::copy::{How, answer, watched};
use crate::open::split;
use crate::output::Answer;
use clap::Args;
use esker::copy::{Drain as Draining, Progress, Round, Summary};
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker::{Container, Pool, Wait};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a pause looks whether it is over.
const TICK: Duration = Duration::from_millis(20);

/// A round takes at most this part of the time: pauses are so many times as long.
const PAUSES: u32 = 4;

/// Names of properties that say what a container is for, and what moves it.
const LAYOUTS: [(&str, &str); 2] = [
    ("layout_type", "`esker fs export` or `esker cont copy`"),
    ("fields_layout", "`esker fields move`"),
];

const DRAINING: &str = "\
Round by round, what is new in SRC or has changed is copied to DST as it is at one moment, read back and compared; \
what has not changed since the round that copied it is removed from SRC. Nothing goes that is not in DST: an object is \
removed by a transaction that fails where anybody has changed it. So programs may write to SRC meanwhile; what they \
write again comes to DST again, and goes again. They find gone what was drained: who reads it reads DST.

What a program removes from SRC after it was copied stays in DST. Ids of objects that were removed should not be given \
to others. Holes of arrays become zeros on pools that have none (posix:).

DST is POOL/LABEL; it is made where it is not there. Where this is stopped, also by a crash, nothing is lost: the same \
command goes on. SIGINT and SIGTERM end it after the round that is under way; a second one ends it at once. SRC must \
be on a pool with snapshots and transactions. A file system is no heap of objects, and neither are fields: \
`esker fs export` and `esker fields move` are for them.

Examples:
  esker cont drain fast/run1 --to rados:archive/run1 &          # beside the job, until it is told to end
  esker cont drain fast/run1 --to rados:archive/run1 --until-idle 0   # after the job: all of the rest";

/// Empty a container into another one while it is written
///
/// DST may be on a pool of any sort.
#[derive(Args)]
#[command(after_long_help = DRAINING)]
pub(crate) struct Drain {
    /// Container that is emptied, as POOL/CONT
    #[arg(value_name = "SRC")]
    source: String,
    /// Container that gets all of it, as POOL/LABEL
    #[arg(long, value_name = "DST")]
    to: String,
    /// Remove nothing from SRC
    #[arg(long)]
    keep: bool,
    /// Seconds between two rounds, at least
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    every: f64,
    /// End when nothing came for so many seconds and all is drained [default: end by a signal]
    #[arg(long, value_name = "SECONDS")]
    until_idle: Option<f64>,
    #[command(flatten)]
    how: How,
}

impl Drain {
    pub(super) fn run(self) -> Result<Answer> {
        let ((from_pool, from), (to_pool, label)) = (split(&self.source)?, split(&self.to)?);
        let (every, idle) = (seconds(self.every)?, self.until_idle.map(seconds).transpose()?);
        let mode = OpenMode::ReadWrite;
        let from = Pool::connect(from_pool, mode)?.open_container(from, mode).wait()?;
        refuse_layouts(&from)?;
        let to = Pool::connect(to_pool, mode)?;
        let (start, progress, options) = (Instant::now(), Progress::default(), self.how.options());
        let stop = stop_by_signal()?;
        let mut drain = Draining::begin(&from, &to, label, self.keep, &options, &progress)?;
        let summary = watched(&progress, || follow(&mut drain, every, idle, &stop))?;
        Ok(answer(&summary, start.elapsed().as_secs_f64()))
    }
}

/// Rounds until nothing comes any more, or somebody says so.
fn follow(
    drain: &mut Draining<'_>,
    every: Duration,
    until_idle: Option<Duration>,
    stop: &AtomicBool,
) -> Result<Summary> {
    let mut last = Instant::now();
    loop {
        let begin = Instant::now();
        let round: Round = drain.round()?;
        if !round.is_idle() {
            last = Instant::now();
        } else if until_idle.is_some_and(|patience| last.elapsed() >= patience) {
            return Ok(drain.summary());
        }
        let pause = every.max(begin.elapsed() * PAUSES);
        let end = Instant::now() + pause;
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(TICK.min(pause));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(drain.summary());
        }
    }
}

/// The first signal is noted, a second one does what signals do.
fn stop_by_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|cause| Error::io("preparing for signals", &cause))?;
    }
    Ok(stop)
}

fn refuse_layouts(from: &Container) -> Result<()> {
    let properties = from.properties().list().wait()?;
    let held = LAYOUTS.iter().find(|(name, _)| properties.iter().any(|held| held == name));
    let Some((_, instead)) = held else { return Ok(()) };
    let label = &from.info().label;
    let text =
        format!("container {label} holds more than objects, and cannot be drained: use {instead}");
    Err(Error::new(ErrorKind::NotSupported, text))
}

fn seconds(number: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(number)
        .map_err(|_| Error::new(ErrorKind::Invalid, format!("{number} is no number of seconds")))
}
