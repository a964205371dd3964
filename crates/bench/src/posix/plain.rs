//! Files by system calls: on mounted file systems, and through the interception library.
use super::{FileSystem, OpenFile, Use};
use crate::errors::{Doing, ensure_valid};
use esker_types::Result;
use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A directory. Paths are built in one buffer, so that calls allocate nothing.
pub(super) struct Plain {
    folder: String,
    path: RefCell<String>,
}

impl Plain {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).doing(|| format!("creating {}", folder.display()))?;
        let text = folder.to_str().unwrap_or_default().to_owned();
        ensure_valid(!text.is_empty(), || {
            format!("{} is not UTF-8: choose another directory", folder.display())
        })?;
        Ok(Self { folder: text, path: RefCell::default() })
    }

    /// Calls a function with the full path. `doing` is for its error.
    fn with<T>(
        &self,
        doing: &str,
        path: &str,
        call: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<T> {
        let mut full = self.path.borrow_mut();
        full.clear();
        full.push_str(&self.folder);
        full.push('/');
        full.push_str(path);
        call(Path::new(full.as_str())).doing(|| format!("{doing} {full}"))
    }
}

impl FileSystem for Plain {
    fn make_dir(&self, path: &str) -> Result<()> {
        self.with("creating", path, |path| fs::create_dir(path))
    }

    fn remove_dir(&self, path: &str) -> Result<()> {
        self.with("removing", path, |path| fs::remove_dir(path))
    }

    fn open(&self, path: &str, used: Use) -> Result<Box<dyn OpenFile>> {
        let opened = self.with("opening", path, |path| match used {
            Use::Create => {
                OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
            }
            Use::Read => File::open(path),
        });
        Ok(Box::new(PlainFile { file: opened?, name: path.to_owned() }))
    }

    fn stat(&self, path: &str) -> Result<u64> {
        self.with("looking at", path, |path| fs::symlink_metadata(path)).map(|status| status.len())
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.with("removing", path, |path| fs::remove_file(path))
    }

    fn list(&self, path: &str) -> Result<u64> {
        let count =
            |path: &Path| fs::read_dir(path)?.try_fold(0, |count, entry| entry.map(|_| count + 1));
        self.with("listing", path, count)
    }
}

struct PlainFile {
    file: File,
    name: String,
}

impl OpenFile for PlainFile {
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.file.write_all_at(data, offset).doing(|| format!("writing {}", self.name))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buffer, offset).doing(|| format!("reading {}", self.name))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_all().doing(|| format!("syncing {}", self.name))
    }

    /// The standard library reports no errors of close.
    fn close(self: Box<Self>) -> Result<()> {
        drop(self.file);
        Ok(())
    }
}
