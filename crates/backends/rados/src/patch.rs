//! Atomic changes to one RADOS object.
use super::names::{CREATED, LOCK};
use crate::librados::{Compare, ReadOp, WriteOp};
use esker_backend::encoding::{Parts, put_bytes, put_u32};
use esker_types::limits::RADOS_GUARDS_MAX;
use esker_types::{Error, ErrorKind, Result};
use std::borrow::Cow;

/// The required state of the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Base {
    /// Any state; the object is created if it does not exist.
    #[default]
    Any,
    /// The object does not exist.
    Absent,
    /// The object has not changed since this version.
    Version(u64),
}

/// A comparison with an omap entry of the object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Guard {
    pub(super) key: Vec<u8>,
    pub(super) compare: Compare,
    pub(super) value: Vec<u8>,
}

impl Guard {
    pub(super) fn new(key: &[u8], compare: Compare, value: &[u8]) -> Self {
        Self { key: key.to_vec(), compare, value: value.to_vec() }
    }

    /// True if the comparison holds for a missing entry, which counts as empty.
    fn holds_if_missing(&self) -> bool {
        match self.compare {
            Compare::Equal => self.value.is_empty(),
            Compare::Greater => false,
            Compare::Less => !self.value.is_empty(),
        }
    }
}

/// Changes to one object, with the conditions for applying them.
#[derive(Clone, Debug, Default)]
pub(super) struct Patch<'a> {
    /// Name of the RADOS object.
    pub(super) object: String,
    pub(super) base: Base,
    /// Comparisons that must hold.
    pub(super) guards: Vec<Guard>,
    /// Omap entries to set.
    pub(super) sets: Vec<(Vec<u8>, Vec<u8>)>,
    /// Keys of omap entries to remove.
    pub(super) unsets: Vec<Vec<u8>>,
    /// The conditions matter even if nothing is changed, because a transaction has read the object.
    pub(super) proof: bool,
    /// Remove the object.
    pub(super) remove: bool,
    /// Bytes for the object's data: at an offset, or (`None`) replacing all data.
    pub(super) data: Option<(Option<u64>, Cow<'a, [u8]>)>,
}

impl<'a> Patch<'a> {
    /// A patch that changes nothing yet and has no conditions.
    pub(super) fn for_object(object: impl Into<String>) -> Self {
        Self { object: object.into(), ..Self::default() }
    }

    /// True if the patch has no conditions, so that it applies to any state of the object.
    pub(super) fn holds_anyway(&self) -> bool {
        self.base == Base::Any && self.guards.is_empty()
    }

    /// The whole change as one operation, if no transaction has locked the object.
    pub(super) fn alone(&self) -> Result<WriteOp> {
        let mut op = WriteOp::new()?;
        match self.base {
            Base::Any if self.remove => {}
            // Comparisons need an object, so a missing one is created.
            Base::Any => drop(op.create()),
            Base::Absent => drop(op.create_new()),
            Base::Version(version) => drop(op.assert_version(version)),
        }
        self.guard(&mut op)?;
        self.change(&mut op);
        Ok(op)
    }

    /// Reads nothing, if the conditions on a present object hold. The caller compares its version.
    pub(super) fn verification(&self) -> Result<ReadOp> {
        self.check_guards()?;
        let mut op = ReadOp::new()?;
        op.add_comparison(LOCK, Compare::Equal, b"");
        for guard in &self.guards {
            op.add_comparison(&guard.key, guard.compare, &guard.value);
        }
        Ok(op)
    }

    /// True if the patch changes nothing: a transaction has only read the object.
    pub(super) fn is_proof_only(&self) -> bool {
        self.sets.is_empty() && self.unsets.is_empty() && !self.remove && self.data.is_none()
    }

    /// True if the conditions hold for an object that does not exist.
    pub(super) fn holds_if_missing(&self) -> bool {
        !matches!(self.base, Base::Version(_)) && self.guards.iter().all(Guard::holds_if_missing)
    }

    /// True if the conditions hold for an object of this version, apart from the guards.
    pub(super) fn has_base(&self, version: u64) -> bool {
        self.base == Base::Any || self.base == Base::Version(version)
    }

    /// The patch with one guard for each condition: Ceph limits their number.
    pub(super) fn with_distinct_guards(mut self) -> Self {
        self.guards.sort_unstable();
        self.guards.dedup();
        self
    }

    /// Locks the object for a transaction, if the conditions hold. A lock needs an object, so one that `is_missing` is
    /// created and marked.
    pub(super) fn lock(&self, id: &[u8], is_missing: bool) -> Result<WriteOp> {
        let mut op = WriteOp::new()?;
        match self.base {
            Base::Version(version) => drop(op.assert_version(version)),
            Base::Any | Base::Absent if is_missing => drop(op.create_new()),
            Base::Any | Base::Absent => {}
        }
        self.guard(&mut op)?;
        match is_missing {
            true => op.set([(LOCK, id), (CREATED, &[1][..])]),
            false => op.set([(LOCK, id)]).unset(&[CREATED]),
        };
        Ok(op)
    }

    /// Applies the changes of the transaction that has locked the object, and unlocks it.
    pub(super) fn finish(&self, id: &[u8]) -> Result<WriteOp> {
        let mut op = WriteOp::new()?;
        op.add_comparison(LOCK, Compare::Equal, id);
        self.change(&mut op);
        if !self.remove {
            op.unset(&[LOCK, CREATED]);
        }
        Ok(op)
    }

    /// Adds the conditions to an operation: no transaction has locked the object, and the guards hold.
    fn guard(&self, op: &mut WriteOp) -> Result<()> {
        self.check_guards()?;
        op.add_comparison(LOCK, Compare::Equal, b"");
        for guard in &self.guards {
            op.add_comparison(&guard.key, guard.compare, &guard.value);
        }
        Ok(())
    }

    /// Fails if there are more guards than an operation of Ceph can have.
    fn check_guards(&self) -> Result<()> {
        match self.guards.len() > RADOS_GUARDS_MAX {
            true => Err(too_many_guards_error(self.guards.len())),
            false => Ok(()),
        }
    }

    /// Adds the changes of the patch to an operation of librados on its object.
    fn change(&self, op: &mut WriteOp) {
        if self.remove {
            op.remove();
            return;
        }
        match &self.data {
            Some((Some(offset), bytes)) => drop(op.write(*offset, bytes)),
            Some((None, bytes)) => drop(op.write_full(bytes)),
            None => {}
        }
        if !self.sets.is_empty() {
            op.set(self.sets.iter().map(|(key, value)| (key.as_slice(), value.as_slice())));
        }
        if !self.unsets.is_empty() {
            op.unset(&self.unsets.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    }

    /// False if there is nothing to change and no condition to verify.
    pub(super) fn is_needed(&self) -> bool {
        !self.sets.is_empty() || !self.unsets.is_empty() || self.remove || self.proof
    }

    /// Size of the entries that are set, in bytes of the record of a transaction.
    pub(super) fn set_bytes(&self) -> usize {
        self.sets.iter().map(|(key, value)| key.len() + value.len() + 8).sum()
    }

    /// Size of the patch in the record of a transaction, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let unsets = self.unsets.iter().map(|key| key.len() + 4);
        self.object.len() + 16 + self.set_bytes() + unsets.sum::<usize>()
    }

    /// Appends the encoded changes of the patch to `out`, without its conditions and data.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.object.as_bytes());
        put_u32(out, u32::from(self.remove));
        put_u32(out, self.sets.len() as u32);
        for (key, value) in &self.sets {
            put_bytes(out, key);
            put_bytes(out, value);
        }
        put_u32(out, self.unsets.len() as u32);
        self.unsets.iter().for_each(|key| put_bytes(out, key));
    }

    /// Decodes a patch of a recorded transaction. None if it is damaged.
    pub(super) fn take(parts: &mut Parts<'_>) -> Option<Patch<'static>> {
        let mut patch = Patch::for_object(String::from_utf8(parts.bytes()?.to_vec()).ok()?);
        patch.remove = parts.u32()? != 0;
        for _ in 0..parts.u32()? {
            patch.sets.push((parts.bytes()?.to_vec(), parts.bytes()?.to_vec()));
        }
        for _ in 0..parts.u32()? {
            patch.unsets.push(parts.bytes()?.to_vec());
        }
        Some(patch)
    }
}

#[cold]
fn too_many_guards_error(count: usize) -> Error {
    let message = format!(
        "a change that depends on {count} entries of one RADOS object: a rados pool allows {RADOS_GUARDS_MAX} \
         (RADOS_GUARDS_MAX): use smaller transactions"
    );
    Error::new(ErrorKind::Overflow, message).with_needed(count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_guards_count_once_and_too_many_are_refused() {
        let guard = |number: usize| Guard::new(&number.to_be_bytes(), Compare::Equal, b"");
        let with = |guards: Vec<Guard>| Patch { guards, ..Patch::for_object("o.1") };
        let twice = (0..=RADOS_GUARDS_MAX).map(|number| guard(number / 2)).collect();
        let patch = with(twice);
        assert_eq!(patch.check_guards().unwrap_err().kind(), ErrorKind::Overflow);
        let patch = patch.with_distinct_guards();
        assert_eq!(patch.guards.len(), RADOS_GUARDS_MAX / 2 + 1);
        patch.check_guards().unwrap();
    }

    #[test]
    fn conditions_on_a_missing_object_hold_if_they_require_nothing() {
        let with = |base, compare, value: &[u8]| {
            let guards = vec![Guard::new(b"k", compare, value)];
            Patch { base, guards, ..Patch::for_object("o.1") }.holds_if_missing()
        };
        assert!(with(Base::Any, Compare::Equal, b"") && with(Base::Absent, Compare::Less, b"v"));
        assert!(!with(Base::Any, Compare::Equal, b"v") && !with(Base::Any, Compare::Greater, b""));
        assert!(!with(Base::Version(1), Compare::Equal, b""));
    }
}
