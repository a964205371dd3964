//! The page of `esker bench paper`: each table and figure of two papers with their findings, and whether the
//! measurements confirm them, and figures of two more ([`crate::plots::tensors`], `applications`). `findings.json` has the
//! findings of all but the paper on tensors, and the rules that decide them.
use crate::parallel::Parallel;
use crate::plots::applications::{self, Phase};
use crate::plots::page::{Finding, Page, Section, Table};
use crate::plots::results::Results;
use crate::plots::sweep::{SCALING, SWEEPS, samples};
use crate::plots::words::short;
use crate::plots::{Figure, Figures, tensors};
use crate::report::Run;
use esker_cli::units::Bytes;
use esker_types::{Error, ErrorKind, Result};
use serde::Deserialize;

const FINDINGS: &str = include_str!("findings.json");
/// The step whose figures are those of [`crate::plots::tensors`].
const TENSORS: &str = "tensors";
const ABOUT: [&str; 4] = [
    "2023: N. Manubens and others, DAOS as HPC Storage: a View From Numerical Weather Prediction. 2022: N. Manubens and \
     others, Performance Comparison of DAOS and Lustre for Object Data Storage Approaches. Each of their tables and \
     figures is measured here on a small scale: one machine, few processes, no network. Their findings are given in our \
     words. Pools over nodes are those whose engines all run on this machine. Whether a finding is seen here is decided by the rule beside it, from this run alone.",
    "\"Not seen\" is not a failure of either: some findings are costs that another store does not have. \"native\" is a \
     pool on this machine; \"posix\" is the layout of the 2022 paper on the same medium, which stands in for their \
     Lustre.",
    tensors::ABOUT[0],
    applications::ABOUT,
];
/// Maximum number of timelines of one file.
const TIMELINES: usize = 4;

/// Measurements of one command.
#[derive(Clone, Debug)]
pub struct PaperStep {
    /// Name that the findings use.
    pub name: String,
    /// The store and the command, for the page.
    pub command: String,
    /// Its report.
    pub results: Results,
}

/// The page, with the number of findings by verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Papers {
    /// The page.
    pub page: Page,
    /// Findings that are confirmed.
    pub seen: usize,
    /// Findings that are not confirmed.
    pub not_seen: usize,
    /// Findings that need more than one node.
    pub cannot: usize,
}

/// One table or figure of a paper.
#[derive(Debug, Deserialize)]
struct Item {
    /// Year of the paper and name of the figure.
    label: String,
    title: String,
    /// Steps whose results are drawn.
    steps: Vec<String>,
    /// Kinds of charts.
    charts: Vec<String>,
    /// Only runs with this contention are drawn.
    contention: Option<String>,
    /// The measurement in the paper, and what differs here.
    #[serde(default)]
    notes: Vec<String>,
    /// Phases whose ratios to the kernel's file systems are drawn.
    #[serde(default)]
    phases: Vec<Phase>,
    claims: Vec<Claim>,
}

#[derive(Debug, Deserialize)]
struct Claim {
    finding: String,
    rule: Rule,
}

/// Rule that decides a finding.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "there are 30 of them")]
enum Rule {
    /// Bandwidth of the first over that of the second.
    Ratio { first: Pick, second: Pick, phases: Phases, bound: Bound },
    /// A share of the wall-clock time of each run of a step.
    Offset { step: String, of: End, bound: Bound },
    /// Ratio to tmpfs of each of these phases of the item.
    Faster { phases: Vec<String>, at_least: f64 },
    /// One node cannot show it, with the reason.
    Cannot(String),
}

/// Measurements of a step that match the given members. The best number of processes counts, as in the papers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Pick {
    step: String,
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
enum Phases {
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

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Within(f64, f64),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    /// The greater of `off_0` and `po_0`.
    Start,
    /// `off_f`.
    End,
}

/// Ratios or shares with their names, or why there can be none.
pub(crate) type Evidence = std::result::Result<Vec<(String, f64)>, String>;

/// The page of the results of all steps.
///
/// # Errors
/// If the traces of a step cannot be read, or a figure cannot be drawn.
pub fn page(steps: &[PaperStep]) -> Result<Papers> {
    let mut page = Page {
        title: "The papers on object stores, on this machine".to_owned(),
        about: ABOUT.map(str::to_owned).to_vec(),
        ..Page::default()
    };
    let mut figures = Figures::default();
    let (applications, fields): (Vec<_>, Vec<_>) =
        items()?.into_iter().partition(|item| !item.phases.is_empty());
    for item in fields {
        page.sections.push(item.section(&mut figures, steps)?);
    }
    for step in steps.iter().filter(|step| step.name == TENSORS) {
        page.sections.extend(tensors::sections(&mut figures, &step.results)?);
    }
    for item in applications {
        page.sections.push(item.section(&mut figures, steps)?);
    }
    let glance: Vec<_> = page.sections.iter().flat_map(glance).collect();
    page.summary.push(Table::new(
        "Findings of the papers",
        &["figure", "finding", "here"],
        &glance,
    ));
    let results: Vec<_> = steps.iter().map(|step| step.results.clone()).collect();
    let page = page.with_numbers(&results);
    let findings = || page.sections.iter().flat_map(|section| &section.findings);
    let count = |class| findings().filter(|finding| finding.class == class).count();
    Ok(Papers { seen: count("seen"), not_seen: count("not-seen"), cannot: count("cannot"), page })
}

/// The findings of a section, by the label before its title.
fn glance(section: &Section) -> impl Iterator<Item = Vec<String>> {
    let label = section.title.split(": ").next().unwrap_or_default();
    let row = move |finding: &Finding| {
        vec![label.to_owned(), finding.text.clone(), finding.verdict.to_owned()]
    };
    section.findings.iter().map(row)
}

fn items() -> Result<Vec<Item>> {
    serde_json::from_str(FINDINGS).map_err(|error| {
        Error::new(ErrorKind::Invalid, format!("the findings of the papers: {error}"))
    })
}

impl Item {
    fn section(&self, figures: &mut Figures, steps: &[PaperStep]) -> Result<Section> {
        let used: Vec<_> = steps.iter().filter(|step| self.steps.contains(&step.name)).collect();
        let run_here = used.iter().map(|step| format!("Run here: {}", step.command));
        let files: Vec<_> = used.iter().map(|step| self.drawn(&step.results)).collect();
        let mut drawn = self.figures(figures, &files)?;
        drawn.extend(figures.ratios(&self.title, &self.phases, steps)?);
        Ok(Section {
            title: format!("{}: {}", self.label, self.title),
            notes: self.notes.iter().cloned().chain(run_here).collect(),
            findings: self.claims.iter().map(|claim| claim.judge(self, steps)).collect(),
            figures: drawn,
        })
    }

    fn drawn(&self, file: &Results) -> Results {
        let runs = file.runs.iter().filter(|run| {
            self.contention.is_none() || run.contention() == self.contention.as_deref()
        });
        Results { runs: runs.cloned().collect(), ..file.clone() }
    }

    fn figures(&self, figures: &mut Figures, files: &[Results]) -> Result<Vec<Figure>> {
        let has = |chart: &str| self.charts.iter().any(|name| name == chart);
        // Pools over nodes have charts of their own, which come first.
        let (nodes, files): (Vec<_>, Vec<_>) = files
            .iter()
            .cloned()
            .partition(|file| file.runs.iter().any(|run| run.server_nodes().is_some()));
        let (nodes, others) = (samples(&nodes), samples(&files));
        let mut drawn = Vec::new();
        for is_scaling in [true, false] {
            let samples = if is_scaling { &nodes } else { &others };
            let sweeps = SWEEPS.iter().filter(|sweep| (sweep.stem == SCALING) == is_scaling);
            for sweep in sweeps.filter(|sweep| has(sweep.stem)) {
                drawn.extend(figures.sweep(sweep, samples)?);
            }
        }
        if has("offsets") {
            drawn.extend(figures.offsets(&files)?);
        }
        for file in files.iter().filter(|_| has("timeline")) {
            drawn.extend(figures.timelines(file)?.into_iter().take(TIMELINES));
        }
        Ok(drawn)
    }
}

impl Claim {
    fn judge(&self, item: &Item, steps: &[PaperStep]) -> Finding {
        let (numbers, bound) = match &self.rule {
            Rule::Ratio { first, second, phases, bound } => {
                (Ok(phases.ratios(steps, first, second)), *bound)
            }
            Rule::Offset { step, of, bound } => (Ok(offsets(steps, step, *of)), *bound),
            Rule::Faster { phases, at_least } => {
                let phases = item.phases.iter().filter(|phase| phases.contains(&phase.2));
                let ratio =
                    |phase: &Phase| Some((phase.2.clone(), phase.ratio_to("tmpfs", steps)?));
                (Ok(phases.filter_map(ratio).collect()), Bound::AtLeast(*at_least))
            }
            Rule::Cannot(why) => (Err(why.clone()), Bound::AtLeast(0.0)),
        };
        let (class, verdict, evidence) = judged(numbers, bound);
        let mut evidence = vec![evidence];
        match &self.rule {
            Rule::Ratio { first, second, .. } => {
                evidence.push(format!("Compared: {} with {}.", first.words(), second.words()));
            }
            Rule::Faster { .. } => {
                evidence.push("Compared: the file system in a container with tmpfs.".to_owned());
            }
            _ => {}
        }
        Finding { text: self.finding.clone(), class, verdict, evidence }
    }
}

pub(crate) fn judged(numbers: Evidence, bound: Bound) -> (&'static str, &'static str, String) {
    let not_seen = ("not-seen", "not seen here");
    let ((class, verdict), evidence) = match numbers {
        Err(why) => (("cannot", "cannot be seen on one node"), why),
        Ok(numbers) if numbers.is_empty() => {
            (not_seen, "Nothing was measured for this.".to_owned())
        }
        Ok(numbers) => {
            let holds = numbers.iter().all(|(_, number)| bound.holds(*number));
            let named: Vec<_> =
                numbers.iter().map(|(name, number)| format!("{name} {}", short(*number))).collect();
            let evidence =
                format!("Rule: the ratio is {}. Measured: {}.", bound.words(), named.join(", "));
            (if holds { ("seen", "seen here") } else { not_seen }, evidence)
        }
    };
    (class, verdict, evidence)
}

impl Bound {
    fn holds(self, number: f64) -> bool {
        match self {
            Self::AtLeast(least) => number >= least,
            Self::AtMost(most) => number <= most,
            Self::Within(least, most) => (least..=most).contains(&number),
        }
    }

    fn words(self) -> String {
        match self {
            Self::AtLeast(least) => format!("at least {least}"),
            Self::AtMost(most) => format!("at most {most}"),
            Self::Within(least, most) => format!("{least} to {most}"),
        }
    }
}

impl Phases {
    fn ratios(self, steps: &[PaperStep], first: &Pick, second: &Pick) -> Vec<(String, f64)> {
        let phase = |name: &str| {
            Some((name.to_owned(), first.best(steps, name)? / second.best(steps, name)?))
        };
        let of =
            |name: &str, second: Option<f64>| Some((name.to_owned(), first.sum(steps)? / second?));
        let both = second.best(steps, "write").zip(second.best(steps, "read"));
        let ratios = match self {
            Self::Write => vec![phase("write")],
            Self::Read => vec![phase("read")],
            Self::Each => vec![phase("write"), phase("read")],
            Self::SumWithGreater => vec![of("sum over greater", both.map(|(w, r)| w.max(r)))],
            Self::SumWithMean => vec![of("sum over mean", both.map(|(w, r)| (w + r) / 2.0))],
            Self::Sums => vec![of("sum over sum", second.sum(steps))],
        };
        ratios.into_iter().flatten().collect()
    }
}

impl Pick {
    fn runs<'s>(&'s self, steps: &'s [PaperStep]) -> impl Iterator<Item = &'s Run> {
        let step = steps.iter().find(|step| step.name == self.step);
        let runs = step.into_iter().flat_map(|step| &step.results.runs);
        runs.filter(|run| !run.is_limit() && self.takes(run))
    }

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

    /// The best of a phase in MiB/s.
    fn best(&self, steps: &[PaperStep], phase: &str) -> Option<f64> {
        let runs = self.runs(steps).filter(|run| run.phase == phase);
        runs.map(Run::bandwidth).reduce(f64::max).filter(|best| *best > 0.0)
    }

    /// The best sum of both phases with one number of processes.
    fn sum(&self, steps: &[PaperStep]) -> Option<f64> {
        let sum = |run: &Run| {
            let same = Self { procs: Some(run.procs), ..self.clone() };
            Some(same.best(steps, "write")? + same.best(steps, "read")?)
        };
        self.runs(steps).filter_map(sum).reduce(f64::max)
    }

    fn words(&self) -> String {
        let sizes: Vec<_> =
            self.sizes_mib.iter().map(|size| Bytes(size << 20).to_string()).collect();
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
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// The least and the greatest share over all runs of a step. One process alone has no offsets.
fn offsets(steps: &[PaperStep], step: &str, end: End) -> Vec<(String, f64)> {
    let of = |parallel: &Parallel| match end {
        End::Start => parallel.off_0.max(parallel.po_0.unwrap_or(0.0)),
        End::End => parallel.off_f,
    };
    let pick = Pick { step: step.to_owned(), ..Pick::default() };
    let several = pick.runs(steps).filter(|run| run.procs > 1);
    let several = several.filter_map(|run| run.parallel.as_deref());
    let timed =
        several.filter(|parallel| parallel.phase_procs != 1 && parallel.total_wall_clock_s > 0.0);
    let shares: Vec<_> = timed.map(|parallel| of(parallel) / parallel.total_wall_clock_s).collect();
    ends_of(&shares)
}

/// The least and the greatest of some numbers.
pub(crate) fn ends_of(numbers: &[f64]) -> Vec<(String, f64)> {
    let all = || numbers.iter().copied();
    let ends = [("least", all().reduce(f64::min)), ("greatest", all().reduce(f64::max))];
    ends.into_iter().filter_map(|(name, end)| Some((name.to_owned(), end?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::results::tests::results;
    use serde_json::{Value, json};

    const STEPS: [&str; 9] = [
        "segments",
        "segments-posix",
        "processes",
        "modes",
        "sizes",
        "modes-posix",
        "sizes-posix",
        "segments-nodes",
        "modes-nodes",
    ];

    fn run(mode: &str, pattern: &str, phase: &str, mib_s: f64) -> Value {
        json!({"mode": mode, "pattern": pattern, "contention": "low", "phase": phase, "class_array": "S1",
               "global_timing_bandwidth_mib_s": mib_s, "total_wall_clock_s": 1.0, "off_0": 0.01, "off_f": 0.2})
    }

    /// The same runs for every step.
    fn steps() -> Vec<PaperStep> {
        let runs = [
            run("full", "A", "write", 80.0),
            run("full", "A", "read", 100.0),
            run("no-containers", "A", "write", 100.0),
            run("no-containers", "A", "read", 100.0),
            run("no-containers", "B", "write", 70.0),
            run("no-containers", "B", "read", 60.0),
        ];
        let step = |name: &str| PaperStep {
            name: name.to_owned(),
            command: "c".to_owned(),
            results: results(&runs),
        };
        STEPS.map(step).to_vec()
    }

    fn verdict(rule: Value) -> &'static str {
        let claim = Claim { finding: String::new(), rule: serde_json::from_value(rule).unwrap() };
        claim.judge(&items().unwrap()[0], &steps()).class
    }

    fn ratio(phases: &str, bound: Value, first: [&str; 2], second: [&str; 2]) -> &'static str {
        let pick =
            |[mode, pattern]: [&str; 2]| json!({"step": "modes", "mode": mode, "pattern": pattern});
        verdict(
            json!({"ratio": {"first": pick(first), "second": pick(second), "phases": phases, "bound": bound}}),
        )
    }

    #[test]
    fn a_finding_is_seen_where_its_rule_holds_for_every_phase() {
        let of = |phases, bound| ratio(phases, bound, ["full", "A"], ["no-containers", "A"]);
        assert_eq!(of("each", json!({"at_least": 0.8})), "seen");
        assert_eq!(of("each", json!({"at_least": 0.9})), "not-seen");
        assert_eq!(of("each", json!({"at_most": 0.9})), "not-seen");
        assert_eq!(of("write", json!({"at_most": 0.9})), "seen");
        assert_eq!(of("read", json!({"within": [0.9, 1.1]})), "seen");
    }

    #[test]
    fn phases_at_the_same_time_are_summed() {
        let of =
            |phases, bound| ratio(phases, bound, ["no-containers", "B"], ["no-containers", "A"]);
        assert_eq!(of("sum_with_mean", json!({"within": [1.29, 1.31]})), "seen");
        assert_eq!(of("sum_with_greater", json!({"within": [1.29, 1.31]})), "seen");
        assert_eq!(of("sums", json!({"within": [0.64, 0.66]})), "seen");
    }

    #[test]
    fn findings_without_measurements_or_nodes_are_not_decided() {
        let none = ["no-index", "A"];
        assert_eq!(ratio("each", json!({"at_least": 0.0}), none, none), "not-seen");
        assert_eq!(verdict(json!({"cannot": "why"})), "cannot");
    }

    #[test]
    fn offsets_are_shares_of_the_wall_clock() {
        let rule = |bound: Value| {
            verdict(json!({"offset": {"step": "modes", "of": "end", "bound": bound}}))
        };
        assert_eq!(rule(json!({"within": [0.1, 0.3]})), "seen");
        assert_eq!(rule(json!({"at_most": 0.1})), "not-seen");
    }

    #[test]
    fn every_figure_of_the_papers_has_its_place_on_the_page() {
        let papers = page(&steps()).unwrap();
        let html = papers.page.html().unwrap();
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(&html, options).unwrap();
        let items = items().unwrap();
        for item in &items {
            assert!(html.contains(&format!("<h2>{}: ", item.label)), "{}", item.label);
        }
        let claims: usize = items.iter().map(|item| item.claims.len()).sum();
        assert_eq!((items.len(), claims), (15, 30));
        assert_eq!(papers.seen + papers.not_seen + papers.cannot, claims);
        assert_eq!(papers.cannot, 6);
    }

    #[test]
    fn findings_name_steps_and_charts_that_there_are() {
        for item in items().unwrap() {
            let own: Vec<_> = item.phases.iter().map(|phase| phase.0.as_str()).collect();
            let is_step =
                |step: &String| STEPS.contains(&step.as_str()) || own.contains(&step.as_str());
            assert!(item.steps.iter().all(is_step), "{}", item.label);
            let is_chart = |name: &String| {
                ["offsets", "timeline"].contains(&name.as_str())
                    || SWEEPS.iter().any(|sweep| sweep.stem == name)
            };
            assert!(item.charts.iter().all(is_chart), "{}", item.label);
            for claim in &item.claims {
                if let Rule::Faster { phases, .. } = &claim.rule {
                    let is_phase = |name: &String| item.phases.iter().any(|phase| phase.2 == *name);
                    assert!(phases.iter().all(is_phase), "{}", claim.finding);
                }
                if let Rule::Ratio { first, second, .. } = &claim.rule {
                    let steps = [&first.step, &second.step];
                    assert!(
                        steps.iter().all(|step| STEPS.contains(&step.as_str())),
                        "{}",
                        claim.finding
                    );
                }
            }
        }
    }

    /// All phases of the figures of applications, each three times as fast as tmpfs but for the one that is named.
    fn applications(slow: &str) -> Vec<PaperStep> {
        let mut all: Vec<PaperStep> = Vec::new();
        for Phase(step, phase, name) in items().unwrap().into_iter().flat_map(|item| item.phases) {
            let ratio = if name == slow { 0.5 } else { 3.0 };
            let run = json!({"store": "DFS", "workload": "ior", "phase": phase, "ratio_to": {"tmpfs": ratio, "ext4": 9.0},
                             "rate": {"mean": 7.0, "min": 7.0, "max": 7.0, "stddev": 0.0, "median": 7.0}});
            let results = results(&[run]);
            match all.iter_mut().find(|known| known.name == step) {
                Some(known) => known.results.runs.extend(results.runs),
                None => all.push(PaperStep { command: format!("ran {step}"), name: step, results }),
            }
        }
        all
    }

    fn sections_of_applications(steps: &[PaperStep]) -> Vec<Section> {
        let sections = page(steps).unwrap().page.sections.into_iter();
        sections.filter(|section| section.title.starts_with("2023, applications")).collect()
    }

    fn verdicts(sections: &[Section]) -> Vec<&'static str> {
        sections.iter().flat_map(|section| &section.findings).map(|one| one.class).collect()
    }

    #[test]
    fn work_on_files_is_drawn_and_judged() {
        let drawn = sections_of_applications(&applications("ior hard read"));
        assert_eq!(drawn.len(), 3);
        for section in &drawn {
            let figure = &section.figures[0];
            assert!(figure.svg.contains("times ext4") && figure.svg.contains("times tmpfs"));
            assert!(figure.sentence.contains("7 MiB/s"), "{}", figure.sentence);
            assert!(section.notes.iter().any(|note| note.starts_with("Run here: ran ")));
        }
        let expected = ["not-seen", "seen", "cannot", "seen", "cannot", "seen", "seen", "cannot"];
        assert_eq!(verdicts(&drawn), expected);
    }

    #[test]
    fn work_on_files_without_measurements_is_not_seen() {
        let drawn = sections_of_applications(&[]);
        assert_eq!(verdicts(&drawn).iter().filter(|class| **class == "not-seen").count(), 5);
        assert!(drawn.iter().all(|section| section.figures.is_empty()));
    }
}
