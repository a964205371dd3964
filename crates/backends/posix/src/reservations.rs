//! Reservations of space and permissions for a commit, made before it is decided, so that applying it does not fail.
use super::array::{ATTRIBUTES, ArrayFiles, FIRST};
use super::array_plan::ArrayStep;
use super::chunk::{Chunk, Header, reserve};
use super::container::destroyed;
use super::files::{self, Files, io_error};
use esker_types::{ArrayAttributes, ErrorKind, Extent, ObjectId, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// The reservations of a commit, in the order of its steps.
pub(super) struct Reservations<'a> {
    files: &'a Files,
    /// Directories in which the commit may change names.
    directories: BTreeSet<PathBuf>,
    /// Chunks that do not exist yet, with the staged files that are their beginning.
    staged: BTreeMap<PathBuf, PathBuf>,
    /// Arrays whose files earlier steps may have removed.
    cleared: BTreeSet<ObjectId>,
}

impl<'a> Reservations<'a> {
    pub(super) fn new(files: &'a Files) -> Self {
        let (directories, staged, cleared) = Default::default();
        Self { files, directories, staged, cleared }
    }

    /// Makes sure that names in the directory of `path` can be changed, and that it exists.
    pub(super) fn ensure_directory_writable(&mut self, path: &Path) -> Result<()> {
        let directory = path.parent().unwrap_or(path);
        if !self.directories.contains(directory) {
            self.check_directory(directory)?;
            self.directories.insert(directory.to_owned());
        }
        Ok(())
    }

    /// Fails if names in the directory cannot be changed. A missing directory is made.
    fn check_directory(&self, directory: &Path) -> Result<()> {
        match esker_os::check_may_change(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.files.make_directory(directory).map_err(destroyed)
            }
            checked => checked.map_err(|error| io_error("changing names in", directory, &error)),
        }
    }

    /// Reserves what a step on an Array needs. If a file that it writes does not exist, `staged` is made, from which
    /// the step creates that file.
    pub(super) fn reserve_for_array(
        &mut self,
        array: &ArrayFiles<'_>,
        step: &ArrayStep,
        staged: PathBuf,
    ) -> Result<()> {
        match step {
            ArrayStep::Value(Some(value)) => {
                let size = ArrayAttributes::in_bytes(value).map_or(0, |shape| shape.cell_size);
                let header = Header { record_size: size, value: Some(value.clone()) };
                self.reserve_for_chunk(array, ATTRIBUTES, &header, &[], staged)
            }
            ArrayStep::Write { dkey, record_size, extents, .. } => {
                let header = Header { record_size: *record_size, value: None };
                self.reserve_for_chunk(array, *dkey, &header, extents, staged)
            }
            ArrayStep::Zero { dkey, extent } => self.check_writable(array, *dkey, &[*extent]),
            ArrayStep::Cut { dkey, .. } => {
                self.check_writable(array, *dkey, &[])?;
                self.clear(array, *dkey)
            }
            ArrayStep::Value(None) => {
                self.check_writable(array, ATTRIBUTES, &[])?;
                self.clear(array, ATTRIBUTES)
            }
            ArrayStep::Punch => {
                let further = array.directory();
                if files::info(&further)?.is_some() {
                    self.ensure_directory_writable(&further.join("chunk"))?;
                }
                self.clear(array, ATTRIBUTES)
            }
        }
    }

    /// Reserves space for records of a chunk. If it is missing, or may be by then, `staged` is made for it, once per
    /// commit.
    fn reserve_for_chunk(
        &mut self,
        array: &ArrayFiles<'_>,
        dkey: u64,
        header: &Header,
        extents: &[Extent],
        staged: PathBuf,
    ) -> Result<()> {
        let path = array.path_of(dkey);
        if let Some(staged) = self.staged.get(&path) {
            return reserve(staged, header.record_size, extents);
        }
        if !self.cleared.contains(&array.0.oid) {
            match reserve(&path, header.record_size, extents) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                outcome => return outcome,
            }
        }
        self.ensure_directory_writable(&path)?;
        Chunk::create_reserved(self.files, &staged, header, extents)?;
        self.staged.insert(path, staged);
        Ok(())
    }

    /// Makes sure that the file of a chunk can be written, if it exists. The space of `extents` is reserved.
    fn check_writable(&self, array: &ArrayFiles<'_>, dkey: u64, extents: &[Extent]) -> Result<()> {
        let size = match dkey {
            FIRST.. => array.state(dkey)?.record_size,
            ATTRIBUTES => 0,
        };
        match reserve(&array.path_of(dkey), size, extents) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    /// Records that a step may remove the files of an Array, so that space reserved in them does not count for later
    /// steps.
    fn clear(&mut self, array: &ArrayFiles<'_>, dkey: u64) -> Result<()> {
        self.ensure_directory_writable(&array.0.path)?;
        if dkey > FIRST && files::info(&array.directory())?.is_some() {
            self.ensure_directory_writable(&array.path_of(dkey))?;
        }
        let (own, further) = (array.0.path.clone(), array.directory());
        self.staged.retain(|path, _| *path != own && path.parent() != Some(&further));
        self.cleared.insert(array.0.oid);
        Ok(())
    }
}
