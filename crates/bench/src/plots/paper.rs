//! The page of `esker bench paper`: tables and figures of five papers with their findings, and whether the measurements
//! confirm them. `findings.json` has the findings of all but the paper on tensors, and the rules that decide them.
use crate::plots::applications::{FileStep, Phase};
use crate::plots::finding::{Finding, VERDICTS};
use crate::plots::page::{Glance, Page, Section};
use crate::plots::results::Results;
use crate::plots::rules::Rule;
use crate::plots::sweep::{FILES, SCALING, SWEEPS, samples};
use crate::plots::{Figure, Figures, tensors};
use crate::report::build;
use esker_types::{Error, ErrorKind, Result};
use serde::Deserialize;

const FINDINGS: &str = include_str!("findings.json");
/// The step whose figures are those of [`crate::plots::tensors`].
const TENSORS: &str = "tensors";
const QUICK: &str = "Quick run: it checks that everything works. Its figures mean nothing, so no finding is judged.";
const ABOUT: [&str; 6] = [
    "2023: N. Manubens and others, DAOS as HPC Storage: a View From Numerical Weather Prediction. 2022: N. Manubens and \
     others, Performance Comparison of DAOS and Lustre for Object Data Storage Approaches. Each of their tables and \
     figures is measured here on a small scale: one machine, few processes, no network. \"esker\" is a pool on this \
     machine; \"posix\" is the layout of the 2022 paper on files, which stand in for their Lustre: on tmpfs and on the file \
     system of a disk. Pools over nodes are those whose engines all run on this machine.",
    tensors::ABOUT[0],
    "2023, applications: L. Logan, J. Lofstead, X.-H. Sun and A. Kougkas, An Evaluation of DAOS for Simulation \
     and Deep Learning HPC Workloads. They compared DAOS with OrangeFS and BeeGFS by 128 processes on three nodes. Here file \
     systems of this machine's kernel stand in for theirs: tmpfs, and that of a disk, whose page cache may hold everything.",
    "2018, GekkoFS: M.-A. Vef and others, GekkoFS - A Temporary Distributed File System for HPC Applications. They ran \
     mdtest and IOR by 16 processes on each of up to 512 nodes with SSDs. Here is the file system in a container of a pool over \
     nodes, whose engines all run on this machine.",
    "Findings are in our words. Values of a paper are its own, published in the section or figure that is named. The rule beside a \
     finding decides it from this run alone. Where two media or two file systems are compared with, the faster one counts. \
     Readers are other processes than the writers.",
    "\"Not reproduced\" is not a failure: some findings are costs that another store does not have. \"Not measured\" means that \
     this run has no numbers for it.",
];
/// The chart of rates on pools over nodes.
const RATES: &str = "rates";
/// Maximum number of timelines of one file.
const TIMELINES: usize = 4;

/// Measurements of one command.
#[derive(Clone, Debug)]
pub struct PaperStep {
    /// Name that the findings use.
    pub name: String,
    /// The command as it was run, and the store.
    pub command: String,
    /// Its report.
    pub results: Results,
}

/// The page, with the number of findings by verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Papers {
    /// The page.
    pub page: Page,
    /// Findings that are confirmed, that are not, and that are not measured; none in a quick run.
    pub verdicts: Option<[usize; 3]>,
}

/// One table or figure of a paper.
#[derive(Debug, Deserialize)]
struct Item {
    /// Year of the paper and name of the figure.
    label: String,
    title: String,
    /// Steps whose results are drawn.
    #[serde(default)]
    steps: Vec<String>,
    /// Kinds of charts.
    #[serde(default)]
    charts: Vec<String>,
    /// Only runs with this contention are drawn.
    contention: Option<String>,
    /// The measurement in the paper, and what differs here.
    #[serde(default)]
    notes: Vec<String>,
    /// Steps that work on files, with their names in the chart.
    #[serde(default)]
    files: Vec<FileStep>,
    claims: Vec<Claim>,
}

#[derive(Debug, Deserialize)]
struct Claim {
    finding: String,
    /// The paper's value.
    paper: String,
    /// The chart that shows it; the first one if not given.
    chart: Option<String>,
    rule: Rule,
}

/// The page of the results of all steps, without verdicts if it is `quick`.
///
/// # Errors
/// If the traces of a step cannot be read, or a figure cannot be drawn.
pub fn page(steps: &[PaperStep], quick: bool) -> Result<Papers> {
    let mut page = Page {
        title: "The papers on object stores, on this machine".to_owned(),
        banner: quick.then(|| QUICK.to_owned()),
        about: ABOUT.map(str::to_owned).to_vec(),
        ..Page::default()
    };
    page.about.push(format!("Measured by Esker {}.", build()));
    let mut figures = Figures::default();
    let (files, fields): (Vec<_>, Vec<_>) =
        items()?.into_iter().partition(|item| !item.files.is_empty());
    for item in fields {
        page.sections.push(item.section(&mut figures, steps)?);
    }
    for step in steps.iter().filter(|step| step.name == TENSORS) {
        let mut sections = tensors::sections(&mut figures, &step.results)?;
        sections[0].notes.push(run_here(step));
        page.sections.extend(sections);
    }
    for item in files {
        page.sections.push(item.section(&mut figures, steps)?);
    }
    if quick {
        page.sections.iter_mut().for_each(Section::without_verdicts);
    }
    page.glance = Glance::list(&page.sections);
    let results: Vec<_> = steps.iter().map(|step| step.results.clone()).collect();
    let page = page.with_numbers(&results);
    let findings = || page.sections.iter().flat_map(|section| &section.findings);
    let count = |(class, _)| findings().filter(|finding| finding.class == class).count();
    let verdicts = (!quick).then(|| VERDICTS.map(count));
    Ok(Papers { verdicts, page })
}

fn run_here(step: &PaperStep) -> String {
    format!("Run here: {}", step.command)
}

fn items() -> Result<Vec<Item>> {
    serde_json::from_str(FINDINGS).map_err(|error| {
        Error::new(ErrorKind::Invalid, format!("the findings of the papers: {error}"))
    })
}

impl Item {
    fn section(&self, figures: &mut Figures, steps: &[PaperStep]) -> Result<Section> {
        let is_used = |step: &&PaperStep| {
            self.steps.contains(&step.name) || self.files.iter().any(|file| file.0 == step.name)
        };
        let used: Vec<_> = steps.iter().filter(is_used).collect();
        let drawn: Vec<_> = used.iter().map(|step| self.drawn(&step.results)).collect();
        let mut drawn = self.figures(figures, &drawn)?;
        let phases: Vec<Phase<'_>> =
            self.files.iter().flat_map(|file| file.phases(steps)).collect();
        match self.charts.first().map(String::as_str) {
            None => drawn.extend(figures.ratios(&self.title, &phases)?),
            Some(RATES) => drawn.extend(figures.rates(&self.title, &phases)?),
            Some(_) => {}
        }
        let findings = self.claims.iter().map(|claim| {
            let judged = claim.rule.judge((&claim.finding, &claim.paper), &self.files, steps);
            let is_shown = |figure: &&Figure| {
                claim.chart.as_ref().is_none_or(|chart| figure.id.ends_with(&format!("-{chart}")))
            };
            let figure = drawn.iter().find(is_shown).or(drawn.first());
            Finding { figure: figure.map(|figure| figure.id.clone()), ..judged }
        });
        Ok(Section {
            title: format!("{}: {}", self.label, self.title),
            notes: self
                .notes
                .iter()
                .cloned()
                .chain(used.iter().map(|step| run_here(step)))
                .collect(),
            findings: findings.collect(),
            figures: drawn,
        })
    }

    fn drawn(&self, file: &Results) -> Results {
        let runs = file.runs.iter().filter(|run| {
            (self.contention.is_none() || run.contention() == self.contention.as_deref())
                && !run.phase.starts_with("tree-")
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
            let is_of = |stem: &str| [SCALING, FILES].contains(&stem) == is_scaling;
            for sweep in SWEEPS.iter().filter(|sweep| is_of(sweep.stem) && has(sweep.stem)) {
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

#[cfg(test)]
mod tests;
