//! `esker fs cp`: copying files in, out and between containers.
use super::change::directory;
use super::path::{Either, FsPath, Mounts, NAMING, at, either, os};
use super::run::{CopyRun, last_name};
use super::umask;
use crate::args::JobsArg;
use crate::commands::files;
use crate::output::Answer;
use clap::Args;
use dfs::transfer::{self, Host, Inside, Options, Target, Tree};
use dfs::{Create, File, Follow, Kind, Node, Open};
use esker::types::{Error, ErrorKind, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Copy files within and between containers, and to and from the host
///
/// If DEST is a directory, or there are several SOURCEs, the copies go into it. SOURCE - is standard input. Existing
/// files are overwritten. For large trees, use `esker fs import` and `esker fs export`, which can be resumed.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fs cp notes.txt tank/home:/
  esker fs cp -a tank/home:/data ./data
  tar c dir | esker fs cp - tank/home:/dir.tar

{NAMING}"))]
pub(crate) struct Cp {
    /// Files or directories to copy, then the destination
    #[arg(value_names = ["SOURCE", "DEST"], required = true, num_args = 2.., value_parser = either())]
    paths: Vec<Either>,
    /// Copy directories recursively; symbolic links stay links
    #[arg(long, short, short_alias = 'R')]
    recursive: bool,
    /// Preserve modes, times, owners and extended attributes
    #[arg(long, short)]
    preserve: bool,
    /// The same as -r -p
    #[arg(long, short)]
    archive: bool,
    #[command(flatten)]
    jobs: JobsArg,
}

/// The file systems of a copy.
struct Opened {
    /// The one that holds DEST. A source in it is read from there, with the changes of this command.
    dest: Mounts,
    /// The others, for which permission to read is enough.
    sources: Mounts,
}

impl Opened {
    fn new() -> Self {
        Self { dest: Mounts::writing(), sources: Mounts::reading() }
    }

    /// The file systems from which a source is read. DEST must be open.
    fn of_source(&mut self, path: &FsPath) -> &mut Mounts {
        if self.dest.has(path) { &mut self.dest } else { &mut self.sources }
    }
}

impl Cp {
    pub(super) fn run(self) -> Result<Answer> {
        let (keep, mask) = (self.preserve || self.archive, umask());
        let workers = self.jobs.given().unwrap_or_default();
        let options = Options { workers, keep, mask, resume: false, verify: false };
        let (run, mut mounts) = (CopyRun::new("copying", options), Opened::new());
        let Some((dest, sources)) = self.paths.split_last() else { return Ok(run.quiet_answer()) };
        for source in sources {
            match dest {
                Either::Inside(dest) => {
                    self.copy_into_container(&run, &mut mounts, source, dest)?
                }
                Either::Host(dest) => {
                    self.copy_out_of_container(&run, &mut mounts, source, dest)?
                }
            }
        }
        mounts.dest.flush()?;
        Ok(run.quiet_answer())
    }

    /// True if there are several sources: then DEST must be a directory.
    fn is_into(&self) -> bool {
        self.paths.len() > 2
    }

    /// Copies into a container: into the directory `dest` if there is one, otherwise under the name `dest`.
    fn copy_into_container(
        &self,
        run: &CopyRun,
        mounts: &mut Opened,
        source: &Either,
        dest: &FsPath,
    ) -> Result<()> {
        let (dir, name) = match directory(&mut mounts.dest, dest)? {
            Some(dir) => (dir, None),
            None if self.is_into() => return Err(no_directory(&dest.shown(&dest.path))),
            None => mounts.dest.parent(dest).map(|(dir, name)| (dir, Some(name)))?,
        };
        match source {
            Either::Host(path) if path == Path::new("-") => {
                self.store_standard_input(run, &dir, name)
            }
            Either::Host(path) => {
                let node = followed(path, self.is_recursive());
                self.check(Host.meta(&node)?.kind, path)?;
                let name = name.or_else(|| last_name(path));
                run.copy(&Host, &node, &Inside, target(&dir, name.as_deref()))
            }
            Either::Inside(path) => {
                let node = self.source(mounts, path)?;
                let name = name.or_else(|| name_of(&node));
                refuse_itself(&node, &dir, name.as_deref()).map_err(|error| at(path, &error))?;
                run.copy(&Inside, &node, &Inside, target(&dir, name.as_deref()))
            }
        }
    }

    /// Copies to the host: into the directory `dest` if there is one, otherwise under the name `dest`.
    fn copy_out_of_container(
        &self,
        run: &CopyRun,
        mounts: &mut Opened,
        source: &Either,
        dest: &Path,
    ) -> Result<()> {
        let Either::Inside(path) = source else {
            let message =
                "neither SOURCE nor DEST is in a container: use cp(1) for files of the host";
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        let node = self.source(mounts, path)?;
        let (dir, name) = host_destination(dest, true)?;
        if name.is_some() && self.is_into() {
            return Err(no_directory(dest.as_os_str().as_bytes()));
        }
        let name = name.or_else(|| name_of(&node));
        run.copy(&Inside, &node, &Host, target(&dir, name.as_deref()))
    }

    fn is_recursive(&self) -> bool {
        self.recursive || self.archive
    }

    /// The source in a container. As in cp(1), a symbolic link is followed unless the copy is recursive.
    fn source(&self, mounts: &mut Opened, path: &FsPath) -> Result<Node> {
        let follow = if self.is_recursive() { Follow::AllButLast } else { Follow::All };
        let node = mounts.of_source(path).node(path, follow)?;
        let shown = os(path.shown(&path.path));
        self.check(Some(node.kind()), Path::new(&shown))?;
        Ok(node)
    }

    /// Refuses a directory if the copy is not recursive.
    fn check(&self, kind: Option<Kind>, path: &Path) -> Result<()> {
        match kind == Some(Kind::Directory) && !self.is_recursive() {
            false => Ok(()),
            true => Err(Error::new(
                ErrorKind::IsDirectory,
                format!("{} is a directory: -r copies it recursively", path.display()),
            )),
        }
    }

    /// Stores standard input as a file.
    fn store_standard_input(&self, run: &CopyRun, dir: &Node, name: Option<Vec<u8>>) -> Result<()> {
        let Some(name) = name else {
            let message = "standard input has no name: give the name of a file as DEST";
            return Err(Error::new(ErrorKind::IsDirectory, message));
        };
        let mut source = files::Source::open(Path::new("-"))?;
        let new = Create { open: true, ..Create::with_mode(0o666 & !run.options.mask) };
        let node = match dir.create(&name, &new)? {
            // The link is replaced, not followed, as by the copy of a file.
            link if link.kind() == Kind::Symlink => {
                dir.unlink(&name)?;
                dir.create(&name, &new)?
            }
            file => file,
        };
        let file = node.open(Open { truncate: true, ..Open::WRITE })?;
        write_all(&mut source, &file).and_then(|()| file.close()).map_err(|error| {
            // The beginning of a file must not read as a whole one.
            match Inside.abandon(dir, &name, &node) {
                Ok(()) => error,
                Err(_) => incomplete_file_error(&name, &error),
            }
        })
    }
}

/// Writes all bytes of `source` to `file`, from offset 0 on.
fn write_all(source: &mut files::Source, file: &File) -> Result<()> {
    let (mut buffer, mut offset) = (vec![0; transfer::BUFFER_BYTES], 0);
    loop {
        let count = source.fill(&mut buffer)?;
        file.write_at(offset, &buffer[..count])?;
        offset += count as u64;
        if count < buffer.len() {
            return Ok(());
        }
    }
}

#[cold]
fn incomplete_file_error(name: &[u8], error: &Error) -> Error {
    let message = format!(
        "{}; the file {} is incomplete: store it again, or remove it",
        error.message(),
        String::from_utf8_lossy(name)
    );
    Error::new(error.kind(), message)
}

/// The name for the copy of a node; `None` for the root of a file system.
fn name_of(node: &Node) -> Option<Vec<u8>> {
    node.parent().map(|_| node.name().to_vec())
}

/// The target of a copy with this name in `dir`. A directory such as `.` or `/` gives its copy no name, so its entries
/// are copied.
fn target<'a, N>(dir: &'a N, name: Option<&'a [u8]>) -> Target<'a, N> {
    name.map_or(Target::Into(dir), |name| Target::Name(dir, name))
}

/// Refuses to copy a file over itself, and a directory into itself.
fn refuse_itself(node: &Node, dir: &Node, name: Option<&[u8]>) -> Result<()> {
    let source = node.identity();
    if std::iter::successors(Some(dir), |dir| dir.parent()).any(|dir| dir.identity() == source) {
        return Err(Error::new(ErrorKind::Invalid, "a directory cannot be copied into itself"));
    }
    match name.map(|name| dir.lookup(name)) {
        Some(Ok(there)) if there.identity() == source => {
            Err(Error::new(ErrorKind::Invalid, "SOURCE and DEST are the same file"))
        }
        _ => Ok(()),
    }
}

/// A path of the host. A symbolic link at its end is followed, except with `as_it_is`, for a recursive copy.
fn followed(path: &Path, as_it_is: bool) -> Arc<Path> {
    match std::fs::canonicalize(path) {
        Ok(real) if !as_it_is => real.into(),
        _ => path.into(),
    }
}

/// The destination on the host: an existing directory, or a directory and a new name.
pub(super) fn host_destination(path: &Path, into: bool) -> Result<(Arc<Path>, Option<Vec<u8>>)> {
    if into && path.is_dir() {
        return Ok((path.into(), None));
    }
    let name = path.file_name().ok_or_else(|| no_directory(path.as_os_str().as_bytes()))?;
    let dir = path.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new("."));
    Ok((dir.into(), Some(name.as_bytes().to_vec())))
}

#[cold]
fn no_directory(path: &[u8]) -> Error {
    let message = format!("{} is not a directory", String::from_utf8_lossy(path));
    Error::new(ErrorKind::NotDirectory, message)
}
