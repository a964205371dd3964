//! Paths in containers, as the command line names them.
use crate::open;
use clap::builder::{OsStringValueParser, TypedValueParser};
use dfs::{Dfs, Follow, MountOptions, Node};
use esker::types::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The forms of PATH: the end of the help of commands that take one.
pub(super) const NAMING: &str = "\
A PATH is POOL/CONT:/path, daos://POOL/CONT/path or esker://POOL/CONT/path. POOL/CONT: is the root directory. POOL is \
a label, a UUID or a URL: esker:/path/to/pool/CONT:/path, rados:CEPH_POOL/CONT?conf=FILE:/path. If a command takes \
paths of the host as well, a path of the host is one that begins with / or ., or that has no colon before a slash.";

/// A path in the file system of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FsPath {
    pub(super) pool: String,
    pub(super) container: String,
    /// The path from the root, with a slash at its beginning.
    pub(super) path: Vec<u8>,
}

/// A path in a container, or a path of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Either {
    Inside(FsPath),
    Host(PathBuf),
}

/// Value parser for a path in a container. `POOL/CONT` is its root.
pub(super) fn inside() -> impl TypedValueParser<Value = FsPath> {
    OsStringValueParser::new().try_map(|text| FsPath::parse(&text).ok_or_else(|| refused(&text)))
}

/// Value parser for a path in a container, or a path of the host.
pub(super) fn either() -> impl TypedValueParser<Value = Either> {
    OsStringValueParser::new().map(|text| match (is_host(&text), FsPath::parse_full(&text)) {
        (false, Some(path)) => Either::Inside(path),
        _ => Either::Host(text.into()),
    })
}

fn is_host(text: &OsStr) -> bool {
    matches!(text.as_bytes().first(), Some(b'/' | b'.') | None)
}

fn refused(text: &OsStr) -> String {
    format!("{text:?} is not a path in a container: write POOL/CONT:/path or daos://POOL/CONT/path")
}

impl FsPath {
    /// Reads a path; `POOL/CONT` is a root as well.
    pub(super) fn parse(text: &OsStr) -> Option<Self> {
        // Without a scheme, the pool is a label or a UUID. The error for a path to it names the URL.
        let names_pool = |path: &Self| match path.pool.split_once(':') {
            Some((_, rest)) => !rest.is_empty(),
            None => path.pool.starts_with('/') || !path.pool.contains('/'),
        };
        let whole = || Self::from_names(text.as_bytes(), b"/").filter(names_pool);
        let is_url = text.as_bytes().starts_with(b"daos://");
        Self::parse_full(text).or_else(|| whole().filter(|_| !is_url))
    }

    /// Parses a path in a container. Its colon or scheme distinguishes it from a path of the host.
    pub(super) fn parse_full(text: &OsStr) -> Option<Self> {
        let bytes = text.as_bytes();
        // Python writes `esker://POOL/CONT/PATH`.
        let of_python = bytes.strip_prefix(b"esker://").filter(|rest| !rest.starts_with(b"/"));
        let of_python = of_python.filter(|rest| !rest.contains(&b':'));
        if let Some(rest) = bytes.strip_prefix(b"daos://").or(of_python) {
            let mut parts = rest.splitn(3, |byte| *byte == b'/');
            let (pool, container) = (parts.next()?, parts.next()?);
            let path = [b"/", parts.next().unwrap_or_default()].concat();
            return Self::from_names(&[pool, container].join(&b'/'), &path);
        }
        // The colon of a URL's scheme comes before the path of the pool.
        let scheme =
            bytes.iter().position(|byte| *byte == b':').filter(|at| is_scheme(&bytes[..*at]));
        let from = scheme.map_or(0, |at| at + 1);
        let colon = from
            + bytes[from..].windows(2).position(|pair| pair == b":/").or_else(|| {
                (bytes.len() > from && bytes.ends_with(b":")).then(|| bytes.len() - 1 - from)
            })?;
        let path = &bytes[colon + 1..];
        Self::from_names(&bytes[..colon], if path.is_empty() { b"/" } else { path })
    }

    /// The path of a name `POOL/CONT`, or `None` if `names` is not one.
    fn from_names(names: &[u8], path: &[u8]) -> Option<Self> {
        let names = std::str::from_utf8(names).ok()?;
        let (pool, container) = open::split(names).ok()?;
        let (pool, container) = (pool.into_owned(), container.to_owned());
        Some(Self { pool, container, path: path.to_vec() })
    }

    /// The pool and container of its file system.
    fn file_system(&self) -> (String, String) {
        (self.pool.clone(), self.container.clone())
    }

    /// Another path in the same container, as the command line writes it.
    pub(super) fn shown(&self, path: &[u8]) -> Vec<u8> {
        [self.pool.as_bytes(), b"/", self.container.as_bytes(), b":", path].concat()
    }
}

fn is_scheme(text: &[u8]) -> bool {
    matches!(text, b"esker" | b"posix" | b"rados" | b"daos" | b"memory")
}

/// The file systems that a command has opened, each once.
pub(super) struct Mounts {
    read_only: bool,
    mounted: HashMap<(String, String), Dfs>,
}

impl Mounts {
    /// Opens file systems for reading.
    pub(super) fn reading() -> Self {
        Self { read_only: true, mounted: HashMap::new() }
    }

    /// Opens file systems for reading and writing.
    pub(super) fn writing() -> Self {
        Self { read_only: false, mounted: HashMap::new() }
    }

    /// True if the file system that holds a path is open.
    pub(super) fn has(&self, path: &FsPath) -> bool {
        self.mounted.contains_key(&path.file_system())
    }

    /// The file system that holds a path.
    pub(super) fn fs(&mut self, path: &FsPath) -> Result<Dfs> {
        let key = path.file_system();
        if let Some(fs) = self.mounted.get(&key) {
            return Ok(fs.clone());
        }
        let options = MountOptions { read_only: self.read_only, ..MountOptions::default() };
        let fs = Dfs::open(&path.pool, &path.container, options)?;
        self.mounted.insert(key, fs.clone());
        Ok(fs)
    }

    /// The entry that a path names.
    pub(super) fn node(&mut self, path: &FsPath, follow: Follow) -> Result<Node> {
        let fs = self.fs(path)?;
        fs.resolve(&fs.root(), &path.path, follow).map_err(|error| at(path, &error))
    }

    /// The directory of a path's last name, and that name.
    pub(super) fn parent(&mut self, path: &FsPath) -> Result<(Node, Vec<u8>)> {
        let fs = self.fs(path)?;
        let (dir, name) =
            fs.resolve_parent(&fs.root(), &path.path).map_err(|error| at(path, &error))?;
        match name {
            b"" | b"." | b".." => Err(at(
                path,
                &Error::new(
                    ErrorKind::Invalid,
                    "the path must end with the name of a file or directory",
                ),
            )),
            _ => Ok((dir, name.to_vec())),
        }
    }

    /// Writes buffered changes of all file systems.
    pub(super) fn flush(&self) -> Result<()> {
        self.mounted.values().try_for_each(Dfs::flush)
    }
}

/// The error, with the path as the user wrote it. A message that begins with the path only gets the file system before it.
pub(super) fn at(path: &FsPath, error: &Error) -> Error {
    let (own, message) = (String::from_utf8_lossy(&path.path), error.message());
    let names_path = message.strip_prefix(own.as_ref()).is_some_and(|rest| rest.starts_with(' '));
    let shown = path.shown(if names_path { b"" } else { &path.path });
    let separator = if names_path { "" } else { ": " };
    let message = format!("{}{separator}{message}", String::from_utf8_lossy(&shown));
    Error::new(error.kind(), message)
}

/// Bytes as a path of the host.
pub(super) fn os(bytes: Vec<u8>) -> OsString {
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, String, String)> {
        let path = FsPath::parse(OsStr::new(text))?;
        Some((path.pool, path.container, String::from_utf8(path.path).unwrap()))
    }

    #[test]
    fn paths_have_a_pool_a_container_and_the_rest() {
        for (text, pool, container, path) in [
            ("tank/run1:/a/b", "tank", "run1", "/a/b"),
            ("tank/run1:/a:/b", "tank", "run1", "/a:/b"),
            ("tank/run1:", "tank", "run1", "/"),
            ("tank/run1", "tank", "run1", "/"),
            ("tank/a:b:/c", "tank", "a:b", "/c"),
            ("esker:/dev/shm/tank/run1:/a", "esker:/dev/shm/tank", "run1", "/a"),
            ("esker:/dev/shm/tank/run1:", "esker:/dev/shm/tank", "run1", "/"),
            ("rados:data/run1:/a", "rados:data", "run1", "/a"),
            ("daos:prod/run1:/a", "daos:prod", "run1", "/a"),
            ("rados:data/run1?conf=/etc/c:/a", "rados:data?conf=/etc/c", "run1", "/a"),
            ("rados:data?conf=/etc/c/run1:/a", "rados:data?conf=/etc/c", "run1", "/a"),
            ("memory:x/run1:/a", "memory:x", "run1", "/a"),
            ("daos://tank/run1/a/b", "tank", "run1", "/a/b"),
            ("esker://tank/run1/a/b", "tank", "run1", "/a/b"),
            ("daos://tank/run1", "tank", "run1", "/"),
        ] {
            let wanted = Some((pool.to_owned(), container.to_owned(), path.to_owned()));
            assert_eq!(parsed(text), wanted, "{text}");
        }
        for text in ["", "tank", "tank:", "/", "tank/:/a", "daos://tank", ":/a", "tank/run1/a"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn host_paths_are_recognized() {
        let parse = |text: &str| {
            let command =
                clap::Command::new("test").arg(clap::Arg::new("path").value_parser(either()));
            let matches = command.get_matches_from(["test", text]);
            matches.get_one::<Either>("path").cloned().unwrap()
        };
        for text in ["/tank/run1:/a", "./tank/run1:/a", "file", "dir/file", "a:b"] {
            assert_eq!(parse(text), Either::Host(text.into()), "{text}");
        }
        for text in ["tank/run1:/a", "tank/run1:", "daos://tank/run1"] {
            assert!(matches!(parse(text), Either::Inside(_)), "{text}");
        }
    }
}
