//! Number and lengths of the pieces that may be in flight. A receiver has a slot of registered memory ready for each.
use crate::fabric::limits::{LONG_COUNT, LONG_LEN, SHORT_COUNT, SHORT_LEN};
use esker_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The two lengths of pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Short = 0,
    Long = 1,
}

impl Size {
    pub(crate) const ALL: [Self; 2] = [Self::Short, Self::Long];
}

/// Pieces that a receiver has slots for: number and length of each size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Window {
    pub(crate) counts: [u16; 2],
    pub(crate) lens: [u32; 2],
}

impl Window {
    pub(crate) const OWN: Self =
        Self { counts: [SHORT_COUNT, LONG_COUNT], lens: [SHORT_LEN, LONG_LEN] };

    /// Checks the window of a peer.
    ///
    /// # Errors
    /// `Invalid` if it is too small for a connection, or has more pieces than any release uses.
    pub(crate) fn validate(self) -> Result<Self> {
        let counts = self.counts.iter().all(|count| (4..=4096).contains(count));
        match counts && self.lens.iter().all(|len| *len >= 1024) {
            true => Ok(self),
            false => Err(Error::new(ErrorKind::Invalid, "a window of the fabric is too small")),
        }
    }

    /// Length in bytes of each slot, in the order of [`slots`].
    pub(crate) fn slot_lens() -> Vec<usize> {
        let Self { counts, lens } = Self::OWN;
        let one = |size: Size| {
            std::iter::repeat_n(lens[size as usize] as usize, counts[size as usize] as usize)
        };
        let direction = || Size::ALL.into_iter().flat_map(one);
        direction().chain(direction()).collect()
    }
}

/// The numbers of the slots: first those that receive, then those that send; of each, first the short ones.
pub(crate) mod slots {
    use super::Size;
    use crate::fabric::limits::{LONG_COUNT, SHORT_COUNT};
    use std::ops::Range;

    const SHORT: usize = SHORT_COUNT as usize;
    const EACH: usize = SHORT + LONG_COUNT as usize;

    /// Slots that receive messages of this size.
    pub(crate) fn receiving(size: Size) -> Range<usize> {
        match size {
            Size::Short => 0..SHORT,
            Size::Long => SHORT..EACH,
        }
    }

    /// Slots that send messages of this size.
    pub(crate) fn sending(size: Size) -> Range<usize> {
        let Range { start, end } = receiving(size);
        EACH + start..EACH + end
    }

    pub(crate) fn is_receiving(slot: usize) -> bool {
        slot < EACH
    }

    /// Size of the messages in a slot.
    pub(crate) fn size(slot: usize) -> Size {
        match slot % EACH < SHORT {
            true => Size::Short,
            false => Size::Long,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_the_length_of_its_size() {
        let lens = Window::slot_lens();
        let all = Size::ALL.into_iter().flat_map(|size| {
            slots::receiving(size).chain(slots::sending(size)).map(move |slot| (slot, size))
        });
        let mut count = 0;
        for (slot, size) in all {
            assert_eq!(lens[slot], Window::OWN.lens[size as usize] as usize);
            assert_eq!(slots::size(slot), size);
            count += 1;
        }
        assert_eq!(count, lens.len());
    }
}
