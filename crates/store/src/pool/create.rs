//! Creating and destroying pools.
use super::destroy::POOL;
use super::layout::{can_grow, invalid, lay_out};
use super::{Pool, control_bytes};
use crate::io::folder::Folder;
use crate::io::huge::{self, Pace};
use crate::io::index::{DATA, Index, Mode};
use crate::io::lock;
use crate::io::own::Own;
use crate::io::sys::{self, FileSystem};
use crate::lending;
use crate::superblock::{self, LOCKS, Superblock};
use crate::{control, data, target};
use esker_types::info::{Durability, Medium};
use esker_types::{Error, ErrorKind, Result, check_label};
use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A pool to be made.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Its name, and that of its directory.
    pub label: String,
    /// Bytes it reserves, over all targets, indexes included.
    pub size_bytes: u64,
    /// Number of targets; by default one per core, 2 at least, 8 at most.
    pub targets: Option<u32>,
    /// What an acknowledged update survives; by default power loss on disks, processes in memory.
    pub durability: Option<Durability>,
    /// Keeps the index out of reach of stray pointers, at the price of slower commits.
    pub guarded: bool,
    /// Group whose members may use the pool, by name or number; by default only the owner may.
    pub group: Option<String>,
    /// Share of the pool the index begins with, in percent; by default 4.
    pub index_percent: Option<u32>,
    /// Bytes of a segment, a multiple of 4096; by default chosen by size.
    pub segment_bytes: Option<u64>,
    /// Keeps all data in huge pages, for pools in memory, however long the kernel takes to make them; by default those
    /// that take no longer than small ones. See [`crate::HugePages`].
    pub huge_pages: bool,
}

impl PoolSpec {
    /// A pool of this name and size, everything else by default.
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
        }
    }
}

/// Times a directory is begun that others may take for abandoned in its first moment.
const ATTEMPTS: u32 = 8;
/// What a pool may take longer to make for huge pages, unless all are to be huge.
const LONGER_MAX: Duration = Duration::from_millis(50);
/// Bytes reserved between two reports of progress.
const STEP: u64 = 256 << 20;

/// What the directory lies on.
///
/// # Errors
/// `NotSupported` for file systems shared with other machines.
fn medium_of(directory: &Path) -> Result<Medium> {
    let failed = |error| Error::io(format_args!("looking at {}", directory.display()), &error);
    let file = File::open(directory).map_err(failed)?;
    match sys::file_system(&file).map_err(failed)? {
        FileSystem::Memory => Ok(Medium::Memory),
        FileSystem::Local => Ok(Medium::Block),
        FileSystem::Network(sort) => Err(Error::new(
            ErrorKind::NotSupported,
            format!(
                "{} is on {sort}, which other machines share: a pool needs a local file system; use a \
                 `posix:` URL there",
                directory.display()
            ),
        )),
    }
}

impl Pool {
    /// Makes a pool in `directory`, reserving all its space; `progress` hears of bytes done and in all.
    ///
    /// # Errors
    /// `Exists` where there is one of this name; `NoSpace` where the file system is too full;
    /// `NotSupported` on a network file system; `Invalid` for a size that does not work.
    pub fn create(
        directory: &Path,
        spec: &PoolSpec,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Superblock> {
        check_label(&spec.label)?;
        fs::create_dir_all(directory)
            .map_err(|error| Error::io(format_args!("making {}", directory.display()), &error))?;
        let growing = can_grow(directory);
        let superblock = lay_out(spec, medium_of(directory)?, growing)?;
        let group = spec.group.as_deref().map(resolve_group).transpose()?;
        let path = directory.join(&spec.label);
        // Who asks for the same pool waits for it here, rather than be told that it is being made.
        let _alone = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
        esker_os::directory::finish_others(directory, POOL);
        remove_abandoned(&path)?;
        let pace = if spec.huge_pages { Pace::ANY } else { Pace::of(LONGER_MAX) };
        let builder = Builder { path: &path, superblock: &superblock, group, pace };
        let (draft, _locked) = builder.begin(directory)?;
        if let Err(error) = builder.build(draft, progress) {
            let _ = fs::remove_dir_all(&path);
            return Err(error);
        }
        Ok(superblock)
    }
}

fn resolve_group(name: &str) -> Result<u32> {
    let known = sys::group_id(name)
        .map_err(|error| Error::io(format_args!("looking for group `{name}`"), &error))?;
    let number = || name.parse().ok();
    known.or_else(number).ok_or_else(|| invalid(format!("there is no group `{name}`")))
}

fn make_directory(path: &Path, mode: u32, group: Option<u32>) -> Result<()> {
    let failed = |error| Error::io(format_args!("making {}", path.display()), &error);
    fs::DirBuilder::new().mode(0o700).create(path).map_err(failed)?;
    if group.is_some() {
        std::os::unix::fs::chown(path, None, group).map_err(failed)?;
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(path, permissions).map_err(failed)?;
    }
    Ok(())
}

static CREATING: Mutex<()> = Mutex::new(());

/// What becomes the superblock. Whoever makes the pool holds a lock on it, so that what was abandoned
/// half-made is told from what is being made.
const DRAFT: &str = "pool.new";

fn lock_draft(draft: &File, pool: &Path) -> Result<Own> {
    let failed = |error| Error::io(format_args!("locking {DRAFT} of {}", pool.display()), &error);
    let own = Own::new(draft, true).map_err(failed)?;
    if own.get().and_then(|draft| lock::set(draft, lock::Kind::Exclusive, 0)).map_err(failed)? {
        return Ok(own);
    }
    Err(Error::new(
        ErrorKind::Busy,
        format!("{} is being made by another process: wait for it", pool.display()),
    ))
}

/// Removes what a process left behind that was killed while it made a pool, or, in the first release, while
/// it destroyed one.
fn remove_abandoned(path: &Path) -> Result<()> {
    let failed = |error| Error::io(format_args!("removing {}", path.display()), &error);
    match esker_os::open_plain(&path.join(DRAFT), true) {
        _ if superblock::path(path).exists() => Ok(()),
        Ok(draft) => {
            let _locked = lock_draft(&draft, path)?;
            fs::remove_dir_all(path).map_err(failed)
        }
        Err(_) if is_rest_of_pool(path) => fs::remove_dir_all(path).map_err(failed),
        Err(_) => Ok(()),
    }
}

/// True for a directory with nothing in it but parts of a pool.
fn is_rest_of_pool(path: &Path) -> bool {
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

/// Removes the draft of a pool that nobody is making, in a directory that has not become one.
pub(super) fn discard_draft(directory: &Path) {
    let draft = directory.join(DRAFT);
    let locked =
        esker_os::open_plain(&draft, true).ok().and_then(|file| lock_draft(&file, directory).ok());
    if locked.is_some() {
        let _ = fs::remove_file(draft);
    }
}

fn not_reserved(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format_args!("reserving {}", path.display()), error)
}

struct Builder<'b> {
    path: &'b Path,
    superblock: &'b Superblock,
    group: Option<u32>,
    pace: Pace,
}

impl Builder<'_> {
    /// Makes the directory of the pool. Nobody sees it before its draft is locked: it has a hidden name.
    fn begin(&self, parent: &Path) -> Result<(File, Own)> {
        for _ in 1..ATTEMPTS {
            match self.try_begin(parent) {
                // Somebody took what was just begun for abandoned.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                other => return other,
            }
        }
        self.try_begin(parent)
    }

    fn try_begin(&self, parent: &Path) -> Result<(File, Own)> {
        let coming = esker_os::directory::coming(parent)?;
        make_directory(&coming, self.superblock.directory_permissions(), self.group)?;
        let begun = self.create(&coming.join(DRAFT)).and_then(|draft| {
            let locked = lock_draft(&draft, self.path)?;
            fs::rename(&coming, self.path).map_err(|error| self.not_made(&error))?;
            // Its name may have gone before it was locked.
            let named = self.path.join(DRAFT).metadata();
            let is_it = named.and_then(|named| Ok(named.ino() == draft.metadata()?.ino()));
            match is_it {
                Ok(true) => Ok((draft, locked)),
                _ => Err(ErrorKind::NotFound.into()),
            }
        });
        begun.inspect_err(|_| drop(fs::remove_dir_all(&coming)))
    }

    #[cold]
    fn not_made(&self, error: &std::io::Error) -> Error {
        use std::io::ErrorKind as K;
        match error.kind() {
            K::AlreadyExists | K::DirectoryNotEmpty | K::NotADirectory => {
                Error::new(ErrorKind::Exists, format!("{} exists", self.path.display()))
            }
            _ => Error::io(format_args!("making {}", self.path.display()), error),
        }
    }

    fn build(&self, draft: File, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let superblock = self.superblock;
        let total = superblock.reserved_bytes();
        self.check_space(total)?;
        let mut done = 0;
        let mut report = |bytes| {
            done += bytes;
            progress(done, total);
        };
        for number in 0..superblock.targets {
            let target = self.path.join(target::name(number));
            let mode = superblock.directory_permissions();
            make_directory(&target, mode, self.group)?;
            make_directory(&target.join(target::INDEX), mode, self.group)?;
            self.make_index(&target.join(target::INDEX), &mut report)?;
            self.make_data(target.join(data::NAME), &mut report)?;
        }
        self.reserve(self.path.join(control::NAME), control_bytes(superblock), &mut |_| {})?;
        // Who may change what is in the pool may lock it, which takes making files.
        let mode = superblock.directory_permissions_max();
        make_directory(&self.path.join(LOCKS), mode, self.group)?;
        self.write_superblock(draft)
    }

    fn check_space(&self, total: u64) -> Result<()> {
        let failed = |error| Error::io(format_args!("looking at {}", self.path.display()), &error);
        let free = File::open(self.path).and_then(|file| sys::free_space(&file)).map_err(failed)?;
        if free < total {
            let message =
                format!("{} has {free} bytes free, the pool needs {total}", self.path.display());
            return Err(Error::new(ErrorKind::NoSpace, message));
        }
        Ok(())
    }

    /// LMDB begins an index in an empty file only, so its space is reserved afterwards.
    fn make_index(&self, path: &Path, report: &mut dyn FnMut(u64)) -> Result<()> {
        let (superblock, mode) = (self.superblock, self.superblock.file_permissions());
        let (file, folder) = (self.create(&path.join(DATA))?, Folder::open(path)?);
        let bytes = superblock.index_file_bytes();
        if superblock.blocks == 0 {
            drop(Index::open(&folder, bytes, Mode::Synced, mode)?);
            return self.reserve_file(&path.join(DATA), bytes, report);
        }
        lending::make_blocks(&Index::open(&folder, bytes, Mode::Mapped, mode)?, &file, superblock)?;
        file.sync_all().map_err(|error| Error::io("syncing an index", &error))?;
        report(superblock.index_reserved_bytes());
        Ok(())
    }

    fn make_data(&self, path: PathBuf, report: &mut dyn FnMut(u64)) -> Result<()> {
        let superblock = self.superblock;
        let bytes = superblock.data_file_bytes();
        if superblock.medium != Medium::Memory {
            return self.reserve(path, bytes, report);
        }
        let file = self.create(&path)?;
        let reserved = huge::reserve_all(&file, bytes, &self.pace, report);
        reserved.map_err(|error| not_reserved(&path, &error))
    }

    fn create(&self, path: &Path) -> Result<File> {
        let failed = |error| Error::io(format_args!("making {}", path.display()), &error);
        let mode = self.superblock.file_permissions();
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(mode);
        let file = options.open(path).map_err(failed)?;
        file.set_permissions(fs::Permissions::from_mode(mode)).map_err(failed)?;
        Ok(file)
    }

    /// Makes a file and reserves its blocks, so that no later access can run out of space.
    fn reserve(&self, path: PathBuf, bytes: u64, report: &mut dyn FnMut(u64)) -> Result<()> {
        self.create(&path)?;
        self.reserve_file(&path, bytes, report)
    }

    fn reserve_file(&self, path: &Path, bytes: u64, report: &mut dyn FnMut(u64)) -> Result<()> {
        let failed = |error| not_reserved(path, &error);
        let file = File::options().write(true).open(path).map_err(failed)?;
        let mut done = 0;
        while done < bytes {
            let step = STEP.min(bytes - done);
            sys::reserve(&file, done, step).map_err(failed)?;
            done += step;
            report(step);
        }
        Ok(())
    }

    /// Makes the pool a pool: everything else is in place and, where that matters, on the medium.
    fn write_superblock(&self, mut file: File) -> Result<()> {
        let draft = self.path.join(DRAFT);
        let failed = |error| Error::io(format_args!("writing {}", draft.display()), &error);
        std::io::Write::write_all(&mut file, self.superblock.to_text().as_bytes())
            .map_err(failed)?;
        file.sync_all().map_err(failed)?;
        fs::rename(&draft, superblock::path(self.path)).map_err(failed)?;
        File::open(self.path).and_then(|directory| directory.sync_all()).map_err(failed)
    }
}
