//! GRIB messages of the user, archived under their own keys.
use super::worker::Worker;
use crate::errors::{Doing, ensure_intact, ensure_valid};
use crate::measure::{Measured, Meter};
use esker_fields::grib::{EcCodes, Identify, Learned, Scan};
use esker_types::Result;
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
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).doing(|| format!("reading {}", path.display()))?;
        let messages = Scan::new(&bytes).map(|message| {
            message.map(|one| one.offset as usize..one.offset as usize + one.bytes.len())
        });
        let option = || format!("--grib {}", path.display());
        let ranges = messages.collect::<Result<Vec<_>>>().doing(option)?;
        ensure_valid(!ranges.is_empty(), || format!("{}: it contains no GRIB message", option()))?;
        Ok(Self { bytes, ranges })
    }

    /// Offset and length of each message in bytes.
    pub fn ranges(&self) -> Vec<(usize, usize)> {
        self.ranges.iter().map(|range| (range.start, range.len())).collect()
    }

    /// Number of messages.
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Bytes of the longest message.
    pub fn longest(&self) -> u64 {
        self.ranges.iter().map(|range| range.len() as u64).max().unwrap_or(0)
    }

    /// The share of one process, round-robin; all messages if there are fewer than processes.
    pub fn share(mut self, rank: u32, procs: u32) -> Self {
        if self.ranges.len() >= procs as usize {
            let own = self.ranges.iter().skip(rank as usize).step_by(procs.max(1) as usize);
            self.ranges = own.cloned().collect();
        }
        self
    }

    /// Message `number` of the file, counted from 0. After the last message, the count continues with the first.
    pub(super) fn nth(&self, number: u64) -> &[u8] {
        let range = self.ranges.get(number as usize % self.ranges.len().max(1));
        range.and_then(|range| self.bytes.get(range.clone())).unwrap_or_default()
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ranges.len() as u64).map(|number| self.nth(number))
    }
}

impl Worker {
    /// Archives as many messages as there are fields. Rules for reading keys that are learned from the first messages
    /// are used in this phase only.
    pub(super) fn archive_grib(&mut self) -> Result<Measured> {
        let (shape, mut writer) = (self.job.shape, self.store()?.writer());
        let mut meter = Meter::start();
        let key_reader = Learned::new(EcCodes::new()?);
        for number in 0..shape.fields() {
            let message = self.messages.nth(number);
            writer.archive(&key_reader.identify(message)?, message)?;
            if (number + 1) % shape.per_step() == 0 {
                writer.flush()?;
            }
            meter.tick(1, message.len() as u64)?;
        }
        Ok(meter.finish())
    }

    /// Retrieves every archived message, and checks that it is a message of the file. It need not be the same one,
    /// because a later message with the same key replaces it.
    pub(super) fn verify_grib(&mut self) -> Result<Measured> {
        let (key_reader, store) = (EcCodes::new()?, self.store()?);
        let mut meter = Meter::start();
        let archived = self.messages.iter().take(self.job.shape.fields() as usize);
        for message in archived {
            let key = key_reader.identify(message)?;
            let found = store.field(&key)?.read()?;
            ensure_intact(self.messages.iter().any(|one| one == found), || {
                format!("{key}: the field retrieved is not a message of the file")
            })?;
            meter.tick(1, found.len() as u64)?;
        }
        Ok(meter.finish())
    }
}
