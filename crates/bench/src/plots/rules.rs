//! Rules that decide the findings of papers from the measurements of `esker bench paper`.
use crate::parallel::Parallel;
use crate::plots::files::Phase;
use crate::plots::finding::{Evidence, ends_of};
use crate::plots::paper::{PaperStep, TENSORS};
use crate::plots::tensors::Compare;
use crate::plots::words::short;
use crate::report::Run;
use esker_cli::units::Bytes;
use serde::Deserialize;

/// Suffix of a step that repeats another one on a second medium.
const BESIDE: &str = "-beside";

/// The measurements that decide a finding.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rule {
    /// Bandwidth of the first over that of the second, for each size of the first if `by_size`.
    Ratio {
        first: Box<Pick>,
        second: Box<Pick>,
        phases: Phases,
        #[serde(default)]
        by_size: bool,
    },
    /// Percentages of the wall-clock time, of each run of a step.
    Offset { step: String, of: Vec<Offset>, pattern: Option<String> },
    /// Rates of phases of these steps, as multiples of the file system that is fastest at the phase. Without `phases`, all
    /// phases count.
    Faster {
        steps: Vec<String>,
        #[serde(default)]
        phases: Vec<String>,
    },
    /// Median rate of a phase of a step over that of another.
    Rates { first: [String; 2], second: [String; 2] },
    /// Mean latency of all phases of a step in microseconds.
    Latency { step: String },
    /// Ratios of PUTs of arrays.
    Arrays { compare: Compare },
    /// This benchmark does not measure it, for a reason; the command does.
    NotMeasured { why: String, command: String },
}

/// Measurements of a step that match the given members, on the better of its media. The best number of processes counts,
/// as in the papers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pick {
    pub(crate) step: String,
    mode: Option<String>,
    pattern: Option<String>,
    contention: Option<String>,
    class: Option<String>,
    sizes_mib: Vec<u64>,
    procs: Option<u32>,
}

/// Which phases are compared.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phases {
    Write,
    Read,
    /// Writes with writes and reads with reads; the rule must hold for both.
    Each,
    /// The sum of write and read of the first with the greater of the second.
    SumWithGreater,
    /// The sum of write and read of the first with the mean of the second.
    SumWithMean,
    /// The sums of both.
    Sums,
}

/// The offsets of section V-F of the paper of 2023.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Offset {
    Off0,
    OffF,
    Po0,
    PoF,
}

impl Rule {
    /// The numbers that are compared with the bound of a finding, and sentences that say where they come from.
    pub(crate) fn values(
        &self,
        steps: &[PaperStep],
        files: &[Phase<'_>],
    ) -> (Evidence, Vec<String>) {
        match self {
            Self::Ratio { first, second, phases, by_size } => {
                let compared = [first, second].map(|pick| pick.words(steps)).join("; with: ");
                let values = phases.values(steps, first, second, *by_size);
                (values, vec![format!("Compared: {compared}.")])
            }
            Self::Offset { step, of, pattern } => {
                (Ok(ends_of(&offsets(steps, step, of, pattern.as_deref()))), Vec::new())
            }
            Self::Faster { steps: names, phases } => {
                let is_of = |phase: &&Phase<'_>, step: &str| {
                    phase.step == step && (phases.is_empty() || phases.contains(&phase.run.phase))
                };
                let phases_of =
                    |step: &String| files.iter().filter(|one| is_of(one, step)).collect();
                faster(&names.iter().map(phases_of).collect::<Vec<Vec<_>>>())
            }
            Self::Rates { first, second } => (Ok(rates(first, second, files)), Vec::new()),
            Self::Latency { step } => {
                let phases = files.iter().filter(|phase| phase.step == step);
                let value = |phase: &Phase<'_>| (phase.name.clone(), phase.mean_latency_us());
                (Ok(phases.map(value).collect()), Vec::new())
            }
            Self::Arrays { compare } => {
                (arrays(steps, *compare), vec![format!("Compared: {}.", compare.words())])
            }
            Self::NotMeasured { why, command } => {
                (Err(why.clone()), vec![format!("This would measure it: {command}")])
            }
        }
    }

    /// Names of the steps whose measurements the rule needs, for tests.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> Vec<&str> {
        match self {
            Self::Ratio { first, second, .. } => vec![&first.step, &second.step],
            Self::Offset { step, .. } | Self::Latency { step, .. } => vec![step],
            Self::Faster { steps, .. } => steps.iter().map(String::as_str).collect(),
            Self::Rates { first, second, .. } => vec![&first[0], &second[0]],
            Self::Arrays { .. } => vec![TENSORS],
            Self::NotMeasured { .. } => Vec::new(),
        }
    }
}

/// Ratios to the fastest of the other file systems, by step; each step must have been measured.
fn faster(all: &[Vec<&Phase<'_>>]) -> (Evidence, Vec<String>) {
    let ratio = |phase: &&Phase<'_>| {
        let (name, ratio) = phase.harder_ratio()?;
        Some((format!("{} (of {name})", phase.name), ratio))
    };
    let is_whole = all.iter().all(|phases| !phases.is_empty());
    let values: Option<Vec<_>> = all.iter().flatten().map(ratio).collect();
    let rates: Vec<_> = all.iter().flatten().filter_map(|phase| phase.rate()).collect();
    let compared = format!(
        "Compared: the file system in a container with plain files on the fastest of the others. Rates: {}.",
        rates.join(", ")
    );
    let compared = Some(compared).filter(|_| !rates.is_empty());
    (Ok(values.filter(|_| is_whole).unwrap_or_default()), compared.into_iter().collect())
}

/// Ratios of two phases, for each number of nodes that both were measured with.
fn rates(first: &[String; 2], second: &[String; 2], files: &[Phase<'_>]) -> Vec<(String, f64)> {
    let is =
        |one: &Phase<'_>, [step, phase]: &[String; 2]| one.step == step && one.run.phase == *phase;
    let ratio = |one: &Phase<'_>| {
        let mut others = files.iter().filter(|other| is(other, second));
        let other = others.find(|other| other.run.server_nodes() == one.run.server_nodes())?;
        let ratio = one.run.rate()?.median / other.run.rate()?.median;
        Some((format!("{} over {}", one.name, other.name), ratio))
            .filter(|(_, ratio)| ratio.is_finite())
    };
    files.iter().filter(|one| is(one, first)).filter_map(ratio).collect()
}

/// The least and the greatest ratio of arrays, or why parallel HDF5 was not measured.
fn arrays(steps: &[PaperStep], compare: Compare) -> Evidence {
    let Some(step) = steps.iter().find(|step| step.name == TENSORS) else { return Ok(Vec::new()) };
    let ratios = compare.ratios(&step.results.runs);
    let hdf5 = step.results.settings.get("hdf5");
    match hdf5.and_then(|hdf5| hdf5["absent"].as_str()).filter(|_| ratios.is_empty()) {
        Some(why) => Err(format!("Parallel HDF5 was not measured: {why}")),
        None => Ok(ends_of(&ratios)),
    }
}

impl Phases {
    /// Ratios of two selections of runs, for each size of the first if `by_size`. Empty if a bandwidth is missing.
    fn values(self, steps: &[PaperStep], first: &Pick, second: &Pick, by_size: bool) -> Evidence {
        let sizes = if by_size { first.sizes_mib.as_slice() } else { &[] };
        let at = |size: &u64| {
            let of_size = |pick: &Pick| Pick { sizes_mib: vec![*size], ..pick.clone() };
            let ratios = self.ratios(steps, &of_size(first), &of_size(second))?.into_iter();
            let size = Bytes(size << 20);
            Some(ratios.map(|(name, ratio)| (format!("{name} of {size}"), ratio)).collect())
        };
        let all: Option<Vec<Vec<_>>> = match sizes {
            [] => self.ratios(steps, first, second).map(|ratios| vec![ratios]),
            sizes => sizes.iter().map(at).collect(),
        };
        Ok(all.unwrap_or_default().concat())
    }

    /// Ratios of two selections of runs, each with its name. `None` if a bandwidth is missing.
    fn ratios(
        self,
        steps: &[PaperStep],
        first: &Pick,
        second: &Pick,
    ) -> Option<Vec<(String, f64)>> {
        let phase = |name: &str| {
            Some((name.to_owned(), first.best(steps, name)? / second.best(steps, name)?))
        };
        let sum_over =
            |name: &str, second: Option<f64>| Some((name.to_owned(), first.sum(steps)? / second?));
        let both = second.best(steps, "write").zip(second.best(steps, "read"));
        let ratios = match self {
            Self::Write => vec![phase("write")],
            Self::Read => vec![phase("read")],
            Self::Each => vec![phase("write"), phase("read")],
            Self::SumWithGreater => vec![sum_over("sum over greater", both.map(|(w, r)| w.max(r)))],
            Self::SumWithMean => vec![sum_over("sum over mean", both.map(|(w, r)| (w + r) / 2.0))],
            Self::Sums => vec![sum_over("sum over sum", second.sum(steps))],
        };
        ratios.into_iter().collect()
    }
}

impl Pick {
    /// Runs of the step that are selected.
    fn runs<'s>(&'s self, steps: &'s [PaperStep]) -> impl Iterator<Item = &'s Run> {
        let is_ours = |step: &&PaperStep| {
            step.name == self.step || step.name.strip_suffix(BESIDE) == Some(&self.step)
        };
        let runs = steps.iter().filter(is_ours).flat_map(|step| &step.results.runs);
        runs.filter(|run| !run.is_limit() && self.takes(run))
    }

    /// True if the rule selects this run: every property that the rule states must be equal.
    fn takes(&self, run: &Run) -> bool {
        let is = |wanted: &Option<String>, found| wanted.is_none() || wanted.as_deref() == found;
        is(&self.mode, run.mode())
            && is(&self.pattern, run.pattern())
            && is(&self.contention, run.contention())
            && is(&self.class, run.class_array())
            && self.procs.is_none_or(|procs| run.procs == procs)
            && (self.sizes_mib.is_empty()
                || self.sizes_mib.iter().any(|size| size << 20 == run.size_bytes))
    }

    /// Highest bandwidth of the selected runs in a phase, in MiB/s. `None` if there are no such runs.
    fn best(&self, steps: &[PaperStep], phase: &str) -> Option<f64> {
        let runs = self.runs(steps).filter(|run| run.phase == phase);
        runs.map(Run::bandwidth).reduce(f64::max).filter(|best| *best > 0.0)
    }

    /// Highest sum of the bandwidths of writes and reads, over runs of these steps with the same number of processes on
    /// the same store. `None` if there is no such pair.
    fn sum(&self, steps: &[PaperStep]) -> Option<f64> {
        let sum = |run: &Run| {
            let is_beside = |other: &&Run| {
                other.phase == "read" && other.procs == run.procs && other.store == run.store
            };
            let read = self.runs(steps).filter(is_beside).map(Run::bandwidth).reduce(f64::max)?;
            Some(run.bandwidth() + read)
        };
        self.runs(steps).filter(|run| run.phase == "write").filter_map(sum).reduce(f64::max)
    }

    /// The members of the selection, and the best bandwidths.
    fn words(&self, steps: &[PaperStep]) -> String {
        let sizes: Vec<_> =
            self.sizes_mib.iter().map(|size| Bytes(size << 20).to_string()).collect();
        let best = |phase: &str| {
            let mib_s = self.best(steps, phase)?;
            Some(format!("{phase} {} GiB/s", short(mib_s / 1024.0)))
        };
        let best: Vec<_> = ["write", "read"].into_iter().filter_map(best).collect();
        let words = [
            Some(self.step.clone()),
            self.mode.clone(),
            self.pattern.as_ref().map(|pattern| format!("pattern {pattern}")),
            self.contention.as_ref().map(|contention| format!("{contention} contention")),
            self.class.clone(),
            self.procs.map(|procs| {
                format!("{procs} {}", if procs == 1 { "process" } else { "processes" })
            }),
            Some(sizes.join(" or ")).filter(|sizes| !sizes.is_empty()),
            Some(format!("({})", best.join(", "))).filter(|_| !best.is_empty()),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// The offsets of all runs of a step, in percent (see [`Offset::share`]). Runs of one process are left out, because
/// they have no offsets.
fn offsets(steps: &[PaperStep], step: &str, of: &[Offset], pattern: Option<&str>) -> Vec<f64> {
    let pick =
        Pick { step: step.to_owned(), pattern: pattern.map(str::to_owned), ..Pick::default() };
    let runs: Vec<_> = pick.runs(steps).filter(|run| run.procs > 1).collect();
    let share = |run: &&Run| {
        let parallel = run.parallel.as_deref().filter(|parallel| parallel.phase_procs != 1)?;
        // Phases at the same time share the offsets between them, and the time from the first start to the last end.
        let together = runs.iter().filter(|other| other.label() == run.label());
        let longest = together.map(|other| other.wall_clock_s()).fold(0.0, f64::max);
        let share = |one: &Offset| Some(one.share(parallel, run.wall_clock_s(), longest)? * 100.0);
        Some(of.iter().filter_map(share).collect::<Vec<_>>())
    };
    runs.iter().filter_map(share).flatten().filter(|share| share.is_finite()).collect()
}

impl Offset {
    /// The offset divided by the time of its phase or, for an offset between two phases, by the time of both.
    fn share(self, parallel: &Parallel, phase_s: f64, both_s: f64) -> Option<f64> {
        Some(match self {
            Self::Off0 => parallel.off_0 / phase_s,
            Self::OffF => parallel.off_f / phase_s,
            Self::Po0 => parallel.po_0? / both_s,
            Self::PoF => parallel.po_f? / both_s,
        })
    }
}
