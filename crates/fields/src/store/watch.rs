//! Watches: they yield fields as they are flushed.
use super::index::DatabaseIndex;
use super::list::{Listed, database_key};
use super::location::FieldLocation;
use super::log::{self, Flushed, Marks};
use super::retrieve::Field;
use super::{FieldStore, moment};
use crate::Key;
use crate::request::Selection;
use esker::Access;
use esker_types::Result;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Interval between two polls: short at first, longer while no field arrives.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Yields each field of a selection once it is flushed, and again whenever it is archived again; the fields of one
/// poll in the order in which they were archived.
///
/// A poll reads small values of each database, and the fields that its logs name since the last poll. It lists the
/// database only if it comes too late for a log. Memory grows with the number of fields seen.
pub struct Watch {
    store: FieldStore,
    selection: Selection,
    databases: HashMap<String, Database>,
    seen: HashMap<Key, FieldLocation>,
    ready: VecDeque<Listed>,
    #[cfg(test)]
    listings: u32,
}

/// A known database.
struct Database {
    key: Key,
    /// Whether the selection may match its fields.
    wanted: bool,
    /// Sequence numbers up to which its logs are read.
    marks: Marks,
}

impl FieldStore {
    /// Watches the fields of a selection. With `existing`, the current ones come first.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn watch(&self, selection: &Selection, existing: bool) -> Result<Watch> {
        let mut watch = Watch {
            store: self.clone(),
            selection: selection.clone(),
            databases: HashMap::new(),
            seen: HashMap::new(),
            ready: VecDeque::new(),
            #[cfg(test)]
            listings: 0,
        };
        watch.begin()?;
        if !existing {
            watch.ready.clear();
        }
        Ok(watch)
    }
}

impl Watch {
    /// The next of the fields that a poll has already found.
    pub fn next_ready(&mut self) -> Option<Field> {
        self.ready.pop_front().map(|listed| self.store.listed(listed))
    }

    /// Waits for the next field; `None` if none arrives within `timeout`.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Field>> {
        let (begin, mut pause) = (Instant::now(), PAUSE_MIN);
        loop {
            if let Some(field) = self.next_ready() {
                return Ok(Some(field));
            }
            self.poll()?;
            if !self.ready.is_empty() {
                continue;
            }
            let left = timeout.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Records the state of the logs, then the current fields.
    fn begin(&mut self) -> Result<()> {
        for name in self.store.databases()? {
            let mut database = self.new_database(&name)?;
            if let Some(index) = self.index_of(&name, &database)? {
                database.marks = log::marks(&index, Access::Latest)?;
                self.read(&index, &database.key, None)?;
            }
            self.databases.insert(name, database);
        }
        self.sort();
        Ok(())
    }

    /// State of a database that was not watched before.
    fn new_database(&self, name: &str) -> Result<Database> {
        let key = database_key(name)?;
        let wanted = self.selection.may_match(&key);
        Ok(Database { key, wanted, marks: Marks::new() })
    }

    /// The index of a database; `None` if it has none, or the selection matches none of its fields.
    fn index_of(&self, name: &str, database: &Database) -> Result<Option<DatabaseIndex>> {
        if database.wanted { self.store.index_of(name) } else { Ok(None) }
    }

    /// Reads fields flushed since the last poll.
    fn poll(&mut self) -> Result<()> {
        for name in self.store.databases()? {
            let mut database = match self.databases.remove(&name) {
                Some(database) => database,
                None => self.new_database(&name)?,
            };
            let result = self.poll_database(&name, &mut database);
            self.databases.insert(name, database);
            result?;
        }
        self.sort();
        Ok(())
    }

    /// Sorts the fields that are ready by the time at which they were archived.
    fn sort(&mut self) {
        self.ready.make_contiguous().sort_by_key(|listed| listed.location.archived);
    }

    /// Reads the fields that flushes have added to a database since the last poll, and queues those that are selected.
    fn poll_database(&mut self, name: &str, database: &mut Database) -> Result<()> {
        let Some(index) = self.index_of(name, database)? else { return Ok(()) };
        // Read before the fields, so that a flush in between is noticed.
        let marks = log::marks(&index, Access::Latest)?;
        if marks == database.marks {
            return Ok(());
        }
        let flushed = log::since(&index, &database.marks, &marks)?;
        self.read(&index, &database.key, flushed)?;
        database.marks = marks;
        Ok(())
    }

    /// Reads the fields in `flushed`, or all if that is `None`.
    fn read(
        &mut self,
        index: &DatabaseIndex,
        database: &Key,
        flushed: Option<Flushed>,
    ) -> Result<()> {
        #[cfg(test)]
        {
            self.listings += u32::from(flushed.is_none());
        }
        let found = moment::read(index, database, &self.selection, flushed)?;
        found.into_iter().for_each(|listed| self.enqueue(listed));
        Ok(())
    }

    /// Queues a field for the caller, unless the caller has seen it.
    fn enqueue(&mut self, listed: Listed) {
        let known = self.seen.insert(listed.key.clone(), listed.location.clone());
        if known.as_ref() != Some(&listed.location) {
            self.ready.push_back(listed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;
    use crate::store::layout::LOG_ENTRIES;
    use esker::Pool;
    use esker_types::info::OpenMode;

    const SOON: Duration = esker_testing::HANG;
    const NOW: Duration = Duration::ZERO;

    fn store(name: &str) -> FieldStore {
        let pool = Pool::connect(name, OpenMode::ReadWrite).unwrap();
        FieldStore::create(&pool, "fields", &Schema::default_mars().unwrap()).unwrap()
    }

    fn key(stream: &str, step: u64, param: u64) -> Key {
        let text = format!(
            "class=od,expver=0001,stream={stream},date=20240610,time=0000,domain=g,type=fc,levtype=sfc,step={step},param={param}"
        );
        Key::parse(&text).unwrap()
    }

    /// Archives fields with these keys, and flushes them together.
    fn flush(store: &FieldStore, keys: impl IntoIterator<Item = Key>) {
        let mut writer = store.writer();
        keys.into_iter().for_each(|key| writer.archive(&key, b"field").unwrap());
        writer.flush().unwrap();
    }

    /// The keys that the watch yields until no more arrive.
    fn drain(watch: &mut Watch) -> Vec<Key> {
        let mut all = Vec::new();
        while let Some(field) = watch.next(NOW).unwrap() {
            all.push(field.key().clone());
        }
        all
    }

    #[test]
    fn watch_finds_flushed_fields_without_listing() {
        let store = store("memory:watch-new");
        flush(&store, (0..100).map(|step| key("oper", step, 167)));
        let mut watch = store.watch(&Selection::everything(store.schema()), false).unwrap();
        let begun = watch.listings;
        for step in 0..300 {
            // Existing databases, and one that does not exist yet.
            let keys = ["oper", "enda"].map(|stream| key(stream, step, 151));
            flush(&store, keys.clone());
            for key in keys {
                assert_eq!(watch.next(SOON).unwrap().unwrap().key(), &key);
            }
        }
        flush(&store, [key("oper", 7, 167)]);
        assert_eq!(drain(&mut watch), [key("oper", 7, 167)]);
        assert_eq!(watch.listings, begun);
    }

    #[test]
    fn watch_lists_database_if_log_was_overwritten() {
        let store = store("memory:watch-late");
        let mut watch = store.watch(&Selection::everything(store.schema()), false).unwrap();
        let mut writer = store.writer();
        let keys: Vec<Key> = (0..=LOG_ENTRIES).map(|step| key("oper", step, 167)).collect();
        for key in &keys {
            writer.archive(key, b"field").unwrap();
            writer.flush().unwrap();
        }
        assert_eq!(drain(&mut watch), keys);
        assert_eq!(watch.listings, 1);
        writer.archive(&key("oper", 999, 167), b"field").unwrap();
        writer.flush().unwrap();
        assert_eq!(drain(&mut watch), [key("oper", 999, 167)]);
        assert_eq!(watch.listings, 1);
    }
}
