//! Writes: fast paths for common cases, and a general path for all others.
use super::backend::Container;
use super::blobs::{BlobChanges, is_in_object};
use super::loaded::{Loaded, Want};
use super::names::{self, CHUNK};
use super::patch::{Base, Guard, Patch};
use super::piece::{Location, Piece, stored_piece};
use super::proof::Proof;
use super::record::{self, APART};
use super::space::{Outcome, Space, contended_error};
use crate::librados::Compare;
use esker_backend::check::check_write;
use esker_backend::object::overlay::Overlay;
use esker_backend::object::records::{Records, Stored};
use esker_backend::object::tree::{AkeyPath, encode_akey, encode_dkey};
use esker_types::limits::{
    RADOS_CHUNKS_PER_TX_MAX, RADOS_DATA_MAX, RADOS_GUARDS_MAX, RADOS_INLINE_MAX,
    RADOS_PIECE_INLINE_MAX, RADOS_TRIES_MAX,
};
use esker_types::ops::{Change, Cond, ReadTokens, Source, Update, Value, Write, WriteOp};
use esker_types::{Epoch, Error, ErrorKind, Extent, FLAT_AKEY, ObjectId, Result};
use std::collections::{BTreeMap, BTreeSet};

/// A container and the writes to apply to it.
pub(super) struct Writer<'a> {
    pub(super) container: &'a Container,
    pub(super) space: Space,
    pub(super) targets: u32,
}

impl Writer<'_> {
    /// Applies all writes at one epoch, or none.
    pub(super) async fn write(&self, change: &Change<'_>) -> Result<Epoch> {
        let (writes, tokens) = (change.writes, change.tokens);
        if change.id.is_some() {
            return Err(Error::new(
                ErrorKind::NotSupported,
                "a rados pool does not support change ids: use a native pool",
            ));
        }
        writes.iter().try_for_each(check_write)?;
        if let (None, [write]) = (tokens, writes)
            && let Some(epoch) = self.try_fast_path(write).await?
        {
            return Ok(epoch);
        }
        if let (None, [Write { oid, op: WriteOp::PunchObject { cond: Cond::NONE } }]) =
            (tokens, writes)
            && names::is_array(*oid)
        {
            self.remove_surplus_chunks(*oid).await?;
        }
        for _ in 0..RADOS_TRIES_MAX {
            if let Some(epoch) = self.try_general_path(writes, tokens).await? {
                return Ok(epoch);
            }
            // The reads of the caller may be outdated, so a second attempt would fail as well.
            if tokens.is_some() {
                return Err(restart());
            }
        }
        Err(contended_error("of a container"))
    }

    /// Fast path for one value of one akey, if a guard can express the conditions. `None` if it cannot, or if the guard
    /// does not hold.
    async fn try_fast_path(&self, write: &Write<'_>) -> Result<Option<Epoch>> {
        let WriteOp::Update { dkey, cond: Cond::NONE, updates: [update] } = write.op else {
            return Ok(None);
        };
        match update.value {
            Value::Single(data) if data.len() <= RADOS_INLINE_MAX as u64 => {
                self.put(write.oid, dkey, update, data).await
            }
            Value::Array { record_size, extents: &[extent], data } => {
                let fits =
                    update.cond == Cond::NONE && update.akey == FLAT_AKEY && !extent.is_empty();
                let lengths = RADOS_PIECE_INLINE_MAX as u64 + 1..=RADOS_DATA_MAX as u64;
                match fits && lengths.contains(&data.len()) {
                    true => self.append(write.oid, dkey, (record_size, extent), data).await,
                    false => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// Stores a single value in its record, if that replaces another such value or none. `None` if it does not.
    async fn put(
        &self,
        oid: ObjectId,
        dkey: &[u8],
        update: &Update<'_>,
        data: Source<'_>,
    ) -> Result<Option<Epoch>> {
        // A chunk with an object of its own must be recorded first.
        if names::own_chunk(oid, dkey).is_some() {
            return Ok(None);
        }
        let (dkey, akey) = (encode_dkey(oid, dkey)?, encode_akey(oid, update.akey)?);
        let key = names::entry(&dkey, &akey);
        let epoch = Epoch::now();
        let mut patch = Patch::for_object(names::table(oid, &dkey, self.targets));
        // The first byte of a record is its kind: less than `APART` is a value in its record, or no record.
        patch.guards = match update.cond {
            Cond::AKEY_INSERT => vec![Guard::new(&key, Compare::Equal, b"")],
            Cond::AKEY_UPDATE => vec![
                Guard::new(&key, Compare::Greater, b""),
                Guard::new(&key, Compare::Less, &[APART]),
            ],
            _ => vec![Guard::new(&key, Compare::Less, &[APART])],
        };
        patch.sets.push((key, record::inline(epoch, &[&data.part(0, data.len())])));
        Ok(self.apply(&patch).await?.then_some(epoch))
    }

    /// Writes the first records of a chunk without reading the chunk before. `None` if the chunk may have records
    /// already, or is not a chunk of an Array: then the caller must read.
    async fn append(
        &self,
        oid: ObjectId,
        dkey: &[u8],
        (record_size, extent): (u64, Extent),
        data: Source<'_>,
    ) -> Result<Option<Epoch>> {
        let (encoded, akey) = (encode_dkey(oid, dkey)?, encode_akey(oid, FLAT_AKEY)?);
        if !names::has_data(oid, &encoded) {
            return Ok(None);
        }
        if let Some(chunk) = names::own_chunk(oid, dkey) {
            if self.container.known_chunks.has(oid, chunk) {
                return Ok(None);
            }
            self.record_chunks(oid, &[chunk]).await?;
        }
        let dkey = encoded;
        let key = names::entry(&dkey, &akey);
        let epoch = Epoch::now();
        // A copy, because the caller's buffer may change between computing the checksum and sending.
        let bytes = data.part(0, data.len()).into_owned();
        let mut records = Records::new(record_size);
        records.put(
            extent,
            stored_piece(Location::ObjectData(0), &bytes, self.space.checksum),
            epoch,
        );
        let mut patch = Patch::for_object(names::table(oid, &dkey, self.targets));
        patch.guards.push(Guard::new(&key, Compare::Equal, b""));
        patch.sets.push((key, record::encode(epoch, &Stored::Array(records))));
        patch.data = Some((None, bytes.into()));
        Ok(self.apply(&patch).await?.then_some(epoch))
    }

    /// Applies a patch to one object. False if a condition does not hold.
    async fn apply(&self, patch: &Patch<'_>) -> Result<bool> {
        Ok(self.space.apply(patch).await? == Outcome::Done)
    }

    /// Records chunks that are about to be created in the first object of their array.
    async fn record_chunks(&self, oid: ObjectId, chunks: &[u64]) -> Result<()> {
        let mut patch = Patch::for_object(names::shard(oid, 0));
        patch.sets = chunks.iter().map(|dkey| (names::chunk_key(*dkey), vec![1])).collect();
        self.space.apply(&patch).await?;
        chunks.iter().for_each(|dkey| self.container.known_chunks.add(oid, *dkey));
        Ok(())
    }

    /// The chunks that the first object of an array does not record yet. Recording a chunk again would change the
    /// object's version, and operations that depend on the version would be retried forever.
    async fn unrecorded_chunks(&self, oid: ObjectId, mut chunks: Vec<u64>) -> Result<Vec<u64>> {
        let keys: Vec<_> = chunks.iter().map(|dkey| names::chunk_key(*dkey)).collect();
        let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let found = self.space.entries(&names::shard(oid, 0), &wanted, None).await?;
        let known: BTreeSet<_> =
            found.unwrap_or_default().entries.into_iter().map(|entry| entry.key).collect();
        chunks.retain(|dkey| !known.contains(&names::chunk_key(*dkey)));
        Ok(chunks)
    }

    /// Applies writes of any kind: reads the stored state that they depend on, computes the changes, and stores them on
    /// condition that this state has not changed. `None` if another client has changed it meanwhile: the caller tries
    /// again.
    async fn try_general_path(
        &self,
        writes: &[Write<'_>],
        tokens: Option<&ReadTokens>,
    ) -> Result<Option<Epoch>> {
        let (mut crowded, mut loaded) = (self.crowded(writes)?, Loaded::default());
        for write in writes {
            self.load(&mut loaded, write, &mut crowded).await?;
        }
        self.apply_to(&loaded, writes, tokens).await
    }

    /// Applies writes to the state that was read. `None` if it has changed meanwhile.
    async fn apply_to(
        &self,
        loaded: &Loaded,
        writes: &[Write<'_>],
        tokens: Option<&ReadTokens>,
    ) -> Result<Option<Epoch>> {
        if loaded.is_torn {
            return Ok(None);
        }
        let epoch = Epoch::after(loaded.latest);
        let mut overlay = Overlay::new(&loaded.tree, epoch);
        writes.iter().try_for_each(|write| overlay.write(write))?;
        let changed = overlay.finish();
        let proofs = tokens.map(|tokens| Proof::all(tokens).ok_or_else(restart)).transpose()?;
        let proofs = proofs.unwrap_or_default();
        let mut work = Work::from_changes(self, loaded, changed);
        work.prove(&proofs)?;
        let outcome = work.carry_out(epoch).await?;
        Ok((outcome == Outcome::Done).then_some(epoch))
    }

    /// Removes the chunks of an Array, part by part, if they are too many for one transaction.
    async fn remove_surplus_chunks(&self, oid: ObjectId) -> Result<()> {
        let mut head = Loaded::default();
        head.read(&self.space, [(oid, names::shard(oid, 0), Want::All(CHUNK.to_vec()))]).await?;
        let chunks = head.chunks_of(oid);
        if chunks.len() > RADOS_CHUNKS_PER_TX_MAX {
            for part in chunks.chunks(RADOS_CHUNKS_PER_TX_MAX) {
                self.remove_chunks(oid, part).await?;
            }
        }
        Ok(())
    }

    /// Removes chunks that have RADOS objects of their own, in one transaction.
    async fn remove_chunks(&self, oid: ObjectId, chunks: &[u64]) -> Result<()> {
        let dkeys: Vec<_> = chunks.iter().map(|dkey| dkey.to_ne_bytes()).collect();
        let punch = |dkey| Write { oid, op: WriteOp::PunchDkey { dkey, cond: Cond::NONE } };
        let writes: Vec<_> = dkeys.iter().map(|dkey| punch(dkey.as_slice())).collect();
        for _ in 0..RADOS_TRIES_MAX {
            let mut loaded = Loaded::default();
            let whole = |dkey: &u64| (oid, names::chunk(oid, *dkey), Want::Whole);
            loaded.read(&self.space, chunks.iter().map(whole)).await?;
            if self.apply_to(&loaded, &writes, None).await?.is_some() {
                return Ok(());
            }
        }
        Err(contended_error("of an array"))
    }

    /// The RADOS objects in which the writes change more akeys than a change may have guards. It depends on the version of
    /// these objects. The objects of chunks are not among them, because reading all their entries means their removal.
    fn crowded(&self, writes: &[Write<'_>]) -> Result<Crowded> {
        let mut counts = BTreeMap::new();
        if writes.iter().map(|write| akeys_of(&write.op).1).sum::<usize>() > RADOS_GUARDS_MAX {
            for write in writes {
                let (dkey, count) = akeys_of(&write.op);
                let dkey = encode_dkey(write.oid, dkey)?;
                *counts.entry(names::table(write.oid, &dkey, self.targets)).or_default() += count;
            }
        }
        counts.retain(|object, count: &mut usize| {
            *count > RADOS_GUARDS_MAX && !names::is_chunk(object)
        });
        Ok(Crowded { objects: counts.into_keys().collect(), dkeys: BTreeSet::new() })
    }

    /// Reads the records that a write depends on: those it changes, and those that its conditions require. Of `crowded`
    /// objects, it reads all akeys of the dkey, once.
    async fn load(
        &self,
        loaded: &mut Loaded,
        write: &Write<'_>,
        crowded: &mut Crowded,
    ) -> Result<()> {
        let oid = write.oid;
        // `whole`: reads all akeys of the dkey (`true`), any one to see if it exists (`false`), or only those of the
        // write.
        let (dkey, akeys, whole): (&[u8], Vec<&[u8]>, Option<bool>) = match write.op {
            WriteOp::PunchObject { .. } => {
                return loaded.read_object(&self.space, oid, self.targets).await;
            }
            WriteOp::PunchDkey { dkey, .. } => (dkey, vec![], Some(true)),
            WriteOp::PunchAkeys { dkey, akeys, .. } => (dkey, akeys.to_vec(), None),
            WriteOp::Update { dkey, cond, updates } => {
                let akeys = updates.iter().map(|update| update.akey).collect();
                (dkey, akeys, (cond != Cond::NONE).then_some(false))
            }
        };
        let dkey = encode_dkey(oid, dkey)?;
        let object = names::table(oid, &dkey, self.targets);
        let key = |akey: &&[u8]| Ok(names::entry(&dkey, &encode_akey(oid, akey)?));
        let keys: Vec<_> = akeys.iter().map(key).collect::<Result<_>>()?;
        let mut wants = vec![(oid, object.clone(), Want::Keys(keys))];
        let prefix = names::entry(&dkey, &[]);
        let is_crowded = crowded.objects.contains(&object);
        match whole {
            _ if is_crowded && !crowded.dkeys.insert((object.clone(), prefix.clone())) => {
                return Ok(());
            }
            _ if is_crowded => wants = vec![(oid, object, Want::All(prefix))],
            Some(true) => wants = vec![(oid, object, Want::All(prefix))],
            Some(false) => wants.push((oid, object, Want::Any(prefix))),
            None => {}
        }
        loaded.read(&self.space, wants).await
    }
}

/// RADOS objects in which writes change more akeys than a change may have guards, and those of their dkeys whose akeys
/// were read.
struct Crowded {
    objects: BTreeSet<String>,
    dkeys: BTreeSet<(String, Vec<u8>)>,
}

/// Computed changes, as patches of RADOS objects.
struct Work<'a> {
    writing: &'a Writer<'a>,
    loaded: &'a Loaded,
    changed: BTreeMap<AkeyPath, Option<Stored<Piece>>>,
    patches: BTreeMap<String, Patch<'static>>,
}

impl<'a> Work<'a> {
    /// The patches that store what has changed in the loaded objects of Ceph.
    fn from_changes(
        writing: &'a Writer<'a>,
        loaded: &'a Loaded,
        changed: BTreeMap<AkeyPath, Option<Stored<Piece>>>,
    ) -> Self {
        let tables = loaded.tables.iter().map(|(object, table)| {
            let mut patch = Patch::for_object(object.clone());
            patch.base = match (table.ranged, table.version) {
                // Only single keys were read: guards on them replace the version of the object.
                (false, _) => Base::Any,
                (true, None) => Base::Absent,
                (true, Some(version)) => Base::Version(version),
            };
            (object.clone(), patch)
        });
        Self { writing, loaded, patches: tables.collect(), changed }
    }

    /// The RADOS object that has the record of an akey.
    fn object_of(&self, path: &AkeyPath) -> String {
        names::table(path.oid, &path.dkey, self.writing.targets)
    }

    /// Adds the reads of a transaction to the conditions.
    fn prove(&mut self, proofs: &[Proof]) -> Result<()> {
        for proof in proofs {
            let patch = self.patches.entry(proof.object.clone());
            let patch = patch.or_insert_with(|| Patch::for_object(proof.object.clone()));
            patch.proof = true;
            if !proof.key.is_empty() {
                patch.guards.push(Guard::new(&proof.key, Compare::Equal, &proof.value));
                continue;
            }
            // Without a key, the read depends on the version of the whole object.
            let base = match <[u8; 8]>::try_from(proof.value.as_slice()) {
                Ok(version) => Base::Version(u64::from_le_bytes(version)),
                Err(_) => Base::Absent,
            };
            if patch.base != Base::Any && patch.base != base {
                return Err(restart());
            }
            patch.base = base;
        }
        Ok(())
    }

    /// Stores the changes: in one operation if they concern one RADOS object, else in a transaction. New blobs are
    /// removed again on a conflict or error, and replaced ones afterwards.
    async fn carry_out(mut self, epoch: Epoch) -> Result<Outcome> {
        let changed = std::mem::take(&mut self.changed);
        self.record_new_chunks(&changed).await?;
        // Removals first: a patch that removes another object makes this a transaction.
        self.remove_emptied(&changed);
        let mut blobs = BlobChanges::new(&self.writing.space);
        match self.change_all(&mut blobs, changed, epoch).await {
            Ok(true) => {}
            stopped => {
                blobs.remove_new().await;
                return stopped.map(|_| Outcome::Conflict);
            }
        }
        let patches = self.patches.into_values().filter(Patch::is_needed);
        let patches: Vec<_> = patches.map(Patch::with_distinct_guards).collect();
        let outcome = self.writing.space.commit(patches).await;
        match &outcome {
            Ok(Outcome::Done) => blobs.remove_old().await,
            // If the change is committed, its records refer to the new blobs.
            Err(error) if may_be_committed(error) => {}
            Ok(Outcome::Conflict) | Err(_) => blobs.remove_new().await,
        }
        outcome
    }

    /// Adds all changes to the patches. False if data was changed meanwhile.
    async fn change_all(
        &mut self,
        blobs: &mut BlobChanges<'_>,
        changed: BTreeMap<AkeyPath, Option<Stored<Piece>>>,
        epoch: Epoch,
    ) -> Result<bool> {
        let alone = self.is_alone(&changed);
        for (path, new) in changed {
            if !self.change(blobs, path, new, epoch, alone).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if all changes and conditions concern one RADOS object. Only then can bytes be written to its data: the
    /// record of a transaction has no data, so another client that completes the transaction could not write it.
    fn is_alone(&self, changed: &BTreeMap<AkeyPath, Option<Stored<Piece>>>) -> bool {
        let objects: BTreeSet<_> = changed.keys().map(|path| self.object_of(path)).collect();
        let mut needed = self.patches.values().filter(|patch| patch.is_needed());
        objects.len() == 1 && needed.all(|patch| objects.contains(&patch.object))
    }

    /// Adds the change of one akey; `new` is `None` if it is removed. If it is the only object that changes (`alone`),
    /// bytes of an array are written to its data. False if that data was changed meanwhile.
    async fn change(
        &mut self,
        blobs: &mut BlobChanges<'_>,
        path: AkeyPath,
        new: Option<Stored<Piece>>,
        epoch: Epoch,
        alone: bool,
    ) -> Result<bool> {
        let object = self.object_of(&path);
        let key = names::entry(&path.dkey, &path.akey);
        let old = self.loaded.record(&object, &path).unwrap_or_default();
        blobs.forget(old);
        let owner = (object.as_str(), key.as_slice(), old);
        let in_object = alone && is_of_array(&path)?;
        let placed = match new {
            None => None,
            Some(stored) => match blobs.store(stored, owner, in_object).await? {
                Some(placed) => Some(placed),
                None => return Ok(false),
            },
        };
        let is_used = placed.as_ref().is_some_and(|placed| is_in_object(&placed.stored));
        let keyed = self.loaded.tables.get(&object).is_none_or(|table| table.keyed);
        let patch =
            self.patches.entry(object.clone()).or_insert_with(|| Patch::for_object(&*object));
        if keyed {
            patch.guards.push(Guard::new(&key, Compare::Equal, old));
        }
        // The last record that refers to the object's data is gone: the data is emptied.
        if in_object && !is_used && record::decode(old).is_some_and(|(_, old)| is_in_object(&old)) {
            patch.data = Some((None, (&[]).into()));
        }
        match placed {
            // The entries are removed with their object.
            None if patch.remove => {}
            None => patch.unsets.push(key),
            Some(placed) => {
                patch.sets.push((key, record::encode(epoch, &placed.stored)));
                patch.data =
                    placed.data.map(|(at, bytes)| (at, bytes.into())).or(patch.data.take());
            }
        }
        Ok(true)
    }

    /// Records new chunks in the first objects of their arrays. A chunk object without entries also counts as new: a
    /// transaction may have left it without recording the chunk.
    async fn record_new_chunks(
        &self,
        changed: &BTreeMap<AkeyPath, Option<Stored<Piece>>>,
    ) -> Result<()> {
        let mut chunks: BTreeMap<ObjectId, Vec<u64>> = BTreeMap::new();
        for path in changed.iter().filter(|(_, new)| new.is_some()).map(|(path, _)| path) {
            let dkey = <[u8; 8]>::try_from(path.dkey.as_slice()).map(u64::from_be_bytes);
            let own = dkey.ok().and_then(|dkey| names::own_chunk(path.oid, &dkey.to_ne_bytes()));
            let table = self.loaded.tables.get(&self.object_of(path));
            let is_new = table.is_none_or(|table| table.entries.is_empty());
            if let Some(chunk) =
                own.filter(|chunk| is_new && !self.loaded.records_chunk(path.oid, *chunk))
            {
                chunks.entry(path.oid).or_default().push(chunk);
            }
        }
        for (oid, chunks) in chunks {
            let unrecorded_chunks = self.writing.unrecorded_chunks(oid, chunks).await?;
            if !unrecorded_chunks.is_empty() {
                self.writing.record_chunks(oid, &unrecorded_chunks).await?;
            }
        }
        Ok(())
    }

    /// Removes objects that were read in order to punch them, unless something is written to them. The first object of
    /// an Array stays if any chunk is written, because it records all chunks.
    fn remove_emptied(&mut self, changed: &BTreeMap<AkeyPath, Option<Stored<Piece>>>) {
        let written = || changed.iter().filter(|(_, new)| new.is_some()).map(|(path, _)| path);
        let oids: BTreeSet<_> = written().map(|path| path.oid).collect();
        let objects: BTreeSet<_> = written().map(|path| self.object_of(path)).collect();
        for (object, patch) in &mut self.patches {
            let whole = self.loaded.tables.get(object).is_some_and(|table| table.whole);
            let renewed = match names::is_chunk(object) {
                true => objects.contains(object),
                false => names::object_of(object).is_some_and(|oid| oids.contains(&oid)),
            };
            patch.remove = whole && !renewed && matches!(patch.base, Base::Version(_));
        }
    }
}

/// The dkey and the number of the akeys that a write names. A punch of a whole dkey or object names none.
fn akeys_of<'a>(op: &WriteOp<'a>) -> (&'a [u8], usize) {
    match op {
        WriteOp::Update { dkey, updates, .. } => (dkey, updates.len()),
        WriteOp::PunchAkeys { dkey, akeys, .. } => (dkey, akeys.len()),
        WriteOp::PunchDkey { .. } | WriteOp::PunchObject { .. } => (&[], 0),
    }
}

/// True if the bytes of an akey may be stored in the data of the object that has its record.
fn is_of_array(path: &AkeyPath) -> Result<bool> {
    Ok(names::has_data(path.oid, &path.dkey) && path.akey == encode_akey(path.oid, FLAT_AKEY)?)
}

/// True for errors of a commit that may have taken effect all the same.
pub(super) fn may_be_committed(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::TxUncertain | ErrorKind::Io)
}

#[cold]
fn restart() -> Error {
    let message = "data read by this transaction was changed by another client: restart it";
    Error::new(ErrorKind::TxRestart, message)
}
