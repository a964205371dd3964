//! Creation of pools.
use super::destroy::POOL;
use super::{Pool, control_bytes};
use crate::data;
use crate::format::superblock::PAGE;
use crate::format::superblock::{
    self, Access, BUFFER_VERSION, FORMAT_VERSION, LOCKS, PART_VERSION, REDO_VERSION, Superblock,
};
use crate::index::lmdb::{DATA, Index, Mode};
use crate::io::folder::Folder;
use crate::io::huge::TimeLimit;
use crate::io::private_file::PrivateFile;
use crate::io::sys::FileSystem;
use crate::io::{huge, lock, sys};
use crate::shard::index_space;
use crate::shared::control;
use esker_os::run_on_threads;
use esker_types::info::{Durability, Medium, Part};
use esker_types::limits::{INDEX_BLOCKS_MAX, NODES_MAX, TARGETS_MAX};
use esker_types::{ByteSize, Error, ErrorKind, Result, Uuid, check_pool_label};
use std::fs;
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Specification of a pool to be created.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Label of the pool, and name of its directory.
    pub label: String,
    /// Total size in bytes, including indexes. It is allocated on creation.
    pub size_bytes: u64,
    /// Number of targets. By default one per core, at least 2 and at most 8.
    pub targets: Option<u32>,
    /// Failure that an acknowledged update survives. By default power loss for pools on disks, and the death of
    /// processes for pools in memory.
    pub durability: Option<Durability>,
    /// True to write the index by system calls, so that stray pointers of programs cannot damage it. Commits are
    /// slower.
    pub guarded: bool,
    /// Name or number of the group whose members may use the pool. By default only the owner may use it.
    pub group: Option<String>,
    /// Share of the index in percent of the pool, 1 to 90. By default 4, and the index grows as needed. On file systems
    /// that cannot release a part of a file's space, the index cannot grow, and the default is 12.
    pub index_percent: Option<u32>,
    /// Bytes of a segment, a multiple of 4096. By default chosen by the size of the pool.
    pub segment_bytes: Option<u64>,
    /// True to put all data in huge pages, for pools in memory, even if the kernel takes long to create them. By
    /// default, huge pages are used only while they take no longer than small pages. See [`crate::HugePages`].
    pub huge_pages: bool,
    /// True to store small puts in write buffers first, which makes them two to three times as fast. By default where it is
    /// possible: in pools of one node that are not guarded.
    pub write_buffer: Option<bool>,
    /// Number of the node and of all nodes, if the pool belongs to a pool over nodes. By default it does not.
    pub part: Part,
    /// UUID of the pool. By default a random one.
    pub uuid: Option<Uuid>,
}

impl PoolSpec {
    /// Specification with this label and size, and defaults for everything else.
    #[must_use]
    pub fn new(label: &str, size_bytes: u64) -> Self {
        Self {
            label: label.to_owned(),
            size_bytes,
            targets: None,
            durability: None,
            guarded: false,
            group: None,
            index_percent: None,
            segment_bytes: None,
            huge_pages: false,
            write_buffer: None,
            part: Part::WHOLE,
            uuid: None,
        }
    }
}

/// Number of attempts to create the directory. Right after its creation, another process may treat it as abandoned.
const ATTEMPTS: u32 = 8;
/// Extra time that the creation of a pool may take for huge pages, unless all must be huge.
const HUGE_PAGE_TIME_MAX: Duration = Duration::from_millis(50);
/// Bytes allocated between two reports of progress.
const STEP: u64 = 256 << 20;

/// Medium of a directory.
///
/// # Errors
/// `NotSupported` for file systems that other machines share.
fn medium_of(directory: &Path) -> Result<Medium> {
    let failed = |error| {
        Error::io(format_args!("checking the file system of {}", directory.display()), &error)
    };
    let file = File::open(directory).map_err(failed)?;
    match sys::file_system(&file).map_err(failed)? {
        FileSystem::Memory => Ok(Medium::Memory),
        FileSystem::Local => Ok(Medium::Block),
        FileSystem::Network(kind) => Err(Error::new(
            ErrorKind::NotSupported,
            format!(
                "{} is on {kind}, which other machines share: a pool needs a local file system; use a \
                 `posix:` URL there",
                directory.display()
            ),
        )),
    }
}

impl Pool {
    /// Creates a pool in `directory` and allocates all its space. Calls `progress` with the number of finished bytes
    /// and the total.
    ///
    /// # Errors
    /// `Exists` if there is a pool of this label; `NoSpace` if the file system is too full; `NotSupported` on a network
    /// file system; `Invalid` for an invalid size or label.
    pub fn create(
        directory: &Path,
        spec: &PoolSpec,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Superblock> {
        check_pool_label(&spec.label)?;
        fs::create_dir_all(directory)
            .map_err(|error| Error::io(format_args!("creating {}", directory.display()), &error))?;
        let growing = can_grow(directory);
        let superblock = plan_layout(spec, medium_of(directory)?, growing)?;
        let group = spec.group.as_deref().map(resolve_group).transpose()?;
        let path = directory.join(&spec.label);
        // A thread that creates the same pool waits here, instead of getting the error that the pool is being created.
        let _alone = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
        // Removes what killed processes of this user left of other pools.
        esker_os::directory::finish_others(directory, POOL);
        remove_abandoned(&path)?;
        let limit = if spec.huge_pages {
            TimeLimit::NONE
        } else {
            TimeLimit::from_duration(HUGE_PAGE_TIME_MAX)
        };
        let builder = Builder { path: &path, superblock: &superblock, group, limit };
        let (unfinished, _locked) = builder.begin(directory)?;
        if let Err(error) = builder.build(unfinished, progress) {
            let _ = fs::remove_dir_all(&path);
            return Err(error);
        }
        Ok(superblock)
    }
}

/// Number of the group with a name or a number.
fn resolve_group(name: &str) -> Result<u32> {
    let known = sys::group_id(name)
        .map_err(|error| Error::io(format_args!("looking up group `{name}`"), &error))?;
    let number = || name.parse().ok();
    known
        .or_else(number)
        .ok_or_else(|| invalid(format!("there is no group `{name}`: `getent group` lists all")))
}

/// Replaces an error of the operating system by one that names the directory of pools, and not the temporary name in
/// it, and adds a remedy. Returns other errors unchanged.
#[cold]
fn explain_refused(error: Error, directory: &Path) -> Error {
    use std::error::Error as _;
    let system = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
    let Some(system) = system else { return error };
    let why = match error.kind() {
        ErrorKind::NoPermission => {
            format!("permission denied: you may not create a pool in {}", directory.display())
        }
        _ => {
            let creating = format_args!("creating a pool in {}", directory.display());
            Error::io(creating, system).message().to_owned()
        }
    };
    let remedy = "choose another directory (--dir, or the first of ESKER_POOLS)";
    Error::new(error.kind(), format!("{why}: {remedy}"))
}

/// Creates a directory. Users other than the owner get the access in `mode` only when it has its group.
fn make_directory(path: &Path, mode: u32, group: Option<u32>) -> Result<()> {
    let failed = |error| Error::io(format_args!("creating {}", path.display()), &error);
    fs::DirBuilder::new().mode(0o700).create(path).map_err(failed)?;
    if group.is_some() {
        std::os::unix::fs::chown(path, None, group).map_err(failed)?;
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(path, permissions).map_err(failed)?;
    }
    Ok(())
}

static CREATING: Mutex<()> = Mutex::new(());

/// Name of the file that becomes the superblock. The creating process has a lock on it. By that lock, other processes
/// distinguish a pool in creation from an abandoned one.
const UNFINISHED: &str = "pool.new";

/// Takes the lock that shows that a process is creating the pool.
fn lock_unfinished(unfinished: &File, pool: &Path) -> Result<PrivateFile> {
    let failed =
        |error| Error::io(format_args!("locking {UNFINISHED} of {}", pool.display()), &error);
    let own = PrivateFile::new(unfinished, true).map_err(failed)?;
    if own
        .get()
        .and_then(|unfinished| lock::set(unfinished, lock::LockKind::Exclusive, 0))
        .map_err(failed)?
    {
        return Ok(own);
    }
    Err(Error::new(
        ErrorKind::Busy,
        format!("{} is being created by another process: wait for it", pool.display()),
    ))
}

/// Removes the files of a process that was killed while it created a pool or, in the first release, destroyed one.
fn remove_abandoned(path: &Path) -> Result<()> {
    let failed = |error| Error::io(format_args!("removing {}", path.display()), &error);
    match esker_os::open_plain(&path.join(UNFINISHED), true) {
        // The pool is complete.
        _ if superblock::path(path).exists() => Ok(()),
        Ok(unfinished) => {
            let _locked = lock_unfinished(&unfinished, path)?;
            fs::remove_dir_all(path).map_err(failed)
        }
        Err(_) if has_only_pool_files(path) => fs::remove_dir_all(path).map_err(failed),
        Err(_) => Ok(()),
    }
}

/// True for a directory that contains only files and directories of a pool.
fn has_only_pool_files(path: &Path) -> bool {
    let is_part = |name: &str| {
        let numbered =
            |part| name.strip_prefix(part).is_some_and(|rest| rest.parse::<u32>().is_ok());
        [control::NAME, LOCKS].contains(&name) || numbered("target-") || numbered("pool.")
    };
    let entries = path.read_dir().map(|entries| {
        entries
            .map(|entry| entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(is_part)))
    });
    entries.is_ok_and(|mut parts| parts.all(|part| part))
}

/// Removes the unfinished superblock of a pool that no process is creating.
pub(super) fn discard_unfinished(directory: &Path) {
    let unfinished = directory.join(UNFINISHED);
    let locked = esker_os::open_plain(&unfinished, true)
        .ok()
        .and_then(|file| lock_unfinished(&file, directory).ok());
    if locked.is_some() {
        let _ = fs::remove_file(unfinished);
    }
}

fn allocation_error(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format_args!("allocating {}", path.display()), error)
}

/// A pool that is being created.
struct Builder<'b> {
    path: &'b Path,
    superblock: &'b Superblock,
    group: Option<u32>,
    /// Extra time that huge pages may take.
    limit: TimeLimit,
}

impl Builder<'_> {
    /// Creates the directory of the pool under a hidden name, locks the unfinished superblock in it, and renames the
    /// directory. Returns the unfinished superblock, and the open file that has the lock.
    fn begin(&self, parent: &Path) -> Result<(File, PrivateFile)> {
        for _ in 1..ATTEMPTS {
            match self.try_begin(parent) {
                // Another process treated the new directory as abandoned, or has its lock to check that.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Busy) => {}
                other => return other,
            }
        }
        self.try_begin(parent)
    }

    /// One attempt of [`Builder::begin`]. Fails with `NotFound` if another process removed the directory before it was
    /// locked.
    fn try_begin(&self, parent: &Path) -> Result<(File, PrivateFile)> {
        let coming = esker_os::directory::coming(parent)?;
        let permissions = self.superblock.directory_permissions();
        make_directory(&coming, permissions, self.group)
            .map_err(|error| explain_refused(error, parent))?;
        let begun = self.create(&coming.join(UNFINISHED)).and_then(|unfinished| {
            let locked = lock_unfinished(&unfinished, self.path)?;
            fs::rename(&coming, self.path).map_err(|error| self.creation_error(&error))?;
            // Another process may have removed the directory before it was locked.
            let named = self.path.join(UNFINISHED).metadata();
            let is_it = named.and_then(|named| Ok(named.ino() == unfinished.metadata()?.ino()));
            match is_it {
                Ok(true) => Ok((unfinished, locked)),
                _ => Err(ErrorKind::NotFound.into()),
            }
        });
        begun.inspect_err(|_| drop(fs::remove_dir_all(&coming)))
    }

    /// Error of renaming the new directory to the name of the pool.
    #[cold]
    fn creation_error(&self, error: &std::io::Error) -> Error {
        use std::io::ErrorKind as K;
        match error.kind() {
            K::AlreadyExists | K::DirectoryNotEmpty | K::NotADirectory => {
                Error::new(ErrorKind::Exists, format!("{} exists", self.path.display()))
            }
            _ => Error::io(format_args!("creating {}", self.path.display()), error),
        }
    }

    /// Creates all files of the pool. The superblock is the last one, and completes the pool.
    fn build(&self, unfinished: File, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let superblock = self.superblock;
        let total = superblock.reserved_bytes();
        self.check_space(total)?;
        let mut done = 0;
        let mut report = |bytes| {
            done += bytes;
            progress(done, total);
        };
        self.make_targets(&mut report)?;
        self.reserve(self.path.join(control::NAME), control_bytes(superblock), &mut |_| {})?;
        // Users of the pool may lock its objects, and lock files are created for that.
        let mode = superblock.directory_permissions_max();
        make_directory(&self.path.join(LOCKS), mode, self.group)?;
        self.write_superblock(unfinished)
    }

    /// Creates all targets, one on each core at a time: the kernel zeroes the memory of one file on one core only.
    fn make_targets(&self, report: &mut dyn FnMut(u64)) -> Result<()> {
        let targets = self.superblock.targets;
        let (next, (done, reports)) = (AtomicU32::new(0), mpsc::channel());
        let work = |done: mpsc::Sender<Result<u64>>| {
            let mut report = |bytes| drop(done.send(Ok(bytes)));
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= targets {
                    return;
                }
                if let Err(error) = self.make_target(number, &mut report) {
                    next.store(targets, Ordering::Relaxed);
                    return drop(done.send(Err(error)));
                }
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            let work = &work;
            run_on_threads(scope, cores.min(targets as usize), move || work(done));
            reports.into_iter().try_for_each(|done| done.map(&mut *report))
        })
    }

    /// Creates the directory of a target, with its index and its data file.
    fn make_target(&self, number: u32, report: &mut dyn FnMut(u64)) -> Result<()> {
        let target = self.path.join(superblock::target_name(number));
        let mode = self.superblock.directory_permissions();
        make_directory(&target, mode, self.group)?;
        make_directory(&target.join(superblock::INDEX), mode, self.group)?;
        self.make_index(&target.join(superblock::INDEX), report)?;
        self.make_data(target.join(data::NAME), report)?;
        sync_directory(&target.join(superblock::INDEX))?;
        sync_directory(&target)
    }

    /// Fails with `NoSpace` unless the file system has `total` bytes free.
    fn check_space(&self, total: u64) -> Result<()> {
        let failed = |error| {
            Error::io(format_args!("reading the free space of {}", self.path.display()), &error)
        };
        let free = File::open(self.path).and_then(|file| sys::free_space(&file)).map_err(failed)?;
        if free < total {
            let message = format!(
                "{} has {} free, and the pool needs {}: make it smaller, or choose another directory",
                self.path.display(),
                ByteSize(free),
                ByteSize(total)
            );
            return Err(Error::new(ErrorKind::NoSpace, message));
        }
        Ok(())
    }

    /// Creates an index. LMDB initializes an index only in an empty file, so its space is allocated afterwards.
    fn make_index(&self, path: &Path, report: &mut dyn FnMut(u64)) -> Result<()> {
        let (superblock, mode) = (self.superblock, self.superblock.file_permissions());
        let (file, folder) = (self.create(&path.join(DATA))?, Folder::open(path)?);
        let bytes = superblock.index_file_bytes();
        if superblock.blocks == 0 {
            drop(Index::open(&folder, bytes, Mode::Synced, mode, None)?);
            return self.reserve_file(&path.join(DATA), bytes, report);
        }
        let index = Index::open(&folder, bytes, Mode::Mapped, mode, None)?;
        index_space::make_blocks(&index, &file, superblock)?;
        file.sync_all().map_err(|error| Error::io("syncing an index", &error))?;
        report(superblock.index_reserved_bytes());
        Ok(())
    }

    /// Creates the data file of a target and allocates its space, in memory in huge pages if they are fast enough.
    fn make_data(&self, path: PathBuf, report: &mut dyn FnMut(u64)) -> Result<()> {
        let superblock = self.superblock;
        let bytes = superblock.data_file_bytes();
        if superblock.medium != Medium::Memory {
            self.reserve(path.clone(), bytes, report)?;
        } else {
            let file = self.create(&path)?;
            let reserved = huge::reserve_all(&file, bytes, &self.limit, report);
            reserved.map_err(|error| allocation_error(&path, &error))?;
        }
        self.make_redo_log(&path, report)
    }

    /// Writes zeros behind the segments. So later syncs of the log change no metadata of the file.
    fn make_redo_log(&self, path: &Path, report: &mut dyn FnMut(u64)) -> Result<()> {
        let bytes = self.superblock.redo_log_bytes();
        if bytes == 0 {
            return Ok(());
        }
        let file = File::options().write(true).open(path);
        let write = |file: File| {
            file.write_all_at(&vec![0; bytes as usize], self.superblock.data_file_bytes())?;
            file.sync_all()
        };
        file.and_then(write).map_err(|error| allocation_error(path, &error))?;
        report(bytes);
        Ok(())
    }

    /// Creates an empty file with the permissions of the pool.
    fn create(&self, path: &Path) -> Result<File> {
        let failed = |error| Error::io(format_args!("creating {}", path.display()), &error);
        let mode = self.superblock.file_permissions();
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(mode);
        let file = options.open(path).map_err(failed)?;
        // The umask of the process may have removed permissions.
        file.set_permissions(fs::Permissions::from_mode(mode)).map_err(failed)?;
        Ok(file)
    }

    /// Creates a file and allocates its blocks, so that later accesses cannot run out of space.
    fn reserve(&self, path: PathBuf, bytes: u64, report: &mut dyn FnMut(u64)) -> Result<()> {
        self.create(&path)?;
        self.reserve_file(&path, bytes, report)
    }

    /// Allocates the blocks of a file in steps, reports the bytes of each, and syncs the file.
    fn reserve_file(&self, path: &Path, bytes: u64, report: &mut dyn FnMut(u64)) -> Result<()> {
        let failed = |error| allocation_error(path, &error);
        let file = File::options().write(true).open(path).map_err(failed)?;
        let mut done = 0;
        while done < bytes {
            let step = STEP.min(bytes - done);
            sys::reserve(&file, done, step).map_err(failed)?;
            done += step;
            report(step);
        }
        file.sync_all()
            .map_err(|error| Error::io(format_args!("syncing {}", path.display()), &error))
    }

    /// Writes the superblock, which turns the directory into a pool. All other files are complete and, if needed, on
    /// the medium.
    fn write_superblock(&self, mut file: File) -> Result<()> {
        let unfinished = self.path.join(UNFINISHED);
        let failed = |error| Error::io(format_args!("writing {}", unfinished.display()), &error);
        std::io::Write::write_all(&mut file, self.superblock.to_text().as_bytes())
            .map_err(failed)?;
        file.sync_all().map_err(failed)?;
        fs::rename(&unfinished, superblock::path(self.path)).map_err(failed)?;
        sync_directory(self.path)
    }
}

/// Waits until the entries of a directory are on the medium.
fn sync_directory(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(|error| Error::io(format_args!("syncing {}", path.display()), &error))
}

/// Share in percent of an index that cannot grow.
const INDEX_PERCENT: u32 = 12;
/// Initial share in percent of an index that can grow.
const INDEX_PERCENT_FIRST: u32 = 4;
/// Maximum size of a block by which an index grows. LMDB's list of its pages must fit on one page.
const BLOCK_BYTES_MAX: u64 = 1 << 20;
const INDEX_BYTES_MIN: u64 = 1 << 20;
const SEGMENT_BYTES_MIN: u64 = 512 << 10;
/// Segment size that is preferred for pools with enough segments: a segment can store the largest single value.
const SEGMENT_BYTES_WANTED: u64 = 8 << 20;
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Minimum number of segments of a target: one is reserved for compaction, and several are written at a time.
const SEGMENTS_MIN: u64 = 4;
/// Number of segments from which on the preferred segment size is used.
const SEGMENTS_WANTED: u64 = 8;
/// Maximum number of segments of a target: their numbers have 24 bits.
const SEGMENTS_MAX: u64 = (1 << 24) - 1;

pub(super) fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

fn default_targets() -> u32 {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    cores.clamp(2, 8) as u32
}

/// Space for data of a power of two bytes, and for the headers before the extents. Without the extra space, the end of
/// each segment would be lost.
fn with_slack(data: u64) -> u64 {
    data + data / 128
}

/// Format version that a pool needs. `Invalid` if it cannot have write buffers as specified, or if its node number is
/// wrong.
fn version_of(spec: &PoolSpec, durability: Durability) -> Result<u32> {
    let may_buffer = spec.part == Part::WHOLE && !spec.guarded;
    match spec.part {
        _ if spec.write_buffer == Some(true) && !may_buffer => Err(invalid(
            "only a pool of one node has write buffers, and only if it is not guarded".to_owned(),
        )),
        Part::WHOLE if spec.write_buffer.unwrap_or(may_buffer) => Ok(match durability {
            Durability::Process => BUFFER_VERSION,
            Durability::Commit => REDO_VERSION,
        }),
        Part::WHOLE => Ok(FORMAT_VERSION),
        part if part.is_valid() => Ok(PART_VERSION),
        Part { nodes, .. } if nodes > NODES_MAX => {
            Err(invalid(format!("a pool of {nodes} nodes: it has at most {NODES_MAX} (NODES_MAX)")))
        }
        Part { node, nodes } => {
            Err(invalid(format!("a pool has no node {node} of {nodes}, counted from 0")))
        }
    }
}

/// Segment size in bytes: as specified, or chosen by the `data_bytes` of each target.
fn segment_bytes(spec: &PoolSpec, data_bytes: u64) -> Result<u64> {
    let bytes = spec.segment_bytes.unwrap_or_else(|| {
        // The preferred size gives about 64 segments. In a small pool, segments are shorter, so that there are enough.
        let wanted = (data_bytes / 64).clamp(SEGMENT_BYTES_WANTED, SEGMENT_BYTES_MAX);
        let few = (data_bytes / SEGMENTS_WANTED).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        // These are sizes of data, to which the slack for headers is added below.
        let data = wanted.min(few - few / 128).max(SEGMENT_BYTES_MIN);
        with_slack(1 << data.ilog2())
    });
    if !superblock::is_segment_size(bytes) {
        return Err(invalid(format!(
            "segments of {bytes} bytes: a multiple of 4096, 64 KiB to 1 GiB"
        )));
    }
    Ok(bytes)
}

/// Number of targets: as specified, or chosen by the machine.
fn targets_of(spec: &PoolSpec) -> Result<u32> {
    let targets = spec.targets.unwrap_or_else(default_targets);
    if targets == 0 || targets as usize > TARGETS_MAX {
        return Err(invalid(format!(
            "a pool cannot have {targets} targets: choose 1 to {TARGETS_MAX} (TARGETS_MAX)"
        )));
    }
    Ok(targets)
}

/// Divides the space of the pool among targets, indexes and segments. `growing` says whether an index can grow later.
pub(super) fn plan_layout(spec: &PoolSpec, medium: Medium, growing: bool) -> Result<Superblock> {
    if spec.huge_pages && medium != Medium::Memory {
        return Err(invalid(super::huge::IN_MEMORY.to_owned()));
    }
    let targets = targets_of(spec)?;
    let automatic = if growing { INDEX_PERCENT_FIRST } else { INDEX_PERCENT };
    let percent = spec.index_percent.unwrap_or(automatic);
    if !(1..=90).contains(&percent) {
        return Err(invalid(format!("an index share of {percent} percent: 1 to 90")));
    }
    let share = spec.size_bytes / u64::from(targets);
    let index_bytes =
        (share / 100 * u64::from(percent)).max(INDEX_BYTES_MIN).next_multiple_of(1 << 16);
    let data_bytes = share.saturating_sub(index_bytes);
    let segment_bytes = segment_bytes(spec, data_bytes)?;
    let block_bytes = segment_bytes.min(BLOCK_BYTES_MAX);
    let blocks_of = |segments: u64| {
        let blocks = segments.saturating_sub(SEGMENTS_MIN - 1) * (segment_bytes / block_bytes);
        if growing { blocks.min(u64::from(INDEX_BLOCKS_MAX)) } else { 0 }
    };
    // One page of each block exists from the start.
    let firsts = blocks_of(data_bytes / segment_bytes) * PAGE as u64;
    let segments = data_bytes.saturating_sub(firsts) / segment_bytes;
    if segments > SEGMENTS_MAX {
        return Err(invalid(format!(
            "{segments} segments of {} on each target: {SEGMENTS_MAX} at most, make them larger",
            ByteSize(segment_bytes)
        )));
    }
    if segments < SEGMENTS_MIN {
        let firsts = blocks_of(SEGMENTS_MIN) * PAGE as u64;
        let least = (SEGMENTS_MIN * segment_bytes + firsts + index_bytes) * u64::from(targets);
        return Err(invalid(format!(
            "a pool of {} is too small for {targets} targets: give it at least {}, or fewer targets",
            ByteSize(spec.size_bytes),
            ByteSize(least).whole_mib()
        )));
    }
    let durability =
        if medium == Medium::Memory { Durability::Process } else { Durability::Commit };
    Ok(Superblock {
        version: version_of(spec, spec.durability.unwrap_or(durability))?,
        uuid: spec.uuid.map_or_else(esker_os::random_uuid, Ok)?,
        label: spec.label.clone(),
        targets,
        index_bytes,
        blocks: blocks_of(segments) as u32,
        block_bytes,
        segment_bytes,
        segments: segments as u32,
        medium,
        durability: spec.durability.unwrap_or(durability),
        guarded: spec.guarded,
        access: if spec.group.is_some() { Access::Group } else { Access::Private },
        part: spec.part,
    })
}

/// True if files can release allocated space, so that index and data can share it. It is tested on an unnamed file, so
/// that no file is left behind.
pub(super) fn can_grow(directory: &Path) -> bool {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_TMPFILE);
    let Ok(file) = options.open(directory) else { return false };
    let page = PAGE as u64;
    let punched = sys::reserve(&file, 0, 2 * page).and_then(|()| sys::punch(&file, page, page));
    punched.is_ok() && sys::page_bytes() == page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_with_a_colon_are_refused() {
        for label in ["memory:x", "esker:x", "a:b"] {
            let spec = PoolSpec::new(label, 32 << 20);
            let refused = Pool::create(&std::env::temp_dir(), &spec, &mut |_, _| ());
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid, "{label}");
            assert!(!std::env::temp_dir().join(label).exists(), "{label}");
        }
    }
}
