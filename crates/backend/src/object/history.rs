//! The versions of one akey.
use super::records::Stored;
use esker_types::Epoch;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names of a container's snapshots, by epoch.
pub type Snapshots = BTreeMap<Epoch, String>;

/// Versions, oldest first. `None` is a punch.
pub struct History<P = Arc<[u8]>>(Vec<(Epoch, Option<Stored<P>>)>);

impl<P> Default for History<P> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<P> History<P> {
    /// Adds the newest version; `None` for a punch.
    pub fn push(&mut self, epoch: Epoch, value: Option<Stored<P>>) {
        self.0.push((epoch, value));
    }

    /// The value that a reader at `at` sees, and its epoch; `None` if it did not exist then.
    pub fn at(&self, at: Epoch) -> Option<(Epoch, &Stored<P>)> {
        let (epoch, value) = self.0.iter().rev().find(|(epoch, _)| *epoch <= at)?;
        Some((*epoch, value.as_ref()?))
    }

    /// Removes versions that neither the latest state nor a snapshot shows.
    pub fn prune(&mut self, snapshots: &Snapshots) {
        // A version is shown from its epoch to that of the next one. The last version has no end.
        let ends: Vec<_> = self.0.iter().skip(1).map(|(epoch, _)| *epoch).collect();
        let mut ends = ends.into_iter();
        self.0.retain(|(epoch, _)| match ends.next() {
            Some(end) => snapshots.range(*epoch..end).next().is_some(),
            None => true,
        });
        // A punch before the oldest value hides nothing.
        let punches = self.0.iter().take_while(|(_, value)| value.is_none()).count();
        self.0.drain(..punches);
    }

    /// True if no reader can see any version.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(text: &str) -> Option<Stored> {
        Some(Stored::Single(text.as_bytes().into()))
    }

    /// After `prune`, the version that the snapshot shows and the latest one remain. A latest punch alone is removed,
    /// too.
    #[test]
    fn versions_are_kept_while_a_snapshot_shows_them() {
        let mut history = History::default();
        history.push(Epoch(1), single("a"));
        history.push(Epoch(3), None);
        history.push(Epoch(5), single("b"));
        assert!(history.at(Epoch(0)).is_none() && history.at(Epoch(4)).is_none());
        assert_eq!(history.at(Epoch(2)).map(|(epoch, _)| epoch), Some(Epoch(1)));
        history.prune(&Snapshots::from([(Epoch(2), String::new())]));
        assert_eq!(history.0.len(), 2);
        history.prune(&Snapshots::new());
        assert_eq!(history.0.len(), 1);
        history.push(Epoch(7), None);
        history.prune(&Snapshots::new());
        assert!(history.is_empty());
    }
}
