//! The work of `fields`: weather fields archived, listed and retrieved by key.
//!
//! Fields are identified by step, level, parameter and member, as in FDB's hammer. Each process archives its own
//! members and flushes each step when it is complete. [`message`] is the content of a field, [`Shape`] has its name,
//! [`worker`] is one process.
pub mod grib;
pub mod message;
pub mod worker;

use crate::errors::ensure_valid;
use esker_fields::Key;
use esker_types::{Error, ErrorKind, Result};
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

    /// Fails if the number of fields of a process or the size of a field is out of range.
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

/// The part of the key that all fields share: one database and one index. All of it is given, so that a listed key
/// equals the archived key.
pub const FORECAST: [(&str, &str); 8] = [
    ("class", "rd"),
    ("expver", "hamm"),
    ("stream", "enfo"),
    ("date", "20240610"),
    ("time", "0000"),
    ("domain", "g"),
    ("type", "pf"),
    ("levtype", "pl"),
];

/// Keywords that distinguish fields, in the order of requests.
const APART: [&str; 4] = ["step", "number", "levelist", "param"];

impl Shape {
    /// The key of a field.
    pub fn key(&self, field: Field) -> Result<Key> {
        let values = self.values(field).map(|value| value.to_string());
        let apart = APART.into_iter().zip(values.iter().map(String::as_str));
        Key::from_pairs(FORECAST.into_iter().chain(apart))
    }

    /// Step, member, level and parameter; all but the step count from 1.
    fn values(&self, Field { owner, index }: Field) -> [u64; 4] {
        let (rest, param) = (index / self.params, index % self.params);
        let (rest, level) = (rest / self.levels, rest % self.levels);
        let (step, member) = (rest / self.members, rest % self.members);
        [step, self.first_member(owner) + member, level + 1, param + 1]
    }

    fn first_member(&self, owner: u32) -> u64 {
        u64::from(owner) * self.members + 1
    }

    /// A request for all fields of the processes `owners`, in the order in which they archive.
    pub fn request(&self, owners: std::ops::Range<u32>) -> Vec<(&'static str, String)> {
        let list = |first: u64, count: u64| {
            let values: Vec<_> = (first..first + count).map(|value| value.to_string()).collect();
            values.join("/")
        };
        let members = self.members * u64::from(owners.end.saturating_sub(owners.start));
        let apart = [
            list(0, self.steps),
            list(self.first_member(owners.start), members),
            list(1, self.levels),
            list(1, self.params),
        ];
        let shared = FORECAST.map(|(name, value)| (name, value.to_owned()));
        shared.into_iter().chain(APART.into_iter().zip(apart)).collect()
    }

    /// The process that archived a field, and its step.
    pub fn origin(&self, key: &Key) -> Result<(u32, u64)> {
        let number = |name: &str| key.get(name).and_then(|value| value.parse::<u64>().ok());
        let owner = |member: u64| u32::try_from(member.checked_sub(1)? / self.members.max(1)).ok();
        let origin = number("number").and_then(owner).zip(number("step"));
        origin.ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, format!("{key}: the benchmark archived no such field"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_fields::request::Request;
    use esker_fields::{Date, Schema};
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

    const SHAPE: Shape = Shape { steps: 3, levels: 2, params: 4, members: 2, size_bytes: 100 };

    #[test]
    fn requests_are_in_order_of_archiving() {
        let schema = Schema::default_mars().unwrap();
        let request = Request::from_pairs(SHAPE.request(1..2)).unwrap();
        let selection = request.expand(&schema, Date::today()).unwrap();
        let wanted: Vec<_> = selection.keys().unwrap().collect();
        let archived = (0..SHAPE.fields()).map(|index| SHAPE.key(Field { owner: 1, index }));
        assert_eq!(wanted, archived.collect::<Result<Vec<_>>>().unwrap());
    }

    #[test]
    fn key_identifies_archiving_process() {
        for (owner, index) in [(0, 0), (3, 17), (7, 47)] {
            let key = SHAPE.key(Field { owner, index }).unwrap();
            assert_eq!(SHAPE.origin(&key).unwrap(), (owner, index / 16));
        }
        assert!(SHAPE.origin(&Key::parse("step=1").unwrap()).is_err());
    }
}
