//! Merges the results of several targets or nodes.
use esker_types::ops::{Anchor, Edge, KeyFound};
use esker_types::{KeyKind, ObjectId, Result, encode_key};

/// The first `entries` of the objects `found`, which each target listed after `anchor`. The anchor advances to the last
/// one, or to its end if there are fewer. Its shard is not used: objects are in the order of their ids.
#[must_use]
pub fn merge_objects(
    mut found: Vec<ObjectId>,
    anchor: &mut Anchor,
    entries: usize,
) -> Vec<ObjectId> {
    found.sort_unstable();
    found.dedup();
    found.truncate(entries);
    *anchor = match found.last() {
        Some(last) if found.len() == entries => {
            Anchor::After { shard: 0, position: last.to_bytes().to_vec() }
        }
        _ => Anchor::End,
    };
    found
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
