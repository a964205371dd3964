//! Going through a tree.
use crate::inode::Kind;
use crate::list::DirStream;
use crate::node::Node;
use esker::types::Result;

/// A way through all that is below a node, the node first, each directory before what is in it. It holds
/// one batch of entries for each level ([`crate::limits::LIST_BATCH`]).
pub struct Walk {
    first: Option<Node>,
    levels: Vec<DirStream>,
    depth_max: usize,
}

/// Something on the way.
#[derive(Clone)]
pub struct Visit {
    /// What it is.
    pub node: Node,
    /// Levels below the node where the walk began.
    pub depth: usize,
}

impl Node {
    /// Goes through all below this node that is at most `depth_max` levels away; 0 is itself alone.
    #[must_use]
    pub fn walk(&self, depth_max: usize) -> Walk {
        Walk { first: Some(self.clone()), levels: Vec::new(), depth_max }
    }
}

impl Walk {
    /// What comes next, `None` at the end. After an error the walk can go on behind what it met.
    ///
    /// # Errors
    /// What the backend meets.
    pub fn visit(&mut self) -> Result<Option<Visit>> {
        if let Some(node) = self.first.take() {
            return self.enter(Visit { node, depth: 0 }).map(Some);
        }
        while let Some(level) = self.levels.last_mut() {
            let Some(entry) = level.read()? else {
                self.levels.pop();
                continue;
            };
            let node = level.node().child(&entry.name, entry.inode)?;
            let depth = self.levels.len();
            return self.enter(Visit { node, depth }).map(Some);
        }
        Ok(None)
    }

    /// Leaves out what is below the last visit.
    pub fn skip(&mut self, visit: &Visit) {
        self.levels.truncate(visit.depth);
    }

    fn enter(&mut self, visit: Visit) -> Result<Visit> {
        if visit.node.kind() == Kind::Directory && visit.depth < self.depth_max {
            self.levels.push(visit.node.entries()?);
        }
        Ok(visit)
    }
}
