//! The index of a database: the names of its fields, in one or more stripes.
//!
//! A stripe is an object on one target. The first pair of a datum determines its stripe. So the fields of a step are in
//! one stripe, and a flush of them is one commit of one target.
use super::layout::{self, Version};
use super::{BATCH, damaged_catalogue_error, read_many};
use crate::limits::INDEX_STRIPES_MAX;
use esker::{Access, Container, Object, Wait, side_by_side, task};
use esker_types::ops::{Anchor, Cond, ListLimit, Update};
use esker_types::{ObjectId, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// Ids among which those of the stripes are chosen, for each stripe.
const CANDIDATES: u64 = 8;

/// The names of all fields of a database, in one or more objects. Clones are cheap.
#[derive(Clone)]
pub(super) struct DatabaseIndex {
    stripes: Arc<[Object]>,
    /// One bit for each stripe that listings omit.
    omitted: u64,
}

/// Ids for the stripes of a new index, on as many nodes as possible. Their copies in another pool may be on fewer.
pub(super) fn new_stripes(
    container: &Container,
    version: Version,
    stripes: u32,
) -> Result<Vec<ObjectId>> {
    let candidates = if stripes == 1 { 1 } else { u64::from(stripes) * CANDIDATES };
    let first = container.allocate_oids(candidates).wait()?;
    let oids = (first..first + candidates).map(|number| version.index_oid(container, number));
    let mut oids = oids.collect::<Result<Vec<_>>>()?;
    // An id determines its node. Each stripe gets a candidate on the node that has the fewest stripes so far.
    let mut used: BTreeMap<u32, u32> = BTreeMap::new();
    let mut chosen = Vec::new();
    while chosen.len() < stripes as usize {
        let node = |oid: &ObjectId| container.node_of(*oid, layout::FLUSHES);
        let uses = |oid: &ObjectId| used.get(&node(oid)).copied().unwrap_or(0);
        let Some(best) = (0..oids.len()).min_by_key(|number| uses(&oids[*number])) else { break };
        let oid = oids.remove(best);
        *used.entry(node(&oid)).or_default() += 1;
        chosen.push(oid);
    }
    Ok(chosen)
}

/// The value of the catalogue for an index.
pub(super) fn encode(stripes: &[ObjectId]) -> Vec<u8> {
    stripes.iter().flat_map(|oid| oid.to_bytes()).collect()
}

impl DatabaseIndex {
    /// Parses the value of the catalogue.
    ///
    /// # Errors
    /// [`esker_types::ErrorKind::Corrupt`].
    pub(super) fn decode(container: &Container, value: &[u8]) -> Result<Self> {
        let (oids, rest) = value.as_chunks();
        if !rest.is_empty() || !(1..=INDEX_STRIPES_MAX as usize).contains(&oids.len()) {
            return Err(damaged_catalogue_error());
        }
        let stripes = oids.iter().map(|oid| container.object(ObjectId::from_bytes(*oid)));
        Ok(Self { stripes: stripes.collect(), omitted: 0 })
    }

    /// Each stripe that is not omitted, with its number.
    pub(super) fn stripes(&self) -> impl Iterator<Item = (u8, &Object)> {
        let (numbered, omitted) = ((0u8..).zip(self.stripes.iter()), self.omitted);
        numbered.filter(move |(number, _)| omitted & (1u64 << *number) == 0)
    }

    /// Number of stripes.
    pub(super) fn count(&self) -> usize {
        self.stripes.len()
    }

    /// Makes listings of this index omit a stripe.
    pub(super) fn without(mut self, stripe: u8) -> Self {
        self.omitted |= 1u64 << stripe;
        self
    }

    /// The stripe with a number.
    pub(super) fn stripe(&self, number: u8) -> Result<&Object> {
        self.stripes.get(usize::from(number)).ok_or_else(damaged_catalogue_error)
    }

    /// Number of the stripe that stores a datum. Its masked fields are on the same stripe: only the first pair of the
    /// datum counts.
    pub(super) fn stripe_of(&self, akey: &[u8]) -> u8 {
        match self.stripes.len() {
            1 => 0,
            stripes => stripe_of(akey, stripes),
        }
    }

    /// The stripe of an akey, as an object.
    pub(super) fn object_of(&self, akey: &[u8]) -> &Object {
        &self.stripes[usize::from(self.stripe_of(akey))]
    }

    /// The encoded location of the field with this datum; `None` if there is none.
    pub(super) fn fetch(
        &self,
        dkey: &[u8],
        datum: &str,
        access: Access<'_>,
    ) -> Result<Option<Vec<u8>>> {
        let akey = datum.as_bytes();
        let found = read_many(self.object_of(akey), dkey, &[akey], access).wait()?.pop();
        Ok(found.flatten())
    }

    /// Positions of the akeys in their list, by the stripe that stores them.
    fn by_stripe<'k>(&self, akeys: impl Iterator<Item = &'k [u8]>) -> BTreeMap<u8, Vec<usize>> {
        let mut positions: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        for (position, akey) in akeys.enumerate() {
            positions.entry(self.stripe_of(akey)).or_default().push(position);
        }
        positions
    }

    /// Short values of many akeys of a dkey. The values of one stripe are from one consistent read.
    pub(super) fn fetch_many(
        &self,
        dkey: &[u8],
        akeys: &[&[u8]],
        access: Access<'_>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        if let [only] = &*self.stripes {
            return read_many(only, dkey, akeys, access).wait();
        }
        let positions = self.by_stripe(akeys.iter().copied());
        let tasks = positions.iter().map(|(stripe, positions)| {
            let akeys: Vec<&[u8]> = positions.iter().map(|position| akeys[*position]).collect();
            let object = &self.stripes[usize::from(*stripe)];
            task(async move { read_many(object, dkey, &akeys, access).await })
        });
        let read = side_by_side(tasks.collect(), INDEX_STRIPES_MAX as usize).wait();
        let mut values = vec![None; akeys.len()];
        for (positions, read) in positions.values().zip(read) {
            for (position, value) in positions.iter().zip(read?) {
                values[*position] = value;
            }
        }
        Ok(values)
    }

    /// Writes akeys of a dkey, each in its stripe.
    pub(super) fn update(
        &self,
        dkey: &[u8],
        updates: &[Update<'_>],
        access: Access<'_>,
    ) -> Result<()> {
        let positions = self.by_stripe(updates.iter().map(|update| update.akey));
        positions.iter().try_for_each(|(stripe, positions)| {
            let updates: Vec<_> = positions.iter().map(|position| updates[*position]).collect();
            self.stripe(*stripe)?.update(dkey, Cond::NONE, &updates, access).wait()
        })
    }

    /// Removes akeys of a dkey.
    pub(super) fn punch(&self, dkey: &[u8], akeys: &[&[u8]], access: Access<'_>) -> Result<()> {
        let positions = self.by_stripe(akeys.iter().copied());
        positions.iter().try_for_each(|(stripe, positions)| {
            let akeys: Vec<&[u8]> = positions.iter().map(|position| akeys[*position]).collect();
            self.stripe(*stripe)?.punch_akeys(dkey, &akeys, Cond::NONE, access).wait()
        })
    }

    /// All dkeys, sorted. All stripes are listed side by side.
    pub(super) fn dkeys(&self) -> Result<BTreeSet<Vec<u8>>> {
        let tasks = self.stripes().map(|(_, object)| task(list_dkeys(object)));
        let listed = side_by_side(tasks.collect(), INDEX_STRIPES_MAX as usize).wait();
        let listed = listed.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(listed.into_iter().flatten().collect())
    }

    /// Calls `visit` with all akeys of a dkey, in sorted batches. All stripes are listed side by side.
    pub(super) fn each_akey(
        &self,
        dkey: &[u8],
        mut visit: impl FnMut(&[&[u8]]) -> Result<()>,
    ) -> Result<()> {
        if let [only] = &*self.stripes {
            return super::each_akey(only, dkey, |batch| {
                visit(&batch.iter().collect::<Vec<&[u8]>>())
            });
        }
        let mut lists: Vec<List<'_>> =
            self.stripes().map(|(_, object)| List::new(object)).collect();
        while lists.iter().any(List::has_more) {
            let tasks = lists.iter_mut().map(|list| task(list.fill(dkey)));
            let filled = side_by_side(tasks.collect(), INDEX_STRIPES_MAX as usize).wait();
            filled.into_iter().collect::<Result<()>>()?;
            // Stripes that were not listed to their end may have more keys after their last one.
            let open = lists.iter().filter(|list| !list.anchor.is_end());
            let last = open.filter_map(|list| list.keys.iter().max()).min().cloned();
            let mut keys: Vec<Vec<u8>> =
                lists.iter_mut().flat_map(|list| list.take(last.as_deref())).collect();
            keys.sort_unstable();
            visit(&keys.iter().map(Vec::as_slice).collect::<Vec<&[u8]>>())?;
        }
        Ok(())
    }
}

/// Number of the stripe that stores an akey: a hash of its first pair, which ends at a comma or zero byte. The function
/// is part of the format.
fn stripe_of(akey: &[u8], stripes: usize) -> u8 {
    let first = akey.split(|byte| matches!(byte, b',' | 0)).next().unwrap_or_default();
    let hash = u128::from(XxHash3_64::oneshot(first));
    ((hash * stripes as u128) >> 64) as u8
}

/// All dkeys of `object`.
async fn list_dkeys(object: &Object) -> Result<Vec<Vec<u8>>> {
    let (mut anchor, mut found) = (Anchor::Start, Vec::new());
    while !anchor.is_end() {
        let limit = ListLimit::entries(BATCH);
        let batch = object.list_dkeys(&mut anchor, limit, Access::Latest).await?;
        found.extend(batch.iter().map(<[u8]>::to_vec));
    }
    Ok(found)
}

/// A listing of the akeys of one stripe.
struct List<'i> {
    object: &'i Object,
    anchor: Anchor,
    /// Keys that were listed and not visited yet.
    keys: Vec<Vec<u8>>,
}

impl<'i> List<'i> {
    /// A listing that has not begun.
    fn new(object: &'i Object) -> Self {
        Self { object, anchor: Anchor::Start, keys: Vec::new() }
    }

    /// True if keys are left to visit or to list.
    fn has_more(&self) -> bool {
        !self.anchor.is_end() || !self.keys.is_empty()
    }

    /// Lists the next keys if all earlier ones were visited.
    async fn fill(&mut self, dkey: &[u8]) -> Result<()> {
        while self.keys.is_empty() && !self.anchor.is_end() {
            let limit = ListLimit::entries(BATCH);
            let batch =
                self.object.list_akeys(dkey, &mut self.anchor, limit, Access::Latest).await?;
            self.keys = batch.iter().map(<[u8]>::to_vec).collect();
        }
        Ok(())
    }

    /// Takes the keys up to `last`, or all.
    fn take(&mut self, last: Option<&[u8]>) -> Vec<Vec<u8>> {
        let keys = std::mem::take(&mut self.keys);
        let due = |key: &Vec<u8>| last.is_none_or(|last| key.as_slice() <= last);
        let (due, later) = keys.into_iter().partition(due);
        self.keys = later;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This may only change together with the version of the layout: fields of stores would not be found.
    #[test]
    fn stripe_of_a_field_is_part_of_the_format() {
        let data = |n: u32| format!("step={n},levelist=500,param=130");
        let stripes: Vec<u8> = (0..16).map(|n| stripe_of(data(n).as_bytes(), 4)).collect();
        assert_eq!(stripes, [0, 3, 2, 3, 0, 1, 3, 0, 2, 0, 1, 2, 1, 2, 0, 1]);
    }

    #[test]
    fn masked_field_is_in_the_stripe_of_its_datum() {
        for datum in ["step=7,param=130", "c=1", ""] {
            let masked = layout::masked_akey(datum, 0x2c00_ff2c_0000_2c01);
            for stripes in [2, 5, 64] {
                let own = stripe_of(datum.as_bytes(), stripes);
                assert_eq!(stripe_of(&masked, stripes), own, "{datum}");
                assert!(usize::from(own) < stripes);
            }
        }
    }

    #[test]
    fn steps_are_in_all_stripes() {
        for (distance, stripes) in [(1, 4), (3, 4), (6, 4), (24, 4), (1, 16), (6, 16)] {
            let mut counts = vec![0; stripes];
            for n in 0..40 * stripes {
                let datum = format!("step={},param=130", n * distance);
                counts[usize::from(stripe_of(datum.as_bytes(), stripes))] += 1;
            }
            assert!(counts.iter().all(|count| (20..=65).contains(count)), "{counts:?}");
        }
    }
}
