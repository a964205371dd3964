//! Whether a program can be reached at all.
use dfs::Unreached;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Warns where the library cannot be loaded into the program. Of those that it starts, the library warns.
pub(super) fn warn(program: &OsStr, mount: &Path) {
    let Some(path) = find(program).filter(|path| !path.starts_with(mount)) else { return };
    if let Some(why) = Unreached::of(&path) {
        let (name, mount) = (path.display(), mount.display());
        eprintln!("esker: warning: {name} {}: it does not see {mount}", why.cause());
    }
}

/// The file that is run, as a shell would find it.
fn find(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return Some(path.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| path.is_file())
}
