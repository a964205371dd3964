//! Pieces that are sent: the credits for them, and their slots.
use crate::fabric::piece::{HEADER_LEN, Kind};
use crate::fabric::setup::Identity;
use crate::fabric::window::{Size, Window, slots};
use std::collections::VecDeque;

/// The stream to the peer.
pub(crate) struct Outgoing {
    /// Tag and key of the pieces for the peer.
    pub(crate) peer: Identity,
    /// Number and lengths of the pieces that the peer can receive.
    pub(crate) window: Window,
    /// Pieces that may be sent now.
    pub(crate) credits: [u16; 2],
    /// Slots that are not in use.
    pub(crate) free: [Vec<usize>; 2],
    /// Number of the next piece.
    pub(crate) number: u32,
    /// Pieces that the provider has not accepted yet: slot and length.
    pub(crate) queue: VecDeque<(usize, usize)>,
    /// Pieces that the provider has accepted since the last call of `take_sent`.
    pub(crate) taken: u64,
    /// The writer was dropped or shut down.
    pub(crate) closing: bool,
    /// The end of the stream was queued for the peer.
    pub(crate) closed: bool,
}

impl Outgoing {
    /// The state before the first piece. There are no credits until the peer has told its window.
    pub(crate) fn new() -> Self {
        Self {
            peer: Identity::default(),
            window: Window::OWN,
            credits: [0; 2],
            free: Size::ALL.map(|size| slots::sending(size).collect()),
            number: 0,
            queue: VecDeque::new(),
            taken: 0,
            closing: false,
            closed: false,
        }
    }

    /// Allocates a slot to send from, if the peer has more than `reserve` slots ready.
    pub(crate) fn take(&mut self, size: Size, reserve: u16) -> Option<usize> {
        let credits = &mut self.credits[size as usize];
        if *credits <= reserve {
            return None;
        }
        let slot = self.free[size as usize].pop()?;
        *credits -= 1;
        Some(slot)
    }

    /// Most bytes of data in a piece of this size: a slot of either side may be the shorter one.
    pub(crate) fn room(&self, size: Size) -> usize {
        let len = self.window.lens[size as usize].min(Window::OWN.lens[size as usize]);
        len as usize - HEADER_LEN
    }

    /// The number of the next piece. Credits are not part of the stream, so they do not use up a number.
    pub(crate) fn next_number(&mut self, kind: Kind) -> u32 {
        if kind == Kind::Credit {
            return 0;
        }
        let number = self.number;
        self.number = number.wrapping_add(1);
        number
    }
}
