//! Room in the index. Pages that a commit replaced are reused once no reader can look at them any more:
//! one that was killed, or that the kernel keeps waiting, holds back all that was replaced since.
use super::change::{is_full, is_tight};
use crate::target::Target;
use esker_types::{ErrorKind, Result};

/// Times something is tried again that found no room. Each time the index grows by twice as much.
const RETRIES: u32 = 12;

/// Runs `work`, and again where it found no room: as long as `help` says that it found some, and once more
/// in any case, for whoever was in the way may just have gone.
fn retry<T>(
    targets: &[&Target],
    help: impl Fn(&Target, u32) -> Result<bool>,
    mut work: impl FnMut() -> Result<T>,
) -> Result<T> {
    for retry in 0..RETRIES {
        match work() {
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                let mut moved = retry == 0;
                for target in targets {
                    moved |= help(target, retry)?;
                }
                if !moved {
                    return Err(error);
                }
            }
            result => return result,
        }
    }
    work()
}

/// Runs `work`, which changes the indexes of targets.
pub(super) fn with_room<T>(targets: &[&Target], work: impl FnMut() -> Result<T>) -> Result<T> {
    let help = |target: &Target, retry: u32| {
        let returned = target.return_pages()?;
        if (retry > 0 || is_tight(target)?) && target.grow_index(2 << retry, true)? {
            return Ok(true);
        }
        let waited = !is_full(target)? && target.index.outwait_readers()?;
        Ok(returned || waited)
    };
    retry(targets, help, work)
}

impl Target {
    /// Runs `work`, which changes the index.
    pub(crate) fn with_room<T>(&self, work: impl FnMut() -> Result<T>) -> Result<T> {
        with_room(&[self], work)
    }

    /// Runs `work`, which writes to segments; once more where it found no room, for what it had filled
    /// itself is free to be compacted by then.
    pub(super) fn with_segments<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        match work() {
            Err(error) if error.kind() == ErrorKind::NoSpace => work(),
            result => result,
        }
    }
}
