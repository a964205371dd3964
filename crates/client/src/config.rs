//! The configuration file: values that a user or a site sets once. Environment variables and options take precedence.
//!
//! The files are `/etc/esker/esker.conf` and then `esker/esker.conf` in the user's configuration directory
//! (`XDG_CONFIG_HOME`, `~/.config`), whose values replace those of the first. [`CONFIG_VARIABLE`] names another file to
//! read in place of both, or none if it is empty. A line is `KEY = VALUE`; lines that begin with `#` are comments:
//!
//! ```text
//! # Pools in memory first
//! pools = /dev/shm/me:~/pools
//! jobs = 4
//! ```
use esker_types::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Environment variable that names the only configuration file; if it is empty, none is read.
pub const CONFIG_VARIABLE: &str = "ESKER_CONFIG";

/// File of the site.
const SYSTEM_FILE: &str = "/etc/esker/esker.conf";

/// Keys, each with a description of its values.
pub const KEYS: [(&str, &str); 6] = [
    ("color", "auto, always or never"),
    ("fields", "POOL/CONT"),
    ("jobs", "a number from 1 on"),
    ("mount", "an absolute path"),
    ("pools", "absolute paths, or paths that begin with ~/, separated by colons"),
    ("progress", "on or off"),
];

/// The values of the configuration files.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Config {
    values: BTreeMap<String, String>,
}

/// The configuration of this process, which the first call reads.
///
/// # Errors
/// [`ErrorKind::Invalid`] if a file has an unknown key or an invalid value; errors of reading a file. The message names
/// the file and the line.
pub fn config() -> Result<&'static Config> {
    static CONFIG: OnceLock<Result<Config>> = OnceLock::new();
    CONFIG.get_or_init(Config::read).as_ref().map_err(Error::clone)
}

impl Config {
    /// The value of a key, if a file sets it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// The directories of `pools`; empty if no file sets it.
    #[must_use]
    pub fn pools(&self) -> Vec<PathBuf> {
        let paths = self.get("pools").map(|value| value.split(':')).into_iter().flatten();
        paths.filter_map(expand_home).collect()
    }

    /// Reads the configuration. If the variable names a file, only that file counts. Otherwise the file of the system
    /// is read, then that of the user, whose settings take precedence.
    fn read() -> Result<Self> {
        let mut config = Self::default();
        if let Some(named) = env::var_os(CONFIG_VARIABLE) {
            if !named.is_empty() {
                config.add_file(Path::new(&named), false)?;
            }
            return Ok(config);
        }
        config.add_file(Path::new(SYSTEM_FILE), true)?;
        user_file().map_or(Ok(()), |file| config.add_file(&file, true))?;
        Ok(config)
    }

    /// Adds the settings of `file`. It fails if the file is not readable, or is missing and must not be.
    fn add_file(&mut self, file: &Path, may_be_missing: bool) -> Result<()> {
        match std::fs::read_to_string(file) {
            Ok(text) => self.add(&text).map_err(|(line, message)| {
                Error::new(ErrorKind::Invalid, format!("{}:{line}: {message}", file.display()))
            }),
            Err(_) if may_be_missing && !exists(file) => Ok(()),
            Err(error) => {
                Err(Error::io(format_args!("reading the configuration {}", file.display()), &error))
            }
        }
    }

    /// Adds the lines of a file. The error has the number of the line.
    fn add(&mut self, text: &str) -> std::result::Result<(), (usize, String)> {
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, value) = parse(line).map_err(|message| (number, message))?;
            self.values.insert(key, value);
        }
        Ok(())
    }
}

/// False if the file does not exist, or is in a directory that this user may not enter, such as the home of another
/// user.
fn exists(file: &Path) -> bool {
    let kinds = [std::io::ErrorKind::NotFound, std::io::ErrorKind::PermissionDenied];
    file.symlink_metadata().map_or_else(|error| !kinds.contains(&error.kind()), |_| true)
}

/// Parses a line `KEY = VALUE`.
fn parse(line: &str) -> std::result::Result<(String, String), String> {
    let (key, value) = line
        .split_once('=')
        .map(|(key, value)| (key.trim(), value.trim()))
        .ok_or_else(|| format!("{line:?} is not a setting: write KEY = VALUE"))?;
    let Some((_, wanted)) = KEYS.iter().find(|(known, _)| *known == key) else {
        let known: Vec<_> = KEYS.iter().map(|(key, _)| *key).collect();
        return Err(format!("there is no setting {key:?}: the settings are {}", known.join(", ")));
    };
    match is_valid(key, value) {
        true => Ok((key.to_owned(), value.to_owned())),
        false => Err(format!("{key} = {value}: the value must be {wanted}")),
    }
}

/// Whether `value` has the form that the setting `key` requires.
fn is_valid(key: &str, value: &str) -> bool {
    match key {
        "color" => ["auto", "always", "never"].contains(&value),
        "fields" => {
            value.rsplit_once('/').is_some_and(|(pool, cont)| !pool.is_empty() && !cont.is_empty())
        }
        "jobs" => value.parse::<u16>().is_ok_and(|jobs| jobs > 0),
        "mount" => Path::new(value).is_absolute(),
        "pools" => {
            value.split(':').all(|path| path.starts_with("~/") || Path::new(path).is_absolute())
        }
        _ => ["on", "off"].contains(&value),
    }
}

/// The path, with `~/` replaced by the user's home directory; `None` if that is not known.
fn expand_home(path: &str) -> Option<PathBuf> {
    match path.strip_prefix("~/") {
        Some(rest) => env::var_os("HOME").map(|home| PathBuf::from(home).join(rest)),
        None => Some(PathBuf::from(path)),
    }
}

/// Returns the path of the user's configuration file, which may not exist. None without `HOME` and `XDG_CONFIG_HOME`.
fn user_file() -> Option<PathBuf> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let folder =
        env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    folder.or_else(home).map(|folder| folder.join("esker/esker.conf"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(texts: &[&str]) -> std::result::Result<Config, (usize, String)> {
        let mut config = Config::default();
        texts.iter().try_for_each(|text| config.add(text))?;
        Ok(config)
    }

    #[test]
    fn later_files_replace_values_of_earlier_ones() {
        let config = config(&["jobs = 4\ncolor=never\n", "# mine\n\njobs=2\n"]).unwrap();
        assert_eq!((config.get("jobs"), config.get("color")), (Some("2"), Some("never")));
        assert_eq!(config.get("mount"), None);
    }

    #[test]
    fn pools_are_paths() {
        let pools = config(&["pools = /dev/shm/me:/data/pools"]).unwrap().pools();
        assert_eq!(pools, [Path::new("/dev/shm/me"), Path::new("/data/pools")]);
        assert!(config(&[]).unwrap().pools().is_empty());
    }

    #[test]
    fn invalid_lines_are_refused_by_number_and_name() {
        for (text, word) in [
            ("jobs = 1\n\njobs", "KEY = VALUE"),
            ("\n\npool = /a", "no setting \"pool\""),
            ("#\n#\npools = relative", "absolute paths"),
            ("\n\njobs = 0", "from 1 on"),
            ("\n\ncolor = red", "never"),
            ("\n\nprogress = yes", "on or off"),
            ("\n\nmount = esker", "absolute path"),
            ("\n\nfields = tank", "POOL/CONT"),
        ] {
            let (line, message) = config(&[text]).unwrap_err();
            assert!(line == 3 && message.contains(word), "{text:?}: {line}: {message}");
        }
    }

    #[test]
    fn fuzz_configuration() {
        esker_testing::fuzz("config", &[b"jobs = 4\npools = /a:~/b\n".to_vec()], |bytes| {
            let _ = config(&[&String::from_utf8_lossy(bytes)]);
        });
    }
}
