//! Listing the records of an array value.
use super::anchor;
use crate::abi::{self, EpochRange, Event, Handle, Iov, Ptr, Recx};
use crate::code::{Code, Result};
use crate::handles::{self, Entry};
use crate::{convert, edge, object};
use esker::types::ops::{AkeyRef, Anchor, StoredExtent};
use esker::{Access, Object};
use std::ffi::c_int;

/// Extents looked at in one step.
const STEP: usize = 1024;

/// Where the ranges of a listing go.
#[derive(Clone, Copy)]
struct Page {
    size: Ptr<u64>,
    nr: Ptr<u32>,
    recxs: Ptr<Recx>,
    eprs: Ptr<EpochRange>,
    anchor: Ptr<abi::Anchor>,
    upwards: bool,
}

/// Lists the ranges of an array value.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_list_recx(
    oh: Handle,
    th: Handle,
    dkey: Ptr<Iov>,
    akey: Ptr<Iov>,
    size: Ptr<u64>,
    nr: Ptr<u32>,
    recxs: Ptr<Recx>,
    eprs: Ptr<EpochRange>,
    anchor: Ptr<abi::Anchor>,
    incr_order: u8,
    ev: Ptr<Event>,
) -> c_int {
    let page = Page { size, nr, recxs, eprs, anchor, upwards: incr_order != 0 };
    edge::drive(ev, || {
        let (entry, via) = (handles::entry(oh)?, handles::via(th)?);
        Ok(async move {
            let key = AkeyRef { dkey: convert::key(dkey)?, akey: convert::key(akey)? };
            page.fill(&entry, key, via.access()).await
        })
    })
}

impl Page {
    async fn fill(self, entry: &Entry, key: AkeyRef<'_>, access: Access<'_>) -> Result<()> {
        let (object, parked) = object::listed(entry)?;
        let entries = self.nr.get()? as usize;
        self.recxs.needed()?;
        if entries == 0 {
            return Err(Code::INVAL);
        }
        if !self.upwards {
            return self.fill_downwards(object, key, entries, access).await;
        }
        let mut at = anchor::read(self.anchor, parked)?;
        let found = object.list_extents(key, &mut at, entries, access).await?;
        self.put(&found);
        anchor::write(self.anchor, at, parked);
        Ok(())
    }

    /// The store lists upwards, so all is read and the end of it handed out first. The anchor keeps
    /// where the part begins that was handed out already.
    async fn fill_downwards(
        self,
        object: &Object,
        key: AkeyRef<'_>,
        entries: usize,
        access: Access<'_>,
    ) -> Result<()> {
        let mut state = self.anchor.get()?;
        let end = if state.kind == 0 { u64::MAX } else { state.sub_anchors };
        let mut below = Vec::new();
        let mut at = Anchor::Start;
        while !at.is_end() {
            below.extend(object.list_extents(key, &mut at, STEP, access).await?);
        }
        below.retain(|stored| stored.extent.start < end);
        let rest = below.len().saturating_sub(entries);
        let mut page = below.split_off(rest);
        page.reverse();
        self.put(&page);
        state.kind = if below.is_empty() { 3 } else { 2 };
        state.sub_anchors = page.last().map_or(0, |stored| stored.extent.start);
        self.anchor.set(state);
        Ok(())
    }

    fn put(&self, found: &[StoredExtent]) {
        for (index, stored) in found.iter().enumerate() {
            self.recxs.at(index).set(stored.extent.into());
            if !self.eprs.is_null() {
                self.eprs.at(index).set(EpochRange { lo: stored.epoch.0, hi: stored.epoch.0 });
            }
        }
        self.size.set(found.first().map_or(0, |stored| stored.record_size));
        self.nr.set(found.len() as u32);
    }
}
