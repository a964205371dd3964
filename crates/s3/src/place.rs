//! Maps keys to paths of files.
use crate::fault::{Fault, Outcome};
use crate::limits::KEY_BYTES_MAX;
use dfs::limits::NAME_MAX;
use s3s::S3ErrorCode;

/// The hidden directory in the root of a bucket, for unfinished puts and uploads. No key leads to it.
pub const HIDDEN: &str = ".esker-s3";

/// The key of an object, and thus its path: each part of the key between slashes is a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) key: String,
    /// The key ends with a slash, so its object is a directory.
    pub(crate) is_directory: bool,
}

impl Place {
    /// The place of the object of `key` in the file system of its bucket.
    ///
    /// # Errors
    /// A reason if no file can have this key.
    pub(crate) fn parse(key: &str) -> Result<Self, String> {
        if key.len() > KEY_BYTES_MAX {
            return Err(format!("a key has at most {KEY_BYTES_MAX} bytes (KEY_BYTES_MAX)"));
        }
        let is_directory = key.ends_with('/');
        let path = key.strip_suffix('/').unwrap_or(key);
        for name in path.split('/') {
            check_name(name)?;
        }
        if is_hidden(path) {
            return Err(format!("keys below {HIDDEN} are reserved for unfinished puts"));
        }
        Ok(Self { key: key.to_owned(), is_directory })
    }

    /// The location of a key for a new object. A key that cannot be a path is refused with `InvalidArgument` or
    /// `KeyTooLongError`.
    pub(crate) fn new(key: &str) -> Outcome<Self> {
        let code = if key.len() > KEY_BYTES_MAX {
            S3ErrorCode::KeyTooLongError
        } else {
            S3ErrorCode::InvalidArgument
        };
        let why = |why| format!("{key:?} cannot be a key here, as keys are paths of files: {why}");
        Self::parse(key).map_err(|reason| Fault::new(code, why(reason)))
    }

    /// The location of a key whose object may exist. For a key that cannot be a path, `NoSuchKey`.
    pub(crate) fn existing(key: &str) -> Outcome<Self> {
        let missing =
            |_| Fault::new(S3ErrorCode::NoSuchKey, format!("object {key:?} does not exist"));
        Self::parse(key).map_err(missing)
    }

    /// Path of the directory that contains the object's file, from the root of the bucket.
    pub(crate) fn above(&self) -> &[u8] {
        self.path().rsplit_once('/').map_or(&b"/"[..], |(above, _)| above.as_bytes())
    }

    /// Names of the directories from the root to the object's file, without the name of the file.
    pub(crate) fn directories(&self) -> Vec<&[u8]> {
        let mut names: Vec<_> = self.path().split('/').map(str::as_bytes).collect();
        names.pop();
        names
    }

    /// The name of the file in its directory.
    pub(crate) fn name(&self) -> &[u8] {
        self.path().rsplit('/').next().unwrap_or_default().as_bytes()
    }

    /// The path of the object's file, relative to the root of the bucket.
    fn path(&self) -> &str {
        self.key.strip_suffix('/').unwrap_or(&self.key)
    }
}

/// True for text that XML 1.0 preserves. It cannot represent most control characters, and reads a carriage return as a
/// line feed.
pub(crate) fn is_text(text: &str) -> bool {
    let is_wrong =
        |c: char| c < ' ' && !matches!(c, '\t' | '\n') || matches!(c, '\u{fffe}' | '\u{ffff}');
    !text.contains(is_wrong)
}

/// True for the hidden directory and all paths below it.
pub(crate) fn is_hidden(path: &str) -> bool {
    path.split('/').next() == Some(HIDDEN)
}

/// True for a valid name of a file.
pub(crate) fn is_name(name: &str) -> bool {
    check_name(name).is_ok()
}

/// Checks that `name` can be the name of a file or directory. The error says why not.
fn check_name(name: &str) -> Result<(), String> {
    match name {
        "" => Err("it has an empty name between slashes".to_owned()),
        "." | ".." => Err(format!("{name:?} cannot be the name of a file")),
        _ if name.len() > NAME_MAX => Err(format!("a name in it is longer than {NAME_MAX} bytes")),
        _ if !is_text(name) => Err("it contains a control character".to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_paths() {
        let place = Place::parse("a/b/c.txt").unwrap();
        assert_eq!((place.above(), place.name()), (&b"a/b"[..], &b"c.txt"[..]));
        assert_eq!(place.directories(), [b"a", b"b"]);
        let place = Place::parse("top").unwrap();
        assert_eq!(
            (place.above(), place.name(), place.is_directory),
            (&b"/"[..], &b"top"[..], false)
        );
        assert!(place.directories().is_empty());
        let place = Place::parse("a/b/").unwrap();
        assert_eq!((place.above(), place.name(), place.is_directory), (&b"a"[..], &b"b"[..], true));
    }

    #[test]
    fn keys_that_are_not_paths_are_refused() {
        let long = "x".repeat(NAME_MAX + 1);
        let deep = "d/".repeat(600);
        for wrong in [
            "",
            "/",
            "/a",
            "a//b",
            "a//",
            ".",
            "a/..",
            "./a",
            "a\0b",
            "a\u{1}",
            "\u{1b}[2J",
            "a\r",
            "\u{ffff}",
            HIDDEN,
            ".esker-s3/x",
            &long,
            &deep,
        ] {
            assert!(Place::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Place::parse(".esker-s3x").is_ok());
        assert!(Place::parse("a/.esker-s3").is_ok());
        assert!(Place::parse("\u{1f600}\t\u{7f}\n<&>").is_ok());
    }

    #[test]
    fn fuzz_keys() {
        esker_testing::fuzz("keys", &[b"a/b/c".to_vec(), b"dir/".to_vec()], |bytes| {
            let key = String::from_utf8_lossy(bytes);
            if let Ok(place) = Place::parse(&key) {
                let mut path: Vec<_> = place.directories();
                path.push(place.name());
                assert_eq!(path.join(&b'/'), key.strip_suffix('/').unwrap_or(&key).as_bytes());
            }
        });
    }
}
