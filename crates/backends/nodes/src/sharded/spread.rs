//! Listings that go from node to node, and the batching of requests.
use esker_types::limits::TX_OPS_MAX;
use esker_types::ops::{Anchor, DkeyFetch, Fetch, Update, Value, Wanted, Write, WriteOp};
use esker_types::{ObjectId, Result};
use esker_wire::frame::{BULK_MAX, MESSAGE_MAX};
use std::collections::HashMap;
use std::ops::Add;

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

/// Most data, keys and items of one request.
#[derive(Clone, Copy)]
struct Limits {
    bytes: u64,
    keys: u64,
    items: usize,
}

/// Size of a request, unless a single item is larger. Several requests are in progress at a time.
const MODERATE: Limits = Limits { bytes: 4 << 20, keys: 4 << 20, items: 4096 };

/// Most that an engine accepts in one request. Writes to one dkey are in one request up to this size.
const MOST: Limits = Limits { bytes: BULK_MAX as u64, keys: MESSAGE_MAX as u64, items: TX_OPS_MAX };

/// Most bytes of an item in a message, apart from its keys and extents.
const ITEM_BYTES: u64 = 64;

/// Most bytes of an extent in a message.
const EXTENT_BYTES: u64 = 20;

/// Size of items that are sent together.
#[derive(Clone, Copy, Default)]
pub(crate) struct Size {
    /// Bytes of their data.
    pub(crate) bytes: u64,
    /// Bytes of the message: keys and extents.
    pub(crate) keys: u64,
    /// Number of items.
    pub(crate) items: usize,
}

impl Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let bytes = self.bytes.saturating_add(other.bytes);
        let keys = self.keys.saturating_add(other.keys);
        Self { bytes, keys, items: self.items.saturating_add(other.items) }
    }
}

/// The number of entries, of these sizes, that fit one request: at least one.
fn batch_len(mut sizes: impl Iterator<Item = Size>, limits: Limits) -> usize {
    let mut total = sizes.next().unwrap_or_default();
    let fits = |size: &Size| {
        total = total + *size;
        total.bytes <= limits.bytes && total.keys <= limits.keys && total.items <= limits.items
    };
    1 + sizes.take_while(fits).count()
}

/// Splits a list into batches within the limits, unless a single entry is larger.
fn batches<T>(mut list: &[T], size: impl Fn(&T) -> Size, limits: Limits) -> Vec<&[T]> {
    let mut batches = Vec::new();
    while !list.is_empty() {
        let (batch, rest) = list.split_at(batch_len(list.iter().map(&size), limits));
        batches.push(batch);
        list = rest;
    }
    batches
}

/// Splits a list into batches that each fit into a request. `size` returns the size of an entry.
pub(crate) fn batches_mut<T>(mut list: &mut [T], size: impl Fn(&T) -> Size) -> Vec<&mut [T]> {
    let mut batches = Vec::new();
    while !list.is_empty() {
        let len = batch_len(list.iter().map(&size), MODERATE);
        let (batch, rest) = list.split_at_mut(len);
        batches.push(batch);
        list = rest;
    }
    batches
}

/// Splits writes into batches, which may be sent concurrently. All writes to a dkey are in one batch, in their order.
/// `writes` is sorted for that. A batch is a list of requests to send one after the other: only writes to a dkey that
/// are more than an engine accepts at once take several.
pub(crate) fn batches_of_writes<'s, 'w>(writes: &'s mut [Write<'w>]) -> Vec<Vec<&'s [Write<'w>]>> {
    if writes.iter().any(|write| matches!(write.op, WriteOp::PunchObject { .. })) {
        // It concerns every dkey of the object.
        return vec![batches(writes, size_of_write, MOST)];
    }
    group_by_dkey(writes);
    let mut rest: &[Write<'_>] = writes;
    let groups: Vec<_> = rest.chunk_by(|a, b| key_of(a) == key_of(b)).collect();
    let size =
        |group: &&[Write<'_>]| group.iter().map(size_of_write).fold(Size::default(), Add::add);
    let mut all = Vec::new();
    for groups in batches(&groups, size, MODERATE) {
        let (batch, others) = rest.split_at(groups.iter().map(|group| group.len()).sum());
        all.push(batches(batch, size_of_write, MOST));
        rest = others;
    }
    all
}

/// Sorts writes so that those to a dkey follow each other, in their order. Dkeys are in the order of their first writes.
fn group_by_dkey(writes: &mut [Write<'_>]) {
    let mut first = HashMap::with_capacity(writes.len());
    for (at, write) in writes.iter().enumerate() {
        first.entry(key_of(write)).or_insert(at);
    }
    if first.len() < writes.len() {
        writes.sort_by_cached_key(|write| first.get(&key_of(write)).copied());
    }
}

/// Object and dkey of a write. The dkey is empty for a punch of the object.
fn key_of<'a>(write: &Write<'a>) -> (ObjectId, &'a [u8]) {
    let dkey = match write.op {
        WriteOp::Update { dkey, .. }
        | WriteOp::PunchDkey { dkey, .. }
        | WriteOp::PunchAkeys { dkey, .. } => dkey,
        WriteOp::PunchObject { .. } => &[],
    };
    (write.oid, dkey)
}

/// Bytes that an item takes in a message.
fn message_len(key: &[u8], extents: usize) -> u64 {
    key.len() as u64 + extents as u64 * EXTENT_BYTES + ITEM_BYTES
}

/// Size of a write in a request: the bytes of its values, and its keys and extents.
fn size_of_write(write: &Write<'_>) -> Size {
    let items = 1;
    let of_keys = |dkey, akeys: u64| Size { bytes: 0, keys: message_len(dkey, 0) + akeys, items };
    match write.op {
        WriteOp::Update { dkey, updates, .. } => {
            updates.iter().map(size_of_update).fold(of_keys(dkey, 0), Add::add)
        }
        WriteOp::PunchAkeys { dkey, akeys, .. } => {
            of_keys(dkey, akeys.iter().map(|akey| message_len(akey, 0)).sum())
        }
        WriteOp::PunchDkey { dkey, .. } => of_keys(dkey, 0),
        WriteOp::PunchObject { .. } => of_keys(&[], 0),
    }
}

/// Size of an update in the request of its write, which is one item.
fn size_of_update(update: &Update<'_>) -> Size {
    let (bytes, extents) = match &update.value {
        Value::Single(data) => (data.len(), 0),
        Value::Array { data, extents, .. } => (data.len(), extents.len()),
        Value::PunchExtents(extents) => (0, extents.len()),
    };
    Size { bytes, keys: message_len(update.akey, extents), items: 0 }
}

/// Size of a fetch in a request: all its buffers, which are the most that it can return, its keys and extents, and its
/// akeys.
pub(crate) fn size_of_fetch(dkey: &DkeyFetch<'_, '_>) -> Size {
    let size = |akey: &Fetch<'_>| {
        let extents = match akey.request.wanted {
            Wanted::Single => 0,
            Wanted::Array(extents) => extents.len(),
        };
        let keys = message_len(akey.request.akey, extents);
        Size { bytes: akey.reply.sink.len(), keys, items: 1 }
    };
    let own = Size { bytes: 0, keys: message_len(dkey.dkey, 0), items: 0 };
    let all = dkey.akeys.iter().map(size).fold(own, Add::add);
    Size { items: all.items.max(1), ..all }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::ops::{Cond, Sink, Source};

    /// A batch has at most four mebibytes and 4096 items, or one entry that is larger.
    #[test]
    fn requests_have_a_moderate_size() {
        let lens = |sizes: &[(u64, usize)]| {
            let size = |&(bytes, items): &(u64, usize)| Size { bytes, keys: 0, items };
            batches(sizes, size, MODERATE).iter().map(|batch| batch.len()).collect::<Vec<_>>()
        };
        let mib = 1 << 20;
        assert_eq!(lens(&[(mib, 1); 9]), [4, 4, 1]);
        assert_eq!(lens(&[(9 * mib, 1), (9 * mib, 1), (0, 1), (0, 1)]), [1, 1, 2]);
        assert_eq!(lens(&[(63, 1); 10_000]), [4096, 4096, 1808]);
        assert_eq!(lens(&[(1, 4096), (1, 5000), (1, 1)]), [1, 1, 1]);
        assert!(lens(&[]).is_empty());
    }

    const OID: ObjectId = ObjectId { hi: 1, lo: 1 };

    /// Batches of writes of this length to the dkeys `1` and so on. Returns the dkeys and the first bytes of the data in
    /// each request.
    fn requests(dkeys: &[u8], len: usize) -> Vec<Vec<Vec<(u8, u8)>>> {
        let data: Vec<_> = (0..dkeys.len()).map(|at| vec![at as u8; len]).collect();
        let update = |data| [Update { akey: b"a", value: Value::Single(data), cond: Cond::NONE }];
        let updates: Vec<_> = data.iter().map(|data| update(Source::One(data))).collect();
        let write = |(dkey, updates)| {
            let op =
                WriteOp::Update { dkey: std::slice::from_ref(dkey), cond: Cond::NONE, updates };
            Write { oid: OID, op }
        };
        let updates = updates.iter().map(|updates| &updates[..]);
        let mut writes: Vec<_> = dkeys.iter().zip(updates).map(write).collect();
        let shown = |write: &Write<'_>| match write.op {
            WriteOp::Update { dkey, updates: [update], .. } => match update.value {
                Value::Single(Source::One(data)) => (dkey[0], data[0]),
                _ => (0, 0),
            },
            _ => (0, 0),
        };
        let shown = |request: &&[Write<'_>]| request.iter().map(shown).collect();
        batches_of_writes(&mut writes)
            .iter()
            .map(|batch| batch.iter().map(shown).collect())
            .collect()
    }

    /// The second write to dkey 1 is not sent beside the first one.
    #[test]
    fn writes_to_a_dkey_are_one_request_in_their_order() {
        let mib = 1 << 20;
        assert_eq!(
            requests(&[1, 2, 1, 3], 3 * mib),
            [vec![vec![(1, 0), (1, 2)]], vec![vec![(2, 1)]], vec![vec![(3, 3)]]]
        );
        assert_eq!(requests(&[1, 2, 1, 3], 1), [vec![vec![(1, 0), (1, 2), (2, 1), (3, 3)]]]);
        assert_eq!(requests(&[3, 2, 1], 1), [vec![vec![(3, 0), (2, 1), (1, 2)]]]);
    }

    /// Keys are in the message of a request, which has a limit of its own. Their writes and fetches have no data.
    #[test]
    fn long_keys_are_spread_over_requests() {
        let key = vec![7; 1 << 20];
        let punch = Write { oid: OID, op: WriteOp::PunchDkey { dkey: &key, cond: Cond::NONE } };
        let mut writes = [punch; 100];
        let requests = batches_of_writes(&mut writes);
        let lens: Vec<Vec<_>> =
            requests.iter().map(|batch| batch.iter().map(|of| of.len()).collect()).collect();
        assert_eq!(lens, [[63, 37]]);
        let mut akeys: Vec<_> = (0..10).map(|_| [Fetch::single(&key, Sink::None)]).collect();
        let fetch = |akeys| DkeyFetch { dkey: b"d", cond: Cond::NONE, akeys };
        let mut fetches: Vec<_> = akeys.iter_mut().map(|akeys| fetch(&mut akeys[..])).collect();
        let requests = batches_mut(&mut fetches, size_of_fetch);
        assert_eq!(requests.iter().map(|batch| batch.len()).collect::<Vec<_>>(), [3, 3, 3, 1]);
    }

    /// They are sent one after the other, not concurrently.
    #[test]
    fn writes_to_a_dkey_beyond_the_limit_of_a_request_are_sent_in_turn() {
        let punch = Write { oid: OID, op: WriteOp::PunchDkey { dkey: b"1", cond: Cond::NONE } };
        let mut writes = vec![punch; TX_OPS_MAX + 1];
        let batches = batches_of_writes(&mut writes);
        let lens: Vec<_> = batches.iter().map(|batch| batch.iter().map(|of| of.len())).collect();
        let lens: Vec<Vec<_>> = lens.into_iter().map(Iterator::collect).collect();
        assert_eq!(lens, [[TX_OPS_MAX, 1]]);
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
