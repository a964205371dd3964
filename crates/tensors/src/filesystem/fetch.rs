//! Answers the reads of a file system: inodes of directories, and chunks of files.
use crate::filesystem::files::Files;
use crate::hdf5::Image;
use dfs::{CHUNK_SIZE, INODE_AKEY, Inode};
use esker::types::ops::{Cond, DkeyFetch, Edge, Fetch, KeyFound, KeyQuery, Sink, Wanted};
use esker::types::{Error, ErrorKind, Extent, Result, key_to_u64};
use esker_backend::object::read::note_found;

/// Answers fetches of the entries of a directory with the inodes that they would have. `directory` is the prefix of the
/// names of its tensors.
pub(crate) fn entries(
    files: &Files,
    directory: &str,
    dkeys: &mut [DkeyFetch<'_, '_>],
) -> Result<()> {
    for fetch in dkeys {
        let inode = files.inode(directory, fetch.dkey)?.map(Inode::to_bytes);
        let read = |at: u64, to: &mut [u8]| {
            let bytes = inode.as_ref().and_then(|bytes| bytes[at as usize..].get(..to.len()));
            to.copy_from_slice(bytes.unwrap_or_default());
            Ok(())
        };
        let length = inode.as_ref().map_or(0, |bytes| bytes.len() as u64);
        fill(fetch, length, |akey| akey == INODE_AKEY, read)?;
    }
    Ok(())
}

/// Reads chunks of a file.
pub(crate) fn chunks(image: &Image, dkeys: &mut [DkeyFetch<'_, '_>]) -> Result<()> {
    for fetch in dkeys {
        let (start, length) = chunk(image, key_to_u64(fetch.dkey)?);
        fill(fetch, length, |_| true, |at, to| image.read(start + at, to))?;
    }
    Ok(())
}

/// Offset of a chunk in the file, and its length in bytes. Chunk 1 is the first; a chunk that does not exist has the
/// length 0.
fn chunk(image: &Image, number: u64) -> (u64, u64) {
    let start = number.checked_sub(1).map_or(u64::MAX, |before| before.saturating_mul(CHUNK_SIZE));
    (start, image.bytes().saturating_sub(start).min(CHUNK_SIZE))
}

/// Answers the fetch of a dkey that stores `length` single bytes, or 0 if it does not exist. `is_stored` recognizes its
/// akey. `read` fills a buffer with these bytes, starting at an offset.
fn fill(
    dkey: &mut DkeyFetch<'_, '_>,
    length: u64,
    is_stored: impl Fn(&[u8]) -> bool,
    read: impl Fn(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    if length == 0 && dkey.cond.has(Cond::DKEY_FETCH) {
        return Err(missing_key_error("dkey"));
    }
    for fetch in dkey.akeys.iter_mut() {
        fetch.reply.reset();
        let Wanted::Array(extents) = fetch.request.wanted else {
            check_absent(fetch)?;
            continue;
        };
        if length == 0 || !is_stored(fetch.request.akey) {
            check_absent(fetch)?;
            continue;
        }
        fetch.reply.size = 1;
        copy(fetch, extents, length, &read)?;
    }
    Ok(())
}

/// Fills the sink of a fetch with the bytes of its extents that are below `length`. `read` supplies the bytes at an
/// offset.
fn copy(
    fetch: &mut Fetch<'_>,
    extents: &[Extent],
    length: u64,
    read: impl Fn(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let (stored, mut offset) = (Extent::new(0, length), 0);
    for extent in extents {
        if let Some(found) = extent.intersect(stored) {
            let (mut at, into) = (found.start, offset + (found.start - extent.start));
            note_found(&fetch.request, &mut fetch.reply, found);
            fetch.reply.sink.visit(into, found.count, |piece| {
                read(at, piece)?;
                at += piece.len() as u64;
                Ok(())
            })?;
            if !matches!(fetch.reply.sink, Sink::None) {
                fetch.reply.filled_bytes = into + found.count;
            }
        }
        offset += extent.count;
    }
    Ok(())
}

/// Fails for a key that is not there, if the fetch requires it.
fn check_absent(fetch: &Fetch<'_>) -> Result<()> {
    match fetch.request.cond.has(Cond::AKEY_FETCH) {
        true => Err(missing_key_error("akey")),
        false => Ok(()),
    }
}

#[cold]
fn missing_key_error(what: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("the {what} does not exist"))
}

/// Finds the first or last chunk of the HDF5 file that shows a tensor, or checks the chunk that the query names. The
/// extent in the answer has as many bytes as the chunk; `None` if there is no such chunk.
pub(crate) fn query(image: &Image, query: KeyQuery<'_>) -> Result<Option<KeyFound>> {
    let last = image.bytes().div_ceil(CHUNK_SIZE);
    let after = query.after.map(key_to_u64).transpose()?.unwrap_or(0);
    // Chunks are numbered from 1. A number after the last one has no bytes, and is not found.
    let number = match (query.dkey, query.edge) {
        (Some(dkey), _) => key_to_u64(dkey)?,
        (None, Edge::Min) => after.saturating_add(1),
        (None, Edge::Max) => last.max(after.saturating_add(1)),
    };
    let (_, length) = chunk(image, number);
    let found = KeyFound {
        dkey: number.to_ne_bytes().to_vec(),
        akey: query.akey.unwrap_or_default().to_vec(),
        extent: query.want_extent.then(|| Extent::new(0, length)),
    };
    Ok((length > 0).then_some(found))
}
