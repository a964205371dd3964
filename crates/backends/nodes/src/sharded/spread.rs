//! Listings that go from node to node, and the batching of requests.
use esker_types::Result;
use esker_types::ops::Anchor;

/// Bits of an anchor's shard for the number of the target on its node. DAOS's anchors have 16 bits for a shard.
const TARGET_BITS: u32 = 6;

/// Set in an anchor's shard if the listing of its node has not begun.
const NOT_BEGUN: u32 = 1 << 15;

/// A listing that goes from node to node.
pub(crate) struct Listing {
    /// The nodes, in the order of the listing.
    nodes: Vec<usize>,
    /// Index of the current one.
    turn: usize,
    /// Anchor of the listing on this node.
    inner: Anchor,
}

impl Listing {
    /// Continues at `anchor` a listing of `nodes`. Fails if the anchor belongs to another listing.
    pub(crate) fn at(anchor: &Anchor, nodes: Vec<usize>) -> Result<Self> {
        let (turn, inner) = match anchor {
            Anchor::Start => (0, Anchor::Start),
            Anchor::End => (nodes.len(), Anchor::End),
            Anchor::After { shard, position } => {
                let node = ((shard & !NOT_BEGUN) >> TARGET_BITS) as usize;
                let turn =
                    nodes.iter().position(|known| *known == node).ok_or_else(Anchor::foreign)?;
                let inner = match shard & NOT_BEGUN {
                    0 => Anchor::After {
                        shard: shard & ((1 << TARGET_BITS) - 1),
                        position: position.clone(),
                    },
                    _ => Anchor::Start,
                };
                (turn, inner)
            }
        };
        Ok(Self { nodes, turn, inner })
    }

    /// Returns the node whose entries come next in the listing; None at the end.
    pub(crate) fn node(&self) -> Option<usize> {
        self.nodes.get(self.turn).copied()
    }

    /// Returns the anchor of the listing on the current node.
    pub(crate) fn anchor(&self) -> Anchor {
        self.inner.clone()
    }

    /// Advances to `inner` on this node, or to the next node if the listing here has ended. True if it may continue at
    /// once.
    pub(crate) fn advance(&mut self, inner: Anchor) -> bool {
        let ended = inner.is_end();
        self.inner = if ended { Anchor::Start } else { inner };
        self.turn += usize::from(ended);
        ended
    }

    /// Converts the position to an anchor, from which a later call continues. Its shard is the node in the upper bits,
    /// and the target on the node in the lower [`TARGET_BITS`]. The bit [`NOT_BEGUN`] is set if nothing was listed on
    /// the node.
    pub(crate) fn into_anchor(self) -> Anchor {
        let Some(node) = self.node() else { return Anchor::End };
        let node = (node as u32) << TARGET_BITS;
        match self.inner {
            Anchor::After { shard, position } => Anchor::After { shard: node | shard, position },
            _ if self.turn == 0 => Anchor::Start,
            _ => Anchor::After { shard: node | NOT_BEGUN, position: Vec::new() },
        }
    }
}

/// Bytes of data per request, unless a single value is longer. Several requests are in progress at a time.
const BATCH_BYTES: u64 = 4 << 20;

/// The number of items, of these sizes in bytes, that fit one request: at least one.
fn batch_len(mut sizes: impl Iterator<Item = u64>) -> usize {
    let mut bytes = sizes.next().unwrap_or(0);
    let fits = |size: &u64| {
        bytes = bytes.saturating_add(*size);
        bytes <= BATCH_BYTES
    };
    1 + sizes.take_while(fits).count()
}

/// Splits a list of items into batches that each fit into a request. `size` returns the bytes of an item.
pub(crate) fn batches<T>(mut items: &[T], size: impl Fn(&T) -> u64) -> Vec<&[T]> {
    let mut batches = Vec::new();
    while !items.is_empty() {
        let (batch, rest) = items.split_at(batch_len(items.iter().map(&size)));
        batches.push(batch);
        items = rest;
    }
    batches
}

/// Splits a list of items into batches that each fit into a request. `size` returns the bytes of an item.
pub(crate) fn batches_mut<T>(mut items: &mut [T], size: impl Fn(&T) -> u64) -> Vec<&mut [T]> {
    let mut batches = Vec::new();
    while !items.is_empty() {
        let len = batch_len(items.iter().map(&size));
        let (batch, rest) = items.split_at_mut(len);
        batches.push(batch);
        items = rest;
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch has at most four mebibytes, or one item that is longer.
    #[test]
    fn requests_have_a_moderate_size() {
        let lens = |sizes: &[u64]| {
            batches(sizes, |size| *size).iter().map(|batch| batch.len()).collect::<Vec<_>>()
        };
        let mib = 1 << 20;
        assert_eq!(lens(&[mib; 9]), [4, 4, 1]);
        assert_eq!(lens(&[9 * mib, 9 * mib, 0, 0]), [1, 1, 2]);
        assert!(lens(&[]).is_empty());
    }

    /// A listing goes from node 1 to node 4. Its anchor leads to the node and the place there, and is refused once the
    /// node has left the list.
    #[test]
    fn a_listing_continues_at_its_anchor() {
        let nodes = vec![1, 4];
        let inner = Anchor::After { shard: 63, position: vec![7] };
        let mut listing = Listing::at(&Anchor::Start, nodes.clone()).unwrap();
        assert!(!listing.advance(inner.clone()));
        let anchor = listing.into_anchor();
        let mut listing = Listing::at(&anchor, nodes.clone()).unwrap();
        assert_eq!((listing.node(), listing.anchor()), (Some(1), inner));
        assert!(listing.advance(Anchor::End));
        let mut listing = Listing::at(&listing.into_anchor(), nodes.clone()).unwrap();
        assert_eq!((listing.node(), listing.anchor()), (Some(4), Anchor::Start));
        assert!(listing.advance(Anchor::End));
        assert_eq!(listing.into_anchor(), Anchor::End);
        assert!(Listing::at(&anchor, vec![4]).is_err());
    }
}
