//! Entries: what the object of a directory stores under each name.
//!
//! A name is a dkey. Its akey `DFS_INODE` holds the inode, `DFS_SLINK` the target of a symbolic link,
//! `x:NAME` an extended attribute. The dkey `/` is not a name: it marks a directory that exists, so that
//! no process creates an entry in a removed one. Pools whose file systems programs of DAOS list have no
//! marks ([`has_marks`]): there, a new entry depends on the entry of its directory.
use crate::inode::{INODE_BYTES, Inode};
use crate::limits::NAME_MAX;
use esker::types::limits::{INLINE_MAX, SINGLE_VALUE_MAX};
use esker::types::ops::{
    Anchor, Cond, DkeyFetch, Fetch, ListLimit, Sink, Source, Take, Taken, Update, Value, Write,
    WriteOp,
};
use esker::types::{Error, ErrorKind, Extent, ObjectId, Result};
use esker::{Access, Array, Container, Object, Proof, Wait};

/// The akey of the inode in the entry of a directory (layout: DFS).
pub const INODE_AKEY: &[u8] = b"DFS_INODE";
/// The akey of a symbolic link's target.
pub(crate) const LINK_AKEY: &[u8] = b"DFS_SLINK";
/// Beginning of the akey of an extended attribute.
pub(crate) const XATTR_PREFIX: &[u8] = b"x:";
/// The dkey that marks a directory that exists.
pub(crate) const MARK: &[u8] = b"/";
/// The akey under the mark.
const MARK_AKEY: &[u8] = b"DFS_DIRECTORY";
/// The upper word of the id of the object that stores files without a name; the lower one is 0.
pub(crate) const ORPHANS_HI: u64 = 2;
/// Bytes of an inode with the id of its object.
const OID_EXTENT: Extent = Extent::new(4, 16);
/// Records of an inode: its bytes.
pub(crate) const INODE_EXTENT: Extent = Extent::new(0, INODE_BYTES as u64);
/// Akeys of one entry that are listed at a time.
const AKEYS_BATCH: usize = 64;

/// The inode of an entry, and the value of an extended attribute of it, if the entry has it and the value is not empty.
pub type WithXattr = (Inode, Option<Vec<u8>>);

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EntryLocation {
    /// The directory's object.
    pub(crate) dir: ObjectId,
    /// The name.
    pub(crate) name: Box<[u8]>,
}

impl EntryLocation {
    /// Fetches the inode of the entry from the container `in_`; `None` if the name does not exist.
    pub(crate) async fn inode(&self, in_: &Container, access: Access<'_>) -> Result<Option<Inode>> {
        fetch(&in_.object(self.dir), &self.name, access).await
    }

    /// True if `dir` is the object that stores files without a name. The upper half of `hi` is not compared: it has the
    /// type and class of the object.
    pub(crate) fn is_orphans(&self) -> bool {
        (self.dir.hi as u32, self.dir.lo) == (ORPHANS_HI as u32, 0)
    }

    /// The object that the entry names; `None` if the entry does not exist. A transaction that has read it does not
    /// conflict with changes of the other attributes.
    pub(crate) fn oid(&self, in_: &Container, access: Access<'_>) -> Result<Option<ObjectId>> {
        let mut words = [[0; 8]; 2];
        let extent = [OID_EXTENT];
        let mut fetch = Fetch::array(INODE_AKEY, 1, &extent, Sink::One(words.as_flattened_mut()));
        let fetches = std::slice::from_mut(&mut fetch);
        in_.object(self.dir).fetch(&self.name, Cond::NONE, fetches, access).wait()?;
        let exists = fetch.reply.size != 0;
        let [lo, hi] = words.map(u64::from_le_bytes);
        Ok(exists.then_some(ObjectId { hi, lo }))
    }

    /// The error for an entry that another process has moved or removed.
    #[cold]
    pub(crate) fn gone_error(&self) -> Error {
        let name = String::from_utf8_lossy(&self.name);
        Error::new(ErrorKind::NotFound, format!("{name:?} was moved or removed"))
    }

    /// Replaces the inode of the entry.
    pub(crate) async fn store(
        &self,
        in_: &Container,
        inode: &Inode,
        access: Access<'_>,
    ) -> Result<()> {
        store(&in_.object(self.dir), &self.name, inode, access).await
    }
}

/// True for the names with a meaning in paths, which no entry can have: `.`, `..` and the empty name.
pub(crate) fn is_special(name: &[u8]) -> bool {
    matches!(name, b"" | b"." | b"..")
}

/// Checks a name: not empty, `.`, `..` or too long, and without slashes and zero bytes.
///
/// # Errors
/// [`ErrorKind::NameTooLong`], [`ErrorKind::Invalid`].
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        let message = format!("a name of {} bytes: the limit is {NAME_MAX} (NAME_MAX)", name.len());
        return Err(Error::new(ErrorKind::NameTooLong, message));
    }
    match is_name(name) {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Invalid,
            format!("{:?} cannot be the name of an entry", String::from_utf8_lossy(name)),
        )),
    }
}

/// True for names that an entry can have: see [`check_name`]. Other programs can store any name in a directory.
pub(crate) fn is_name(name: &[u8]) -> bool {
    let is_path = || name.iter().any(|byte| matches!(byte, b'/' | 0));
    name.len() <= NAME_MAX && !is_special(name) && !is_path()
}

/// True for names of a directory's object other than the mark, also for those that no entry can have.
pub(crate) fn is_stored_name(name: &[u8]) -> bool {
    name != MARK
}

/// The inode under a name; `None` if the name does not exist.
pub(crate) async fn fetch(dir: &Object, name: &[u8], access: Access<'_>) -> Result<Option<Inode>> {
    let mut bytes = [0; INODE_BYTES];
    let extent = [INODE_EXTENT];
    let mut fetch = Fetch::array(INODE_AKEY, 1, &extent, Sink::One(&mut bytes));
    dir.fetch(name, Cond::NONE, std::slice::from_mut(&mut fetch), access).await?;
    match fetch.reply.size {
        0 => Ok(None),
        _ => Inode::from_bytes(&bytes).map(Some),
    }
}

/// The inodes under several names; `None` for each name that does not exist.
pub(crate) async fn fetch_all(
    dir: &Object,
    names: &[&[u8]],
    access: Access<'_>,
) -> Result<Vec<Option<Inode>>> {
    let extent = [INODE_EXTENT];
    let mut bytes = vec![[0; INODE_BYTES]; names.len()];
    let fetch = |bytes| Fetch::array(INODE_AKEY, 1, &extent, Sink::One(bytes));
    let mut fetches: Vec<_> = bytes.iter_mut().map(|bytes| fetch(&mut bytes[..])).collect();
    let akeys = fetches.iter_mut().map(std::slice::from_mut);
    let mut dkeys: Vec<_> = std::iter::zip(names, akeys)
        .map(|(dkey, akeys)| DkeyFetch { dkey, cond: Cond::NONE, akeys })
        .collect();
    dir.fetch_dkeys(&mut dkeys, access).await?;
    drop(dkeys);
    let sizes: Vec<_> = fetches.iter().map(|fetch| fetch.reply.size).collect();
    drop(fetches);
    let inode = |(bytes, size)| match size {
        0 => Ok(None),
        _ => Inode::from_bytes(bytes).map(Some),
    };
    std::iter::zip(&bytes, sizes).map(inode).collect()
}

/// The inodes under several names, and the value of an akey of each: all in one request if the values are short.
pub(crate) fn fetch_all_with(
    dir: &Object,
    names: &[&[u8]],
    akey: &[u8],
    access: Access<'_>,
) -> Result<Vec<Option<WithXattr>>> {
    match fetch_short(dir, names, akey, access) {
        Err(error) if error.kind() == ErrorKind::RecordTooBig => {
            let inodes = fetch_all(dir, names, access).wait()?;
            let full = |(name, inode): (&&[u8], Option<Inode>)| {
                inode.map(|inode| Ok((inode, value(dir, name, akey, access)?))).transpose()
            };
            std::iter::zip(names, inodes).map(full).collect()
        }
        found => found,
    }
}

/// Fetches as [`fetch_all_with`] in one request, which has room only for short attributes.
///
/// # Errors
/// [`ErrorKind::RecordTooBig`] if a value is longer than [`INLINE_MAX`].
fn fetch_short(
    dir: &Object,
    names: &[&[u8]],
    akey: &[u8],
    access: Access<'_>,
) -> Result<Vec<Option<WithXattr>>> {
    let extent = [INODE_EXTENT];
    let mut inodes = vec![[0; INODE_BYTES]; names.len()];
    let mut values = vec![0; INLINE_MAX * names.len()];
    let mut fetches: Vec<_> = std::iter::zip(&mut inodes, values.chunks_mut(INLINE_MAX))
        .map(|(inode, value)| {
            let inode = Fetch::array(INODE_AKEY, 1, &extent, Sink::One(&mut inode[..]));
            let mut value = Fetch::single(akey, Sink::One(value));
            value.request.cond = Cond::NONE;
            [inode, value]
        })
        .collect();
    let mut dkeys: Vec<_> = std::iter::zip(names, &mut fetches)
        .map(|(dkey, akeys)| DkeyFetch { dkey, cond: Cond::NONE, akeys })
        .collect();
    dir.fetch_dkeys(&mut dkeys, access).wait()?;
    drop(dkeys);
    let sizes: Vec<_> =
        fetches.iter().map(|[inode, value]| (inode.reply.size, value.reply.size)).collect();
    drop(fetches);
    let entry = |((inode, value), (inode_size, size)): ((_, &[u8]), (u64, u64))| match inode_size {
        0 => Ok(None),
        _ => {
            let value = value.get(..size as usize).filter(|value| !value.is_empty());
            Ok(Some((Inode::from_bytes(inode)?, value.map(<[u8]>::to_vec))))
        }
    };
    let found = std::iter::zip(&inodes, values.chunks(INLINE_MAX));
    std::iter::zip(found, sizes).map(entry).collect()
}

/// True if directories of a container have marks. Programs of DAOS would list a mark as a file.
pub(crate) fn has_marks(container: &Container) -> bool {
    !container.capabilities().fixed_layouts
}

/// True if the directory has its mark.
pub(crate) fn is_marked(dir: &Object, access: Access<'_>) -> Result<bool> {
    let mut fetch = Fetch::single(MARK_AKEY, Sink::None);
    fetch.request.cond = Cond::AKEY_FETCH;
    match dir.fetch(MARK, Cond::NONE, std::slice::from_mut(&mut fetch), access).wait() {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Sets the mark of a directory, where directories have marks.
pub(crate) fn mark(dir: &Object, access: Access<'_>) -> Result<()> {
    match has_marks(dir.container()) {
        true => dir.update(MARK, Cond::NONE, &[mark_update()], access).wait(),
        false => Ok(()),
    }
}

/// The update that sets the mark.
pub(crate) fn mark_update() -> Update<'static> {
    Update { akey: MARK_AKEY, value: Value::Single(Source::One(&[])), cond: Cond::NONE }
}

/// A write that changes nothing, and fails with [`ErrorKind::NotFound`] if the directory has no mark.
pub(crate) fn require_mark(dir: ObjectId) -> Write<'static> {
    Write { oid: dir, op: WriteOp::Update { dkey: MARK, cond: Cond::DKEY_UPDATE, updates: &[] } }
}

/// The update that stores an inode; `extent` is one [`INODE_EXTENT`].
pub(crate) fn inode_update<'a>(extent: &'a [Extent], bytes: &'a [u8]) -> Update<'a> {
    let data = Source::One(bytes);
    let value = Value::Array { record_size: 1, extents: extent, data };
    Update { akey: INODE_AKEY, value, cond: Cond::NONE }
}

/// The update that stores the target of a symbolic link.
pub(crate) fn link_update(target: &[u8]) -> Update<'_> {
    Update { akey: LINK_AKEY, value: Value::Single(Source::One(target)), cond: Cond::NONE }
}

/// Replaces the inode of an entry.
async fn store(dir: &Object, name: &[u8], inode: &Inode, access: Access<'_>) -> Result<()> {
    let (extent, bytes) = ([INODE_EXTENT], inode.to_bytes());
    let updates = [inode_update(&extent, &bytes)];
    dir.update(name, Cond::DKEY_UPDATE, &updates, access).await
}

/// Writes the inode of an entry, whether or not the entry exists.
pub(crate) fn put(dir: &Object, name: &[u8], inode: &Inode, access: Access<'_>) -> Result<()> {
    let (extent, bytes) = ([INODE_EXTENT], inode.to_bytes());
    dir.update(name, Cond::NONE, &[inode_update(&extent, &bytes)], access).wait()
}

/// Value of an akey of an entry; `None` if the entry lacks it.
pub(crate) fn value(
    dir: &Object,
    name: &[u8],
    akey: &[u8],
    access: Access<'_>,
) -> Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; INLINE_MAX];
    loop {
        let mut fetch = Fetch::single(akey, Sink::One(&mut bytes));
        fetch.request.cond = Cond::AKEY_FETCH;
        let fetched = dir.fetch(name, Cond::NONE, std::slice::from_mut(&mut fetch), access).wait();
        let size = fetch.reply.size.min(SINGLE_VALUE_MAX) as usize;
        match fetched {
            Ok(()) => {
                bytes.truncate(size);
                return Ok(Some(bytes));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            // The reply has the size of a value that does not fit: try again with a larger buffer.
            Err(error) if error.kind() == ErrorKind::RecordTooBig => bytes.resize(size, 0),
            Err(error) => return Err(error),
        }
    }
}

/// A complete entry: its inode and the values of its other akeys.
pub(crate) struct FullEntry {
    pub(crate) inode: Inode,
    /// Akeys other than the inode's, with their values.
    others: Vec<(Vec<u8>, Vec<u8>)>,
}

impl FullEntry {
    /// A new entry, without other akeys.
    pub(crate) fn new(inode: Inode) -> Self {
        Self { inode, others: Vec::new() }
    }

    /// Reads an entry; `None` if the name does not exist.
    pub(crate) fn read(dir: &Object, name: &[u8], access: Access<'_>) -> Result<Option<Self>> {
        let Some(inode) = fetch(dir, name, access).wait()? else { return Ok(None) };
        let mut others = Vec::new();
        for akey in akeys(dir, name, access)? {
            if akey != INODE_AKEY {
                let value = value(dir, name, &akey, access)?.unwrap_or_default();
                others.push((akey, value));
            }
        }
        Ok(Some(Self { inode, others }))
    }

    /// Removes the entry of the object `oid` and returns it; `None` if the name is free or names another object, or if
    /// the entry is too long: then nothing was changed.
    ///
    /// # Errors
    /// The errors of [`Object::take`].
    pub(crate) fn take(dir: &Object, name: &[u8], oid: ObjectId) -> Result<Option<Self>> {
        let words = [oid.lo.to_le_bytes(), oid.hi.to_le_bytes()];
        let taken = dir.take(removal(dir, name, words.as_flattened())).wait()?;
        taken.map(Self::from_taken).transpose()
    }

    /// Removes the entry of a file as [`FullEntry::take`] does, and then its content, if one node has both, and if the
    /// `proof` is valid. Returns the entry, and the result of the removal of the content: false if a process has the
    /// file open. That result is `None` if two nodes have them, so that the content stays
    /// ([`Array::remove_unused_with`]). Returns `None` as [`FullEntry::take`] does.
    ///
    /// # Errors
    /// The errors of [`Object::take`].
    pub(crate) fn take_with_content(
        dir: &Object,
        name: &[u8],
        content: &Array,
        proof: Option<&Proof>,
    ) -> Result<Option<(Self, Option<Result<bool>>)>> {
        let oid = content.oid();
        let words = [oid.lo.to_le_bytes(), oid.hi.to_le_bytes()];
        let removal = removal(dir, name, words.as_flattened());
        let Some((taken, is_freed)) = content.remove_unused_with(removal, proof).wait()? else {
            return Ok(None);
        };
        Ok(Some((Self::from_taken(taken)?, is_freed)))
    }

    /// The entry in the content of a removed dkey.
    fn from_taken(Taken { bytes, others }: Taken) -> Result<Self> {
        // Zeros are not an inode: bytes of another length fail as corrupt below.
        let bytes = bytes.try_into().unwrap_or([0; INODE_BYTES]);
        Ok(Self { inode: Inode::from_bytes(&bytes)?, others })
    }

    /// The value of an akey other than the inode's.
    pub(crate) fn value(&self, akey: &[u8]) -> Option<&[u8]> {
        let found = self.others.iter().find(|(known, _)| known == akey);
        found.map(|(_, value)| value.as_slice())
    }

    /// Replaces the value of an akey other than the inode's.
    pub(crate) fn set(&mut self, akey: Vec<u8>, value: Vec<u8>) {
        self.others.retain(|(known, _)| *known != akey);
        self.others.push((akey, value));
    }

    /// Writes the entry under another name, which must be free.
    pub(crate) fn write(&self, dir: &Object, name: &[u8], access: Access<'_>) -> Result<()> {
        let (extent, bytes) = ([INODE_EXTENT], self.inode.to_bytes());
        let mut updates = vec![inode_update(&extent, &bytes)];
        updates.extend(self.others.iter().map(|(akey, value)| Update {
            akey,
            value: Value::Single(Source::One(value)),
            cond: Cond::NONE,
        }));
        dir.update(name, Cond::NONE, &updates, access).wait()
    }
}

/// The request to remove the entry `name` if it still names the object `oid`, which is given as the bytes that the
/// entry stores.
fn removal<'t>(dir: &Object, name: &'t [u8], oid: &'t [u8]) -> Take<'t> {
    Take {
        oid: dir.oid(),
        dkey: name,
        akey: INODE_AKEY,
        extent: INODE_EXTENT,
        at: OID_EXTENT.start,
        expected: oid,
    }
}

/// All akeys of an entry.
pub(crate) fn akeys(dir: &Object, name: &[u8], access: Access<'_>) -> Result<Vec<Vec<u8>>> {
    let mut anchor = Anchor::Start;
    let mut akeys = Vec::new();
    while !anchor.is_end() {
        let limit = ListLimit::entries(AKEYS_BATCH);
        let batch = dir.list_akeys(name, &mut anchor, limit, access).wait()?;
        akeys.extend(batch.iter().map(<[u8]>::to_vec));
    }
    Ok(akeys)
}

/// True if the directory stores nothing but a mark.
pub(crate) fn is_empty(dir: &Object, access: Access<'_>) -> Result<bool> {
    let mut anchor = Anchor::Start;
    while !anchor.is_end() {
        let batch = dir.list_dkeys(&mut anchor, ListLimit::entries(2), access).wait()?;
        if batch.iter().any(|name| name != MARK) {
            return Ok(false);
        }
    }
    Ok(true)
}
