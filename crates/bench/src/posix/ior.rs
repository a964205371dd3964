//! The work of `ior`: large transfers to and from one file per process or a shared file.
use crate::errors::ensure_valid;
use crate::job::Slot;
use crate::measure::{Measured, Until, measure};
use crate::plan::parse_size;
use crate::posix::{Done, Job, OpenFile, Process, Use, compare};
use crate::worker::Work;
use esker_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Maximum size of a transfer, which is kept in memory.
pub const TRANSFER_BYTES_MAX: u64 = 1 << 30;

/// Maximum number of transfers of one process in one phase.
pub const TRANSFERS_MAX: u64 = 1 << 32;

/// The options, the same for all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Options {
    /// File; with -F, the number of the process is appended to its name
    #[arg(short = 'o', value_name = "FILE")]
    pub file: PathBuf,
    /// Contiguous bytes of each process in a segment
    #[arg(short = 'b', value_name = "SIZE", default_value = "1MiB", value_parser = parse_size)]
    pub block_bytes: u64,
    /// Size of one read or write
    #[arg(short = 't', value_name = "SIZE", default_value = "256KiB", value_parser = parse_size)]
    pub transfer_bytes: u64,
    /// Number of segments; each has a block of every process
    #[arg(short = 's', value_name = "N", default_value_t = 1)]
    pub segments: u64,
    /// Use one file per process
    #[arg(short = 'F')]
    pub file_per_process: bool,
    /// Read what another process wrote
    #[arg(short = 'C')]
    pub reorder: bool,
    /// Distance to the process whose data -C reads
    #[arg(short = 'Q', value_name = "N", default_value_t = 1)]
    pub distance: u32,
    /// Sync at the end of writing, and include it in the time
    #[arg(short = 'e')]
    pub sync: bool,
    /// Sync after each write
    #[arg(short = 'Y')]
    pub sync_each: bool,
    /// Transfer in random order
    #[arg(short = 'z')]
    pub random: bool,
}

/// An access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Remove the file if it exists.
    Remove,
    /// Write the file.
    Write,
    /// Read the file.
    Read,
    /// Read and compare the file; not measured.
    Check,
}

/// A part of a phase of one process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct IorStep {
    /// Operation of the step.
    pub access: Access,
    /// The data depends on this, the process and the offset.
    pub round: u32,
    /// Open the file first.
    pub open: bool,
    /// The first transfer.
    pub first: u64,
    /// The transfer after the last.
    pub end: u64,
    /// End after this time even if transfers are left.
    pub seconds: Option<f64>,
    /// At the end, sync the file if [`Options::sync`], and close it.
    pub close: bool,
}

impl Options {
    /// Transfers of one process in one phase.
    pub fn transfers(&self) -> u64 {
        (self.block_bytes / self.transfer_bytes.max(1)).saturating_mul(self.segments)
    }

    /// Bytes of all processes in one phase.
    pub fn bytes(&self, procs: u32) -> u64 {
        self.block_bytes.saturating_mul(self.segments).saturating_mul(u64::from(procs))
    }

    /// Readers read the data of the process this many numbers after them.
    pub fn task_offset(&self) -> u32 {
        if self.reorder { self.distance } else { 0 }
    }

    /// Name of the file; empty if it has none.
    fn name(&self) -> &str {
        self.file.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Checks the options.
    pub fn check(&self) -> Result<()> {
        let Self { block_bytes, transfer_bytes, .. } = *self;
        ensure_valid((1..=TRANSFER_BYTES_MAX).contains(&transfer_bytes), || {
            format!("a transfer -t must have 1 to {TRANSFER_BYTES_MAX} bytes")
        })?;
        ensure_valid(
            block_bytes > 0 && block_bytes.is_multiple_of(transfer_bytes),
            || "a block -b must be a multiple of the transfer -t",
        )?;
        // [`Options::bytes`] saturates: offsets must fit in 64 bits for any number of processes.
        let is_countable = self.bytes(u32::MAX) < u64::MAX;
        ensure_valid(is_countable && (1..=TRANSFERS_MAX).contains(&self.transfers()), || {
            format!("each process must have 1 to {TRANSFERS_MAX} transfers: change -b, -t or -s")
        })?;
        ensure_valid(!self.name().is_empty(), || "the file -o has no name")
    }

    /// Offset of a transfer of a process in its file.
    pub fn offset(&self, rank: u32, procs: u32, transfer: u64) -> u64 {
        let in_block = self.block_bytes / self.transfer_bytes;
        let (segment, within) = (transfer / in_block, transfer % in_block);
        let block = match self.file_per_process {
            true => segment,
            false => segment * u64::from(procs) + u64::from(rank),
        };
        block * self.block_bytes + within * self.transfer_bytes
    }

    /// The file of a process.
    pub fn path(&self, rank: u32) -> String {
        match self.file_per_process {
            true => format!("{}.{rank:08}", self.name()),
            false => self.name().to_owned(),
        }
    }
}

/// The state of a process.
pub struct Worker {
    process: Process,
    options: Options,
    /// The open file between the parts of a phase.
    file: Option<Box<dyn OpenFile>>,
    /// The order of transfers if it is random.
    order: Vec<u64>,
}

impl Work for Worker {
    type Job = Job<Options>;
    type Step = IorStep;
    type Done = Done;

    fn begin(job: Job<Options>) -> Result<Self> {
        let process = Process::new(&job, job.options.transfer_bytes)?;
        Ok(Self { process, options: job.options, file: None, order: Vec::new() })
    }

    /// Draws a random order before the time of a step starts. Readers use the order of the writer, so that they read what it wrote
    /// before the stonewall.
    fn prepare(&mut self, step: &IorStep) -> Result<()> {
        if self.options.random {
            let owner = self.owner(step.access);
            self.order = self.process.shuffled(self.options.transfers(), owner);
        }
        Ok(())
    }

    /// Opens the file, makes the transfers and closes it, as `step` says, and returns the times of the three. A step
    /// may instead remove the file.
    fn take(&mut self, step: IorStep) -> Result<Done> {
        if step.access == Access::Remove {
            return self.remove().map(|()| Done::new(Vec::new()));
        }
        let path = self.options.path(self.owner(step.access));
        let opened = measure(Until::ops(u64::from(step.open)), 0, |_| {
            let used = if step.access == Access::Write { Use::Create } else { Use::Read };
            self.file = Some(self.process.files.open(&path, used)?);
            Ok(())
        })?;
        let moved = self.transfer(&step, &path)?;
        let closed = measure(Until::ops(u64::from(step.close)), 0, |_| {
            self.file.take().map_or(Ok(()), |file| file.close())
        })?;
        Ok(Done::new(vec![opened, moved, closed]))
    }
}

impl Worker {
    /// The process whose data this process accesses.
    fn owner(&self, access: Access) -> u32 {
        self.process.member.next(match access {
            Access::Read | Access::Check => u64::from(self.options.task_offset()),
            Access::Write | Access::Remove => 0,
        })
    }

    /// Makes the transfers of a step on the open file. If the options demand a sync, the time includes it.
    fn transfer(&mut self, step: &IorStep, path: &str) -> Result<Measured> {
        let Some(file) = self.file.take() else {
            return Err(Error::new(ErrorKind::Invalid, "the file is not open"));
        };
        let mut moved = measure(
            Until::limits(step.end.saturating_sub(step.first), step.seconds),
            self.options.transfer_bytes,
            |index| self.transfer_one(&*file, step, path, step.first + index),
        )?;
        if step.close && step.access == Access::Write && self.options.sync {
            moved.end_s += measure(Until::ops(1), 0, |_| file.sync())?.seconds();
        }
        self.file = Some(file);
        Ok(moved)
    }

    /// Writes or reads one transfer, and checks what was read.
    fn transfer_one(
        &mut self,
        file: &dyn OpenFile,
        step: &IorStep,
        path: &str,
        index: u64,
    ) -> Result<()> {
        let transfer = self.order.get(index as usize).copied().unwrap_or(index);
        let owner = self.owner(step.access);
        let offset = self.options.offset(owner, self.process.member.procs, transfer);
        let slot = Slot { rank: owner, round: step.round, op: transfer };
        match step.access {
            Access::Write => {
                file.write_at(offset, self.process.payload.block(slot))?;
                if self.options.sync_each { file.sync() } else { Ok(()) }
            }
            Access::Check => {
                self.process.buffer.fill(0);
                file.read_at(offset, &mut self.process.buffer)?;
                compare(path, offset, &self.process.buffer, self.process.payload.block(slot))
            }
            _ => file.read_at(offset, &mut self.process.buffer),
        }
    }

    /// Removes the file of this process; a shared file is removed by the first process. A missing file is not an error.
    fn remove(&self) -> Result<()> {
        if self.process.member.rank > 0 && !self.options.file_per_process {
            return Ok(());
        }
        match self.process.files.remove(&self.options.path(self.process.member.rank)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            block_bytes: 40,
            transfer_bytes: 10,
            segments: 2,
            file: "f".into(),
            distance: 1,
            ..Options::default()
        }
    }

    #[test]
    fn every_byte_of_a_shared_file_belongs_to_one_transfer() {
        let options = options();
        let offsets = |rank| (0..options.transfers()).map(move |index| (rank, index));
        let mut all: Vec<_> =
            (0..3).flat_map(offsets).map(|(rank, index)| options.offset(rank, 3, index)).collect();
        assert_eq!(options.offset(1, 3, 5), 40 * 4 + 10);
        all.sort_unstable();
        assert_eq!(all, (0..24).map(|index| index * 10).collect::<Vec<_>>());
        assert_eq!(options.path(1), "f");
    }

    #[test]
    fn a_file_of_one_process_has_no_holes() {
        let options = Options { file_per_process: true, ..options() };
        let all: Vec<_> = (0..8).map(|index| options.offset(1, 3, index)).collect();
        assert_eq!(all, (0..8).map(|index| index * 10).collect::<Vec<_>>());
        assert_eq!(options.path(1), "f.00000001");
    }

    #[test]
    fn indivisible_sizes_are_refused() {
        assert!(options().check().is_ok());
        let refused = |options: Options| options.check().unwrap_err().message().to_owned();
        assert!(refused(Options { block_bytes: 45, ..options() }).contains("-b"));
        assert!(refused(Options { transfer_bytes: 0, ..options() }).contains("-t"));
        assert!(refused(Options { segments: 0, ..options() }).contains("-s"));
        assert!(refused(Options { segments: u64::MAX, ..options() }).contains("-s"));
        assert!(refused(Options { file: "/".into(), ..options() }).contains("-o"));
    }
}
