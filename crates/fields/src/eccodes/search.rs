//! The search for ecCodes.
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Environment variable that names the file of the library; if it is set, nothing else is tried.
pub const VARIABLE: &str = "ESKER_ECCODES";

/// File names that the loader of the system searches.
const NAMES: [&str; 3] = ["libeccodes.so.0", "libeccodes.so", "libeccodes.dylib"];

/// Variables that name a directory in which ecCodes or a whole environment is installed.
const PREFIXES: [&str; 5] =
    ["ECCODES_DIR", "ECCODES_HOME", "ECCODES_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"];

/// Library directories below a prefix.
const FOLDERS: [&str; 2] = ["lib", "lib64"];

/// Libraries of the Python package `eckitlib` that ecCodes in the package `eccodeslib` needs but cannot find itself.
const COMPANIONS: [&str; 5] = [
    "libeckit.so",
    "libeckit_codec.so",
    "libeckit_maths.so",
    "libeckit_spec.so",
    "libeckit_geo.so",
];

/// Library files to try, in this order: the file the user named, the file that the process has loaded, the files of
/// the active environment, the files of the system.
pub(crate) fn candidates() -> Vec<OsString> {
    let Some(named) = env::var_os(VARIABLE).filter(|file| !file.is_empty()) else {
        let prefixes = PREFIXES.iter().filter_map(env::var_os).map(PathBuf::from);
        let found = prefixes.flat_map(|prefix| below(&prefix));
        let found = loaded().into_iter().chain(found).map(PathBuf::into_os_string);
        return found.chain(NAMES.map(OsString::from)).collect();
    };
    vec![named]
}

/// The ecCodes file that other code in the process has loaded. If a second copy were loaded, calls between its parts
/// would reach the first.
fn loaded() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    file_in(&maps)
}

/// The ecCodes file among the mappings of a process (`/proc/self/maps`).
fn file_in(maps: &str) -> Option<PathBuf> {
    let files = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let is_wanted = |file: &&Path| {
        let name = file.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("libeccodes.so"))
    };
    files.filter(is_wanted).find(|file| file.is_file()).map(Path::to_path_buf)
}

/// The files of ecCodes below a prefix, a Python environment's package `eccodeslib` included.
fn below(prefix: &Path) -> Vec<PathBuf> {
    let own = FOLDERS.iter().map(|folder| prefix.join(folder));
    let packages = python_packages(prefix).into_iter().map(|package| package.join("eccodeslib"));
    let packed = packages.flat_map(|package| FOLDERS.map(|folder| package.join(folder)));
    let files = own.chain(packed).flat_map(|folder| NAMES.map(|name| folder.join(name)));
    files.filter(|file| file.is_file()).collect()
}

/// The directories of Python packages below a prefix.
fn python_packages(prefix: &Path) -> Vec<PathBuf> {
    let Ok(entries) = prefix.join("lib").read_dir() else { return Vec::new() };
    let pythons = entries.filter_map(|entry| Some(entry.ok()?.path()));
    pythons.map(|python| python.join("site-packages")).filter(|folder| folder.is_dir()).collect()
}

/// The libraries to load before `file`, if that is in a Python package.
pub(crate) fn companions(file: &Path) -> Vec<PathBuf> {
    let Some(packages) = file.ancestors().nth(3) else { return Vec::new() };
    let folders = FOLDERS.map(|folder| packages.join("eckitlib").join(folder));
    let files = folders.iter().flat_map(|folder| COMPANIONS.map(|name| folder.join(name)));
    files.filter(|file| file.is_file()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_the_process_is_found_in_its_memory() {
        let folder = env::temp_dir().join(format!("esker-loaded-{}", std::process::id()));
        let file = folder.join("libeccodes.so.0");
        let row = |name: &Path| format!("7f00-7f01 r-xp 00000000 08:01 7   {}\n", name.display());
        let other = row(&folder.join("libeccodes_memfs.so"));
        let maps = format!("7f00-7f01 rw-p 00000000 00:00 0\n{other}{}", row(&file));
        assert_eq!(file_in(&maps), None);
        fs::create_dir_all(&folder).unwrap();
        fs::write(&file, "").unwrap();
        let found = file_in(&maps);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((found, file_in(&other)), (Some(file), None));
    }
    use std::fs;

    #[test]
    fn a_python_environment_is_searched() {
        let prefix = env::temp_dir().join(format!("esker-eccodes-{}", std::process::id()));
        let folder = prefix.join("lib/python3.11/site-packages/eccodeslib/lib64");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("libeccodes.so"), "").unwrap();
        let found = below(&prefix);
        fs::remove_dir_all(&prefix).unwrap();
        assert_eq!(found, [folder.join("libeccodes.so")]);
        assert!(below(&prefix).is_empty());
    }
}
