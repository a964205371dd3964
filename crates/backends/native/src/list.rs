//! Listings and queries over several targets.
use esker_backend::{merge_objects, outermost};
use esker_store::OpenPool;
use esker_types::info::ContainerId;
use esker_types::ops::{Anchor, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt};
use esker_types::{KeyBatch, ObjectId, Result};

/// An object, or a whole container, being listed.
pub(super) struct Lister<'l> {
    pub(super) open: &'l OpenPool,
    pub(super) container: ContainerId,
    /// The object; the default if the container's objects are listed.
    pub(super) oid: ObjectId,
    pub(super) at: ReadAt<'l>,
}

impl Lister<'_> {
    /// Lists the next keys of the shards, one shard after the other. An error does not change the anchor: the call can
    /// be repeated.
    pub(super) fn keys(
        &self,
        shards: &[u32],
        scope: KeyScope<'_>,
        anchor: &mut Anchor,
        limit: ListLimit,
    ) -> Result<KeyBatch> {
        let (mut keys, mut next) = (KeyBatch::default(), anchor.clone());
        let mut turn = first_turn(shards, &mut next)?;
        while let Some(&shard) = shards.get(turn) {
            let rest = ListLimit {
                entries: limit.entries.saturating_sub(keys.len()),
                bytes: limit.bytes.saturating_sub(keys.byte_len()),
            };
            if rest.entries == 0 {
                break;
            }
            let before = next.clone();
            let target = &self.open.targets[shard as usize];
            let found =
                target.list_keys(self.container, self.oid, scope, &mut next, rest, self.at)?;
            if !keys.is_empty() && found.byte_len() > rest.bytes {
                // A first key that does not fit into the rest of the buffer waits for the next call.
                next = before;
                break;
            }
            found.iter().for_each(|key| keys.push(key));
            if !next.is_end() {
                break;
            }
            turn += 1;
            next = shards
                .get(turn)
                .map_or(Anchor::End, |&shard| Anchor::After { shard, position: Vec::new() });
        }
        *anchor = next;
        Ok(keys)
    }

    /// Lists the next objects of the container by merging the targets' lists.
    pub(super) fn objects(&self, anchor: &mut Anchor, entries: usize) -> Result<Vec<ObjectId>> {
        let after = match anchor {
            Anchor::Start => None,
            Anchor::End => return Ok(Vec::new()),
            Anchor::After { position, .. } => Some(object_at(position)?),
        };
        let mut found = Vec::new();
        for target in &self.open.targets {
            found.extend(target.list_objects(self.container, after, entries, self.at)?);
        }
        Ok(merge_objects(found, anchor, entries))
    }

    /// The smallest or largest result of the shards; `None` if none has a result.
    pub(super) fn query(&self, shards: &[u32], query: KeyQuery<'_>) -> Result<Option<KeyFound>> {
        let mut found = Vec::new();
        for &shard in shards {
            let target = &self.open.targets[shard as usize];
            found.extend(target.query_key(self.container, self.oid, query, self.at)?);
        }
        outermost(self.oid.dkey_kind(), query.edge, found)
    }
}

fn object_at(position: &[u8]) -> Result<ObjectId> {
    position.try_into().map(ObjectId::from_bytes).map_err(|_| Anchor::foreign())
}

/// Index in `shards` of the anchor's shard; a new anchor is set to the first.
fn first_turn(shards: &[u32], anchor: &mut Anchor) -> Result<usize> {
    match anchor {
        Anchor::End => Ok(shards.len()),
        Anchor::Start => {
            let shard = shards.first().copied().unwrap_or(0);
            *anchor = Anchor::After { shard, position: Vec::new() };
            Ok(0)
        }
        Anchor::After { shard, .. } => {
            shards.iter().position(|known| known == shard).ok_or_else(Anchor::foreign)
        }
    }
}
