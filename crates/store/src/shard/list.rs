//! Listings of keys, extents and objects.
use super::{Scope, Target, scan};
use crate::format::keys::{Key, OBJECT_END, Table};
use crate::shared::control::container_slot;
use esker_types::info::ContainerId;
use esker_types::ops::{AkeyRef, Anchor, KeyScope, ListLimit, ReadAt, StoredExtent};
use esker_types::{Extent, KeyBatch, ObjectId, Result};

/// Position at which the listing of this shard continues; `None` if the anchor belongs to another shard or is at the
/// end.
fn resume(anchor: &Anchor, shard: u32) -> Option<&[u8]> {
    match anchor {
        Anchor::Start => Some(&[]),
        Anchor::After { shard: at, position } if *at == shard => Some(position),
        _ => None,
    }
}

impl Target {
    /// Lists the next dkeys or akeys of an object on this target. Sets the anchor to the last one, or to
    /// [`Anchor::End`].
    pub fn list_keys(
        &self,
        container: ContainerId,
        oid: ObjectId,
        scope: KeyScope<'_>,
        anchor: &mut Anchor,
        limit: ListLimit,
        at: ReadAt<'_>,
    ) -> Result<KeyBatch> {
        let (prefix, dkey_read) = match scope {
            KeyScope::Dkeys => (Key::object(Table::Data, container, oid), None),
            KeyScope::Akeys(dkey) => (Key::dkey(Table::Data, container, oid, dkey)?, Some(dkey)),
        };
        let view = self.view_of_object(Scope::Under(&prefix), at, container, oid, dkey_read)?;
        let position = resume(anchor, self.number).ok_or_else(Anchor::foreign)?;
        let mut scan = scan::Scan::new(&view, prefix.clone(), at.view)?;
        let mut keys = KeyBatch::default();
        // Entries of one key are adjacent, so the next key is found after the last of them.
        let mut from = match position {
            [] => prefix.clone(),
            last => prefix.clone().push(last).successor(),
        };
        let mut last = position.to_vec();
        *anchor = loop {
            let Some(visible) = scan.seek(&from)? else { break Anchor::End };
            let (parts, left_out) = (visible.parts()?, visible.record()?.left_out);
            let (key, group) = match scope {
                KeyScope::Dkeys => (parts.dkey(left_out)?, parts.dkey_prefix()),
                KeyScope::Akeys(_) => (parts.akey(left_out)?, parts.akey_prefix()),
            };
            let full = keys.len() >= limit.entries
                || (!keys.is_empty() && keys.byte_len() + key.len() > limit.bytes);
            if full {
                break Anchor::After { shard: self.number, position: last };
            }
            keys.push(&key);
            last = group[prefix.len()..].to_vec();
            from = Key::table(Table::Data).push(&group[1..]).successor();
        };
        Ok(keys)
    }

    /// Lists the next extents of an array akey, at most `entries`. Sets the anchor to the end of the last one, or to
    /// [`Anchor::End`].
    pub fn list_extents(
        &self,
        container: ContainerId,
        oid: ObjectId,
        key: AkeyRef<'_>,
        anchor: &mut Anchor,
        entries: usize,
        at: ReadAt<'_>,
    ) -> Result<Vec<StoredExtent>> {
        let akey = Key::dkey(Table::Data, container, oid, key.dkey)?.akey(oid, key.akey)?;
        let single = akey.single();
        let scope = Scope::Akeys(oid, std::slice::from_ref(&single));
        let view = self.view_of_object(scope, at, container, oid, Some(key.dkey))?;
        let Some(from) = anchor.record()? else { return Ok(Vec::new()) };
        if entries == 0 {
            return Ok(Vec::new()); // The listing goes on: there may be extents.
        }
        let mut found = Vec::new();
        let rest = Extent::new(from, u64::MAX - from);
        for visible in scan::extents(&view, &akey, rest, at.view, entries)? {
            let record = visible.record()?;
            // A rewritten extent may begin before the position. Only the part after the position is new.
            let extent = Extent::new(visible.start(), record.count).intersect(rest);
            found.push(StoredExtent {
                extent: extent.unwrap_or_default(),
                record_size: u64::from(record.record_size),
                epoch: record.epoch,
            });
        }
        *anchor = match found.last() {
            Some(last) if found.len() == entries => Anchor::at_record(last.extent.end()),
            _ => Anchor::End,
        };
        Ok(found)
    }

    /// Lists the next objects of a container, after `after`, that have data on this target; at most `entries`.
    pub fn list_objects(
        &self,
        container: ContainerId,
        after: Option<ObjectId>,
        entries: usize,
        at: ReadAt<'_>,
    ) -> Result<Vec<ObjectId>> {
        let prefix = Key::container(Table::Data, container);
        let view = self.view_of(Scope::Under(&prefix).at(at.view))?;
        if let Some(tokens) = at.tokens {
            view.note_slot_read(tokens, container_slot(container));
        }
        let mut scan = scan::Scan::new(&view, prefix.clone(), at.view)?;
        let mut found = Vec::new();
        let mut from = match after {
            None => prefix,
            Some(oid) => Key::object(Table::Data, container, oid).successor(),
        };
        while found.len() < entries {
            let Some(visible) = scan.seek(&from)? else { break };
            found.push(visible.parts()?.oid);
            from = Key::table(Table::Data).push(&visible.key[1..OBJECT_END]).successor();
        }
        Ok(found)
    }
}
