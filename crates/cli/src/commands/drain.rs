//! `esker cont drain`: moving a container while it is written.
use super::copy::{CopyArgs, answer, with_progress};
use crate::args::parse_duration;
use crate::open::split;
use crate::output::Answer;
use crate::signals;
use clap::Args;
use esker::copy::{Drain as Draining, Progress, Round, Summary};
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker::{Container, FIELDS_LAYOUT, FILES_LAYOUT, LAYOUTS, Pool, TENSORS_LAYOUT, Wait};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a pause checks whether it is over.
const TICK: Duration = Duration::from_millis(20);

/// The pause after a round is at least this many times as long as the round, so that a drain is idle most of the time.
const PAUSES: u32 = 4;

/// Properties that mark what a container holds, each with the command that moves it.
const MOVED_BY: [(&str, &str); LAYOUTS.len()] = [
    (FILES_LAYOUT, "`esker fs export` or `esker cont copy`"),
    (FIELDS_LAYOUT, "`esker fields move`"),
    (TENSORS_LAYOUT, "`esker cont copy`"),
];

const DRAINING: &str = "\
A drain works in rounds. Each round copies to DST what is new or changed in SRC as of one moment, reads it back and \
compares it. Objects that have not changed since the round that copied them are then removed from SRC. Nothing is \
removed that is not in DST: a transaction removes each object, and fails if the object was changed meanwhile. \
Programs may therefore keep writing to SRC; what they write again is drained again. Drained objects are no longer \
found in SRC: read them from DST.

An object that a program removes from SRC after it was copied stays in DST. Do not reuse the IDs of removed \
objects. Holes of arrays become zeros on pools that do not support holes (posix:).

DST is POOL/LABEL, and is created if it does not exist. If a drain is interrupted, even by a crash, nothing is lost, and \
the same command resumes it. SIGINT, SIGTERM and SIGHUP end the drain after the current round; a second signal ends it \
immediately. Signals that are ignored when it starts, as with nohup, stay ignored. A container has one drain at a time: \
wait until the first has ended before you start the next. SRC must be on a pool with snapshots and transactions. \
Containers that hold a file system, fields or tensors are refused: use `esker fs export`, `esker fields move` and `esker cont copy` for them.

Examples:
  esker cont drain fast/run1 --to rados:archive/run1 &                # beside the job
  kill $!; wait $!                                                    # the job has ended
  esker cont drain fast/run1 --to rados:archive/run1 --until-idle 0   # the rest";

/// Move the objects of a container to another one while programs write to it
///
/// DST may be on a pool of any kind.
#[derive(Args)]
#[command(after_long_help = DRAINING)]
pub(crate) struct Drain {
    /// Container to drain, as POOL/CONT
    #[arg(value_name = "SRC")]
    source: String,
    /// Container to drain to, as POOL/LABEL
    #[arg(long, value_name = "DST")]
    to: String,
    /// Keep all objects in SRC
    #[arg(long)]
    keep: bool,
    /// Minimum time between two rounds, unless --until-idle is shorter: 2 (seconds), 500ms, 1m
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    every: Duration,
    /// End when everything is drained and nothing new has come for this time; 0 drains what is there [default: until a
    /// signal]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    until_idle: Option<Duration>,
    #[command(flatten)]
    how: CopyArgs,
}

impl Drain {
    pub(super) fn run(self) -> Result<Answer> {
        let ((from_pool, from), (to_pool, label)) = (split(&self.source)?, split(&self.to)?);
        let mode = OpenMode::ReadWrite;
        let from = Pool::connect(&from_pool, mode)?.open_container(from, mode).wait()?;
        refuse_layouts(&from)?;
        let to = Pool::connect(&to_pool, mode)?;
        let (start, progress, options) = (Instant::now(), Progress::default(), self.how.options());
        let stop = Arc::default();
        signals::listen(&stop)?;
        let mut drain = Draining::begin(&from, &to, label, self.keep, &options, &progress)?;
        let summary =
            with_progress(&progress, || follow(&mut drain, self.every, self.until_idle, &stop))?;
        Ok(answer(&summary, start.elapsed().as_secs_f64()))
    }
}

/// Runs rounds until the source stays idle for `until_idle`, or `stop` is set.
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
        } else if until_idle.is_some_and(|limit| last.elapsed() >= limit) {
            return Ok(drain.summary());
        }
        let pause = pause(every, begin.elapsed(), until_idle);
        let end = Instant::now() + pause;
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(TICK.min(pause));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(drain.summary());
        }
    }
}

/// The time until the next round. It is never longer than the time after which the drain may end: without new data,
/// waiting any longer would only delay the end.
fn pause(every: Duration, round: Duration, until_idle: Option<Duration>) -> Duration {
    every.max(round * PAUSES).min(until_idle.unwrap_or(Duration::MAX))
}

/// Refuses a container with a layout for which another command must be used.
fn refuse_layouts(from: &Container) -> Result<()> {
    let properties = from.properties().list().wait()?;
    let held = MOVED_BY.iter().find(|(name, _)| properties.iter().any(|held| held == name));
    let Some((_, instead)) = held else { return Ok(()) };
    let label = &from.info().label;
    let text = format!(
        "container {label} does not hold plain objects and cannot be drained: use {instead}"
    );
    Err(Error::new(ErrorKind::NotSupported, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_moved_by_commands_of_their_own() {
        assert_eq!(MOVED_BY.map(|(property, _)| property), LAYOUTS);
    }

    #[test]
    fn a_pause_is_no_longer_than_the_end_may_wait() {
        let [zero, short, long] = [0, 1, 100].map(Duration::from_secs);
        assert_eq!(pause(short, zero, None), short);
        assert_eq!(pause(short, long, None), long * PAUSES);
        assert_eq!(pause(short, long, Some(zero)), zero);
        assert_eq!(pause(long, zero, Some(short)), short);
    }
}
