//! The page of `esker bench paper`: tables and figures of five papers with their findings, and whether the measurements
//! confirm them. `findings.json` has figures and findings, and the rules that decide them. The page of `esker bench
//! tensors` has those of the paper on arrays.
use crate::plots::files::{FileStep, Phase};
use crate::plots::finding::{Bound, Finding, VERDICTS};
use crate::plots::page::{Page, Section};
use crate::plots::results::Results;
use crate::plots::rules::Rule;
use crate::plots::sweep::{FILES, SCALING, samples, sweeps};
use crate::plots::tensors::ArrayCharts;
use crate::plots::{Figure, Figures};
use crate::report::build;
use esker_types::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::Value;

/// The step that measures arrays.
pub(crate) const TENSORS: &str = "tensors";
const QUICK: &str = "Quick run: it checks that everything works. Its figures mean nothing, so no finding is judged.";
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

/// The contents of `findings.json`.
#[derive(Debug, Deserialize)]
struct Findings {
    /// Paragraphs below the title of the page.
    about: Vec<String>,
    /// Paragraphs below the title of the page of `esker bench tensors`.
    about_arrays: Vec<String>,
    figures: Vec<Item>,
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
    #[serde(default)]
    charts: Vec<Charts>,
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

/// Kinds of charts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Charts {
    /// Work on files as multiples of the kernel's file systems.
    Ratios,
    /// Rates of work on files.
    Rates,
    Offsets,
    Timeline,
    #[serde(untagged)]
    Arrays(ArrayCharts),
    /// The name of a sweep.
    #[serde(untagged)]
    Sweep(String),
}

#[derive(Debug, Deserialize)]
struct Claim {
    finding: String,
    /// The paper's value.
    paper: String,
    /// The chart that shows it; the first one if not given.
    chart: Option<String>,
    rule: Rule,
    /// Bound of the rule's values; none if they are not measured here.
    bound: Option<Bound>,
}

/// The page of the results of all steps, without verdicts if it is `quick`.
///
/// # Errors
/// If the traces of a step cannot be read, or a figure cannot be drawn.
pub fn page(steps: &[PaperStep], quick: bool) -> Result<Papers> {
    let Findings { mut about, figures, .. } = findings()?;
    let mut sections = sections(&figures, steps)?;
    if quick {
        sections.iter_mut().for_each(Section::remove_verdicts);
    }
    about.push(format!("Measured by Esker {}.", build()));
    let mut page = Page::new("The papers on object stores, on this machine", about, sections);
    page.banner = quick.then(|| QUICK.to_owned());
    let results: Vec<_> = steps.iter().map(|step| step.results.clone()).collect();
    let page = page.with_numbers(&results);
    let findings = || page.sections.iter().flat_map(|section| &section.findings);
    let count = |(class, _)| findings().filter(|finding| finding.class == class).count();
    let verdicts = (!quick).then(|| VERDICTS.map(count));
    Ok(Papers { verdicts, page })
}

/// The page of a report of `esker bench tensors`.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn tensors_page(report: &Value) -> Result<Page> {
    let command = "esker bench tensors".to_owned();
    let results = Results::from_json(&command, report.clone())?;
    let step = PaperStep { name: TENSORS.to_owned(), command, results: results.clone() };
    let Findings { about_arrays, mut figures, .. } = findings()?;
    figures.retain(|item| item.steps.contains(&step.name));
    let sections = sections(&figures, &[step])?;
    let title = "Arrays on an object store and in parallel HDF5";
    Ok(Page::new(title, about_arrays, sections).with_numbers(&[results]))
}

fn sections(items: &[Item], steps: &[PaperStep]) -> Result<Vec<Section>> {
    let mut figures = Figures::default();
    items.iter().map(|item| item.section(&mut figures, steps)).collect()
}

/// The findings of the papers, which are part of the program.
fn findings() -> Result<Findings> {
    serde_json::from_str(include_str!("findings.json")).map_err(|error| {
        Error::new(ErrorKind::Invalid, format!("the findings of the papers: {error}"))
    })
}

impl Claim {
    /// Judges whether the measured steps show a finding. `files` are the phases that work on files.
    fn judge(&self, steps: &[PaperStep], files: &[Phase<'_>]) -> Finding {
        let (values, evidence) = self.rule.values(steps, files);
        let mut finding = Finding::judged(&self.finding, &self.paper, values, self.bound);
        finding.evidence.extend(evidence);
        finding
    }
}

impl Item {
    /// The section of a paper: figures and findings.
    fn section(&self, figures: &mut Figures, steps: &[PaperStep]) -> Result<Section> {
        let is_used = |step: &&PaperStep| {
            self.steps.contains(&step.name) || self.files.iter().any(|file| file.0 == step.name)
        };
        let used: Vec<_> = steps.iter().filter(is_used).collect();
        let results: Vec<_> = used.iter().map(|step| self.drawn(&step.results)).collect();
        let phases: Vec<_> = self.files.iter().flat_map(|file| file.phases(steps)).collect();
        let mut drawn = Vec::new();
        for kind in &self.charts {
            drawn.extend(self.charts(kind, figures, &results, &phases)?);
        }
        let findings = self.claims.iter().map(|claim| {
            let judged = claim.judge(steps, &phases);
            let is_shown = |figure: &&Figure| {
                claim.chart.as_ref().is_none_or(|chart| figure.id.ends_with(&format!("-{chart}")))
            };
            let figure = drawn.iter().find(is_shown).or(drawn.first());
            Finding { figure: figure.map(|figure| figure.id.clone()), ..judged }
        });
        let commands = used.iter().map(|step| format!("Run here: {}", step.command));
        Ok(Section {
            title: format!("{}: {}", self.label, self.title),
            notes: self.notes.iter().cloned().chain(commands).collect(),
            findings: findings.collect(),
            figures: drawn,
        })
    }

    /// The results of a file, without the runs that the figures of this paper do not show.
    fn drawn(&self, file: &Results) -> Results {
        let runs = file.runs.iter().filter(|run| {
            (self.contention.is_none() || run.contention() == self.contention.as_deref())
                && !run.phase.starts_with("tree-")
        });
        Results { runs: runs.cloned().collect(), ..file.clone() }
    }

    /// Draws the charts of one kind from the results. Pools over nodes have charts of their own, because their figures
    /// cannot be compared with those of one node.
    fn charts(
        &self,
        kind: &Charts,
        figures: &mut Figures,
        files: &[Results],
        phases: &[Phase<'_>],
    ) -> Result<Vec<Figure>> {
        // Pools over nodes have charts of their own.
        let (nodes, files): (Vec<_>, Vec<_>) = files
            .iter()
            .cloned()
            .partition(|file| file.runs.iter().any(|run| run.server_nodes().is_some()));
        match kind {
            Charts::Ratios => Ok(figures.ratios(&self.title, phases)?.into_iter().collect()),
            Charts::Rates => Ok(figures.rates(&self.title, phases)?.into_iter().collect()),
            Charts::Offsets => Ok(figures.offsets(&files)?.into_iter().collect()),
            Charts::Timeline => {
                let drawn = files.iter().map(|file| figures.timelines(file));
                let drawn: Vec<_> = drawn.collect::<Result<_>>()?;
                Ok(drawn.into_iter().flat_map(|file| file.into_iter().take(TIMELINES)).collect())
            }
            Charts::Arrays(kind) => {
                let arrays = files.iter().map(|file| figures.arrays(*kind, &file.runs));
                Ok(arrays.collect::<Result<Vec<_>>>()?.concat())
            }
            Charts::Sweep(name) => {
                let is_of_nodes = [SCALING, FILES].contains(&name.as_str());
                let samples = samples(if is_of_nodes { &nodes } else { &files });
                let sweep = sweeps()?.into_iter().find(|sweep| sweep.stem == *name);
                sweep.map_or(Ok(Vec::new()), |sweep| figures.sweep(&sweep, &samples))
            }
        }
    }
}

#[cfg(test)]
mod tests;
