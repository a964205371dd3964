//! Stores of all sorts beside each other in one folder, for as long as something is measured.
use super::Note;
use super::scratch::{self, Scratch};
use crate::fleet::Launcher;
use crate::load::files;
use crate::runner::Runner;
use esker::types::info::Durability;
use esker_types::{Error, ErrorKind, Result};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// A store to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// A native pool that is made.
    Native,
    /// A pool of files by the layout of the 2022 paper that is made.
    Posix,
    /// Plain files in a folder that is made.
    Files,
    /// A pool of the user's.
    Pool(String),
}

impl FromStr for Store {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "native" => Self::Native,
            "posix" => Self::Posix,
            "files" => Self::Files,
            "" => return Err(Error::new(ErrorKind::Invalid, "a store has no name")),
            pool => Self::Pool(pool.to_owned()),
        })
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Native => "native",
            Self::Posix => "posix",
            Self::Files => "files",
            // What follows says how a cluster is reached.
            Self::Pool(pool) => pool.split_once('?').map_or(pool.as_str(), |(name, _)| name),
        })
    }
}

impl Store {
    /// True for plain files, which know nothing but one file for each object.
    #[must_use]
    pub fn is_files(&self) -> bool {
        match self {
            Self::Files => true,
            Self::Pool(pool) => files::FilesUrl::parse(pool).is_some(),
            Self::Native | Self::Posix => false,
        }
    }
}

/// What the stores must have room for.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Payload of one phase of all processes.
    pub bytes: u64,
    /// Entries of indexes.
    pub entries: u64,
    /// Targets of a native pool.
    pub targets: Option<u32>,
    /// What a write survives.
    pub durability: Durability,
}

/// A folder with stores in it, gone when this is dropped or its process dies.
pub struct Arena {
    scratch: Scratch,
    fsync: bool,
}

impl Arena {
    /// Makes the stores of these sorts in a folder within `folder`.
    ///
    /// # Errors
    /// Where there is no room, or a store cannot be made there.
    pub fn new(
        launcher: &Launcher,
        folder: &Path,
        stores: &[Store],
        room: &Room,
        note: Note<'_>,
    ) -> Result<Self> {
        let scratch = Scratch::folder(launcher, folder)?;
        let arena = Self { scratch, fsync: room.durability == Durability::Commit };
        if stores.contains(&Store::Native) {
            let mut spec = scratch::spec(room.bytes, room.entries, room.targets);
            spec.durability = Some(room.durability);
            arena.scratch.add_pool(&spec, note)?;
        }
        if stores.contains(&Store::Posix) {
            let words = ["pool".to_owned(), "create".to_owned(), arena.bare_url("posix")];
            arena.runner(launcher).run(&words)?;
        }
        if stores.contains(&Store::Files) {
            let place = arena.scratch.path().join("files");
            std::fs::create_dir(&place)
                .map_err(|error| Error::io(format!("creating {}", place.display()), &error))?;
        }
        Ok(arena)
    }

    /// Runs benchmarks whose result files lie here.
    #[must_use]
    pub fn runner(&self, launcher: &Launcher) -> Runner {
        let (program, folder) = (launcher.program.clone(), self.scratch.path().to_owned());
        Runner { program, folder }
    }

    /// Where a store is found.
    #[must_use]
    pub fn url(&self, store: &Store) -> String {
        match store {
            Store::Native => self.scratch.url(),
            Store::Posix => self.url_of("posix"),
            Store::Files => self.url_of("files"),
            Store::Pool(pool) => pool.clone(),
        }
    }

    fn url_of(&self, scheme: &str) -> String {
        let fsync = if self.fsync { "?fsync=on" } else { "" };
        format!("{}{fsync}", self.bare_url(scheme))
    }

    fn bare_url(&self, scheme: &str) -> String {
        format!("{scheme}:{}", self.scratch.path().join(scheme).display())
    }
}
