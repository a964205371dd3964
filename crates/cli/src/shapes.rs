//! How things appear in JSON, and how people read them.
use crate::units::Bytes;
use esker::PosixPool;
use esker::types::info::{ContainerInfo, Durability, Medium, PoolInfo, SnapshotInfo, Space};
use esker::types::{Checksum, Epoch, ObjectId};
use esker_nodes::Node;
use esker_store::{HugePages, Superblock};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fmt::Display;

/// Name of a medium.
pub(crate) fn medium(medium: Medium) -> &'static str {
    match medium {
        Medium::Memory => "memory",
        Medium::Block => "block",
        Medium::Other => "other",
    }
}

/// Name of a durability.
pub(crate) fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Process => "process",
        Durability::Commit => "commit",
    }
}

/// Name of a checksum.
pub(crate) fn checksum(checksum: Checksum) -> &'static str {
    match checksum {
        Checksum::Off => "off",
        Checksum::Crc32c => "crc32c",
        Checksum::Crc64 => "crc64",
    }
}

/// Adds up the space of all targets.
pub(crate) fn sum(targets: &[Space]) -> Space {
    targets.iter().fold(Space::default(), |sum, target| Space {
        data_total: sum.data_total + target.data_total,
        data_free: sum.data_free + target.data_free,
        index_total: sum.index_total + target.index_total,
        index_free: sum.index_free + target.index_free,
        is_shared: target.is_shared,
    })
}

/// Space as JSON.
pub(crate) fn space(space: &Space) -> Value {
    json!({
        "data_total_bytes": space.data_total,
        "data_free_bytes": space.data_free,
        "index_total_bytes": space.index_total,
        "index_free_bytes": space.index_free,
    })
}

/// A pool as JSON.
pub(crate) fn pool(info: &PoolInfo) -> Value {
    json!({
        "uuid": info.uuid.to_string(),
        "label": info.label,
        "url": info.url,
        "medium": medium(info.medium),
        "durability": durability(info.durability),
        "space": space(&sum(&info.targets)),
        "fullest": Space::fullest(&info.targets).map(|(number, _)| number),
        "targets": info.targets.iter().map(space).collect::<Vec<_>>(),
    })
}

/// Returns `3 GiB of 4 GiB` for the bytes in huge pages. If some bytes are not in huge pages, `rest` is appended as a
/// remark about them.
pub(crate) fn huge_pages(pages: &HugePages, rest: &str) -> String {
    let text = format!("{} of {}", Bytes(pages.bytes), Bytes(pages.total));
    if pages.bytes < pages.total { format!("{text}: {rest}") } else { text }
}

/// A pool of this machine as JSON, described by its superblock: it need not be opened.
pub(crate) fn superblock(path: &std::path::Path, pool: &Superblock) -> Value {
    json!({
        "uuid": pool.uuid.to_string(),
        "label": pool.label,
        "url": format!("esker:{}", path.display()),
        "medium": medium(pool.medium),
        "durability": durability(pool.durability),
        "size_bytes": pool.reserved_bytes(),
        "targets": pool.targets,
    })
}

/// A pool of plain files, which has no size of its own.
pub(crate) fn posix(path: &std::path::Path, pool: &PosixPool) -> Value {
    let level = if pool.fsync { Durability::Commit } else { Durability::Process };
    json!({
        "uuid": pool.uuid.to_string(),
        "label": pool.label,
        "url": format!("posix:{}", path.display()),
        "medium": medium(Medium::Other),
        "durability": durability(level),
        "size_bytes": null,
        "targets": null,
    })
}

/// A node of a pool over nodes.
pub(crate) fn node((number, node): (usize, &Node)) -> Value {
    json!({
        "node": number,
        "name": node.name,
        "address": node.address,
        "uuid": node.uuid.to_string(),
        "directory": node.directory.display().to_string(),
    })
}

/// A container as JSON.
pub(crate) fn container(info: &ContainerInfo) -> Value {
    json!({
        "uuid": info.uuid.to_string(),
        "label": info.label,
        "checksum": checksum(info.checksum),
        "created": info.creation().map(utc),
        "handles": info.handles,
    })
}

/// Creation time of a container, for people.
pub(crate) fn created(info: &ContainerInfo) -> String {
    info.creation().map_or_else(|| "unknown".to_owned(), utc)
}

/// Returns the label of a container, or its UUID if it has no label.
pub(crate) fn name(info: &ContainerInfo) -> String {
    match info.label.as_str() {
        "" => info.uuid.to_string(),
        label => label.to_owned(),
    }
}

pub(crate) fn snapshot(snapshot: &SnapshotInfo) -> Value {
    json!({"epoch": snapshot.epoch.0, "name": snapshot.name, "created": utc(snapshot.epoch)})
}

/// An object id as JSON.
pub(crate) fn object(oid: ObjectId) -> Value {
    json!({
        "oid": oid.to_string(),
        "type": oid.object_type().map(|otype| format!("{otype:?}")),
        "class": oid.class().name(),
    })
}

/// Bytes as text if they are UTF-8, or in hexadecimal digits.
pub(crate) fn bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({"text": text}),
        Err(_) => json!({"hex": hex(bytes)}),
    }
}

/// Bytes as people read them: plain text, or hexadecimal digits after `0x`.
pub(crate) fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => format!("0x{}", hex(bytes)),
    }
}

/// Bytes in lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A number of things: `1 entry`, `3 entries`.
pub fn count<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    match (number == N::from(1), noun.strip_suffix("ry")) {
        (true, _) => format!("{number} {noun}"),
        (false, Some(stem)) => format!("{number} {stem}ries"),
        (false, None) => format!("{number} {noun}s"),
    }
}

/// `3 GiB of 4 GiB free`.
pub(crate) fn free(free: u64, total: u64) -> String {
    format!("{} of {} free", Bytes(free), Bytes(total))
}

/// Time of an epoch: `2026-01-31T12:00:00Z`.
pub(crate) fn utc(epoch: Epoch) -> String {
    time(epoch.unix_time().as_secs() as i64, 0, 0)
}

/// A time since the start of 1970, in UTC, with `digits` digits of a second: `2026-01-31T12:00:00.000Z`. Years
/// outside the calendar are shown as `@SECONDS`.
pub fn time(seconds: i64, nanos: i32, digits: usize) -> String {
    let time = Timestamp::new(seconds, nanos);
    time.map_or_else(|_| format!("@{seconds}"), |time| format!("{time:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_shown_as_digits() {
        assert_eq!(bytes(b"abc"), json!({"text": "abc"}));
        assert_eq!(bytes(&[0xff, 0x00]), json!({"hex": "ff00"}));
        assert_eq!(readable(b"a b"), "a b");
        assert_eq!(readable(b"a\n"), "0x610a");
    }

    #[test]
    fn one_thing_has_no_plural() {
        assert_eq!([count(1_u64, "file"), count(1_usize, "entry")], ["1 file", "1 entry"]);
        assert_eq!([count(0_u32, "file"), count(2_u64, "entry")], ["0 files", "2 entries"]);
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(Epoch(0)), "2021-01-01T00:00:00Z");
        assert_eq!(utc(Epoch(90_061_000_000_000)), "2021-01-02T01:01:00Z");
        assert_eq!(time(-1, 5, 9), "1969-12-31T23:59:59.000000005Z");
        assert_eq!(time(i64::MAX, 0, 0), "@9223372036854775807");
    }
}
