//! What a fetch found, told in a `daos_iom_t`.
use crate::abi::{IOMF_DETAIL, Iod, Iom, Ptr, Recx};
use crate::code::Result;
use crate::memory;
use esker::types::Extent;

/// Tells which ranges were found.
pub(super) fn tell(at: Ptr<Iom>, iod: &Iod, filled: &[Extent]) -> Result<()> {
    let mut iom = at.get()?;
    let found = joined(filled);
    iom.kind = iod.kind;
    iom.size = iod.size;
    iom.nr_out = found.len() as u32;
    iom.recx_lo = found.iter().min_by_key(|recx| recx.idx).copied().unwrap_or_default();
    iom.recx_hi = found.iter().max_by_key(|recx| recx.idx).copied().unwrap_or_default();
    if iom.flags & IOMF_DETAIL != 0 {
        list(&mut iom, &found)?;
    }
    at.set(iom);
    Ok(())
}

/// Where the caller has no list, it gets one to free.
fn list(iom: &mut Iom, found: &[Recx]) -> Result<()> {
    if iom.recxs.is_null() && iom.nr == 0 {
        iom.recxs = memory::copy(found)?;
        iom.nr = found.len() as u32;
        return Ok(());
    }
    iom.recxs.needed()?;
    for (index, recx) in found.iter().take(iom.nr as usize).enumerate() {
        iom.recxs.at(index).set(*recx);
    }
    Ok(())
}

/// Ranges that follow each other are one, however they are stored.
fn joined(filled: &[Extent]) -> Vec<Recx> {
    let mut found: Vec<Recx> = Vec::new();
    for extent in filled {
        match found.last_mut() {
            Some(last) if last.idx.saturating_add(last.nr) == extent.start => {
                last.nr += extent.count;
            }
            _ => found.push((*extent).into()),
        }
    }
    found
}
