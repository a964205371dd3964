//! Retrieval of the fields of a request, in its order.
use super::list::Listed;
use super::location::{FieldLocation, Holder};
use super::log::Flushed;
use super::{BATCH, FieldStore, layout};
use crate::Key;
use crate::limits::MISSING_NAMED;
use crate::request::Selection;
use esker::{Access, View, Wait};
use esker_types::ops::Sink;
use esker_types::{Error, ErrorKind, Extent, ObjectId, Result};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A field that was found and can be read.
#[derive(Clone)]
pub struct Field {
    store: FieldStore,
    key: Key,
    location: FieldLocation,
}

/// The result of a request.
pub struct Found {
    /// The fields in the order of the request; its last name varies fastest.
    pub fields: Vec<Field>,
    /// The first of the keys that the request names and the store lacks. If the request leaves out names that its
    /// fields have, keys of one pair: the values of the request that no field has.
    pub missing: Vec<Key>,
    /// Number of all such keys.
    pub missing_count: u64,
}

/// Most combinations that one consistent read looks up.
const AT_ONCE: usize = BATCH / 2;

/// The location of a combination of a request, if it exists.
type Slot = Option<(Key, FieldLocation)>;

/// A combination of a request.
pub(super) struct Wanted {
    /// Number of the combination in the order of the request.
    position: usize,
    /// The complete key, and the part of its innermost level.
    key: Key,
    datum: String,
    /// The datum of the range up to its step.
    range: Option<String>,
}

impl Wanted {
    /// The akeys to look up for this combination: its datum and, for a step, the range up to that step.
    fn akeys(&self) -> impl Iterator<Item = &[u8]> {
        [Some(&self.datum), self.range.as_ref()].into_iter().flatten().map(String::as_bytes)
    }
}

/// Combinations by database and index.
pub(super) type ByIndex = HashMap<(String, String), Vec<Wanted>>;

impl FieldStore {
    /// Searches for every field of a selection. If the selection has all names that a rule requires, each combination
    /// of its values is a field, found or missing. It is the field with exactly that key or, if that does not exist,
    /// the fields that have further names. Otherwise omitted names may have any value, and each listed value is found
    /// in some field, or missing. A step also selects the range up to it: 24 selects `0-24`, which comes after 24 if
    /// both exist.
    ///
    /// # Errors
    /// Errors of the backend and of [`Selection::keys`].
    pub fn find(&self, selection: &Selection) -> Result<Found> {
        match self.find_by_key(selection)? {
            Some(found) => Ok(found),
            None => self.find_by_values(selection),
        }
    }

    /// Finds the fields of a selection like [`FieldStore::find`]. It fails if a field is missing, unless the request
    /// says `expect=any`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]: the message names missing fields, or the value that matches nothing.
    pub fn retrieve(&self, selection: &Selection) -> Result<Vec<Field>> {
        let by_key = self.find_by_key(selection)?;
        let is_by_key = by_key.is_some();
        let found = by_key.map_or_else(|| self.find_by_values(selection), Ok)?;
        match found.missing_count {
            _ if selection.expects_any() => Ok(found.fields),
            count @ 1.. if is_by_key => {
                Err(missing_error(&found.missing, count, found.fields.len()))
            }
            _ if found.fields.is_empty() => Err(self.no_match_error(selection)?),
            0 => Ok(found.fields),
            count => Err(unmatched_error(&found.missing, count)),
        }
    }

    /// Refuses a request that lists a value that no field has, unless it says `expect=any`. Combinations of values may
    /// be missing.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]: the message names the values. Errors of the backend.
    pub fn expect_each_value(&self, selection: &Selection) -> Result<()> {
        if selection.expects_any() {
            return Ok(());
        }
        let unmatched = selection.unmatched_by(&self.axes_with_empty(&selection.with_ranges())?);
        match unmatched.len() as u64 {
            0 => Ok(()),
            count => Err(unmatched_error(&unmatched[..unmatched.len().min(MISSING_NAMED)], count)),
        }
    }

    /// Looks up the field of one key. Its bytes are not read yet.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it does not fit the schema, [`ErrorKind::NotFound`].
    pub fn field(&self, key: &Key) -> Result<Field> {
        let split = self.schema().split(key)?;
        let (index, datum) = (layout::current(split.index.as_str()), split.datum.as_str());
        let location = match self.index_of(split.database.as_str())? {
            Some(database_index) => database_index.fetch(&index, datum, Access::Latest)?,
            None => None,
        };
        let location = location.ok_or_else(|| missing_error(std::slice::from_ref(key), 1, 0))?;
        Ok(Field {
            store: self.clone(),
            key: split.whole,
            location: FieldLocation::decode(&location)?,
        })
    }

    /// A field that a listing found, for reading.
    #[must_use]
    pub fn listed(&self, listed: Listed) -> Field {
        self.found(listed.key, listed.location)
    }

    /// Looks up every combination, index by index; `None` if the selection omits names that every field has. If it
    /// omits optional names, fields with these names are listed.
    fn find_by_key(&self, selection: &Selection) -> Result<Option<Found>> {
        let Some(count) = selection.count() else { return Ok(None) };
        let mut wanted = ByIndex::new();
        for (position, key) in selection.keys()?.enumerate() {
            // The selection omits a name that each rule requires.
            let Ok(split) = self.schema().split(&key) else { return Ok(None) };
            let place = (split.database.to_string(), split.index.to_string());
            let range = selection.range_of(&split.datum).map(|datum| datum.to_string());
            let (key, datum) = (split.whole, split.datum.to_string());
            wanted.entry(place).or_default().push(Wanted { position, key, datum, range });
        }
        // For each combination: the field itself, and the field of the range up to its step.
        let mut slots: Vec<[Slot; 2]> = vec![[None, None]; count as usize];
        self.look_all_up(selection, &wanted, &mut slots)?;
        let exists: Vec<bool> =
            slots.iter().map(|slots| slots.iter().any(Option::is_some)).collect();
        // Checks this after the look-ups, so that fields flushed meanwhile are listed.
        if exists.contains(&false) && self.has_more(selection, &wanted)? {
            return self.find_with_more(selection, &slots, exists).map(Some);
        }
        let (missing, missing_count) = self.missing_keys(selection, &exists)?;
        let fields = slots.into_iter().flatten().flatten();
        let fields = fields.map(|(key, location)| self.found(key, location)).collect();
        Ok(Some(Found { fields, missing, missing_count }))
    }

    /// The fields of combinations of which some exist only with further names. If a field has exactly the requested
    /// key, fields with further names are left out.
    fn find_with_more(
        &self,
        selection: &Selection,
        slots: &[[Slot; 2]],
        mut exists: Vec<bool>,
    ) -> Result<Found> {
        let mut found = self.find_by_listing(selection)?;
        let (ranges, by_key) = (selection.with_ranges(), exists.clone());
        let keys = slots.iter().flatten().flatten().map(|(key, _)| key.as_str());
        let keys: HashSet<&str> = keys.collect();
        found.fields.retain(|field| {
            let Some(number) = ranges.number(&field.key) else { return true };
            exists[number] = true;
            !by_key[number] || keys.contains(field.key.as_str())
        });
        (found.missing, found.missing_count) = self.missing_keys(selection, &exists)?;
        Ok(found)
    }

    /// Looks up combinations at one moment: in a transaction or, if others flush meanwhile, by the logs of flushes.
    fn look_all_up(
        &self,
        selection: &Selection,
        wanted: &ByIndex,
        slots: &mut [[Slot; 2]],
    ) -> Result<()> {
        if self.look_up_at_once(selection, wanted, slots)? {
            return Ok(());
        }
        let mut look = |(database, index): &(String, String), data: &[Wanted]| {
            let place = (database.as_str(), index.as_str());
            self.look_up(selection, place, data, Access::Latest, slots)
        };
        let databases: HashSet<&str> = wanted.keys().map(|(name, _)| name.as_str()).collect();
        let concerned = |name: &str| databases.contains(name);
        let logs = self.logs(concerned)?;
        wanted.iter().try_for_each(|(place, data)| look(place, data))?;
        self.reread_until_consistent(logs, concerned, |name, _, flushed| {
            let mut here = wanted.iter().filter(|((database, index), data)| {
                let is_flushed = |flushed: &Flushed| any_of(data, flushed.get(index));
                database == name && flushed.as_ref().is_none_or(is_flushed)
            });
            here.try_for_each(|(place, data)| look(place, data))
        })
    }

    /// Looks up combinations in one read-only transaction. False if something that it read has changed meanwhile.
    fn look_up_at_once(
        &self,
        selection: &Selection,
        wanted: &ByIndex,
        slots: &mut [[Slot; 2]],
    ) -> Result<bool> {
        let mut look = |access: Access<'_>| {
            wanted.iter().try_for_each(|((database, index), data)| {
                self.look_up(selection, (database, index), data, access, slots)
            })
        };
        if self.is_one_read(wanted)? {
            return look(Access::Latest).map(|()| true);
        }
        let transaction = self.container().transaction_read_only()?;
        look(Access::Tx(&transaction))?;
        match transaction.commit().wait() {
            Err(error) if error.kind() == ErrorKind::TxRestart => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// True if all combinations are read by one request, which is consistent.
    fn is_one_read(&self, wanted: &ByIndex) -> Result<bool> {
        let mut all = wanted.iter();
        let (Some(((database, _), data)), None) = (all.next(), all.next()) else {
            return Ok(wanted.is_empty());
        };
        let Some(database_index) = self.index_of(database)? else { return Ok(false) };
        let mut used =
            data.iter().flat_map(Wanted::akeys).map(|datum| database_index.stripe_of(datum));
        let first = used.next();
        Ok(data.len() <= AT_ONCE && used.all(|stripe| Some(stripe) == first))
    }

    /// Looks up the wanted data of one index, in one access, and notes their locations in `slots`.
    fn look_up(
        &self,
        selection: &Selection,
        (database, index): (&str, &str),
        data: &[Wanted],
        access: Access<'_>,
        slots: &mut [[Slot; 2]],
    ) -> Result<()> {
        let Some(database_index) = self.index_at(database, access)? else { return Ok(()) };
        let dkey = layout::current(index);
        for part in data.chunks(AT_ONCE) {
            let akeys: Vec<&[u8]> = part.iter().flat_map(Wanted::akeys).collect();
            let mut locations = database_index.fetch_many(&dkey, &akeys, access)?.into_iter();
            let mut decoded = || {
                let location = locations.next().flatten();
                location.map(|location| FieldLocation::decode(&location)).transpose()
            };
            for Wanted { position, key, range, .. } in part {
                let slot = &mut slots[*position];
                slot[0] = decoded()?.map(|location| (key.clone(), location));
                if range.is_some() {
                    slot[1] = selection.range_of(key).zip(decoded()?);
                }
            }
        }
        Ok(())
    }

    /// The first combinations that have no field, and the number of all such combinations.
    fn missing_keys(&self, selection: &Selection, exists: &[bool]) -> Result<(Vec<Key>, u64)> {
        let count = exists.iter().filter(|exists| !**exists).count() as u64;
        if count == 0 {
            return Ok((Vec::new(), 0));
        }
        let keys = selection.keys()?.zip(exists).filter(|(_, exists)| !**exists);
        let whole = |(key, _): (Key, _)| Ok(self.schema().split(&key)?.whole);
        let missing = keys.take(MISSING_NAMED).map(whole).collect::<Result<Vec<Key>>>()?;
        Ok((missing, count))
    }

    /// Lists the matching fields, and the listed values that none of them has.
    fn find_by_values(&self, selection: &Selection) -> Result<Found> {
        let mut found = self.find_by_listing(selection)?;
        found.missing = selection.unmatched(found.fields.iter().map(Field::key));
        found.missing_count = found.missing.len() as u64;
        found.missing.truncate(MISSING_NAMED);
        Ok(found)
    }

    /// Lists the matching fields in the order of the request.
    fn find_by_listing(&self, selection: &Selection) -> Result<Found> {
        let ranges = selection.with_ranges();
        let mut found = self.list(&ranges)?;
        found.sort_by_cached_key(|Listed { key, .. }| {
            // A range up to a step comes after the step.
            let range = !selection.matches(key);
            (ranges.position(key), range, key.clone())
        });
        let fields = found.into_iter().map(|listed| self.listed(listed)).collect::<Vec<_>>();
        Ok(Found { fields, missing: Vec::new(), missing_count: 0 })
    }

    /// A field of this store with a known location.
    pub(super) fn found(&self, key: Key, location: FieldLocation) -> Field {
        Field { store: self.clone(), key, location }
    }

    /// The error for a selection without fields: it names the first name whose values do not exist.
    fn no_match_error(&self, selection: &Selection) -> Result<Error> {
        let axes = self.axes(&self.everything())?;
        if axes.iter().all(|(_, mut values)| values.next().is_none()) {
            let text = "the store has no fields: `esker fields archive` adds those of files";
            return Ok(Error::new(ErrorKind::NotFound, text));
        }
        for name in selection.names() {
            let Some(values) = selection.values(name) else { continue };
            let mut stored = axes.values(name);
            if selection.lists_absence(name)
                || values.iter().any(|value| axes.contains(name, value))
            {
                continue;
            }
            let some: Vec<&str> = stored.by_ref().take(MISSING_NAMED).collect();
            let more = if stored.next().is_some() { "/..." } else { "" };
            let (wanted, some) = (values.join("/"), some.join("/"));
            let text = match some.is_empty() {
                true => format!("no field has {name}={wanted}: no field of the store has a {name}"),
                false => format!("no field has {name}={wanted}: there is {some}{more}"),
            };
            return Ok(Error::new(ErrorKind::NotFound, text));
        }
        let text = "no field matches all of the request: `esker fields list` and `esker fields axes` show what there is";
        Ok(Error::new(ErrorKind::NotFound, text))
    }
}

/// Whether a flushed field is among the wanted ones.
fn any_of(wanted: &[Wanted], flushed: Option<&BTreeSet<String>>) -> bool {
    let Some(flushed) = flushed else { return false };
    wanted.iter().any(|Wanted { datum, range, .. }| {
        flushed.contains(datum) || range.as_ref().is_some_and(|range| flushed.contains(range))
    })
}

/// The error for `count` missing fields, of which `keys` are the first. `there` is the number of those that exist.
fn missing_error(keys: &[Key], count: u64, there: usize) -> Error {
    let first: Vec<String> = keys.iter().take(3).map(Key::to_string).collect();
    let text = format!(
        "{count} of {} fields are missing: {}{}",
        count + there as u64,
        first.join("; "),
        if count > first.len() as u64 { "; ..." } else { "" }
    );
    Error::new(ErrorKind::NotFound, text)
}

/// The error for listed values that no field has, although other fields match.
fn unmatched_error(values: &[Key], count: u64) -> Error {
    let first: Vec<&str> = values.iter().map(Key::as_str).collect();
    let more = if count > first.len() as u64 { ", ..." } else { "" };
    let first = first.join(", ");
    let text = format!(
        "no field of the request has {first}{more}: leave it out, or allow missing fields with expect=any"
    );
    Error::new(ErrorKind::NotFound, text)
}

impl Field {
    /// The complete key of the field.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The location of its bytes.
    #[must_use]
    pub fn location(&self) -> &FieldLocation {
        &self.location
    }

    pub(super) fn store(&self) -> &FieldStore {
        &self.store
    }

    /// The length of the field in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.location.bytes
    }

    /// All its bytes, verified by their checksums (adopted files have none).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if it was wiped or purged since it was found; [`ErrorKind::Checksum`].
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = esker_types::memory::zeros(self.location.bytes as usize)?;
        self.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `buffer` with its bytes, starting at `offset`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] past its end; the errors of [`Field::read`].
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.location.bytes) {
            let (key, bytes, len) = (&self.key, self.location.bytes, buffer.len());
            let text = format!("{key}: {len} bytes from {offset} on of a field of {bytes} bytes");
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        if buffer.is_empty() {
            return Ok(());
        }
        match &self.location.holder {
            Holder::Array(oid) => self.read_array(*oid, offset, buffer),
            Holder::File { path, offset: begin } => File::open(path)
                .and_then(|file| file.read_exact_at(buffer, begin + offset))
                .map_err(|error| Error::io(format_args!("reading {}", path.display()), &error)),
        }
    }

    /// All its bytes in place, or, if `may_copy`, a copy: see [`esker::Array::view`]. Bytes of an adopted file are
    /// copied.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] if a copy is necessary but `may_copy` is not set; the errors of [`Field::read`].
    pub fn view(&self, may_copy: bool) -> Result<View> {
        let in_place = match &self.location.holder {
            Holder::Array(oid) => {
                let whole = Extent::new(0, self.location.bytes);
                layout::field(self.store.container(), *oid)?
                    .view(whole, false, Access::Latest)
                    .wait()
            }
            Holder::File { .. } => Err(View::refused()),
        };
        match in_place {
            Err(error) if error.kind() == ErrorKind::NotSupported && may_copy => {
                self.read().map(View::from_vec)
            }
            // A removed field cannot be read either.
            Err(error) if error.kind() == ErrorKind::NotSupported => {
                self.read_at(0, &mut [0]).and(Err(error))
            }
            other => other,
        }
    }

    /// Reads a part of the array that holds a field. A field has no holes: missing bytes are an error, also those before
    /// bytes that exist, since the nodes of a pool remove its chunks independently.
    fn read_array(&self, oid: ObjectId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let range = [Extent::new(offset, buffer.len() as u64)];
        let array = layout::field(self.store.container(), oid)?;
        match array.read_complete(&range, Sink::One(buffer), Access::Latest).wait()? {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::NotFound,
                format!("{}: it was wiped or purged while it was being read", self.key),
            )),
        }
    }
}
