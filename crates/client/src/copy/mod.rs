//! Copies of whole containers, between any two backends.
//!
//! Everything of a container is copied as it is: objects with their ids (and so their types and classes), dkeys,
//! akeys, single values, records, holes, attributes, properties, and the next number for object ids. Its
//! snapshots are not. Where the source has snapshots the copy is of one moment, which a snapshot holds until
//! the copy is done; else each object is copied as it is met, and nobody should write meanwhile.
//!
//! The copy is made under another label ([`UNFINISHED`] is added) and gets its own when it is whole. Where it
//! stands is noted in a property of it, after what was copied up to there: the same call goes on where one
//! was stopped or killed. What is written is read back and compared.
//!
//! A [`Drain`] follows a container that is being written, round by round, and empties it.
//!
//! Memory is bounded: a worker has at most two buffers of [`BUFFER_BYTES`] and one value more, and the keys of
//! [`STRIDE_BYTES`] are known at a time.
mod batch;
mod check;
mod drain;
mod load;
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
use state::{Position, State};
use stride::Walk;

/// Most workers of one copy.
pub const WORKERS_MAX: usize = 64;

/// Workers where nobody says how many: at least so many, for a store that is far away answers late.
pub const WORKERS_MIN: usize = 4;

/// Bytes that a worker reads before it writes them.
pub const BUFFER_BYTES: usize = 4 << 20;

/// Bytes between two notes of where a copy stands, as far as they can be known beforehand.
pub const STRIDE_BYTES: u64 = 256 << 20;

/// What the label of a copy ends with that is not whole.
pub const UNFINISHED: &str = ".copying";

/// How a container is copied.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that copy, at most [`WORKERS_MAX`]; 0 for one for each processor, but [`WORKERS_MIN`].
    pub workers: usize,
    /// Read back what was written, and compare.
    pub verify: bool,
    /// Put zeros into the holes of arrays where the target has none; else such arrays are refused.
    pub zeros: bool,
    /// Copy this snapshot, which stays; else one is made and dropped in the end.
    pub snapshot: Option<Epoch>,
    /// Bytes between two notes of where the copy stands.
    pub stride: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { workers: 0, verify: true, zeros: false, snapshot: None, stride: STRIDE_BYTES }
    }
}

impl Options {
    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        let count = if self.workers == 0 { all().max(WORKERS_MIN) } else { self.workers };
        count.clamp(1, WORKERS_MAX)
    }
}

/// Copies a container into a new one of `pool`, labelled `label`; goes on with one that was stopped.
///
/// # Errors
/// [`ErrorKind::Exists`] where there is such a container already; [`ErrorKind::NotSupported`], before anything
/// is copied, where the pool cannot hold what is in the source; [`ErrorKind::Busy`] where somebody else is
/// copying to it; [`ErrorKind::NoPermission`] where a snapshot has to be made and the source is open for
/// reading only; [`ErrorKind::Checksum`] where something else was read back than was written. What was copied
/// until then stays, for the next call.
pub fn copy(
    from: &Container,
    pool: &Pool,
    label: &str,
    options: &Options,
    progress: &Progress,
) -> Result<Summary> {
    check_labels(label)?;
    check::can_hold(from, pool, options)?;
    let (to, mut state) = state::begin(from, pool, label, options)?;
    if state.position != Position::End {
        let walk = Walk { from, to: &to, options, progress, access: state.access() };
        walk.run(&mut state)?;
    }
    finish(from, &to, label, &state)?;
    Ok(Summary { epoch: state.epoch, resumed: state.resumed, ..progress.summary() })
}

fn check_labels(label: &str) -> Result<()> {
    check_label(label)?;
    match label.len() + UNFINISHED.len() > LABEL_MAX {
        false => Ok(()),
        true => Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "label {label:?} is too long for a copy: it is called {label}{UNFINISHED} while it is \
                 made, which may have {LABEL_MAX} bytes (LABEL_MAX)"
            ),
        )),
    }
}

/// Each step can be done again where the next one was not reached.
fn finish(from: &Container, to: &Container, label: &str, state: &State) -> Result<()> {
    state::copy_metadata(from, to)?;
    state::copy_next_oid(from, to)?;
    to.rename(Some(label)).wait()?;
    if let (true, Some(epoch)) = (state.owns_snapshot, state.epoch) {
        match from.destroy_snapshot(epoch).wait() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            destroyed => destroyed?,
        }
    }
    state::forget(to)?;
    to.close().wait()
}

/// The view of a snapshot, else the latest state.
fn access(epoch: Option<Epoch>) -> Access<'static> {
    epoch.map_or(Access::Latest, Access::Snapshot)
}

/// Opens the container of this label alone, if there is one.
fn open_alone(pool: &Pool, label: &str) -> Result<Option<Container>> {
    match pool.open_container(label, OpenMode::Exclusive).wait() {
        Ok(container) => Ok(Some(container)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
