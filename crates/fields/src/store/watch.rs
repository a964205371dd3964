//! Watching: fields as they are flushed.
use super::list::Listed;
use super::place::Place;
use super::retrieve::Field;
use super::{FieldStore, all_akeys, fetch_many, layout};
use crate::Key;
use crate::request::Selection;
use esker::Access;
use esker_types::Result;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// How long to wait between two looks: short at first, longer where nothing comes.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Yields each field of a selection once it is flushed, and again where it is archived anew; those that one
/// look finds in the order in which they were archived.
///
/// It looks at one small value per database; only where one changed is its index listed. Its memory grows
/// with the fields it has seen.
pub struct Watch {
    store: FieldStore,
    selection: Selection,
    marks: HashMap<String, Marks>,
    seen: HashMap<Key, Place>,
    ready: VecDeque<Listed>,
}

/// What flushes left at their places.
type Marks = Vec<Option<Vec<u8>>>;

impl FieldStore {
    /// Watches the fields of a selection. With `existing`, those that are there come first.
    ///
    /// # Errors
    /// What the backend meets.
    pub fn watch(&self, selection: &Selection, existing: bool) -> Result<Watch> {
        let mut watch = Watch {
            store: self.clone(),
            selection: selection.clone(),
            marks: HashMap::new(),
            seen: HashMap::new(),
            ready: VecDeque::new(),
        };
        watch.look()?;
        if !existing {
            watch.ready.clear();
        }
        Ok(watch)
    }

    /// Marks of the flushes to one database.
    fn marks(&self, database: &str) -> Result<Marks> {
        let Some(index) = self.index_of(database)? else { return Ok(Marks::new()) };
        let places = all_akeys(&index, layout::FLUSHES)?;
        let places: Vec<&[u8]> = places.iter().map(Vec::as_slice).collect();
        fetch_many(&index, layout::FLUSHES, &places, Access::Latest)
    }
}

impl Watch {
    /// The next field, as soon as there is one; `None` where none comes within `patience`.
    ///
    /// # Errors
    /// What the backend meets.
    pub fn next(&mut self, patience: Duration) -> Result<Option<Field>> {
        let (begin, mut pause) = (Instant::now(), PAUSE_MIN);
        loop {
            if let Some(listed) = self.ready.pop_front() {
                return Ok(Some(self.store.listed(listed)));
            }
            self.look()?;
            if !self.ready.is_empty() {
                continue;
            }
            let left = patience.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Looks for what was flushed since the last look.
    fn look(&mut self) -> Result<()> {
        let mut changed = false;
        for database in self.store.databases()? {
            if !self.selection.may_match(&Key::parse(&database)?) {
                continue;
            }
            // Read before the listing: a flush in between changes it again.
            let marks = self.store.marks(&database)?;
            changed |= self.marks.get(&database) != Some(&marks);
            self.marks.insert(database, marks);
        }
        if changed { self.list() } else { Ok(()) }
    }

    fn list(&mut self) -> Result<()> {
        let Self { store, selection, seen, ready, .. } = self;
        store.visit(selection, false, |listed| {
            let known = seen.insert(listed.key.clone(), listed.place.clone());
            if known.as_ref() != Some(&listed.place) {
                ready.push_back(listed);
            }
            Ok(true)
        })?;
        ready.make_contiguous().sort_by_key(|listed| listed.place.archived);
        Ok(())
    }
}
