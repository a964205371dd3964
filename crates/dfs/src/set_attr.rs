//! Changes of attributes: `chmod`, `chown`, `utimens` and `truncate`.
use crate::attr::{Attr, SetAttr};
use crate::entry::EntryLocation;
use crate::inode::{Inode, Kind, MODE_MASK, object_type};
use crate::mount::Dfs;
use crate::node::Node;
use crate::superblock::{check_chunk_size, pick};
use esker::Wait;
use esker::types::{ObjectId, Result};

impl Node {
    /// Changes attributes (POSIX: `chmod`, `chown`, `utimens`, `truncate`), and sets `st_ctime` to now.
    ///
    /// # Errors
    /// `NotFound` if the entry is gone, `IsDirectory` for the size of a directory, `Invalid` for that of a symbolic
    /// link, `NotDirectory` for the defaults of anything but a directory, `ReadOnly`.
    pub fn set_attr(&self, set: &SetAttr) -> Result<Attr> {
        self.fs().check_writable()?;
        self.check_defaults(set)?;
        let resized = set.size.map_or(Ok(false), |size| self.resize(size))?;
        let (location, _) = self.located(self.fs().view())?;
        let set = SetAttr { size: set.size.filter(|_| resized), ..*set };
        store(self.fs(), &location, self.oid(), &set)
    }

    /// Sets the size; returns true if it changed. If not, `truncate` by path keeps the time, as in Linux.
    fn resize(&self, size: u64) -> Result<bool> {
        let file = self.open_for_writing()?;
        let resized = file.size()? != size;
        if resized {
            file.set_len(size)?;
        }
        Ok(resized)
    }

    /// Checks the defaults for new files in a directory.
    fn check_defaults(&self, set: &SetAttr) -> Result<()> {
        if set.chunk_size.or(set.class.map(u64::from)).is_some() {
            self.directory()?;
        }
        if let Some(size) = set.chunk_size.filter(|size| *size != 0) {
            check_chunk_size(size)?;
        }
        if let Some(class) = set.class.and_then(|class| pick(class, 0)) {
            let file = object_type(Kind::File);
            self.fs().container().generate_oid(0, 0, file, Some(class), 0)?;
        }
        Ok(())
    }
}

/// Stores all attributes but the size in the entry at `location`, if it still names `oid`.
pub(crate) fn store(
    fs: &Dfs,
    location: &EntryLocation,
    oid: ObjectId,
    set: &SetAttr,
) -> Result<Attr> {
    fs.check_writable()?;
    let inode = fs.transact(|access| {
        let found = location.inode(fs.container(), access).wait()?;
        let inode = found.filter(|inode| inode.oid == oid).ok_or_else(|| location.gone_error())?;
        let inode = set.applied(fs, inode);
        location.store(fs.container(), &inode, access).wait()?;
        Ok(inode)
    })?;
    fs.mounted().note_attributes(location, &inode);
    Attr::fetch(fs, &inode)
}

impl SetAttr {
    /// The inode with the changes.
    fn applied(&self, fs: &Dfs, mut inode: Inode) -> Inode {
        fs.mounted().stamp(&mut inode);
        inode.mode = self.mode.map_or(inode.mode, |mode| mode & MODE_MASK);
        inode.uid = self.uid.unwrap_or(inode.uid);
        inode.gid = self.gid.unwrap_or(inode.gid);
        inode.chunk_size = self.chunk_size.unwrap_or(inode.chunk_size);
        inode.class = self.class.unwrap_or(inode.class);
        let unset = if self.size.is_some() { inode.ctime } else { inode.mtime };
        inode.mtime = self.mtime.unwrap_or(unset);
        inode
    }
}
