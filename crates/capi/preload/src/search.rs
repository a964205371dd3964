//! The search for libraries, in the order of the loader, which itself sees no directory of the mount point.
use crate::answer::{Answer, Fail};
use crate::copies;
use crate::elf::Dynamic;
use crate::paths::{self, MountPath, plain};
use crate::{config, next};
use dfs::Follow;
use std::collections::HashSet;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A directory in which the loader searches.
#[derive(Clone)]
struct Folder {
    /// Its absolute path, as programs know it.
    path: Vec<u8>,
    /// True if it is relative to a copy: then the loader searches among the copies.
    has_copies: bool,
}

/// A library that was found in the mount point, by its path there.
struct Found {
    path: Vec<u8>,
    /// True if the loader finds its copy by itself.
    has_copies: bool,
}

/// Preparations before the loader can load a library.
#[derive(Default)]
pub(crate) struct Plan {
    /// Paths of the libraries that were added, so that each is handled once.
    seen: HashSet<Vec<u8>>,
    /// Copies of libraries to load first, because the loader would not find them.
    pub(crate) first: Vec<CString>,
    /// `LD_LIBRARY_PATH` of a program that will be started; `None` to load libraries into this process.
    of_program: Option<Vec<u8>>,
}

impl Plan {
    /// For a program that will be started with this `LD_LIBRARY_PATH`.
    pub(crate) fn for_program(library_path: Vec<u8>) -> Self {
        Self { of_program: Some(library_path), ..Self::default() }
    }

    /// Copies all libraries in the mount point that a program needs. `file` is the program in a form that can be read,
    /// `path` its path as programs know it. The loader finds no copies relative to `file`.
    pub(crate) fn add_program(&mut self, file: &Path, path: &[u8]) {
        let Some(dynamic) = Dynamic::read(file) else { return };
        let alone = |folder: Folder| Folder { has_copies: false, ..folder };
        let own: Vec<_> = own_rpath(&dynamic, path).into_iter().map(alone).collect();
        let folders = order(&dynamic, path, &own, self.library_path());
        let folders: Vec<_> = folders.into_iter().map(alone).collect();
        if folders.iter().any(Folder::is_ours) {
            self.add_all_needed(&dynamic, &folders, &own);
        }
    }

    /// The `LD_LIBRARY_PATH` that applies to the search.
    fn library_path(&self) -> &[u8] {
        self.of_program.as_deref().unwrap_or(&config::get().library_path)
    }

    /// Copies a library and all libraries that it needs, if they are in the mount point. Returns the path of the copy.
    ///
    /// # Errors
    /// Errors of [`copies::make`] for the library itself. The loader reports a needed library that cannot be copied.
    pub(crate) fn add(&mut self, path: &[u8]) -> Answer<PathBuf> {
        self.add_needed_by(path, &[])
    }

    /// Calls [`Plan::add`] for a library that inherits the search directories `above` (`DT_RPATH`) from those that need
    /// it.
    fn add_needed_by(&mut self, path: &[u8], above: &[Folder]) -> Answer<PathBuf> {
        let path = plain(path);
        let copy = copies::make(&path)?;
        if !self.seen.insert(path.clone()) {
            return Ok(copy);
        }
        let dynamic = Dynamic::read(&copy).unwrap_or_default();
        let own = own_rpath(&dynamic, &path);
        let handed_on = [&own, above].concat();
        let folders = order(&dynamic, &path, &handed_on, self.library_path());
        self.add_all_needed(&dynamic, &folders, &handed_on);
        Ok(copy)
    }

    /// Adds the libraries that a program or library needs, if they are found in the mount point. `folders` are
    /// searched; `handed_on` are the search directories that the found libraries inherit.
    fn add_all_needed(&mut self, dynamic: &Dynamic, folders: &[Folder], handed_on: &[Folder]) {
        for name in dynamic.needed.iter().filter(|name| !name.contains(&b'/')) {
            if let Some(found) = find(name, folders) {
                self.add_found(name, &found, handed_on);
            }
        }
    }

    /// Adds the library `name` that was found, with the ones that it needs. If the loader would not find its copy, the
    /// copy is loaded first.
    fn add_found(&mut self, name: &[u8], found: &Found, above: &[Folder]) {
        let Ok(copy) = self.add_needed_by(&found.path, above) else { return };
        if !found.has_copies && (self.of_program.is_some() || !next::is_loaded(name)) {
            self.first.extend(copies::c_string(&copy));
        }
    }
}

/// The path of a library that is named without a directory, if the first directory that has it is in the mount point.
/// `caller` is the path of the calling library, if it is in the mount point.
pub(crate) fn by_name(name: &[u8], caller: Option<&[u8]>) -> Option<Vec<u8>> {
    let dynamic =
        caller.and_then(|path| Dynamic::read(&copies::make(path).ok()?)).unwrap_or_default();
    let caller = caller.unwrap_or_default();
    let library_path = &config::get().library_path;
    let folders = order(&dynamic, caller, &own_rpath(&dynamic, caller), library_path);
    if !folders.iter().any(Folder::is_ours) || next::is_loaded(name) {
        return None;
    }
    find(name, &folders).map(|found| found.path)
}

/// The directories in which the loader searches for the libraries that the library at `path` needs. `handed_on` are its
/// own `DT_RPATH` and the inherited ones, which a `DT_RUNPATH` disables.
fn order(dynamic: &Dynamic, path: &[u8], handed_on: &[Folder], library_path: &[u8]) -> Vec<Folder> {
    let before = if dynamic.runpath.is_some() { &[] } else { handed_on };
    let after = dynamic.runpath.as_deref().map(|list| expand(list, path)).unwrap_or_default();
    [before, &expand(library_path, b""), &after].concat()
}

/// The directories of a library's `DT_RPATH`, which a `DT_RUNPATH` disables.
fn own_rpath(dynamic: &Dynamic, path: &[u8]) -> Vec<Folder> {
    let list = dynamic.rpath.as_deref().filter(|_| dynamic.runpath.is_none());
    list.map(|list| expand(list, path)).unwrap_or_default()
}

/// The directories of a list, where `$ORIGIN` is the directory of the library at `path`. Directories with other
/// variables are skipped: they are directories of the system.
fn expand(list: &[u8], path: &[u8]) -> Vec<Folder> {
    let origin = path.rsplitn(2, |byte| *byte == b'/').nth(1).unwrap_or_default();
    let folder = |entry: &[u8]| {
        let rest =
            [&b"$ORIGIN"[..], b"${ORIGIN}"].iter().find_map(|name| entry.strip_prefix(*name));
        let has_copies = rest.is_some();
        let path = rest.map_or_else(|| entry.to_vec(), |rest| [origin, rest].concat());
        (path.starts_with(b"/") && !path.contains(&b'$')).then_some(Folder { path, has_copies })
    };
    list.split(|byte| matches!(byte, b':' | b';')).filter_map(folder).collect()
}

impl Folder {
    fn is_ours(&self) -> bool {
        paths::is_ours(libc::AT_FDCWD, &self.path)
    }
}

/// The library of this name, if the first directory that has it is in the mount point.
fn find(name: &[u8], folders: &[Folder]) -> Option<Found> {
    for folder in folders {
        let path = plain(&[&folder.path, &b"/"[..], name].concat());
        let is_ours = folder.is_ours();
        if is_ours && exists_in_mount(&path) {
            return Some(Found { path, has_copies: folder.has_copies });
        }
        if is_ours {
            // The loader must not find the copy of a library that was removed.
            copies::remove(&path);
        }
        if !is_ours && Path::new(OsStr::from_bytes(&path)).exists() {
            return None;
        }
    }
    None
}

/// True if the path exists, in the mount or through a link out of it.
fn exists_in_mount(path: &[u8]) -> bool {
    match MountPath::new(libc::AT_FDCWD, path).and_then(|path| path.node(Follow::All)) {
        Ok(_) => true,
        Err(Fail::Outside(path)) => Path::new(OsStr::from_bytes(&path)).exists(),
        Err(Fail::Errno(_)) => false,
    }
}
