//! The work of `fields`: weather fields archived, listed and retrieved by key.
//!
//! Fields are identified by step, level, parameter and member, as in FDB's hammer. Each process archives its own
//! members and flushes each step when it is complete. [`message`] is the content of a field, [`keys`] its name,
//! [`worker`] one process.
pub mod grib;
pub mod keys;
pub mod message;
pub mod worker;

use crate::errors::ensure_valid;
use esker_types::Result;
use serde::{Deserialize, Serialize};

/// Maximum number of fields per process. The events of each are kept in memory.
pub const FIELDS_MAX: u64 = 1 << 20;

/// Maximum number of fields that are retrieved out of order.
pub const SCATTERED_MAX: u64 = 1000;

/// The fields of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Shape {
    /// Number of steps; each is flushed when it is complete
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub steps: u64,
    /// Number of levels of a step
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub levels: u64,
    /// Number of parameters of a level
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub params: u64,
    /// Number of members of each process
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub members: u64,
    /// Size of a field
    #[arg(long = "size", value_name = "SIZE", default_value = "1MiB")]
    #[arg(value_parser = crate::plan::parse_size)]
    pub size_bytes: u64,
}

/// The position of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The process that archives it.
    pub owner: u32,
    /// Number of the field in the order of archiving: by step, member, level, parameter.
    pub index: u64,
}

impl Shape {
    /// Fields of one process.
    pub fn fields(&self) -> u64 {
        self.steps.saturating_mul(self.per_step())
    }

    /// Fields of one process in one step.
    pub fn per_step(&self) -> u64 {
        self.levels.saturating_mul(self.params).saturating_mul(self.members)
    }

    /// Checks the options.
    pub fn check(&self) -> Result<()> {
        let fields = self.fields();
        ensure_valid((1..=FIELDS_MAX).contains(&fields), || {
            format!(
                "--steps, --levels, --params and --members give each process {fields} fields: 1 to {FIELDS_MAX} (FIELDS_MAX) can be measured"
            )
        })?;
        let (least, most) = (message::BYTES_MIN, message::BYTES_MAX);
        ensure_valid((least..=most).contains(&self.size_bytes), || {
            format!("--size must be {least} to {most} bytes: a field holds its key and a checksum")
        })
    }
}

/// A phase, which all processes enter at the same time. Reports name it as [`clap::ValueEnum`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// pwrite of blocks to an existing file.
    Pwrite,
    /// pwrite of blocks, each followed by fdatasync.
    #[value(name = "pwrite+sync")]
    PwriteSync,
    /// pread of blocks.
    Pread,
    /// Write one plain file per field.
    #[value(name = "archive")]
    FileWrite,
    /// Read the files of the next process.
    #[value(name = "retrieve")]
    FileRead,
    /// Archive all fields, and flush each step.
    Archive,
    /// List all fields of all processes.
    List,
    /// Query the axes: the values of each keyword.
    Axes,
    /// Find and read the fields of the next process one by one.
    Retrieve,
    /// Read the fields of the next process by one request, in its order.
    #[value(name = "retrieve-request")]
    Request,
    /// Read some fields of the next process one by one, in the order of archiving.
    #[value(name = "retrieve-in-order")]
    InOrder,
    /// Read as many fields of any process, in random order.
    #[value(name = "retrieve-scattered")]
    Scattered,
    /// Compare all fields of the next process with what was archived; not measured.
    Verify,
    /// Write one plain file per GRIB message of the user.
    #[value(name = "archive-grib")]
    GribFiles,
    /// Archive those messages under their own keys.
    ArchiveGrib,
    /// Compare them with what was archived; not measured.
    #[value(name = "verify")]
    VerifyGrib,
    /// Archive all fields while watchers wait for them.
    ArchiveWatched,
    /// Read fields of all processes as soon as they are visible.
    Watch,
    /// [`Phase::Retrieve`] by workers in Python.
    PythonRetrieve,
    /// [`Phase::Request`] by workers in Python.
    #[value(name = "python-retrieve-request")]
    PythonRequest,
    /// [`Phase::PythonRequest`] with views in place of copies.
    #[value(name = "python-view-request")]
    PythonViews,
}

impl Phase {
    /// For a phase on the store from Python, the corresponding phase of the peer.
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
    use esker_types::ErrorKind;

    #[test]
    fn invalid_shape_error_names_option() {
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
