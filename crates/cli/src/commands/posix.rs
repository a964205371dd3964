//! What `esker cont create` needs to know for a container that holds a file system.
use clap::{Args, ValueEnum};
use dfs::{CHUNK_SIZE, NewDfs};
use esker::types::{Checksum, Error, ErrorKind, ObjectClass, Result};
use esker_bench::units::Bytes;

/// What a container is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ContainerType {
    /// Objects of any kind
    #[default]
    #[value(alias = "unknown")]
    Objects,
    /// A file system: see `esker fs`
    Posix,
}

/// How a container is laid out.
#[derive(Args)]
pub(super) struct Layout {
    /// What the container is for
    #[arg(long = "type", value_name = "TYPE", ignore_case = true, default_value = "objects")]
    pub(super) kind: ContainerType,
    /// Bytes per chunk of a file; a chunk lies on one target [default: 1 MiB]
    #[arg(long, value_name = "SIZE")]
    chunk_size: Option<Bytes>,
    /// Object class of directories and files: S1 (one target), S2, SX (all targets) ...
    #[arg(long, visible_alias = "oclass", value_name = "CLASS", value_parser = crate::args::parse_class)]
    class: Option<ObjectClass>,
    /// Object class of directories [default: that of --class, else one that suits them]
    #[arg(long, visible_alias = "dir-oclass", value_name = "CLASS", value_parser = crate::args::parse_class)]
    dir_class: Option<ObjectClass>,
    /// Object class of files [default: that of --class, else one that suits them]
    #[arg(long, visible_alias = "file-oclass", value_name = "CLASS", value_parser = crate::args::parse_class)]
    file_class: Option<ObjectClass>,
    /// Mode bits of the root directory, octal [default: 755]
    #[arg(long, value_name = "MODE", value_parser = super::fs::octal)]
    mode: Option<u32>,
    /// Hints kept with the file system (DAOS: --hints)
    #[arg(long, value_name = "TEXT")]
    hints: Option<String>,
    /// Properties as DAOS has them, separated by commas: label:NAME, cksum:off|crc32|crc64, rd_fac:0;
    /// ec_cell_sz is taken and has no use here
    #[arg(long, value_name = "PROP:VALUE,...", value_delimiter = ',')]
    properties: Vec<String>,
}

/// Properties of a new container that are not those of its file system.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Properties {
    pub(super) label: Option<String>,
    pub(super) checksum: Option<Checksum>,
}

impl Layout {
    /// The file system to be made, where there is to be one.
    ///
    /// # Errors
    /// Where something is given that only a file system has, and there is to be none.
    pub(super) fn file_system(&self) -> Result<Option<NewDfs>> {
        let chunk_size = self.chunk_size.map_or(CHUNK_SIZE, |size| size.0);
        let own = self.chunk_size.is_some() || self.mode.is_some() || self.hints.is_some();
        let own =
            own || self.dir_class.is_some() || self.file_class.is_some() || self.class.is_some();
        match (self.kind, own) {
            (ContainerType::Objects, false) => Ok(None),
            (ContainerType::Objects, true) => Err(Error::new(
                ErrorKind::Invalid,
                "chunk size, classes, mode and hints are those of a file system; add --type posix",
            )),
            (ContainerType::Posix, _) => Ok(Some(NewDfs {
                chunk_size,
                class: self.class,
                dir_class: self.dir_class,
                file_class: self.file_class,
                root_mode: self.mode.unwrap_or(0o755),
                hints: self.hints.clone().unwrap_or_default(),
                ..NewDfs::default()
            })),
        }
    }

    /// The name of the type, as DAOS shows it.
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            ContainerType::Objects => "unknown",
            ContainerType::Posix => "POSIX",
        }
    }

    /// What --properties says.
    ///
    /// # Errors
    /// Where a property or value is not known.
    pub(super) fn properties(&self) -> Result<Properties> {
        let mut properties = Properties::default();
        self.properties.iter().try_for_each(|pair| properties.take(pair))?;
        Ok(properties)
    }
}

impl Properties {
    fn take(&mut self, pair: &str) -> Result<()> {
        let (name, value) = pair.split_once([':', '=']).unwrap_or((pair, ""));
        match (name, value) {
            ("label", label) => self.label = Some(label.to_owned()),
            ("cksum" | "csum", value) => self.checksum = Some(checksum(value)?),
            ("rd_fac" | "rf", "0") | ("ec_cell_sz" | "ec_cell", _) => {}
            ("rd_fac" | "rf", _) => {
                let message = format!(
                    "{pair}: a pool on one machine has no redundancy; only rd_fac:0 is possible"
                );
                return Err(Error::new(ErrorKind::NotSupported, message));
            }
            _ => {
                let known = "label, cksum, rd_fac and ec_cell_sz are known";
                return Err(Error::new(
                    ErrorKind::NotSupported,
                    format!("property {pair:?}: {known}"),
                ));
            }
        }
        Ok(())
    }
}

fn checksum(value: &str) -> Result<Checksum> {
    match value {
        "off" => Ok(Checksum::Off),
        "crc32" | "crc32c" | "on" => Ok(Checksum::Crc32c),
        "crc64" => Ok(Checksum::Crc64),
        _ => {
            let message = format!("checksum {value:?}: there are off, crc32 and crc64");
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
}
