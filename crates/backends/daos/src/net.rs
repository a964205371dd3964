//! The net effect of a change. A transaction of DAOS has one epoch, and does not show its own writes to its reads. If
//! it punches and updates the same key, later updates may find the key absent, or stay invisible
//! (`vos_ilog_update_check`). So a transaction punches no key that it updates, and updates none that it punches.
use super::rules::is_flat;
use esker_types::ops::{Update, Value, Write, WriteOp};
use esker_types::{Extent, FLAT_AKEY, ObjectId};
use std::collections::BTreeMap;

/// The effect of a change on each object.
#[derive(Default)]
pub(super) struct Net<'a>(BTreeMap<ObjectId, NetObject<'a>>);

/// The effect of a change on an object.
#[derive(Default)]
pub(super) struct NetObject<'a> {
    /// The stored content is gone.
    pub(super) is_removed: bool,
    pub(super) dkeys: BTreeMap<&'a [u8], NetDkey<'a>>,
}

/// The effect of a change on a dkey.
#[derive(Default)]
pub(super) struct NetDkey<'a> {
    /// The stored akeys are gone.
    pub(super) is_removed: bool,
    pub(super) akeys: BTreeMap<&'a [u8], NetAkey<'a>>,
}

/// The effect of a change on an akey.
#[derive(Default)]
pub(super) struct NetAkey<'a> {
    /// The stored content is gone.
    pub(super) is_removed: bool,
    /// The last write of a single value.
    pub(super) single: Option<&'a Update<'a>>,
    /// Writes and punches of records, in order.
    pub(super) records: Vec<&'a Update<'a>>,
    /// Records that were written.
    written: Vec<Extent>,
    /// Stored records that were punched.
    pub(super) punched: Vec<Extent>,
}

impl<'a> Net<'a> {
    /// Adds a write to the net effect of the change on its object.
    pub(super) fn add(&mut self, write: &Write<'a>) {
        self.0.entry(write.oid).or_default().add(write.oid, &write.op);
    }

    /// The effect on an object; `None` if there is none.
    pub(super) fn object(&self, oid: ObjectId) -> Option<&NetObject<'a>> {
        self.0.get(&oid)
    }

    /// The effect on each object.
    pub(super) fn objects(&self) -> impl Iterator<Item = (ObjectId, &NetObject<'a>)> {
        self.0.iter().map(|(oid, object)| (*oid, object))
    }
}

impl<'a> NetObject<'a> {
    /// Adds a write to the net effect of a change on an object.
    fn add(&mut self, oid: ObjectId, op: &WriteOp<'a>) {
        match *op {
            WriteOp::PunchObject { .. } => *self = Self { is_removed: true, ..Self::default() },
            WriteOp::PunchDkey { dkey, .. } => self.remove_dkey(dkey),
            // The dkey of a flat object has one akey, which is removed with it.
            WriteOp::PunchAkeys { dkey, akeys, .. } if is_flat(oid) => {
                if akeys.contains(&FLAT_AKEY) {
                    self.remove_dkey(dkey);
                }
            }
            WriteOp::PunchAkeys { akeys: [], .. } | WriteOp::Update { updates: [], .. } => {}
            WriteOp::PunchAkeys { dkey, akeys, .. } => {
                let dkey = self.dkey(dkey);
                akeys.iter().for_each(|akey| dkey.remove_akey(akey));
            }
            WriteOp::Update { dkey, updates, .. } => {
                let dkey = self.dkey(dkey);
                updates.iter().for_each(|update| dkey.akey(update.akey).set(update));
            }
        }
    }

    /// The effect on a dkey, which begins as that of the earlier writes on the whole object.
    fn dkey(&mut self, dkey: &'a [u8]) -> &mut NetDkey<'a> {
        let is_removed = self.is_removed;
        self.dkeys.entry(dkey).or_insert_with(|| NetDkey { is_removed, ..NetDkey::default() })
    }

    /// Removes a dkey: earlier writes to it have no effect.
    fn remove_dkey(&mut self, dkey: &'a [u8]) {
        self.dkeys.insert(dkey, NetDkey { is_removed: true, ..NetDkey::default() });
    }

    /// True if the change writes to a dkey.
    pub(super) fn writes(&self) -> bool {
        self.dkeys.values().any(NetDkey::writes)
    }
}

impl<'a> NetDkey<'a> {
    /// The effect on an akey, which begins as that of the earlier writes on the whole dkey.
    fn akey(&mut self, akey: &'a [u8]) -> &mut NetAkey<'a> {
        let is_removed = self.is_removed;
        self.akeys.entry(akey).or_insert_with(|| NetAkey { is_removed, ..NetAkey::default() })
    }

    /// Removes an akey: earlier writes to it have no effect.
    fn remove_akey(&mut self, akey: &'a [u8]) {
        self.akeys.insert(akey, NetAkey { is_removed: true, ..NetAkey::default() });
    }

    /// True if the change writes to an akey.
    pub(super) fn writes(&self) -> bool {
        self.akeys.values().any(NetAkey::writes)
    }
}

impl<'a> NetAkey<'a> {
    /// True if the akey has a new single value or new records.
    pub(super) fn writes(&self) -> bool {
        self.single.is_some() || !self.written.is_empty()
    }

    /// Adds an update of an akey. It replaces the data of earlier updates where it overlaps them.
    fn set(&mut self, update: &'a Update<'a>) {
        match update.value {
            Value::Single(_) => self.single = Some(update),
            Value::Array { extents, .. } => {
                self.written.extend(extents.iter().filter(|extent| !extent.is_empty()));
                self.records.push(update);
            }
            Value::PunchExtents(extents) => {
                self.written = without(std::mem::take(&mut self.written), extents);
                self.punched.extend_from_slice(extents);
                self.records.push(update);
            }
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
    use esker_types::ops::{Cond, Source};
    use esker_types::{ObjectClass, ObjectType};

    fn extent(start: u64, count: u64) -> Extent {
        Extent::new(start, count)
    }

    #[test]
    fn punched_records_are_left_out() {
        let all = vec![extent(0, 10), extent(20, 10)];
        assert_eq!(without(all.clone(), &[extent(5, 20)]), [extent(0, 5), extent(25, 5)]);
        assert_eq!(
            without(all.clone(), &[extent(2, 3), extent(12, 1)]),
            [extent(0, 2), extent(5, 5), extent(20, 10)]
        );
        assert_eq!(without(all.clone(), &[extent(0, u64::MAX)]), []);
        assert_eq!(without(all.clone(), &[extent(3, 0)]), all);
    }

    /// Each step checks the effect of the first writes of a list: `net(3)` is that of the first three.
    #[test]
    fn later_writes_replace_earlier_ones() {
        let oid = ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1);
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
            WriteOp::PunchObject { cond: Cond::NONE },
            update(&written),
        ];
        let net = |count: usize| {
            let mut net = NetObject::default();
            writes[..count].iter().for_each(|op| net.add(oid, op));
            net
        };
        let akey = |count| net(count).dkeys.remove(b"d".as_slice())?.akeys.remove(b"a".as_slice());
        assert!(net(0).dkeys.is_empty() && net(1).dkeys[b"d".as_slice()].is_removed);
        assert!(akey(1).is_none());
        let after = akey(2).expect("an akey");
        assert!(after.is_removed && after.writes());
        assert_eq!(akey(3).expect("an akey").written, [extent(0, 5)]);
        let after = akey(4).expect("an akey");
        assert!(after.is_removed && !after.writes() && after.punched.is_empty());
        assert!(net(5).is_removed && net(5).dkeys.is_empty());
        assert!(net(6).writes() && net(6).dkeys[b"d".as_slice()].is_removed);
    }

    /// A dkey of a flat object has one akey: to punch that akey removes the dkey. A punch of another akey has no
    /// effect.
    #[test]
    fn a_flat_dkey_is_removed_with_its_akey() {
        let oid = ObjectId::generate(0, 1, ObjectType::KvHashed, ObjectClass::S1);
        for (akey, is_removed) in [(FLAT_AKEY, true), (b"other".as_slice(), false)] {
            let (mut net, akeys) = (NetObject::default(), [akey]);
            net.add(oid, &WriteOp::PunchAkeys { dkey: b"d", akeys: &akeys, cond: Cond::NONE });
            assert_eq!(net.dkeys.get(b"d".as_slice()).is_some_and(|it| it.is_removed), is_removed);
        }
    }
}
