//! What commits over several targets had decided on, and had not done on a target when its users ended.
use crate::commit::Step;
use std::collections::BTreeMap;

/// Changes to the entries of a target.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// New values; `None` for what is removed.
    entries: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Beginnings of keys that are removed.
    removed: Vec<Vec<u8>>,
}

impl Overlay {
    pub(super) fn add(&mut self, step: &Step) {
        match step {
            Step::Put(key, value) => drop(self.entries.insert(key.clone(), Some(value.clone()))),
            Step::Delete(key) => drop(self.entries.insert(key.clone(), None)),
            Step::DeleteAll(prefix) => {
                self.entries.retain(|key, _| !key.starts_with(prefix));
                self.removed.push(prefix.clone());
            }
        }
    }

    /// True where the entry of a key is not what the index says.
    pub(super) fn hides(&self, key: &[u8]) -> bool {
        self.entries.contains_key(key) || self.removed.iter().any(|prefix| key.starts_with(prefix))
    }

    /// The new values.
    pub(super) fn into_puts(self) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        self.entries.into_iter().filter_map(|(key, value)| Some((key, value?)))
    }
}
