//! One repeat of one case: the phases of its access pattern, on all nodes together.
use super::super::store::write_limit;
use super::super::{LoadProcesses, start_processes};
use super::cases::Case;
use super::results::{self, Done, Series};
use super::{Location, ParallelPlan};
use crate::clock::{monotonic_of, unix_ns};
use crate::field_io::Pattern;
use crate::field_io::session::{self, Layout};
use crate::field_io::worker::{FieldIoStep, Job};
use crate::job::{self, LoadStep, Member};
use crate::limit::LIMIT_FILE_BYTES;
use crate::measure::Measured;
use crate::pin::cpu_of;
use crate::plan::Note;
use crate::processes::{Launcher, Processes, WorkerKind, notice_ns};
use crate::rendezvous::Rendezvous;
use crate::traces::{Kind, Trace, TraceOrigin, Writer};
use esker_types::Result;

type FieldIoProcesses = Processes<FieldIoStep, Trace>;

/// Additional time before a start if other nodes have to see a file.
const NOTICE_NODES_NS: u64 = 500_000_000;

/// The state of one case.
pub(super) struct Stage<'p> {
    plan: &'p ParallelPlan,
    location: &'p Location,
    case: &'p Case,
    cpus: &'p [u32],
    meeting: &'p mut Rendezvous,
    /// Processes that measure the limit, as many as work on the store.
    limits: LoadProcesses,
}

/// Time 0 of the traces of a repeat.
#[derive(Clone, Copy)]
struct TimeOrigin {
    unix_ns: u64,
    monotonic_ns: u64,
}

/// The step of a process by its number; none if it does not take part.
type Role<'r> = &'r dyn Fn(u32) -> Option<FieldIoStep>;

impl<'p> Stage<'p> {
    /// Starts the processes that measure the limit of a case.
    pub(super) fn new(
        plan: &'p ParallelPlan,
        location: &'p Location,
        case: &'p Case,
        cpus: &'p [u32],
        meeting: &'p mut Rendezvous,
        note: Note<'_>,
    ) -> Result<Self> {
        note(&format!("{}: touching the file of the limit", case.name()));
        let (procs, seed) = (case.procs_per_node, plan.options.seed);
        let job = job::Job {
            member: Member { procs, seed, ..Member::default() },
            size_bytes: case.io_bytes(),
            ops: u64::from(case.ops).min(LIMIT_FILE_BYTES / case.io_bytes().max(1)).max(1),
            folder: location.folder.clone(),
            ..job::Job::default()
        };
        let limits = start_processes(&job, cpus)?;
        Ok(Self { plan, location, case, cpus, meeting, limits })
    }

    /// Runs all repeats. Rank 0 keeps their traces, whose runs are numbered from `first_run`.
    pub(super) fn measure(
        &mut self,
        traces: &mut Option<Writer>,
        first_run: u32,
        note: Note<'_>,
    ) -> Result<[Series<'p>; 2]> {
        let mut series = [Kind::Write, Kind::Read].map(|kind| Series::new(self.case, kind));
        let (name, of) = (self.case.name(), self.plan.options.repeat);
        for repeat in 0..=of {
            match repeat {
                0 => note(&format!("{name}: warming up")),
                _ => note(&format!("{name}: repeat {repeat} of {of}")),
            }
            let done = self.repeat(repeat)?;
            if repeat == 0 || !self.meeting.who().is_first() {
                continue;
            }
            results::add_repeat(&mut series, &done)?;
            for (run, Done { kind, traces: all, start_unix_ns, .. }) in (first_run..).zip(&done) {
                let (kind, start_unix_ns) = (*kind, *start_unix_ns);
                let origin = TraceOrigin { run, repeat, kind, start_unix_ns };
                traces.as_mut().map_or(Ok(()), |writer| writer.add(origin, all))?;
            }
        }
        Ok(series)
    }

    /// Runs a repeat. Repeat 0 is the warm-up.
    fn repeat(&mut self, repeat: u32) -> Result<Vec<Done>> {
        let job = self.create(repeat)?;
        let done = match self.case.pattern {
            Pattern::A => self.pattern_a(&job),
            Pattern::B => self.pattern_b(&job),
        };
        // The container is removed once no rank uses it, and also after an error, which the other ranks learn of later.
        let met = done.is_ok().then(|| self.meeting.barrier());
        let removed = match self.meeting.who().is_first() {
            true => session::remove(self.location.pool()?, &job.layout, self.case.procs),
            false => Ok(()),
        };
        let done = done?;
        met.transpose()?;
        removed?;
        Ok(done)
    }

    /// Creates the main container of a repeat. Returns the job of its processes.
    fn create(&mut self, repeat: u32) -> Result<Job> {
        let Self { location, case, meeting, .. } = self;
        let container = meeting.broadcast(|| {
            let label = format!("esker-bench-{}-{repeat}", std::process::id());
            location.create_container(&label)?;
            Ok(label)
        })?;
        let layout = Layout {
            pool: location.url.clone(),
            container,
            mode: case.mode,
            contention: case.contention,
            class_kv: case.class_kv.clone(),
            class_array: case.class_array.clone(),
        };
        let member =
            Member { procs: case.procs, seed: self.plan.options.seed, ..Member::default() };
        let (segments, io_bytes) = (case.segments(), case.io_bytes());
        Ok(Job { node: super::node_name(), member, layout, segments, io_bytes, repeat })
    }

    /// Unique writes by all processes, then unique reads by other processes.
    fn pattern_a(&mut self, job: &Job) -> Result<Vec<Done>> {
        let count = if job.repeat == 0 { self.case.warm_up_ops() } else { self.case.ops };
        let step = |kind, owner| FieldIoStep { count, ..step(kind, Pattern::A, owner) };
        let limit = self.limit(|_| write_limit(self.location.durable))?;
        let mut writers = self.start_processes(job, |_| true)?;
        let zero = self.zero()?;
        let traces = self.phase(&mut writers, zero, &|process| Some(step(Kind::Write, process)))?;
        drop(writers);
        let done = |kind, traces, limit| Done { kind, traces, limit, start_unix_ns: zero.unix_ns };
        let write = done(Kind::Write, traces, limit);
        if job.repeat == 0 {
            return Ok(vec![write]);
        }
        let limit = self.limit(|_| LoadStep::Pread)?;
        let mut readers = self.start_processes(job, |_| true)?;
        let owner = |process| owner_of(self.case, process);
        let reads = |process| Some(step(Kind::Read, owner(process)));
        let traces = self.phase(&mut readers, zero, &reads)?;
        if self.plan.options.verify {
            let verify = |process| {
                reads(process).map(|step| FieldIoStep { verify_before: Some(count), ..step })
            };
            self.phase(&mut readers, zero, &verify)?;
        }
        Ok(vec![write, done(Kind::Read, traces, limit)])
    }

    /// One write by each process of the first half. Then they rewrite the same fields while the other half reads them.
    fn pattern_b(&mut self, job: &Job) -> Result<Vec<Done>> {
        let (writers, ops) = (self.case.writers(), self.case.ops);
        let durable = self.location.durable;
        let set_up = |process| (process < writers).then(|| step(Kind::Write, Pattern::B, process));
        let mut processes = self.start_processes(job, |process| process < writers)?;
        let zero = self.zero()?;
        self.phase(&mut processes, zero, &set_up)?;
        drop(processes);
        let limit =
            self.limit(
                |process| {
                    if process < writers { write_limit(durable) } else { LoadStep::Pread }
                },
            )?;
        let role = |process: u32, first, verify_before| {
            if process < writers {
                return FieldIoStep { first, count: ops, ..step(Kind::Write, Pattern::B, process) };
            }
            let read = step(Kind::Read, Pattern::B, process - writers);
            FieldIoStep { count: ops, verify_before, ..read }
        };
        let mut processes = self.start_processes(job, |_| true)?;
        let zero = self.zero()?;
        let traces = self.phase(&mut processes, zero, &|process| Some(role(process, 1, None)))?;
        if self.plan.options.verify {
            // Each field was written once at first, then by the measured phase, and again by this one.
            let verified = Some(1 + 2 * ops);
            self.phase(&mut processes, zero, &|process| Some(role(process, 1 + ops, verified)))?;
        }
        let mut write_limit = limit;
        let read_limit = write_limit.split_off((writers as usize).min(write_limit.len()));
        let (write_traces, read_traces) =
            traces.into_iter().partition(|trace: &Trace| trace.process < writers);
        let done = |kind, traces, limit| Done { kind, traces, limit, start_unix_ns: zero.unix_ns };
        Ok(vec![
            done(Kind::Write, write_traces, write_limit),
            done(Kind::Read, read_traces, read_limit),
        ])
    }

    /// Ranks, among the processes of all nodes, of those that run on this node.
    fn processes(&self) -> std::ops::Range<u32> {
        let first = self.meeting.who().rank * self.case.procs_per_node;
        first..first + self.case.procs_per_node
    }

    /// Starts a process on this node for each of its ranks for which `takes_part` is true.
    fn start_processes(
        &self,
        job: &Job,
        takes_part: impl Fn(u32) -> bool,
    ) -> Result<FieldIoProcesses> {
        let processes = self.processes();
        let member = |process| Member {
            rank: process,
            cpu: cpu_of(self.cpus, process - processes.start),
            ..job.member
        };
        let jobs = processes.clone().filter(|&process| takes_part(process));
        let jobs = jobs.map(|process| Job { member: member(process), ..job.clone() });
        let variables = self.plan.variables.clone();
        let launcher = Launcher { variables, ..Launcher::for_kind(WorkerKind::FieldIo)? };
        Processes::start(&launcher, jobs)
    }

    /// Time 0 of a repeat, slightly in the future.
    fn zero(&mut self) -> Result<TimeOrigin> {
        let unix_ns = self.agree()?;
        Ok(TimeOrigin { unix_ns, monotonic_ns: monotonic_of(unix_ns) })
    }

    /// The time at which all ranks start, which rank 0 sets once all are ready, in nanoseconds since 1970.
    fn agree(&mut self) -> Result<u64> {
        let nodes = if self.meeting.who().ranks > 1 { NOTICE_NODES_NS } else { 0 };
        let notice = notice_ns(self.case.procs as usize) + nodes;
        self.meeting.barrier()?;
        self.meeting.broadcast(|| Ok(unix_ns() + notice))
    }

    /// Makes the processes of all nodes begin at the same time. Segments do so in every iteration, as IOR has barriers
    /// before the open and after the close.
    fn phase(
        &mut self,
        processes: &mut FieldIoProcesses,
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
            if all.is_empty() {
                all = traces;
                continue;
            }
            for (trace, more) in all.iter_mut().zip(traces) {
                trace.execution_end_ns = more.execution_end_ns;
                trace.ios.extend(more.ios);
            }
        }
        Ok(all)
    }

    /// Runs the same step on all ranks, from a start time that they agree on.
    fn together(
        &mut self,
        processes: &mut FieldIoProcesses,
        zero: TimeOrigin,
        role: Role<'_>,
    ) -> Result<Vec<Trace>> {
        let start = self.agree()?.max(zero.unix_ns);
        let start_ns = zero.monotonic_ns + (start - zero.unix_ns);
        let timed = |step| FieldIoStep { zero_ns: zero.monotonic_ns, start_ns, ..step };
        let steps: Vec<_> = self.processes().filter_map(role).map(timed).collect();
        let traces = processes.each(&steps)?;
        Ok(self.meeting.gather(traces)?.into_iter().flatten().collect())
    }

    /// Measures the limit of the medium with the processes of all nodes. `step` returns the operation of a process by
    /// its number.
    fn limit(&mut self, step: impl Fn(u32) -> LoadStep) -> Result<Vec<Measured>> {
        let steps: Vec<_> = self.processes().map(step).collect();
        self.meeting.barrier()?;
        let measured = self.limits.each(&steps)?;
        Ok(self.meeting.gather(measured)?.into_iter().flatten().collect())
    }
}

/// A step with the fields that all steps have.
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
