//! The superblock: the parameters of a container's file system.
use crate::entry;
use crate::inode::{Inode, Kind, MODE_MASK, Time, process_owner};
use crate::limits::CHUNK_BYTES;
use esker::types::ops::{Anchor, Cond, Fetch, Sink, Source, Update, Value, Write, WriteOp};
use esker::types::{Error, ErrorKind, ObjectClass, ObjectId, ObjectType, Result};
use esker::{Access, Container, Pool, Wait};

/// The dkey that holds the superblock.
const DKEY: &[u8] = b"DFS_SB_METADATA";
/// The name of the root's entry in the superblock's object.
pub(crate) const ROOT_NAME: &[u8] = b"/";
const MAGIC: u64 = 0xda05_df50_da05_df50;
const VERSION: u16 = 2;
const LAYOUT_VERSION: u16 = 3;
/// `DAOS_PROP_CO_LAYOUT_POSIX`.
const LAYOUT_POSIX: u64 = 1;
/// Longest text of hints in bytes.
const HINTS_MAX: usize = 127;
/// Bits of an object id (of `hi`) with the number of groups of its class.
const WIDTH_BITS: u64 = 0xffff << 32;
/// Longest value in the superblock.
const VALUE_MAX: usize = 128;

/// Default chunk size of files in bytes (DAOS: `DFS_DEFAULT_CHUNK_SIZE`).
pub const CHUNK_SIZE: u64 = 1 << 20;

/// Property of a container whose file system gives up a promise about removed files for fewer requests over nodes:
/// see "Relaxed file systems" in `docs/semantics.md`.
pub const RELAXED: &str = "relaxed_files";

/// Parameters of a new file system (DAOS: `dfs_attr_t`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDfs {
    /// Bytes per chunk of a file, within [`CHUNK_BYTES`].
    pub chunk_size: u64,
    /// Default object class; `None` for the choice of DAOS's rules.
    pub class: Option<ObjectClass>,
    /// Object class of directories, if it differs.
    pub dir_class: Option<ObjectClass>,
    /// Object class of files, if it differs.
    pub file_class: Option<ObjectClass>,
    /// Consistency mode (DAOS: `DFS_RELAXED`, `DFS_BALANCED`). Stored; Esker is always balanced.
    pub consistency: u32,
    /// Over nodes, processes free the content of removed files a moment later ([`RELAXED`]).
    pub relaxed: bool,
    /// Hints, stored as given.
    pub hints: String,
    /// Permission bits of the root directory.
    pub root_mode: u32,
    /// Owner and group of the root directory; `None` for those of the process.
    pub root_owner: Option<(u32, u32)>,
}

impl Default for NewDfs {
    fn default() -> Self {
        Self {
            chunk_size: CHUNK_SIZE,
            class: None,
            dir_class: None,
            file_class: None,
            consistency: 0,
            relaxed: false,
            hints: String::new(),
            root_mode: 0o755,
            root_owner: None,
        }
    }
}

/// The superblock of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Bytes per chunk of a file.
    pub chunk_size: u64,
    /// Default object class; 0 for the choice of DAOS's rules.
    pub class: u32,
    /// Object class of directories; 0 for `class`.
    pub dir_class: u32,
    /// Object class of files; 0 for `class`.
    pub file_class: u32,
    /// Consistency mode (DAOS: `DFS_RELAXED`, `DFS_BALANCED`).
    pub consistency: u32,
    /// Hints.
    pub hints: String,
}

/// Ids of the objects that every file system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roots {
    /// The superblock.
    pub superblock: ObjectId,
    /// The root directory.
    pub root: ObjectId,
}

impl Roots {
    /// The ids in a container, which follow from the class of directories alone.
    pub(crate) fn from_superblock(container: &Container, superblock: &Superblock) -> Result<Self> {
        let oid = |hi, class| container.generate_oid(hi, 0, ObjectType::MultiHashed, class, 0);
        Self::generate(superblock, oid)
    }

    /// The ids in a container that is yet to be created.
    pub(crate) fn for_new_container(pool: &Pool, superblock: &Superblock) -> Result<Self> {
        let oid = |hi, class| pool.generate_oid(hi, 0, ObjectType::MultiHashed, class, 0);
        Self::generate(superblock, oid)
    }

    /// Generates the object ids of the superblock and of the root directory.
    fn generate(
        superblock: &Superblock,
        oid: impl Fn(u64, Option<ObjectClass>) -> Result<ObjectId>,
    ) -> Result<Self> {
        let class = pick(superblock.dir_class, superblock.class);
        Ok(Self { superblock: oid(0, SUPERBLOCK_CLASS)?, root: oid(1, class)? })
    }

    /// Replaces the root by the one that the superblock names, if the ids differ only in the number of groups: a copy
    /// on another pool keeps the id with the number of the first pool.
    pub(crate) fn with_root(self, named: ObjectId) -> Self {
        let without_width = |oid: ObjectId| (oid.hi & !WIDTH_BITS, oid.lo);
        match without_width(named) == without_width(self.root) {
            true => Self { root: named, ..self },
            false => self,
        }
    }

    /// In the form of the container property `roots` (DAOS: `struct daos_prop_co_roots`).
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let words = [self.superblock, self.root].into_iter().flat_map(|oid| [oid.lo, oid.hi]);
        words.chain([0; 4]).flat_map(u64::to_le_bytes).collect()
    }
}

const SUPERBLOCK_CLASS: Option<ObjectClass> = Some(ObjectClass::S1);

/// The superblock has a fixed id.
fn superblock_oid(container: &Container) -> Result<ObjectId> {
    container.generate_oid(0, 0, ObjectType::MultiHashed, SUPERBLOCK_CLASS, 0)
}

/// The object class for new objects: `special` (of files or of directories) if set, else `general`, else `None`: the
/// rules of the pool choose it. 0 means not set.
pub(crate) fn pick(special: u32, general: u32) -> Option<ObjectClass> {
    let code = if special != 0 { special } else { general };
    (code != 0).then(|| ObjectClass::from_code(code))
}

/// Checks a chunk size.
pub(crate) fn check_chunk_size(size: u64) -> Result<()> {
    match CHUNK_BYTES.contains(&size) {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "a chunk size of {size} bytes: it must be {} to {} (CHUNK_BYTES)",
                CHUNK_BYTES.start(),
                CHUNK_BYTES.end()
            ),
        )),
    }
}

/// Properties that identify the container as a file system.
pub(crate) fn properties(roots: Roots) -> [(&'static str, Vec<u8>); 2] {
    [(esker::FILES_LAYOUT, LAYOUT_POSIX.to_le_bytes().to_vec()), ("roots", roots.to_bytes())]
}

impl NewDfs {
    /// The superblock of a new file system.
    pub(crate) fn superblock(&self) -> Result<Superblock> {
        if !CHUNK_BYTES.contains(&self.chunk_size) || self.hints.len() > HINTS_MAX {
            return Err(invalid_sizes_error(self));
        }
        let code = |class: Option<ObjectClass>| class.map_or(0, ObjectClass::code);
        Ok(Superblock {
            chunk_size: self.chunk_size,
            class: code(self.class),
            dir_class: code(self.dir_class),
            file_class: code(self.file_class),
            consistency: self.consistency,
            hints: self.hints.clone(),
        })
    }

    /// Inode of the root directory.
    fn root(&self, oid: ObjectId) -> Inode {
        let now = Time::now();
        let (uid, gid) = self.root_owner.unwrap_or_else(process_owner);
        let mode = self.root_mode & MODE_MASK;
        Inode { mode, uid, gid, ..Inode::new(Kind::Directory, oid, now) }
    }
}

#[cold]
fn invalid_sizes_error(new: &NewDfs) -> Error {
    let (least, most) = CHUNK_BYTES.into_inner();
    Error::new(
        ErrorKind::Invalid,
        format!(
            "chunks of {} bytes, hints of {}: chunks have {least} to {most} bytes, hints at most \
             {HINTS_MAX}",
            new.chunk_size,
            new.hints.len()
        ),
    )
}

/// Creates a file system in `container`.
///
/// # Errors
/// [`ErrorKind::Exists`] if there is one: of racing callers one wins.
pub(crate) fn format(container: &Container, new: &NewDfs) -> Result<Roots> {
    let superblock = new.superblock()?;
    let roots = Roots::from_superblock(container, &superblock)?;
    let values = superblock.values();
    let updates: Vec<_> = values.iter().map(|(akey, value)| single(akey, value)).collect();
    let root = new.root(roots.root).to_bytes();
    let extent = [entry::INODE_EXTENT];
    let inode = [entry::inode_update(&extent, &root)];
    let mark = [entry::mark_update()];
    let write =
        |oid, dkey, cond, updates| Write { oid, op: WriteOp::Update { dkey, cond, updates } };
    let writes = [
        write(roots.superblock, DKEY, Cond::DKEY_INSERT, &updates),
        write(roots.superblock, ROOT_NAME, Cond::NONE, &inode),
        write(roots.root, entry::MARK, Cond::NONE, &mark),
    ];
    let count = if entry::has_marks(container) { 3 } else { 2 };
    container.write(&writes[..count], Access::Latest).wait()?;
    Ok(roots)
}

/// The update that stores a single value.
fn single<'a>(akey: &'a str, value: &'a [u8]) -> Update<'a> {
    Update { akey: akey.as_bytes(), value: Value::Single(Source::One(value)), cond: Cond::NONE }
}

impl Superblock {
    /// The values of the superblock by name, as DAOS stores them.
    fn values(&self) -> [(&'static str, Vec<u8>); 9] {
        [
            ("DFS_MAGIC", MAGIC.to_le_bytes().to_vec()),
            ("DFS_SB_VERSION", VERSION.to_le_bytes().to_vec()),
            ("DFS_LAYOUT_VERSION", LAYOUT_VERSION.to_le_bytes().to_vec()),
            ("DFS_CHUNK_SIZE", self.chunk_size.to_le_bytes().to_vec()),
            ("DFS_OBJ_CLASS", self.class.to_le_bytes().to_vec()),
            ("DFS_DIR_OBJ_CLASS", self.dir_class.to_le_bytes().to_vec()),
            ("DFS_FILE_OBJ_CLASS", self.file_class.to_le_bytes().to_vec()),
            ("DFS_MODE", self.consistency.to_le_bytes().to_vec()),
            ("DFS_HINTS", self.hints.clone().into_bytes()),
        ]
    }

    /// Reads the superblock of a container.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the container holds no file system, [`ErrorKind::NotFound`] if it was made for one and
    /// the superblock was removed, [`ErrorKind::Incompatible`] if it is one of another version.
    pub(crate) fn read(container: &Container, access: Access<'_>) -> Result<Self> {
        let names = Self::empty().values().map(|(name, _)| name);
        let mut values = [[0; VALUE_MAX]; 9];
        let sinks = values.iter_mut().zip(names);
        let mut fetches: Vec<_> =
            sinks.map(|(value, name)| Fetch::single(name.as_bytes(), Sink::One(value))).collect();
        let object = container.object(superblock_oid(container)?);
        object.fetch(DKEY, Cond::NONE, &mut fetches, access).wait()?;
        let sizes: Vec<_> = fetches.iter().map(|fetch| fetch.reply.size as usize).collect();
        // `at` is the position in `values`.
        let value = |at: usize| &values[at][..sizes[at].min(VALUE_MAX)];
        if sizes[0] == 0 && has_files_layout(container)? {
            return Err(superblock_missing_error(container));
        }
        if number(value(0)) != MAGIC {
            return Err(no_file_system_error(container));
        }
        let versions = (number(value(1)), number(value(2)));
        if versions != (u64::from(VERSION), u64::from(LAYOUT_VERSION)) {
            return Err(version_error(versions));
        }
        Ok(Self {
            chunk_size: number(value(3)),
            class: number(value(4)) as u32,
            dir_class: number(value(5)) as u32,
            file_class: number(value(6)) as u32,
            consistency: number(value(7)) as u32,
            hints: String::from_utf8_lossy(value(8)).into_owned(),
        })
    }

    /// A superblock without values, to be filled.
    fn empty() -> Self {
        Self {
            chunk_size: 0,
            class: 0,
            dir_class: 0,
            file_class: 0,
            consistency: 0,
            hints: String::new(),
        }
    }
}

/// A little-endian number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// True if all Arrays of a container over nodes will have stripe marks, because it has no Array yet. Arrays of other
/// pools have none.
pub(crate) fn can_rely_on_stripe_marks(container: &Container) -> Result<bool> {
    // Only pools over nodes have read leases.
    if !container.capabilities().read_leases {
        return Ok(false);
    }
    let objects = container.list_objects(&mut Anchor::Start, 1, Access::Latest).wait()?;
    Ok(objects.is_empty())
}

/// Properties of a file system over the network that decide how its files are read and removed.
#[derive(Clone, Copy, Default)]
pub(crate) struct FileRules {
    /// Its files have stripe marks if they need them: the container was made a file system while it was empty, by a
    /// release that sets them, and is not a copy.
    pub(crate) has_stripe_marks: bool,
    /// It is relaxed ([`RELAXED`]).
    pub(crate) is_relaxed: bool,
}

impl FileRules {
    /// Reads in one request which rules the file system has. Skips the request on a local pool, because no rule applies
    /// there.
    pub(crate) fn read(container: &Container) -> Result<Self> {
        let capabilities = container.capabilities();
        // Operations of local pools are not asynchronous.
        if !capabilities.asynchronous {
            return Ok(Self::default());
        }
        let names = container.properties().list().wait()?;
        let has = |wanted| names.iter().any(|name| name == wanted);
        // Only pools over nodes have stripe marks, and only they have read leases.
        let has_stripe_marks = capabilities.read_leases && has(esker::STRIPE_MARKS);
        Ok(Self { has_stripe_marks, is_relaxed: has(RELAXED) })
    }
}

/// True if a property says that the container holds a file system, so that its superblock must exist.
fn has_files_layout(container: &Container) -> Result<bool> {
    let layout = container.properties().get(esker::FILES_LAYOUT).wait()?;
    Ok(layout.is_some_and(|layout| number(&layout) == LAYOUT_POSIX))
}

/// The label of a container, or its UUID if it has none.
fn name_of(container: &Container) -> String {
    let info = container.info();
    if info.label.is_empty() { info.uuid.to_string() } else { info.label.clone() }
}

#[cold]
fn superblock_missing_error(container: &Container) -> Error {
    let name = name_of(container);
    let message = format!(
        "the superblock of the file system in container {name} was removed; restore the container from a copy"
    );
    Error::new(ErrorKind::NotFound, message)
}

#[cold]
fn no_file_system_error(container: &Container) -> Error {
    let name = name_of(container);
    Error::new(
        ErrorKind::Invalid,
        format!(
            "container {name} holds no file system: `esker cont create POOL NAME --type posix` makes one that does"
        ),
    )
}

#[cold]
fn version_error((version, layout): (u64, u64)) -> Error {
    Error::new(
        ErrorKind::Incompatible,
        format!(
            "the file system has version {version}, layout {layout}; this release reads version \
             {VERSION}, layout {LAYOUT_VERSION}"
        ),
    )
}
