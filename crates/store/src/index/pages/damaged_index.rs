//! Reads the entries of a damaged index that are still readable.
//!
//! Sound pages are visited through the tree. A page that cannot be followed leaves a gap in the range of keys. Lost
//! entries of a gap are searched for on orphan pages, to which nothing refers any more. In a sound index each page is
//! either in use or listed as free. So if the list of free pages is sound, an orphan page was lost with the gap.
use super::page::Meta;
use super::tree::{Gap, Keys, Visit, Walk, key_range};
use super::{PAGE, meta, page, read_page};
use esker_types::Result;
use std::cell::RefCell;
use std::fs::File;

/// An index file that may be damaged. It is opened read-only.
pub(crate) struct DamagedIndex {
    file: File,
    /// The newest state that a meta page describes.
    state: Option<Meta>,
    /// Damage of the meta pages, which affects the complete file.
    trouble: Option<String>,
}

/// An entry that was found in an index, or a gap.
pub(crate) enum Finding<'v> {
    /// An entry of a sound page.
    Entry(&'v [u8], &'v [u8]),
    /// An entry of a damaged page. The entry itself may be damaged.
    Doubtful(&'v [u8], &'v [u8]),
    /// A key whose value cannot be read.
    Broken(&'v [u8]),
    /// A page that cannot be followed. Entries found for its keys are reported too.
    Gap(&'v Gap),
}

impl DamagedIndex {
    /// Opens the newest state in a file that must have `bytes` bytes. If the two meta pages contradict each other, it
    /// is that of the one that is valid or has the later transaction.
    pub(crate) fn open(file: File, bytes: u64) -> Self {
        let pages = bytes / PAGE as u64;
        let (first, second) = (meta(&file, 0), meta(&file, 1));
        let newest = super::newest_meta(&file);
        let trouble = newest.as_ref().err().cloned();
        let newest = newest.ok().or(match (first, second) {
            (Ok(first), Ok(second)) if first.txn < second.txn => Some(second),
            (Ok(one), _) | (_, Ok(one)) => Some(one),
            _ => None,
        });
        let mut state = newest;
        if let Some(meta) = &mut state {
            meta.last_page = meta.last_page.min(pages.saturating_sub(1));
        }
        Self { file, state, trouble }
    }

    /// Damage of the meta pages, which affects the complete file, if any.
    pub(crate) fn meta_damage(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Transaction id of the last commit of the index; `None` if no meta page can be read.
    pub(crate) fn last_commit(&self) -> Option<u64> {
        self.state.as_ref().map(|meta| meta.txn)
    }

    /// Number of entries according to the meta page.
    pub(crate) fn entries(&self) -> u64 {
        self.state.as_ref().map_or(0, |meta| meta.main.entries)
    }

    /// True if no process has written to the file since it was opened.
    pub(crate) fn is_unchanged(&self) -> bool {
        let now = super::newest_meta(&self.file).map(|meta| meta.txn).ok();
        now.is_none() || now == self.state.as_ref().map(|meta| meta.txn)
    }

    /// Reports every readable entry and every gap. Values on overflow pages are read only for `wanted` keys.
    pub(crate) fn visit(
        &self,
        wanted: fn(&[u8]) -> bool,
        found: &mut dyn FnMut(Finding<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(meta) = &self.state else { return Ok(()) };
        let (file, gaps) = (&self.file, RefCell::default());
        let mut visitor = Visitor { file, wanted, found, gaps: &gaps, outcome: Ok(()) };
        let mut walk = Walk::new(file, meta, &mut visitor);
        walk.tree(&meta.free, Keys::Numbers);
        let free_is_sound = walk.problems.is_empty();
        // A damaged list may name pages that are in use, which would then seem to be used twice.
        if !free_is_sound {
            walk.reset_reached();
        }
        walk.tree(&meta.main, Keys::Bytes);
        let gaps = gaps.take();
        if free_is_sound && !gaps.is_empty() {
            for number in orphan_leaves(file, &walk, &gaps, meta.last_page) {
                read_page(file, number).iter().for_each(|page| walk.visit_orphan(number, page));
            }
        }
        visitor.outcome
    }
}

/// Numbers of leaf pages that the walk has not reached and whose first and last key are in the same gap. If two of them
/// have overlapping keys, one is outdated, and neither is returned.
fn orphan_leaves(file: &File, walk: &Walk<'_>, gaps: &[Gap], last_page: u64) -> Vec<u64> {
    let mut found: Vec<(Vec<u8>, Vec<u8>, u64)> = Vec::new();
    let mut number = 2;
    while number <= last_page {
        let page = Some(number).filter(|page| !walk.is_reached(*page));
        let page = page.and_then(|page| read_page(file, page)).unwrap_or_default();
        let range = key_range(&page, number);
        let fits =
            |(first, last): &(&[u8], &[u8])| gaps.iter().any(|gap| gap.has(first) && gap.has(last));
        found.extend(range.filter(fits).map(|(a, b)| (a.to_vec(), b.to_vec(), number)));
        // Data on overflow pages may look like a leaf page.
        number = number.saturating_add(page::overflow_length(&page, number).unwrap_or(1).max(1));
    }
    found.sort();
    let overlaps = |at: usize| at > 0 && found[at].0 <= found[at - 1].1;
    let alone = |at: &usize| !overlaps(*at) && (at + 1 == found.len() || !overlaps(at + 1));
    (0..found.len()).filter(alone).map(|at| found[at].2).collect()
}

/// Forwards entries and gaps to a callback.
struct Visitor<'v> {
    file: &'v File,
    wanted: fn(&[u8]) -> bool,
    found: &'v mut dyn FnMut(Finding<'_>) -> Result<()>,
    gaps: &'v RefCell<Vec<Gap>>,
    outcome: Result<()>,
}

impl Visitor<'_> {
    fn report(&mut self, find: Finding<'_>) {
        if self.outcome.is_ok() {
            self.outcome = (self.found)(find);
        }
    }
}

impl Visit for Visitor<'_> {
    fn wants(&self, key: &[u8]) -> bool {
        (self.wanted)(key)
    }

    fn entry(&mut self, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => self.report(Finding::Entry(key, value)),
            None if (self.wanted)(key) => self.report(Finding::Broken(key)),
            None => self.report(Finding::Entry(key, &[])),
        }
    }

    /// Reports the gap, then the entries on the damaged page that may belong to it.
    fn gap(&mut self, gap: Gap) {
        self.report(Finding::Gap(&gap));
        let page = Some(gap.page).filter(|_| gap.holds_entries);
        let page = page.and_then(|number| read_page(self.file, number)).unwrap_or_default();
        for (key, value) in page::salvage_nodes(&page) {
            if gap.has(key) {
                self.report(Finding::Doubtful(key, value));
            }
        }
        self.gaps.borrow_mut().push(gap);
    }

    fn is_over(&self) -> bool {
        self.outcome.is_err()
    }
}
