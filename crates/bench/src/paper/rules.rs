//! Whether a finding of the papers is seen here: a ratio of two measurements against a bound.
use super::steps::STEPS;
use crate::plot::short;
use crate::results::{Measurement, Results};
use crate::units::Bytes;

/// What is compared: all measurements of a step that agree with what is given; the best number of
/// processes counts, as in the papers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pick {
    pub(super) step: &'static str,
    pub(super) mode: Option<&'static str>,
    pub(super) pattern: Option<&'static str>,
    pub(super) contention: Option<&'static str>,
    pub(super) class: Option<&'static str>,
    pub(super) sizes_mib: &'static [u64],
    pub(super) procs: Option<u32>,
}

/// Which phases of a pick are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phases {
    /// The writes of both.
    Write,
    /// The reads of both.
    Read,
    /// Writes with writes and reads with reads; the rule must hold for both.
    Each,
    /// The sum of write and read of the first, with the greater of the second.
    SumWithGreater,
    /// The sum of write and read of the first, with the mean of the second.
    SumWithMean,
    /// The sums of both.
    Sums,
}

/// The bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Within(f64, f64),
}

/// How a finding is decided.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// First over second.
    Ratio { first: Pick, second: Pick, phases: Phases, bound: Bound },
    /// A share of the wall clock of each run of a step.
    Offset { step: &'static str, of: fn(&Measurement) -> Option<f64>, bound: Bound },
    /// There is one node and no network here; why that matters.
    Cannot(&'static str),
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Seen,
    NotSeen,
    CannotBeSeen,
}

impl Verdict {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Seen => "seen here",
            Self::NotSeen => "not seen here",
            Self::CannotBeSeen => "cannot be seen on one node",
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Seen => "verdict seen",
            Self::NotSeen => "verdict not-seen",
            Self::CannotBeSeen => "verdict cannot",
        }
    }
}

/// A verdict and the numbers it rests on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    pub(super) evidence: String,
}

impl Rule {
    /// Decides; `files` are the results of the steps, in their order.
    pub(super) fn judge(&self, files: &[Results]) -> Judgement {
        let ratios = match self {
            Self::Cannot(why) => {
                return Judgement { verdict: Verdict::CannotBeSeen, evidence: (*why).to_owned() };
            }
            Self::Ratio { first, second, phases, .. } => phases.ratios(files, first, second),
            Self::Offset { step, of, .. } => offsets(files, step, *of),
        };
        let (Self::Ratio { bound, .. } | Self::Offset { bound, .. }) = self else {
            return nothing();
        };
        if ratios.is_empty() {
            return nothing();
        }
        let holds = ratios.iter().all(|(_, ratio)| bound.holds(*ratio));
        let numbers: Vec<_> =
            ratios.iter().map(|(name, ratio)| format!("{name} {}", short(*ratio))).collect();
        let verdict = if holds { Verdict::Seen } else { Verdict::NotSeen };
        Judgement {
            verdict,
            evidence: format!("Rule: {}. Measured: {}.", bound.words(), numbers.join(", ")),
        }
    }
}

fn nothing() -> Judgement {
    Judgement { verdict: Verdict::NotSeen, evidence: "Nothing was measured for this.".to_owned() }
}

impl Bound {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio >= least,
            Self::AtMost(most) => ratio <= most,
            Self::Within(least, most) => (least..=most).contains(&ratio),
        }
    }

    pub(super) fn words(self) -> String {
        match self {
            Self::AtLeast(least) => format!("the ratio is at least {least}"),
            Self::AtMost(most) => format!("the ratio is at most {most}"),
            Self::Within(least, most) => format!("the ratio is {least} to {most}"),
        }
    }
}

impl Phases {
    fn ratios(self, files: &[Results], first: &Pick, second: &Pick) -> Vec<(&'static str, f64)> {
        let phase =
            |name: &'static str| Some((name, first.best(files, name)? / second.best(files, name)?));
        let of =
            |name: &'static str, second: Option<f64>| Some((name, first.sum(files)? / second?));
        let (write, read) = (second.best(files, "write"), second.best(files, "read"));
        let both = write.zip(read);
        let ratios = match self {
            Self::Write => vec![phase("write")],
            Self::Read => vec![phase("read")],
            Self::Each => vec![phase("write"), phase("read")],
            Self::SumWithGreater => vec![of("sum over greater", both.map(|(w, r)| w.max(r)))],
            Self::SumWithMean => vec![of("sum over mean", both.map(|(w, r)| (w + r) / 2.0))],
            Self::Sums => vec![of("sum over sum", second.sum(files))],
        };
        ratios.into_iter().flatten().collect()
    }
}

impl Pick {
    fn runs<'r>(&'r self, files: &'r [Results]) -> impl Iterator<Item = &'r Measurement> {
        let index = STEPS.iter().position(|step| step.name == self.step);
        let runs = index.and_then(|index| files.get(index)).into_iter().flat_map(|file| &file.runs);
        runs.filter(|run| !run.is_limit() && self.takes(run))
    }

    fn takes(&self, run: &Measurement) -> bool {
        let is = |wanted: Option<&str>, found: &Option<String>| {
            wanted.is_none_or(|wanted| found.as_deref() == Some(wanted))
        };
        is(self.mode, &run.mode)
            && is(self.pattern, &run.pattern)
            && is(self.contention, &run.contention)
            && is(self.class, &run.class_array)
            && self.procs.is_none_or(|procs| run.procs == procs)
            && (self.sizes_mib.is_empty()
                || self.sizes_mib.iter().any(|size| size << 20 == run.size_bytes))
    }

    /// The best of a phase, in MiB/s.
    fn best(&self, files: &[Results], phase: &str) -> Option<f64> {
        let runs = self.runs(files).filter(|run| run.phase == phase);
        runs.map(Measurement::bandwidth).reduce(f64::max).filter(|best| *best > 0.0)
    }

    /// The best sum of the phases at one number of processes.
    fn sum(&self, files: &[Results]) -> Option<f64> {
        let counts: Vec<_> = self.runs(files).map(|run| run.procs).collect();
        let of = |procs: u32| {
            let same = Self { procs: Some(procs), ..*self };
            Some(same.best(files, "write")? + same.best(files, "read")?)
        };
        counts.into_iter().filter_map(of).reduce(f64::max)
    }
}

/// The least and greatest share over all runs of a step. One process alone has no offsets.
fn offsets(
    files: &[Results],
    step: &'static str,
    of: fn(&Measurement) -> Option<f64>,
) -> Vec<(&'static str, f64)> {
    let pick = Pick { step, ..Pick::default() };
    let share = |run: &Measurement| Some(of(run)? / run.total_wall_clock_s.filter(|s| *s > 0.0)?);
    let several = pick.runs(files).filter(|run| run.phase_procs.unwrap_or(run.procs) > 1);
    let shares: Vec<_> = several.filter_map(share).collect();
    let least = shares.iter().copied().reduce(f64::min);
    let greatest = shares.iter().copied().reduce(f64::max);
    [least.map(|least| ("least", least)), greatest.map(|greatest| ("greatest", greatest))]
        .into_iter()
        .flatten()
        .collect()
}

/// What a pick is, in words.
pub(super) fn named(pick: &Pick) -> String {
    let sizes = pick.sizes_mib.iter().map(|size| Bytes(size << 20).to_string());
    let words = [
        Some(pick.step.to_owned()),
        pick.mode.map(str::to_owned),
        pick.pattern.map(|pattern| format!("pattern {pattern}")),
        pick.contention.map(|contention| format!("{contention} contention")),
        pick.class.map(str::to_owned),
        pick.procs.map(|procs| format!("{procs} processes")),
        Some(sizes.collect::<Vec<_>>().join(" or ")).filter(|sizes| !sizes.is_empty()),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
