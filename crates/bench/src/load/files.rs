//! Plain files for comparison: one per operation, in a directory of the process.
use super::{Load, missing_data_error, wrong_length};
use crate::errors::{Doing, ensure};
use crate::job::Slot;
use esker_types::{ErrorKind, Result};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The location of plain files: `files:/path`, with `?fsync=on` to sync each before it is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesUrl {
    /// The folder.
    pub folder: PathBuf,
    /// Each file is synced.
    pub fsync: bool,
}

impl FilesUrl {
    /// Parses a URL; none for another scheme.
    pub fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("files:")?;
        let (path, fsync) = match rest.strip_suffix("?fsync=on") {
            Some(path) => (path, true),
            None => (rest.strip_suffix("?fsync=off").unwrap_or(rest), false),
        };
        Some(Self { folder: PathBuf::from(path), fsync })
    }
}

/// Files named by their slots.
pub(crate) struct Files {
    folder: PathBuf,
    fsync: bool,
}

impl Files {
    /// Files in the directory `container` of `url`. Creates a directory in it for each of `procs` processes, unless it
    /// exists.
    pub(crate) fn new(url: &FilesUrl, container: &str, procs: u32) -> Result<Self> {
        let folder = url.folder.join(container);
        for rank in 0..procs {
            let own = folder.join(rank.to_string());
            std::fs::create_dir_all(&own).doing(|| format!("creating {}", own.display()))?;
        }
        Ok(Self { folder, fsync: url.fsync })
    }

    fn path(&self, slot: Slot) -> PathBuf {
        let key = slot.key();
        self.folder.join(slot.rank.to_string()).join(String::from_utf8_lossy(&key).as_ref())
    }
}

impl Load for Files {
    fn write(&mut self, slot: Slot, block: &[u8]) -> Result<()> {
        let path = self.path(slot);
        let written = OpenOptions::new().write(true).create(true).truncate(true).open(&path);
        let written = written.and_then(|mut file| {
            file.write_all(block)?;
            if self.fsync { file.sync_data() } else { Ok(()) }
        });
        written.doing(|| format!("writing {}", path.display()))
    }

    fn read(&mut self, slot: Slot, buffer: &mut [u8]) -> Result<()> {
        let path = self.path(slot);
        let file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(missing_data_error(slot));
            }
            file => file.doing(|| format!("opening {}", path.display()))?,
        };
        match file.read_exact_at(buffer, 0) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(wrong_length(slot, file.metadata().map_or(0, |status| status.len())))
            }
            read => read.doing(|| format!("reading {}", path.display())),
        }
    }

    fn remove(&mut self, slot: Slot) -> Result<()> {
        let path = self.path(slot);
        std::fs::remove_file(&path).doing(|| format!("removing {}", path.display()))
    }
}

/// Creates a container: a directory below that of the URL.
pub fn create_container(url: &FilesUrl, container: &str) -> Result<()> {
    let folder = url.folder.join(container);
    std::fs::create_dir(&folder).doing(|| format!("creating {}", folder.display()))
}

/// Removes a container with all files in it.
pub fn destroy_container(url: &FilesUrl, container: &str) -> Result<()> {
    let folder = url.folder.join(container);
    std::fs::remove_dir_all(&folder).doing(|| format!("removing {}", folder.display()))
}

/// Checks that the directory exists.
pub fn check(url: &FilesUrl) -> Result<()> {
    let folder = url.folder.display();
    ensure(url.folder.is_dir(), ErrorKind::NotFound, || {
        format!("{folder} is not a directory: create it, or name another one")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_read_and_removed() {
        let folder = std::env::temp_dir().join(format!("esker-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let url = FilesUrl::parse(&format!("files:{}?fsync=on", folder.display())).unwrap();
        assert!(url.fsync);
        create_container(&url, "c").unwrap();
        let mut files = Files::new(&url, "c", 2).unwrap();
        let slot = Slot { rank: 1, round: 1, op: 3 };
        assert_eq!(files.read(slot, &mut [0; 3]).unwrap_err().kind(), ErrorKind::NotFound);
        files.write(slot, b"abc").unwrap();
        let mut read = [0; 3];
        files.read(slot, &mut read).unwrap();
        assert_eq!(&read, b"abc");
        assert_eq!(files.read(slot, &mut [0; 4]).unwrap_err().kind(), ErrorKind::Corrupt);
        files.remove(slot).unwrap();
        assert_eq!(files.read(slot, &mut read).unwrap_err().kind(), ErrorKind::NotFound);
        destroy_container(&url, "c").unwrap();
        std::fs::remove_dir(&folder).unwrap();
        assert_eq!(check(&url).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn urls_name_a_folder_and_whether_files_are_synced() {
        let url = |fsync| Some(FilesUrl { folder: "/a".into(), fsync });
        assert_eq!(FilesUrl::parse("files:/a"), url(false));
        assert_eq!(FilesUrl::parse("files:/a?fsync=off"), url(false));
        assert_eq!(FilesUrl::parse("files:/a?fsync=on"), url(true));
        assert_eq!(FilesUrl::parse("esker:/a"), None);
    }
}
