//! Access keys and their secrets, from a file that only its owner may read.
use esker::types::{Error, ErrorKind, Result};
use ring::rand::{SecureRandom, SystemRandom};
use s3s::auth::SecretKey;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::limits::ACCESS_KEYS_MAX;
use crate::sums::hex;

/// Bits of a mode that let other users than the owner use a file.
const OTHERS: u32 = 0o077;
/// Most bytes of a file of keys.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Random bytes of an access key that is generated, after its prefix.
const ACCESS_BYTES: usize = 8;
/// Random bytes of a secret that is generated.
const SECRET_BYTES: usize = 24;

/// A key: its secret and its permissions.
#[derive(Clone)]
pub struct Key {
    /// Secret that signs its requests.
    pub secret: SecretKey,
    /// Its holder may not change anything.
    pub read_only: bool,
}

/// The keys whose signatures are accepted.
#[derive(Clone, Default)]
pub struct Keys(HashMap<String, Key>);

impl Keys {
    /// Reads a file of keys: an access key and its secret on each line, and the word `read-only` if the key is for
    /// reading. Lines that are empty or begin with `#` are skipped.
    ///
    /// # Errors
    /// [`ErrorKind::NoPermission`] if other users than the owner may use the file, [`ErrorKind::Invalid`] if it has an
    /// invalid line, no key at all, or more than 1 MiB; errors of reading it.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let failed =
            |error: std::io::Error| Error::io(format_args!("reading the keys in {shown}"), &error);
        let file = File::open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                let message = format!("there is no file of keys {shown}: --new-key creates it");
                Error::new(ErrorKind::NotFound, message)
            }
            _ => failed(error),
        })?;
        let mode = file.metadata().map_err(failed)?.mode();
        if mode & OTHERS != 0 {
            let message = format!("others may use {shown}, which has secrets: `chmod 600 {shown}`");
            return Err(Error::new(ErrorKind::NoPermission, message));
        }
        let mut text = String::new();
        let bytes = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
        if bytes as u64 > FILE_BYTES_MAX {
            let message =
                format!("{shown} has more than {FILE_BYTES_MAX} bytes: remove keys or comments");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Self::parse(&text).map_err(|why| Error::new(ErrorKind::Invalid, format!("{shown}: {why}")))
    }

    /// Parses a file of access keys: on each line the name of a key, its secret and, if it may not write, `read-only`.
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut keys = HashMap::new();
        for (line, number) in text.lines().zip(1..) {
            let words: Vec<_> = line.split_whitespace().collect();
            let (access, secret, read_only) = match words[..] {
                [] => continue,
                [first, ..] if first.starts_with('#') => continue,
                [access, secret] => (access, secret, false),
                [access, secret, "read-only"] => (access, secret, true),
                _ => {
                    return Err(format!(
                        "line {number} is not a key: write ACCESS SECRET [read-only]"
                    ));
                }
            };
            let key = Key { secret: SecretKey::from(secret), read_only };
            if keys.insert(access.to_owned(), key).is_some() {
                return Err(format!("line {number} has a key that is there already: {access}"));
            }
        }
        match keys.len() {
            0 => Err("it has no key: write a line ACCESS SECRET".to_owned()),
            1..=ACCESS_KEYS_MAX => Ok(Self(keys)),
            count => Err(format!(
                "it has {count} keys: the limit is {ACCESS_KEYS_MAX} (ACCESS_KEYS_MAX)"
            )),
        }
    }

    /// Generates a key, and writes it into a new file of mode 0600.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if there is such a file; errors of writing it.
    pub fn create(path: &Path) -> Result<()> {
        let shown = path.display();
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                let message = format!(
                    "there is a file {shown} already: leave out --new-key to use its keys, or name another file"
                );
                Error::new(ErrorKind::Exists, message)
            }
            _ => Error::io(format_args!("writing {shown}"), &error),
        };
        let (access, secret) = (drawn::<ACCESS_BYTES>()?, drawn::<SECRET_BYTES>()?);
        let mut file =
            File::options().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        let line = format!("ESKER{} {}\n", hex(&access).to_uppercase(), hex(&secret));
        file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// These keys, by their names.
    #[cfg(test)]
    pub(crate) fn from<const N: usize>(keys: [(String, Key); N]) -> Self {
        Self(HashMap::from(keys))
    }

    /// The key of this name.
    #[must_use]
    pub fn get(&self, access: &str) -> Option<&Key> {
        self.0.get(access)
    }

    /// Number of keys.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// `N` random bytes from the system, for a new key.
fn drawn<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let failed = |_| Error::new(ErrorKind::Io, "the system gave no random bytes for a key");
    SystemRandom::new().fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn each_line_of_the_file_is_a_key() {
        let keys = Keys::parse("# mine\n\nA secret\nB other read-only\n").unwrap();
        assert_eq!((keys.count(), keys.get("C").is_none()), (2, true));
        assert_eq!(
            keys.get("A").map(|key| (key.secret.expose(), key.read_only)),
            Some(("secret", false))
        );
        assert!(keys.get("B").unwrap().read_only);
        for wrong in ["", "# none", "A", "A b writable", "A b read-only c", "A b\nA c"] {
            assert!(Keys::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let path = std::env::temp_dir().join(format!("esker-s3-keys-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let missing = Keys::read(&path).err().unwrap();
        assert!(missing.message().contains("--new-key"), "{missing}");
        Keys::create(&path).unwrap();
        let exists = Keys::create(&path).unwrap_err();
        assert!(
            exists.kind() == ErrorKind::Exists && exists.message().contains("leave out --new-key"),
            "{exists}"
        );
        assert_eq!(Keys::read(&path).unwrap().count(), 1);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let refused = Keys::read(&path).err().unwrap();
        assert!(
            refused.kind() == ErrorKind::NoPermission && refused.message().contains("chmod 600"),
            "{refused}"
        );
        std::fs::remove_file(&path).unwrap();
        assert!(Keys::read(&path).is_err());
    }

    #[test]
    fn a_file_that_is_too_long_is_refused() {
        let path = std::env::temp_dir().join(format!("esker-s3-long-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Keys::create(&path).unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        file.write_all(&vec![b'#'; (FILE_BYTES_MAX - length) as usize]).unwrap();
        assert_eq!(Keys::read(&path).unwrap().count(), 1);
        file.write_all(b"\n").unwrap();
        let refused = Keys::read(&path).err().unwrap();
        assert!(refused.message().contains("more than 1048576 bytes"), "{refused}");
        std::fs::remove_file(&path).unwrap();
    }
}
