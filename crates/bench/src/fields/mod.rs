//! The work of `fields`: weather fields archived, listed and retrieved by key.
//!
//! Fields are named by step, level, parameter and member, as in the hammer of FDB: each process archives
//! members of its own and makes a step visible when it is whole. [`message`] is what a field holds, [`keys`]
//! what it is called, [`worker`] is one process.
pub mod grib;
pub mod keys;
pub mod message;
mod phases;
mod session;
pub mod worker;

use esker_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// Most fields of one process: what happened to each is kept in memory.
pub const FIELDS_MAX: u64 = 1 << 20;

/// Most fields that are retrieved out of order.
pub const SCATTERED_MAX: u64 = 1000;

/// The fields of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Steps of the forecast; each is flushed when it is whole.
    pub steps: u64,
    /// Levels of a step.
    pub levels: u64,
    /// Parameters of a level.
    pub params: u64,
    /// Members of the ensemble, which no other process has.
    pub members: u64,
    /// Bytes of a field.
    pub size_bytes: u64,
}

/// Where a field stands among those of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The process that archives it.
    pub owner: u32,
    /// The how many-th of its fields, in the order in which they are archived: by step, member, level,
    /// parameter.
    pub index: u64,
}

impl Shape {
    /// Fields of one process.
    #[must_use]
    pub fn fields(&self) -> u64 {
        self.steps.saturating_mul(self.per_step())
    }

    /// Fields of one process in one step.
    #[must_use]
    pub fn per_step(&self) -> u64 {
        self.levels.saturating_mul(self.params).saturating_mul(self.members)
    }

    /// Refuses what cannot be done.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], naming the option.
    pub fn check(&self) -> Result<()> {
        let refuse = |text: String| Err(Error::new(ErrorKind::Invalid, text));
        if self.fields() == 0 || self.fields() > FIELDS_MAX {
            return refuse(format!(
                "--steps, --levels, --params and --members give each process {} fields: 1 to {FIELDS_MAX} (FIELDS_MAX) can be measured",
                self.fields()
            ));
        }
        match (message::BYTES_MIN..=message::BYTES_MAX).contains(&self.size_bytes) {
            true => Ok(()),
            false => refuse(format!(
                "--size must be {} to {} bytes: a field holds its key and a checksum",
                message::BYTES_MIN,
                message::BYTES_MAX
            )),
        }
    }
}

/// What all processes do at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Nothing.
    Rest,
    /// pwrite of blocks into a file that is there already.
    Pwrite,
    /// The same with a sync of the data after each block.
    PwriteSync,
    /// pread of them.
    Pread,
    /// One plain file for each field is written.
    FileWrite,
    /// Those of the next process are read.
    FileRead,
    /// All fields are archived under their keys, each step is flushed.
    Archive,
    /// All fields of all processes are listed.
    List,
    /// The values that their keys have are asked for.
    Axes,
    /// Fields of the next process are looked for and read one by one.
    Retrieve,
    /// One request for all of them, read in its order.
    Request,
    /// Some fields of the next process, one by one as they were archived.
    InOrder,
    /// As many of any process, in no order.
    Scattered,
    /// All fields of the next process are compared with what was archived; not measured.
    Verify,
    /// One plain file for each GRIB message of the user's.
    GribFiles,
    /// Those messages are archived under the keys that stand in them.
    ArchiveGrib,
    /// They are compared with what was archived; not measured.
    VerifyGrib,
    /// All fields are archived while others wait for them.
    ArchiveWatched,
    /// Fields of all processes are read as soon as they can be seen.
    Watch,
    /// As [`Phase::Retrieve`], from Python.
    PythonRetrieve,
    /// As [`Phase::Request`], from Python.
    PythonRequest,
    /// The same, where each field is viewed where it lies.
    PythonViews,
}

impl Phase {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Pwrite => "pwrite",
            Self::PwriteSync => "pwrite+sync",
            Self::Pread => "pread",
            Self::FileWrite | Self::Archive => "archive",
            Self::FileRead | Self::Retrieve => "retrieve",
            Self::List => "list",
            Self::Axes => "axes",
            Self::Request => "retrieve-request",
            Self::InOrder => "retrieve-in-order",
            Self::Scattered => "retrieve-scattered",
            Self::Verify | Self::VerifyGrib => "verify",
            Self::GribFiles | Self::ArchiveGrib => "archive-grib",
            Self::ArchiveWatched => "archive-watched",
            Self::Watch => "watch",
            Self::PythonRetrieve => "python-retrieve",
            Self::PythonRequest => "python-retrieve-request",
            Self::PythonViews => "python-view-request",
        }
    }

    /// For what is done on the store from Python, the phase in which the peer does the same.
    #[must_use]
    pub fn from_python(self) -> Option<Self> {
        match self {
            Self::PythonRetrieve => Some(Self::Retrieve),
            Self::PythonRequest | Self::PythonViews => Some(Self::Request),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_measured_is_refused_by_the_name_of_its_option() {
        let shape = Shape { steps: 2, levels: 3, params: 4, members: 5, size_bytes: 64 };
        assert_eq!((shape.fields(), shape.per_step()), (120, 60));
        assert!(shape.check().is_ok());
        let wrong = [
            (Shape { levels: 0, ..shape }, "--levels"),
            (Shape { steps: u64::MAX, ..shape }, "--steps"),
            (Shape { size_bytes: message::BYTES_MIN - 1, ..shape }, "--size"),
        ];
        for (shape, option) in wrong {
            let error = shape.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.message().contains(option), "{error}");
        }
    }
}
