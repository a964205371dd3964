//! Containers of a damaged pool, and other information that is needed before its data is read.
use super::shard::Shard;
use super::{Losses, SalvagedContainer};
use crate::commit::Intent;
use crate::format::keys::{DataKey, Table, container_of};
use crate::index::pages::Finding;
use crate::pool::parse_container;
use crate::shard::change::IndexEdit;
use esker_types::info::{ContainerId, ContainerInfo};
use esker_types::{Extent, KeyKind, Result};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Containers and commits of a damaged pool, from all its indexes.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    /// Containers by number; 0 is the pool.
    pub(super) containers: BTreeMap<u32, SalvagedContainer>,
    destroyed: BTreeSet<u32>,
    /// UUIDs of containers by label.
    labels: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Containers from damaged pages.
    doubtful: Vec<(Vec<u8>, ContainerInfo)>,
    /// Keys on damaged pages that are accepted as correct.
    accepted: HashSet<Vec<u8>>,
    intents: Vec<Intent>,
    /// Epoch of the last commit over several targets that each target has applied; missing if unknown.
    applied: BTreeMap<u32, u64>,
    /// Number of prepared commits that another node decides.
    pub(super) prepared: u64,
    /// Numbers of unknown containers whose loss was reported.
    reported: BTreeSet<u32>,
}

impl Catalog {
    /// Reads the entries of all indexes that describe containers and commits.
    pub(super) fn read(shards: &[Shard]) -> Result<Self> {
        let mut catalog = Self::default();
        for shard in shards {
            let mut is_whole = shard.has_index() && shard.meta_damage().is_none();
            shard.visit(&mut |find| {
                match find {
                    Finding::Entry(key, value) => catalog.entry(shard.number(), key, value),
                    Finding::Doubtful(key, value) => catalog.add_doubtful(key, value),
                    Finding::Broken(_) => {}
                    Finding::Gap(_) => is_whole = false,
                }
                Ok(())
            })?;
            // No entry was lost. So if none has the last applied commit, no commit was applied.
            if is_whole {
                catalog.applied.entry(shard.number()).or_default();
            }
        }
        catalog.resolve_doubtful();
        Ok(catalog)
    }

    /// Adds an entry of the index of target `shard`. The keys that belong to a container begin with its number, of 4
    /// bytes.
    fn entry(&mut self, shard: u32, key: &[u8], value: &[u8]) {
        let (Some(table), [_, rest @ ..]) = (Table::of_key(key), key) else { return };
        let number = container_of(key);
        let scope = |containers: &mut BTreeMap<u32, SalvagedContainer>,
                     change: &dyn Fn(&mut SalvagedContainer)| {
            number.iter().for_each(|number| change(containers.entry(*number).or_default()));
        };
        match table {
            Table::Attribute => scope(&mut self.containers, &|found| {
                let name = String::from_utf8_lossy(rest.get(4..).unwrap_or_default()).into_owned();
                found.metadata.push((name, value.to_vec()));
            }),
            Table::Container => {
                if let Some(info) = parse_container(key, value) {
                    let number = info.id.0;
                    self.containers.entry(number).or_default().info = Some(info);
                }
            }
            Table::Label => drop(self.labels.insert(rest.to_vec(), value.to_vec())),
            Table::Oid => scope(&mut self.containers, &|found| {
                found.next_oid = value.try_into().ok().map(u64::from_le_bytes);
            }),
            // Every target has all snapshots.
            Table::Snapshot if shard == 0 => {
                scope(&mut self.containers, &|found| found.snapshots += 1)
            }
            Table::Prepared => self.prepared += 1,
            // The key of a destroyed snapshot is longer.
            Table::Destroyed if rest.len() == 4 => self.destroyed.extend(number),
            // D: the intent of the last commit. A: the epoch of the last applied commit.
            Table::Intent if rest == b"D" => self.intents.extend(Intent::parse(value)),
            Table::Intent if rest == b"A" => {
                let epoch = value.try_into().map(u64::from_le_bytes);
                self.applied.extend(epoch.ok().map(|epoch| (shard, epoch)));
            }
            _ => {}
        }
    }

    /// Notes a container in an entry of a damaged page, and ignores other entries. It is accepted later if its label,
    /// which is stored elsewhere, refers to it.
    fn add_doubtful(&mut self, key: &[u8], value: &[u8]) {
        let info = Some(key).filter(|key| Table::of_key(key) == Some(Table::Container));
        let info = info.and_then(|key| parse_container(key, value));
        self.doubtful.extend(info.map(|info| (key.to_vec(), info)));
    }

    /// Accepts containers of damaged pages whose label refers to them. Sorts the intents by epoch, since later edits
    /// replace earlier ones.
    fn resolve_doubtful(&mut self) {
        for (key, info) in std::mem::take(&mut self.doubtful) {
            let named = self.labels.get(info.label.as_bytes());
            let agrees = named.is_some_and(|uuid| uuid[..] == info.uuid.0);
            let found = self.containers.entry(info.id.0).or_default();
            if agrees && found.info.is_none() {
                found.info = Some(info);
                self.accepted.insert(key);
            }
        }
        self.intents.sort_by_key(|intent| intent.epoch);
    }

    /// True if an entry of a damaged page is accepted as correct.
    pub(super) fn has_accepted(&self, key: &[u8]) -> bool {
        self.accepted.contains(key)
    }

    /// Buffered puts of a target, and edits of decided commits that have not been carried out.
    pub(super) fn overlay_of(&self, shard: &Shard) -> Overlay {
        let mut overlay = Overlay::default();
        shard.buffered().for_each(|put| overlay.put(put.key, put.record));
        let shard = shard.number();
        // If it is unknown which commits this target has carried out, none is added.
        let Some(done) = self.applied.get(&shard) else { return overlay };
        for intent in self.intents.iter().filter(|intent| intent.epoch.0 > *done) {
            let parts = intent.parts.iter().filter(|(number, _)| *number == shard);
            parts.flat_map(|(_, steps)| steps).for_each(|step| overlay.add(step));
        }
        overlay
    }

    /// True for a key of a destroyed container. A container that is still listed is not destroyed.
    pub(super) fn is_destroyed(&self, key: &[u8]) -> bool {
        container_of(key)
            .is_some_and(|number| self.destroyed.contains(&number) && !self.is_known(number))
    }

    fn is_known(&self, number: u32) -> bool {
        self.containers.get(&number).is_some_and(|found| found.info.is_some())
    }

    /// Reports a container once if it has data but its label and UUID are lost.
    pub(super) fn report_if_unknown(&mut self, container: ContainerId, losses: &mut Losses) {
        if !self.is_known(container.0) && self.reported.insert(container.0) {
            losses.note(1, || format!("container number {}: its label and id", container.0));
        }
    }

    /// Name of a container in messages.
    fn name(&self, container: ContainerId) -> String {
        let info = self.containers.get(&container.0).and_then(|found| found.info.as_ref());
        match info {
            Some(info) if !info.label.is_empty() => format!("container {}", info.label),
            Some(info) => format!("container {}", info.uuid),
            None => format!("container number {}", container.0),
        }
    }

    /// Description of the object of a data key, for messages.
    pub(super) fn describe(&self, key: &[u8], extent: Option<Extent>) -> String {
        let Ok(parts) = DataKey::parse(key) else { return "an unknown object".to_owned() };
        let container = self.name(parts.container());
        let key = |kind, start: Option<(Vec<u8>, bool)>| match start {
            None => "?".to_owned(),
            Some((key, true)) => display_key(kind, &key),
            Some((start, false)) => format!("{}...", display_key(kind, &start)),
        };
        let dkey = key(parts.oid.dkey_kind(), parts.dkey_start());
        let akey = key(parts.oid.akey_kind(), parts.akey_start());
        let mut text = format!("{container}, object {}, dkey {dkey}, akey {akey}", parts.oid);
        match (extent, parts.start) {
            (Some(extent), _) => text += &format!(", records {} to {}", extent.start, extent.end()),
            (None, Some(start)) => text += &format!(", records from {start} on"),
            (None, None) => {}
        }
        text
    }

    /// Description of a bound of a gap, for messages. `edge` names the edge of the index that a gap without this bound
    /// reaches.
    pub(super) fn describe_bound(&self, key: Option<&[u8]>, edge: &str) -> String {
        let Some(key) = key else { return format!("the {edge} of the index") };
        let of_container = |what: &str| match container_of(key) {
            Some(0) | None => format!("{what} of the pool"),
            Some(number) => format!("{what} of {}", self.name(ContainerId(number))),
        };
        match Table::of_key(key) {
            Some(Table::Attribute) => of_container("the attributes"),
            Some(Table::Container | Table::Label) => "the list of containers".to_owned(),
            Some(Table::Data) => self.describe(key, None),
            Some(Table::History) => of_container("the history"),
            Some(Table::Oid) => of_container("the next object id"),
            _ => "the accounting of space".to_owned(),
        }
    }
}

/// Formats a key as its user knows it.
fn display_key(kind: KeyKind, key: &[u8]) -> String {
    match (kind, key.try_into()) {
        (KeyKind::Integer, Ok(bytes)) => u64::from_ne_bytes(bytes).to_string(),
        _ => format!("\"{}\"", String::from_utf8_lossy(key).escape_debug()),
    }
}

/// Edits of a target that are not in its index yet.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// New values by key; `None` for removed keys.
    entries: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Prefixes of removed keys.
    removed: Vec<Vec<u8>>,
}

impl Overlay {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.entries.insert(key.to_vec(), Some(value.to_vec()));
    }

    /// Adds an edit, which is later than all edits before.
    pub(super) fn add(&mut self, step: &IndexEdit) {
        match step {
            IndexEdit::Put(key, value) => self.put(key, value),
            IndexEdit::Delete(key) => drop(self.entries.insert(key.clone(), None)),
            IndexEdit::DeleteAll(prefix) => {
                self.entries.retain(|key, _| !key.starts_with(prefix));
                self.removed.push(prefix.clone());
            }
        }
    }

    /// True if an edit replaces or removes the entry of a key.
    pub(super) fn hides(&self, key: &[u8]) -> bool {
        self.entries.contains_key(key) || self.removed.iter().any(|prefix| key.starts_with(prefix))
    }

    /// Keys and values of the entries that the edits put; removed keys are omitted.
    pub(super) fn into_puts(self) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        self.entries.into_iter().filter_map(|(key, value)| Some((key, value?)))
    }
}
