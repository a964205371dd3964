//! Room in the index. Pages that a commit replaced are reused once no reader can look at them any more:
//! one that was killed, or that the kernel keeps waiting, holds back all that was replaced since.
use crate::target::Target;
use esker_types::{ErrorKind, Result};

/// Times something is tried again that found no room.
const RETRIES: u32 = 6;

/// Runs `work` on targets, and again where it found no room because readers of the past stood in the way.
pub(super) fn with_room<T>(targets: &[&Target], mut work: impl FnMut() -> Result<T>) -> Result<T> {
    for retry in 0..RETRIES {
        match work() {
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                let mut moved = false;
                for target in targets {
                    moved |= target.index.outwait_readers()?;
                }
                // Whoever was in the way may just have gone: the first time counts as waited.
                if !moved && retry > 0 {
                    return Err(error);
                }
            }
            result => return result,
        }
    }
    work()
}

impl Target {
    /// Runs `work`, and again where it found no room because readers of the past stood in the way.
    pub(crate) fn with_room<T>(&self, work: impl FnMut() -> Result<T>) -> Result<T> {
        with_room(&[self], work)
    }
}
