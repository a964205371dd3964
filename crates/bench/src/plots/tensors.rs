//! The page of `esker bench tensors`: figures 6 to 8 of a paper on the emulation of object stores, beside what was
//! measured, what they had and what differs; and strong scaling, which they did not measure.
use crate::plots::chart::{Axis, Chart, LIMIT, Palette, Panel, Point, Series};
use crate::plots::finding::{Bound, Finding, ends_of};
use crate::plots::page::{Glance, Page, Section};
use crate::plots::results::Results;
use crate::plots::words::{capital, short};
use crate::plots::{Figure, Figures, distinct, ticks_at, ticks_of};
use crate::report::Run;
use esker_cli::units::Bytes;
use esker_types::{Error, ErrorKind, Result};
use serde_json::Value;

/// Name of the report on the page.
const NAME: &str = "esker bench tensors";

pub(crate) const ABOUT: [&str; 2] = [
    "2018: S. W. D. Chien, S. Markidis, R. Karim, E. Laure and S. Narasimhamurthy, Exploring Scientific Application Performance Using \
     Large Scale Object Storage. They emulated an object store for arrays, and compared it with parallel HDF5 on a file that all \
     processes share. Their figures 6 to 8 are measured here on a small scale: one machine, few processes, memory in place of \
     Lustre.",
    "Findings are in our words; the rule beside one decides it from this run alone. Values are medians of the iterations, whiskers show the range, and ratios are medians of the ratios of the iterations. A new \
     file of tmpfs takes its memory from the kernel while it is written, and a pool has its memory already: compare with the \
     new file, too.",
];

/// Members of reports.
const WEAK: &str = "tensors-weak";
const STRONG: &str = "tensors-strong";
const PHASES: [&str; 2] = ["put", "get"];

/// Layouts of parallel HDF5, and their labels.
const HDF5: [(&str, &str); 3] = [
    ("hdf5-filled", "HDF5, chunks filled"),
    ("hdf5-unfilled", "HDF5, chunks never filled"),
    ("hdf5-contiguous", "HDF5, contiguous"),
];
const FILE: (&str, &str) = ("file", "new plain file");

const MIB: f64 = (1 << 20) as f64;

/// The runs of a report.
struct Runs<'r>(Vec<&'r Run>);

/// An array that stays the same, or whose part stays the same, while there are more processes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sweep<'r> {
    workload: &'r str,
    size_bytes: u64,
}

impl Sweep<'_> {
    fn words(self) -> String {
        let size = Bytes(self.size_bytes);
        match self.workload == STRONG {
            true => format!("strong scaling, {size} in all"),
            false => format!("weak scaling, {size} for each process"),
        }
    }

    fn is_of(self, run: &Run) -> bool {
        run.workload == self.workload && run.size_bytes == self.size_bytes
    }

    /// Bytes of the array that as many processes stored.
    fn array_bytes(self, procs: u32) -> f64 {
        let times = if self.workload == STRONG { 1 } else { u64::from(procs) };
        self.size_bytes.saturating_mul(times) as f64
    }
}

/// The page of a report.
///
/// # Errors
/// If this is not a report of `esker bench tensors`, or a chart cannot be drawn.
pub fn page(report: &Value) -> Result<Page> {
    let results = Results::from_json(NAME, report.clone())?;
    let page = Page {
        title: "Arrays on an object store and in parallel HDF5".to_owned(),
        about: ABOUT.map(str::to_owned).to_vec(),
        sections: sections(&mut Figures::default(), &results)?,
        ..Page::default()
    };
    let page = Page { glance: Glance::list(&page.sections), ..page };
    Ok(page.with_numbers(&[results]))
}

/// A section for the ratios, each figure of the paper, and strong scaling.
///
/// # Errors
/// The errors of [`page`].
pub(crate) fn sections(figures: &mut Figures, results: &Results) -> Result<Vec<Section>> {
    let runs =
        Runs(results.runs.iter().filter(|run| run.workload.starts_with("tensors-")).collect());
    if runs.0.is_empty() {
        let text = format!("the report has no runs of `{NAME}`: measure again");
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    let absent = results.settings.get("hdf5").and_then(|hdf5| hdf5["absent"].as_str());
    let absent = absent.map(|why| format!("Parallel HDF5 was not measured: {why}"));
    let mut sections = vec![runs.ratios(figures)?, runs.sixth(figures)?, runs.seventh(figures)?];
    sections.extend([runs.eighth(figures)?, runs.strong(figures)?]);
    if let Some(why) = &absent {
        let findings = sections.iter_mut().flat_map(|section| &mut section.findings);
        findings.filter(|finding| finding.compares_with("HDF5")).for_each(|finding| {
            *finding = std::mem::take(finding).not_measured(why);
        });
    }
    for section in &mut sections {
        let figure = section.figures.first().map(|figure| figure.id.clone());
        section.findings.iter_mut().for_each(|finding| finding.figure.clone_from(&figure));
    }
    Ok(sections)
}

impl<'r> Runs<'r> {
    /// Weak scaling, or strong scaling, by size.
    fn sweeps(&self, workload: &'static str) -> Vec<Sweep<'r>> {
        let runs = self.0.iter().filter(|run| run.workload == workload);
        let mut sweeps =
            distinct(runs.map(|run| Sweep { workload: &run.workload, size_bytes: run.size_bytes }));
        sweeps.sort_by_key(|sweep| sweep.size_bytes);
        sweeps
    }

    /// Runs of a store, by the number of processes.
    fn runs_of(&self, sweep: Sweep<'_>, store: &str, phase: &str) -> Vec<&'r Run> {
        let is_wanted = |run: &&&Run| sweep.is_of(run) && run.store == store && run.phase == phase;
        let mut runs: Vec<_> = self.0.iter().filter(is_wanted).copied().collect();
        runs.sort_by_key(|run| run.procs);
        runs
    }

    /// The name of the tensor store: that of the first run that is none of the others.
    fn store(&self) -> &'r str {
        let is_other = |run: &Run| {
            run.is_limit() || run.store == FILE.0 || HDF5.iter().any(|(name, _)| run.store == *name)
        };
        self.0.iter().find(|run| !is_other(run)).map_or("esker", |run| &run.store)
    }

    /// Stores and their labels.
    fn stores(&self) -> Vec<(&'r str, &'static str)> {
        let first = [(self.store(), "tensor store")];
        first.into_iter().chain(HDF5).chain([FILE]).collect()
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        ticks_at(self.0.iter().map(|run| run.procs))
    }

    /// A chart over processes, with a panel for PUT and one for GET.
    fn chart(&self, title: String, y_label: &str, of: impl FnMut(&str) -> Vec<Series>) -> Chart {
        let series: Vec<_> = PHASES.into_iter().map(of).collect();
        let panel =
            |(phase, series): (&str, Vec<Series>)| Panel { title: phase.to_uppercase(), series };
        Chart {
            title,
            x_label: "processes".to_owned(),
            y_label: y_label.to_owned(),
            axis: Axis::Linear,
            ticks: self.ticks(),
            panels: PHASES.into_iter().zip(series).map(panel).collect(),
        }
    }

    /// How many times as fast as parallel HDF5.
    fn ratios(&self, figures: &mut Figures) -> Result<Section> {
        let mut drawn = Vec::new();
        for sweep in [self.sweeps(WEAK), self.sweeps(STRONG)].concat() {
            drawn.extend(self.ratio(figures, sweep)?);
        }
        let note = match drawn.is_empty() {
            true => "Parallel HDF5 was not measured.",
            false => "Above 1 the tensor store is faster.",
        };
        let notes = vec![note.to_owned()];
        let title = "Arrays: how many times as fast as parallel HDF5".to_owned();
        Ok(Section { title, notes, figures: drawn, ..Section::default() })
    }

    /// Bars of the ratios for each number of processes; none if parallel HDF5 was not measured.
    fn ratio(&self, figures: &mut Figures, sweep: Sweep<'_>) -> Result<Option<Figure>> {
        let ticks = self.ticks();
        let place = |run: &Run| {
            ticks.iter().position(|(procs, _)| *procs == f64::from(run.procs)).unwrap_or(0) as f64
        };
        let title = format!("Times parallel HDF5: {}", sweep.words());
        let mut chart = self.chart(title, "times as fast", |phase| {
            let mut palette = Palette::default();
            let points = |name: &str| -> Vec<Point> {
                let runs = self.runs_of(sweep, self.store(), phase).into_iter();
                runs.filter_map(|run| Some(Point::single(place(run), run.ratio_to(name)?)))
                    .collect()
            };
            let series = |(name, label): (&str, &str)| {
                let (style, points) = (palette.style(label), points(name));
                Series { label: label.to_owned(), style, points }
            };
            HDF5.into_iter().map(series).collect()
        });
        chart.axis = Axis::Categories;
        chart.ticks = ticks_of(ticks.iter().map(|(_, name)| name.clone()));
        if chart.series().all(|series| series.points.is_empty()) {
            return Ok(None);
        }
        let sentence = "Bars are medians of the ratios of the iterations.".to_owned();
        figures.figure("ratio", chart, sentence).map(Some)
    }

    /// Bandwidth of all stores, and the limit of the medium.
    fn bandwidth(&self, figures: &mut Figures, sweep: Sweep<'_>) -> Result<Figure> {
        let mut palette = Palette::default();
        let title = format!("Bandwidth: {}", sweep.words());
        let chart = self.chart(title, "MiB/s", |phase| {
            let series = |(name, label): (&str, &str)| {
                let points = self.runs_of(sweep, name, phase).into_iter().map(bandwidth).collect();
                Series { label: label.to_owned(), style: palette.style(label), points }
            };
            let mut all: Vec<_> = self.stores().into_iter().map(series).collect();
            all.push(self.limit(sweep, phase));
            all.into_iter().filter(|series| !series.points.is_empty()).collect()
        });
        let sentence = highest(&chart);
        figures.figure("bandwidth", chart, sentence)
    }

    fn limit(&self, sweep: Sweep<'_>, phase: &str) -> Series {
        let name = if phase == PHASES[0] { "pwrite" } else { "pread" };
        let runs = self.runs_of(sweep, "medium", name).into_iter();
        let points = runs.map(bandwidth).map(|point| Point::single(point.x, point.y)).collect();
        Series { label: "limit of the medium".to_owned(), style: LIMIT, points }
    }

    fn sixth(&self, figures: &mut Figures) -> Result<Section> {
        let sweeps = self.sweeps(WEAK);
        let drawn = sweeps.iter().map(|sweep| self.bandwidth(figures, *sweep));
        Ok(Section {
            title: "2018, Fig. 6: bandwidth of writing against processes, by chunk size".to_owned(),
            notes: vec![
                "In the paper: up to 4,096 processes on 128 nodes of a Cray XC40 with Lustre, 32-bit integers in two dimensions, \
                 three sizes of the chunk of a process, HDF5 1.10.1 with 16 to 64 processes for each stripe; median, least and \
                 most of 5 runs, measured by Darshan."
                    .to_owned(),
                "Here: the same kind of array, and the bytes of a process in place of chunk sizes. What differs: times are of the \
                 wall clock from the beginning to the commit or H5Fclose, GET is measured as well, and a shared file of tmpfs \
                 has no stripes."
                    .to_owned(),
            ],
            findings: vec![
                self.faster(("The object store writes faster than parallel HDF5.", "it outperforms parallel HDF5 (section 5)"), &all_of, Bound::AtLeast(1.2)),
                self.growth(("The object store gains more from more processes than parallel HDF5.", "parallel HDF5 scales only moderately (section 5)")),
                self.larger(("The object store is faster with larger chunks.", "bandwidth scales with the size of chunks (section 5)")),
            ],
            figures: drawn.collect::<Result<_>>()?,
        })
    }

    fn seventh(&self, figures: &mut Figures) -> Result<Section> {
        Ok(Section {
            title: "2018, Fig. 7: best and worst configuration against processes".to_owned(),
            notes: vec![
                "In the paper: the best and the worst of all sizes and stripes of Fig. 6. Here: the best and the worst of all \
                 sizes, and for parallel HDF5 of its layouts. What differs: as for Fig. 6."
                    .to_owned(),
            ],
            findings: vec![self.faster(
                ("With few processes both are comparable.", "1: comparable (Fig. 7)"),
                &fewest_of,
                Bound::Within(0.7, 1.43),
            )],
            figures: vec![self.extremes(figures)?],
        })
    }

    /// The best and the worst configuration of the tensor store and of parallel HDF5.
    fn extremes(&self, figures: &mut Figures) -> Result<Figure> {
        let hdf5: Vec<_> = HDF5.iter().map(|(name, _)| *name).collect();
        let sides = [("tensor store", vec![self.store()]), ("HDF5", hdf5)];
        let mut palette = Palette::default();
        let title = "Best and worst configuration: weak scaling".to_owned();
        let chart = self.chart(title, "MiB/s", |phase| {
            let mut series = Vec::new();
            for (label, stores) in &sides {
                for (end, is_best) in [("best", true), ("worst", false)] {
                    let label = format!("{label}, {end}");
                    let (style, points) =
                        (palette.style(&label), self.extreme(stores, phase, is_best));
                    series.push(Series { label, style, points });
                }
            }
            series.retain(|series| !series.points.is_empty());
            series
        });
        let sentence = highest(&chart);
        figures.figure("extremes", chart, sentence)
    }

    fn extreme(&self, stores: &[&str], phase: &str, is_best: bool) -> Vec<Point> {
        let sweeps = self.sweeps(WEAK);
        let pairs =
            sweeps.iter().flat_map(|sweep| stores.iter().map(move |store| (*sweep, *store)));
        let all: Vec<_> = pairs
            .flat_map(|(sweep, store)| self.runs_of(sweep, store, phase))
            .map(bandwidth)
            .collect();
        let end = |x: f64| {
            let here = all.iter().filter(|point| point.x == x);
            let by = |one: &&Point, other: &&Point| one.y.total_cmp(&other.y);
            if is_best { here.max_by(by) } else { here.min_by(by) }.copied()
        };
        self.ticks().iter().filter_map(|(x, _)| end(*x)).collect()
    }

    fn eighth(&self, figures: &mut Figures) -> Result<Section> {
        let sweeps = self.sweeps(WEAK);
        let drawn = sweeps.iter().map(|sweep| self.times(figures, *sweep));
        Ok(Section {
            title: "2018, Fig. 8: time of the I/O against processes".to_owned(),
            notes: vec![
                "In the paper: the time that 40 phases of output took of the run of a program, for one chunk size. Here: the time \
                 of one PUT and of one GET. With weak scaling, a flat line is ideal as long as the medium has room."
                    .to_owned(),
            ],
            findings: vec![self.growth(("The time of parallel HDF5 grows more with processes than that of the object store.", "a large increase, against relatively little change (Fig. 8)"))],
            figures: drawn.collect::<Result<_>>()?,
        })
    }

    /// Times of a PUT and a GET.
    fn times(&self, figures: &mut Figures, sweep: Sweep<'_>) -> Result<Figure> {
        let mut palette = Palette::default();
        let title = format!("Time of one PUT and one GET: {}", sweep.words());
        let chart = self.chart(title, "s", |phase| {
            let time = |run: &Run| time_s(sweep, run);
            let series = |(name, label): (&str, &str)| {
                let points = self.runs_of(sweep, name, phase).into_iter().map(time).collect();
                Series { label: label.to_owned(), style: palette.style(label), points }
            };
            let all = self.stores().into_iter().map(series);
            all.filter(|series| !series.points.is_empty()).collect()
        });
        let sentence = "Medians; whiskers show the range. Less is better.".to_owned();
        figures.figure("time", chart, sentence)
    }

    fn strong(&self, figures: &mut Figures) -> Result<Section> {
        let sweeps = self.sweeps(STRONG);
        let drawn = sweeps.iter().map(|sweep| self.bandwidth(figures, *sweep));
        Ok(Section {
            title: "Arrays: strong scaling, bandwidth against processes".to_owned(),
            notes: vec![
                "Not in the paper: the array stays the same while more processes share it."
                    .to_owned(),
            ],
            figures: drawn.collect::<Result<_>>()?,
            ..Section::default()
        })
    }

    /// Ratios of PUTs to the fastest layout of parallel HDF5, of the runs that `wanted` chooses.
    fn faster(
        &self,
        text: (&str, &str),
        wanted: &dyn Fn(&[&Run]) -> Vec<f64>,
        bound: Bound,
    ) -> Finding {
        let ratios = |sweep: Sweep<'r>| wanted(&self.runs_of(sweep, self.store(), PHASES[0]));
        let ratios: Vec<f64> = self.sweeps(WEAK).into_iter().flat_map(ratios).collect();
        finding(
            text,
            &ratios,
            bound,
            "PUTs of the tensor store with those of the fastest layout of parallel HDF5",
        )
    }

    /// How bandwidth grows with processes, of both.
    fn growth(&self, text: (&str, &str)) -> Finding {
        let grows = |runs: Vec<&Run>| Some(median(runs.last()?) / median(runs.first()?));
        let ratio = |sweep: Sweep<'r>| {
            let own = grows(self.runs_of(sweep, self.store(), PHASES[0]))?;
            let theirs =
                HDF5.iter().filter_map(|(name, _)| grows(self.runs_of(sweep, name, PHASES[0])));
            Some(own / theirs.reduce(f64::max)?)
        };
        let ratios: Vec<f64> = self.sweeps(WEAK).into_iter().filter_map(ratio).collect();
        let compared = "growth of the bandwidth of PUTs from the fewest to the most processes, with that of the layout of parallel HDF5 that grows most";
        finding(text, &ratios, Bound::AtLeast(1.1), compared)
    }

    /// Bandwidth of the largest size over that of the smallest.
    fn larger(&self, text: (&str, &str)) -> Finding {
        let sweeps = self.sweeps(WEAK);
        let medians = |sweep: Option<&Sweep<'r>>| -> Vec<f64> {
            let runs = sweep.map(|sweep| self.runs_of(*sweep, self.store(), PHASES[0]));
            runs.unwrap_or_default().into_iter().map(median).collect()
        };
        let (small, large) = (medians(sweeps.first()), medians(sweeps.last()));
        let ratios: Vec<f64> = match sweeps.len() {
            0 | 1 => Vec::new(),
            _ => large.iter().zip(&small).map(|(large, small)| large / small).collect(),
        };
        finding(
            text,
            &ratios,
            Bound::AtLeast(1.1),
            "PUTs of the largest size with those of the smallest",
        )
    }
}

/// The ratio to the fastest layout of parallel HDF5, by the number of processes.
fn all_of(runs: &[&Run]) -> Vec<f64> {
    let least = |run: &&Run| {
        let ratios = HDF5.iter().filter_map(|(name, _)| run.ratio_to(name));
        ratios.reduce(f64::min)
    };
    runs.iter().filter_map(least).collect()
}

/// The same for the fewest processes.
fn fewest_of(runs: &[&Run]) -> Vec<f64> {
    all_of(runs.get(..1).unwrap_or_default())
}

/// Decides a finding by the least and the greatest of some ratios.
fn finding((text, paper): (&str, &str), ratios: &[f64], bound: Bound, compared: &str) -> Finding {
    let mut finding = Finding::judged(text, paper, Ok(ends_of(ratios)), bound);
    finding.evidence.push(format!("Compared: {compared}."));
    finding
}

/// The median in MiB/s.
fn median(run: &Run) -> f64 {
    run.rate().map_or(run.bandwidth_mib_s, |rate| rate.median)
}

fn bandwidth(run: &Run) -> Point {
    let y = median(run);
    let (low, high) = run.rate().map_or((y, y), |rate| (rate.min, rate.max));
    Point { x: f64::from(run.procs), y, low, high }
}

fn time_s(sweep: Sweep<'_>, run: &Run) -> Point {
    let time = |mib_s: f64| {
        if mib_s > 0.0 { sweep.array_bytes(run.procs) / MIB / mib_s } else { 0.0 }
    };
    let y = time(median(run));
    let (low, high) = run.rate().map_or((y, y), |rate| (time(rate.max), time(rate.min)));
    Point { x: f64::from(run.procs), y, low, high }
}

/// Sentence about the maximum of each panel.
fn highest(chart: &Chart) -> String {
    let of = |panel: &Panel| {
        let measured = panel.series.iter().filter(|series| series.style != LIMIT);
        let points =
            measured.flat_map(|series| series.points.iter().map(move |point| (series, point)));
        let (series, best) = points.max_by(|one, other| one.1.y.total_cmp(&other.1.y))?;
        let (value, procs) = (short(best.y), short(best.x));
        let processes = if best.x == 1.0 { "process" } else { "processes" };
        Some(format!(
            "{}: highest {value} {} ({}, {procs} {processes}).",
            panel.title, chart.y_label, series.label
        ))
    };
    let sentences: Vec<_> = chart.panels.iter().filter_map(of).collect();
    capital(&format!("{} Medians; whiskers show the range.", sentences.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::results::tests::document;
    use serde_json::json;

    fn run(store: &str, workload: &str, phase: &str, procs: u32, mib_s: f64) -> Value {
        json!({"store": store, "workload": workload, "phase": phase, "procs": procs, "size_bytes": 16 << 20,
               "rate": {"mean": mib_s, "min": mib_s / 2.0, "max": mib_s * 2.0, "stddev": 0.0, "median": mib_s}})
    }

    /// The store doubles with the processes, and parallel HDF5 stays as it is.
    fn report(with_hdf5: bool) -> Value {
        let mut runs = Vec::new();
        for workload in [WEAK, STRONG] {
            for (procs, phase) in [(1, "put"), (2, "put"), (1, "get"), (2, "get")] {
                let mut own = run("esker", workload, phase, procs, 1024.0 * f64::from(procs));
                if with_hdf5 {
                    for (name, _) in HDF5 {
                        own["ratio_to"][name] = json!(2.0 * f64::from(procs));
                        runs.push(run(name, workload, phase, procs, 512.0));
                    }
                }
                runs.push(own);
                runs.push(run("file", workload, phase, procs, 600.0));
            }
            runs.push(run("medium", workload, "pwrite", 1, 2048.0));
        }
        let mut report = document(&runs);
        let absent = (!with_hdf5).then_some("no h5pcc");
        report["settings"]["hdf5"] = json!({"absent": absent});
        report
    }

    fn verdicts(page: &Page) -> Vec<&'static str> {
        page.sections.iter().flat_map(|section| &section.findings).map(|one| one.class).collect()
    }

    #[test]
    fn each_figure_of_the_paper_has_its_place_and_is_judged() {
        let page = page(&report(true)).unwrap();
        let html = page.html().unwrap();
        for text in [
            "2018, Fig. 6",
            "2018, Fig. 7",
            "2018, Fig. 8",
            "strong scaling",
            "limit of the medium",
        ] {
            assert!(html.contains(text), "{text}");
        }
        let figures: Vec<_> = page.figures().map(|figure| figure.id.as_str()).collect();
        let ids = [
            "fig01-ratio",
            "fig02-ratio",
            "fig03-bandwidth",
            "fig04-extremes",
            "fig05-time",
            "fig06-bandwidth",
        ];
        assert_eq!(figures, ids);
        assert_eq!(
            verdicts(&page),
            ["reproduced", "reproduced", "not-measured", "not-reproduced", "reproduced"]
        );
    }

    #[test]
    fn without_parallel_hdf5_the_rest_is_drawn_and_nothing_is_judged() {
        let page = page(&report(false)).unwrap();
        assert_eq!(page.figures().count(), 4);
        assert_eq!(verdicts(&page), ["not-measured"; 5]);
        assert!(page.html().unwrap().contains("Parallel HDF5 was not measured: no h5pcc"));
    }

    #[test]
    fn times_cover_complete_arrays() {
        let report = report(true);
        let results = Results::from_json(NAME, report).unwrap();
        let of = |workload: &str| {
            let runs = results.runs.iter();
            let run = runs
                .into_iter()
                .find(|run| run.workload == workload && run.procs == 2 && run.store == "esker");
            time_s(Sweep { workload, size_bytes: 16 << 20 }, run.unwrap())
        };
        assert_eq!((of(WEAK).y, of(STRONG).y), (0.015_625, 0.007_812_5));
        assert_eq!((of(WEAK).low, of(WEAK).high), (0.007_812_5, 0.031_25));
    }

    #[test]
    fn another_report_is_refused() {
        assert!(page(&document(&[json!({})])).unwrap_err().message().contains("no runs of"));
    }
}
