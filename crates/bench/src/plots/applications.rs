//! The figures of a paper on simulation and deep learning, as a part of the page of `esker bench paper`: the work of IO500,
//! reads of samples as CosmicTagger's, and VPIC's writes with BD-CATS' reads, beside the kernel's file systems.
use crate::plots::chart::{Axis, Chart, Palette, Panel, Point, Series};
use crate::plots::page::{Finding, Section};
use crate::plots::paper::{Bound, PaperStep, judged};
use crate::plots::words::short;
use crate::plots::{Figure, Figures};
use crate::report::Run;
use esker_types::Result;

pub(crate) const ABOUT: &str = "2023, applications: L. Logan, J. Lofstead, X.-H. Sun and A. Kougkas, An Evaluation of DAOS for Simulation \
     and Deep Learning HPC Workloads. They compared DAOS with OrangeFS and BeeGFS, which go through the kernel, by 128 processes on \
     three nodes with persistent memory, NVMe and a network. Here file systems of this machine's kernel stand in for theirs: tmpfs \
     on the same medium, and that of a disk, whose page cache may hold all of it.";

/// The file system in a container, as reports name it.
const STORE: &str = "DFS";

/// A phase of a step, and its name in a chart.
type Phase = (&'static str, &'static str, &'static str);

/// Figure 1: transfers of data.
const TRANSFERS: [Phase; 4] = [
    ("io500-ior-easy", "write", "ior easy write"),
    ("io500-ior-easy", "read", "ior easy read"),
    ("io500-ior-hard", "write", "ior hard write"),
    ("io500-ior-hard", "read", "ior hard read"),
];
/// Figure 1: work on metadata.
const METADATA: [Phase; 6] = [
    ("io500-mdtest-easy", "file-creation", "mdtest easy create"),
    ("io500-mdtest-easy", "file-stat", "mdtest easy stat"),
    ("io500-mdtest-easy", "file-removal", "mdtest easy remove"),
    ("io500-mdtest-hard", "file-creation", "mdtest hard create"),
    ("io500-mdtest-hard", "file-stat", "mdtest hard stat"),
    ("io500-mdtest-hard", "file-read", "mdtest hard read"),
];
/// Figure 2.
const SAMPLES: [Phase; 1] = [("samples", "read", "samples read")];
/// Figure 3.
const VPIC: [Phase; 1] = [("particles", "write", "VPIC write")];
const BD_CATS: [Phase; 1] = [("particles", "read", "BD-CATS read")];

/// One figure of the paper.
struct Item {
    title: &'static str,
    theirs: &'static str,
    ours: &'static str,
    phases: &'static [&'static [Phase]],
    claims: &'static [Claim],
}

/// A finding of the paper, in our words.
struct Claim {
    text: &'static str,
    decided: Decided,
}

/// Rule that decides a claim.
enum Decided {
    /// Holds if the ratio to tmpfs of each of these phases is at least this.
    ByRatio(&'static [Phase], f64),
    /// Undecided, for this reason: this machine lacks something.
    Cannot(&'static str),
}

const ITEMS: [Item; 3] = [
    Item {
        title: "2023, applications, Fig. 1: IO500 over hardware and storage systems",
        theirs: "In the paper: IO500 (isc'22) for 5 minutes with 128 processes on memory, persistent memory and NVMe.",
        ours: "Here: the work of its phases without the genuine program, whose rates `esker bench ior` and `esker bench mdtest` print \
               beside ours where it is installed: own files in transfers of 1 MiB, a shared file in transfers of 47,008 bytes, empty \
               files in directories of each process, files of 3,901 bytes in one directory. What differs: one machine, two \
               processes, no network, seconds for minutes; IO500's find is left out.",
        phases: &[&TRANSFERS, &METADATA],
        claims: &[
            Claim {
                text: "The object store moves data faster, in large aligned transfers and in small unaligned ones.",
                decided: Decided::ByRatio(&TRANSFERS, 1.2),
            },
            Claim {
                text: "The object store works faster on metadata.",
                decided: Decided::ByRatio(&METADATA, 1.2),
            },
            Claim {
                text: "DAOS is at least 8 times as fast with data and 18 times with metadata as OrangeFS and BeeGFS.",
                decided: Decided::Cannot(
                    "It is about file systems whose servers keep account of stripes of 64 KiB over a network; here are neither.",
                ),
            },
        ],
    },
    Item {
        title: "2023, applications, Fig. 2: CosmicTagger by DLIO",
        theirs: "In the paper: (a) the time of a training that reads 430,000 samples from a file of HDF5, mostly in 20 to 50 KB; \
                 (b) the same with DAOS on SPDK, on the block layer and on ext4.",
        ours: "Here: its reads alone, 32 KiB in random order from a file that all processes share. What differs: no HDF5, no \
               computation, no other storage systems.",
        phases: &[&SAMPLES],
        claims: &[
            Claim {
                text: "(a) Samples are read faster from the object store.",
                decided: Decided::ByRatio(&SAMPLES, 1.2),
            },
            Claim {
                text: "(b) SPDK is 35% faster than the block layer and 55% faster than ext4.",
                decided: Decided::Cannot(
                    "It is about how a server reaches its NVMe; the pool here is in memory, or in files of the file system of --dir.",
                ),
            },
        ],
    },
    Item {
        title: "2023, applications, Fig. 3: VPIC and BD-CATS",
        theirs: "In the paper: VPIC writes 8 variables of 8 Mi particles for each process and time step to files of HDF5, 500 GB in \
                 all, and BD-CATS reads them.",
        ours: "Here: the same transfers to one shared file, 8 MiB for each variable and process, 8 variables, 2 time steps. What \
               differs: no HDF5 and no computation. docs/performance.md says what the genuine h5bench reached over HDF5.",
        phases: &[&VPIC, &BD_CATS],
        claims: &[
            Claim {
                text: "Particles are written faster to the object store (VPIC).",
                decided: Decided::ByRatio(&VPIC, 1.2),
            },
            Claim {
                text: "Particles are read faster from the object store (BD-CATS).",
                decided: Decided::ByRatio(&BD_CATS, 1.2),
            },
            Claim {
                text: "DAOS is 6 times as fast as OrangeFS and BeeGFS.",
                decided: Decided::Cannot(
                    "It is about file systems whose servers keep account of stripes of 64 KiB over a network; here are neither.",
                ),
            },
        ],
    },
];

/// A section for each figure.
///
/// # Errors
/// If a chart cannot be drawn.
pub(crate) fn sections(figures: &mut Figures, steps: &[PaperStep]) -> Result<Vec<Section>> {
    ITEMS.iter().map(|item| item.section(figures, steps)).collect()
}

impl Item {
    fn phases(&self) -> impl Iterator<Item = &'static Phase> {
        self.phases.iter().copied().flatten()
    }

    fn section(&self, figures: &mut Figures, steps: &[PaperStep]) -> Result<Section> {
        let is_used = |step: &&PaperStep| self.phases().any(|(name, ..)| *name == step.name);
        let run = steps.iter().filter(is_used).map(|step| format!("Run here: {}", step.command));
        Ok(Section {
            title: self.title.to_owned(),
            notes: [self.theirs, self.ours].into_iter().map(str::to_owned).chain(run).collect(),
            findings: self.claims.iter().map(|claim| claim.judge(steps)).collect(),
            figures: self.figure(figures, steps)?.into_iter().collect(),
        })
    }

    /// Bars of the ratios to each of the kernel's file systems; none if nothing was measured.
    fn figure(&self, figures: &mut Figures, steps: &[PaperStep]) -> Result<Option<Figure>> {
        let runs: Vec<_> = self.phases().map(|phase| run(steps, phase)).collect();
        let mut others: Vec<&str> = runs.iter().flatten().flat_map(|run| others_of(run)).collect();
        others.sort_unstable();
        others.dedup();
        if others.is_empty() {
            return Ok(None);
        }
        let mut palette = Palette::default();
        let series = |other: &&str| {
            let ratio = |run: &Option<&Run>| run.as_ref()?.ratio_to(other);
            let numbered = runs.iter().enumerate();
            let points = numbered.filter_map(|(x, run)| Some(Point::single(x as f64, ratio(run)?)));
            let label = format!("times {other}");
            Series { style: palette.style(&label), label, points: points.collect() }
        };
        let series = others.iter().map(series).collect();
        let ticks = self.phases().enumerate();
        let chart = Chart {
            title: self.title.split(": ").last().unwrap_or_default().to_owned(),
            x_label: "phase".to_owned(),
            y_label: "times as fast".to_owned(),
            axis: Axis::Categories,
            ticks: ticks.map(|(x, (.., name))| (x as f64, (*name).to_owned())).collect(),
            panels: vec![Panel { title: String::new(), series }],
        };
        Ok(Some(Figure {
            id: figures.next_id("applications"),
            svg: chart.svg()?,
            title: chart.title,
            sentence: format!(
                "How many times as fast the file system in a container is; medians of the ratios of the iterations. {}",
                self.rates(steps)
            ),
        }))
    }

    /// The median rates from which the ratios are computed.
    fn rates(&self, steps: &[PaperStep]) -> String {
        let rate = |phase: &Phase| {
            let run = run(steps, phase)?;
            let median = run.rate()?.median;
            let unit = if run.workload == "ior" { "MiB/s" } else { "/s" };
            Some(format!("{} {} {unit}", phase.2, short(median)))
        };
        let rates: Vec<_> = self.phases().filter_map(rate).collect();
        format!("Rates: {}.", rates.join(", "))
    }
}

/// The stores that a run is compared with.
fn others_of(run: &Run) -> impl Iterator<Item = &str> {
    run.repeated.iter().flat_map(|repeated| repeated.ratio_to.keys()).map(String::as_str)
}

/// Run of a phase in the file system of a container.
fn run<'s>(steps: &'s [PaperStep], (step, phase, _): &Phase) -> Option<&'s Run> {
    let step = steps.iter().find(|one| one.name == *step)?;
    step.results.runs.iter().find(|run| run.store == STORE && run.phase == *phase)
}

impl Claim {
    fn judge(&self, steps: &[PaperStep]) -> Finding {
        let (numbers, bound, compared) = match self.decided {
            Decided::Cannot(why) => (Err(why.to_owned()), 0.0, None),
            Decided::ByRatio(phases, least) => {
                let ratio = |phase: &Phase| Some((phase.2, run(steps, phase)?.ratio_to("tmpfs")?));
                let numbers = phases.iter().filter_map(ratio).collect();
                (Ok(numbers), least, Some("Compared: the file system in a container with tmpfs."))
            }
        };
        let (class, verdict, evidence) = judged(numbers, Bound::AtLeast(bound));
        let evidence =
            [Some(evidence), compared.map(str::to_owned)].into_iter().flatten().collect();
        Finding { text: self.text.to_owned(), class, verdict, evidence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::results::Results;
    use crate::plots::results::tests::document;
    use serde_json::json;

    /// All phases of all figures, each three times as fast as tmpfs but for the one that is named.
    fn steps(slow: &str) -> Vec<PaperStep> {
        let phases = ITEMS.iter().flat_map(Item::phases);
        let step = |(step, phase, name): &Phase| {
            let ratio = if *name == slow { 0.5 } else { 3.0 };
            let run = json!({"store": STORE, "workload": "ior", "phase": phase, "ratio_to": {"tmpfs": ratio, "ext4": 9.0},
                             "rate": {"mean": 7.0, "min": 7.0, "max": 7.0, "stddev": 0.0, "median": 7.0}});
            let results = Results::from_json("report", document(&[run])).unwrap();
            PaperStep { name: (*step).to_owned(), command: format!("ran {step}"), results }
        };
        let mut all: Vec<PaperStep> = Vec::new();
        for one in phases.map(step) {
            match all.iter_mut().find(|step| step.name == one.name) {
                Some(step) => step.results.runs.extend(one.results.runs),
                None => all.push(one),
            }
        }
        all
    }

    fn verdicts(steps: &[PaperStep]) -> Vec<&'static str> {
        let sections = sections(&mut Figures::default(), steps).unwrap();
        sections.iter().flat_map(|section| &section.findings).map(|one| one.class).collect()
    }

    #[test]
    fn each_figure_is_drawn_and_judged() {
        let steps = steps("ior hard read");
        let drawn = sections(&mut Figures::default(), &steps).unwrap();
        assert_eq!(drawn.len(), 3);
        for section in &drawn {
            let figure = &section.figures[0];
            assert!(figure.svg.contains("times ext4") && figure.svg.contains("times tmpfs"));
            assert!(figure.sentence.contains("7 MiB/s"), "{}", figure.sentence);
            assert!(section.notes.iter().any(|note| note.starts_with("Run here: ran ")));
        }
        let expected = ["not-seen", "seen", "cannot", "seen", "cannot", "seen", "seen", "cannot"];
        assert_eq!(verdicts(&steps), expected);
    }

    #[test]
    fn findings_without_measurements_are_not_seen() {
        assert_eq!(verdicts(&[]).iter().filter(|class| **class == "not-seen").count(), 5);
        let drawn = sections(&mut Figures::default(), &[]).unwrap();
        assert!(drawn.iter().all(|section| section.figures.is_empty()));
    }
}
