//! From the traces of repeats to the runs of a report.
use super::cases::Case;
use crate::field_io::Pattern;
use crate::job::LoadStep;
use crate::measure::{Measured, Tally};
use crate::metrics::{MIB, Phase, Statistics, po_0_ns, po_f_ns};
use crate::names::Named;
use crate::parallel::{Parallel, Repeat, RepeatStatistics, percentiles_us};
use crate::plan::location::Location;
use crate::plan::store::write_limit;
use crate::report::{Run, RunName};
use crate::traces::{EVENTS, Kind, Trace, phase_of};
use esker_cli::units::rounded;
use esker_types::Result;
use std::time::Duration;

/// One phase of one repeat, of all processes.
pub(super) struct Done {
    pub(super) kind: Kind,
    pub(super) traces: Vec<Trace>,
    pub(super) limit: Vec<Measured>,
    pub(super) start_unix_ns: u64,
}

/// Number of nodes of the processes, and of the pool if it is over nodes.
pub(super) type Nodes = (u32, Option<u32>);

/// All repeats of one phase of a case.
pub(super) struct Series<'c> {
    case: &'c Case,
    kind: Kind,
    tally: Tally,
    limit: Tally,
    repeats: Vec<Repeat>,
}

impl<'c> Series<'c> {
    pub(super) fn new(case: &'c Case, kind: Kind) -> Self {
        let (tally, limit, repeats) = Default::default();
        Self { case, kind, tally, limit, repeats }
    }

    /// Adds the figures of a phase in one repeat. `other` is the phase that ran at the same time in pattern B.
    fn add(&mut self, done: &Done, phase: &Phase, other: Option<&Phase>) -> Result<()> {
        for stamps in done.traces.iter().flat_map(|trace| &trace.ios) {
            let took = stamps[EVENTS - 1].saturating_sub(stamps[0]);
            self.tally.latency.record(Duration::from_nanos(took))?;
        }
        self.tally.ops += phase.ios().len() as u64;
        self.tally.bytes += phase.bytes();
        self.tally.seconds += seconds(phase.total_wall_clock_ns());
        let limit = Tally::of_round(&done.limit);
        self.limit.add(&limit);
        self.repeats.push(self.repeat(done, phase, other, limit.bandwidth_mib_s()));
        Ok(())
    }

    /// Figures of one repeat for the report. `other` is the phase that ran at the same time in pattern B. `limit` is in
    /// MiB/s, or 0 if it was not measured.
    fn repeat(&self, done: &Done, phase: &Phase, other: Option<&Phase>, limit: f64) -> Repeat {
        let global = phase.global_timing_bandwidth() / MIB;
        let synchronous = self.case.objects.map(|_| rounded(phase.synchronous_bandwidth() / MIB));
        Repeat {
            repeat: self.repeats.len() as u32 + 1,
            start_unix_ns: done.start_unix_ns,
            global_timing_bandwidth_mib_s: rounded(global),
            synchronous_bandwidth_mib_s: synchronous,
            total_wall_clock_s: seconds(phase.total_wall_clock_ns()),
            off_0: seconds(phase.off_0_ns()),
            off_f: seconds(phase.off_f_ns()),
            po_0: other.map(|other| seconds(po_0_ns(phase, other))),
            po_f: other.map(|other| seconds(po_f_ns(phase, other))),
            limit_mib_s: rounded(limit),
            ratio: if limit > 0.0 { rounded(global / limit) } else { 0.0 },
        }
    }

    /// The run of the limit, then the run of the phase, which has this number.
    pub(super) fn runs(&self, location: &Location, number: u32, nodes: Nodes) -> [Run; 2] {
        let case = self.case;
        let workload = if case.objects.is_some() { "segments" } else { "field-io" };
        let (phase, procs, size_bytes) = (self.kind.name(), case.procs, case.size);
        let name = RunName { store: location.store(), workload, phase, procs, size_bytes };
        let parallel = Some(Box::new(self.parallel(number, nodes)));
        let run = Run { parallel, ..Run::new(&name, &self.tally, Some(&self.limit)) };
        let phase = match self.kind {
            Kind::Write => write_limit(location.durable).name(),
            Kind::Read => LoadStep::Pread.name(),
        };
        let limit = RunName { store: "medium", phase, size_bytes: case.io_bytes(), ..name };
        [Run::new(&limit, &self.limit, None), run]
    }

    /// Figures of all repeats.
    fn parallel(&self, run: u32, (nodes, server_nodes): Nodes) -> Parallel {
        let case = self.case;
        let fields = case.objects.is_none();
        let repeat = self.statistics();
        let mean = |of: fn(&Repeat) -> f64| {
            micro(self.repeats.iter().map(of).sum::<f64>() / self.repeats.len().max(1) as f64)
        };
        let is_paired = self.repeats.first().is_some_and(|repeat| repeat.po_0.is_some());
        Parallel {
            run,
            mode: case.mode_name(),
            pattern: case.pattern.name(),
            contention: fields.then(|| case.contention.name()),
            class_kv: fields.then(|| case.class_kv.clone()),
            class_array: case.class_array.clone(),
            nodes,
            server_nodes,
            procs_per_node: case.procs_per_node,
            phase_procs: case.writers(),
            iterations: case.ops,
            global_timing_bandwidth_mib_s: repeat.global_timing_bandwidth_mib_s.mean,
            synchronous_bandwidth_mib_s: repeat.synchronous_bandwidth_mib_s.map(|of| of.mean),
            total_wall_clock_s: mean(|repeat| repeat.total_wall_clock_s),
            off_0: mean(|repeat| repeat.off_0),
            off_f: mean(|repeat| repeat.off_f),
            po_0: is_paired.then(|| mean(|repeat| repeat.po_0.unwrap_or(0.0))),
            po_f: is_paired.then(|| mean(|repeat| repeat.po_f.unwrap_or(0.0))),
            latency_percentiles_us: percentiles_us(&self.tally.latency),
            repeat,
            repeats: self.repeats.clone(),
        }
    }

    /// Statistics over the repeats.
    fn statistics(&self) -> RepeatStatistics {
        let over_repeats = |value: fn(&Repeat) -> f64| {
            Statistics::rounded(&self.repeats.iter().map(value).collect::<Vec<_>>())
        };
        let synchronous: Vec<_> =
            self.repeats.iter().filter_map(|repeat| repeat.synchronous_bandwidth_mib_s).collect();
        RepeatStatistics {
            count: self.repeats.len() as u32,
            global_timing_bandwidth_mib_s: over_repeats(|repeat| {
                repeat.global_timing_bandwidth_mib_s
            }),
            synchronous_bandwidth_mib_s: (!synchronous.is_empty())
                .then(|| Statistics::rounded(&synchronous)),
            limit_mib_s: over_repeats(|repeat| repeat.limit_mib_s),
            ratio: over_repeats(|repeat| repeat.ratio),
        }
    }
}

/// Adds the phases of one repeat. In pattern B they run at the same time.
pub(super) fn add_repeat(series: &mut [Series<'_>; 2], done: &[Done]) -> Result<()> {
    let phases: Vec<_> = done.iter().map(|done| phase_of(&done.traces)).collect();
    for (index, (done, phase)) in done.iter().zip(&phases).enumerate() {
        // The other one of two phases.
        let other = phases.get(1 - index.min(1));
        if let Some(series) = series.iter_mut().find(|series| series.kind == done.kind) {
            let other = other.filter(|_| series.case.pattern == Pattern::B);
            series.add(done, phase, other)?;
        }
    }
    Ok(())
}

fn seconds(ns: u64) -> f64 {
    micro(ns as f64 / 1e9)
}

/// Seconds with microsecond precision, because offsets are short.
fn micro(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}
