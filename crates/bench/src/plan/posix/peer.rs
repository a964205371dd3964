//! A file system of another project in the comparison. Processes see it at a mount point, or by a library of its own.
use super::FileSystem;
use crate::errors::ensure_valid;
use crate::posix::FileLocation;
use crate::processes::Launcher;
use esker_types::Result;

/// Another file system in the comparison.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Peer {
    /// Compare with another file system too: a name for tables, and a directory in it, which stays
    #[arg(long, value_name = "NAME=DIR", value_parser = parse_assignment)]
    pub peer: Option<(String, String)>,
    /// Environment variable of processes on --peer, such as LD_PRELOAD; may be repeated
    #[arg(long = "peer-variable", value_name = "NAME=VALUE", value_parser = parse_assignment)]
    #[arg(requires = "peer")]
    pub variables: Vec<(String, String)>,
}

impl Peer {
    /// The file system, unless none is given. `others` are those that are measured already.
    ///
    /// # Errors
    /// If its name is one of the others.
    pub(super) fn file_system(&self, others: &[FileSystem]) -> Result<Option<FileSystem>> {
        let Some((name, folder)) = &self.peer else { return Ok(None) };
        ensure_valid(others.iter().all(|other| other.name != *name), || {
            format!("--peer: {name} is the name of another column: choose another name")
        })?;
        let mut launcher = Launcher::new()?;
        launcher.variables.extend(self.variables.iter().cloned());
        let names: Vec<_> = self.variables.iter().map(|(name, _)| name.as_str()).collect();
        let with =
            if names.is_empty() { String::new() } else { format!(", by {}", names.join(" and ")) };
        Ok(Some(FileSystem {
            name: name.clone(),
            about: format!("{folder}{with}"),
            location: FileLocation::Posix { folder: folder.into() },
            launcher,
        }))
    }
}

/// Parses `NAME=VALUE`; neither is empty.
fn parse_assignment(text: &str) -> std::result::Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
    let (name, value) = parts.ok_or("a name and a value such as NAME=VALUE are expected")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(variables: &[(&str, &str)]) -> Peer {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables = variables.iter().map(owned).collect();
        Peer { peer: Some(("other".to_owned(), "/mnt/other".to_owned())), variables }
    }

    #[test]
    fn processes_of_peer_get_its_variables() {
        let with = peer(&[("LD_PRELOAD", "/opt/client.so"), ("HOSTS", "/tmp/hosts")]);
        let system = with.file_system(&[]).unwrap().unwrap();
        assert_eq!(system.about, "/mnt/other, by LD_PRELOAD and HOSTS");
        assert_eq!(system.launcher.variables, with.variables);
        assert_eq!(peer(&[]).file_system(&[]).unwrap().unwrap().about, "/mnt/other");
        assert!(Peer::default().file_system(&[]).unwrap().is_none());
    }

    #[test]
    fn peer_needs_name_of_its_own() {
        let first = peer(&[]).file_system(&[]).unwrap().unwrap();
        let error = peer(&[]).file_system(&[first]).unwrap_err();
        assert!(error.message().contains("other is the name of another column"), "{error}");
    }

    #[test]
    fn assignments_have_name_and_value() {
        let (name, value) = parse_assignment("LD_PRELOAD=/a=b").unwrap();
        assert_eq!((name.as_str(), value.as_str()), ("LD_PRELOAD", "/a=b"));
        for wrong in ["", "name", "=value", "name="] {
            assert!(parse_assignment(wrong).unwrap_err().contains("NAME=VALUE"), "{wrong}");
        }
    }
}
