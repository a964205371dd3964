//! Extended attributes, and the targets of symbolic links.
use crate::entry::{self, EntryLocation, FullEntry, LINK_AKEY, WithXattr, XATTR_PREFIX};
use crate::inode::Kind;
use crate::limits::{NAME_MAX, RETRIES_MAX, XATTR_NAME_MAX, XATTR_VALUE_MAX};
use crate::node::Node;
use esker::types::ops::{Cond, Source, Update, Value};
use esker::types::{Error, ErrorKind, Result};
use esker::{Access, Wait};

/// Whether an extended attribute may exist before it is set (Linux: the flags of `setxattr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrMode {
    /// It may.
    #[default]
    Any,
    /// It must not: [`ErrorKind::Exists`].
    Create,
    /// It must: [`ErrorKind::NoAttribute`].
    Replace,
}

/// The names and values of the extended attributes that a file gets.
pub type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

impl Node {
    /// The target of this symbolic link (POSIX: `readlink`).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for anything else, [`ErrorKind::NotFound`] if the entry is gone.
    pub fn read_link(&self) -> Result<Vec<u8>> {
        if self.kind() != Kind::Symlink {
            let path = self.path();
            let message = format!("{} is not a symbolic link", String::from_utf8_lossy(&path));
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let at = |location: &EntryLocation| self.value_at(location, LINK_AKEY);
        // If the link is not at its location any more, this process may have moved it.
        match (at(&self.location())?, self.fs().mounted().moved_to(self.oid())) {
            (None, Some(moved)) => at(&moved)?,
            (found, _) => found,
        }
        .ok_or_else(|| self.gone_error())
    }

    /// Value of an extended attribute.
    ///
    /// # Errors
    /// [`ErrorKind::NoAttribute`] if there is none, [`ErrorKind::NotFound`] if the entry is gone.
    pub fn get_xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        let akey = akey(name)?;
        let value = self.read_at_location(|location| self.value_at(location, &akey))?;
        value.ok_or_else(|| no_xattr_error(name))
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// The errors that `mode` names; [`ErrorKind::Truncated`] (ERANGE) for a bad name, [`ErrorKind::RecordTooBig`]
    /// for a value beyond [`XATTR_VALUE_MAX`]; [`ErrorKind::NotFound`] if the entry is gone;
    /// [`ErrorKind::ReadOnly`].
    pub fn set_xattr(&self, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.fs().check_writable()?;
        let akey = akey(name)?;
        check_value(value)?;
        self.change_xattr(name, mode, |dir, entry, access| {
            let value = Value::Single(Source::One(value));
            let updates = [Update { akey: &akey, value, cond: Cond::NONE }];
            dir.update(entry, Cond::DKEY_UPDATE, &updates, access).wait()
        })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// [`ErrorKind::NoAttribute`]; else as [`Node::set_xattr`].
    pub fn remove_xattr(&self, name: &[u8]) -> Result<()> {
        self.fs().check_writable()?;
        let akey = akey(name)?;
        self.change_xattr(name, XattrMode::Replace, |dir, entry, access| {
            dir.punch_akeys(entry, &[&akey], Cond::NONE, access).wait()
        })
    }

    /// Sets extended attributes and removes others in one transaction. Those to remove may be missing.
    ///
    /// # Errors
    /// The errors of [`Node::set_xattr`].
    pub fn change_xattrs(&self, set: &[(&[u8], &[u8])], remove: &[&[u8]]) -> Result<()> {
        self.fs().check_writable()?;
        set.iter().try_for_each(|(_, value)| check_value(value))?;
        let names = set.iter().map(|(name, _)| akey(name)).collect::<Result<Vec<_>>>()?;
        let removed = remove.iter().map(|name| akey(name)).collect::<Result<Vec<_>>>()?;
        let removed: Vec<_> = removed.iter().map(Vec::as_slice).collect();
        let updates: Vec<_> = std::iter::zip(&names, set)
            .map(|(akey, (_, value))| Update {
                akey,
                value: Value::Single(Source::One(value)),
                cond: Cond::NONE,
            })
            .collect();
        self.change_entry(|dir, entry, access| {
            if !removed.is_empty() {
                dir.punch_akeys(entry, &removed, Cond::NONE, access).wait()?;
            }
            match updates.is_empty() {
                true => Ok(()),
                false => dir.update(entry, Cond::DKEY_UPDATE, &updates, access).wait(),
            }
        })
    }

    /// Names of all extended attributes, sorted.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the entry is gone.
    pub fn list_xattrs(&self) -> Result<Vec<Vec<u8>>> {
        let akeys_at = |location: &EntryLocation| {
            let dir = self.fs().container().object(location.dir);
            entry::akeys(&dir, &location.name, self.fs().view())
        };
        let akeys = self.read_at_location(akeys_at)?;
        let names = akeys.iter().filter_map(|akey| akey.strip_prefix(XATTR_PREFIX));
        Ok(names.map(<[u8]>::to_vec).collect())
    }

    /// The entries of these names in this directory, each with the value of an extended attribute; `None` for each name
    /// that does not exist. One request for all, if the values are short.
    ///
    /// # Errors
    /// [`ErrorKind::NotDirectory`]; errors of the backend.
    pub fn entries_with_xattr(
        &self,
        names: &[&[u8]],
        xattr: &[u8],
    ) -> Result<Vec<Option<WithXattr>>> {
        entry::fetch_all_with(&self.directory()?, names, &akey(xattr)?, self.fs().view())
    }

    /// The entry of this name, and the value of an extended attribute of it, if the entry has it and the value is not
    /// empty.
    ///
    /// # Errors
    /// The errors of [`Node::lookup`].
    pub fn lookup_with_xattr(&self, name: &[u8], xattr: &[u8]) -> Result<(Self, Option<Vec<u8>>)> {
        if entry::is_special(name) || name.len() > NAME_MAX {
            return Ok((self.lookup(name)?, None));
        }
        let mut found = self.entries_with_xattr(&[name], xattr)?;
        let (inode, value) = found.pop().flatten().ok_or_else(|| self.no_entry_error(name))?;
        Ok((self.child(name, inode)?, value))
    }

    /// Changes an extended attribute in a transaction. Fails if `mode` requires that the attribute exists, or that it
    /// does not.
    fn change_xattr(
        &self,
        name: &[u8],
        mode: XattrMode,
        change: impl Fn(&esker::Object, &[u8], Access<'_>) -> Result<()>,
    ) -> Result<()> {
        let akey = akey(name)?;
        self.change_entry(|dir, entry, access| {
            let there = entry::value(dir, entry, &akey, access)?.is_some();
            match (mode, there) {
                (XattrMode::Create, true) => Err(xattr_exists_error(name)),
                (XattrMode::Replace, false) => Err(no_xattr_error(name)),
                _ => change(dir, entry, access),
            }
        })
    }

    /// Changes extended attributes of the entry in a transaction, and sets the entry's time of change.
    fn change_entry(
        &self,
        change: impl Fn(&esker::Object, &[u8], Access<'_>) -> Result<()>,
    ) -> Result<()> {
        self.fs().transact(|access| {
            let (location, mut inode) = self.located(access)?;
            let dir = self.fs().container().object(location.dir);
            change(&dir, &location.name, access)?;
            self.fs().mounted().stamp(&mut inode);
            location.store(self.fs().container(), &inode, access).wait()
        })
    }

    /// Runs `read` on the current location of its entry, and repeats that if the entry moved meanwhile.
    fn read_at_location<T>(&self, read: impl Fn(&EntryLocation) -> Result<T>) -> Result<T> {
        for _ in 1..RETRIES_MAX {
            let (location, _) = self.located(self.fs().view())?;
            let found = read(&location)?;
            if self.inode_at(&location, self.fs().view())?.is_some() {
                return Ok(found);
            }
        }
        Err(self.gone_error())
    }

    /// The value of an akey in the entry at `location`; `None` if the entry lacks it.
    fn value_at(&self, location: &EntryLocation, akey: &[u8]) -> Result<Option<Vec<u8>>> {
        let dir = self.fs().container().object(location.dir);
        entry::value(&dir, &location.name, akey, self.fs().view())
    }
}

/// Sets extended attributes in an entry that is about to be written.
///
/// # Errors
/// The errors of [`Node::set_xattr`] for names and values.
pub(crate) fn set_all(entry: &mut FullEntry, xattrs: Xattrs) -> Result<()> {
    for (name, value) in xattrs {
        check_value(&value)?;
        entry.set(akey(&name)?, value);
    }
    Ok(())
}

/// Refuses a value that is too long.
///
/// # Errors
/// [`ErrorKind::RecordTooBig`].
fn check_value(value: &[u8]) -> Result<()> {
    match value.len() {
        0..=XATTR_VALUE_MAX => Ok(()),
        len => Err(Error::new(
            ErrorKind::RecordTooBig,
            format!(
                "an extended attribute of {len} bytes: the limit is {XATTR_VALUE_MAX} (XATTR_VALUE_MAX)"
            ),
        )),
    }
}

/// The akey of an extended attribute. Fails if the name is empty or too long.
pub(crate) fn akey(name: &[u8]) -> Result<Vec<u8>> {
    match name.len() {
        1..=XATTR_NAME_MAX => Ok([XATTR_PREFIX, name].concat()),
        len => Err(Error::new(
            ErrorKind::Truncated,
            format!(
                "the name of an extended attribute has {len} bytes: it has 1 to {XATTR_NAME_MAX} \
                 (XATTR_NAME_MAX)"
            ),
        )),
    }
}

#[cold]
fn no_xattr_error(name: &[u8]) -> Error {
    let name = String::from_utf8_lossy(name);
    Error::new(ErrorKind::NoAttribute, format!("extended attribute {name:?} does not exist"))
}

#[cold]
fn xattr_exists_error(name: &[u8]) -> Error {
    let name = String::from_utf8_lossy(name);
    Error::new(ErrorKind::Exists, format!("extended attribute {name:?} exists already"))
}
