//! Counting and checking a whole file system.
use crate::abi::{Handle, Str};
use crate::code::print;
use crate::errno::{self, Errno, Result};
use crate::handles;
use ::dfs::{Dfs, Follow, Kind, MountOptions, Node};
use esker::Wait;
use esker::types::info::OpenMode;
use std::ffi::c_int;

/// Counts of what is below a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    files: u64,
    directories: u64,
    symlinks: u64,
    bytes: u64,
    largest: u64,
    deepest: u64,
}

impl Count {
    /// Directories are kept in a list, so that depth needs no stack.
    fn of(top: Node) -> Result<Self> {
        let mut count = Self::default();
        let mut waiting = vec![(top, 0)];
        while let Some((dir, depth)) = waiting.pop() {
            count.deepest = count.deepest.max(depth);
            let mut entries = dir.entries()?;
            while let Some(entry) = entries.read()? {
                match entry.kind() {
                    Kind::File => count.add_file(dir.fs().attr_of(&entry.inode)?.size),
                    Kind::Symlink => count.symlinks += 1,
                    Kind::Directory => {
                        count.directories += 1;
                        waiting.push((dir.lookup(&entry.name)?, depth + 1));
                    }
                }
            }
        }
        Ok(count)
    }

    fn add_file(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
    }
}

fn mounted(poh: Handle, cont: Str) -> Result<Dfs> {
    let pool = handles::pool(poh)?;
    let container = pool.pool.open_container(cont.text()?, OpenMode::ReadOnly).wait()?;
    Ok(Dfs::mount(container, MountOptions { read_only: true, snapshot: None })?)
}

/// Prints the counts.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_cont_scan(poh: Handle, cont: Str, _flags: u64, name: Str) -> c_int {
    errno::now(|| {
        let fs = mounted(poh, cont)?;
        let path = if name.is_null() { b"/" } else { name.bytes()? };
        let count = Count::of(fs.resolve(&fs.root(), path, Follow::All)?)?;
        print(&format!("files: {}", count.files));
        print(&format!("directories: {}", count.directories));
        print(&format!("symlinks: {}", count.symlinks));
        print(&format!("bytes in files: {}", count.bytes));
        print(&format!("largest file in bytes: {}", count.largest));
        print(&format!("deepest directory: {}", count.deepest));
        Ok(())
    })
}

/// Not implemented: `esker fs check` checks the tree.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_cont_check(_poh: Handle, _cont: Str, _flags: u64, _name: Str) -> c_int {
    errno::now(|| Err(Errno::NOTSUP))
}
