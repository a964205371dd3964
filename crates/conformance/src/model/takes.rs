//! Random removals of dkeys that return the content.
use super::space::{Space, akeys, dkey};
use esker_backend::OpenContainer;
use esker_testing::Random;
use esker_types::ops::{
    Cond, DkeyFetch, Fetch, ReadAt, ReadTokens, Sink, Take, Taken, TakenWithArray,
};
use esker_types::{ErrorKind, Extent, ObjectId};

/// Most bytes of the array that are read, and most expected ones.
const BYTES: u64 = 60;

/// A removal for both sides, and an array that is removed with the dkey.
#[derive(Debug)]
pub(super) struct Removing {
    oid: ObjectId,
    dkey: Vec<u8>,
    /// The akey of the bytes that the removal checks and returns.
    akey: Vec<u8>,
    extent: Extent,
    /// The removal happens only if the bytes at this position in the extent are the expected ones.
    at: u64,
    expected: Vec<u8>,
    /// The array that may be removed with the dkey.
    pub(super) array: ObjectId,
}

/// The content of a removed dkey, in a comparable form; `None` if nothing was removed.
pub(super) type Content = Result<Option<Taken>, ErrorKind>;

impl Removing {
    /// A random removal. It expects bytes that `side` has stored; in one of four cases, one more byte follows them.
    pub(super) fn random(random: &mut Random, space: &Space, side: &dyn OpenContainer) -> Self {
        let oid = space.oid(random);
        let (dkey, akey) = (dkey(random, oid), akeys(random, oid).swap_remove(0));
        let extent = Extent::new(random.below(BYTES), 1 + random.below(BYTES));
        let (at, array) = (random.below(extent.count + 2), space.oid(random));
        let mut removing = Self { oid, dkey, akey, extent, at, expected: Vec::new(), array };
        let stored = removing.stored(side);
        let stored = stored.get(at as usize..).unwrap_or_default();
        removing.expected = stored[..random.below(stored.len() as u64 + 1) as usize].to_vec();
        if random.one_in(4) {
            removing.expected.push(7);
        }
        removing
    }

    /// The bytes of the array on one side, with zeros for holes.
    fn stored(&self, side: &dyn OpenContainer) -> Vec<u8> {
        let (mut bytes, extents) = (vec![0; self.extent.count as usize], [self.extent]);
        let mut array = [Fetch::array(&self.akey, 1, &extents, Sink::One(&mut bytes))];
        let dkey = DkeyFetch { dkey: &self.dkey, cond: Cond::NONE, akeys: &mut array };
        // An akey of another kind has none.
        let _ = side.fetch(self.oid, &mut [dkey], ReadAt::LATEST).wait();
        bytes
    }

    fn take(&self) -> Take<'_> {
        let Self { oid, dkey, akey, extent, at, expected, .. } = self;
        Take { oid: *oid, dkey, akey, extent: *extent, at: *at, expected }
    }

    /// Removes the dkey on one side. Returns the removed content, sorted, or the kind of the error.
    pub(super) fn remove(&self, side: &dyn OpenContainer) -> Content {
        side.take(self.take()).wait().map(|taken| taken.map(sorted)).map_err(|error| error.kind())
    }

    /// Removes the dkey and the array on one side. With `reads`, the removal depends on these reads being current.
    pub(super) fn remove_with_array(
        &self,
        side: &dyn OpenContainer,
        reads: Option<&ReadTokens>,
    ) -> Result<Option<TakenWithArray>, ErrorKind> {
        let taken = side.take_with_array(self.take(), self.array, reads).wait();
        let sort =
            |TakenWithArray { taken, removal }| TakenWithArray { taken: sorted(taken), removal };
        taken.map(|taken| taken.map(sort)).map_err(|error| error.kind())
    }
}

/// The content with its akeys in order, because backends return them in any order.
fn sorted(mut taken: Taken) -> Taken {
    taken.others.sort();
    taken
}
