//! `esker fs mkdir`, `rm`, `mv`, `ln`, `touch`, `chmod`: changes to a tree.
use super::each::Failures;
use super::mode::ModeChange;
use super::path::{FsPath, Mounts, NAMING, at, inside};
use super::umask;
use crate::output::Answer;
use clap::Args;
use dfs::{Create, Follow, Kind, Node, RenameMode, SetAttr, Time};
use esker::types::{Error, ErrorKind, Result};
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Create directories
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fs mkdir -p tank/home:/a/b

{NAMING}"))]
pub(crate) struct Mkdir {
    /// Directories to create
    #[arg(value_name = "PATH", required = true, value_parser = inside())]
    paths: Vec<FsPath>,
    /// Create parent directories too; an existing directory is not an error
    #[arg(long, short)]
    parents: bool,
    /// Mode bits in octal [default: 777 minus the umask]
    #[arg(long, short, value_name = "MODE", value_parser = super::mode::octal)]
    mode: Option<u32>,
}

impl Mkdir {
    pub(super) fn run(self) -> Result<Answer> {
        let mut mounts = Mounts::writing();
        let above = Create::with_mode(0o777 & !umask());
        let last = self.mode.map_or(above, Create::with_mode);
        for path in &self.paths {
            if self.parents {
                create_all(&mut mounts, path, &above, &last)?;
            } else {
                let (dir, name) = mounts.parent(path)?;
                dir.mkdir(&name, &last).map_err(|error| at(path, &error))?;
            }
        }
        flush_and_answer(&mounts, self.paths.len())
    }
}

/// Creates a directory with the options `last`, and its missing parents with `above`. An existing directory is left as
/// it is.
pub(super) fn create_all(
    mounts: &mut Mounts,
    path: &FsPath,
    above: &Create,
    last: &Create,
) -> Result<Node> {
    let fs = mounts.fs(path)?;
    let names: Vec<_> =
        path.path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    let mut dir = fs.root();
    for (number, name) in names.iter().enumerate() {
        let new = if number + 1 == names.len() { last } else { above };
        dir = enter(&dir, name, new).map_err(|error| at(path, &error))?;
    }
    match dir.kind() {
        Kind::Directory => Ok(dir),
        _ => Err(at(path, &Error::new(ErrorKind::Exists, "already exists and is not a directory"))),
    }
}

/// The directory `name` in `dir`, which is created if it does not exist.
fn enter(dir: &Node, name: &[u8], new: &Create) -> Result<Node> {
    let find = || dir.fs().resolve(dir, name, Follow::All);
    match find() {
        Err(error) if error.kind() == ErrorKind::NotFound => match dir.mkdir(name, new) {
            // Another process has just created it.
            Err(error) if error.kind() == ErrorKind::Exists => find(),
            made => made,
        },
        found => found,
    }
}

/// Remove files and symbolic links, and with -r, directories
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fs rm tank/home:/notes.txt
  esker fs rm -r tank/home:/data

{NAMING}"))]
pub(crate) struct Rm {
    /// Files, symbolic links or directories to remove
    #[arg(value_name = "PATH", required = true, value_parser = inside())]
    paths: Vec<FsPath>,
    /// Remove directories and their contents too
    #[arg(long, short, short_alias = 'R')]
    recursive: bool,
    /// Ignore paths that do not exist
    #[arg(long, short)]
    force: bool,
    /// Remove empty directories too
    #[arg(long, short)]
    dir: bool,
}

impl Rm {
    pub(super) fn run(self) -> Result<Answer> {
        let (mut mounts, mut removed) = (Mounts::writing(), 0);
        for path in &self.paths {
            let gone = mounts
                .parent(path)
                .and_then(|(dir, name)| self.remove(&dir, &name).map_err(|error| at(path, &error)));
            match gone {
                Err(error) if self.force && error.kind() == ErrorKind::NotFound => {}
                gone => removed += gone?,
            }
        }
        flush_and_answer(&mounts, removed as usize)
    }

    /// Removes an entry. Returns the number of entries that were removed.
    fn remove(&self, dir: &Node, name: &[u8]) -> Result<u64> {
        if self.recursive {
            return dir.remove_tree(name);
        }
        match dir.unlink(name) {
            Err(error) if error.kind() == ErrorKind::IsDirectory => match self.dir {
                true => dir.rmdir(name).map(|()| 1),
                false => Err(Error::new(
                    ErrorKind::IsDirectory,
                    "it is a directory: -r removes it and its contents, -d removes it if it is empty",
                )),
            },
            removed => removed.map(|()| 1),
        }
    }
}

/// Move or rename files and directories within a container
///
/// An existing file is replaced atomically. If DEST is a directory, or there are several SOURCEs, they move into it.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fs mv tank/home:/new tank/home:/old
  esker fs mv --exchange tank/home:/a tank/home:/b

{NAMING}"))]
pub(crate) struct Mv {
    /// Files or directories to move, then the destination
    #[arg(value_names = ["SOURCE", "DEST"], required = true, num_args = 2.., value_parser = inside())]
    paths: Vec<FsPath>,
    /// Do not replace existing files
    #[arg(long, short)]
    no_clobber: bool,
    /// Exchange SOURCE and DEST
    #[arg(long, conflicts_with = "no_clobber")]
    exchange: bool,
    /// Treat DEST as the new name, even if it is a directory
    #[arg(long, short = 'T')]
    no_target_directory: bool,
}

impl Mv {
    pub(super) fn run(self) -> Result<Answer> {
        let mut mounts = Mounts::writing();
        let Some((dest, sources)) = self.paths.split_last() else {
            return flush_and_answer(&mounts, 0);
        };
        let into = match self.no_target_directory || self.exchange {
            true => None,
            false => directory(&mut mounts, dest)?,
        };
        if into.is_none() && sources.len() > 1 {
            return Err(at(dest, &Error::new(ErrorKind::NotDirectory, "is not a directory")));
        }
        for source in sources {
            if (&source.pool, &source.container) != (&dest.pool, &dest.container) {
                return Err(at(
                    source,
                    &Error::new(
                        ErrorKind::NotSupported,
                        "DEST is in another container: copy with `esker fs cp -rp`, then remove SOURCE",
                    ),
                ));
            }
            let (dir, name) = mounts.parent(source)?;
            let (to, to_name) = match &into {
                Some(into) => (into.clone(), name.clone()),
                None => mounts.parent(dest)?,
            };
            dir.rename(&name, &to, &to_name, self.mode()).map_err(|error| at(source, &error))?;
        }
        flush_and_answer(&mounts, sources.len())
    }

    /// How an existing target is treated.
    fn mode(&self) -> RenameMode {
        match (self.no_clobber, self.exchange) {
            (true, _) => RenameMode::NoReplace,
            (_, true) => RenameMode::Exchange,
            _ => RenameMode::Replace,
        }
    }
}

/// The directory that a path names, if it is one.
pub(super) fn directory(mounts: &mut Mounts, path: &FsPath) -> Result<Option<Node>> {
    match mounts.node(path, Follow::All) {
        Ok(node) => Ok(Some(node).filter(|node| node.kind() == Kind::Directory)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Create a symbolic link
///
/// File systems in containers do not support hard links.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fs ln -s data/latest tank/home:/current

{NAMING}"))]
pub(crate) struct Ln {
    /// Create a symbolic link; required, because hard links are not supported
    #[arg(long, short)]
    symbolic: bool,
    /// Target of the link, stored as it is: relative to the directory of the link, or absolute
    #[arg(value_name = "TARGET")]
    target: OsString,
    /// Path of the link
    #[arg(value_name = "LINK", value_parser = inside())]
    link: FsPath,
    /// Replace an existing file or link
    #[arg(long, short)]
    force: bool,
}

impl Ln {
    pub(super) fn run(self) -> Result<Answer> {
        if !self.symbolic {
            let message = "hard links are not supported: -s creates a symbolic link";
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        let mut mounts = Mounts::writing();
        let (dir, name) = mounts.parent(&self.link)?;
        let made = match self.make(&dir, &name) {
            Err(error) if error.kind() == ErrorKind::Exists && self.force => {
                self.replace(&dir, &name)
            }
            made => made,
        };
        made.map_err(|error| at(&self.link, &error))?;
        flush_and_answer(&mounts, 1)
    }

    fn make(&self, dir: &Node, name: &[u8]) -> Result<()> {
        dir.symlink(name, self.target.as_bytes(), &Create::with_mode(0o777)).map(drop)
    }

    /// Makes the link under another name, and then renames it, so that the name always exists.
    fn replace(&self, dir: &Node, name: &[u8]) -> Result<()> {
        let mut number = 0;
        let unfinished = loop {
            let unfinished = format!(".esker-ln-{}-{number}", std::process::id()).into_bytes();
            match self.make(dir, &unfinished) {
                // Another process of this number, maybe on another machine, has made it.
                Err(error) if error.kind() == ErrorKind::Exists => number += 1,
                made => break made.map(|()| unfinished)?,
            }
        };
        dir.rename(&unfinished, dir, name, RenameMode::Replace).inspect_err(|_| {
            let _ = dir.unlink(&unfinished);
        })
    }
}

/// Create empty files, or set the modification time of existing ones to now
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fs touch tank/home:/done

{NAMING}"))]
pub(crate) struct Touch {
    /// Files or directories
    #[arg(value_name = "PATH", required = true, value_parser = inside())]
    paths: Vec<FsPath>,
    /// Do not create files
    #[arg(long, short = 'c')]
    no_create: bool,
}

impl Touch {
    pub(super) fn run(self) -> Result<Answer> {
        let mut mounts = Mounts::writing();
        for path in &self.paths {
            match mounts.node(path, Follow::All) {
                Ok(node) => {
                    let now = SetAttr { mtime: Some(Time::now()), ..SetAttr::default() };
                    node.set_attr(&now).map_err(|error| at(path, &error))?;
                }
                Err(error) if error.kind() == ErrorKind::NotFound && !self.no_create => {
                    let (dir, name) = mounts.parent(path)?;
                    let new = Create::with_mode(0o666 & !umask());
                    dir.create(&name, &new).map_err(|error| at(path, &error))?;
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        flush_and_answer(&mounts, self.paths.len())
    }
}

/// Change mode bits
///
/// Mode bits are stored and shown. On a mount, the kernel enforces them. `esker fs` does not, and `esker run` only asks
/// for the permission to execute a program: every user of the pool may use all files in it.
///
/// A directory keeps set-user-ID and set-group-ID bits that MODE does not name, as with chmod(1).
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fs chmod -R go-w tank/home:/data

{NAMING}"))]
pub(crate) struct Chmod {
    /// Mode as for chmod(1): 644, u+x, go-w, a=r, +X
    #[arg(value_name = "MODE", allow_hyphen_values = true)]
    mode: ModeChange,
    /// Files or directories
    #[arg(value_name = "PATH", required = true, value_parser = inside())]
    paths: Vec<FsPath>,
    /// Change directories recursively
    #[arg(long, short = 'R')]
    recursive: bool,
}

impl Chmod {
    pub(super) fn run(self) -> Result<Answer> {
        let (mut mounts, mut count) = (Mounts::writing(), 0);
        let mut failures = Failures::default();
        for path in &self.paths {
            let node = mounts.node(path, Follow::All)?;
            let mut walk = node.walk(if self.recursive { usize::MAX } else { 0 });
            while let Some(visit) = failures.next(path, &mut walk) {
                if visit.node.kind() != Kind::Symlink {
                    let done = failures.check(path, &visit, self.change(&visit.node));
                    count += usize::from(done.is_some());
                }
            }
        }
        Ok(flush_and_answer(&mounts, count)?.with_trouble(failures.trouble()))
    }

    /// Changes the mode bits of a file or directory.
    fn change(&self, node: &Node) -> Result<()> {
        let inode = node.inode();
        let mode = self.mode.apply(inode.mode, inode.kind == Kind::Directory, umask());
        node.set_attr(&SetAttr { mode: Some(mode), ..SetAttr::default() }).map(drop)
    }
}

/// Writes buffered changes, and answers.
fn flush_and_answer(mounts: &Mounts, count: usize) -> Result<Answer> {
    mounts.flush()?;
    Ok(Answer::new(json!({"count": count}), ""))
}
