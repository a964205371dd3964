//! Charts and findings on arrays, from reports of `esker bench tensors`: a tensor store beside parallel HDF5, a new plain
//! file and the medium.
use crate::metrics::MIB;
use crate::plots::chart::{Axis, Chart, Point};
use crate::plots::style::LIMIT;
use crate::plots::{Figure, Figures, distinct, grouped_by};
use crate::report::Run;
use esker_cli::units::Bytes;
use esker_types::Result;
use serde::Deserialize;

/// Kinds of charts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ArrayCharts {
    /// How many times as fast as parallel HDF5.
    Ratio,
    /// Bandwidth with weak scaling.
    Bandwidth,
    /// The best and the worst of all sizes, and of all layouts of parallel HDF5.
    Extremes,
    /// Times of a PUT and a GET.
    Time,
    /// Bandwidth with strong scaling.
    Strong,
}

const WEAK: &str = "tensors-weak";
const STRONG: &str = "tensors-strong";

/// Label of the tensor store, which reports name by the kind of its pool.
const STORE: &str = "tensor store";
/// Layouts of parallel HDF5 in reports, and their labels.
const HDF5: [(&str, &str); 3] = [
    ("hdf5-filled", "HDF5, chunks filled"),
    ("hdf5-unfilled", "HDF5, chunks never filled"),
    ("hdf5-contiguous", "HDF5, contiguous"),
];

impl Run {
    /// Label of the store of arrays.
    fn array_store(&self) -> &'static str {
        let layout = HDF5.iter().find(|(name, _)| *name == self.store);
        match (layout, self.store.as_str()) {
            (Some((_, label)), _) => label,
            (None, "file") => "new plain file",
            (None, "medium") => "limit of the medium",
            (None, _) => STORE,
        }
    }

    /// Title of the panel of its phase.
    fn array_panel(&self) -> &'static str {
        if matches!(self.phase.as_str(), "put" | "pwrite") { "PUT" } else { "GET" }
    }
}

impl Figures {
    /// The charts of a kind: one for each size with weak or strong scaling.
    pub(crate) fn arrays(&mut self, kind: ArrayCharts, runs: &[Run]) -> Result<Vec<Figure>> {
        let scalings: &[&str] = match kind {
            ArrayCharts::Ratio => &[WEAK, STRONG],
            ArrayCharts::Strong => &[STRONG],
            _ => &[WEAK],
        };
        let mut figures = Vec::new();
        for scaling in scalings {
            let mut runs: Vec<_> = runs.iter().filter(|run| run.workload == *scaling).collect();
            runs.sort_by_key(|run| (run.size_bytes, run.procs));
            if kind == ArrayCharts::Extremes {
                figures.extend(self.extremes(&runs)?);
                continue;
            }
            for runs in runs.chunk_by(|one, next| one.size_bytes == next.size_bytes) {
                figures.extend(match kind {
                    ArrayCharts::Ratio => self.ratio(runs)?,
                    ArrayCharts::Time => self.times(runs)?,
                    _ => self.bandwidth(runs)?,
                });
            }
        }
        Ok(figures)
    }

    /// Bars of the ratios for each number of processes; none if parallel HDF5 was not measured.
    fn ratio(&mut self, runs: &[&Run]) -> Result<Option<Figure>> {
        let title = title("Times parallel HDF5", runs);
        let mut chart = Chart::new(&title, ("processes", Axis::Categories), "times as fast");
        for run in runs.iter().filter(|run| run.array_store() == STORE) {
            for (name, label) in HDF5 {
                if let Some(ratio) = run.ratio_to(name) {
                    let x = chart.category(&run.procs.to_string());
                    chart.add(run.array_panel(), label, Point::single(x, ratio));
                }
            }
        }
        let sentence = "Bars are medians of the ratios of the iterations.".to_owned();
        self.figure("ratio", chart, sentence)
    }

    /// Bandwidth of all stores, and the limit of the medium.
    fn bandwidth(&mut self, runs: &[&Run]) -> Result<Option<Figure>> {
        let title = title("Bandwidth", runs);
        let mut chart = Chart::new(&title, ("processes", Axis::Linear), "MiB/s");
        for (run, rate) in runs.iter().filter_map(|run| Some((run, run.rate()?))) {
            let (panel, label) = (run.array_panel(), run.array_store());
            let point = Point::median(f64::from(run.procs), &rate);
            match run.is_limit() {
                true => chart.add_styled(panel, label, LIMIT, Point::single(point.x, point.y)),
                false => chart.add(panel, label, point),
            }
        }
        let sentence = highest(&chart);
        self.figure("bandwidth", chart, sentence)
    }

    /// The best and the worst of all sizes, and of all layouts of parallel HDF5.
    fn extremes(&mut self, runs: &[&Run]) -> Result<Option<Figure>> {
        let title = "Best and worst configuration: weak scaling";
        let mut chart = Chart::new(title, ("processes", Axis::Linear), "MiB/s");
        let system = |run: &Run| match run.array_store() {
            STORE => Some(STORE),
            label => label.starts_with("HDF5").then_some("HDF5"),
        };
        let key = |run: &Run| (run.array_panel(), system(run), run.procs);
        for ((panel, system, procs), group) in grouped_by(runs.iter().copied(), key) {
            let Some(system) = system else { continue };
            let mut rates: Vec<_> = group.iter().filter_map(|run| run.rate()).collect();
            rates.sort_by(|one, other| one.median.total_cmp(&other.median));
            for (end, rate) in [("best", rates.last()), ("worst", rates.first())] {
                if let Some(rate) = rate {
                    let label = format!("{system}, {end}");
                    chart.add(panel, &label, Point::median(f64::from(procs), rate));
                }
            }
        }
        let sentence = highest(&chart);
        self.figure("extremes", chart, sentence)
    }

    /// Times of a PUT and a GET.
    fn times(&mut self, runs: &[&Run]) -> Result<Option<Figure>> {
        let title = title("Time of one PUT and one GET", runs);
        let mut chart = Chart::new(&title, ("processes", Axis::Linear), "s");
        for run in runs.iter().filter(|run| !run.is_limit()) {
            if let Some(point) = time_s(run) {
                chart.add(run.array_panel(), run.array_store(), point);
            }
        }
        let sentence = "Medians; whiskers show the range. Less is better.".to_owned();
        self.figure("time", chart, sentence)
    }
}

/// Title that names the kind of scaling.
fn title(what: &str, runs: &[&Run]) -> String {
    let size = Bytes(runs[0].size_bytes);
    match runs[0].workload.as_str() {
        STRONG => format!("{what}: strong scaling, {size} in all"),
        _ => format!("{what}: weak scaling, {size} for each process"),
    }
}

/// Time in seconds to write or read the whole array at the rates of a run. With strong scaling, the size of the run is
/// that of the array.
fn time_s(run: &Run) -> Option<Point> {
    let procs = if run.workload == STRONG { 1 } else { u64::from(run.procs) };
    let array_mib = run.size_bytes.saturating_mul(procs) as f64 / MIB;
    let time = |mib_s: f64| if mib_s > 0.0 { array_mib / mib_s } else { 0.0 };
    let rate = run.rate()?;
    let (y, low, high) = (time(rate.median), time(rate.max), time(rate.min));
    Some(Point { x: f64::from(run.procs), y, low, high })
}

/// Sentences below the figure: the highest bandwidth of each series, and how to read the whiskers.
fn highest(chart: &Chart) -> String {
    let processes = |procs: &str| {
        let name = if procs == "1" { "process" } else { "processes" };
        format!("{procs} {name}")
    };
    let sentences = chart.highest("MiB/s", processes).join(" ");
    format!("{sentences} Medians; whiskers show the range.")
}

/// A comparison of PUTs with weak scaling.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Compare {
    /// The tensor store with the fastest layout of parallel HDF5.
    Hdf5,
    /// The tensor store with the fastest layout of parallel HDF5, for the fewest processes only.
    FewestProcesses,
    /// Growth with processes, with that of the layout of parallel HDF5 that grows most.
    Growth,
    /// The largest size with the smallest.
    Sizes,
}

impl Compare {
    /// Ratios, by size and number of processes.
    pub(crate) fn ratios(self, runs: &[Run]) -> Vec<f64> {
        let puts = Puts::from_runs(runs);
        let (Some(first), Some(last)) = (puts.procs.first(), puts.procs.last()) else {
            return Vec::new();
        };
        let sizes = puts.sizes.iter();
        match self {
            Self::Hdf5 => puts.over_hdf5(&puts.procs),
            Self::FewestProcesses => puts.over_hdf5(&[*first]),
            Self::Growth => sizes
                .filter_map(|size| {
                    let growth = |store: &str| {
                        Some(
                            puts.median(store, *size, *last)?
                                / puts.median(store, *size, *first)?,
                        )
                    };
                    let hdf5 = HDF5.iter().filter_map(|(_, label)| growth(label));
                    Some(growth(STORE)? / hdf5.reduce(f64::max)?)
                })
                .collect(),
            Self::Sizes => {
                let (small, large) = (puts.sizes[0], puts.sizes[puts.sizes.len() - 1]);
                let rate = |size, procs| puts.median(STORE, size, procs);
                let ratio = |procs: &u32| Some(rate(large, *procs)? / rate(small, *procs)?);
                puts.procs.iter().filter(|_| small < large).filter_map(ratio).collect()
            }
        }
    }

    /// The two things that are compared, in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Hdf5 | Self::FewestProcesses => {
                "PUTs of the tensor store with those of the fastest layout of parallel HDF5"
            }
            Self::Growth => {
                "growth of the bandwidth of PUTs from the fewest to the most processes, with that of the layout of parallel HDF5 that grows most"
            }
            Self::Sizes => "PUTs of the largest size with those of the smallest",
        }
    }
}

/// The PUTs with weak scaling.
struct Puts<'r> {
    runs: Vec<&'r Run>,
    /// Sizes and numbers of processes in rising order.
    sizes: Vec<u64>,
    procs: Vec<u32>,
}

impl<'r> Puts<'r> {
    /// Selects the runs of PUTs whose work grows with the processes.
    fn from_runs(runs: &'r [Run]) -> Self {
        let is_put = |run: &&Run| run.workload == WEAK && run.phase == "put";
        let runs: Vec<_> = runs.iter().filter(is_put).collect();
        let mut sizes = distinct(runs.iter().map(|run| run.size_bytes));
        let mut procs = distinct(runs.iter().map(|run| run.procs));
        sizes.sort_unstable();
        procs.sort_unstable();
        Self { runs, sizes, procs }
    }

    fn run(&self, store: &str, size_bytes: u64, procs: u32) -> Option<&'r Run> {
        let is_wanted = |run: &&&Run| {
            run.array_store() == store && (run.size_bytes, run.procs) == (size_bytes, procs)
        };
        self.runs.iter().find(is_wanted).copied()
    }

    /// The median in MiB/s.
    fn median(&self, store: &str, size_bytes: u64, procs: u32) -> Option<f64> {
        Some(self.run(store, size_bytes, procs)?.rate()?.median)
    }

    /// Ratios to the fastest layout of parallel HDF5.
    fn over_hdf5(&self, procs: &[u32]) -> Vec<f64> {
        let cases = self.sizes.iter().flat_map(|size| procs.iter().map(move |procs| (size, procs)));
        let ratio = |(size, procs): (&u64, &u32)| {
            let run = self.run(STORE, *size, *procs)?;
            // The least ratio is that to the fastest layout.
            HDF5.iter().filter_map(|(name, _)| run.ratio_to(name)).reduce(f64::min)
        };
        cases.filter_map(ratio).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::page::Page;
    use crate::plots::paper::tensors_page;
    use crate::plots::results::tests::{document, results};
    use serde_json::{Value, json};

    fn run(store: &str, workload: &str, phase: &str, procs: u32, mib_s: f64) -> Value {
        json!({"store": store, "workload": workload, "phase": phase, "procs": procs, "size_bytes": 16 << 20,
               "rate": {"mean": mib_s, "min": mib_s / 2.0, "max": mib_s * 2.0, "stddev": 0.0, "median": mib_s}})
    }

    /// The page of a report in which the store doubles with the processes, and parallel HDF5 stays as it is.
    fn page(with_hdf5: bool) -> Page {
        let mut runs = Vec::new();
        for workload in [WEAK, STRONG] {
            for (procs, phase) in [(1, "put"), (2, "put"), (1, "get"), (2, "get")] {
                let mut own = run("esker", workload, phase, procs, 1024.0 * f64::from(procs));
                for (name, _) in HDF5.iter().filter(|_| with_hdf5) {
                    own["ratio_to"][name] = json!(2.0 * f64::from(procs));
                    runs.push(run(name, workload, phase, procs, 512.0));
                }
                runs.push(own);
                runs.push(run("file", workload, phase, procs, 600.0));
            }
            runs.push(run("medium", workload, "pwrite", 1, 2048.0));
        }
        let mut report = document(&runs);
        report["settings"]["hdf5"] = json!({"absent": (!with_hdf5).then_some("no h5pcc")});
        tensors_page(&report).unwrap()
    }

    fn verdicts(page: &Page) -> Vec<&'static str> {
        page.sections.iter().flat_map(|section| &section.findings).map(|one| one.class).collect()
    }

    #[test]
    fn each_figure_of_the_paper_has_its_place_and_is_judged() {
        let page = page(true);
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
        let page = page(false);
        assert_eq!(page.figures().count(), 4);
        assert_eq!(verdicts(&page), ["not-measured"; 5]);
        assert!(page.html().unwrap().contains("Parallel HDF5 was not measured: no h5pcc"));
    }

    #[test]
    fn times_cover_complete_arrays() {
        let runs = [WEAK, STRONG].map(|workload| run("esker", workload, "put", 2, 2048.0));
        let [weak, strong] = [0, 1].map(|index| time_s(&results(&runs).runs[index]).unwrap());
        assert_eq!((weak.y, strong.y), (0.015_625, 0.007_812_5));
        assert_eq!((weak.low, weak.high), (0.007_812_5, 0.031_25));
    }
}
