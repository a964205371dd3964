//! Operations of one process on items.
use super::tree::{Paths, top};
use super::{Kind, MdtestStep, Options, Phase};
use crate::errors::ensure_intact;
use crate::job::{Member, Slot};
use crate::measure::{Measured, Until, measure};
use crate::posix::{Done, Job, Process, Use, compare};
use crate::worker::Work;
use esker_types::Result;

/// The state of a process.
pub struct Worker {
    process: Process,
    options: Options,
    path: String,
    /// The paths of the present iteration.
    paths: Option<(u32, Paths)>,
    /// The order in which items are examined if it is random.
    order: Vec<u64>,
}

impl Work for Worker {
    type Job = Job<Options>;
    type Step = MdtestStep;
    type Done = Done;

    fn begin(job: Job<Options>) -> Result<Self> {
        let process = Process::new(&job, job.options.write_bytes.max(job.options.read_bytes))?;
        let (path, order, paths) = Default::default();
        Ok(Self { process, options: job.options, path, paths, order })
    }

    /// Computes paths and the random order before the time of a step starts.
    fn prepare(&mut self, step: &MdtestStep) -> Result<()> {
        if self.paths.as_ref().is_none_or(|(iteration, _)| *iteration != step.iteration) {
            self.paths = Some((
                step.iteration,
                Paths::new(&self.options, self.process.member.procs, step.iteration),
            ));
        }
        self.order = match (step.phase, self.options.random_stat) {
            (Phase::Stat(_), true) => self.process.shuffled(step.end, self.process.member.rank),
            _ => Vec::new(),
        };
        Ok(())
    }

    fn take(&mut self, step: MdtestStep) -> Result<Done> {
        let Some((_, paths)) = self.paths.take() else { return Ok(Done::default()) };
        let measured = match step.phase {
            Phase::TopCreate | Phase::TopRemove => self.top(&step),
            Phase::TreeCreate | Phase::TreeRemove => self.tree(&step, &paths),
            Phase::List(_) => self.list(&paths),
            _ => self.items(&step, &paths),
        };
        self.paths = Some((step.iteration, paths));
        Ok(Done::new(vec![measured?]))
    }
}

impl Worker {
    /// The first process creates and removes the directory of an iteration.
    fn top(&self, step: &MdtestStep) -> Result<Measured> {
        let top = top(step.iteration);
        match (self.process.member.rank, step.phase) {
            (0, Phase::TopCreate) => self.process.files.make_dir(&top)?,
            (0, _) => self.process.files.remove_dir(&top)?,
            _ => {}
        }
        Ok(Measured::default())
    }

    /// Creates or removes the directories of the tree. The first process does so for a shared tree.
    fn tree(&self, step: &MdtestStep, paths: &Paths) -> Result<Measured> {
        let mine = if self.options.unique || self.process.member.rank == 0 {
            paths.directories(self.process.member.rank)
        } else {
            &[]
        };
        measure(until_all(mine), 0, |index| match step.phase {
            Phase::TreeCreate => self.process.files.make_dir(&mine[index as usize]),
            _ => self.process.files.remove_dir(&mine[mine.len() - 1 - index as usize]),
        })
    }

    /// Counts names, not calls.
    fn list(&self, paths: &Paths) -> Result<Measured> {
        let all = paths.directories(self.process.member.rank);
        let Member { rank, procs, .. } = self.process.member;
        let (from, step_by) =
            if self.options.unique { (0, 1) } else { (rank as usize, procs as usize) };
        let mine: Vec<_> = all.iter().skip(from).step_by(step_by).collect();
        let mut names = 0;
        let mut measured = measure(until_all(&mine), 0, |index| {
            names += self.process.files.list(mine[index as usize])?;
            Ok(())
        })?;
        measured.ops = names;
        Ok(measured)
    }

    fn items(&mut self, step: &MdtestStep, paths: &Paths) -> Result<Measured> {
        let owner = self.owner(step.phase);
        let bytes = match step.phase {
            Phase::Create(Kind::File) => self.options.write_bytes,
            Phase::Read => self.options.read_bytes,
            _ => 0,
        };
        let mut path = std::mem::take(&mut self.path);
        let measured = measure(
            Until::limits(step.end.saturating_sub(step.first), step.seconds),
            bytes,
            |index| {
                let item = self.order.get(index as usize).copied().unwrap_or(step.first + index);
                let slot = Slot { rank: owner, round: step.iteration, op: item };
                paths.item(&mut path, step.phase.kind(), owner, item);
                self.item(step.phase, &path, slot)
            },
        );
        self.path = path;
        measured
    }

    /// The process whose items this process accesses. Each phase moves on by a stride.
    fn owner(&self, phase: Phase) -> u32 {
        let strides = match phase {
            Phase::Stat(_) => 1,
            Phase::Read => 2,
            Phase::Remove(_) => 3,
            _ => 0,
        };
        self.process.member.next(u64::from(self.options.stride) * strides)
    }

    fn item(&mut self, phase: Phase, path: &str, slot: Slot) -> Result<()> {
        match phase {
            Phase::Create(Kind::Directory) => self.process.files.make_dir(path),
            Phase::Create(Kind::File) => self.create(path, slot),
            Phase::Stat(kind) => self.stat(kind, path),
            Phase::Read => self.read(path, slot),
            Phase::Remove(Kind::Directory) => self.process.files.remove_dir(path),
            _ => self.process.files.remove(path),
        }
    }

    fn create(&self, path: &str, slot: Slot) -> Result<()> {
        let file = self.process.files.open(path, Use::Create)?;
        if self.options.write_bytes > 0 {
            file.write_at(
                0,
                &self.process.payload.block(slot)[..self.options.write_bytes as usize],
            )?;
        }
        if self.options.sync {
            file.sync()?;
        }
        file.close()
    }

    fn stat(&self, kind: Kind, path: &str) -> Result<()> {
        let size = self.process.files.stat(path)?;
        let written = self.options.write_bytes;
        let is_intact = !self.options.verify || kind == Kind::Directory || size == written;
        ensure_intact(is_intact, || format!("{path} has {size} bytes, but {written} were written"))
    }

    fn read(&mut self, path: &str, slot: Slot) -> Result<()> {
        let file = self.process.files.open(path, Use::Read)?;
        let wanted = self.options.read_bytes as usize;
        if wanted > 0 {
            file.read_at(0, &mut self.process.buffer[..wanted])?;
        }
        if self.options.verify {
            compare(path, 0, &self.process.buffer[..wanted], self.process.payload.block(slot))?;
        }
        file.close()
    }
}

fn until_all<T>(all: &[T]) -> Until {
    Until::ops(all.len() as u64)
}
