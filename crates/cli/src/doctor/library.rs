//! The libdaos that programs find first.
use super::Finding;
use std::path::{Path, PathBuf};

const CHECK: &str = "libdaos";
const NAME: &str = "libdaos.so.2";
/// Size of the largest library that is searched, in bytes.
const LENGTH_MAX: u64 = 256 << 20;

pub(super) fn check() -> Vec<Finding> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let searched: Vec<_> = std::env::split_paths(&path).collect();
    vec![judge(first(&searched), installed())]
}

/// The first libdaos in these directories.
fn first(folders: &[PathBuf]) -> Option<PathBuf> {
    folders.iter().map(|folder| folder.join(NAME)).find(|path| path.exists())
}

/// The libdaos that was installed with this program.
fn installed() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let prefix = program.parent()?.parent()?;
    first(&["lib", "lib64"].map(|folder| prefix.join(folder)))
}

fn judge(found: Option<PathBuf>, installed: Option<PathBuf>) -> Finding {
    let use_it = |path: &Path| {
        let folder = path.parent().unwrap_or(path);
        format!("export LD_LIBRARY_PATH={}", folder.display())
    };
    match (found, installed) {
        (Some(found), _) if is_ours(&found) => {
            Finding::fine(CHECK, format!("{} is first in LD_LIBRARY_PATH", found.display()))
        }
        (Some(found), installed) => {
            let what =
                format!("{} is first in LD_LIBRARY_PATH, and is not Esker's", found.display());
            let remedy = installed.map_or_else(
                || "put the directory of Esker's libdaos first in LD_LIBRARY_PATH".to_owned(),
                |path| use_it(&path),
            );
            Finding::warning(CHECK, what, remedy)
        }
        (None, Some(installed)) => {
            let how = use_it(&installed);
            Finding::fine(CHECK, format!("{} is installed; to use it: {how}", installed.display()))
        }
        (None, None) => Finding::fine(
            CHECK,
            "not installed with this program; programs built for DAOS require it in LD_LIBRARY_PATH",
        ),
    }
}

/// True if the library is Esker's: it contains the name of our variable.
fn is_ours(path: &Path) -> bool {
    let short = path.metadata().is_ok_and(|status| status.len() <= LENGTH_MAX);
    let bytes = if short { std::fs::read(path).unwrap_or_default() } else { Vec::new() };
    let word = b"ESKER_POOLS";
    bytes.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn library_of_another_build_is_reported() {
        let folder = std::env::temp_dir().join(format!("esker-library-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(NAME);
        std::fs::write(&path, "something else").unwrap();
        let found = first(&["/no/such".into(), folder.clone()]);
        assert_eq!(found, Some(path.clone()));
        assert_eq!(judge(found.clone(), None).status, Status::Warning);
        std::fs::write(&path, "...ESKER_POOLS...").unwrap();
        assert_eq!(judge(found, None).status, Status::Fine);
        assert_eq!(judge(None, Some(path)).status, Status::Fine);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
