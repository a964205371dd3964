//! Paths as Linux understands them: what a slash at the end means, what `.` and `..` may not be used
//! for, and how a file is made through a symbolic link.
use crate::namespace::fail;
use dfs::limits::LINKS_MAX;
use dfs::{Create, Follow, Kind, Node, RenameMode};
use esker::types::{ErrorKind, Result};

/// A path and the directory it starts at.
pub(crate) struct Place {
    pub from: Node,
    pub path: Vec<u8>,
}

/// The last part of a path.
struct Last {
    dir: Node,
    name: Vec<u8>,
    /// The path ends with a slash.
    slash: bool,
}

impl Place {
    /// The node that the path leads to.
    pub(crate) fn resolve(&self, follow: Follow) -> Result<Node> {
        self.from.fs().resolve(&self.from, &self.path, follow)
    }

    /// The directory above the last part, and that part.
    fn last(&self) -> Result<Last> {
        let (dir, name) = self.from.fs().resolve_parent(&self.from, &self.path)?;
        Ok(Last { dir, name: name.to_vec(), slash: self.path.ends_with(b"/") })
    }
}

impl Last {
    /// True if the last part names no entry.
    fn is_special(&self) -> bool {
        matches!(self.name.as_slice(), b"" | b"." | b"..")
    }

    /// The entry that the last part names; `None` if it does not exist.
    fn lookup(&self) -> Result<Option<Node>> {
        match self.dir.lookup(&self.name) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }
}

/// True if the flags of `open` ask for writing: the letters before the first `+` contain `w`. The words after it do not
/// count.
pub(crate) fn is_for_writing(flags: &str) -> bool {
    flags.split('+').next().is_some_and(|letters| letters.contains('w'))
}

/// The node that `open` finds or creates.
pub(crate) fn open(place: &Place, flags: &str, mode: u32) -> Result<Node> {
    let nofollow = flags.contains("+nofollow");
    if flags.contains("+creat") {
        return create(place, flags, mode, nofollow || flags.contains("+excl"));
    }
    let node = place.resolve(if nofollow { Follow::AllButLast } else { Follow::All })?;
    match node.kind() {
        Kind::Symlink => fail(ErrorKind::Loop),
        Kind::File if flags.contains("+dir") => fail(ErrorKind::NotDirectory),
        Kind::Directory if is_for_writing(flags) => fail(ErrorKind::IsDirectory),
        _ => Ok(node),
    }
}

/// The node that `open` with `O_CREAT` finds or creates. A symbolic link at the end is followed, unless `nofollow`.
fn create(place: &Place, flags: &str, mode: u32, nofollow: bool) -> Result<Node> {
    let exclusive = flags.contains("+excl");
    let mut place = Place { from: place.from.clone(), path: place.path.clone() };
    let new = Create { exclusive, ..Create::with_mode(mode) };
    for _ in 0..=LINKS_MAX {
        let fs = place.from.fs();
        if let Some(made) = fs.create_by_known_path(&place.from, &place.path, |_| new)? {
            return Ok(made);
        }
        let last = place.last()?;
        if last.is_special() {
            return fail(if exclusive { ErrorKind::Exists } else { ErrorKind::IsDirectory });
        }
        if last.slash {
            return fail(ErrorKind::IsDirectory);
        }
        let found = last.dir.create(&last.name, &new)?;
        if found.kind() != Kind::Symlink {
            return Ok(found);
        }
        if nofollow {
            return fail(ErrorKind::Loop);
        }
        place = Place { from: last.dir, path: found.read_link()? };
    }
    fail(ErrorKind::Loop)
}

/// `mkdir`, which accepts a slash at the end.
pub(crate) fn mkdir(place: &Place, mode: u32) -> Result<()> {
    let last = place.last()?;
    if last.is_special() {
        return fail(ErrorKind::Exists);
    }
    last.dir.mkdir(&last.name, &Create::with_mode(mode)).map(drop)
}

/// `symlink`: with a slash at the end, the error depends on whether the entry exists.
pub(crate) fn symlink(place: &Place, target: &[u8]) -> Result<()> {
    let last = place.last()?;
    if last.is_special() || last.slash && last.lookup()?.is_some() {
        return fail(ErrorKind::Exists);
    }
    if last.slash {
        return fail(ErrorKind::NotFound);
    }
    last.dir.symlink(&last.name, target, &Create::with_mode(0o777)).map(drop)
}

/// `rmdir`, with the errors of Linux for `.`, `..` and the root.
pub(crate) fn rmdir(place: &Place) -> Result<()> {
    let last = place.last()?;
    match last.name.as_slice() {
        b"" => fail(ErrorKind::Busy),
        b"." => fail(ErrorKind::Invalid),
        b".." => fail(ErrorKind::NotEmpty),
        name => last.dir.rmdir(name),
    }
}

/// `unlink`: with a slash at the end, the entry would have to be a directory.
pub(crate) fn unlink(place: &Place) -> Result<()> {
    let last = place.last()?;
    if last.is_special() {
        return fail(ErrorKind::IsDirectory);
    }
    if last.slash && last.lookup()?.is_some_and(|node| node.kind() != Kind::Directory) {
        return fail(ErrorKind::NotDirectory);
    }
    last.dir.unlink(&last.name)
}

/// `renameat2`: the flags in `how` are `replace`, `noreplace` or `exchange`.
pub(crate) fn rename(from: Result<Place>, to: Result<Place>, how: &str) -> Result<()> {
    let mode = match how {
        "noreplace" => RenameMode::NoReplace,
        "exchange" => RenameMode::Exchange,
        _ => RenameMode::Replace,
    };
    let (from, to) = (from?.last()?, to?.last()?);
    if from.is_special() {
        return fail(ErrorKind::Busy);
    }
    if to.is_special() {
        let taken = mode == RenameMode::NoReplace;
        return fail(if taken { ErrorKind::Exists } else { ErrorKind::Busy });
    }
    check_slashes(&from, &to, mode)?;
    from.dir.rename(&from.name, &to.dir, &to.name, mode)
}

/// A slash at the end asks for a directory.
fn check_slashes(from: &Last, to: &Last, mode: RenameMode) -> Result<()> {
    if !from.slash && !to.slash {
        return Ok(());
    }
    let is_directory = |node: &Node| node.kind() == Kind::Directory;
    let Some(source) = from.lookup()? else { return fail(ErrorKind::NotFound) };
    let target = to.lookup()?;
    let wrong = match (mode, target) {
        (RenameMode::NoReplace, Some(_)) => return fail(ErrorKind::Exists),
        (RenameMode::Exchange, None) => return fail(ErrorKind::NotFound),
        (RenameMode::Exchange, Some(target)) => {
            !is_directory(&target) && to.slash || !is_directory(&source) && from.slash
        }
        _ => !is_directory(&source),
    };
    if wrong { fail(ErrorKind::NotDirectory) } else { Ok(()) }
}
