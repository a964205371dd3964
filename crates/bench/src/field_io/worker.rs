//! One process of `field-io` or `segments`. It waits for the common start, then works without a pause.
use super::segments::Segments;
use super::session::{Layout, Session};
use super::{Event, Field, Mode, Pattern, Stamper};
use crate::buffer::Buffer;
use crate::clock::{monotonic_ns, wait_until};
use crate::errors::{Doing, ensure_intact};
use crate::job::{Member, Slot};
use crate::payload::Payload;
use crate::traces::{Kind, Trace};
use crate::worker::Work;
use esker_types::Result;
use serde::{Deserialize, Serialize};

/// Arrays have chunks of this size, the default of DAOS. Smaller Arrays have one chunk.
pub const CHUNK_BYTES: u64 = 1 << 20;

/// The job of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Name of its node.
    pub node: String,
    /// The process among those of all nodes.
    pub member: Member,
    /// The pool and its layout.
    pub layout: Layout,
    /// Options of `segments`.
    pub segments: Option<Segments>,
    /// Bytes of one operation.
    pub io_bytes: u64,
    /// Number of the repeat. The payload of each repeat differs.
    pub repeat: u32,
}

/// Consecutive iterations of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldIoStep {
    /// Operation of the step.
    pub kind: Kind,
    /// The access pattern. In A every iteration has its own field; in B all iterations have the same field.
    pub pattern: Pattern,
    /// The process that owns the fields.
    pub owner: u32,
    /// The first iteration. In B, the initial write is iteration 0 of the owner.
    pub first: u32,
    /// Number of iterations.
    pub count: u32,
    /// Time 0 of the traces, by the monotonic clock of the node.
    pub zero_ns: u64,
    /// The common start, by the same clock.
    pub start_ns: u64,
    /// For reads: compares the data after the time of each I/O. In pattern B the data must be that of one of the writes
    /// before this number.
    pub verify_before: Option<u32>,
}

/// The state of a process.
pub struct Worker {
    job: Job,
    session: Session,
    payload: Payload,
    buffer: Buffer,
}

impl Work for Worker {
    type Job = Job;
    type Step = FieldIoStep;
    type Done = Trace;

    fn begin(job: Job) -> Result<Self> {
        job.member.pin()?;
        let part_bytes = job.segments.map_or(job.io_bytes, |segments| segments.part_bytes);
        let session = Session::open(job.layout.clone(), part_bytes.min(CHUNK_BYTES))?;
        Self::new(job, session)
    }

    fn take(&mut self, step: FieldIoStep) -> Result<Trace> {
        let execution_start = monotonic_ns();
        wait_until(step.start_ns);
        let ios = (step.first..step.first + step.count).map(|iteration| {
            self.session.stamper = Stamper::new(step.zero_ns);
            self.iterate(&step, iteration).doing(|| {
                format!("{} {iteration} of the fields of process {}", step.kind.name(), step.owner)
            })?;
            Ok(self.session.stamper.stamps())
        });
        let ios = ios.collect::<Result<_>>()?;
        Ok(Trace {
            node: self.job.node.clone(),
            process: self.job.member.rank,
            pid: std::process::id(),
            cpu: self.job.member.cpu,
            bytes: self.job.io_bytes,
            execution_start_ns: execution_start.saturating_sub(step.zero_ns),
            execution_end_ns: monotonic_ns().saturating_sub(step.zero_ns),
            ios,
        })
    }
}

impl Worker {
    fn new(job: Job, session: Session) -> Result<Self> {
        let payload = Payload::new(job.member.seed, job.io_bytes)?;
        Ok(Self { session, payload, buffer: Buffer::new(job.io_bytes)?, job })
    }

    /// Measures one write or read of a field.
    fn iterate(&mut self, step: &FieldIoStep, iteration: u32) -> Result<()> {
        let index = if step.pattern == Pattern::A { iteration } else { 0 };
        let field = Field { process: step.owner, index };
        match step.kind {
            Kind::Write => self.write(field, iteration),
            Kind::Read => {
                if step.verify_before.is_some() {
                    self.buffer.fill(0);
                }
                self.read(field)?;
                match step.verify_before {
                    Some(before) => self.verify(step, iteration, before),
                    None => Ok(()),
                }
            }
        }
    }

    /// Writes a field, and records the times of start and end.
    fn write(&mut self, field: Field, iteration: u32) -> Result<()> {
        let Self { session, payload, job, .. } = self;
        let data = payload.block(slot(job.repeat, field.process, iteration));
        session.stamper.mark(Event::IoStart);
        match job.segments {
            Some(segments) => session.write_segments(segments, field, data)?,
            None => session.write(field, data)?,
        }
        session.stamper.mark(Event::IoEnd);
        Ok(())
    }

    /// Reads a field, and records the times of start and end.
    fn read(&mut self, field: Field) -> Result<()> {
        let Self { session, buffer, job, .. } = self;
        session.stamper.mark(Event::IoStart);
        match job.segments {
            Some(segments) => session.read_segments(segments, field, buffer)?,
            None => session.read(field, buffer)?,
        }
        session.stamper.mark(Event::IoEnd);
        Ok(())
    }

    /// Checks that the buffer holds one of the blocks that its field may have: in pattern A that of the iteration, in
    /// pattern B any of the first `before`.
    ///
    /// Without an index, fields are overwritten in place, so a read may see several blocks. Then each chunk must be of
    /// one block. If the store does not write Arrays atomically, each byte must be of one of the blocks.
    fn verify(&self, step: &FieldIoStep, iteration: u32, before: u32) -> Result<()> {
        let from = match step.pattern {
            Pattern::A => iteration..iteration + 1,
            Pattern::B => 0..before,
        };
        let slots = || from.clone().map(|written| slot(self.job.repeat, step.owner, written));
        let in_place = self.job.layout.mode == Mode::NoIndex && self.job.segments.is_none();
        let unit = if in_place { CHUNK_BYTES as usize } else { self.buffer.len() };
        let mut units = self.buffer.chunks(unit.max(1)).enumerate();
        let is_torn = |at: usize, bytes: &[u8]| {
            in_place && !self.session.is_atomic() && self.payload.is_mixed(bytes, at, slots())
        };
        let is_right = |(number, bytes): (usize, &[u8])| {
            let at = number * unit;
            self.payload.is_of_one(bytes, at, slots()) || is_torn(at, bytes)
        };
        ensure_intact(units.all(is_right), || "the data read is not the data written")
    }
}

fn slot(repeat: u32, rank: u32, iteration: u32) -> Slot {
    Slot { rank, round: repeat, op: u64::from(iteration) }
}

#[cfg(test)]
mod tests;
