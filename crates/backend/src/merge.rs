//! Merges the results of several targets or nodes.
use esker_types::ops::{Anchor, Edge, KeyFound};
use esker_types::{KeyKind, ObjectId, Result, encode_key};

/// The first `entries` of the objects `found`, which each target listed after `anchor`. The anchor advances to the last
/// one, or to its end if there are fewer. It stays if no entries are wanted. Its shard is not used: objects are in the
/// order of their ids.
#[must_use]
pub fn merge_objects(
    mut found: Vec<ObjectId>,
    anchor: &mut Anchor,
    entries: usize,
) -> Vec<ObjectId> {
    if entries == 0 {
        return Vec::new(); // The listing goes on: there may be objects.
    }
    found.sort_unstable();
    found.dedup();
    found.truncate(entries);
    *anchor = match found.last() {
        Some(last) if found.len() == entries => after(*last),
        _ => Anchor::End,
    };
    found
}

/// Merges pages of objects of several nodes as [`merge_objects`] does. Each page has the anchor at which the node continues:
/// a node may send fewer than were asked for. Objects behind the last one of such a page wait for the next call, since
/// that node may have others before them.
#[must_use]
pub fn merge_pages(
    pages: Vec<(Vec<ObjectId>, Anchor)>,
    anchor: &mut Anchor,
    entries: usize,
) -> Vec<ObjectId> {
    let is_cut = |(_, next): &&(Vec<ObjectId>, Anchor)| !next.is_end();
    let bound = pages.iter().filter(is_cut).filter_map(|(found, _)| found.last()).min().copied();
    let mut found: Vec<_> = pages.into_iter().flat_map(|(found, _)| found).collect();
    found.retain(|oid| bound.is_none_or(|bound| *oid <= bound));
    let found = merge_objects(found, anchor, entries);
    if let Some(bound) = bound.filter(|_| anchor.is_end()) {
        *anchor = after(bound);
    }
    found
}

/// The anchor behind an object.
fn after(oid: ObjectId) -> Anchor {
    Anchor::After { shard: 0, position: oid.to_bytes().to_vec() }
}

/// The first or last (`edge`) of the targets' results of one query, in the order of their dkeys, which are of this
/// `kind`. `None` if no target found anything.
///
/// # Errors
/// `Invalid` for a dkey of another kind.
pub fn outermost(
    kind: KeyKind,
    edge: Edge,
    found: impl IntoIterator<Item = KeyFound>,
) -> Result<Option<KeyFound>> {
    let mut best: Option<(Vec<u8>, KeyFound)> = None;
    for found in found {
        let mut encoded = Vec::new();
        encode_key(kind, &found.dkey, &mut encoded)?;
        let better = best.as_ref().is_none_or(|(best, _)| match edge {
            Edge::Min => encoded < *best,
            Edge::Max => encoded > *best,
        });
        if better {
            best = Some((encoded, found));
        }
    }
    Ok(best.map(|(_, found)| found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oids(range: impl Iterator<Item = u64>) -> Vec<ObjectId> {
        range.map(|lo| ObjectId { hi: 0, lo }).collect()
    }

    #[test]
    fn listing_of_no_entries_stays_where_it_is() {
        for begin in [Anchor::Start, after(ObjectId { hi: 0, lo: 1 })] {
            let mut anchor = begin.clone();
            assert_eq!(merge_objects(oids(2..9), &mut anchor, 0), []);
            assert_eq!(anchor, begin);
        }
    }

    /// Each node sends at most three objects of a page.
    #[test]
    fn pages_that_nodes_cut_are_continued() {
        let nodes = [oids((1..30).step_by(2)), oids(0..7), oids([8, 9].into_iter()), Vec::new()];
        for entries in [1, 2, 3, 5, 100] {
            let (mut anchor, mut all) = (Anchor::Start, Vec::new());
            while !anchor.is_end() {
                let pages = nodes.iter().map(|node| {
                    let mut left = node.clone();
                    left.retain(|oid| all.last().is_none_or(|last| oid > last));
                    let page: Vec<_> = left.iter().take(entries.min(3)).copied().collect();
                    let next = match page.len() == left.len() {
                        true => Anchor::End,
                        false => after(*page.last().unwrap()),
                    };
                    (page, next)
                });
                let found = merge_pages(pages.collect(), &mut anchor, entries);
                assert!(found.len() <= entries);
                all.extend(found);
                assert!(anchor.is_end() || anchor == after(*all.last().unwrap()));
            }
            let mut expected = nodes.concat();
            expected.sort();
            expected.dedup();
            assert_eq!(all, expected, "{entries} entries");
        }
    }
}
