//! Asking for all steps of a path at once.
//!
//! Where replies take a while, the steps of a path would take a round trip each, one after the other. What stood at a
//! name before tells where the next step leads as long as nobody has changed it, so all steps are asked for side by side.
//! What was seen before is never an answer: a step counts only if the step before it, as it is now, leads there. What is
//! kept ([`crate::kept`]) is one, and is not asked for.
use crate::attr::{self, Attr};
use crate::entry::{self, EntryLocation};
use crate::inode::{Inode, Kind};
use crate::limits::{NAME_MAX, STEPS_MAX};
use crate::mount::Dfs;
use crate::node::Node;
use esker::types::{ObjectId, Result};
use esker::{Task, Wait, side_by_side, task};

/// The steps of a path, and the size of the file at its end, as they are now.
#[derive(Default)]
pub(crate) struct Ahead {
    steps: Vec<Step>,
    size: Option<(ObjectId, u64)>,
}

/// What stands at a place.
struct Step {
    place: EntryLocation,
    inode: Option<Inode>,
    was_kept: bool,
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
        let mut ahead = Self::default();
        let mut asked = Vec::new();
        for place in places {
            match fs.mounted().kept.inode(fs.mounted(), &place) {
                Some(inode) => ahead.steps.push(Step { place, inode: Some(inode), was_kept: true }),
                None => asked.push(place),
            }
        }
        let mut file = end.filter(|inode| with_size && inode.kind == Kind::File);
        if let Some(Inode { oid, .. }) = file
            && let Some(size) = fs.mounted().kept.size(fs.mounted(), oid)
        {
            (ahead.size, file) = (Some((oid, size)), None);
        }
        if asked.len() + usize::from(file.is_some()) < 2 {
            return ahead;
        }
        let steps = asked.into_iter().map(|place| task(step(fs, place)));
        let size = file.into_iter().map(|inode| task(size(fs, inode)));
        let asked: Vec<Task<'_, _>> = steps.chain(size).collect();
        // A step that failed is taken again in its turn, which then fails as it should.
        for reply in side_by_side(asked, STEPS_MAX).wait().into_iter().flatten() {
            match reply {
                Reply::Step(place, inode) => {
                    ahead.steps.push(Step { place, inode, was_kept: false });
                }
                Reply::Size(oid, size) => ahead.size = Some((oid, size)),
            }
        }
        ahead
    }

    /// The entry of this name: what was asked for, or else as it is now.
    ///
    /// # Errors
    /// As [`Node::lookup`].
    pub(crate) fn lookup(&mut self, dir: &Node, name: &[u8]) -> Result<Node> {
        let step = self.take(dir.oid(), name);
        let was_kept = step.as_ref().is_some_and(|step| step.was_kept);
        let found = match step {
            Some(Step { inode, .. }) => dir.child(name, inode.ok_or_else(|| dir.missing(name))?)?,
            None => dir.lookup(name)?,
        };
        if !was_kept {
            dir.fs().mounted().seen.found(&found);
        }
        Ok(found)
    }

    /// The attributes of a node that was found by [`Ahead::lookup`].
    ///
    /// # Errors
    /// Errors of the backend.
    pub(crate) fn attr_of(&self, node: &Node) -> Result<Attr> {
        match self.size.filter(|(of, _)| *of == node.oid()) {
            Some((_, size)) => Ok(Attr::with_size(node.fs(), node.inode(), size)),
            None => node.attr_as_found(),
        }
    }

    /// What stands at a name, if that was asked for; only once, because it may have changed by the next time.
    fn take(&mut self, dir: ObjectId, name: &[u8]) -> Option<Step> {
        let same = |step: &Step| step.place.dir == dir && *step.place.name == *name;
        let at = self.steps.iter().position(same)?;
        Some(self.steps.swap_remove(at))
    }
}

/// Where the steps of a path were, and what was at their end; none if that was not seen before.
pub(crate) fn guess<'n>(
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
