//! The tree of directories, and its names.
use super::{Kind, Options};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::ops::Range;

/// The shape of the tree. Directories are numbered level by level, from the root, which is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Tree {
    /// Depth of the tree
    #[arg(short = 'z', value_name = "N", default_value_t = 0)]
    pub depth: u32,
    /// Number of subdirectories of each directory
    #[arg(short = 'b', value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub branch: u64,
    /// Create items only in the lowest level of the tree
    #[arg(short = 'L')]
    pub leaf_only: bool,
}

impl Tree {
    /// Number of directories; none if it overflows.
    pub fn directories(&self) -> Option<u64> {
        (0..=self.depth)
            .try_fold(0u64, |sum, level| sum.checked_add(self.branch.checked_pow(level)?))
    }

    /// The directories that have items.
    pub fn item_dirs(&self) -> Range<u64> {
        let all = self.directories().unwrap_or(0);
        let leaves = self.branch.checked_pow(self.depth).unwrap_or(0);
        if self.leaf_only { all.saturating_sub(leaves)..all } else { 0..all }
    }

    /// Names from the root to a directory.
    fn path(&self, directory: u64, root: &str) -> String {
        match directory {
            0 => root.to_owned(),
            _ => format!("{}/{root}.{directory}", self.path((directory - 1) / self.branch, root)),
        }
    }
}

/// The paths of one iteration for one process.
pub(super) struct Paths {
    /// Paths of the directories of each tree, parents first.
    trees: Vec<Vec<String>>,
    items_per_dir: u64,
    first_dir: usize,
}

impl Paths {
    /// The trees of all processes, or the shared tree.
    pub(super) fn new(options: &Options, procs: u32, iteration: u32) -> Self {
        let tree = options.tree;
        let top = top(iteration);
        let paths = |root: String| -> Vec<String> {
            let count = tree.directories().unwrap_or(0);
            (0..count).map(|directory| format!("{top}/{}", tree.path(directory, &root))).collect()
        };
        let trees = match options.unique {
            true => (0..procs).map(|rank| paths(format!("mdtest_tree.{rank}"))).collect(),
            false => vec![paths("mdtest_tree".to_owned())],
        };
        let first_dir = usize::try_from(tree.item_dirs().start).unwrap_or(usize::MAX);
        Self { trees, items_per_dir: options.per_dir().max(1), first_dir }
    }

    /// The directories of the tree that belongs to a process.
    pub(super) fn directories(&self, rank: u32) -> &[String] {
        self.trees.get(rank as usize).or(self.trees.first()).map_or(&[], Vec::as_slice)
    }

    /// Writes the path of an item of a process to `path`.
    pub(super) fn item(&self, path: &mut String, kind: Kind, rank: u32, item: u64) {
        let directory = self.first_dir + (item / self.items_per_dir) as usize;
        path.clear();
        path.push_str(self.directories(rank).get(directory).map_or("", String::as_str));
        path.push_str(if kind == Kind::File { "/file.mdtest." } else { "/dir.mdtest." });
        let _ = write!(path, "{rank}.{item}");
    }
}

/// Name of the directory for the items of one iteration.
pub(super) fn top(iteration: u32) -> String {
    format!("test-dir.{iteration}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(depth: u32, branch: u64, leaf_only: bool) -> Tree {
        Tree { depth, branch, leaf_only }
    }

    #[test]
    fn directories_are_counted_and_named_level_by_level() {
        assert_eq!(tree(0, 1, false).directories(), Some(1));
        assert_eq!(tree(2, 3, false).directories(), Some(13));
        assert_eq!(tree(2, 3, true).item_dirs(), 4..13);
        assert_eq!(tree(3, 1, false).directories(), Some(4));
        assert_eq!(tree(64, 4, false).directories(), None);
        assert_eq!(tree(2, 3, false).path(7, "t"), "t/t.2/t.7");
        assert_eq!(tree(0, 1, false).path(0, "t"), "t");
    }
}
