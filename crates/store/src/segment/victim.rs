//! Which segment is compacted next, and whether that gains anything.
use super::compact::{Headers, pieces};
use super::{State, collect, header};
use crate::target::Target;
use esker_types::Result;
use std::sync::atomic::Ordering;

/// A segment whose live data could be moved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victim {
    pub(super) number: u32,
    pub(super) state: State,
    /// Bytes of data in it that are alive.
    pub(super) live: u64,
    /// Bytes of data in it that are dead.
    dead: u64,
    /// Bytes its live data takes there with headers, as far as counts tell.
    footprint: u64,
}

impl Target {
    /// The segment that is the least work to free, among those where something would be gained and that were
    /// not `tried`; `None` where all of them together do not give `need` bytes.
    pub(super) fn victim(&self, tried: &[u32], need: u64) -> Result<Option<Victim>> {
        let mut found = self.victims(tried)?;
        let gain = |victim: &Victim| self.segment_bytes().saturating_sub(victim.live);
        let is_hopeless = found.iter().map(gain).sum::<u64>() + self.open_room() < need;
        // Without the reserve, to win it back comes before all else.
        if is_hopeless && self.table().has_reserve() {
            return Ok(None);
        }
        // What was moved is moved again where nothing else is left.
        let destination = self.lanes.compacts_into();
        found.sort_unstable_by_key(|victim| {
            let is_destination = destination == Some(victim.number);
            (is_destination, victim.dead == 0, victim.footprint, victim.number)
        });
        // Nothing would be gained by one that a view keeps.
        Ok(found.into_iter().find(|victim| !self.is_viewed(victim.number)))
    }

    fn victims(&self, tried: &[u32]) -> Result<Vec<Victim>> {
        let dead = collect::all_dead(&*self.read()?)?;
        let candidates = (0..self.segment_count())
            .filter(|number| !tried.contains(number))
            .filter_map(|number| self.as_victim(number, dead.get(&number).copied().unwrap_or(0)));
        Ok(candidates.collect())
    }

    /// One in which nothing has died is moved only to join it with others that are half empty.
    fn as_victim(&self, number: u32, dead: u64) -> Option<Victim> {
        let words = self.words();
        let segment = words.segment(number);
        let state = segment.load();
        let live = segment.live(dead);
        let tail = segment.tail.load(Ordering::Acquire);
        let footprint =
            (u128::from(tail) * u128::from(live) / u128::from((live + dead).max(1))) as u64;
        let may_gain = dead > 0 || footprint * 2 <= self.segment_bytes();
        let is_left = matches!(state, State::Sealed | State::Open(_));
        (is_left && tail > 0 && may_gain).then_some(Victim { number, state, live, dead, footprint })
    }

    /// Bytes each piece of a segment takes when it is moved: what was overwritten in part falls apart into
    /// pieces with a header each.
    pub(super) fn weigh(&self, segment: u32) -> Result<Vec<u64>> {
        let mut footprints = Vec::new();
        for header in Headers::of(self, segment) {
            let (header, data_at) = header?;
            for piece in pieces(&*self.read()?, &header, segment, data_at)? {
                let (key, bytes) = (piece.sealed_key()?.len(), piece.record()?.bytes());
                footprints.push(header::footprint(key, bytes));
            }
        }
        Ok(footprints)
    }

    /// True where pieces find room elsewhere, and more becomes free than they take. Without the reserve they
    /// must fit one segment: half of them here and there would leave no room for the other half.
    pub(super) fn is_worth(&self, victim: &Victim, footprints: &[u64]) -> bool {
        let sum: u64 = footprints.iter().sum();
        let mut rooms = self.rooms();
        match victim.dead {
            _ if !self.table().has_reserve() => rooms.iter().any(|&room| room >= sum),
            0 => fits(footprints, &mut rooms),
            _ => sum < self.segment_bytes(),
        }
    }

    fn open_room(&self) -> u64 {
        self.rooms().iter().sum()
    }

    /// Bytes of room in each segment that is open.
    fn rooms(&self) -> Vec<u64> {
        let words = self.words();
        let room = |number: u32| {
            let segment = words.segment(number);
            let is_open = matches!(segment.load(), State::Open(_));
            is_open.then(|| self.segment_bytes() - segment.tail.load(Ordering::Acquire))
        };
        (0..self.segment_count()).filter_map(room).collect()
    }
}

/// True where all of `footprints` find room, each in the first that has some.
fn fits(footprints: &[u64], rooms: &mut [u64]) -> bool {
    footprints.iter().all(|&footprint| {
        let room = rooms.iter_mut().find(|room| **room >= footprint);
        room.map(|room| *room -= footprint).is_some()
    })
}
