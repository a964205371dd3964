//! The map of a pool: its nodes, the addresses of their engines, and the secret that authenticates clients.
//!
//! It is a file in JSON that only its owner may read. Every reader of the file can use the pool.
use crate::connection::Endpoint;
use esker_types::{Error, ErrorKind, Result, Uuid};
use esker_wire::handshake::Secret;
use serde::{Deserialize, Serialize};
use std::fs::{File, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Version of the map that this release writes, and of the placement of objects on nodes.
pub const MAP_VERSION: u32 = 1;

/// Suffix of the file's name: the map of pool `tank` is `tank.map`.
pub const MAP_SUFFIX: &str = ".map";

/// Longest map in bytes.
const MAP_BYTES_MAX: u64 = 1 << 20;

/// Permissions of the file: it contains the secret.
const PERMISSIONS: u32 = 0o600;

/// The map of a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Map {
    /// [`MAP_VERSION`].
    pub version: u32,
    /// Label of the pool.
    pub label: String,
    /// UUID of the pool.
    pub uuid: Uuid,
    /// Secret of all nodes and clients of the pool.
    #[serde(with = "hex")]
    pub secret: Secret,
    /// True if clients and engines use TLS only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tls: bool,
    /// Targets of each node.
    pub targets: u32,
    /// Transport between clients and engines. Older releases do not know it, and use TCP.
    #[serde(default, skip_serializing_if = "Transport::is_tcp")]
    pub transport: Transport,
    /// The nodes, by number.
    pub nodes: Vec<Node>,
}

/// Transport between clients and engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// A fast network, by libfabric; connections are set up over TCP.
    Fabric,
}

impl Transport {
    /// Checks that it can be used, with or without `tls`.
    ///
    /// # Errors
    /// `NotSupported` for TLS over the fabric, which does not encrypt.
    pub fn check(self, tls: bool) -> Result<()> {
        if tls && self == Self::Fabric {
            let message = "libfabric does not encrypt: use --tls or --transport fabric, not both";
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        Ok(())
    }

    fn is_tcp(&self) -> bool {
        *self == Self::Tcp
    }
}

/// A node of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name, for messages.
    pub name: String,
    /// Address of its engine, as `host:port`.
    pub address: String,
    /// UUID of its pool.
    pub uuid: Uuid,
    /// Directory of its pool, on the node.
    pub directory: PathBuf,
}

impl Node {
    /// The engine of the node, for a client of this `session`.
    #[must_use]
    pub fn endpoint<'e>(&'e self, secret: &'e Secret, session: u64) -> Endpoint<'e> {
        let Self { name, address, uuid: pool, .. } = self;
        Endpoint { name, address, secret, pool: *pool, session }
    }
}

impl Map {
    /// Creates a map of this version. Clients reach its nodes over TCP, without TLS.
    #[must_use]
    pub fn new(label: &str, uuid: Uuid, secret: Secret, targets: u32, nodes: Vec<Node>) -> Self {
        let (version, label, transport) = (MAP_VERSION, label.to_owned(), Transport::Tcp);
        Self { version, label, uuid, secret, tls: false, targets, transport, nodes }
    }

    /// The map of pool `label` in a directory.
    #[must_use]
    pub fn path(directory: &Path, label: &str) -> PathBuf {
        directory.join(format!("{label}{MAP_SUFFIX}"))
    }

    /// Reads a map.
    ///
    /// # Errors
    /// `NotFound` if there is no such file, `NoPermission` if others may read it too, `Corrupt` if it is not a map,
    /// `Incompatible` for another version.
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |error| Error::io(format_args!("reading {}", path.display()), &error);
        let file = File::open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                let shown = path.display();
                let message = format!(
                    "there is no map {shown}: copy the map of the pool there from one of its nodes, or name another"
                );
                Error::new(ErrorKind::NotFound, message)
            }
            _ => failed(error),
        })?;
        let mode = file.metadata().map_err(failed)?.permissions().mode();
        if mode & 0o077 != 0 {
            let message = format!(
                "others may read {}, which holds the secret of a pool: chmod 600 {}",
                path.display(),
                path.display()
            );
            return Err(Error::new(ErrorKind::NoPermission, message));
        }
        let mut text = String::new();
        file.take(MAP_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        Self::parse(&text).map_err(|error| {
            Error::new(error.kind(), format!("{}: {}", path.display(), error.message()))
        })
    }

    /// Parses the text of a map.
    ///
    /// # Errors
    /// `Corrupt` if it is not a map, `Incompatible` for another version.
    pub fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let corrupt =
            |error| Error::new(ErrorKind::Corrupt, format!("not the map of a pool: {error}"));
        let Versioned { version } = serde_json::from_str(text).map_err(corrupt)?;
        if version != MAP_VERSION {
            let message = format!(
                "version {version} of a pool's map, this release reads {MAP_VERSION}: use the release that made the pool"
            );
            return Err(Error::new(ErrorKind::Incompatible, message));
        }
        let map: Self = serde_json::from_str(text).map_err(corrupt)?;
        let nodes = 1..=esker_types::limits::NODES_MAX as usize;
        let targets = 1..=esker_types::limits::TARGETS_MAX as u32;
        if !nodes.contains(&map.nodes.len()) || !targets.contains(&map.targets) {
            return Err(Error::new(ErrorKind::Corrupt, "a map without nodes, or with too many"));
        }
        map.transport.check(map.tls)?;
        Ok(map)
    }

    /// The text of the map.
    #[must_use]
    pub fn to_text(&self) -> String {
        // All content of a map can be written as JSON.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Writes the map atomically, readable by its owner only. Replaces an older one.
    ///
    /// # Errors
    /// The errors of writing files.
    pub fn write(&self, path: &Path) -> Result<()> {
        let unfinished = self.write_unfinished(path)?;
        std::fs::rename(&unfinished, path).map_err(|error| write_error(path, &error))
    }

    /// Like [`Map::write`], but replaces no file. In file systems without hard links, the file is empty for a moment.
    ///
    /// # Errors
    /// `Exists` if there is a file at `path`; the errors of writing files.
    pub fn write_new(&self, path: &Path) -> Result<()> {
        let unfinished = self.write_unfinished(path)?;
        let written = match std::fs::hard_link(&unfinished, path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                File::create_new(path).and_then(|_| std::fs::rename(&unfinished, path))
            }
            linked => linked,
        };
        // After the rename, there is no such file.
        let _ = std::fs::remove_file(&unfinished);
        written.map_err(|error| write_error(path, &error))
    }

    /// Writes the map to a temporary file beside `path`, and returns its path. Permissions are also set if that file
    /// exists, because such a file keeps those that it has.
    fn write_unfinished(&self, path: &Path) -> Result<PathBuf> {
        let failed = |error| write_error(path, &error);
        let unfinished = path.with_extension(format!("{}.new", std::process::id()));
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(PERMISSIONS);
        let mut file = options.open(&unfinished).map_err(failed)?;
        file.set_permissions(Permissions::from_mode(PERMISSIONS)).map_err(failed)?;
        file.write_all(self.to_text().as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        Ok(unfinished)
    }
}

#[cold]
fn write_error(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format_args!("writing {}", path.display()), error)
}

/// For serde: fields with this value are not written, as in maps of older releases.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A secret as hexadecimal digits.
#[must_use]
pub fn secret_text(secret: &Secret) -> String {
    use std::fmt::Write as _;
    let mut digits = String::new();
    for byte in secret.bytes() {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// Parses a secret: 64 hexadecimal digits.
#[must_use]
pub fn parse_secret(digits: &str) -> Option<Secret> {
    let mut bytes = [0; 32];
    // `from_str_radix` takes a sign too.
    if digits.len() != 2 * bytes.len() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..digits.len()).step_by(2)) {
        *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
    }
    Some(Secret::new(bytes))
}

/// Secrets within the text of a map.
mod hex {
    use super::{Secret, parse_secret, secret_text};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&secret_text(secret))
    }

    /// Parses the secret of a pool map, 64 hexadecimal digits.
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        let digits = String::deserialize(from)?;
        parse_secret(&digits)
            .ok_or_else(|| serde::de::Error::custom("a secret has 64 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of three nodes with two targets each.
    fn sample() -> Map {
        let node = |number: u8| Node {
            name: format!("n{number}"),
            address: format!("10.0.0.{number}:7000"),
            uuid: Uuid([number; 16]),
            directory: PathBuf::from("/dev/shm/esker/tank.1"),
        };
        let secret = Secret::new([0xa7; 32]);
        Map::new("tank", Uuid([9; 16]), secret, 2, (1..4).map(node).collect())
    }

    #[test]
    fn maps_round_trip_and_are_readable_by_their_owner_only() {
        let directory = std::env::temp_dir().join(format!("esker-map-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = Map::path(&directory, "tank");
        sample().write(&path).unwrap();
        let read = Map::read(&path).unwrap();
        assert_eq!((read.secret.bytes(), &read.nodes), (&[0xa7; 32], &sample().nodes));
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert_eq!(Map::read(&path).unwrap_err().kind(), ErrorKind::NoPermission);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn new_map_appears_complete_and_replaces_none() {
        let directory = std::env::temp_dir().join(format!("esker-map-new-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for label in 0..8 {
            let path = Map::path(&directory, &label.to_string());
            let reader = path.clone();
            let reader = std::thread::spawn(move || {
                loop {
                    match Map::read(&reader) {
                        Err(error) if error.kind() == ErrorKind::NotFound => {
                            std::thread::yield_now()
                        }
                        found => break found.map(|map| map.label),
                    }
                }
            });
            sample().write_new(&path).unwrap();
            assert_eq!(reader.join().unwrap().unwrap(), "tank");
            assert_eq!(sample().write_new(&path).unwrap_err().kind(), ErrorKind::Exists);
        }
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 8);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_map_without_a_transport_means_tcp() {
        let mut map = sample();
        assert!(!map.to_text().contains("transport"));
        map.transport = Transport::Fabric;
        assert!(map.to_text().contains("\"transport\": \"fabric\""));
        for expected in [Transport::Tcp, Transport::Fabric] {
            map.transport = expected;
            assert_eq!(Map::parse(&map.to_text()).unwrap().transport, expected);
        }
    }

    #[test]
    fn maps_without_tls_are_those_of_older_releases() {
        assert!(!sample().to_text().contains("tls"));
        let secured = Map { tls: true, ..sample() };
        assert!(Map::parse(&secured.to_text()).unwrap().tls);
        assert!(!Map::parse(&sample().to_text()).unwrap().tls);
    }

    #[test]
    fn tls_over_the_fabric_is_refused() {
        let both = Map { tls: true, transport: Transport::Fabric, ..sample() };
        assert_eq!(Map::parse(&both.to_text()).unwrap_err().kind(), ErrorKind::NotSupported);
    }

    #[test]
    fn other_versions_and_other_files_are_refused() {
        let text = sample().to_text();
        let newer = text.replace("\"version\": 1", "\"version\": 2");
        assert_eq!(Map::parse(&newer).unwrap_err().kind(), ErrorKind::Incompatible);
        for wrong in [
            "",
            "{}",
            "[1]",
            &text.replace("a7", "x7"),
            &text.replace("\"targets\": 2", "\"targets\": 0"),
        ] {
            assert_eq!(Map::parse(wrong).unwrap_err().kind(), ErrorKind::Corrupt, "{wrong}");
        }
    }
}
