//! Arrays: one file with the attributes and the first chunk; further chunks in a directory next to it.
use super::array_plan::{ArrayStep, ChunkState};
use super::chunk::{Chunk, Header};
use super::container::destroyed;
use super::files::{self, io_error};
use super::form::{
    Form, Object, asks_for_the_akey, epoch_of, exists, found, missing_key_error, outermost, sorted,
    unsupported_error,
};
use super::journal::{MAKE_TRIES, RECORD};
use super::proof::{Digest, Watched};
use esker_backend::handles::gone;
use esker_backend::object::list::page_of_keys;
use esker_backend::object::read::{check_record_size, fill_single, note_found, too_big};
use esker_types::ArrayAttributes;
use esker_types::limits::POSIX_ARRAY_VALUE_MAX;
use esker_types::ops::{
    AkeyRef, Anchor, Cond, Fetch, FetchReply, KeyFound, KeyQuery, KeyScope, ListLimit, Sink,
    Source, StoredExtent, Update, Value, Wanted, WriteOp,
};
use esker_types::{
    Epoch, Error, ErrorKind, Extent, FLAT_AKEY, KeyBatch, KeyKind, Result, key_to_u64,
};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The dkey of the attributes.
pub(super) const ATTRIBUTES: u64 = 0;
/// The chunk that is stored in the array's own file.
pub(super) const FIRST: u64 = 1;
/// Bytes of records that are read at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// A step of a commit in the journal.
pub(super) struct CommitStep<'a> {
    /// The directory of the commit.
    pub(super) entered: &'a Path,
    /// Number of the step.
    pub(super) number: usize,
}

impl CommitStep<'_> {
    /// The file that the step places, or that an Array begins with.
    pub(super) fn staged(&self) -> PathBuf {
        self.entered.join(self.number.to_string())
    }

    /// True while this process still applies the commit. False once another process has taken it over, or it has left
    /// the journal. Call this after opening the file to change: a process that takes over later replaces that file by a
    /// copy.
    fn is_current(&self) -> Result<bool> {
        Ok(files::info(&self.entered.join(RECORD))?.is_some())
    }
}

/// How files of an Array are removed.
#[derive(Clone, Copy)]
enum Removal<'a> {
    /// Deletes them.
    AtOnce,
    /// Moves them into the directory of a commit, as a step of it.
    ByCommit(&'a CommitStep<'a>),
}

impl Removal<'_> {
    /// True if a file that the caller has opened may be changed.
    fn may_change(self) -> Result<bool> {
        match self {
            Self::AtOnce => Ok(true),
            Self::ByCommit(commit) => commit.is_current(),
        }
    }
}

/// An Array.
pub(super) struct ArrayFiles<'a>(pub(super) Object<'a>);

impl ArrayFiles<'_> {
    /// The directory of the chunks after the first.
    pub(super) fn directory(&self) -> PathBuf {
        let mut name = self.0.path.as_os_str().to_owned();
        name.push(".d");
        PathBuf::from(name)
    }

    /// Path of the file of a chunk. The attributes are in the file of the first chunk.
    pub(super) fn path_of(&self, dkey: u64) -> PathBuf {
        match dkey {
            ATTRIBUTES | FIRST => self.0.path.clone(),
            _ => self.directory().join(format!("{dkey:016x}")),
        }
    }

    /// Opens the file of a chunk; `None` if it does not exist.
    fn open(&self, dkey: u64, write: bool) -> Result<Option<Chunk>> {
        Chunk::open(&self.path_of(dkey), write)
    }

    /// True if something is stored under `dkey`: the attributes of the Array, or records of a chunk.
    fn has(&self, dkey: u64) -> Result<bool> {
        Ok(match (dkey, self.open(dkey, false)?) {
            (_, None) => false,
            (ATTRIBUTES, Some(chunk)) => chunk.header.value.is_some(),
            (_, Some(chunk)) => chunk.records()? > 0,
        })
    }

    /// Makes an update of one chunk or of the attributes, after checking its conditions.
    fn update(&self, dkey: u64, cond: Cond, update: Option<&Update<'_>>) -> Result<()> {
        let inserts = cond.intersects(Cond::DKEY_INSERT.union(Cond::AKEY_INSERT));
        let needs = cond.intersects(Cond::DKEY_UPDATE.union(Cond::AKEY_UPDATE));
        // If the attributes are to be set, they are checked then.
        let later = dkey == ATTRIBUTES && update.is_some();
        if inserts && !later && self.has(dkey)? {
            return Err(exists("dkey"));
        }
        if needs && !self.has(dkey)? {
            return Err(missing_key_error("dkey"));
        }
        update.map_or(Ok(()), |update| self.put(dkey, &update.value, inserts))
    }

    /// Changes one chunk or the attributes. With `inserts`, there must be no attributes.
    fn put(&self, dkey: u64, value: &Value<'_>, inserts: bool) -> Result<()> {
        match (dkey, *value) {
            (ATTRIBUTES, Value::Single(data)) => {
                self.set_value(value_at_zero(self, data)?, inserts)
            }
            (FIRST.., Value::Array { record_size, extents, data }) => {
                self.write_records(dkey, record_size, extents, data)
            }
            (FIRST.., Value::PunchExtents(extents)) => {
                self.punch_records(dkey, extents, Removal::AtOnce)
            }
            _ => Err(self.refuse_kind()),
        }
    }

    /// Returns the update of the flat akey, the only akey that an Array has. None if the list is empty; an error for
    /// any other akey.
    pub(super) fn only_update<'u, 'd>(
        &self,
        updates: &'u [Update<'d>],
    ) -> Result<Option<&'u Update<'d>>> {
        match updates {
            [] => Ok(None),
            [update] if update.akey == FLAT_AKEY => Ok(Some(update)),
            _ => Err(self.refused("akeys other than \"0\"")),
        }
    }

    /// The error for a kind of value that a dkey does not hold.
    pub(super) fn refuse_kind(&self) -> Error {
        self.refused("single values other than that of dkey 0, nor records there,")
    }

    /// The state of what is stored under a dkey: whether it has a value, and how many records.
    pub(super) fn state(&self, dkey: u64) -> Result<ChunkState> {
        let Some(chunk) = self.open(dkey, false)? else { return Ok(ChunkState::default()) };
        Ok(match dkey {
            ATTRIBUTES => {
                ChunkState { has_value: chunk.header.value.is_some(), ..ChunkState::default() }
            }
            _ => {
                let record_size = chunk.header.record_size;
                let (records, has_rest) = (chunk.records()?, chunk.has_rest()?);
                ChunkState { has_value: false, records, record_size, has_rest }
            }
        })
    }

    /// Applies a step of a commit. It may have been applied before.
    pub(super) fn apply(&self, step: &ArrayStep, commit: &CommitStep<'_>) -> Result<()> {
        let removal = Removal::ByCommit(commit);
        match step {
            ArrayStep::Value(Some(value)) => {
                let header = header_with(value.clone());
                match self.open_for_step(ATTRIBUTES, &header, commit)? {
                    Some(chunk) => chunk.set_value(&self.0.directory.files, header.value),
                    None => Ok(()),
                }
            }
            ArrayStep::Value(None) => self.punch_dkey(ATTRIBUTES, Cond::NONE, removal),
            ArrayStep::Write { dkey, record_size, extents, data } => {
                let (size, data) = (*record_size, Source::One(data));
                let header = Header { record_size: size, value: None };
                let opened = self.open_for_step(*dkey, &header, commit)?;
                let Some(chunk) = opened else { return Ok(()) };
                // The commit is decided: records of another size that were written since then give way to it.
                chunk.remove_unless_of_size(size)?;
                chunk.write(&self.0.directory.files, size, extents, data)
            }
            ArrayStep::Cut { dkey, records } => {
                let rest = Extent::new(*records, u64::MAX - records);
                self.punch_records(*dkey, &[rest], removal)
            }
            ArrayStep::Zero { dkey, extent } => match self.open(*dkey, true)? {
                Some(chunk) if commit.is_current()? => {
                    chunk.clear(&self.0.directory.files, *extent)
                }
                _ => Ok(()),
            },
            ArrayStep::Punch => self.punch(Cond::NONE, removal),
        }
    }

    /// Removes a file of the Array at once, or by moving it into the directory of a commit. False if it does not exist.
    fn remove(&self, path: &Path, removal: Removal<'_>) -> Result<bool> {
        let files = &self.0.directory.files;
        match removal {
            Removal::AtOnce => files.remove(path),
            Removal::ByCommit(commit) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let removed = format!("removed-{}-{name}", commit.number);
                files.remove_into(path, commit.entered, &removed)
            }
        }
    }

    /// Includes the stored content of `extents` of a chunk in a digest. A transaction compares the digests of its reads
    /// at its commit.
    fn add_chunk_to_digest(
        &self,
        dkey: u64,
        extents: &[Extent],
        digest: &mut Digest,
    ) -> Result<()> {
        let Some(chunk) = self.open(dkey, false)? else { return Ok(()) };
        if dkey == ATTRIBUTES {
            chunk.header.value.iter().for_each(|value| digest.add(value));
            return Ok(());
        }
        let all = Extent::new(0, chunk.records()?);
        if all.is_empty() {
            return Ok(());
        }
        digest.add_number(chunk.header.record_size);
        digest.add_number(all.count);
        let mut parts = extents.iter().filter_map(|extent| extent.intersect(all));
        parts.try_for_each(|part| add_records_to_digest(&chunk, part, digest))
    }

    /// Includes the time of the file of a dkey in a digest.
    fn add_epoch_to_digest(&self, dkey: u64, digest: &mut Digest) -> Result<()> {
        let info = files::info(&self.path_of(dkey))?;
        digest.add_number(info.map_or(0, |info| epoch_of(&info).0));
        Ok(())
    }

    /// Sets the value of dkey 0. The attributes determine the record size. With `inserts`, there must be no value. If
    /// another process creates or removes the file at the same time, tries again.
    fn set_value(&self, value: Vec<u8>, inserts: bool) -> Result<()> {
        loop {
            if let Some(chunk) = self.open(ATTRIBUTES, true)? {
                return match inserts && chunk.header.value.is_some() {
                    true => Err(exists("dkey")),
                    false => chunk.set_value(&self.0.directory.files, Some(value)),
                };
            }
            let header = header_with(value.clone());
            if self.create(ATTRIBUTES, &header, &[], Source::One(&[]))? {
                return Ok(());
            }
        }
    }

    /// Writes records to a chunk, and creates the chunk if it is missing. If another process creates it at the same
    /// time, tries again.
    fn write_records(
        &self,
        dkey: u64,
        record_size: u64,
        extents: &[Extent],
        data: Source<'_>,
    ) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        loop {
            if let Some(chunk) = self.open(dkey, true)? {
                return chunk.write(&self.0.directory.files, record_size, extents, data);
            }
            let header = Header { record_size, value: None };
            if self.create(dkey, &header, extents, data)? {
                return Ok(());
            }
        }
    }

    /// Opens the file of a chunk for a step of a commit, and creates it if it is missing. `None` once the commit is not
    /// current.
    fn open_for_step(
        &self,
        dkey: u64,
        header: &Header,
        commit: &CommitStep<'_>,
    ) -> Result<Option<Chunk>> {
        for _ in 0..MAKE_TRIES {
            self.use_reserved(dkey, commit)?;
            let chunk = self.open(dkey, true)?;
            if !commit.is_current()? {
                return Ok(None);
            }
            if chunk.is_some() {
                return Ok(chunk);
            }
            // A punch outside transactions has removed the file, for which nothing was reserved.
            match Chunk::create_reserved(&self.0.directory.files, &commit.staged(), header, &[]) {
                Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Exists) => {
                    return Err(error);
                }
                _ => {}
            }
        }
        Err(files::directory_removed_error(&self.path_of(dkey)))
    }

    /// If the file of a chunk is missing, creates it from the one that was reserved for the step, if there is one.
    fn use_reserved(&self, dkey: u64, commit: &CommitStep<'_>) -> Result<()> {
        let (files, path, staged) = (&self.0.directory.files, self.path_of(dkey), commit.staged());
        for _ in 0..MAKE_TRIES {
            if files::info(&path)?.is_some() || files::info(&staged)?.is_none() {
                return Ok(());
            }
            match fs::hard_link(&staged, &path) {
                Ok(()) => return files.sync_parent(&path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound && dkey > FIRST => {
                    files.make_directory(&self.directory()).map_err(destroyed)?;
                }
                Err(error) => return Err(io_error("making", &path, &error)),
            }
        }
        Err(files::directory_removed_error(&path))
    }

    /// Creates the file of a chunk. False if another process created it first, or removed the directory of the chunks
    /// meanwhile: the caller tries again.
    fn create(
        &self,
        dkey: u64,
        header: &Header,
        extents: &[Extent],
        data: Source<'_>,
    ) -> Result<bool> {
        let (files, path) = (&self.0.directory.files, self.path_of(dkey));
        for _ in 0..2 {
            match Chunk::create(files, &path, header, extents, data) {
                Ok(true) => return Ok(true),
                Ok(false) if dkey > FIRST => {
                    files.make_directory(&self.directory()).map_err(destroyed)?;
                }
                Ok(false) => return Err(gone()),
                Err(error) if error.kind() == ErrorKind::Exists => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Removes records of a chunk, and its file if nothing is left in it.
    fn punch_records(&self, dkey: u64, extents: &[Extent], removal: Removal<'_>) -> Result<()> {
        let Some(chunk) = self.open(dkey, true)? else { return self.check_there(removal) };
        if !removal.may_change()? {
            return Ok(());
        }
        extents.iter().try_for_each(|extent| chunk.remove(*extent))?;
        let is_empty = chunk.records()? == 0 && chunk.header.value.is_none();
        chunk.finish(&self.0.directory.files)?;
        match is_empty {
            true => self.remove(&self.path_of(dkey), removal).map(drop),
            false => Ok(()),
        }
    }

    /// Removes what a dkey has. Dkeys 0 and 1 share a file, so only the part of the one is removed.
    fn punch_dkey(&self, dkey: u64, cond: Cond, removal: Removal<'_>) -> Result<()> {
        if cond.has(Cond::PUNCH) && !self.has(dkey)? {
            return Err(missing_key_error("key to be punched"));
        }
        match (dkey, self.open(dkey, true)?) {
            (_, None) => self.check_there(removal),
            (ATTRIBUTES, Some(chunk)) if chunk.records()? > 0 => match removal.may_change()? {
                true => chunk.set_value(&self.0.directory.files, None),
                false => Ok(()),
            },
            (ATTRIBUTES, Some(_)) => self.remove(&self.0.path, removal).map(drop),
            _ => self.punch_records(dkey, &[Extent::new(0, u64::MAX)], removal),
        }
    }

    /// Fails if nothing was removed because the container was destroyed. A commit found it under its locks.
    fn check_there(&self, removal: Removal<'_>) -> Result<()> {
        match removal {
            Removal::AtOnce => self.0.container.check_there(),
            Removal::ByCommit(_) => Ok(()),
        }
    }

    /// Removes akeys of a dkey. Only [`FLAT_AKEY`] can exist.
    fn punch_akeys(&self, dkey: u64, akeys: &[&[u8]], cond: Cond) -> Result<()> {
        let others = akeys.iter().any(|akey| *akey != FLAT_AKEY);
        match akeys.contains(&FLAT_AKEY) {
            _ if others && cond.has(Cond::PUNCH) => Err(missing_key_error("akey")),
            true => self.punch_dkey(dkey, cond, Removal::AtOnce),
            false => Ok(()),
        }
    }

    /// Removes the array. With `Cond::PUNCH`, there must be one.
    fn punch(&self, cond: Cond, removal: Removal<'_>) -> Result<()> {
        let mut any = false;
        // From the last chunk on: a reader meanwhile, or after a crash, finds a shorter Array, and no hole in it.
        for dkey in self.further()?.into_iter().rev() {
            any |= self.remove(&self.path_of(dkey), removal)?;
        }
        let _ = fs::remove_dir(self.directory());
        any |= self.remove(&self.0.path, removal)?;
        if !any {
            self.check_there(removal)?;
        }
        match cond.has(Cond::PUNCH) && !any {
            true => Err(missing_key_error("key to be punched")),
            false => Ok(()),
        }
    }

    /// Returns the numbers of the chunks that have a file each: all chunks after the first, in ascending order. Leaves
    /// out other files, such as those that an NFS client keeps for processes that have removed files open (`.nfs`).
    fn further(&self) -> Result<Vec<u64>> {
        let names = files::names_in(&self.directory())?;
        let mut dkeys: Vec<_> =
            names.iter().filter_map(|name| u64::from_str_radix(name, 16).ok()).collect();
        dkeys.sort_unstable();
        Ok(dkeys)
    }

    /// All dkeys in ascending order.
    pub(super) fn dkeys(&self) -> Result<Vec<u64>> {
        let mut dkeys = Vec::new();
        if let Some(own) = self.open(FIRST, false)? {
            dkeys.extend(own.header.value.is_some().then_some(ATTRIBUTES));
            dkeys.extend((own.records()? > 0).then_some(FIRST));
        }
        dkeys.extend(self.further()?);
        Ok(dkeys)
    }

    /// All records of a chunk, `None` if there are none.
    fn extent(&self, dkey: u64) -> Result<Option<Extent>> {
        if dkey == ATTRIBUTES {
            return Ok(None);
        }
        let records = self.open(dkey, false)?.map_or(Ok(0), |chunk| chunk.records())?;
        Ok((records > 0).then_some(Extent::new(0, records)))
    }

    /// Answers a query for one chunk. None if the chunk has no extent or key of the kind that the query looks for.
    fn answer(&self, query: &KeyQuery<'_>, dkey: u64) -> Result<Option<KeyFound>> {
        let extent = self.extent(dkey)?;
        let fits = match query.want_extent {
            true => extent.is_some(),
            false => self.has(dkey)?,
        };
        let extent = extent.filter(|_| query.want_extent);
        Ok(fits.then(|| found(query, dkey.to_ne_bytes().to_vec(), extent)))
    }

    fn refused(&self, what: &str) -> Error {
        unsupported_error(self.0.oid.object_type(), what)
    }
}

/// The header of a new Array with this value of dkey 0, which determines the record size.
fn header_with(value: Vec<u8>) -> Header {
    let record_size = ArrayAttributes::in_bytes(&value).map_or(0, |shape| shape.cell_size);
    Header { record_size, value: Some(value) }
}

/// The value that dkey 0 is to have.
///
/// # Errors
/// `NotSupported` if it is too long.
pub(super) fn value_at_zero(array: &ArrayFiles<'_>, data: Source<'_>) -> Result<Vec<u8>> {
    match data.len() > POSIX_ARRAY_VALUE_MAX {
        true => Err(array.refused("values over 1024 bytes (POSIX_ARRAY_VALUE_MAX) at dkey 0")),
        false => Ok(data.part(0, data.len()).into_owned()),
    }
}

/// Includes the content of the records of `part` in a digest.
fn add_records_to_digest(chunk: &Chunk, part: Extent, digest: &mut Digest) -> Result<()> {
    let add = |_, piece: &[u8]| {
        digest.add(piece);
        true
    };
    all_pieces(chunk, part, add).map(drop)
}

/// Copies the records of `chunk` within `extents` to the sink of a fetch, and adds the extents that were found to its
/// reply.
fn fill_records(fetch: &mut Fetch<'_>, extents: &[Extent], chunk: &Chunk) -> Result<()> {
    extents.iter().try_for_each(|extent| extent.check())?;
    let (size, all) = (chunk.header.record_size, Extent::new(0, chunk.records()?));
    fetch.reply.size = if all.is_empty() { 0 } else { size };
    let mut offset = 0u64;
    for &extent in extents {
        if let Some(part) = extent.intersect(all) {
            check_record_size(fetch.request.record_size, size)?;
            note_found(&fetch.request, &mut fetch.reply, part);
            copy(&mut fetch.reply, part, offset, chunk)?;
        }
        offset = offset.saturating_add(extent.count.saturating_mul(size));
    }
    Ok(())
}

/// True if a chunk has the records of a write.
fn has_records(chunk: &Chunk, extents: &[Extent], data: Source<'_>) -> Result<bool> {
    let (records, mut offset) = (chunk.records()?, 0);
    for extent in extents.iter().filter(|extent| !extent.is_empty()) {
        let len = extent.count.saturating_mul(chunk.header.record_size);
        let expected =
            |from: u64, found: &[u8]| *data.part(offset + from, found.len() as u64) == *found;
        if extent.end() > records || !all_pieces(chunk, *extent, expected)? {
            return Ok(false);
        }
        offset += len;
    }
    Ok(true)
}

/// True if the records of an extent, as far as they exist, are zeros.
fn are_zero(chunk: &Chunk, extent: Extent) -> Result<bool> {
    match extent.intersect(Extent::new(0, chunk.records()?)) {
        Some(part) => all_pieces(chunk, part, |_, found| found.iter().all(|byte| *byte == 0)),
        None => Ok(true),
    }
}

/// Reads an extent piece by piece, in order, as long as `test` is true for each piece and its offset in bytes. True if
/// it is true for all of them.
fn all_pieces(
    chunk: &Chunk,
    extent: Extent,
    mut test: impl FnMut(u64, &[u8]) -> bool,
) -> Result<bool> {
    let len = extent.count.saturating_mul(chunk.header.record_size);
    let mut buffer = vec![0; len.min(PIECE_BYTES) as usize];
    let mut done = 0;
    while done < len {
        let piece = &mut buffer[..(len - done).min(PIECE_BYTES) as usize];
        chunk.read(extent.start, done, piece)?;
        if !test(done, piece) {
            return Ok(false);
        }
        done += piece.len() as u64;
    }
    Ok(true)
}

/// Reads the records `part` into the sink, starting at byte `offset`.
fn copy(reply: &mut FetchReply<'_>, part: Extent, offset: u64, chunk: &Chunk) -> Result<()> {
    if matches!(reply.sink, Sink::None) {
        return Ok(());
    }
    let len = part.count.saturating_mul(chunk.header.record_size);
    let end = offset.saturating_add(len);
    if end > reply.sink.len() {
        return Err(too_big("records", end));
    }
    let mut done = 0;
    reply.sink.visit(offset, len, |buffer| {
        chunk.read(part.start, done, buffer)?;
        done += buffer.len() as u64;
        Ok(())
    })?;
    reply.filled_bytes = end;
    Ok(())
}

/// Performs one fetch. An akey that holds the other kind of value (single value or array) counts as missing.
fn fill(fetch: &mut Fetch<'_>, dkey: u64, chunk: Option<&Chunk>) -> Result<()> {
    fetch.reply.reset();
    let is_content = fetch.request.akey == FLAT_AKEY;
    match (fetch.request.wanted, chunk) {
        (Wanted::Single, Some(chunk)) if is_content && dkey == ATTRIBUTES => {
            let value = chunk.header.value.as_deref();
            value.map_or(Ok(()), |value| fill_single(&mut fetch.reply, value))
        }
        (Wanted::Array(extents), Some(chunk)) if is_content && dkey != ATTRIBUTES => {
            fill_records(fetch, extents, chunk)
        }
        _ => Ok(()),
    }
}

impl ArrayFiles<'_> {
    /// True if the Array is as a write leaves it.
    pub(super) fn has_written(&self, op: &WriteOp<'_>) -> Result<bool> {
        match *op {
            WriteOp::Update { dkey, updates: [update], .. } => {
                self.has_update(key_to_u64(dkey)?, &update.value)
            }
            WriteOp::Update { .. } => Ok(true),
            WriteOp::PunchObject { .. } => Ok(self.dkeys()?.is_empty()),
            WriteOp::PunchDkey { dkey, .. } | WriteOp::PunchAkeys { dkey, .. } => {
                Ok(!self.has(key_to_u64(dkey)?)?)
            }
        }
    }

    /// True if a dkey is as an update leaves it.
    fn has_update(&self, dkey: u64, value: &Value<'_>) -> Result<bool> {
        let chunk = self.open(dkey, false)?;
        match (*value, chunk) {
            (Value::PunchExtents(_), None) => Ok(true),
            (_, None) => Ok(false),
            (Value::Single(data), Some(chunk)) => {
                Ok(chunk.header.value.as_deref() == Some(&*data.part(0, data.len())))
            }
            (Value::Array { record_size, extents, data }, Some(chunk)) => {
                Ok(chunk.header.record_size == record_size && has_records(&chunk, extents, data)?)
            }
            // It may have been cut or overwritten with zeros.
            (Value::PunchExtents(extents), Some(chunk)) => extents
                .iter()
                .try_fold(true, |so_far, extent| Ok(so_far && are_zero(&chunk, *extent)?)),
        }
    }

    /// Applies a write at once, in place.
    pub(super) fn write(&self, op: &WriteOp<'_>) -> Result<Epoch> {
        self.write_under(op, |cond| cond)?;
        Ok(Epoch::now())
    }

    /// Applies a write again. Its conditions were true the first time, and are not checked.
    pub(super) fn write_again(&self, op: &WriteOp<'_>) -> Result<()> {
        self.write_under(op, |_| Cond::NONE)
    }

    /// Applies a write under the conditions that `select` returns for each of its conditions: all of them at the first
    /// time, none when it is repeated.
    fn write_under(&self, op: &WriteOp<'_>, select: impl Fn(Cond) -> Cond) -> Result<()> {
        match *op {
            WriteOp::Update { dkey, cond, updates } => {
                let (dkey, update) = (key_to_u64(dkey)?, self.only_update(updates)?);
                let cond = update.map_or(cond, |update| cond.union(update.cond));
                self.update(dkey, select(cond), update)
            }
            WriteOp::PunchObject { cond } => self.punch(select(cond), Removal::AtOnce),
            WriteOp::PunchDkey { dkey, cond } => {
                self.punch_dkey(key_to_u64(dkey)?, select(cond), Removal::AtOnce)
            }
            WriteOp::PunchAkeys { dkey, akeys, cond } => {
                self.punch_akeys(key_to_u64(dkey)?, akeys, select(cond))
            }
        }
    }
}

impl Form for ArrayFiles<'_> {
    /// For a dkey: its value or records. For the Array: the same of all dkeys, with the times of their files. For its
    /// dkeys: their numbers only.
    fn digest(&self, watched: &Watched) -> Result<Digest> {
        let mut digest = Digest::default();
        if let Watched::Dkey { dkey, extents, with_epoch } = watched {
            let dkey = key_to_u64(dkey)?;
            self.add_chunk_to_digest(dkey, extents, &mut digest)?;
            if *with_epoch {
                self.add_epoch_to_digest(dkey, &mut digest)?;
            }
            return Ok(digest);
        }
        for dkey in self.dkeys()? {
            digest.add_number(dkey);
            if *watched == Watched::Object {
                self.add_chunk_to_digest(dkey, &[], &mut digest)?;
                self.add_epoch_to_digest(dkey, &mut digest)?;
            }
        }
        Ok(digest)
    }

    fn fetch(&self, dkey: &[u8], cond: Cond, fetches: &mut [Fetch<'_>]) -> Result<()> {
        let number = key_to_u64(dkey)?;
        let chunk = self.open(number, false)?;
        let demands = |fetch: &Fetch<'_>| fetch.request.cond.has(Cond::AKEY_FETCH);
        if (cond.has(Cond::DKEY_FETCH) || fetches.iter().any(demands)) && !self.has(number)? {
            return Err(missing_key_error("dkey"));
        }
        if fetches.iter().any(|fetch| demands(fetch) && fetch.request.akey != FLAT_AKEY) {
            return Err(missing_key_error("akey"));
        }
        let results = fetches.iter_mut().map(|fetch| fill(fetch, number, chunk.as_ref()));
        results.collect::<Vec<_>>().into_iter().collect()
    }

    fn list_keys(
        &self,
        scope: KeyScope<'_>,
        anchor: &mut Anchor,
        limit: ListLimit,
    ) -> Result<KeyBatch> {
        let (kind, keys) = match scope {
            KeyScope::Dkeys => {
                let keys = self.dkeys()?.into_iter().map(|dkey| dkey.to_ne_bytes().to_vec());
                (KeyKind::Integer, keys.collect())
            }
            KeyScope::Akeys(dkey) => {
                let there = self.has(key_to_u64(dkey)?)?;
                (KeyKind::Bytes, Vec::from_iter(there.then(|| FLAT_AKEY.to_vec())))
            }
        };
        page_of_keys(kind, sorted(kind, keys)?, anchor, limit)
    }

    /// Lists the extents of a chunk from `anchor` on: all records of a chunk are one extent.
    fn list_extents(
        &self,
        key: AkeyRef<'_>,
        anchor: &mut Anchor,
        entries: usize,
    ) -> Result<Vec<StoredExtent>> {
        let Some(from) = anchor.record()? else { return Ok(Vec::new()) };
        if entries == 0 {
            *anchor = Anchor::at_record(from);
            return Ok(Vec::new());
        }
        *anchor = Anchor::End;
        let dkey = key_to_u64(key.dkey)?;
        let chunk = self.open(dkey, false)?.filter(|_| key.akey == FLAT_AKEY && dkey != ATTRIBUTES);
        let Some(chunk) = chunk else { return Ok(Vec::new()) };
        let rest = Extent::new(from, u64::MAX - from);
        let left = Extent::new(0, chunk.records()?).intersect(rest);
        let (record_size, epoch) = (chunk.header.record_size, chunk.epoch()?);
        Ok(left.map(|extent| StoredExtent { extent, record_size, epoch }).into_iter().collect())
    }

    fn query(&self, query: KeyQuery<'_>) -> Result<Option<KeyFound>> {
        if !asks_for_the_akey(&query)? {
            return Ok(None);
        }
        if let Some(dkey) = query.dkey {
            return self.answer(&query, key_to_u64(dkey)?);
        }
        let mut dkeys = vec![ATTRIBUTES, FIRST];
        dkeys.extend(self.further()?);
        let bound = query.bound(KeyKind::Integer)?;
        dkeys.retain(|dkey| dkey.to_be_bytes()[..] > bound[..]);
        let answers = dkeys.into_iter().map(|dkey| self.answer(&query, dkey).transpose());
        let answers = answers.map(Option::into_iter);
        outermost(query.edge, answers.flatten()).transpose()
    }

    fn epoch(&self, dkey: Option<&[u8]>) -> Result<Epoch> {
        let of = |dkey: &u64| Ok(files::info(&self.path_of(*dkey))?.map(|info| epoch_of(&info)));
        let dkeys = match dkey.map(key_to_u64).transpose()? {
            Some(dkey) => Vec::from_iter(self.has(dkey)?.then_some(dkey)),
            None => self.dkeys()?,
        };
        let epochs = dkeys.iter().map(of).collect::<Result<Vec<_>>>()?;
        Ok(epochs.into_iter().flatten().max().unwrap_or_default())
    }
}
