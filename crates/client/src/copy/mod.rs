//! Copies whole containers between any two backends.
//!
//! A copy keeps everything in a container as it is: objects with their ids (hence types and classes), dkeys, akeys,
//! single values, records, holes, attributes, properties, and the next number for object ids. The marks of the
//! directories of a file system are left out or added, as the destination needs them. A copy does not include the
//! container's snapshots. If the source supports snapshots, the copy is of one point in time, held by a snapshot until
//! the copy is done; otherwise each object is copied when it is reached, and the container should not be written
//! meanwhile.
//!
//! A copy in progress has the label of the destination with [`UNFINISHED`] appended; it gets its own label when it is
//! complete. Its progress is recorded in a property, after the data up to that point was copied: calling again
//! continues a copy that was stopped or killed. What is written is read back and compared.
//!
//! A [`Drain`] follows a container while it is being written, in rounds, and empties it.
//!
//! Memory is bounded: a worker uses at most two buffers of [`BUFFER_BYTES`] plus one value, and the keys of at most
//! [`STRIDE_BYTES`] of data are held at a time.
mod batch;
mod check;
mod drain;
mod drain_lock;
mod load;
mod marks;
mod progress;
mod salvage;
mod state;
mod store;
mod stride;

pub use check::survey;
pub use drain::{Drain, Round};
pub use progress::{Progress, Summary};
pub use salvage::salvage;

use crate::access::Access;
use crate::container::Container;
use crate::pool::Pool;
use esker_os::executor::Wait;
use esker_types::check_label;
use esker_types::info::OpenMode;
use esker_types::limits::LABEL_MAX;
use esker_types::{Epoch, Error, ErrorKind, Result};
use marks::Marks;
use state::{CopyPosition, CopyState};
use stride::Walk;

/// Limit of workers per copy.
pub const WORKERS_MAX: usize = 64;

/// Minimum of the default number of workers: requests to a remote store have a high latency.
pub const WORKERS_MIN: usize = 4;

/// Bytes that a worker reads before it writes them.
pub const BUFFER_BYTES: usize = 4 << 20;

/// Estimated bytes copied between two records of the progress.
pub const STRIDE_BYTES: u64 = 256 << 20;

/// The suffix of the label of an incomplete copy.
pub const UNFINISHED: &str = ".copying";

/// Options of a copy.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of threads, at most [`WORKERS_MAX`]. 0 means one per processor, but at least [`WORKERS_MIN`].
    pub workers: usize,
    /// Read back and compare what was written.
    pub verify: bool,
    /// Fill holes of arrays with zeros if the destination does not support holes; otherwise such arrays are rejected.
    pub zeros: bool,
    /// Copy this snapshot and keep it; otherwise a snapshot is taken and destroyed at the end.
    pub snapshot: Option<Epoch>,
    /// Bytes copied between two records of the progress.
    pub stride: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { workers: 0, verify: true, zeros: false, snapshot: None, stride: STRIDE_BYTES }
    }
}

impl Options {
    /// Returns the number of threads that copy: `workers`, or by default one for each core and at least
    /// [`WORKERS_MIN`].
    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        let count = if self.workers == 0 { all().max(WORKERS_MIN) } else { self.workers };
        count.clamp(1, WORKERS_MAX)
    }
}

/// Copies a container into a new one of `pool`, labelled `label`. Continues a copy that was stopped.
///
/// # Errors
/// [`ErrorKind::Exists`] if the pool already has a container with this label; [`ErrorKind::NotSupported`], before
/// anything is copied, if the pool cannot hold the source's content; [`ErrorKind::Busy`] if another process is
/// copying to it, or has taken over the copy because the pool cannot tell that this process is copying;
/// [`ErrorKind::NoPermission`] if a snapshot has to be taken and the source is open read-only;
/// [`ErrorKind::Checksum`] if data read back differs from what was written. Data copied before an error stays for the
/// next call.
pub fn copy(
    from: &Container,
    pool: &Pool,
    label: &str,
    options: &Options,
    progress: &Progress,
) -> Result<Summary> {
    check_labels(label)?;
    let (to, mut state) = state::begin(from, pool, label, options)?;
    if state.position == CopyPosition::Start {
        let held = check::can_hold(from, pool, options, state.access());
        held.or_else(|error| discard(from, pool, &to, &state, error))?;
    }
    if state.position != CopyPosition::End {
        let marks = Marks::between(from, &to)?;
        let walk = Walk { from, to: &to, options, progress, marks, access: state.access() };
        walk.run(&mut state).map_err(|error| state.explain(&to, error))?;
    }
    finish(from, &to, label, &state)?;
    Ok(Summary { epoch: state.epoch, resumed: state.resumed, ..progress.summary() })
}

/// Refuses a label that is not valid, or becomes too long with the suffix of an unfinished copy.
fn check_labels(label: &str) -> Result<()> {
    check_label(label)?;
    match label.len() + UNFINISHED.len() > LABEL_MAX {
        false => Ok(()),
        true => Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "label {label:?} is too long for a copy: until the copy is complete its label is \
                 {label}{UNFINISHED}, and labels have at most {LABEL_MAX} bytes (LABEL_MAX)"
            ),
        )),
    }
}

/// Removes the destination and the snapshot of a copy that was refused before anything was copied. Returns why it was
/// refused.
fn discard(
    from: &Container,
    pool: &Pool,
    to: &Container,
    state: &CopyState,
    refused: Error,
) -> Result<()> {
    if refused.kind() == ErrorKind::NotSupported {
        state.check_run(to)?;
        state.release_snapshot(from)?;
        to.close().wait()?;
        pool.destroy_container(&to.info().uuid.to_string(), false).wait()?;
    }
    Err(refused)
}

/// Completes a copy, all of whose objects have been copied. If it is stopped, a later call repeats these steps, until
/// the last one removes the record of the copy.
fn finish(from: &Container, to: &Container, label: &str, state: &CopyState) -> Result<()> {
    state::copy_metadata(from, to)?;
    to.sync().wait()?;
    state.check_run(to)?;
    to.rename(Some(label)).wait()?;
    state.release_snapshot(from)?;
    state::forget(to)?;
    to.close().wait()
}

/// The view of the snapshot at an epoch; of the latest state without one.
fn access(epoch: Option<Epoch>) -> Access<'static> {
    epoch.map_or(Access::Latest, Access::Snapshot)
}

/// Opens the container with exactly this label exclusively; `None` if it does not exist.
fn open_alone(pool: &Pool, label: &str) -> Result<Option<Container>> {
    match pool.open_container(label, OpenMode::Exclusive).wait() {
        Ok(container) => Ok(Some(container)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
