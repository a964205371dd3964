//! What a salvage could not find.
use super::catalog::Catalog;
use super::shard::Shard;
use crate::keys::Table;
use crate::pages::Gap;
use esker_types::limits::LOSSES_TOLD_MAX;

/// What is lost, and how much.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// How many things.
    pub count: u64,
    /// The first of them ([`LOSSES_TOLD_MAX`]), in words.
    pub lines: Vec<String>,
}

impl Losses {
    /// Counts `count` lost things, that a line tells about.
    pub(super) fn note(&mut self, count: u64, line: impl FnOnce() -> String) {
        self.count += count;
        if self.lines.len() < LOSSES_TOLD_MAX {
            self.lines.push(line());
        }
    }

    /// Notes what is missing of an index of which `found` entries were found.
    pub(super) fn note_gaps(&mut self, shard: &Shard, catalog: &Catalog, gaps: &[Gap], found: u64) {
        let number = shard.number();
        if let Some(trouble) = shard.trouble() {
            self.note(1, || {
                format!(
                    "target {number}: what was written last: {trouble}, {} entries found",
                    found
                )
            });
        }
        let missing = shard.entries().saturating_sub(found);
        let needed: Vec<_> = gaps.iter().filter(|gap| is_needed(gap)).collect();
        if missing == 0 || (needed.is_empty() && !gaps.is_empty()) {
            return;
        }
        if gaps.is_empty() {
            self.note(0, || format!("target {number}: entries of the index, nobody knows where"));
        }
        for gap in needed {
            let (from, below) =
                (catalog.edge(gap.from.as_deref()), catalog.edge(gap.below.as_deref()));
            self.note(0, || {
                format!(
                    "target {number}: entries of page {} of the index, from {from} up to {below}",
                    gap.page
                )
            });
        }
        self.count += missing;
    }
}

/// True where a gap may have hidden what users stored: the rest tells of space and the past.
fn is_needed(gap: &Gap) -> bool {
    let from = gap.from.as_ref().and_then(|key| key.first().copied()).unwrap_or(0);
    let below = gap.below.as_ref().and_then(|key| key.first().copied()).unwrap_or(u8::MAX);
    let needed = [
        Table::Attribute,
        Table::Container,
        Table::Data,
        Table::Intent,
        Table::Label,
        Table::Oid,
        Table::Doomed,
    ];
    needed.iter().any(|table| (from..=below).contains(&(*table as u8)))
}
