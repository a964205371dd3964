//! The effect of a change on files, computed before anything is written.
use super::array::ArrayFiles;
use super::array_plan::{ArrayPlan, ArrayStep};
use super::container::{Container, PoolDirectory};
use super::files;
use super::form::{Kind, Object};
use super::general::{Dkeys, General};
use super::kv::KvDirectory;
use esker_backend::object::overlay::Overlay;
use esker_types::ops::{Write, WriteOp};
use esker_types::{Epoch, ObjectId, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// New content of files; `None` removes the file.
#[derive(Default)]
pub(super) struct NewFiles(BTreeMap<PathBuf, Option<Vec<u8>>>);

impl NewFiles {
    /// True if the file will exist after the commit of these changes.
    pub(super) fn has(&self, path: &Path) -> Result<bool> {
        match self.0.get(path) {
            Some(content) => Ok(content.is_some()),
            None => Ok(files::info(path)?.is_some()),
        }
    }

    /// The new content of a file: `None` if it does not change, `Some(None)` if it is removed.
    pub(super) fn get(&self, path: &Path) -> Option<Option<&[u8]>> {
        self.0.get(path).map(Option::as_deref)
    }

    /// Sets the content that a file will have; `None` removes the file.
    pub(super) fn set(&mut self, path: PathBuf, content: Option<Vec<u8>>) {
        self.0.insert(path, content);
    }

    /// Removes the files of a directory for whose names `is_key` is true. True if there were any.
    pub(super) fn remove_all(
        &mut self,
        directory: &Path,
        is_key: impl Fn(&str) -> bool,
    ) -> Result<bool> {
        let names = files::names_in(directory)?.into_iter().filter(|name| is_key(name));
        let stored = names.map(|name| directory.join(name));
        let new = self.0.keys().filter(|path| path.parent() == Some(directory)).cloned();
        let mut any = false;
        for path in stored.chain(new).collect::<BTreeSet<_>>() {
            any |= self.has(&path)?;
            self.set(path, None);
        }
        Ok(any)
    }
}

/// A step of a change.
pub(super) enum Step {
    /// Replaces a file.
    Place { path: PathBuf, content: Vec<u8> },
    /// Removes a file.
    Remove { path: PathBuf },
    /// Changes an Array.
    Array { oid: ObjectId, step: ArrayStep },
}

/// The effect of a change.
pub(super) struct Plan {
    pub(super) epoch: Epoch,
    pub(super) steps: Vec<Step>,
    /// Objects that are written.
    pub(super) written: BTreeSet<ObjectId>,
    /// Objects that are punched: their directories may become empty.
    pub(super) punched: Vec<ObjectId>,
}

impl Plan {
    /// Computes the effect of `writes`, in order: each sees those before it.
    ///
    /// # Errors
    /// The errors of the writes: then nothing has changed.
    pub(super) fn compute(
        directory: &PoolDirectory,
        container: &Container,
        writes: &[Write<'_>],
    ) -> Result<Self> {
        let object = |oid| Object::new(directory, container, oid);
        let mut dkeys = Dkeys::default();
        for write in writes.iter().filter(|write| Kind::from_oid(write.oid) == Kind::General) {
            dkeys.load(&General(object(write.oid)), &write.op)?;
        }
        let epoch = Epoch::after(dkeys.latest());
        let (mut files, mut arrays) = (NewFiles::default(), ArrayPlan::default());
        let mut overlay = Overlay::new(&dkeys.tree, epoch);
        for write in writes {
            match Kind::from_oid(write.oid) {
                Kind::General => overlay.write(write)?,
                Kind::Kv => KvDirectory(object(write.oid)).plan(&write.op, &mut files)?,
                Kind::Array => arrays.add(&ArrayFiles(object(write.oid)), &write.op)?,
            }
        }
        let changed = overlay.finish();
        dkeys.store(changed, epoch, &mut files)?;
        let punched = writes.iter().filter(|w| matches!(w.op, WriteOp::PunchObject { .. }));
        let punched = punched.map(|write| write.oid).collect();
        let written = writes.iter().map(|write| write.oid).collect();
        Ok(Self { epoch, steps: steps(files, arrays), written, punched })
    }
}

/// The steps of a commit: files are replaced first, then chunks of arrays are changed.
fn steps(files: NewFiles, arrays: ArrayPlan) -> Vec<Step> {
    let files = files.0.into_iter().map(|(path, content)| match content {
        Some(content) => Step::Place { path, content },
        None => Step::Remove { path },
    });
    files.chain(arrays.steps.into_iter().map(|(oid, step)| Step::Array { oid, step })).collect()
}
