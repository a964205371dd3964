//! Content of the pools under test, as readers see it: items, and the text of each.
use std::collections::BTreeMap;

/// Number of targets of a pool.
pub(super) const TARGETS: u32 = 3;

/// Bytes of a chunk of the arrays. There is one chunk on each target.
pub(super) const CHUNK: u64 = 2048;

/// Bytes of small values, which are in the index, and of large values, which are in a segment.
pub(super) const SMALL_LEN: usize = 40;
pub(super) const LARGE_LEN: usize = 3000;

/// Label of the container with all items.
pub(super) const LABEL: &str = "explored";

/// A part of the content that readers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    /// A short value in the Key-Value of a target.
    Small(u32),
    /// A long value in the Key-Value of a target.
    Large(u32),
    /// A value that does not exist at first.
    Added(u32),
    /// The keys of the Key-Value of a target.
    Keys(u32),
    /// A chunk of an array that exists.
    Chunk(u32),
    /// The size of that array.
    Size,
    /// An array that does not exist at first, and its size.
    New,
    NewSize,
    /// Number of keys of a Key-Value with many.
    Many,
    /// Labels of all containers.
    Containers,
    /// Number of snapshots.
    Snapshots,
    /// A short value as of the last snapshot.
    Frozen,
    /// A number on a node of a pool over nodes.
    Number(u32),
}

/// The text of each item.
pub(super) type Content = BTreeMap<Item, String>;

/// Text of an item that does not exist.
pub(super) const NONE: &str = "none";
/// Text of an item that cannot be read because of a commit over nodes.
pub(super) const IN_DOUBT: &str = "in doubt";

/// Items of the pool of one node, or of pools over nodes.
pub(super) fn all_items(over_nodes: bool) -> Vec<Item> {
    if over_nodes {
        return vec![Item::Number(0), Item::Number(1)];
    }
    let of_target = |target| {
        let of_kv = [Item::Small(target), Item::Large(target), Item::Added(target)];
        of_kv.into_iter().chain([Item::Keys(target), Item::Chunk(target)])
    };
    let others = [Item::Size, Item::New, Item::NewSize, Item::Many];
    let catalog = [Item::Containers, Item::Snapshots, Item::Frozen];
    (0..TARGETS).flat_map(of_target).chain(others).chain(catalog).collect()
}

/// The items in an order that depends on `turn`.
pub(super) fn ordered(mut items: Vec<Item>, turn: u64) -> Vec<Item> {
    let len = items.len();
    items.rotate_left(turn as usize % len);
    if turn / len as u64 % 2 == 1 {
        items.reverse();
    }
    items
}

/// The value of a number, which its bytes repeat.
pub(super) fn value(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; len];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The number of a value as text. For other bytes, a text that no expected content has.
pub(super) fn number_of(bytes: &[u8]) -> String {
    let Some((number, rest)) = bytes.split_first_chunk() else {
        return format!("{} bytes", bytes.len());
    };
    let number = u64::from_le_bytes(*number);
    match rest.iter().position(|byte| *byte != number as u8) {
        None => number.to_string(),
        Some(at) => format!("torn: {number}, then {} at {}", rest[at], at + 8),
    }
}
