//! Pieces that arrive: their order, and the slots that may receive again.
use crate::fabric::piece::{Kind, invalid_piece_error};
use crate::fabric::setup::Identity;
use crate::fabric::window::{Size, Window, slots};
use esker_types::Result;
use std::collections::{HashMap, VecDeque};

/// The stream from the peer.
pub(crate) struct Incoming {
    /// Tag and key of the pieces for this side.
    pub(crate) own: Identity,
    /// Number of the piece that comes next.
    pub(crate) expected: u32,
    /// Pieces that were not read yet, by number.
    pub(crate) arrived: HashMap<u32, Arrived>,
    /// Slots that are to receive again.
    pub(crate) idle: VecDeque<usize>,
    /// Slots that receive again, but whose credits the peer does not have yet.
    pub(crate) owed: [u16; 2],
    /// All pieces so far.
    pub(crate) count: u64,
    /// The stream has ended, and everything was read.
    pub(crate) ended: bool,
    /// The reader was dropped.
    pub(crate) ignored: bool,
}

/// A piece that has arrived: the range of its data in its slot.
pub(crate) struct Arrived {
    pub(crate) kind: Kind,
    pub(crate) slot: usize,
    pub(crate) begin: usize,
    pub(crate) end: usize,
}

impl Incoming {
    /// The state before the first piece. `own` are the tag and key that pieces to this side have.
    pub(crate) fn new(own: Identity) -> Self {
        Self {
            own,
            expected: 0,
            arrived: HashMap::new(),
            idle: Size::ALL.into_iter().flat_map(slots::receiving).collect(),
            owed: [0; 2],
            count: 0,
            ended: false,
            ignored: false,
        }
    }

    /// Keeps a piece until those before it are read.
    ///
    /// # Errors
    /// `Corrupt` if its number is outside the window or was used already.
    pub(crate) fn add(&mut self, number: u32, arrived: Arrived) -> Result<()> {
        let most: u16 = Window::OWN.counts.iter().sum();
        let ahead = number.wrapping_sub(self.expected);
        if ahead >= u32::from(most) || self.arrived.insert(number, arrived).is_some() {
            return Err(invalid_piece_error("its number is out of order"));
        }
        Ok(())
    }

    /// Frees the slot of the first piece to receive again.
    pub(crate) fn finish_first(&mut self) {
        if let Some(piece) = self.arrived.remove(&self.expected) {
            self.idle.push_back(piece.slot);
            self.expected = self.expected.wrapping_add(1);
        }
    }
}
