//! Path prefetch: fetches all entries of a path concurrently.
//!
//! Over the network, a lookup of one name after the other costs one round trip for each name. The entry that a name had
//! before predicts the next directory ([`crate::entry_hints`]), so the client sends all lookups at once. A prediction
//! is never an answer: the client uses a fetched entry only if the current entry before it leads there. Entries under a
//! read lease ([`crate::entry_cache`]) are answers, and are not fetched.
use crate::attr::{self, Attr};
use crate::entry::{self, EntryLocation};
use crate::inode::{Inode, Kind};
use crate::limits::{NAME_MAX, SAME_MAX, STEPS_MAX};
use crate::mount::Dfs;
use crate::node::Node;
use crate::read_ahead;
use esker::types::{ErrorKind, ObjectId, Result};
use esker::{Task, Wait, side_by_side, task};

/// The fetched entries of a path, and the size of the file at its end.
#[derive(Default)]
pub(crate) struct Prefetch {
    steps: Vec<Step>,
    size: Option<(ObjectId, u64)>,
}

/// An entry on a path: its location, and its inode, or `None` if the name does not exist.
struct Step {
    location: EntryLocation,
    inode: Option<Inode>,
    was_cached: bool,
}

/// Reply to one request of a prefetch.
enum Reply {
    Step(EntryLocation, Option<Inode>),
    Size(ObjectId, u64),
}

impl Prefetch {
    /// Fetches the entries of a path from the directory `from` on, as far as hints predict their locations. If
    /// `with_size`, also fetches the size of the predicted file at the end. Sends nothing for a single request, since a
    /// plain lookup is as fast.
    pub(crate) fn fetch<'n>(
        from: &Node,
        names: impl Iterator<Item = &'n [u8]>,
        with_size: bool,
    ) -> Self {
        let fs = from.fs();
        if !fs.mounted().is_slow() || from.kind() != Kind::Directory {
            return Self::default();
        }
        let (locations, end) = predict_path(fs, from.oid(), names);
        let mut prefetch = Self::default();
        let mut asked = Vec::new();
        for location in locations {
            match fs.mounted().entry_cache.inode(fs.container(), &location) {
                Some(inode) => {
                    prefetch.steps.push(Step { location, inode: Some(inode), was_cached: true })
                }
                None => asked.push(location),
            }
        }
        let mut file = end.filter(|inode| with_size && inode.kind == Kind::File);
        if let Some(Inode { oid, .. }) = file
            && let Some(size) = fs.mounted().entry_cache.size(fs.container(), oid)
        {
            (prefetch.size, file) = (Some((oid, size)), None);
        }
        if asked.len() + usize::from(file.is_some()) < 2 {
            return prefetch;
        }
        let steps = asked.into_iter().map(|location| task(step(fs, location)));
        let size = file.into_iter().map(|inode| task(size(fs, inode)));
        let asked: Vec<Task<'_, _>> = steps.chain(size).collect();
        // `lookup` repeats a failed request, and then returns its error.
        for reply in side_by_side(asked, STEPS_MAX).wait().into_iter().flatten() {
            match reply {
                Reply::Step(location, inode) => {
                    prefetch.steps.push(Step { location, inode, was_cached: false });
                }
                Reply::Size(oid, size) => prefetch.size = Some((oid, size)),
            }
        }
        prefetch
    }

    /// The entry of this name: the prefetched one, or else a fetched one.
    ///
    /// # Errors
    /// The errors of [`Node::lookup`].
    pub(crate) fn lookup(&mut self, dir: &Node, name: &[u8]) -> Result<Node> {
        let step = self.take(dir.oid(), name);
        let was_cached = step.as_ref().is_some_and(|step| step.was_cached);
        let found = match step {
            Some(Step { inode, .. }) => {
                dir.child(name, inode.ok_or_else(|| dir.no_entry_error(name))?)?
            }
            None => dir.lookup(name)?,
        };
        if !was_cached {
            read_ahead::record_lookup(&found);
        }
        Ok(found)
    }

    /// The attributes of a node that was found by [`Prefetch::lookup`].
    ///
    /// # Errors
    /// Errors of the backend.
    pub(crate) fn attr_of(&self, node: &Node) -> Result<Attr> {
        match self.size.filter(|(oid, _)| *oid == node.oid()) {
            Some((_, size)) => Ok(Attr::with_size(node.fs(), node.inode(), size)),
            None => node.attr_as_found(),
        }
    }

    /// Takes the prefetched entry of a name. Each is used once, because it may have changed by the next lookup.
    fn take(&mut self, dir: ObjectId, name: &[u8]) -> Option<Step> {
        let same = |step: &Step| step.location.dir == dir && *step.location.name == *name;
        let at = self.steps.iter().position(same)?;
        Some(self.steps.swap_remove(at))
    }
}

impl Node {
    /// The entry of this name in this directory, and its attributes. Over the network this is often as fast as
    /// [`Node::lookup`] alone.
    ///
    /// # Errors
    /// The errors of [`Node::lookup`]; errors of the backend.
    pub fn lookup_with_attr(&self, name: &[u8]) -> Result<(Self, Attr)> {
        let mut times = 1;
        loop {
            let mut prefetch = Prefetch::fetch(self, std::iter::once(name), true);
            let found = prefetch.lookup(self, name)?;
            match prefetch.attr_of(&found) {
                Ok(attr) => return Ok((found, attr)),
                // Another process may have replaced the entry between the lookup and the read of the size.
                Err(error) if error.kind() == ErrorKind::NotFound && times < SAME_MAX => times += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Predicts the locations of the entries of a path, and the inode at its end. The inode is `None` if a hint is missing.
pub(crate) fn predict_path<'n>(
    fs: &Dfs,
    from: ObjectId,
    names: impl Iterator<Item = &'n [u8]>,
) -> (Vec<EntryLocation>, Option<Inode>) {
    let (mut dir, mut end) = (from, None);
    let mut locations = Vec::new();
    for name in names {
        if entry::is_special(name) || name.len() > NAME_MAX {
            return (locations, None);
        }
        let location = EntryLocation { dir, name: name.into() };
        end = fs.mounted().entry_hints.inode(&location);
        locations.push(location);
        match end {
            Some(inode) => dir = inode.oid,
            None => return (locations, None),
        }
    }
    (locations, end)
}

/// Fetches the inode at a location.
async fn step(fs: &Dfs, location: EntryLocation) -> Result<Reply> {
    let inode = location.inode(fs.container(), fs.view()).await?;
    Ok(Reply::Step(location, inode))
}

/// Fetches the size of a file in bytes.
async fn size(fs: &Dfs, inode: Inode) -> Result<Reply> {
    Ok(Reply::Size(inode.oid, attr::content(fs.mounted(), &inode)?.size(fs.view()).await?))
}
