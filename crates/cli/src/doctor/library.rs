//! The libdaos that programs find first.
use super::{Finding, loader};
use std::path::{Path, PathBuf};

const CHECK: &str = "libdaos";
const NAME: &str = "libdaos.so.2";
/// Size of the largest library that is searched, in bytes.
const LENGTH_MAX: u64 = 256 << 20;

/// Reports which `libdaos` the dynamic loader would find for a program.
pub(super) fn check() -> Vec<Finding> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let listed: Vec<_> = std::env::split_paths(&path).collect();
    vec![judge(first(&listed), loader::find(NAME), installed())]
}

/// Returns the path of the first `libdaos` in these directories, in their order.
fn first(folders: &[PathBuf]) -> Option<PathBuf> {
    folders.iter().map(|folder| folder.join(NAME)).find(|path| path.exists())
}

/// Returns the path of the libdaos in the installation of this program. None if there is none.
fn installed() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let prefix = program.parent()?.parent()?;
    first(&["lib", "lib64"].map(|folder| prefix.join(folder)))
}

/// Judges which libdaos programs get: `listed` is the first one in `LD_LIBRARY_PATH`, `default` the one that the loader
/// finds without that variable, `installed` the one of this installation.
fn judge(listed: Option<PathBuf>, default: Option<PathBuf>, installed: Option<PathBuf>) -> Finding {
    let place =
        if listed.is_some() { "is first in LD_LIBRARY_PATH" } else { "is found by the loader" };
    // If DAOS's own is the only one, programs that load it are as intended.
    let default = default.filter(|path| installed.is_some() || is_ours(path));
    match (listed.or(default), installed) {
        (Some(found), _) if is_ours(&found) => {
            Finding::fine(CHECK, format!("{} {place}", found.display()))
        }
        (Some(found), installed) => {
            let what = format!("{} {place}, and is not Esker's", found.display());
            let remedy = installed.map_or_else(
                || "put the directory of Esker's libdaos first in LD_LIBRARY_PATH".to_owned(),
                |path| export(&path),
            );
            Finding::warning(CHECK, what, remedy)
        }
        (None, Some(installed)) => {
            let how = export(&installed);
            Finding::fine(CHECK, format!("{} is installed; to use it: {how}", installed.display()))
        }
        (None, None) => Finding::fine(
            CHECK,
            "not installed with this program; programs built for DAOS require it in LD_LIBRARY_PATH",
        ),
    }
}

/// The command after which programs find this library first.
fn export(library: &Path) -> String {
    let folder = library.parent().unwrap_or(library);
    format!("export LD_LIBRARY_PATH={}", folder.display())
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

    /// A new directory with a libdaos that has these contents.
    fn library(name: &str, contents: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("esker-library-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(NAME), contents).unwrap();
        folder.join(NAME)
    }

    const OURS: &str = "...ESKER_POOLS...";

    #[test]
    fn library_of_another_build_is_reported() {
        let (ours, foreign) = (library("ours", OURS), library("foreign", "something else"));
        let folder = foreign.parent().unwrap().to_owned();
        assert_eq!(first(&["/no/such".into(), folder]), Some(foreign.clone()));
        let status = |listed: &PathBuf, default: Option<&PathBuf>| {
            judge(Some(listed.clone()), default.cloned(), None).status
        };
        assert_eq!(status(&foreign, Some(&ours)), Status::Warning);
        assert_eq!(status(&ours, Some(&foreign)), Status::Fine);
        assert_eq!(status(&ours, None), Status::Fine);
        for path in [ours, foreign] {
            std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        }
    }

    #[test]
    fn variable_is_advised_only_if_the_loader_finds_no_library_of_ours() {
        let (ours, foreign) = (library("found", OURS), library("other", "something else"));
        let export = export(&ours);
        let found = judge(None, Some(ours.clone()), Some(ours.clone()));
        assert_eq!((found.status, found.remedy), (Status::Fine, None));
        assert!(!found.what.contains("LD_LIBRARY_PATH"), "{}", found.what);
        let hidden = judge(None, Some(foreign.clone()), Some(ours.clone()));
        assert_eq!((hidden.status, hidden.remedy), (Status::Warning, Some(export.clone())));
        assert_eq!(judge(None, Some(foreign.clone()), None).status, Status::Fine);
        let unused = judge(None, None, Some(ours.clone()));
        assert!(unused.what.contains(&export), "{}", unused.what);
        for path in [ours, foreign] {
            std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        }
    }
}
