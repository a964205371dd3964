//! The earlier writes of a change. A transaction of DAOS does not show its own writes to its reads, but each write of a
//! change depends on those before it.
use super::listing::Survivors;
use super::read::Reader;
use super::rules::is_flat;
use esker_types::ops::{Value, Write, WriteOp};
use esker_types::{Extent, FLAT_AKEY, ObjectId, Result};

/// The writes of a change that come before one of an object.
#[derive(Clone, Copy)]
pub(super) struct Earlier<'a> {
    pub(super) oid: ObjectId,
    pub(super) writes: &'a [Write<'a>],
}

/// The effect of writes on an akey.
#[derive(Debug, Default, PartialEq, Eq)]
struct Effect {
    /// The stored content is gone.
    removes: bool,
    /// There is a single value.
    is_single: bool,
    /// Records that were written.
    written: Vec<Extent>,
    /// Stored records that were punched.
    punched: Vec<Extent>,
}

impl Effect {
    const REMOVED: Self =
        Self { removes: true, is_single: false, written: Vec::new(), punched: Vec::new() };

    fn set(&mut self, value: &Value<'_>) {
        match value {
            Value::Single(_) => self.is_single = true,
            Value::Array { extents, .. } => {
                self.written.extend(extents.iter().filter(|extent| !extent.is_empty()));
            }
            Value::PunchExtents(extents) => {
                self.written = without(std::mem::take(&mut self.written), extents);
                self.punched.extend_from_slice(extents);
            }
        }
    }
}

impl<'a> Earlier<'a> {
    fn ops(self) -> impl Iterator<Item = &'a WriteOp<'a>> {
        self.writes.iter().filter(move |write| write.oid == self.oid).map(|write| &write.op)
    }

    /// True if one of the writes may concern a dkey.
    pub(super) fn concern(self, dkey: &[u8]) -> bool {
        self.ops().any(|op| match op {
            WriteOp::PunchObject { .. } => true,
            WriteOp::Update { dkey: other, .. }
            | WriteOp::PunchDkey { dkey: other, .. }
            | WriteOp::PunchAkeys { dkey: other, .. } => *other == dkey,
        })
    }

    fn effect(self, dkey: &[u8], akey: &[u8]) -> Effect {
        let mut effect = Effect::default();
        for op in self.ops() {
            match op {
                WriteOp::PunchObject { .. } => effect = Effect::REMOVED,
                WriteOp::PunchDkey { dkey: other, .. } if *other == dkey => {
                    effect = Effect::REMOVED;
                }
                WriteOp::PunchAkeys { dkey: other, akeys, .. }
                    if *other == dkey && akeys.contains(&akey) =>
                {
                    effect = Effect::REMOVED;
                }
                WriteOp::Update { dkey: other, updates, .. } if *other == dkey => {
                    let updates = updates.iter().filter(|update| update.akey == akey);
                    updates.for_each(|update| effect.set(&update.value));
                }
                _ => {}
            }
        }
        effect
    }

    /// The akeys that are updated under a dkey.
    fn updated(self, dkey: &[u8]) -> impl Iterator<Item = &'a [u8]> {
        let updates = self.ops().filter_map(move |op| match op {
            WriteOp::Update { dkey: other, updates, .. } if *other == dkey => Some(*updates),
            _ => None,
        });
        updates.flatten().map(|update| update.akey)
    }
}

impl Reader<'_> {
    /// True if a dkey has this akey after earlier writes.
    pub(super) async fn has_akey_after(
        &self,
        earlier: Earlier<'_>,
        dkey: &[u8],
        akey: &[u8],
    ) -> Result<bool> {
        let effect = earlier.effect(dkey, akey);
        match effect {
            Effect { is_single: true, .. } => Ok(true),
            Effect { ref written, .. } if !written.is_empty() => Ok(true),
            Effect { removes: true, .. } => Ok(false),
            Effect { ref punched, .. } if punched.is_empty() => self.has_akey(dkey, akey).await,
            Effect { punched, .. } => {
                let survivors = self.survivors((dkey, akey), &punched).await?;
                Ok(survivors == Survivors::Some)
            }
        }
    }

    /// True if a dkey has an akey after earlier writes.
    pub(super) async fn has_dkey_after(&self, earlier: Earlier<'_>, dkey: &[u8]) -> Result<bool> {
        if !earlier.concern(dkey) {
            return self.has_akeys(dkey).await;
        }
        let stored = self.akeys(dkey).await?;
        let updated = earlier.updated(dkey);
        for akey in updated.chain(stored.iter().map(Vec::as_slice)) {
            if self.has_akey_after(earlier, dkey, akey).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// State of an akey after earlier writes and a punch of records: DAOS keeps an akey without records, so the last punch
    /// must remove it.
    pub(super) async fn survivors_after(
        &self,
        earlier: Earlier<'_>,
        (dkey, akey): (&[u8], &[u8]),
        extents: &[Extent],
    ) -> Result<Survivors> {
        let mut effect = earlier.effect(dkey, akey);
        let was_written = effect.is_single || !effect.written.is_empty();
        effect.set(&Value::PunchExtents(extents));
        if !effect.written.is_empty() {
            return Ok(Survivors::Some);
        }
        let stored = match effect.removes {
            true => Survivors::Absent,
            false => self.survivors((dkey, akey), &effect.punched).await?,
        };
        Ok(if was_written && stored == Survivors::Absent { Survivors::None } else { stored })
    }

    /// The akeys of a dkey.
    async fn akeys(&self, dkey: &[u8]) -> Result<Vec<Vec<u8>>> {
        match is_flat(self.oid) {
            true => {
                Ok(self.has_akeys(dkey).await?.then(|| FLAT_AKEY.to_vec()).into_iter().collect())
            }
            false => self.stored_akeys(dkey).await,
        }
    }
}

/// The records of `extents` that are not in `cut`.
pub(super) fn without(extents: Vec<Extent>, cut: &[Extent]) -> Vec<Extent> {
    cut.iter().filter(|cut| !cut.is_empty()).fold(extents, |left, cut| {
        let pieces = left.into_iter().flat_map(|extent| {
            let between = |start: u64, end: u64| Extent::new(start, end.saturating_sub(start));
            let before = between(extent.start, extent.end().min(cut.start));
            let after = between(extent.start.max(cut.end()), extent.end());
            [before, after]
        });
        pieces.filter(|piece| !piece.is_empty()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::ops::{Cond, Source, Update};
    use esker_types::{ObjectClass, ObjectType};

    fn extent(start: u64, count: u64) -> Extent {
        Extent::new(start, count)
    }

    #[test]
    fn cut_records_are_left_out() {
        let all = vec![extent(0, 10), extent(20, 10)];
        assert_eq!(without(all.clone(), &[extent(5, 20)]), [extent(0, 5), extent(25, 5)]);
        assert_eq!(
            without(all.clone(), &[extent(2, 3), extent(12, 1)]),
            [extent(0, 2), extent(5, 5), extent(20, 10)]
        );
        assert_eq!(without(all.clone(), &[extent(0, u64::MAX)]), []);
        assert_eq!(without(all.clone(), &[extent(3, 0)]), all);
    }

    #[test]
    fn writes_have_their_effect_in_order() {
        let oid = ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1);
        let other = ObjectId::generate(0, 2, ObjectType::MultiHashed, ObjectClass::S1);
        let (extents, punched) = ([extent(0, 10)], [extent(5, 100)]);
        let update = |value| [Update { akey: b"a", value, cond: Cond::NONE }];
        let data = Source::One(&[0; 10]);
        let written = update(Value::Array { record_size: 1, extents: &extents, data });
        let cut = update(Value::PunchExtents(&punched));
        let update = |updates| WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates };
        let writes = [
            WriteOp::PunchDkey { dkey: b"d", cond: Cond::NONE },
            update(&written),
            update(&cut),
            WriteOp::PunchAkeys { dkey: b"d", akeys: &[b"a"], cond: Cond::NONE },
        ];
        let writes = writes.map(|op| Write { oid, op });
        let effect = |count| Earlier { oid, writes: &writes[..count] }.effect(b"d", b"a");
        assert_eq!(effect(0), Effect::default());
        assert_eq!(effect(1), Effect::REMOVED);
        assert_eq!(effect(2).written, [extent(0, 10)]);
        assert_eq!((effect(3).written, effect(3).punched), (vec![extent(0, 5)], punched.to_vec()));
        assert_eq!(effect(4), Effect::REMOVED);
        let all = Earlier { oid, writes: &writes };
        assert!(all.concern(b"d") && !all.concern(b"e"));
        assert!(!Earlier { oid: other, ..all }.concern(b"d"));
        assert!(all.updated(b"d").eq([b"a", b"a"]) && all.updated(b"e").next().is_none());
    }
}
