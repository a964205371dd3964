//! Look-up, listing, renaming and removal of tensors.
use super::records::{now_ms, unless_damaged};
use super::{Tensor, TensorStore, layout};
use crate::dtype::DataType;
use crate::limits::NAME_BYTES_MAX;
use crate::messages::{State, TensorRecord};
use esker::{Access, Kv, Wait};
use esker_types::ops::{Anchor, Cond, KeyQuery, ListLimit};
use esker_types::{Error, ErrorKind, ObjectId, Result, Uuid};
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Keys that are listed at a time.
const BATCH: usize = 4096;

/// Most retries of a reader because a tensor was replaced meanwhile.
const RETRIES_MAX: u32 = 100;

/// A visible tensor in a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The type of its elements.
    pub data_type: DataType,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Bytes of its elements.
    pub bytes: u64,
    /// Time of its commit.
    pub committed: SystemTime,
}

/// Location of a visible tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// Its UUID.
    pub uuid: Uuid,
    /// The Array with its chunks.
    pub oid: ObjectId,
    /// Time of its commit.
    pub committed: SystemTime,
}

/// Checks that tensors may have a name.
///
/// # Errors
/// [`ErrorKind::Invalid`] if it is empty, too long, has control characters or is a UUID.
pub(super) fn check_name(name: &str) -> Result<()> {
    let why = match name {
        "" => "it is empty",
        _ if name.len() > NAME_BYTES_MAX => "it is longer than 1000 bytes (NAME_BYTES_MAX)",
        _ if name.chars().any(char::is_control) => "it has control characters",
        _ if Uuid::parse(name).is_some() => "it is a UUID, which would name another tensor",
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Invalid, format!("{name:?} cannot be the name of a tensor: {why}")))
}

/// All keys of a Key-Value.
pub(super) fn all_keys(kv: &Kv, access: Access<'_>) -> Result<Vec<String>> {
    let (mut anchor, mut found) = (Anchor::Start, Vec::new());
    while !anchor.is_end() {
        let batch = kv.list(&mut anchor, ListLimit::entries(BATCH), access).wait()?;
        found.extend(batch.iter().map(|key| String::from_utf8_lossy(key).into_owned()));
    }
    Ok(found)
}

/// `None` in place of the error for damage, whose name is added to `damaged`.
fn note_damage<T>(
    found: Result<Option<T>>,
    damaged: &mut BTreeSet<String>,
    name: impl FnOnce() -> String,
) -> Result<Option<T>> {
    match found {
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            damaged.insert(name());
            Ok(None)
        }
        found => found,
    }
}

impl TensorStore {
    /// The UUID and the record of a visible tensor.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the tensor does not exist.
    pub(super) fn find(&self, name: &str) -> Result<(Uuid, TensorRecord)> {
        let access = self.access();
        for _ in 0..RETRIES_MAX {
            let by_uuid = Uuid::parse(name);
            let Some(uuid) =
                by_uuid.map_or_else(|| self.named(name, access), |uuid| Ok(Some(uuid)))?
            else {
                return Err(self.missing_error(name));
            };
            let record = self.record(uuid, access)?;
            match record {
                Some(record) if self.is_visible(uuid, &record, access)? => {
                    return Ok((uuid, record));
                }
                // The tensor was renamed after its record was read.
                Some(record) if self.is_renamed(uuid, &record, access)? => {}
                // The name refers to another tensor by now.
                _ if by_uuid.is_none() && self.named(name, access)? != Some(uuid) => {}
                _ => return Err(self.missing_error(name)),
            }
        }
        let text = format!(
            "tensor {name:?} was replaced {RETRIES_MAX} times while it was looked up: try again"
        );
        Err(Error::new(ErrorKind::Again, text))
    }

    #[cold]
    fn missing_error(&self, name: &str) -> Error {
        let label = &self.container.info().label;
        let text = format!("{label} has no tensor {name:?}: `esker tensor list` lists all");
        Error::new(ErrorKind::NotFound, text)
    }

    /// Opens a tensor by its name or UUID. An open tensor does not change, even if its name is replaced or removed.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no visible tensor has it; errors of the backend.
    pub fn open_tensor(&self, name: &str) -> Result<Tensor> {
        for _ in 0..RETRIES_MAX {
            let (uuid, record) = self.find(name)?;
            if let Some(tensor) = Tensor::open(self, uuid, record)? {
                return Ok(tensor);
            }
        }
        let text = format!(
            "tensor {name:?} was replaced {RETRIES_MAX} times while it was opened: try again"
        );
        Err(Error::new(ErrorKind::Again, text))
    }

    /// Opens the tensor with a UUID, also if it was removed or replaced while a process still reads it. So a process
    /// can continue with an open tensor that it inherited.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the tensor does not exist or was never committed; errors of the backend.
    pub fn open_uuid(&self, uuid: Uuid) -> Result<Tensor> {
        let record = self.record(uuid, self.access())?;
        let record = record.filter(|record| record.state() != State::Pending);
        let tensor = record.map(|record| Tensor::open_held(self, uuid, record)).transpose()?;
        tensor.flatten().ok_or_else(|| self.missing_error(&uuid.to_string()))
    }

    /// The UUID of the tensor whose elements are in an Array, visible or not. Takes time in proportion to the number of
    /// tensors, because the id of the Array does not contain the UUID.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn uuid_of(&self, data: ObjectId) -> Result<Option<Uuid>> {
        let class = data.class().code();
        let mut anchor = Anchor::Start;
        while !anchor.is_end() {
            let limit = ListLimit::entries(BATCH);
            let keys = self.tensors.list(&mut anchor, limit, self.access()).wait()?;
            let mut uuids =
                keys.iter().filter_map(|key| Uuid::parse(std::str::from_utf8(key).ok()?));
            if let Some(uuid) = uuids.find(|uuid| layout::data_oid(*uuid, class) == data) {
                return Ok(Some(uuid));
            }
        }
        Ok(None)
    }

    /// The location of a tensor by its name or UUID, without opening it.
    ///
    /// # Errors
    /// The errors of [`TensorStore::open_tensor`].
    pub fn locate(&self, name: &str) -> Result<Located> {
        let (uuid, record) = self.find(name)?;
        let committed = UNIX_EPOCH + Duration::from_millis(record.committed_ms);
        Ok(Located { uuid, oid: layout::data_oid(uuid, record.object_class), committed })
    }

    /// The first name after `after` in byte order, to list names in batches.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn next_name(&self, after: &[u8]) -> Result<Option<String>> {
        let after = Some(after).filter(|after| !after.is_empty());
        let query = KeyQuery { after, ..KeyQuery::FIRST_DKEY };
        let found = self.names.object().query_key(query, self.access()).wait()?;
        let name = found.map(|found| String::from_utf8(found.dkey)).transpose();
        name.map_err(|_| {
            let text = "a name of a tensor is not in UTF-8: run `esker tensor check`";
            Error::new(ErrorKind::Corrupt, text)
        })
    }

    /// All visible tensors: those with names first, sorted by name, then the others by time. A tensor that is replaced
    /// or renamed during the listing is listed as before or as after. Tensors with damaged records or names are left
    /// out: [`TensorStore::list_with_damaged`] names them.
    ///
    /// # Errors
    /// Errors of the backend; [`ErrorKind::Again`] if a tensor is replaced over and over.
    pub fn list(&self) -> Result<Vec<Listed>> {
        Ok(self.list_with_damaged()?.0)
    }

    /// Like [`TensorStore::list`], with the names of the tensors whose records or names are damaged, or their UUIDs if
    /// no name refers to them. [`TensorStore::check`] describes the damage.
    ///
    /// # Errors
    /// The errors of [`TensorStore::list`].
    pub fn list_with_damaged(&self) -> Result<(Vec<Listed>, Vec<String>)> {
        let mut damaged = BTreeSet::new();
        let names = self.list_names(&mut damaged)?;
        let mut listed = HashMap::new();
        for key in all_keys(&self.tensors, self.access())? {
            let shown = note_damage(self.list_one(&key, &names), &mut damaged, || {
                let uuid = Uuid::parse(&key);
                uuid.and_then(|uuid| names.get(&uuid).cloned()).unwrap_or(key)
            })?;
            listed.extend(shown.map(|shown| (shown.uuid, shown)));
        }
        self.list_replaced(names, &mut listed, &mut damaged)?;
        let mut listed: Vec<Listed> = listed.into_values().collect();
        listed.sort_by(|a, b| a.order().cmp(&b.order()));
        Ok((listed, damaged.into_iter().collect()))
    }

    /// All names by the tensors to which they refer.
    fn list_names(&self, damaged: &mut BTreeSet<String>) -> Result<HashMap<Uuid, String>> {
        let mut names = HashMap::new();
        for name in all_keys(&self.names, self.access())? {
            let uuid = note_damage(self.named(&name, self.access()), damaged, || name.clone())?;
            names.extend(uuid.map(|uuid| (uuid, name)));
        }
        Ok(names)
    }

    /// The tensor with the record under a key; `None` if it is not visible.
    fn list_one(&self, key: &str, names: &HashMap<Uuid, String>) -> Result<Option<Listed>> {
        let uuid = Uuid::parse(key).ok_or(ErrorKind::Corrupt)?;
        let record = self.record(uuid, self.access())?;
        let Some(record) = record.filter(|record| record.state() == State::Committed) else {
            return Ok(None);
        };
        let name = match names.get(&uuid).filter(|name| record.names.contains(name)) {
            Some(name) => Some(name.clone()),
            // The name may refer to it since a moment ago.
            None => unless_damaged(self.name_of(uuid, &record, self.access()))?,
        };
        let is_visible = name.is_some() || record.names.is_empty();
        is_visible.then(|| Listed::new(uuid, name, &record)).transpose()
    }

    /// Looks up names again whose tensors are not listed under them: other tensors may have these names by now.
    fn list_replaced(
        &self,
        names: HashMap<Uuid, String>,
        listed: &mut HashMap<Uuid, Listed>,
        damaged: &mut BTreeSet<String>,
    ) -> Result<()> {
        for (uuid, name) in names {
            if listed.get(&uuid).is_some_and(|listed| listed.name.as_ref() == Some(&name)) {
                continue;
            }
            let found = match self.find(&name) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Ok((uuid, _)) if listed.contains_key(&uuid) => continue,
                Ok((uuid, record)) => Listed::new(uuid, Some(name.clone()), &record).map(Some),
                Err(error) => Err(error),
            };
            let found = note_damage(found, damaged, || name)?;
            listed.extend(found.map(|shown| (shown.uuid, shown)));
        }
        Ok(())
    }

    /// Gives a tensor another name, or its first. A tensor that has the name is replaced, as by a commit.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the tensor `from` does not exist, [`ErrorKind::Invalid`] if `to` cannot be a name.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.check_writable()?;
        check_name(to)?;
        let replaced = self.atomically(|access| self.rename_in(from, to, access))?;
        if let Some(replaced) = replaced {
            // If this fails, a later collection frees the tensor.
            let _ = self.retire(replaced);
        }
        Ok(())
    }

    /// Changes the name of a tensor. Between the changes, the tensor has both names. Returns the tensor that it
    /// replaces.
    fn rename_in(&self, from: &str, to: &str, access: Access<'_>) -> Result<Option<Uuid>> {
        let (uuid, mut record) = self.find_in(from, access)?;
        let before = std::mem::replace(&mut record.names, vec![to.to_owned()]);
        let named = self.readable_name(to, access)?;
        if before.iter().any(|name| name == to) && named == Some(uuid) {
            return Ok(None);
        }
        // Without a transaction, each change is visible by itself.
        let is_single = matches!(access, Access::Latest);
        if is_single && !before.is_empty() {
            record.names.extend(before.iter().cloned());
        }
        let replaced = named.filter(|other| *other != uuid);
        // A tensor without names is visible as long as its record has none. So its record gets the name last.
        if !(is_single && before.is_empty()) {
            self.put_record(uuid, &record, access)?;
        }
        self.names.put(to.as_bytes(), uuid.to_string().as_bytes(), Cond::NONE, access).wait()?;
        let old: Vec<String> = before.into_iter().filter(|name| name != to).collect();
        self.remove_names(uuid, &old, access)?;
        if is_single {
            record.names.truncate(1);
            self.put_record(uuid, &record, access)?;
        }
        replaced.map_or(Ok(()), |other| self.mark_removed(other, access))?;
        Ok(replaced)
    }

    /// Finds a visible tensor by its name or UUID, within a change.
    fn find_in(&self, name: &str, access: Access<'_>) -> Result<(Uuid, TensorRecord)> {
        let uuid = match Uuid::parse(name) {
            Some(uuid) => Some(uuid),
            None => self.named(name, access)?,
        };
        let Some(uuid) = uuid else { return Err(self.missing_error(name)) };
        match self.record(uuid, access)? {
            Some(record) if self.is_visible(uuid, &record, access)? => Ok((uuid, record)),
            _ => Err(self.missing_error(name)),
        }
    }

    /// Removes a tensor by its name or UUID. Processes that have it open can still read it. The elements of a tensor
    /// whose record or name is damaged are freed by the next collection. Returns its UUID, which a damaged name lacks.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no visible tensor has it.
    pub fn remove(&self, name: &str) -> Result<Option<Uuid>> {
        self.check_writable()?;
        let uuid = self.atomically(|access| {
            let (uuid, record) = match self.find_in(name, access) {
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    return self.remove_damaged(name, access);
                }
                found => found?,
            };
            self.remove_names(uuid, &record.names, access)?;
            self.mark_removed(uuid, access)?;
            Ok(Some(uuid))
        })?;
        // If this fails, a later collection frees the tensor.
        let _ = uuid.map(|uuid| self.retire(uuid));
        Ok(uuid)
    }

    /// Removes those of `names` that refer to a tensor.
    fn remove_names(&self, uuid: Uuid, names: &[String], access: Access<'_>) -> Result<()> {
        for name in names {
            if self.readable_name(name, access)? == Some(uuid) {
                self.names.remove(name.as_bytes(), Cond::NONE, access).wait()?;
            }
        }
        Ok(())
    }

    /// Removes a damaged record and the names that refer to it, or a damaged name.
    fn remove_damaged(&self, name: &str, access: Access<'_>) -> Result<Option<Uuid>> {
        let uuid = match Uuid::parse(name) {
            Some(uuid) => Some(uuid),
            None => self.readable_name(name, access)?,
        };
        let Some(uuid) = uuid else {
            self.names.remove(name.as_bytes(), Cond::NONE, access).wait()?;
            return Ok(None);
        };
        self.remove_names(uuid, &all_keys(&self.names, access)?, access)?;
        self.tensors.remove(uuid.to_string().as_bytes(), Cond::NONE, access).wait()?;
        Ok(Some(uuid))
    }

    /// Makes a tensor visible, under `name` if that is given. Returns the tensor that it replaces.
    pub(super) fn publish(
        &self,
        uuid: Uuid,
        (name, sparse): (Option<&str>, bool),
        access: Access<'_>,
    ) -> Result<Option<Uuid>> {
        let mut record = self.record(uuid, access)?.ok_or_else(|| aborted_put_error(uuid))?;
        check_pending(uuid, &record)?;
        record.set_state(State::Committed);
        record.committed_ms = now_ms();
        record.sparse = sparse;
        record.names = name.map(str::to_owned).into_iter().collect();
        let replaced = name.map_or(Ok(None), |name| self.readable_name(name, access))?;
        self.put_record(uuid, &record, access)?;
        let Some(name) = name else { return Ok(None) };
        // Without transactions, this change makes the tensor visible.
        self.names.put(name.as_bytes(), uuid.to_string().as_bytes(), Cond::NONE, access).wait()?;
        replaced.map_or(Ok(()), |other| self.mark_removed(other, access))?;
        Ok(replaced)
    }
}

/// Checks that a PUT is neither committed nor removed.
pub(super) fn check_pending(uuid: Uuid, record: &TensorRecord) -> Result<()> {
    match record.state() {
        State::Pending => Ok(()),
        State::Committed => {
            let text =
                format!("tensor {uuid} was committed, and does not change any more: begin another");
            Err(Error::new(ErrorKind::Already, text))
        }
        State::Removed => Err(aborted_put_error(uuid)),
    }
}

#[cold]
pub(super) fn aborted_put_error(uuid: Uuid) -> Error {
    let text = format!(
        "the PUT of tensor {uuid} was aborted, or collected by `esker tensor gc` because it was older than its \
         --age: begin another"
    );
    Error::new(ErrorKind::NotFound, text)
}

impl Listed {
    /// The tensor as a listing shows it.
    fn new(uuid: Uuid, name: Option<String>, record: &TensorRecord) -> Result<Self> {
        let committed = UNIX_EPOCH + Duration::from_millis(record.committed_ms);
        let bytes = record.grid().map_err(|_| ErrorKind::Corrupt)?.bytes();
        let (data_type, shape) = (record.data_type()?.clone(), record.shape.clone());
        Ok(Self { uuid, name, data_type, shape, bytes, committed })
    }

    /// Key for sorting: tensors with names by name, then the others by time.
    fn order(&self) -> (bool, &Option<String>, SystemTime, Uuid) {
        (self.name.is_none(), &self.name, self.committed, self.uuid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewTensor, Strided};
    use esker_conformance::faulty::{Fault, Faulty};
    use esker_types::info::OpenMode;
    use std::sync::Arc;

    /// A new store in memory.
    fn new_store() -> TensorStore {
        let pool: Arc<dyn esker::backend::Pool> = Arc::new(Faulty::new(Fault::None));
        let pool = esker::Pool::from_backend(pool, OpenMode::ReadWrite);
        TensorStore::create(&pool, "tensors").unwrap()
    }

    /// Stores a tensor of one element.
    fn put(store: &TensorStore, name: &str) -> Uuid {
        let new = NewTensor::new(DataType::parse("|u1").unwrap(), &[1]);
        store.put(&new, &Strided::contiguous(&[1], &[1], 1).unwrap(), Some(name)).unwrap()
    }

    /// Replaces the record of a tensor.
    fn damage(store: &TensorStore, uuid: Uuid, record: &[u8]) {
        let key = uuid.to_string();
        store.tensors.put(key.as_bytes(), record, Cond::NONE, Access::Latest).wait().unwrap();
    }

    /// The names of all tensors in a listing.
    fn listed(store: &TensorStore) -> Vec<String> {
        store.list().unwrap().into_iter().map(|one| one.name.unwrap()).collect()
    }

    /// The damaged tensors of a listing.
    fn damaged(store: &TensorStore) -> Vec<String> {
        store.list_with_damaged().unwrap().1
    }

    #[test]
    fn damaged_records_are_left_out_and_can_be_removed() {
        let store = new_store();
        let [one, two, _] = ["a", "b", "c"].map(|name| put(&store, name));
        damage(&store, one, b"\x0a\x7f");
        damage(&store, two, b"\x0a\x7f");
        assert_eq!(
            (listed(&store), damaged(&store)),
            (vec!["c".into()], vec!["a".into(), "b".into()])
        );
        let collected = store.collect(Duration::ZERO, true).unwrap();
        assert_eq!((collected.objects, collected.kept), (0, 2));
        assert_eq!(store.remove("a").unwrap(), Some(one));
        assert_eq!(store.remove(&two.to_string()).unwrap(), Some(two));
        let collected = store.collect(Duration::ZERO, true).unwrap();
        assert_eq!((collected.objects, collected.kept), (2, 0));
        assert_eq!(store.check(true).unwrap().problems, [""; 0]);
    }

    #[test]
    fn records_without_a_type_are_left_out_and_can_be_removed() {
        let store = new_store();
        let [one, _] = ["a", "b"].map(|name| put(&store, name));
        let mut record = store.record(one, Access::Latest).unwrap().unwrap();
        record.data_type = None;
        damage(&store, one, &record.bytes().unwrap());
        assert_eq!((listed(&store), damaged(&store)), (vec!["b".into()], vec!["a".into()]));
        assert_eq!(store.remove("a").unwrap(), Some(one));
        assert_eq!(damaged(&store), [""; 0]);
        assert_eq!(store.check(true).unwrap().problems, [""; 0]);
    }

    #[test]
    fn damaged_names_are_left_out_and_can_be_removed_and_replaced() {
        let store = new_store();
        let [one, ..] = ["a", "b", "c"].map(|name| put(&store, name));
        for name in [b"a", b"b"] {
            store.names.put(name, b"x", Cond::NONE, Access::Latest).wait().unwrap();
        }
        assert_eq!(
            (listed(&store), damaged(&store)),
            (vec!["c".into()], vec!["a".into(), "b".into()])
        );
        let collected = store.collect(Duration::ZERO, true).unwrap();
        assert_eq!((collected.objects, collected.kept), (0, 2));
        put(&store, "b");
        assert_eq!(store.remove(&one.to_string()).unwrap(), Some(one));
        assert_eq!(store.remove("a").unwrap(), None);
        assert_eq!(listed(&store), ["b", "c"]);
        assert_eq!(store.collect(Duration::ZERO, true).unwrap().kept, 0);
        assert_eq!(store.check(true).unwrap().problems, [""; 0]);
    }

    #[test]
    fn tensors_with_damaged_records_can_be_replaced() {
        let store = new_store();
        for uuid in ["a", "b", "c"].map(|name| put(&store, name)) {
            damage(&store, uuid, b"\x0a\x7f");
        }
        put(&store, "a");
        assert_eq!(
            (listed(&store), damaged(&store)),
            (vec!["a".into()], vec!["b".into(), "c".into()])
        );
        let fresh = put(&store, "fresh");
        store.rename("fresh", "b").unwrap();
        store.remove("c").unwrap();
        assert_eq!(
            (listed(&store), store.find("b").unwrap().0),
            (vec!["a".into(), "b".into()], fresh)
        );
        let collected = store.collect(Duration::ZERO, true).unwrap();
        assert_eq!((collected.objects, collected.kept), (3, 0));
    }

    #[test]
    fn names_that_would_mislead_are_refused() {
        for name in ["", "a\nb", "67e55044-10b1-426f-9247-bb680e5fe0c8", &"x".repeat(1001)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(check_name("run 1/step=0/\u{e4}").is_ok());
    }
}
