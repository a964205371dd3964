//! How the space of a pool is divided when it is made.
use super::PoolSpec;
use crate::io::sys;
use crate::pages::PAGE;
use crate::superblock::{self, Access, FORMAT_VERSION, Superblock};
use esker_types::info::{Durability, Medium};
use esker_types::limits::{INDEX_BLOCKS_MAX, TARGETS_MAX};
use esker_types::{Error, ErrorKind, Result};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The share of an index that cannot grow.
const INDEX_PERCENT: u32 = 12;
/// The share an index begins with that can.
const INDEX_PERCENT_FIRST: u32 = 4;
/// Largest block by which an index grows: LMDB's note of its pages must not take several of them in a row.
const BLOCK_BYTES_MAX: u64 = 1 << 20;
const INDEX_BYTES_MIN: u64 = 1 << 20;
const SEGMENT_BYTES_MIN: u64 = 512 << 10;
/// Segments the pool gets by itself hold the largest single value, if there are enough of them.
const SEGMENT_BYTES_WANTED: u64 = 8 << 20;
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Segments a target has at least: one is kept back for compaction, and several are written at a time.
const SEGMENTS_MIN: u64 = 4;
/// Segments the pool gets by itself are small enough that there are so many, and little is kept back.
const SEGMENTS_WANTED: u64 = 8;
/// Most segments of a target, for their numbers have 24 bits.
const SEGMENTS_MAX: u64 = (1 << 24) - 1;

pub(super) fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

fn default_targets() -> u32 {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    cores.clamp(2, 8) as u32
}

/// Room for data whose size is a power of two, and for the headers before it: without some more, the end
/// of each segment would be lost.
fn with_slack(data: u64) -> u64 {
    data + data / 128
}

/// Bytes of a segment: as wanted, or by the size of the pool.
fn segment_bytes(spec: &PoolSpec, data_bytes: u64) -> Result<u64> {
    let bytes = spec.segment_bytes.unwrap_or_else(|| {
        let wanted = (data_bytes / 64).clamp(SEGMENT_BYTES_WANTED, SEGMENT_BYTES_MAX);
        let few = (data_bytes / SEGMENTS_WANTED).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let data = wanted.min(few - few / 128).max(SEGMENT_BYTES_MIN);
        with_slack(1 << data.ilog2())
    });
    if !superblock::is_segment_size(bytes) {
        return Err(invalid(format!(
            "segments of {bytes} bytes: a multiple of 4096, 64 KiB to 1 GiB"
        )));
    }
    Ok(bytes)
}

/// Divides the pool's bytes between targets, indexes and segments.
pub(super) fn lay_out(spec: &PoolSpec, medium: Medium, growing: bool) -> Result<Superblock> {
    if spec.huge_pages && medium != Medium::Memory {
        return Err(invalid(crate::huge::IN_MEMORY.to_owned()));
    }
    let targets = spec.targets.unwrap_or_else(default_targets);
    if targets == 0 || targets as usize > TARGETS_MAX {
        return Err(invalid(format!("{targets} targets: 1 to {TARGETS_MAX} (TARGETS_MAX)")));
    }
    let automatic = if growing { INDEX_PERCENT_FIRST } else { INDEX_PERCENT };
    let percent = spec.index_percent.unwrap_or(automatic);
    if !(1..=90).contains(&percent) {
        return Err(invalid(format!("an index share of {percent} percent: 1 to 90")));
    }
    let share = spec.size_bytes / u64::from(targets);
    let index_bytes =
        (share / 100 * u64::from(percent)).max(INDEX_BYTES_MIN).next_multiple_of(1 << 16);
    let data_bytes = share.saturating_sub(index_bytes);
    let segment_bytes = segment_bytes(spec, data_bytes)?;
    let block_bytes = segment_bytes.min(BLOCK_BYTES_MAX);
    let blocks_of = |segments: u64| {
        let blocks = segments.saturating_sub(SEGMENTS_MIN - 1) * (segment_bytes / block_bytes);
        if growing { blocks.min(u64::from(INDEX_BLOCKS_MAX)) } else { 0 }
    };
    // Of each block there is one page from the start.
    let firsts = blocks_of(data_bytes / segment_bytes) * PAGE as u64;
    let segments = data_bytes.saturating_sub(firsts) / segment_bytes;
    if segments > SEGMENTS_MAX {
        return Err(invalid(format!(
            "{segments} segments of {segment_bytes} bytes on each target: {SEGMENTS_MAX} at most, make \
             them larger"
        )));
    }
    if segments < SEGMENTS_MIN {
        let least = (SEGMENTS_MIN * segment_bytes + index_bytes) * u64::from(targets);
        return Err(invalid(format!(
            "a pool of {} bytes is too small for {targets} targets: make it {least} at least, or use \
             fewer targets",
            spec.size_bytes
        )));
    }
    let durability =
        if medium == Medium::Memory { Durability::Process } else { Durability::Commit };
    Ok(Superblock {
        version: FORMAT_VERSION,
        uuid: esker_os::random_uuid()?,
        label: spec.label.clone(),
        targets,
        index_bytes,
        blocks: blocks_of(segments) as u32,
        block_bytes,
        segment_bytes,
        segments: segments as u32,
        medium,
        durability: spec.durability.unwrap_or(durability),
        guarded: spec.guarded,
        access: if spec.group.is_some() { Access::Group } else { Access::Private },
    })
}

/// True where files can give up what they have reserved, so that index and data can share it. Tried on a file
/// without a name, of which nothing is left whoever is killed.
pub(super) fn can_grow(directory: &Path) -> bool {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_TMPFILE);
    let Ok(file) = options.open(directory) else { return false };
    let page = PAGE as u64;
    let punched = sys::reserve(&file, 0, 2 * page).and_then(|()| sys::punch(&file, page, page));
    punched.is_ok() && sys::page_bytes() == page
}
