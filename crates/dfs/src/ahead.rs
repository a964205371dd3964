//! Asking for all steps of a path at once.
//!
//! Where replies take a while, the steps of a path would take a round trip each, one after the other. What stood at a
//! name before tells where the next step leads as long as nobody has changed it, so all steps are asked for side by side.
//! What was seen before is never an answer: a step counts only if the step before it, as it is now, leads there.
use crate::attr;
use crate::entry::{self, EntryLocation};
use crate::inode::{Inode, Kind};
use crate::limits::NAME_MAX;
use crate::mount::Dfs;
use crate::node::Node;
use esker::types::{ObjectId, Result};
use esker::{Task, Wait, side_by_side, task};
use esker_os::ForkLock;
use std::collections::HashMap;

/// Most entries that are remembered.
const SEEN_MAX: usize = 16 << 10;
/// Most steps that are asked for at a time.
const STEPS_MAX: usize = 16;

/// Entries as this process last saw them, where replies take a while.
#[derive(Default)]
pub(crate) struct Seen(ForkLock<HashMap<EntryLocation, Inode>>);

impl Seen {
    /// Remembers what a node's entry holds.
    pub(crate) fn note(&self, node: &Node) {
        if !node.fs().mounted().is_slow() {
            return;
        }
        let mut seen = self.0.lock();
        if seen.len() >= SEEN_MAX {
            seen.clear();
        }
        seen.insert(node.place(), *node.inode());
    }

    fn inode(&self, place: &EntryLocation) -> Option<Inode> {
        self.0.lock().get(place).copied()
    }
}

/// The steps of a path, and the size of the file at its end, as they are now.
#[derive(Default)]
pub(crate) struct Ahead {
    steps: Vec<(EntryLocation, Option<Inode>)>,
    size: Option<(ObjectId, u64)>,
}

/// What is asked for.
enum Reply {
    Step(EntryLocation, Option<Inode>),
    Size(ObjectId, u64),
}

impl Ahead {
    /// Asks for steps from the directory `from` on, as far as they were seen before, and for the size of a file that
    /// stood at their end, if `with_size`. One step alone is not asked for: it is no faster.
    pub(crate) fn ask<'n>(
        from: &Node,
        names: impl Iterator<Item = &'n [u8]>,
        with_size: bool,
    ) -> Self {
        let fs = from.fs();
        if !fs.mounted().is_slow() || from.kind() != Kind::Directory {
            return Self::default();
        }
        let (places, end) = guess(fs, from.oid(), names);
        let file = end.filter(|inode| with_size && inode.kind == Kind::File);
        if places.len() + usize::from(file.is_some()) < 2 {
            return Self::default();
        }
        let steps = places.into_iter().map(|place| task(step(fs, place)));
        let size = file.into_iter().map(|inode| task(size(fs, inode)));
        let asked: Vec<Task<'_, _>> = steps.chain(size).collect();
        let mut ahead = Self::default();
        // A step that failed is taken again in its turn, which then fails as it should.
        for reply in side_by_side(asked, STEPS_MAX).wait().into_iter().flatten() {
            match reply {
                Reply::Step(place, inode) => ahead.steps.push((place, inode)),
                Reply::Size(oid, size) => ahead.size = Some((oid, size)),
            }
        }
        ahead
    }

    /// What stands at a name, if that was asked for; only once, because it may have changed by the next time.
    pub(crate) fn take(&mut self, dir: ObjectId, name: &[u8]) -> Option<Option<Inode>> {
        let same = |(place, _): &(EntryLocation, _)| place.dir == dir && *place.name == *name;
        let at = self.steps.iter().position(same)?;
        Some(self.steps.swap_remove(at).1)
    }

    /// The size of a file, if that was asked for.
    pub(crate) fn size_of(&self, oid: ObjectId) -> Option<u64> {
        self.size.filter(|(of, _)| *of == oid).map(|(_, size)| size)
    }
}

/// Where the steps of a path were, and what was at their end; none if that was not seen before.
fn guess<'n>(
    fs: &Dfs,
    from: ObjectId,
    names: impl Iterator<Item = &'n [u8]>,
) -> (Vec<EntryLocation>, Option<Inode>) {
    let (mut dir, mut end) = (from, None);
    let mut places = Vec::new();
    for name in names {
        if entry::is_special(name) || name.len() > NAME_MAX {
            return (places, None);
        }
        let place = EntryLocation { dir, name: name.into() };
        end = fs.mounted().seen.inode(&place);
        places.push(place);
        match end {
            Some(inode) => dir = inode.oid,
            None => return (places, None),
        }
    }
    (places, end)
}

async fn step(fs: &Dfs, place: EntryLocation) -> Result<Reply> {
    let inode = place.inode(fs.container(), fs.view()).await?;
    Ok(Reply::Step(place, inode))
}

async fn size(fs: &Dfs, inode: Inode) -> Result<Reply> {
    Ok(Reply::Size(inode.oid, attr::content(fs.mounted(), &inode)?.size(fs.view()).await?))
}
