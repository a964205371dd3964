//! Removes a dkey and returns its content, by means of the other operations.
use crate::container::OpenContainer;
use esker_types::limits::TAKEN_BYTES_MAX;
use esker_types::ops::{
    Anchor, Change, Cond, DkeyFetch, Fetch, KeyScope, ListLimit, ReadAt, ReadTokens, Sink, Take,
    Taken, Write, WriteOp,
};
use esker_types::{Error, ErrorKind, Result};

/// Attempts, if other processes change the dkey at the same time.
const TRIES_MAX: usize = 16;
/// Akeys that are listed at a time.
const AKEYS_BATCH: usize = 64;

/// Answers [`OpenContainer::take`], for backends that cannot do so at once.
///
/// # Errors
/// [`ErrorKind::Overflow`] for an array of more than [`TAKEN_BYTES_MAX`] bytes; errors of reads and writes.
pub async fn take<C: OpenContainer + ?Sized>(
    container: &C,
    take: Take<'_>,
) -> Result<Option<Taken>> {
    if take.extent.count > TAKEN_BYTES_MAX {
        let message = format!(
            "a dkey with an array of {} bytes is removed: at most {TAKEN_BYTES_MAX} are returned (TAKEN_BYTES_MAX)",
            take.extent.count
        );
        return Err(Error::new(ErrorKind::Overflow, message));
    }
    let op = WriteOp::PunchDkey { dkey: take.dkey, cond: Cond::NONE };
    let writes = [Write { oid: take.oid, op }];
    for _ in 0..TRIES_MAX {
        let tokens = ReadTokens::default();
        let at = ReadAt { tokens: Some(&tokens), ..ReadAt::LATEST };
        let Some(taken) = read(container, &take, at).await? else { break };
        let change = Change { tokens: Some(&tokens), ..Change::from_writes(&writes) };
        match container.write(change).await {
            Err(error) if error.kind() == ErrorKind::TxRestart => {}
            written => return written.map(|_| Some(taken)),
        }
    }
    // Nothing was changed: `read` returned `None`, or the dkey changed at each attempt.
    Ok(None)
}

/// Reads the content of the dkey. `None` if it has no such array, if the array does not have the bytes `take.expected`
/// at offset `take.at`, or if the content is longer than [`TAKEN_BYTES_MAX`].
async fn read<C: OpenContainer + ?Sized>(
    container: &C,
    take: &Take<'_>,
    at: ReadAt<'_>,
) -> Result<Option<Taken>> {
    let (mut bytes, extents) = (vec![0; take.extent.count as usize], [take.extent]);
    let array = Fetch::array(take.akey, 1, &extents, Sink::One(&mut bytes));
    let size = fetch(container, take, array, at).await?;
    let from_offset = usize::try_from(take.at).ok().and_then(|offset| bytes.get(offset..));
    if size == 0 || !from_offset.is_some_and(|found| found.starts_with(take.expected)) {
        return Ok(None);
    }
    let (mut others, mut total) = (Vec::new(), take.extent.count);
    for akey in akeys(container, take, at).await? {
        if akey == take.akey {
            continue;
        }
        // All akeys other than that of the array hold single values. The first fetch returns only the size.
        let size = fetch(container, take, Fetch::single(&akey, Sink::None), at).await?;
        total = total.saturating_add(size);
        if total > TAKEN_BYTES_MAX {
            return Ok(None);
        }
        let mut value = vec![0; size as usize];
        fetch(container, take, Fetch::single(&akey, Sink::One(&mut value)), at).await?;
        others.push((akey, value));
    }
    Ok(Some(Taken { bytes, others }))
}

/// Fetches one akey; returns the size of its value, or of its records.
async fn fetch<C: OpenContainer + ?Sized>(
    container: &C,
    take: &Take<'_>,
    mut akey: Fetch<'_>,
    at: ReadAt<'_>,
) -> Result<u64> {
    let akeys = std::slice::from_mut(&mut akey);
    let mut dkeys = [DkeyFetch { dkey: take.dkey, cond: Cond::NONE, akeys }];
    container.fetch(take.oid, &mut dkeys, at).await?;
    Ok(akey.reply.size)
}

/// Lists all akeys of the dkey.
async fn akeys<C: OpenContainer + ?Sized>(
    container: &C,
    take: &Take<'_>,
    at: ReadAt<'_>,
) -> Result<Vec<Vec<u8>>> {
    let (mut akeys, mut anchor) = (Vec::new(), Anchor::Start);
    while !anchor.is_end() {
        let (scope, limit) = (KeyScope::Akeys(take.dkey), ListLimit::entries(AKEYS_BATCH));
        let batch = container.list_keys(take.oid, scope, &mut anchor, limit, at).await?;
        akeys.extend(batch.iter().map(<[u8]>::to_vec));
    }
    Ok(akeys)
}
