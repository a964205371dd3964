//! Writes: the short ways of those that need to know nothing, and the way of all others.
use super::backend::Container;
use super::blobs::Bodies;
use super::loaded::{Loaded, Want};
use super::names;
use super::patch::{Base, Guard, Patch};
use super::piece::{Piece, Where, moved};
use super::proof::Proof;
use super::record::{self, APART};
use super::space::{Outcome, Space, contended};
use esker_backend::check::check_write;
use esker_backend::object::overlay::Overlay;
use esker_backend::object::records::{Records, Stored};
use esker_backend::object::tree::{AkeyPath, encode_akey, encode_dkey};
use esker_librados::Compare;
use esker_types::limits::{RADOS_INLINE_MAX, RADOS_PIECE_INLINE_MAX, RADOS_TRIES_MAX};
use esker_types::ops::{Change, Cond, ReadTokens, Source, Update, Value, Write, WriteOp};
use esker_types::{Epoch, Error, ErrorKind, Extent, ObjectId, Result};
use std::collections::{BTreeMap, BTreeSet};

/// The akey under which arrays have their records.
const AKEY: &[u8] = b"0";

/// A container with the writes to be done to it.
pub(super) struct Writing<'a> {
    pub(super) container: &'a Container,
    pub(super) space: Space,
    pub(super) targets: u32,
}

impl Writing<'_> {
    /// Does all writes at one epoch, or none.
    pub(super) async fn write(&self, change: &Change<'_>) -> Result<Epoch> {
        let (writes, tokens) = (change.writes, change.tokens);
        if change.id.is_some() {
            return Err(Error::new(ErrorKind::NotSupported, "a rados pool has no ids of changes"));
        }
        writes.iter().try_for_each(check_write)?;
        if let (None, [write]) = (tokens, writes)
            && let Some(epoch) = self.shortly(write).await?
        {
            return Ok(epoch);
        }
        for _ in 0..RADOS_TRIES_MAX {
            if let Some(epoch) = self.at_length(writes, tokens).await? {
                return Ok(epoch);
            }
            if tokens.is_some() {
                return Err(restart());
            }
        }
        Err(contended("of a container"))
    }

    /// One value under one akey, where a guard says all there is to know. `None` where it does not hold.
    async fn shortly(&self, write: &Write<'_>) -> Result<Option<Epoch>> {
        let WriteOp::Update { dkey, cond: Cond::NONE, updates: [update] } = write.op else {
            return Ok(None);
        };
        match update.value {
            Value::Single(data) if data.len() <= RADOS_INLINE_MAX as u64 => {
                self.put(write.oid, dkey, update, data).await
            }
            Value::Array { record_size, extents: &[extent], data } => {
                let fits = update.cond == Cond::NONE && update.akey == AKEY && !extent.is_empty();
                match fits && data.len() > RADOS_PIECE_INLINE_MAX as u64 {
                    true => self.append(write.oid, dkey, (record_size, extent), data).await,
                    false => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// A single value that is kept in its record, in place of another such or of none.
    async fn put(
        &self,
        oid: ObjectId,
        dkey: &[u8],
        update: &Update<'_>,
        data: Source<'_>,
    ) -> Result<Option<Epoch>> {
        if names::own_chunk(oid, dkey).is_some() {
            return Ok(None);
        }
        let (dkey, akey) = (encode_dkey(oid, dkey)?, encode_akey(oid, update.akey)?);
        let key = names::entry(&dkey, &akey);
        let epoch = Epoch::now();
        let mut patch = Patch::of(names::table(oid, &dkey, self.targets));
        patch.guards = match update.cond {
            Cond::AKEY_INSERT => vec![Guard::new(&key, Compare::Equal, b"")],
            Cond::AKEY_UPDATE => vec![
                Guard::new(&key, Compare::Greater, b""),
                Guard::new(&key, Compare::Less, &[APART]),
            ],
            _ => vec![Guard::new(&key, Compare::Less, &[APART])],
        };
        patch.sets.push((key, record::inline(epoch, &[&data.part(0, data.len())])));
        Ok(self.done(&patch).await?.then_some(epoch))
    }

    /// The first records of a chunk.
    async fn append(
        &self,
        oid: ObjectId,
        dkey: &[u8],
        (record_size, extent): (u64, Extent),
        data: Source<'_>,
    ) -> Result<Option<Epoch>> {
        if !names::is_array(oid) {
            return Ok(None);
        }
        if let Some(chunk) = names::own_chunk(oid, dkey) {
            if self.container.hints.has(oid, chunk) {
                return Ok(None);
            }
            self.hint(oid, &[chunk]).await?;
        }
        let (dkey, akey) = (encode_dkey(oid, dkey)?, encode_akey(oid, AKEY)?);
        let key = names::entry(&dkey, &akey);
        let epoch = Epoch::now();
        // A copy, for the caller's buffer may change between being summed and being sent.
        let bytes = data.part(0, data.len()).into_owned();
        let mut records = Records::new(record_size);
        records.put(extent, moved(Where::Own(0), &bytes, self.space.checksum), epoch);
        let mut patch = Patch::of(names::table(oid, &dkey, self.targets));
        patch.guards.push(Guard::new(&key, Compare::Equal, b""));
        patch.sets.push((key, record::encode(epoch, &Stored::Array(records))));
        patch.data = Some((None, bytes.into()));
        Ok(self.done(&patch).await?.then_some(epoch))
    }

    async fn done(&self, patch: &Patch<'_>) -> Result<bool> {
        Ok(self.space.apply(patch).await? == Outcome::Done)
    }

    /// Tells the first object of an array of chunks that are about to become objects.
    async fn hint(&self, oid: ObjectId, chunks: &[u64]) -> Result<()> {
        let mut patch = Patch::of(names::shard(oid, 0));
        patch.sets = chunks.iter().map(|dkey| (names::chunk_key(*dkey), vec![1])).collect();
        self.space.apply(&patch).await?;
        chunks.iter().for_each(|dkey| self.container.hints.add(oid, *dkey));
        Ok(())
    }

    /// The chunks that the first object of an array does not know yet. To tell it again would give it another
    /// version, and what depends on its version would be tried for ever.
    async fn untold(&self, oid: ObjectId, mut chunks: Vec<u64>) -> Result<Vec<u64>> {
        let keys: Vec<_> = chunks.iter().map(|dkey| names::chunk_key(*dkey)).collect();
        let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let found = self.space.entries(&names::shard(oid, 0), &wanted, None).await?;
        let known: BTreeSet<_> =
            found.unwrap_or_default().entries.into_iter().map(|entry| entry.key).collect();
        chunks.retain(|dkey| !known.contains(&names::chunk_key(*dkey)));
        Ok(chunks)
    }

    /// Reads what the writes depend on, works out what becomes of it, and changes that. `None` where somebody
    /// changed it meanwhile.
    async fn at_length(
        &self,
        writes: &[Write<'_>],
        tokens: Option<&ReadTokens>,
    ) -> Result<Option<Epoch>> {
        let mut loaded = Loaded::default();
        for write in writes {
            self.load(&mut loaded, write).await?;
        }
        let epoch = Epoch::after(loaded.latest);
        let mut overlay = Overlay::new(&loaded.tree, epoch);
        writes.iter().try_for_each(|write| overlay.write(write))?;
        let changed = overlay.finish();
        let proofs = tokens.map(|tokens| Proof::all(tokens).ok_or_else(restart)).transpose()?;
        let proofs = proofs.unwrap_or_default();
        let mut work = Work::of(self, &loaded, changed);
        work.prove(&proofs)?;
        let outcome = work.carry_out(epoch).await?;
        Ok((outcome == Outcome::Done).then_some(epoch))
    }

    async fn load(&self, loaded: &mut Loaded, write: &Write<'_>) -> Result<()> {
        let oid = write.oid;
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
        match whole {
            Some(true) => wants = vec![(oid, object, Want::All(prefix))],
            Some(false) => wants.push((oid, object, Want::Any(prefix))),
            None => {}
        }
        loaded.read(&self.space, wants).await
    }
}

/// Changes that were worked out, as patches of RADOS objects.
struct Work<'a> {
    writing: &'a Writing<'a>,
    loaded: &'a Loaded,
    changed: BTreeMap<AkeyPath, Option<Stored<Piece>>>,
    patches: BTreeMap<String, Patch<'static>>,
}

impl<'a> Work<'a> {
    fn of(
        writing: &'a Writing<'a>,
        loaded: &'a Loaded,
        changed: BTreeMap<AkeyPath, Option<Stored<Piece>>>,
    ) -> Self {
        let tables = loaded.tables.iter().map(|(object, table)| {
            let mut patch = Patch::of(object.clone());
            patch.base = match (table.ranged, table.version) {
                (false, _) => Base::Any,
                (true, None) => Base::Absent,
                (true, Some(version)) => Base::Version(version),
            };
            (object.clone(), patch)
        });
        Self { writing, loaded, patches: tables.collect(), changed }
    }

    fn object_of(&self, place: &AkeyPath) -> String {
        names::table(place.oid, &place.dkey, self.writing.targets)
    }

    /// Adds what a transaction has read to what must hold.
    fn prove(&mut self, proofs: &[Proof]) -> Result<()> {
        for proof in proofs {
            let patch = self.patches.entry(proof.thing.clone());
            let patch = patch.or_insert_with(|| Patch::of(proof.thing.clone()));
            patch.proof = true;
            if !proof.part.is_empty() {
                patch.guards.push(Guard::new(&proof.part, Compare::Equal, &proof.seen));
                continue;
            }
            let base = match <[u8; 8]>::try_from(proof.seen.as_slice()) {
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

    async fn carry_out(mut self, epoch: Epoch) -> Result<Outcome> {
        let changed = std::mem::take(&mut self.changed);
        self.hint_new_chunks(&changed).await?;
        let objects: BTreeSet<_> = changed.keys().map(|place| self.object_of(place)).collect();
        let proofs = self.patches.values().filter(|patch| patch.proof);
        let alone = objects.len() == 1 && proofs.into_iter().all(|p| objects.contains(&p.object));
        let mut bodies = Bodies::new(&self.writing.space);
        for (place, new) in changed {
            if !self.change(&mut bodies, place, new, epoch, alone).await? {
                bodies.remove_new().await?;
                return Ok(Outcome::Conflict);
            }
        }
        self.drop_emptied();
        let patches: Vec<_> = self.patches.into_values().filter(Patch::is_needed).collect();
        match self.writing.space.commit(patches).await? {
            Outcome::Done => bodies.remove_old().await.map(|()| Outcome::Done),
            Outcome::Conflict => bodies.remove_new().await.map(|()| Outcome::Conflict),
        }
    }

    /// Adds the change of one akey. Where only one object is changed (`alone`), bytes of an array go into its
    /// data. False where that was changed meanwhile.
    async fn change(
        &mut self,
        bodies: &mut Bodies<'_>,
        place: AkeyPath,
        new: Option<Stored<Piece>>,
        epoch: Epoch,
        alone: bool,
    ) -> Result<bool> {
        let object = self.object_of(&place);
        let key = names::entry(&place.dkey, &place.akey);
        let old = self.loaded.record(&object, &place).unwrap_or_default();
        bodies.forget(old);
        let own = alone && is_of_array(&place)?;
        let context = own.then_some((object.as_str(), key.as_slice(), old));
        let placed = match new {
            None => None,
            Some(stored) => match bodies.place(stored, context).await? {
                Some(placed) => Some(placed),
                None => return Ok(false),
            },
        };
        let keyed = self.loaded.tables.get(&object).is_none_or(|table| table.keyed);
        let patch = self.patches.entry(object.clone()).or_insert_with(|| Patch::of(&*object));
        if keyed {
            patch.guards.push(Guard::new(&key, Compare::Equal, old));
        }
        match placed {
            None => patch.unsets.push(key),
            Some(placed) => {
                patch.sets.push((key, record::encode(epoch, &placed.stored)));
                patch.data =
                    placed.data.map(|(at, bytes)| (at, bytes.into())).or(patch.data.take());
            }
        }
        Ok(true)
    }

    /// Chunks in which nothing was found are told to the first objects of their arrays. An object without
    /// entries may be what is left of a transaction that nobody was told of.
    async fn hint_new_chunks(
        &self,
        changed: &BTreeMap<AkeyPath, Option<Stored<Piece>>>,
    ) -> Result<()> {
        let mut chunks: BTreeMap<ObjectId, Vec<u64>> = BTreeMap::new();
        for place in changed.iter().filter(|(_, new)| new.is_some()).map(|(place, _)| place) {
            let dkey = <[u8; 8]>::try_from(place.dkey.as_slice()).map(u64::from_be_bytes);
            let own = dkey.ok().and_then(|dkey| names::own_chunk(place.oid, &dkey.to_ne_bytes()));
            let table = self.loaded.tables.get(&self.object_of(place));
            let is_new = table.is_none_or(|table| table.entries.is_empty());
            if let Some(chunk) =
                own.filter(|chunk| is_new && !self.loaded.tells_of(place.oid, *chunk))
            {
                chunks.entry(place.oid).or_default().push(chunk);
            }
        }
        for (oid, chunks) in chunks {
            let untold = self.writing.untold(oid, chunks).await?;
            if !untold.is_empty() {
                self.writing.hint(oid, &untold).await?;
            }
        }
        Ok(())
    }

    /// What was read to be punched goes as a whole, where nothing of it was written anew.
    fn drop_emptied(&mut self) {
        let written = self.patches.values().filter(|patch| !patch.sets.is_empty());
        let written: BTreeSet<_> =
            written.filter_map(|patch| names::object_of(&patch.object)).collect();
        for (object, patch) in &mut self.patches {
            let whole = self.loaded.tables.get(object).is_some_and(|table| table.whole);
            let renewed = names::object_of(object).is_some_and(|oid| written.contains(&oid));
            patch.remove = whole && !renewed && matches!(patch.base, Base::Version(_));
        }
    }
}

/// True where the bytes of an akey may lie in the data of the object that has its record.
fn is_of_array(place: &AkeyPath) -> Result<bool> {
    Ok(names::is_array(place.oid) && place.akey == encode_akey(place.oid, AKEY)?)
}

#[cold]
fn restart() -> Error {
    let message = "something this transaction has read was changed: restart it";
    Error::new(ErrorKind::TxRestart, message)
}
