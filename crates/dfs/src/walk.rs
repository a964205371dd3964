//! Walking a tree.
use crate::inode::Kind;
use crate::list::DirStream;
use crate::node::Node;
use esker::types::{Error, Result};

/// A walk over a node and everything below it, each directory before its entries. It buffers one batch of entries for
/// each level ([`crate::limits::LIST_BATCH`]).
pub struct Walk {
    first: Option<Node>,
    levels: Vec<DirStream>,
    depth_max: usize,
}

/// A node of the walk.
#[derive(Clone)]
pub struct Visit {
    /// The visited node.
    pub node: Node,
    /// Levels below the first node.
    pub depth: usize,
}

impl Node {
    /// Walks this node and everything at most `depth_max` levels below it.
    #[must_use]
    pub fn walk(&self, depth_max: usize) -> Walk {
        Walk { first: Some(self.clone()), levels: Vec::new(), depth_max }
    }
}

impl Walk {
    /// The next node, `None` at the end. After an error the walk can continue: with the next node, or after the directory
    /// whose listing failed.
    ///
    /// # Errors
    /// Errors of the backend; their message begins with the path of the directory or entry.
    pub fn visit(&mut self) -> Result<Option<Visit>> {
        if let Some(node) = self.first.take() {
            return self.enter(Visit { node, depth: 0 }).map(Some);
        }
        while let Some(level) = self.levels.last_mut() {
            let entry = match level.read() {
                Ok(Some(entry)) => entry,
                Ok(None) => {
                    self.levels.pop();
                    continue;
                }
                Err(error) => {
                    let error = named(&level.node().path(), &error);
                    // Another read would fail again.
                    self.levels.pop();
                    return Err(error);
                }
            };
            let child = level.node().child(&entry.name, entry.inode);
            let node = child.map_err(|error| named(&level.node().path(), &error))?;
            let depth = self.levels.len();
            return self.enter(Visit { node, depth }).map(Some);
        }
        Ok(None)
    }

    /// Skips everything below `visit`, which must be the last one.
    pub fn skip(&mut self, visit: &Visit) {
        self.levels.truncate(visit.depth);
    }

    /// Opens a visited directory, so that its entries come next, unless it is at the greatest depth. Returns the visit.
    fn enter(&mut self, visit: Visit) -> Result<Visit> {
        if visit.node.kind() == Kind::Directory && visit.depth < self.depth_max {
            let entries = visit.node.entries();
            self.levels.push(entries.map_err(|error| named(&visit.node.path(), &error))?);
        }
        Ok(visit)
    }
}

/// The error with the path of the directory before its message.
#[cold]
fn named(path: &[u8], error: &Error) -> Error {
    let message = format!("{}: {}", String::from_utf8_lossy(path), error.message());
    Error::new(error.kind(), message)
}
