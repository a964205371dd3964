//! What is to be done to one RADOS object, as a whole or not at all.
use super::names::LOCK;
use esker_backend::encoding::{Parts, put_bytes, put_u32};
use esker_librados::{Compare, WriteOp};
use esker_types::Result;
use std::borrow::Cow;

/// What the object must be like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Base {
    /// Anything; it is made where there is none.
    #[default]
    Any,
    /// There is none.
    Absent,
    /// It was not changed since it had this version.
    Version(u64),
}

/// A comparison with an entry of the object's map.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    pub(super) key: Vec<u8>,
    pub(super) compare: Compare,
    pub(super) value: Vec<u8>,
}

impl Guard {
    pub(super) fn new(key: &[u8], compare: Compare, value: &[u8]) -> Self {
        Self { key: key.to_vec(), compare, value: value.to_vec() }
    }
}

/// Changes to one object, and what must hold for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Patch<'a> {
    pub(super) object: String,
    pub(super) base: Base,
    pub(super) guards: Vec<Guard>,
    pub(super) sets: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) unsets: Vec<Vec<u8>>,
    /// What must hold matters even where nothing is changed: a transaction has read it.
    pub(super) proof: bool,
    /// The object goes.
    pub(super) remove: bool,
    /// Bytes for the object's data: from an offset on, or (`None`) in place of all there is.
    pub(super) data: Option<(Option<u64>, Cow<'a, [u8]>)>,
}

impl<'a> Patch<'a> {
    pub(super) fn of(object: impl Into<String>) -> Self {
        Self { object: object.into(), ..Self::default() }
    }

    /// True where it does not matter what the object is like.
    pub(super) fn holds_anyway(&self) -> bool {
        self.base == Base::Any && self.guards.is_empty()
    }

    /// The whole of it at once, where no transaction has the object.
    pub(super) fn alone(&self) -> Result<WriteOp> {
        let mut op = self.guarded(b"")?;
        self.change(&mut op);
        Ok(op)
    }

    /// Gives the object to a transaction, if all that must hold does.
    pub(super) fn lock(&self, id: &[u8]) -> Result<WriteOp> {
        let mut op = self.guarded(b"")?;
        op.set([(LOCK, id)]);
        Ok(op)
    }

    /// Does the changes of a transaction that has the object, and takes it away from that.
    pub(super) fn finish(&self, id: &[u8]) -> Result<WriteOp> {
        let mut op = WriteOp::new()?;
        op.guard(LOCK, Compare::Equal, id);
        self.change(&mut op);
        if !self.remove {
            op.unset(&[LOCK]);
        }
        Ok(op)
    }

    fn guarded(&self, lock: &[u8]) -> Result<WriteOp> {
        let mut op = WriteOp::new()?;
        match self.base {
            Base::Any if self.remove => {}
            Base::Any => drop(op.create()),
            Base::Absent => drop(op.create_new()),
            Base::Version(version) => drop(op.guard_version(version)),
        }
        op.guard(LOCK, Compare::Equal, lock);
        for guard in &self.guards {
            op.guard(&guard.key, guard.compare, &guard.value);
        }
        Ok(op)
    }

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

    /// False where there is nothing to do or to prove.
    pub(super) fn is_needed(&self) -> bool {
        !self.sets.is_empty() || !self.unsets.is_empty() || self.remove || self.proof
    }

    /// Bytes that a transaction keeps of it.
    pub(super) fn bytes(&self) -> usize {
        let sets = self.sets.iter().map(|(key, value)| key.len() + value.len() + 8);
        let unsets = self.unsets.iter().map(|key| key.len() + 4);
        self.object.len() + 16 + sets.sum::<usize>() + unsets.sum::<usize>()
    }

    /// Appends its changes, without what must hold and without data.
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

    pub(super) fn take(parts: &mut Parts<'_>) -> Option<Patch<'static>> {
        let mut patch = Patch::of(String::from_utf8(parts.bytes()?.to_vec()).ok()?);
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
