//! GRIB messages of the user, archived under their own keys.
use super::session::Session;
use crate::job::Slot;
use crate::load::Load;
use crate::measure::{Measured, Meter};
use esker_fields::grib::{EcCodes, Identify, Learned, Scan};
use esker_types::{Error, ErrorKind, Result};
use std::ops::Range;
use std::path::Path;

/// The messages of a file.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    /// Byte range of each message; at least one.
    ranges: Vec<Range<usize>>,
}

impl Messages {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, has no message or a damaged one.
    pub fn read(path: &Path) -> Result<Self> {
        let named = |error: &Error| {
            Error::new(error.kind(), format!("--grib {}: {}", path.display(), error.message()))
        };
        let bytes = std::fs::read(path)
            .map_err(|error| Error::io(format!("reading {}", path.display()), &error))?;
        let messages = Scan::new(&bytes).map(|message| {
            message.map(|one| one.offset as usize..one.offset as usize + one.bytes.len())
        });
        let ranges = messages.collect::<Result<Vec<_>>>().map_err(|error| named(&error))?;
        if ranges.is_empty() {
            return Err(named(&Error::new(ErrorKind::Invalid, "it contains no GRIB message")));
        }
        Ok(Self { bytes, ranges })
    }

    /// Offset and length of each message in bytes.
    #[must_use]
    pub fn ranges(&self) -> Vec<(usize, usize)> {
        self.ranges.iter().map(|range| (range.start, range.len())).collect()
    }

    /// Number of messages.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Bytes of the longest message.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.ranges.iter().map(|range| range.len() as u64).max().unwrap_or(0)
    }

    /// The share of one process, round-robin; all messages if there are fewer than processes.
    #[must_use]
    pub fn share(mut self, rank: u32, procs: u32) -> Self {
        if self.ranges.len() >= procs as usize {
            let own = self.ranges.iter().skip(rank as usize).step_by(procs.max(1) as usize);
            self.ranges = own.cloned().collect();
        }
        self
    }

    /// The messages in order; after the last, the first again.
    fn nth(&self, number: u64) -> &[u8] {
        let range = self.ranges.get(number as usize % self.ranges.len().max(1));
        range.and_then(|range| self.bytes.get(range.clone())).unwrap_or_default()
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ranges.len() as u64).map(|number| self.nth(number))
    }
}

impl Session {
    /// Archives as many messages as there are fields. The cache of their keys lasts for the phase.
    pub(super) fn archive_grib(&mut self) -> Result<Measured> {
        let (shape, mut writer) = (self.job.shape, self.store()?.writer());
        let mut meter = Meter::start();
        let told = Learned::new(EcCodes::new()?);
        for number in 0..shape.fields() {
            let message = self.messages.nth(number);
            writer.archive(&told.identify(message)?, message)?;
            if (number + 1) % shape.per_step() == 0 {
                writer.flush()?;
            }
            meter.tick(1, message.len() as u64)?;
        }
        Ok(meter.finish())
    }

    /// Writes a plain file for each message.
    pub(super) fn grib_files(&mut self, round: u32) -> Result<Measured> {
        let (rank, fields) = (self.job.rank, self.job.shape.fields());
        let Self { open, messages, .. } = self;
        let mut meter = Meter::start();
        for op in 0..fields {
            let message = messages.nth(op);
            let files = open.as_mut().map(|(_, open)| &mut open.files);
            files.map_or(Ok(()), |files| files.write(Slot { rank, round, op }, message))?;
            meter.tick(1, message.len() as u64)?;
        }
        Ok(meter.finish())
    }

    /// Retrieves every archived message, and checks that it is a message of the file.
    pub(super) fn verify_grib(&mut self) -> Result<Measured> {
        let (told, store) = (EcCodes::new()?, self.store()?);
        let mut meter = Meter::start();
        let archived = self.messages.iter().take(self.job.shape.fields() as usize);
        for message in archived {
            let key = told.identify(message)?;
            let found = store.field(&key)?.read()?;
            if !self.messages.iter().any(|one| one == found) {
                let text = format!("{key}: the field retrieved is not a message of the file");
                return Err(Error::new(ErrorKind::Corrupt, text));
            }
            meter.tick(1, found.len() as u64)?;
        }
        Ok(meter.finish())
    }
}
