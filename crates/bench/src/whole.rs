//! Result files that appear only when they are complete.
use esker_types::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file that is written under a temporary name; [`WholeFile::finish`] gives it its final name. If it is dropped
/// before, it is removed. An existing pipe or device is written directly.
pub struct WholeFile {
    path: PathBuf,
    temporary: Option<PathBuf>,
    file: BufWriter<File>,
}

impl WholeFile {
    /// Creates the file `path`. An existing file of that name is kept until the new one is complete.
    ///
    /// # Errors
    /// If the directory does not exist or cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        let temporary = (!is_special(path)).then(|| temporary_of(path));
        let mut options = OpenOptions::new();
        options.write(true).create(temporary.is_some()).truncate(temporary.is_some());
        let file = options.open(temporary.as_deref().unwrap_or(path));
        let file = BufWriter::new(file.map_err(|error| failed(path, &error))?);
        Ok(Self { path: path.to_owned(), temporary, file })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// If the medium is full or fails.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| failed(&self.path, &error))
    }

    /// Syncs the data and gives the file its name.
    ///
    /// # Errors
    /// If the medium is full or fails; an existing file of this name is then unchanged.
    pub fn finish(mut self) -> Result<()> {
        self.named().map_err(|error| failed(&self.path, &error))
    }

    fn named(&mut self) -> std::io::Result<()> {
        self.file.flush()?;
        if let Some(temporary) = &self.temporary {
            self.file.get_ref().sync_data()?;
            std::fs::rename(temporary, &self.path)?;
            self.temporary = None;
        }
        Ok(())
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            let _ = std::fs::remove_file(temporary);
        }
    }
}

/// Writes a file.
///
/// # Errors
/// As [`WholeFile::create`] and [`WholeFile::finish`].
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write(bytes)?;
    file.finish()
}

/// Checks that a file of this name can be written.
///
/// # Errors
/// As [`WholeFile::create`].
pub fn check(path: &Path) -> Result<()> {
    WholeFile::create(path).map(drop)
}

fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|there| !there.is_file())
}

/// A name in the same directory, so that renaming is atomic, with the process id, so that it is unique.
fn temporary_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format!("writing {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("esker-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn what_is_not_finished_was_never_there() {
        let folder = folder("whole-dropped");
        let path = folder.join("a");
        write(&path, b"old").unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write(b"new").unwrap();
        drop(file);
        assert_eq!((std::fs::read(&path).unwrap(), names(&folder)), (b"old".to_vec(), 1));
        write(&path, b"new").unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names(&folder)), (b"new".to_vec(), 1));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn devices_stay_what_they_are_and_a_full_one_is_named() {
        write(Path::new("/dev/null"), b"gone").unwrap();
        assert!(is_special(Path::new("/dev/null")));
        let error = write(Path::new("/dev/full"), b"no room").unwrap_err();
        assert_eq!(error.kind(), esker_types::ErrorKind::NoSpace);
        assert!(error.message().contains("/dev/full"), "{error}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = write(Path::new("/no/such/file"), b"").unwrap_err();
        assert!(error.message().contains("writing /no/such/file"), "{error}");
    }
}
