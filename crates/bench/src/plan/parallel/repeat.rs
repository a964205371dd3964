//! One repeat of one case: the phases of its access pattern, on all nodes together.
use super::super::store::write_limit;
use super::cases::Case;
use super::results::Done;
use super::{Location, ParallelPlan};
use crate::clock::{monotonic_of, unix_ns};
use crate::field_io::Pattern;
use crate::field_io::session::{self, Layout};
use crate::field_io::worker::{FieldIoStep, Job};
use crate::job;
use crate::measure::Measured;
use crate::plan::notice_ns;
use crate::processes::{Launcher, Processes, WorkerKind};
use crate::rendezvous::Rendezvous;
use crate::traces::{Kind, Trace};
use esker_types::Result;

/// Size of a process's file for the limit: much larger than caches, so that memory is measured.
const LIMIT_FILE_BYTES: u64 = 512 << 20;

/// Additional time before a start if other nodes have to see a file.
const NOTICE_NODES_NS: u64 = 500_000_000;

/// The state of one case.
pub(super) struct Stage<'p> {
    pub(super) plan: &'p ParallelPlan,
    pub(super) location: &'p Location,
    pub(super) case: &'p Case,
    pub(super) cpus: &'p [u32],
    pub(super) meeting: &'p mut Rendezvous,
    /// Processes that measure the limit, as many as work on the store.
    pub(super) limits: Processes,
}

/// Time 0 of the traces of a repeat.
#[derive(Clone, Copy)]
struct TimeOrigin {
    unix_ns: u64,
    monotonic_ns: u64,
}

/// The step of a process by its number; none if it does not take part.
type Role<'r> = &'r dyn Fn(u32) -> Option<FieldIoStep>;

impl Stage<'_> {
    /// Processes that measure the limit of a case.
    pub(super) fn limits(
        plan: &ParallelPlan,
        location: &Location,
        case: &Case,
    ) -> Result<Processes> {
        let job = job::Job {
            procs: case.procs_per_node,
            size_bytes: case.io_bytes(),
            ops: u64::from(case.ops).min(LIMIT_FILE_BYTES / case.io_bytes().max(1)).max(1),
            seed: plan.options.seed,
            folder: location.folder.clone(),
            ..job::Job::default()
        };
        super::super::start_processes(&job)
    }

    /// Runs a repeat. Repeat 0 is the warm-up.
    pub(super) fn repeat(&mut self, repeat: u32) -> Result<Vec<Done>> {
        let layout = self.create(repeat)?;
        let done = match self.case.pattern {
            Pattern::A => self.pattern_a(&layout, repeat),
            Pattern::B => self.pattern_b(&layout, repeat),
        };
        let met = done.is_ok().then(|| self.meeting.barrier());
        let removed = match self.meeting.who().is_first() {
            true => session::remove(self.location.pool()?, &layout, self.case.procs),
            false => Ok(()),
        };
        let done = done?;
        met.transpose()?;
        removed?;
        Ok(done)
    }

    fn create(&mut self, repeat: u32) -> Result<Layout> {
        let Self { location, case, meeting, .. } = self;
        let container = meeting.broadcast(|| {
            let label = format!("esker-bench-{}-{repeat}", std::process::id());
            location.create_container(&label)?;
            Ok(label)
        })?;
        Ok(Layout {
            pool: location.url.clone(),
            container,
            mode: case.mode,
            contention: case.contention,
            class_kv: case.class_kv.clone(),
            class_array: case.class_array.clone(),
        })
    }

    /// Unique writes by all processes, then unique reads by other processes.
    fn pattern_a(&mut self, layout: &Layout, repeat: u32) -> Result<Vec<Done>> {
        let count = if repeat == 0 { self.case.warm_up_ops() } else { self.case.ops };
        let step = |kind, owner| FieldIoStep { count, ..step(kind, Pattern::A, owner) };
        let limit = self.limit(|_| write_limit(self.location.durable))?;
        let mut writers = self.start_processes(layout, repeat, &|_| true)?;
        let zero = self.zero()?;
        let traces = self.phase(&mut writers, zero, &|process| Some(step(Kind::Write, process)))?;
        drop(writers);
        let write = Done { kind: Kind::Write, traces, limit, start_unix_ns: zero.unix_ns };
        if repeat == 0 {
            return Ok(vec![write]);
        }
        let limit = self.limit(|_| job::LoadStep::Pread)?;
        let mut readers = self.start_processes(layout, repeat, &|_| true)?;
        let owner = |process| owner_of(self.case, process);
        let reads = |process| Some(step(Kind::Read, owner(process)));
        let traces = self.phase(&mut readers, zero, &reads)?;
        if self.plan.options.verify {
            let verify = |process| {
                reads(process).map(|step| FieldIoStep { verify_before: Some(count), ..step })
            };
            self.phase(&mut readers, zero, &verify)?;
        }
        let read = Done { kind: Kind::Read, traces, limit, start_unix_ns: zero.unix_ns };
        Ok(vec![write, read])
    }

    /// One write by each process of the first half. Then they rewrite the same fields while the other half reads them.
    fn pattern_b(&mut self, layout: &Layout, repeat: u32) -> Result<Vec<Done>> {
        let (writers, ops) = (self.case.writers(), self.case.ops);
        let durable = self.location.durable;
        let set_up = |process| (process < writers).then(|| step(Kind::Write, Pattern::B, process));
        let mut processes = self.start_processes(layout, repeat, &|process| process < writers)?;
        let zero = self.zero()?;
        self.phase(&mut processes, zero, &set_up)?;
        drop(processes);
        let limit = self.limit(|process| match process < writers {
            true => write_limit(durable),
            false => job::LoadStep::Pread,
        })?;
        let role = |process: u32, first, verify_before| match process < writers {
            true => FieldIoStep { first, count: ops, ..step(Kind::Write, Pattern::B, process) },
            false => FieldIoStep {
                count: ops,
                verify_before,
                ..step(Kind::Read, Pattern::B, process - writers)
            },
        };
        let mut processes = self.start_processes(layout, repeat, &|_| true)?;
        let zero = self.zero()?;
        let traces = self.phase(&mut processes, zero, &|process| Some(role(process, 1, None)))?;
        if self.plan.options.verify {
            let verified = Some(1 + 2 * ops);
            self.phase(&mut processes, zero, &|process| Some(role(process, 1 + ops, verified)))?;
        }
        let (write_traces, read_traces) =
            traces.into_iter().partition(|trace: &Trace| trace.process < writers);
        let (write_limit, read_limit) = split(limit, writers as usize);
        let start_unix_ns = zero.unix_ns;
        Ok(vec![
            Done { kind: Kind::Write, traces: write_traces, limit: write_limit, start_unix_ns },
            Done { kind: Kind::Read, traces: read_traces, limit: read_limit, start_unix_ns },
        ])
    }

    /// Numbers of the processes of this node.
    fn processes(&self) -> std::ops::Range<u32> {
        let first = self.meeting.who().rank * self.case.procs_per_node;
        first..first + self.case.procs_per_node
    }

    /// Starts new processes on this node.
    fn start_processes(
        &self,
        layout: &Layout,
        repeat: u32,
        takes_part: &dyn Fn(u32) -> bool,
    ) -> Result<Processes> {
        let first = self.processes().start;
        let cpu = |process: u32| match self.cpus.len() {
            0 => None,
            count => self.cpus.get((process - first) as usize % count).copied(),
        };
        let jobs: Vec<_> = self
            .processes()
            .filter(|&process| takes_part(process))
            .map(|process| Job {
                node: super::node_name(),
                process,
                cpu: cpu(process),
                layout: layout.clone(),
                segments: self.case.segments(),
                io_bytes: self.case.io_bytes(),
                seed: self.plan.options.seed,
                repeat,
            })
            .collect();
        let variables = self.plan.variables.clone();
        let launcher = Launcher { variables, ..Launcher::for_kind(WorkerKind::FieldIo)? };
        Processes::start(&launcher, &jobs)
    }

    /// Time 0 of a repeat, slightly in the future.
    fn zero(&mut self) -> Result<TimeOrigin> {
        let unix_ns = self.agree()?;
        Ok(TimeOrigin { unix_ns, monotonic_ns: monotonic_of(unix_ns) })
    }

    /// Rank 0 sets the start once all ranks are ready.
    fn agree(&mut self) -> Result<u64> {
        let nodes = if self.meeting.who().ranks > 1 { NOTICE_NODES_NS } else { 0 };
        let notice = notice_ns(u64::from(self.case.procs)) + nodes;
        self.meeting.barrier()?;
        self.meeting.broadcast(|| Ok(unix_ns() + notice))
    }

    /// Makes the processes of all nodes begin at the same time. Segments do so in every iteration, as IOR has barriers
    /// before the open and after the close.
    fn phase(
        &mut self,
        processes: &mut Processes,
        zero: TimeOrigin,
        role: Role<'_>,
    ) -> Result<Vec<Trace>> {
        if self.case.objects.is_none() {
            return self.together(processes, zero, role);
        }
        let mut all: Vec<Trace> = Vec::new();
        let count = self.processes().find_map(role).map_or(0, |step| step.count);
        for first in 0..count {
            let one = |process| role(process).map(|step| FieldIoStep { first, count: 1, ..step });
            let traces = self.together(processes, zero, &one)?;
            match all.is_empty() {
                true => all = traces,
                false => append(&mut all, traces),
            }
        }
        Ok(all)
    }

    fn together(
        &mut self,
        processes: &mut Processes,
        zero: TimeOrigin,
        role: Role<'_>,
    ) -> Result<Vec<Trace>> {
        let start = self.agree()?.max(zero.unix_ns);
        let start_ns = zero.monotonic_ns + (start - zero.unix_ns);
        let timed = |step| FieldIoStep { zero_ns: zero.monotonic_ns, start_ns, ..step };
        let steps: Vec<_> = self.processes().filter_map(role).map(timed).collect();
        let traces: Vec<Trace> = processes.ask(&steps)?;
        Ok(self.meeting.gather(traces)?.into_iter().flatten().collect())
    }

    /// Measures the limit of the medium with the processes of all nodes.
    fn limit(&mut self, step: impl Fn(u32) -> job::LoadStep) -> Result<Vec<Measured>> {
        let steps: Vec<_> = self.processes().map(step).collect();
        self.meeting.barrier()?;
        let measured: Vec<Measured> = self.limits.ask(&steps)?;
        Ok(self.meeting.gather(measured)?.into_iter().flatten().collect())
    }
}

fn step(kind: Kind, pattern: Pattern, owner: u32) -> FieldIoStep {
    FieldIoStep {
        kind,
        pattern,
        owner,
        first: 0,
        count: 1,
        zero_ns: 0,
        start_ns: 0,
        verify_before: None,
    }
}

/// The process whose fields a reader of pattern A reads: the next one, on the next node if there are several, so that
/// its own caches do not have them.
fn owner_of(case: &Case, process: u32) -> u32 {
    let shift = if case.procs > case.procs_per_node { case.procs_per_node } else { 1 };
    (process + shift) % case.procs.max(1)
}

fn append(all: &mut [Trace], more: Vec<Trace>) {
    for (trace, more) in all.iter_mut().zip(more) {
        trace.execution_end_ns = more.execution_end_ns;
        trace.ios.extend(more.ios);
    }
}

fn split<T>(mut all: Vec<T>, at: usize) -> (Vec<T>, Vec<T>) {
    let rest = all.split_off(at.min(all.len()));
    (all, rest)
}
