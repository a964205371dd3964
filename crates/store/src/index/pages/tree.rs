//! Walks the trees of an index, page by page, and verifies them.
use super::page::{Content, Meta, Node, PageKind, Tree, u64_at};
use super::{PAGE, PROBLEMS_MAX, page, read_page};
use std::cmp::Ordering;
use std::fs::File;

/// Deepest tree that LMDB supports.
const DEPTH_MAX: u16 = 32;

/// Order of the keys of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// Byte strings, in the tree of the index itself.
    Bytes,
    /// Transaction ids, in the tree of free pages.
    Numbers,
}

impl Keys {
    fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytes => a.cmp(b),
            Self::Numbers => u64_at(a, 0).cmp(&u64_at(b, 0)),
        }
    }

    /// True if a key has a possible length.
    fn are_sound(self, key: &[u8]) -> bool {
        match self {
            Self::Bytes => !key.is_empty(),
            Self::Numbers => key.len() == 8,
        }
    }

    /// True if depth and flags of the tree are possible.
    fn depth_is_sound(self, tree: &Tree) -> bool {
        let flags_fit = self == Self::Numbers || tree.flags == 0;
        let depth_fits = (tree.depth == 0) == tree.root.is_none() && tree.depth <= DEPTH_MAX;
        flags_fit && depth_fits
    }
}

/// Key range of a page that cannot be followed: the walk reads neither its entries nor the pages below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// Number of the page.
    pub(crate) page: u64,
    /// True if the page is at the level of leaves and no other page refers to it.
    pub(super) holds_entries: bool,
    /// Lower bound of its keys; `None` at the beginning of the index.
    pub(crate) from: Option<Vec<u8>>,
    /// Upper bound of its keys, exclusive; `None` at the end of the index.
    pub(crate) below: Option<Vec<u8>>,
}

impl Gap {
    /// True if a key is in the range.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.from.as_deref().is_none_or(|from| key >= from)
            && self.below.as_deref().is_none_or(|below| key < below)
    }
}

/// Receives the entries and gaps that a walk finds.
pub(super) trait Visit {
    /// True if the walk must read the value of `key` even if it is on overflow pages.
    fn wants(&self, key: &[u8]) -> bool;
    /// Called for an entry of a sound page. `value` is `None` if it is on overflow pages that are damaged or not
    /// wanted.
    fn entry(&mut self, key: &[u8], value: Option<&[u8]>);
    /// Called for a page that cannot be followed: `gap` is the range of the keys that the walk does not see.
    fn gap(&mut self, gap: Gap);
    /// True if the walk must stop.
    fn is_over(&self) -> bool {
        false
    }
}

/// A walk over every page of an index.
pub(super) struct Walk<'f> {
    file: &'f File,
    txn: u64,
    last_page: u64,
    /// One bit per page that is in use or listed as free.
    reached: Vec<u64>,
    pub(super) problems: Vec<String>,
    visit: &'f mut dyn Visit,
}

/// Number of pages and entries found in a tree.
#[derive(Default)]
struct TreeCounts {
    branch_pages: u64,
    leaf_pages: u64,
    overflow_pages: u64,
    entries: u64,
}

/// Position of a page: its level (the root has 1) and the range of its keys.
#[derive(Clone)]
struct PagePosition {
    level: u16,
    from: Option<Vec<u8>>,
    below: Option<Vec<u8>>,
}

impl<'f> Walk<'f> {
    pub(super) fn new(file: &'f File, meta: &Meta, visit: &'f mut dyn Visit) -> Self {
        let (txn, last_page) = (meta.txn, meta.last_page);
        let mut walk =
            Self { file, txn, last_page, reached: Vec::new(), problems: Vec::new(), visit };
        walk.reset_reached();
        walk
    }

    /// Marks all pages as not reached, except the two meta pages.
    pub(super) fn reset_reached(&mut self) {
        self.reached = vec![0; (self.last_page / 64 + 1) as usize];
        self.reached[0] = 0b11;
    }

    /// Adds a problem to the list, up to [`PROBLEMS_MAX`].
    fn report(&mut self, trouble: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(trouble);
        }
    }

    /// Walks a tree from its root and verifies its pages. If there is no problem, compares the numbers of pages and
    /// entries with the recorded ones, and reports a difference.
    pub(super) fn tree(&mut self, tree: &Tree, keys: Keys) {
        let place = PagePosition { level: 1, from: None, below: None };
        if !keys.depth_is_sound(tree) {
            let trouble = format!("a tree of depth {} is described wrongly", tree.depth);
            // No page has the level `u16::MAX`, so the root does not count as a leaf.
            return self.lose(tree.root.unwrap_or(0), &place, u16::MAX, keys, trouble);
        }
        let mut met = TreeCounts::default();
        if let Some(root) = tree.root {
            self.page(root, place, tree.depth, keys, &mut met);
        }
        let recorded = [tree.branch_pages, tree.leaf_pages, tree.overflow_pages, tree.entries];
        let found = [met.branch_pages, met.leaf_pages, met.overflow_pages, met.entries];
        if self.problems.is_empty() && recorded != found {
            self.report(format!(
                "a tree has {found:?} pages and entries, {recorded:?} are recorded"
            ));
        }
    }

    /// True if a page was reached.
    pub(super) fn is_reached(&self, number: u64) -> bool {
        self.reached.get((number / 64) as usize).is_none_or(|word| word & 1 << (number % 64) != 0)
    }

    /// Marks a page as reached. Fails if the page does not exist or was reached before.
    fn reach(&mut self, number: u64, what: &str) -> Result<(), String> {
        if number < 2 || number > self.last_page {
            return Err(format!("{what} {number} does not exist"));
        }
        if self.is_reached(number) {
            return Err(format!("{what} {number} is used twice"));
        }
        self.reached[(number / 64) as usize] |= 1 << (number % 64);
        Ok(())
    }

    /// Reports a page that cannot be followed, in a tree of `depth` levels.
    fn lose(&mut self, page: u64, place: &PagePosition, depth: u16, keys: Keys, trouble: String) {
        self.report(trouble);
        if keys == Keys::Bytes {
            let PagePosition { level, from, below } = place.clone();
            // A page that is also used elsewhere does not prove that its entries belong to this gap.
            let holds_entries = level == depth && !self.is_reached(page);
            self.visit.gap(Gap { page, holds_entries, from, below });
        }
    }

    /// Visits a page and the pages below it, in a tree of `depth` levels. A page that is damaged, or was reached
    /// before, is reported as lost.
    fn page(
        &mut self,
        number: u64,
        place: PagePosition,
        depth: u16,
        keys: Keys,
        met: &mut TreeCounts,
    ) {
        if self.visit.is_over() {
            return;
        }
        let kind = if place.level < depth { PageKind::Branch } else { PageKind::Leaf };
        let page = read_page(self.file, number).filter(|_| number <= self.last_page);
        let page = page.ok_or_else(|| format!("page {number} does not exist"));
        let nodes = page.as_deref().map_err(Clone::clone).and_then(|page| {
            let nodes = sound_nodes(page, number, &place, kind, keys)?;
            self.reach(number, "page").map(|()| nodes)
        });
        match (nodes, kind) {
            (Err(trouble), _) => self.lose(number, &place, depth, keys, trouble),
            (Ok(nodes), PageKind::Branch) => {
                met.branch_pages += 1;
                self.children(&nodes, &place, depth, keys, met);
            }
            (Ok(nodes), PageKind::Leaf) => self.leaf(&nodes, keys, met),
        }
    }

    /// Counts a leaf page and visits its entries.
    fn leaf(&mut self, nodes: &[Node<'_>], keys: Keys, met: &mut TreeCounts) {
        met.leaf_pages += 1;
        met.entries += nodes.len() as u64;
        nodes.iter().for_each(|node| self.entry(node, keys, met));
    }

    /// Visits an orphan leaf page, to which no other page refers, if it is sound.
    pub(super) fn visit_orphan(&mut self, number: u64, page: &[u8]) {
        let place = PagePosition { level: 1, from: None, below: None };
        let nodes = sound_nodes(page, number, &place, PageKind::Leaf, Keys::Bytes);
        if let (Ok(nodes), Ok(())) = (nodes, self.reach(number, "page")) {
            self.leaf(&nodes, Keys::Bytes, &mut TreeCounts::default());
        }
    }

    /// Visits the pages below a branch page, each with the bounds of its keys.
    fn children(
        &mut self,
        nodes: &[Node<'_>],
        place: &PagePosition,
        depth: u16,
        keys: Keys,
        met: &mut TreeCounts,
    ) {
        for (index, node) in nodes.iter().enumerate() {
            let Content::Child(number) = node.content else { continue };
            // The first key of a branch page is not stored: it is the lower bound of the page.
            let from = if index == 0 { place.from.clone() } else { Some(node.key.to_vec()) };
            let next = nodes.get(index + 1).map(|next| next.key.to_vec());
            let below = next.or_else(|| place.below.clone());
            self.page(
                number,
                PagePosition { level: place.level + 1, from, below },
                depth,
                keys,
                met,
            );
        }
    }

    /// Visits an entry of a leaf page: a list of free pages, or an entry of the index.
    fn entry(&mut self, node: &Node<'_>, keys: Keys, met: &mut TreeCounts) {
        let wanted = keys == Keys::Numbers || self.visit.wants(node.key);
        let big;
        let data = match node.content {
            Content::Child(_) => return,
            Content::Data(data) => Some(data),
            Content::Big { page, len } => {
                big = self.big(page, len, wanted, met);
                big.as_ref().ok().and_then(|pages| page::overflow_data(pages, len))
            }
        };
        match (keys, data) {
            (Keys::Numbers, Some(data)) => {
                self.free_pages(u64_at(node.key, 0).unwrap_or(u64::MAX), data);
            }
            (Keys::Numbers, None) => {}
            (Keys::Bytes, data) => self.visit.entry(node.key, data),
        }
    }

    /// Verifies the overflow pages, from page `first` on, that store `len` bytes. Returns the bytes of the pages if
    /// they are `wanted`, otherwise none. Reports damaged pages, and then returns an error.
    fn big(
        &mut self,
        first: u64,
        len: usize,
        wanted: bool,
        met: &mut TreeCounts,
    ) -> Result<Vec<u8>, ()> {
        let count = page::overflow_pages(len);
        if count > self.last_page {
            self.report(format!("page {first} begins {len} bytes of data, more than the file has"));
            return Err(());
        }
        met.overflow_pages += count;
        let mut reach = |step| self.reach(first.saturating_add(step), "overflow page");
        if let Err(trouble) = (0..count).try_for_each(&mut reach) {
            self.report(trouble);
            return Err(());
        }
        let head = read_page(self.file, first);
        if !head.is_some_and(|head| page::is_overflow(&head, first, count)) {
            self.report(format!("page {first} does not begin {len} bytes of data"));
            return Err(());
        }
        let wanted = if wanted { count } else { 0 };
        let pages = (first..first + wanted).map(|number| read_page(self.file, number));
        Ok(pages.collect::<Option<Vec<_>>>().unwrap_or_default().concat())
    }

    /// Verifies a list of pages that transaction `txn` freed: a count, then page numbers in descending order.
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
            if let Err(trouble) = self.reach(number, "free page") {
                self.report(trouble);
            }
        }
    }
}

/// First and last key of a sound leaf page; `None` for all other pages. Its position in the tree is not checked.
pub(super) fn key_range(page: &[u8], number: u64) -> Option<(&[u8], &[u8])> {
    let place = PagePosition { level: 1, from: None, below: None };
    let nodes = sound_nodes(page, number, &place, PageKind::Leaf, Keys::Bytes).ok()?;
    Some((nodes.first()?.key, nodes.last()?.key))
}

/// The nodes of a page that fits its position. The error says why it does not.
fn sound_nodes<'p>(
    page: &'p [u8],
    number: u64,
    place: &PagePosition,
    kind: PageKind,
    keys: Keys,
) -> Result<Vec<Node<'p>>, String> {
    let nodes = page::nodes(page, number, kind);
    let sound = nodes.and_then(|nodes| match disorder(&nodes, place, kind, keys) {
        None => Ok(nodes),
        Some(trouble) => Err(trouble),
    });
    sound.map_err(|trouble| format!("page {number} {trouble}"))
}

/// Checks the order of keys on a page; returns a description of the first error, if any. The first key of a branch page
/// is not stored.
fn disorder(
    nodes: &[Node<'_>],
    place: &PagePosition,
    kind: PageKind,
    keys: Keys,
) -> Option<&'static str> {
    let least = usize::from(kind == PageKind::Branch && keys == Keys::Bytes) + 1;
    if nodes.len() < least || nodes.len() > PAGE / 2 {
        return Some("has too few nodes");
    }
    let stored = nodes.get(usize::from(kind == PageKind::Branch)..).unwrap_or_default();
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
