//! `esker bench paper`: every table and figure of the two papers on weather fields and DAOS, scaled
//! down to one machine and a few minutes, with what was found there beside what is seen here.
mod items;
mod rules;
mod steps;

use crate::figures::{Figure, Figures, SWEEPS, samples};
use crate::fleet::Launcher;
use crate::page::{self, Html, Page};
use crate::plan::Note;
use crate::plan::arena::{Arena, Room, Store};
use crate::results::Results;
use esker::types::info::Durability;
use esker_types::Result;
use items::{ITEMS, Item};
use rules::{Judgement, Rule, Verdict, named};
use std::path::PathBuf;
use steps::STEPS;

/// What to run.
#[derive(Clone, Debug)]
pub struct PaperPlan {
    /// How to start processes.
    pub launcher: Launcher,
    /// Folder on the medium to measure.
    pub folder: PathBuf,
    /// With few operations, to see what the page looks like; the numbers mean little.
    pub quick: bool,
}

/// The page, and how many findings came out which way.
#[derive(Clone, Debug, PartialEq)]
pub struct Papers {
    /// The page.
    pub page: Page,
    /// Findings that are seen.
    pub seen: usize,
    /// Findings that are not.
    pub not_seen: usize,
    /// Findings that need more than one node.
    pub cannot: usize,
}

impl PaperPlan {
    /// Runs all steps and makes the page.
    ///
    /// # Errors
    /// Where there is no room, a step fails, or this process is told to end.
    pub fn run(&self, note: Note<'_>) -> Result<Papers> {
        let room = Room { bytes: 0, entries: 0, targets: None, durability: Durability::Process };
        let arena = Arena::new(&self.launcher, &self.folder, &[Store::Posix], &room, note)?;
        let runner = arena.runner(&self.launcher);
        let files = steps::run_all(&runner, &arena, &self.folder, self.quick, note)?;
        note("drawing");
        papers(&files)
    }
}

/// The page of the results of all steps, in their order.
fn papers(files: &[Results]) -> Result<Papers> {
    let judged: Vec<Vec<Judgement>> = ITEMS
        .iter()
        .map(|item| item.claims.iter().map(|claim| claim.rule.judge(files)).collect())
        .collect();
    let mut html = page::begin("The papers on weather fields and DAOS, on this machine");
    for text in ABOUT {
        html.leaf("p", &[], text);
    }
    overview(&mut html, &judged);
    let mut figures = Figures::default();
    let mut drawn = Vec::new();
    for (item, judgements) in ITEMS.iter().zip(&judged) {
        let of_item = item.figures(&mut figures, files)?;
        section(&mut html, item, judgements, &of_item);
        drawn.extend(of_item);
    }
    page::numbers::tables(&mut html, files);
    page::machine::blocks(&mut html, files);
    let count = |verdict| judged.iter().flatten().filter(|one| one.verdict == verdict).count();
    Ok(Papers {
        seen: count(Verdict::Seen),
        not_seen: count(Verdict::NotSeen),
        cannot: count(Verdict::CannotBeSeen),
        page: Page { html: page::end(html), figures: drawn },
    })
}

const ABOUT: [&str; 2] = [
    "2023: N. Manubens and others, DAOS as HPC Storage: a View From Numerical Weather Prediction. 2022: N. \
     Manubens and others, Performance Comparison of DAOS and Lustre for Object Data Storage Approaches. \
     Each of their tables and figures is measured here on a small scale: one node, few processes, no \
     network. What they found is told in our words; whether it is seen here is decided by the rule that \
     stands beside it, from this run alone.",
    "\"Not seen\" is no failure of either: some findings are costs that another store does not have. \
     \"native\" is a pool of this machine; \"posix\" is the layout of the 2022 paper on the same medium, \
     which stands in for their Lustre.",
];

fn overview(html: &mut Html, judged: &[Vec<Judgement>]) {
    html.leaf("h2", &[], "At a glance");
    let rows: Vec<_> = ITEMS
        .iter()
        .zip(judged)
        .flat_map(|(item, judgements)| {
            item.claims.iter().zip(judgements).map(|(claim, judgement)| {
                [item.label, claim.finding, judgement.verdict.words()].map(str::to_owned).to_vec()
            })
        })
        .collect();
    html.table("Findings of the papers", &["figure", "finding", "here"], &rows);
}

fn section(html: &mut Html, item: &Item, judgements: &[Judgement], figures: &[Figure]) {
    html.leaf("h2", &[], &format!("{}: {}", item.label, item.title));
    let commands = STEPS.iter().filter(|step| item.steps.contains(&step.name));
    for step in commands {
        let store = if step.posix { "posix" } else { "native" };
        html.leaf(
            "p",
            &[("class", "note")],
            &format!("Run here ({store}): esker bench {}", step.words),
        );
    }
    for (claim, judgement) in item.claims.iter().zip(judgements) {
        html.open("div", &[("class", "finding")]);
        html.leaf("p", &[], claim.finding);
        html.leaf("span", &[("class", judgement.verdict.class())], judgement.verdict.words());
        html.leaf("p", &[("class", "note")], &judgement.evidence);
        if let Rule::Ratio { first, second, .. } = &claim.rule {
            let compared = format!("Compared: {} with {}.", named(first), named(second));
            html.leaf("p", &[("class", "note")], &compared);
        }
        html.close();
    }
    figures.iter().for_each(|figure| page::draw(html, figure));
}

impl Item {
    fn figures(&self, figures: &mut Figures, files: &[Results]) -> Result<Vec<Figure>> {
        let used: Vec<_> = STEPS
            .iter()
            .zip(files)
            .filter(|(step, _)| self.steps.contains(&step.name))
            .map(|(_, file)| self.of_contention(file))
            .collect();
        let samples = samples(&used);
        let sweeps = SWEEPS.iter().filter(|sweep| self.charts.contains(&sweep.stem));
        let mut drawn: Vec<_> = sweeps.flat_map(|sweep| figures.sweep(sweep, &samples)).collect();
        if self.charts.contains(&"offsets") {
            drawn.extend(figures.offsets(&used));
        }
        for file in used.iter().filter(|_| self.charts.contains(&"timeline")) {
            drawn.extend(figures.timelines(file)?.into_iter().take(TIMELINES));
        }
        Ok(drawn)
    }

    fn of_contention(&self, file: &Results) -> Results {
        let wanted = |contention: &Option<String>| {
            self.contention.is_none() || contention.as_deref() == self.contention
        };
        let runs = file.runs.iter().filter(|run| wanted(&run.contention)).cloned();
        Results { runs: runs.collect(), ..file.clone() }
    }
}

/// Timelines that show what there is to see.
const TIMELINES: usize = 4;

#[cfg(test)]
mod tests;
