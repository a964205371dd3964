//! Options of `esker cont create` for a container that holds a file system.
use crate::units::Bytes;
use clap::{Args, ValueEnum};
use dfs::{CHUNK_SIZE, NewDfs};
use esker::types::{Checksum, Error, ErrorKind, ObjectClass, Result};
use std::collections::HashSet;

/// Content of a container: `--type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ContainerType {
    /// Objects of any kind
    #[default]
    #[value(alias = "unknown")]
    Objects,
    /// A file system: see `esker fs`
    Posix,
}

/// The layout of a new container.
#[derive(Args)]
pub(super) struct Layout {
    /// Content of the container
    #[arg(long = "type", value_name = "TYPE", ignore_case = true, default_value = "objects")]
    pub(super) kind: ContainerType,
    /// Chunk size of files; each chunk is stored on one target [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    chunk_size: Option<Bytes>,
    /// Object class of directories and files: S1 (one target), S2, SX (all targets) ...
    #[arg(long, visible_alias = "oclass", value_name = "CLASS", value_parser = crate::args::parse_class)]
    class: Option<ObjectClass>,
    /// Object class of directories [default: --class, or as DFS chooses]
    #[arg(long, visible_alias = "dir-oclass", value_name = "CLASS", value_parser = crate::args::parse_class)]
    dir_class: Option<ObjectClass>,
    /// Object class of files [default: --class, or as DFS chooses]
    #[arg(long, visible_alias = "file-oclass", value_name = "CLASS", value_parser = crate::args::parse_class)]
    file_class: Option<ObjectClass>,
    /// Mode bits of the root directory, in octal [default: 755]
    #[arg(long, value_name = "MODE", value_parser = super::fs::octal)]
    mode: Option<u32>,
    /// Over nodes, remove a file by one request, wherever its content is: its space is free a moment later
    #[arg(long)]
    relaxed: bool,
    /// Hints that are stored with the file system, as by DAOS: file:single, file:max, dir:single, dir:max
    #[arg(long, value_name = "NAME:VALUE,...", value_parser = parse_hints)]
    hints: Option<String>,
    /// DAOS properties, separated by commas: label:NAME, cksum:off|crc32|crc64, rd_fac:0. ec_cell_sz is accepted
    /// and ignored
    #[arg(long, value_name = "PROP:VALUE,...", value_delimiter = ',')]
    properties: Vec<String>,
}

/// Properties of a new container that do not belong to its file system.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Properties {
    pub(super) label: Option<String>,
    pub(super) checksum: Option<Checksum>,
}

impl Layout {
    /// The file system to create, if any.
    ///
    /// # Errors
    /// `Invalid` for an option that requires `--type posix` without it.
    pub(super) fn file_system(&self) -> Result<Option<NewDfs>> {
        let chunk_size = self.chunk_size.map_or(CHUNK_SIZE, |size| size.0);
        let own = self.chunk_size.is_some()
            || self.mode.is_some()
            || self.hints.is_some()
            || self.relaxed;
        let own =
            own || self.dir_class.is_some() || self.file_class.is_some() || self.class.is_some();
        match (self.kind, own) {
            (ContainerType::Objects, false) => Ok(None),
            (ContainerType::Objects, true) => Err(Error::new(
                ErrorKind::Invalid,
                "--chunk-size, --class, --mode, --relaxed and --hints are options of a file system: add --type posix",
            )),
            (ContainerType::Posix, _) => Ok(Some(NewDfs {
                chunk_size,
                class: self.class,
                dir_class: self.dir_class,
                file_class: self.file_class,
                root_mode: self.mode.unwrap_or(0o755),
                relaxed: self.relaxed,
                hints: self.hints.clone().unwrap_or_default(),
                ..NewDfs::default()
            })),
        }
    }

    /// The name of the type in DAOS.
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            ContainerType::Objects => "unknown",
            ContainerType::Posix => "POSIX",
        }
    }

    /// The properties that `--properties` gives.
    ///
    /// # Errors
    /// `NotSupported` for an unknown property or value.
    pub(super) fn properties(&self) -> Result<Properties> {
        let (mut properties, mut seen) = (Properties::default(), HashSet::new());
        for pair in &self.properties {
            properties.take(pair)?;
            if !seen.insert(property_of(pair)) {
                let message = format!("property {pair:?} is given twice: give it once");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        Ok(properties)
    }
}

/// The name of the property of a pair. Some have two names.
fn property_of(pair: &str) -> &str {
    match pair.split([':', '=']).next().unwrap_or(pair) {
        "csum" => "cksum",
        "rf" => "rd_fac",
        "ec_cell" => "ec_cell_sz",
        name => name,
    }
}

/// Value parser of `--hints`: hints as DAOS takes them, such as `file:single,dir:max`.
fn parse_hints(text: &str) -> std::result::Result<String, String> {
    let is_hint = |pair: &str| {
        let (name, value) = pair.split_once(':').unwrap_or((pair, ""));
        ["file", "dir", "directory"].contains(&&*name.to_ascii_lowercase())
            && ["single", "max"].contains(&&*value.to_ascii_lowercase())
    };
    match text.split(',').all(is_hint) {
        true => Ok(text.to_owned()),
        false => {
            Err("hints are file:single, file:max, dir:single and dir:max, separated by commas"
                .to_owned())
        }
    }
}

impl Properties {
    /// Takes a property in DAOS's form, `NAME:VALUE`.
    fn take(&mut self, pair: &str) -> Result<()> {
        let (name, value) = pair.split_once([':', '=']).unwrap_or((pair, ""));
        match (name, value) {
            ("label", label) => self.label = Some(label.to_owned()),
            ("cksum" | "csum", value) => self.checksum = Some(checksum(value)?),
            ("rd_fac" | "rf", "0") | ("ec_cell_sz" | "ec_cell", _) => {}
            ("rd_fac" | "rf", _) => {
                let message = format!(
                    "{pair}: a pool on one machine has no redundancy: only rd_fac:0 is supported"
                );
                return Err(Error::new(ErrorKind::NotSupported, message));
            }
            _ => {
                let known = "supported are label, cksum, rd_fac and ec_cell_sz";
                return Err(Error::new(
                    ErrorKind::NotSupported,
                    format!("property {pair:?} is not supported: {known}"),
                ));
            }
        }
        Ok(())
    }
}

/// Parses a checksum in DAOS's form.
fn checksum(value: &str) -> Result<Checksum> {
    match value {
        "off" => Ok(Checksum::Off),
        "crc32" | "crc32c" | "on" => Ok(Checksum::Crc32c),
        "crc64" => Ok(Checksum::Crc64),
        _ => {
            let message =
                format!("checksum {value:?} is not supported: choose off, crc32 or crc64");
            Err(Error::new(ErrorKind::NotSupported, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read_as_daos_writes_them() {
        let mut properties = Properties::default();
        for pair in ["rd_fac:0", "ec_cell_sz:128KiB", "cksum:crc64", "label:run1"] {
            properties.take(pair).unwrap();
        }
        let wanted = Properties { label: Some("run1".into()), checksum: Some(Checksum::Crc64) };
        assert_eq!(properties, wanted);
        for pair in ["rd_fac:1", "cksum:sha1", "dedup:hash", "layout"] {
            assert!(Properties::default().take(pair).is_err(), "{pair}");
        }
    }

    #[test]
    fn hints_are_those_of_daos() {
        for hints in ["file:single", "dir:max", "File:max,directory:single"] {
            assert!(parse_hints(hints).is_ok(), "{hints}");
        }
        for hints in ["", "foo", "file", "file:many", "file:max,", "link:max"] {
            assert!(parse_hints(hints).is_err(), "{hints}");
        }
    }
}
