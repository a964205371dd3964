//! Going over the trees of an index, page by page.
use super::page::{self, Content, Meta, Node, Sort, Tree, u64_at};
use super::{PAGE, PROBLEMS_MAX, read_page};
use std::cmp::Ordering;
use std::fs::File;

/// Deepest tree LMDB can work on.
const DEPTH_MAX: u16 = 32;

/// How the keys of a tree compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// As strings of bytes: those of the index itself.
    Bytes,
    /// As numbers of transactions: those of the tree of free pages.
    Numbers,
}

impl Keys {
    fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytes => a.cmp(b),
            Self::Numbers => u64_at(a, 0).cmp(&u64_at(b, 0)),
        }
    }

    fn are_sound(self, key: &[u8]) -> bool {
        match self {
            Self::Bytes => !key.is_empty(),
            Self::Numbers => key.len() == 8,
        }
    }

    /// Flags of a tree with such keys, apart from those of the whole file.
    fn depth_is_sound(self, tree: &Tree) -> bool {
        let flags_fit = self == Self::Numbers || tree.flags == 0;
        let depth_fits = (tree.depth == 0) == tree.root.is_none() && tree.depth <= DEPTH_MAX;
        flags_fit && depth_fits
    }
}

/// A visit to every page of an index.
pub(super) struct Walk<'f> {
    file: &'f File,
    txn: u64,
    last_page: u64,
    /// One bit per page that is used or listed as free.
    reached: Vec<u64>,
    pub(super) problems: Vec<String>,
}

/// What was met in a tree.
#[derive(Default)]
struct Met {
    branch_pages: u64,
    leaf_pages: u64,
    overflow_pages: u64,
    entries: u64,
}

/// Where a page stands: its level from the root (which is 1), and the keys it may hold.
#[derive(Clone)]
struct Place {
    level: u16,
    from: Option<Vec<u8>>,
    below: Option<Vec<u8>>,
}

impl<'f> Walk<'f> {
    pub(super) fn new(file: &'f File, meta: &Meta) -> Self {
        let words = (meta.last_page / 64 + 1) as usize;
        let mut reached = vec![0; words];
        reached[0] = 0b11;
        let (txn, last_page) = (meta.txn, meta.last_page);
        Self { file, txn, last_page, reached, problems: Vec::new() }
    }

    fn report(&mut self, trouble: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(trouble);
        }
    }

    /// Goes over a tree.
    pub(super) fn tree(&mut self, tree: &Tree, keys: Keys) {
        if !keys.depth_is_sound(tree) {
            return self.report(format!("a tree of depth {} is described wrongly", tree.depth));
        }
        let mut met = Met::default();
        if let Some(root) = tree.root {
            let place = Place { level: 1, from: None, below: None };
            self.page(root, place, tree.depth, keys, &mut met);
        }
        let told = [tree.branch_pages, tree.leaf_pages, tree.overflow_pages, tree.entries];
        let found = [met.branch_pages, met.leaf_pages, met.overflow_pages, met.entries];
        if self.problems.is_empty() && told != found {
            self.report(format!("a tree has {found:?} pages and entries, {told:?} are told"));
        }
    }

    /// Notes that a page is used, or free; false where it cannot be.
    fn reach(&mut self, number: u64, what: &str) -> bool {
        if number < 2 || number > self.last_page {
            self.report(format!("{what} {number} does not exist"));
            return false;
        }
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        let again = self.reached[word] & bit != 0;
        self.reached[word] |= bit;
        if again {
            self.report(format!("{what} {number} is used twice"));
        }
        !again
    }

    fn page(&mut self, number: u64, place: Place, depth: u16, keys: Keys, met: &mut Met) {
        if !self.reach(number, "page") {
            return;
        }
        let Some(page) = read_page(self.file, number) else {
            return self.report(format!("page {number} cannot be read"));
        };
        let sort = if place.level < depth { Sort::Branch } else { Sort::Leaf };
        let nodes = match page::nodes(&page, number, sort) {
            Ok(nodes) => nodes,
            Err(trouble) => return self.report(format!("page {number} {trouble}")),
        };
        if let Some(trouble) = disorder(&nodes, &place, sort, keys) {
            return self.report(format!("page {number} {trouble}"));
        }
        match sort {
            Sort::Branch => {
                met.branch_pages += 1;
                self.children(&nodes, &place, depth, keys, met);
            }
            Sort::Leaf => {
                met.leaf_pages += 1;
                met.entries += nodes.len() as u64;
                nodes.iter().for_each(|node| self.entry(node, keys, met));
            }
        }
    }

    fn children(
        &mut self,
        nodes: &[Node<'_>],
        place: &Place,
        depth: u16,
        keys: Keys,
        met: &mut Met,
    ) {
        for (index, node) in nodes.iter().enumerate() {
            let Content::Child(number) = node.content else { continue };
            // The first key of a branch is not stored: it is the branch's own.
            let from = if index == 0 { place.from.clone() } else { Some(node.key.to_vec()) };
            let next = nodes.get(index + 1).map(|next| next.key.to_vec());
            let below = next.or_else(|| place.below.clone());
            self.page(number, Place { level: place.level + 1, from, below }, depth, keys, met);
        }
    }

    fn entry(&mut self, node: &Node<'_>, keys: Keys, met: &mut Met) {
        let big;
        let data = match node.content {
            Content::Child(_) => return,
            Content::Data(data) => data,
            Content::Big { page, len } => match self.big(page, len, keys, met) {
                Some(pages) => {
                    big = pages;
                    page::overflow_data(&big, len)
                }
                None => return,
            },
        };
        if keys == Keys::Numbers {
            self.free_pages(u64_at(node.key, 0).unwrap_or(u64::MAX), data);
        }
    }

    /// Looks at data on pages of its own; returns them where they list free pages.
    fn big(&mut self, first: u64, len: usize, keys: Keys, met: &mut Met) -> Option<Vec<u8>> {
        let count = page::overflow_pages(len);
        if count > self.last_page {
            self.report(format!("page {first} begins {len} bytes, more than there are"));
            return None;
        }
        met.overflow_pages += count;
        if !(0..count).all(|step| self.reach(first.saturating_add(step), "overflow page")) {
            return None;
        }
        let head = read_page(self.file, first);
        if !head.is_some_and(|head| page::is_overflow(&head, first, count)) {
            self.report(format!("page {first} does not begin {len} bytes of data"));
            return None;
        }
        let wanted = if keys == Keys::Numbers { count } else { 0 };
        let pages = (first..first + wanted).map(|number| read_page(self.file, number));
        Some(pages.collect::<Option<Vec<_>>>().unwrap_or_default().concat())
    }

    /// A list of free pages: how many, then their numbers, falling.
    fn free_pages(&mut self, txn: u64, data: &[u8]) {
        let count = u64_at(data, 0).filter(|count| *count < (data.len() / 8) as u64);
        let Some(count) = count.filter(|_| (1..=self.txn).contains(&txn)) else {
            return self.report(format!("the list of pages freed by {txn} is damaged"));
        };
        let mut before = u64::MAX;
        for index in 1..=count as usize {
            let number = u64_at(data, index * 8).unwrap_or(0);
            if number >= before {
                return self.report(format!("the list of pages freed by {txn} is out of order"));
            }
            before = number;
            self.reach(number, "free page");
        }
    }
}

/// What is wrong with the order of a page's keys.
fn disorder(nodes: &[Node<'_>], place: &Place, sort: Sort, keys: Keys) -> Option<&'static str> {
    let least = usize::from(sort == Sort::Branch && keys == Keys::Bytes) + 1;
    if nodes.len() < least || nodes.len() > PAGE / 2 {
        return Some("has too few nodes");
    }
    let stored = nodes.get(usize::from(sort == Sort::Branch)..).unwrap_or_default();
    if stored.iter().any(|node| !keys.are_sound(node.key)) {
        return Some("has a key of an impossible length");
    }
    let rising = |pair: &[Node<'_>]| keys.compare(pair[0].key, pair[1].key) == Ordering::Less;
    if !stored.windows(2).all(rising) {
        return Some("has keys out of order");
    }
    let (first, last) = (stored.first()?, stored.last()?);
    let early = place.from.as_deref().filter(|from| keys.compare(first.key, from).is_lt());
    let late = place.below.as_deref().filter(|below| keys.compare(last.key, below).is_ge());
    (early.is_some() || late.is_some()).then_some("has keys that belong to other pages")
}
