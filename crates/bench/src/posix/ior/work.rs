//! Operations of one process on a file.
use super::{Access, IorStep, Options};
use crate::job::Slot;
use crate::measure::{Measured, Until, measure};
use crate::posix::{Done, Job, OpenFile, Process, Use, compare};
use crate::worker::Work;
use esker_types::{Error, ErrorKind, Result};

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

    /// Takes a step. Returns the times of open, transfers and close.
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

    /// The time of the transfers includes a sync at the end.
    fn transfer(&mut self, step: &IorStep, path: &str) -> Result<Measured> {
        let Some(file) = self.file.take() else {
            return Err(Error::new(ErrorKind::Invalid, "the file is not open"));
        };
        let mut moved = measure(
            Until::limits(step.end.saturating_sub(step.first), step.seconds),
            self.options.transfer_bytes,
            |index| self.one(&*file, step, path, step.first + index),
        )?;
        if step.close && step.access == Access::Write && self.options.sync {
            moved.end_s += measure(Until::ops(1), 0, |_| file.sync())?.seconds();
        }
        self.file = Some(file);
        Ok(moved)
    }

    fn one(&mut self, file: &dyn OpenFile, step: &IorStep, path: &str, index: u64) -> Result<()> {
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

    /// The first process removes a shared file.
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
