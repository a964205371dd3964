//! What one process does with a file.
use super::{Access, Options, Step};
use crate::job::Slot;
use crate::measure::{Measured, Until, measure};
use crate::payload::Payload;
use crate::posix::files::{FileSystem, OpenFile, Use};
use crate::posix::{compare, shuffled};
use esker_types::{Error, ErrorKind, Result};

/// The state of a process.
pub(in crate::posix) struct Session {
    files: Box<dyn FileSystem>,
    options: Options,
    rank: u32,
    procs: u32,
    payload: Payload,
    seed: u64,
    buffer: Vec<u8>,
    /// Between the parts of a phase.
    file: Option<Box<dyn OpenFile>>,
    /// Transfers in the order in which they come, where that is random.
    order: Vec<u64>,
}

impl Session {
    pub(in crate::posix) fn new(
        files: Box<dyn FileSystem>,
        options: Options,
        (rank, procs): (u32, u32),
        seed: u64,
    ) -> Self {
        let bytes = options.transfer_bytes as usize;
        let payload = Payload::new(seed, bytes);
        let (file, order) = Default::default();
        Self { files, options, rank, procs, payload, seed, buffer: vec![0; bytes], file, order }
    }

    /// Whose data this process works on.
    fn owner(&self, access: Access) -> u32 {
        let on = match access {
            Access::Read | Access::Check => u64::from(self.options.task_offset),
            Access::Write | Access::Remove => 0,
        };
        ((u64::from(self.rank) + on) % u64::from(self.procs.max(1))) as u32
    }

    /// What has to be known before the clock runs. The order is that of the writer, so that what it
    /// came to write before it was stopped is what is read.
    pub(in crate::posix) fn prepare(&mut self, step: &Step) {
        if self.options.random {
            let owner = u64::from(self.owner(step.access));
            self.order = shuffled(self.options.transfers(), self.seed ^ owner);
        }
    }

    /// Does it: the times of opening, of the transfers, and of closing.
    pub(in crate::posix) fn run(&mut self, step: &Step) -> Result<Vec<Measured>> {
        if step.access == Access::Remove {
            return self.remove().map(|()| Vec::new());
        }
        let path = self.options.path(self.owner(step.access));
        let opened = measure(Until::Ops(u64::from(step.open)), 0, |_| {
            let used = if step.access == Access::Write { Use::Create } else { Use::Read };
            self.file = Some(self.files.open(&path, used)?);
            Ok(())
        })?;
        let moved = self.transfer(step, &path)?;
        let closed = measure(Until::Ops(u64::from(step.close)), 0, |_| {
            self.file.take().map_or(Ok(()), |file| file.close())
        })?;
        Ok(vec![opened, moved, closed])
    }

    /// A sync at the end belongs to the time of the transfers.
    fn transfer(&mut self, step: &Step, path: &str) -> Result<Measured> {
        let Some(file) = self.file.take() else {
            return Err(Error::new(ErrorKind::Invalid, "the file is not open"));
        };
        let mut moved = measure(
            Until::of(step.end.saturating_sub(step.first), step.seconds),
            self.options.transfer_bytes,
            |index| self.one(&*file, step, path, step.first + index),
        )?;
        if step.close && step.access == Access::Write && self.options.sync {
            moved.end_s += measure(Until::Ops(1), 0, |_| file.sync())?.seconds();
        }
        self.file = Some(file);
        Ok(moved)
    }

    fn one(&mut self, file: &dyn OpenFile, step: &Step, path: &str, index: u64) -> Result<()> {
        let transfer = self.order.get(index as usize).copied().unwrap_or(index);
        let owner = self.owner(step.access);
        let offset = self.options.offset(owner, self.procs, transfer);
        let slot = Slot { rank: owner, round: step.round, op: transfer };
        match step.access {
            Access::Write => {
                file.write_at(offset, self.payload.block(slot))?;
                if self.options.sync_each { file.sync() } else { Ok(()) }
            }
            Access::Check => {
                self.buffer.fill(0);
                file.read_at(offset, &mut self.buffer)?;
                compare(path, offset, &self.buffer, self.payload.block(slot))
            }
            _ => file.read_at(offset, &mut self.buffer),
        }
    }

    /// One file of all is the first process's to remove.
    fn remove(&self) -> Result<()> {
        if self.rank > 0 && !self.options.file_per_process {
            return Ok(());
        }
        match self.files.remove(&self.options.path(self.rank)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}
