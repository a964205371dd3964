//! Values used where they lie.
use super::{Target, scan};
use crate::io::pin::{Mapped, Pin};
use crate::io::txn::ReadTxn;
use crate::keys::{Key, Table};
use crate::record::{Body, Location, Record};
use esker_types::info::ContainerId;
use esker_types::ops::{AkeyRef, ReadAt, View, Wanted};
use esker_types::{Extent, ObjectId, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Segments that views of this process keep: those of one segment share it.
#[derive(Default)]
pub(crate) struct Pins(Mutex<HashMap<u32, Weak<Pin>>>);

impl Pins {
    /// The segment, kept by whoever asked before or from now on.
    fn share(
        &self,
        segment: u32,
        pin: impl FnOnce() -> Result<Option<Pin>>,
    ) -> Result<Option<Arc<Pin>>> {
        let mut pins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pin) = pins.get(&segment).and_then(Weak::upgrade) {
            return Ok(Some(pin));
        }
        let pin = pin()?.map(Arc::new);
        if let Some(pin) = &pin {
            pins.insert(segment, Arc::downgrade(pin));
        }
        Ok(pin)
    }
}

impl Target {
    /// The value of an akey, or one extent of its array, where it lies, compared with its checksums.
    /// `None` where it is not there, does not lie in one piece in a segment, or not in memory: then it
    /// must be read.
    ///
    /// # Errors
    /// `Checksum` where stored bytes are damaged, `Overflow` where this process has too many views.
    pub fn view(
        &self,
        container: ContainerId,
        oid: ObjectId,
        key: AkeyRef<'_>,
        wanted: Wanted<'_>,
        at: ReadAt<'_>,
    ) -> Result<Option<Mapped>> {
        if !self.data.is_mapped() {
            return Ok(None);
        }
        let akey = Key::dkey(Table::Data, container, oid, key.dkey)?.akey(oid, key.akey)?;
        // Kept until the segment is: nobody frees what it shows.
        let txn = self.read()?;
        self.mark(at, &txn, container, oid, Some(key.dkey));
        let Some(found) = only_record(&txn, &akey, wanted, at.view)? else { return Ok(None) };
        let record = match wanted {
            Wanted::Array(&[extent]) => found.record()?.cut(found.start(), extent),
            _ => found.record()?,
        };
        match record.body {
            Body::Inline(_) => Ok(None),
            Body::Segment(location) => self.map(&found.key, &record, &location),
        }
    }

    fn map(
        &self,
        key: &[u8],
        record: &Record<'_>,
        location: &Location<'_>,
    ) -> Result<Option<Mapped>> {
        let begin = self.segment_offset(location.segment);
        let pin = || self.data.pin(begin, self.segment_bytes());
        let Some(pin) = self.pins.share(location.segment, pin)? else { return Ok(None) };
        let (base, offset) = (location.base as usize, location.offset as usize);
        let (summed, own) =
            (base..base + location.covered as usize, offset..offset + record.bytes() as usize);
        let bytes =
            pin.bytes(summed.clone()).filter(|_| own.start >= base && own.end <= summed.end);
        let bytes = bytes.ok_or_else(|| self.damaged(key, "the place"))?;
        self.verify(key, location, 0, bytes)?;
        Mapped::new(pin, own).map(Some)
    }

    /// True where a view, of any process, keeps a segment as it is.
    pub(crate) fn is_viewed(&self, segment: u32) -> bool {
        self.data.is_pinned(self.segment_offset(segment))
    }
}

/// The record that has all of what is wanted, if one does.
fn only_record(
    txn: &ReadTxn,
    akey: &Key,
    wanted: Wanted<'_>,
    view: View,
) -> Result<Option<scan::Visible>> {
    let has_all = |found: &scan::Visible, extent: Extent| -> Result<bool> {
        let stored = Extent::new(found.start(), found.record()?.count);
        Ok(stored.start <= extent.start && extent.end() <= stored.end())
    };
    match wanted {
        Wanted::Single => {
            let key = akey.single();
            scan::Scan::new(txn, key.clone(), view)?.seek(&key)
        }
        Wanted::Array(&[extent]) if !extent.is_empty() => {
            let found = scan::extents(txn, akey, extent, view, 1)?.pop();
            match found {
                Some(found) if has_all(&found, extent)? => Ok(Some(found)),
                _ => Ok(None),
            }
        }
        Wanted::Array(_) => Ok(None),
    }
}
