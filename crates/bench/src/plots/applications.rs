//! Figures of a paper on simulation and deep learning, as parts of the page of `esker bench paper`: work on the file
//! system in a container as a multiple of the kernel's file systems.
use crate::plots::chart::{Axis, Chart, Palette, Panel, Point, Series};
use crate::plots::paper::PaperStep;
use crate::plots::words::short;
use crate::plots::{Figure, Figures, distinct, ticks_of};
use crate::report::Run;
use esker_types::Result;
use serde::Deserialize;

pub(crate) const ABOUT: &str = "2023, applications: L. Logan, J. Lofstead, X.-H. Sun and A. Kougkas, An Evaluation of DAOS for Simulation \
     and Deep Learning HPC Workloads. They compared DAOS with OrangeFS and BeeGFS, which go through the kernel, by 128 processes on \
     three nodes with persistent memory, NVMe and a network. Here file systems of this machine's kernel stand in for theirs: tmpfs \
     on the same medium, and that of a disk, whose page cache may hold all of it.";

/// The file system in a container, as reports name it.
const STORE: &str = "DFS";

/// A step, its phase, and the name of both in a chart.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Phase(pub(crate) String, pub(crate) String, pub(crate) String);

impl Phase {
    /// Run of the phase in the file system of a container.
    fn run<'s>(&self, steps: &'s [PaperStep]) -> Option<&'s Run> {
        let step = steps.iter().find(|one| one.name == self.0)?;
        step.results.runs.iter().find(|run| run.store == STORE && run.phase == self.1)
    }

    /// Ratio of its rate to that of another file system.
    pub(crate) fn ratio_to(&self, other: &str, steps: &[PaperStep]) -> Option<f64> {
        self.run(steps)?.ratio_to(other)
    }

    /// The median rate, from which the ratios are computed.
    fn rate(&self, steps: &[PaperStep]) -> Option<String> {
        let run = self.run(steps)?;
        let unit = if run.workload == "ior" { "MiB/s" } else { "/s" };
        Some(format!("{} {} {unit}", self.2, short(run.rate()?.median)))
    }
}

impl Figures {
    /// Bars of the ratios to each of the kernel's file systems; none if nothing was measured.
    ///
    /// # Errors
    /// If the chart cannot be drawn.
    pub(crate) fn ratios(
        &mut self,
        title: &str,
        phases: &[Phase],
        steps: &[PaperStep],
    ) -> Result<Option<Figure>> {
        let runs = phases.iter().filter_map(|phase| phase.run(steps)?.repeated.as_ref());
        let mut others = distinct(runs.flat_map(|repeated| repeated.ratio_to.keys()));
        others.sort_unstable();
        if others.is_empty() {
            return Ok(None);
        }
        let mut palette = Palette::default();
        let series = |other: &&String| {
            let point = |(x, phase): (usize, &Phase)| {
                Some(Point::single(x as f64, phase.ratio_to(other, steps)?))
            };
            let points = phases.iter().enumerate().filter_map(point).collect();
            let label = format!("times {other}");
            Series { style: palette.style(&label), label, points }
        };
        let series = others.iter().map(series).collect();
        let chart = Chart {
            title: title.to_owned(),
            x_label: "phase".to_owned(),
            y_label: "times as fast".to_owned(),
            axis: Axis::Categories,
            ticks: ticks_of(phases.iter().map(|phase| phase.2.clone())),
            panels: vec![Panel { title: String::new(), series }],
        };
        let rates: Vec<_> = phases.iter().filter_map(|phase| phase.rate(steps)).collect();
        let sentence = format!(
            "How many times as fast the file system in a container is; medians of the ratios of the iterations. Rates: {}.",
            rates.join(", ")
        );
        self.figure("applications", chart, sentence).map(Some)
    }
}
