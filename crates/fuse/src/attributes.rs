//! File attributes in the form of the kernel.
use crate::answer::{Answer, of_number};
use crate::inodes::Inode;
use crate::served::Served;
use dfs::{Attr, Kind, SetAttr, Time};
use esker::types::{ErrorKind, Result};
use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Set-user-id.
const SET_USER: u32 = 0o4000;
/// Set-group-id; on a directory, new entries get its group.
pub(crate) const SET_GROUP: u32 = 0o2000;
/// Both set-id bits.
pub(crate) const SET_IDS: u32 = SET_USER | SET_GROUP;
/// Execute permission of the group.
const GROUP_RUNS: u32 = 0o0010;

/// The attributes that `setattr` changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) set: SetAttr,
    /// True if the caller is not root. Truncation by root keeps the set-id bits.
    pub(crate) by_user: bool,
    /// The caller sets the access time, which is not stored. The change time is nevertheless set to now.
    pub(crate) sets_atime: bool,
}

impl Served {
    /// Serves `getattr` for the inode of this number.
    pub(crate) fn attributes(&self, number: u64) -> Answer<FileAttr> {
        let inode = self.inode(number)?;
        Ok(shown(number, &self.attr_of(&inode)?))
    }

    /// The current attributes. A file that is unlinked but still open has a link count of zero, and may have attributes
    /// that only its inode keeps.
    pub(crate) fn attr_of(&self, inode: &Inode) -> Answer<Attr> {
        let attr = match inode.file() {
            Some(file) => file.attr()?,
            None => of_number(inode.node().attr())?,
        };
        Ok(if attr.nlink == 0 { inode.with_kept(attr) } else { attr })
    }

    /// Serves `setattr`. A change of owner, or of the size by a user, clears the bits set-user-ID and set-group-ID, as
    /// POSIX requires.
    pub(crate) fn set_attributes(&self, number: u64, wanted: Wanted) -> Answer<FileAttr> {
        let inode = self.inode(number)?;
        let Wanted { mut set, by_user, sets_atime } = wanted;
        set.mode = set.mode.map(|mode| mode & dfs::MODE_MASK);
        let takes_set_ids =
            set.uid.is_some() || set.gid.is_some() || (set.size.is_some() && by_user);
        if takes_set_ids && set.mode.is_none() {
            set.mode = without_set_ids(&self.attr_of(&inode)?);
        }
        // The size is set through the open file, which works even after its entry was removed.
        if let (Some(size), Some(file)) = (set.size, inode.file()) {
            of_number(file.set_len(size))?;
            set.size = None;
        }
        if set == SetAttr::default() && !sets_atime {
            return self.attributes(number);
        }
        let attr = match stored(&inode, &set) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return self.keep_nameless(&inode, &set);
            }
            changed => changed?,
        };
        inode.refresh_node();
        Ok(shown(number, &attr))
    }

    /// Sets attributes of an open file or directory that was removed: only this inode keeps them, as there is no entry.
    /// A directory is taken to be open, because the kernel does not say which ones are.
    fn keep_nameless(&self, inode: &Inode, set: &SetAttr) -> Answer<FileAttr> {
        let attr = self.attr_of(inode)?;
        let may_be_open = attr.kind == Kind::Directory || inode.file().is_some();
        if attr.nlink != 0 || !may_be_open {
            return Err(Errno::ESTALE.into());
        }
        inode.keep(set);
        self.attributes(inode.number())
    }

    /// Clears the set-id bits before a change of a file's content other than a write, if a user makes it.
    pub(crate) fn before_change(&self, number: u64, by_user: bool) -> Answer<()> {
        if by_user { self.drop_set_ids(&*self.inode(number)?) } else { Ok(()) }
    }

    /// Clears the set-id bits of a file when a user who may not keep them writes to it, as POSIX requires.
    pub(crate) fn drop_set_ids(&self, inode: &Inode) -> Answer<()> {
        let mode = without_set_ids(&self.attr_of(inode)?);
        if let Some(mode) = mode {
            let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
            of_number(stored(inode, &set))?;
            inode.refresh_node();
            self.dropper.drop_attributes(inode.number());
        }
        Ok(())
    }
}

/// Stores attributes of a file. If it is open, stores them through the open file, which works even if the file has lost
/// its name.
fn stored(inode: &Inode, set: &SetAttr) -> Result<Attr> {
    match inode.file() {
        Some(file) => file.set_attr(set),
        None => inode.node().set_attr(set),
    }
}

/// The mode without set-id bits; `None` if the file has none to lose. Without execute permission for the group,
/// set-group-id means mandatory locking and stays.
fn without_set_ids(attr: &Attr) -> Option<u32> {
    let group = if attr.mode & GROUP_RUNS == 0 { 0 } else { SET_GROUP };
    let lost = attr.mode & (SET_USER | group);
    (attr.kind == Kind::File && lost != 0).then_some(attr.mode & !lost)
}

/// Converts attributes to the kernel's structure, with the inode number by which the kernel knows the file.
pub(crate) fn shown(number: u64, attr: &Attr) -> FileAttr {
    let mtime = system_time(attr.mtime);
    FileAttr {
        ino: INodeNo(number),
        size: attr.size,
        blocks: attr.blocks(),
        atime: mtime,
        mtime,
        ctime: system_time(attr.ctime),
        crtime: UNIX_EPOCH,
        kind: file_type(attr.kind),
        perm: attr.mode as u16,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: 0,
        blksize: u32::try_from(attr.block_size).unwrap_or(u32::MAX),
        flags: 0,
    }
}

/// Kind of a file for the kernel.
pub(crate) const fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
    }
}

/// The time that a program sets, or the current time for [`TimeOrNow::Now`].
pub(crate) fn wanted_time(time: TimeOrNow) -> Time {
    match time {
        TimeOrNow::Now => Time::now(),
        TimeOrNow::SpecificTime(time) => time_of(time),
    }
}

/// Converts a time of the store to one for the kernel.
fn system_time(time: Time) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = match time.seconds {
        0.. => UNIX_EPOCH.checked_add(seconds),
        _ => UNIX_EPOCH.checked_sub(seconds),
    };
    whole.unwrap_or(UNIX_EPOCH) + Duration::from_nanos(u64::from(time.nanos))
}

/// Converts a time that the kernel sent.
fn time_of(time: SystemTime) -> Time {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Time { seconds: seconds(since), nanos: since.subsec_nanos() },
        // The crate `fuser` adds the nanoseconds of times before 1970 in the wrong direction.
        Err(before) => {
            let before = before.duration();
            Time { seconds: -seconds(before), nanos: before.subsec_nanos() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::types::ObjectId;

    /// Attributes of a file with this mode, last modified 800 ms before 1970.
    fn file(mode: u32) -> Attr {
        Attr {
            oid: ObjectId { hi: 7, lo: 0 },
            kind: Kind::File,
            mode,
            nlink: 1,
            uid: 0,
            gid: 0,
            size: 0,
            block_size: 1 << 40,
            mtime: Time { seconds: -1, nanos: 200_000_000 },
            ctime: Time { seconds: 5, nanos: 6 },
        }
    }

    #[test]
    fn set_id_bits_are_lost_if_they_grant_rights() {
        assert_eq!(without_set_ids(&file(0o6755)), Some(0o0755));
        assert_eq!(without_set_ids(&file(0o4644)), Some(0o0644));
        assert_eq!(without_set_ids(&file(0o2644)), None);
        assert_eq!(without_set_ids(&file(0o0755)), None);
        let dir = Attr { kind: Kind::Directory, ..file(0o6755) };
        assert_eq!(without_set_ids(&dir), None);
    }

    #[test]
    fn times_before_1970_are_shown() {
        let shown = shown(7, &file(0o644));
        assert_eq!(shown.mtime, UNIX_EPOCH - Duration::from_millis(800));
        assert_eq!(shown.ctime, UNIX_EPOCH + Duration::new(5, 6));
        assert_eq!(shown.blksize, u32::MAX);
    }
}
