//! The table of `fields`.
use super::Case;
use super::outcome::{ESKER, FILES, MEDIUM, Outcome, share};
use crate::fields::Phase;
use crate::plan::posix::{Line, Rates};
use crate::table::Table;
use crate::units::Bytes;
use std::fmt;

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        let (memory, size) = (Bytes(host.memory_bytes), Bytes(self.size_bytes));
        writeln!(f, "{} x {}, {memory}, Linux {}", host.cpus, host.cpu, host.kernel)?;
        writeln!(f, "{} ({}), fields of {size}\n", host.file_system, host.medium)?;
        write!(f, "{}", self.table())?;
        for case in &self.cases {
            if let Some(share) = case.lines.scattered() {
                let procs = case.procs;
                writeln!(f, "scattered at {share:.2} of the rate in order (--procs {procs})")?;
            }
        }
        write!(f, "\n{LEGEND}")
    }
}

const LEGEND: &str = "\
fields/s: median of the repeats, +- its standard deviation; of medium: share of what pwrite or pread of the \
same blocks gave; files: one plain file for each field, and how many times as fast the store is (the median \
of the repeats' ratios). Latencies of list and axes are of one call; those of watch are from the beginning \
of a flush until a reader sees a field of it.";

impl Outcome {
    fn table(&self) -> Table {
        let mut table = Table::new(&[
            "phase",
            ">procs",
            ">fields/s",
            ">+-",
            ">MiB/s",
            ">of medium",
            ">files",
            ">x files",
            ">p50 us",
            ">p99 us",
        ]);
        for case in &self.cases {
            for (phase, line) in case.lines.compared() {
                table.row(self.row(case, phase, &line));
            }
        }
        table
    }

    fn row(&self, case: &Case, phase: Phase, line: &Line) -> Vec<String> {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let (rates, tally) = (Rates::of(&line.rates(ESKER)), line.tally(ESKER));
        let times = |other: usize| line.ratio(ESKER, other).map(|times| format!("{times:.2}"));
        let files = Some(line.median(FILES)).filter(|rate| *rate > 0.0);
        vec![
            phase.name().to_owned(),
            case.procs.to_string(),
            format!("{:.0}", rates.median),
            format!("{:.0}", rates.stddev),
            or_dash((tally.bytes > 0).then(|| format!("{:.0}", tally.bandwidth_mib_s()))),
            or_dash(share(&tally, &line.tally(MEDIUM)).map(|share| format!("{share:.2}"))),
            or_dash(files.map(|rate| format!("{rate:.0}"))),
            or_dash(times(FILES)),
            format!("{:.1}", tally.latency.percentile_us(50.0)),
            format!("{:.1}", tally.latency.percentile_us(99.0)),
        ]
    }
}
