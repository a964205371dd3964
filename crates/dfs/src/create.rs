//! New entries: files, directories, symbolic links.
use crate::entry::{self, INODE_EXTENT};
use crate::inode::{Inode, Kind, MODE_MASK, Time, object_type, process_owner};
use crate::limits::PATH_MAX;
use crate::node::Node;
use crate::superblock::{check_chunk_size, pick};
use esker::types::ops::{Cond, Update, Write, WriteOp};
use esker::types::{Error, ErrorKind, ObjectClass, ObjectId, Result};
use esker::{Access, Proof, Wait};

/// Attributes of a new entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Create {
    /// Permission bits to store. The caller has applied its umask already.
    pub mode: u32,
    /// Owner and group; `None` for those of the process.
    pub owner: Option<(u32, u32)>,
    /// Fail with [`ErrorKind::Exists`] if a file exists already (POSIX: `O_EXCL`).
    pub exclusive: bool,
    /// Chunk size in bytes of a file, or of files in a directory; `None` for the default of the directory.
    pub chunk_size: Option<u64>,
    /// Object class of a file or directory; `None` for the default of the directory or container.
    pub class: Option<ObjectClass>,
    /// The caller opens the file next ([`Node::open`]). The creation then also takes the lease that the open needs, so
    /// the open costs no further round trip over the network.
    pub open: bool,
}

impl Create {
    /// Default attributes with these permission bits.
    #[must_use]
    pub fn with_mode(mode: u32) -> Self {
        Self { mode, ..Self::default() }
    }
}

impl Node {
    /// Creates an empty regular file in this directory; returns an existing one, unless
    /// `new.exclusive` (POSIX: `open` with `O_CREAT`).
    ///
    /// # Errors
    /// [`ErrorKind::Exists`]; [`ErrorKind::IsDirectory`] if a directory has the name;
    /// [`ErrorKind::NotFound`] if this directory was removed; [`ErrorKind::NotDirectory`],
    /// [`ErrorKind::NameTooLong`], [`ErrorKind::ReadOnly`], [`ErrorKind::NoSpace`]. A symbolic link is
    /// returned as it is.
    pub fn create(&self, name: &[u8], new: &Create) -> Result<Self> {
        loop {
            match self.insert_file(name, new, None) {
                Err(error) if error.kind() == ErrorKind::Exists && !new.exclusive => {}
                result => return result,
            }
            match self.lookup(name) {
                // The existing file was removed meanwhile: create it again.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Ok(found) if found.kind() == Kind::Directory => {
                    return Err(Error::new(
                        ErrorKind::IsDirectory,
                        format!("{} is a directory", String::from_utf8_lossy(&found.path())),
                    ));
                }
                result => return result,
            }
        }
    }

    /// Creates a directory in this one.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`]; else as [`Node::create`].
    pub fn mkdir(&self, name: &[u8], new: &Create) -> Result<Self> {
        self.insert(name, Kind::Directory, new, &[], None)
    }

    /// Creates a symbolic link to `target`, which need not exist.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`]; [`ErrorKind::NotFound`] for an empty target (as Linux does),
    /// [`ErrorKind::NameTooLong`] for one beyond [`PATH_MAX`]; else as [`Node::create`].
    pub fn symlink(&self, name: &[u8], target: &[u8], new: &Create) -> Result<Self> {
        match target.len() {
            0 => Err(Error::new(ErrorKind::NotFound, "a symbolic link to nothing")),
            1..PATH_MAX => self.insert(name, Kind::Symlink, new, target, None),
            len => Err(Error::new(
                ErrorKind::NameTooLong,
                format!(
                    "a link to a path of {len} bytes: paths are shorter than {PATH_MAX} bytes (PATH_MAX)"
                ),
            )),
        }
    }

    /// Creates a file. With a `proof` of the reads of its path, fails if the path has changed since.
    ///
    /// # Errors
    /// The errors of [`Node::create`], and `TxRestart` if the proof is not valid.
    pub(crate) fn insert_file(
        &self,
        name: &[u8],
        new: &Create,
        proof: Option<&Proof>,
    ) -> Result<Self> {
        self.insert(name, Kind::File, new, &[], proof)
    }

    /// Creates an entry and its object in one transaction. `target` is that of a symbolic link, else empty. With a
    /// `proof` of the reads of its path, fails if the path has changed since.
    fn insert(
        &self,
        name: &[u8],
        kind: Kind,
        new: &Create,
        target: &[u8],
        proof: Option<&Proof>,
    ) -> Result<Self> {
        self.directory()?;
        self.check_new(name, kind, new)?;
        let class = self.class_of_new(kind, new);
        let mounted = self.fs().mounted();
        let lease = match new.open && kind == Kind::File {
            true => mounted.new_file_leases.acquire(self.fs().container(), &mounted.oids, class)?,
            false => None,
        };
        let oid = match &lease {
            Some(lease) => lease.oid(),
            None => self.new_oid(kind, class)?,
        };
        let inode = self.new_inode((kind, oid), new, target);
        if kind == Kind::Directory {
            entry::mark(&self.fs().container().object(inode.oid), Access::Latest)?;
        }
        match self.write_entry(name, &inode, target, proof) {
            Ok(()) => {
                self.note_entries_changed();
                let made = self.child_with(name, inode, lease)?;
                if mounted.is_slow() {
                    mounted.entry_hints.record(made.location(), *made.inode());
                }
                Ok(made)
            }
            Err(error) => {
                // The id of the lease can be used again, and the object of a directory be removed, only if the entry
                // certainly does not exist.
                if is_without_effect(error.kind()) {
                    if let Some(lease) = lease {
                        mounted.new_file_leases.put_back(class, lease);
                    }
                    self.remove_unnamed(&inode);
                }
                Err(if error.kind() == ErrorKind::Exists { self.exists_error(name) } else { error })
            }
        }
    }

    /// Checks before a creation: the name, the chunk size, and that the file system is writable. In a read-only file
    /// system, a name that exists fails with [`ErrorKind::Exists`] and not with [`ErrorKind::ReadOnly`], as on Linux.
    pub(crate) fn check_new(&self, name: &[u8], kind: Kind, new: &Create) -> Result<()> {
        if entry::is_special(name) {
            let file = kind == Kind::File;
            let kind = if file { ErrorKind::IsDirectory } else { ErrorKind::Exists };
            return Err(self.refusal(name, kind, "is a directory"));
        }
        entry::check_name(name)?;
        // No process could look the entry up.
        self.child_depth()?;
        new.chunk_size.map_or(Ok(()), check_chunk_size)?;
        if self.fs().is_read_only() && self.find(name, self.fs().view())?.is_some() {
            return Err(self.exists_error(name));
        }
        self.fs().check_writable()
    }

    /// Object class of a new entry of this directory. A class that the caller chose comes first. Without one, a new
    /// directory gets the class of the file system, and a new file that of this directory or else of the file system.
    /// `None` lets DAOS's rules choose.
    pub(crate) fn class_of_new(&self, kind: Kind, new: &Create) -> Option<ObjectClass> {
        let (parent, superblock) = (self.inode(), self.fs().superblock());
        match (new.class, kind) {
            (Some(class), _) => Some(class),
            (None, Kind::Directory) => pick(superblock.dir_class, superblock.class),
            (None, Kind::File) => {
                pick(parent.class, pick_code(superblock.file_class, superblock.class))
            }
            // The entry stores the target of the link, and the object stays empty.
            (None, Kind::Symlink) => Some(ObjectClass::S1),
        }
    }

    /// A new object id for an entry of this kind. Without a class, DAOS's rules choose one.
    pub(crate) fn new_oid(&self, kind: Kind, class: Option<ObjectClass>) -> Result<ObjectId> {
        self.fs().mounted().oids.next(self.fs().container(), object_type(kind), class)
    }

    /// The inode of a new entry of this directory. If the caller did not choose an owner, the process is the owner.
    /// Without a chosen chunk size, the entry gets that of this directory, or else that of the file system. A new
    /// directory inherits the object class for its files.
    pub(crate) fn new_inode(
        &self,
        (kind, oid): (Kind, ObjectId),
        new: &Create,
        target: &[u8],
    ) -> Inode {
        let (parent, superblock) = (self.inode(), self.fs().superblock());
        let (uid, gid) = new.owner.unwrap_or_else(process_owner);
        let chunk_size = match (new.chunk_size, parent.chunk_size, kind) {
            (_, _, Kind::Symlink) => 0,
            (Some(size), _, _) => size,
            (None, 0, Kind::File) => superblock.chunk_size,
            (None, inherited, _) => inherited,
        };
        Inode {
            mode: new.mode & MODE_MASK,
            uid,
            gid,
            chunk_size,
            class: if kind == Kind::Directory { parent.class } else { 0 },
            link_len: target.len() as u64,
            ..Inode::new(kind, oid, Time::now())
        }
    }

    /// Adds an entry in one transaction, if the name is free and the directory exists. Stores `target` with it unless
    /// empty.
    fn write_entry(
        &self,
        name: &[u8],
        inode: &Inode,
        target: &[u8],
        proof: Option<&Proof>,
    ) -> Result<()> {
        let (extent, bytes) = ([INODE_EXTENT], inode.to_bytes());
        let updates: [Update<'_>; 2] =
            [entry::inode_update(&extent, &bytes), entry::link_update(target)];
        let updates = &updates[..if target.is_empty() { 1 } else { 2 }];
        let op = WriteOp::Update { dkey: name, cond: Cond::DKEY_INSERT, updates };
        let writes = [entry::require_mark(self.oid()), Write { oid: self.oid(), op }];
        let container = self.fs().container();
        let has_marks = entry::has_marks(container);
        if let Some(proof) = proof {
            // Without marks, the directory exists if its entry, which the proof covers, has not changed.
            return container.write_if(&writes[usize::from(!has_marks)..], proof).wait();
        }
        if !has_marks {
            return self.fs().transact(|access| {
                self.check_exists(access)?;
                self.object().update(name, Cond::DKEY_INSERT, updates, access).wait()
            });
        }
        loop {
            match container.write(&writes, Access::Latest).wait() {
                // The directory was removed, or other software made it without a mark. `restore_mark` fails if it was
                // removed.
                Err(error) if error.kind() == ErrorKind::NotFound => self.restore_mark()?,
                result => return result,
            }
        }
    }

    /// Removes the object of a new directory whose entry was not added: its mark was written before. If that fails,
    /// `esker fs check` finds the leftover.
    fn remove_unnamed(&self, inode: &Inode) {
        if inode.kind == Kind::Directory && entry::has_marks(self.fs().container()) {
            let made = self.fs().container().object(inode.oid);
            let _ = made.punch(Cond::NONE, Access::Latest).wait();
        }
    }

    /// Marks a directory that other software has created.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the directory was removed.
    fn restore_mark(&self) -> Result<()> {
        self.fs().transact(|access| {
            self.stored(access)?;
            entry::mark(&self.object(), access)
        })
    }

    /// The error for a new entry whose name exists in this directory.
    #[cold]
    fn exists_error(&self, name: &[u8]) -> Error {
        let (dir, name) = (self.path(), String::from_utf8_lossy(name));
        let dir = String::from_utf8_lossy(&dir);
        Error::new(ErrorKind::Exists, format!("{name:?} exists in {dir} already"))
    }
}

/// True for errors of a change that certainly had no effect. After others, such as a lost reply, the change may have
/// taken effect, and other processes may have used its result.
fn is_without_effect(kind: ErrorKind) -> bool {
    use ErrorKind::{Exists, NoPermission, NoSpace, NotFound, ReadOnly, TxRestart};
    matches!(kind, Exists | NoPermission | NoSpace | NotFound | ReadOnly | TxRestart)
}

/// The code of an object class: `special` (of files) if it is set, else `general`. 0 means not set.
fn pick_code(special: u32, general: u32) -> u32 {
    if special != 0 { special } else { general }
}
