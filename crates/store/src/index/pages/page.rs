//! Parses pages: meta pages, and pages of nodes.
use crate::format::superblock::PAGE;
use crate::index::txn::{OVERFLOW, PAGE_HEADER};
use std::ops::Range;

/// Bytes of a node before its key.
const NODE_HEADER: usize = 8;
const MAGIC: u32 = 0xbeef_c0de;
const VERSION: u32 = 1;
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const META: u16 = 0x08;
/// Flags that LMDB uses only in memory.
const PASSING: u16 = 0x10 | 0x4000 | 0x8000;
/// The data of the node is on overflow pages.
const BIG: u16 = 0x01;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// A tree, as a meta page describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) flags: u16,
    pub(super) depth: u16,
    pub(super) branch_pages: u64,
    pub(super) leaf_pages: u64,
    pub(super) overflow_pages: u64,
    pub(super) entries: u64,
    /// Page number of the root; `None` for an empty tree.
    pub(super) root: Option<u64>,
}

const TREE: usize = 48;

impl Tree {
    /// Parses the description of a tree in a meta page.
    fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            flags: u16_at(bytes, 4)?,
            depth: u16_at(bytes, 6)?,
            branch_pages: u64_at(bytes, 8)?,
            leaf_pages: u64_at(bytes, 16)?,
            overflow_pages: u64_at(bytes, 24)?,
            entries: u64_at(bytes, 32)?,
            root: Some(u64_at(bytes, 40)?).filter(|root| *root != u64::MAX),
        })
    }
}

/// A meta page: the root of one state of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) map_bytes: u64,
    pub(super) free: Tree,
    pub(super) main: Tree,
    pub(super) last_page: u64,
    pub(super) txn: u64,
}

impl Meta {
    /// Parses a meta page; returns `None` if the page is not a meta page of this format.
    pub(super) fn parse(page: &[u8]) -> Option<Self> {
        let body = page.get(PAGE_HEADER..)?;
        let trees = body.get(24..)?;
        let is_meta = u16_at(page, 10)? & META != 0
            && u32_at(body, 0)? == MAGIC
            && u32_at(body, 4)? == VERSION
            && u32_at(trees, 0)? as usize == PAGE;
        is_meta.then_some(())?;
        Some(Self {
            map_bytes: u64_at(body, 16)?,
            free: Tree::parse(trees)?,
            main: Tree::parse(trees.get(TREE..)?)?,
            last_page: u64_at(trees, 2 * TREE)?,
            txn: u64_at(trees, 2 * TREE + 8)?,
        })
    }
}

/// Kinds of pages with nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageKind {
    Branch,
    Leaf,
}

/// A node: its key and its content.
pub(super) struct Node<'p> {
    pub(super) key: &'p [u8],
    pub(super) content: Content<'p>,
    /// Byte range of the node on its page.
    place: Range<usize>,
}

/// Content of a node.
pub(super) enum Content<'p> {
    /// Page number of a child on the next level.
    Child(u64),
    /// Data on the same page.
    Data(&'p [u8]),
    /// `len` bytes of data on overflow pages, the first of which is `page`.
    Big { page: u64, len: usize },
}

/// Parses the nodes of page `number`, in the order of its list of offsets. The error says why the page is damaged.
pub(super) fn nodes(
    page: &[u8],
    number: u64,
    kind: PageKind,
) -> Result<Vec<Node<'_>>, &'static str> {
    let wanted = if kind == PageKind::Branch { BRANCH } else { LEAF };
    if u64_at(page, 0) != Some(number) {
        return Err("has another page's number");
    }
    if u16_at(page, 10).map(|flags| flags & !PASSING) != Some(wanted) {
        return Err("is not of the kind that its position in the tree requires");
    }
    let bounds = u16_at(page, 12).zip(u16_at(page, 14));
    let Some((lower, upper)) = bounds.map(|(l, u)| (usize::from(l), usize::from(u))) else {
        return Err("is cut off");
    };
    if lower < PAGE_HEADER || lower % 2 != 0 || lower > upper || upper > page.len() {
        return Err("has impossible bounds");
    }
    let offsets = (PAGE_HEADER..lower).step_by(2).filter_map(|at| u16_at(page, at));
    let nodes: Option<Vec<_>> = offsets.map(|at| node(page, at.into(), upper, kind)).collect();
    let nodes = nodes.ok_or("has a node that does not fit")?;
    if nodes.iter().map(|node| node.place.start).min().is_some_and(|first| first != upper) {
        return Err("has free space among its nodes");
    }
    if overlap(&nodes) { Err("has nodes that overlap") } else { Ok(nodes) }
}

/// Parses the node at offset `at` of a page, whose nodes begin at `upper`; `None` if it does not fit. In a branch page,
/// its flags are the upper bits of the page number.
fn node(page: &[u8], at: usize, upper: usize, kind: PageKind) -> Option<Node<'_>> {
    (at >= upper).then_some(())?;
    let low = u64::from(u16_at(page, at)?) | u64::from(u16_at(page, at + 2)?) << 16;
    let (flags, key_len) = (u16_at(page, at + 4)?, usize::from(u16_at(page, at + 6)?));
    let key_end = at + NODE_HEADER + key_len;
    let key = page.get(at + NODE_HEADER..key_end)?;
    let (content, end) = match (kind, flags) {
        (PageKind::Branch, top) => (Content::Child(low | u64::from(top) << 32), key_end),
        (PageKind::Leaf, 0) => {
            let end = key_end + low as usize;
            (Content::Data(page.get(key_end..end)?), end)
        }
        (PageKind::Leaf, BIG) => {
            let page = u64_at(page, key_end)?;
            (Content::Big { page, len: low as usize }, key_end + 8)
        }
        _ => return None,
    };
    Some(Node { key, content, place: at..end })
}

/// True if two of the nodes share bytes.
fn overlap(nodes: &[Node<'_>]) -> bool {
    let mut places: Vec<_> = nodes.iter().map(|node| node.place.clone()).collect();
    places.sort_unstable_by_key(|place| place.start);
    places.windows(2).any(|pair| pair[0].end > pair[1].start)
}

/// Number of overflow pages for `len` bytes of data and their header.
pub(super) fn overflow_pages(len: usize) -> u64 {
    ((PAGE_HEADER + len).div_ceil(PAGE)) as u64
}

/// True if `page` is the first of `pages` overflow pages.
pub(super) fn is_overflow(page: &[u8], number: u64, pages: u64) -> bool {
    u64_at(page, 0) == Some(number)
        && u16_at(page, 10).map(|flags| flags & !PASSING) == Some(OVERFLOW)
        && u32_at(page, 12).map(u64::from) == Some(pages)
}

/// The data of a node on overflow pages; `None` if not all of them were read.
pub(super) fn overflow_data(pages: &[u8], len: usize) -> Option<&[u8]> {
    pages.get(PAGE_HEADER..PAGE_HEADER.checked_add(len)?)
}

/// Number of overflow pages that the header of the first one claims; `None` if the page is not an overflow page.
pub(super) fn overflow_length(page: &[u8], number: u64) -> Option<u64> {
    let pages = u32_at(page, 12).map(u64::from)?;
    is_overflow(page, number, pages).then_some(pages)
}

/// Keys and data of a damaged leaf page that are within its bounds. Nothing confirms that they are right.
pub(super) fn salvage_nodes(page: &[u8]) -> Vec<(&[u8], &[u8])> {
    let bounds = u16_at(page, 12).zip(u16_at(page, 14));
    let Some((lower, upper)) = bounds.map(|(l, u)| (usize::from(l), usize::from(u))) else {
        return Vec::new();
    };
    if lower > upper || upper > page.len() {
        return Vec::new();
    }
    let offsets = (PAGE_HEADER..lower).step_by(2).filter_map(|at| u16_at(page, at));
    let nodes = offsets.filter_map(|at| node(page, at.into(), upper, PageKind::Leaf));
    let data = nodes.filter_map(|node| match node.content {
        Content::Data(data) => Some((node.key, data)),
        Content::Child(_) | Content::Big { .. } => None,
    });
    data.collect()
}
