//! Maps the recently issued object ids to directories and files.
use crate::filesystem::limits::{MISSING_SECONDS, PLACES_MAX};
use esker::types::{ObjectId, Uuid};
use esker_os::{ForkGuard, ForkLock};
use std::collections::HashMap;
use std::time::Instant;

/// Directory or file of an object id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A directory: the prefix of the names in it.
    Directory(String),
    /// The file of a tensor.
    File(Uuid),
    /// Missing: the last search, at this time, found no object.
    Nothing(Instant),
}

impl Place {
    /// Records a search that found no object now. The result is valid for [`MISSING_SECONDS`], since a directory may
    /// appear again.
    pub(crate) fn nothing() -> Self {
        Self::Nothing(Instant::now())
    }

    fn is_valid(&self) -> bool {
        !matches!(self, Self::Nothing(since) if since.elapsed().as_secs() >= MISSING_SECONDS)
    }
}

/// Places by object id. When the younger half is full, the older half is dropped. A forked child starts without any.
#[derive(Default)]
pub(crate) struct Places(ForkLock<[HashMap<ObjectId, Place>; 2]>);

impl Places {
    /// The younger half, then the older one.
    fn halves(&self) -> ForkGuard<'_, [HashMap<ObjectId, Place>; 2]> {
        self.0.lock()
    }

    /// The place of an object, if it is cached and still valid.
    pub(crate) fn get(&self, oid: ObjectId) -> Option<Place> {
        let place = self.halves().iter().find_map(|half| half.get(&oid).cloned());
        place.filter(Place::is_valid)
    }

    /// Caches the place of an object. If the younger half is full, it becomes the older one, which is dropped.
    pub(crate) fn put(&self, oid: ObjectId, place: Place) {
        let [younger, older] = &mut *self.halves();
        if younger.len() >= PLACES_MAX / 2 {
            *older = std::mem::take(younger);
        }
        younger.insert(oid, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn missing_id_is_searched_again_later() {
        let (places, oid) = (Places::default(), ObjectId { hi: 0, lo: 1 });
        places.put(oid, Place::nothing());
        assert!(places.get(oid).is_some());
        let before = Instant::now().checked_sub(Duration::from_secs(MISSING_SECONDS)).unwrap();
        places.put(oid, Place::Nothing(before));
        assert_eq!(places.get(oid), None);
    }

    #[test]
    fn oldest_ids_are_dropped() {
        let places = Places::default();
        let oid = |number| ObjectId { hi: 0, lo: number };
        let count = PLACES_MAX as u64 + 1;
        (0..count).for_each(|number| places.put(oid(number), Place::Directory(String::new())));
        assert_eq!(places.get(oid(0)), None);
        assert_eq!(places.get(oid(count - 1)), Some(Place::Directory(String::new())));
        assert!(places.halves().iter().map(HashMap::len).sum::<usize>() <= PLACES_MAX);
    }
}
