//! How long a claim waits for those who are about to free a segment.
use super::State;
use super::compact::MadeRoom;
use crate::target::Target;
use crate::wait::MOMENT;
use esker_types::Result;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::Ordering;

/// Rounds of waiting in which others did something, none of which helped: two seconds and more.
const ROUNDS_MAX: u32 = 2000;
/// Rounds in which nobody did anything: on a machine with much to do the kernel may keep those one waits for
/// from running.
const ROUNDS_STILL_MAX: u32 = 30_000;
/// Rounds where there is nobody to wait for: somebody may just have gone.
const ROUNDS_ALONE_MAX: u32 = 2;

/// What is left of the patience of one claim.
pub(super) struct Patience {
    /// The operation keeps segments busy itself, for which others may be waiting.
    keeping: bool,
    rounds: u32,
    rounds_still: u32,
    rounds_alone: u32,
    seen: u64,
}

impl Patience {
    pub(super) fn new(keeping: bool) -> Self {
        Self { keeping, rounds: 0, rounds_still: 0, rounds_alone: 0, seen: 0 }
    }

    /// Waits a moment; false where `need` bytes are not to be had by waiting.
    pub(super) fn wait(&mut self, target: &Target, need: u64, made: MadeRoom) -> Result<bool> {
        if !may_come(target, need)? {
            return Ok(false);
        }
        std::thread::sleep(MOMENT);
        if made == MadeRoom::None && !is_anybody_at_it(target) {
            self.rounds_alone += 1;
            return Ok(self.rounds_alone <= ROUNDS_ALONE_MAX);
        }
        self.rounds_alone = 0;
        let now = activity(target)?;
        let still = std::mem::replace(&mut self.seen, now) == now && !self.keeping;
        *(if still { &mut self.rounds_still } else { &mut self.rounds }) += 1;
        Ok(self.rounds <= ROUNDS_MAX && self.rounds_still <= ROUNDS_STILL_MAX)
    }
}

/// True where so much is not alive, wherever it is, that there would be room beside the reserve.
fn may_come(target: &Target, need: u64) -> Result<bool> {
    Ok(target.free_data_bytes()? >= need)
}

/// True where somebody writes to a segment, moves data out of it, or is about to free it, or where readers
/// still look at a dead one: there may be space in a moment. A view may last for ever.
fn is_anybody_at_it(target: &Target) -> bool {
    let words = target.words();
    (0..target.segment_count()).any(|segment| match words.segment(segment).load() {
        State::Busy(_) => true,
        State::Dead => !target.is_viewed(segment),
        _ => false,
    })
}

/// Something else whenever somebody did something to the segments, the index or as a reader.
fn activity(target: &Target) -> Result<u64> {
    let mut hasher = esker_types::StableHash.build_hasher();
    for word in target.words().segments {
        hasher.write(&word.load(Ordering::Relaxed).to_le_bytes());
    }
    hasher.write(&target.index.last_commit()?.to_le_bytes());
    hasher.write(&target.index.oldest_reader()?.to_le_bytes());
    Ok(hasher.finish())
}
