//! The table of `tensors`.
use super::outcome::{Case, ESKER, FILE, HDF5, MEDIUM, Outcome};
use crate::metrics::Statistics;
use crate::plan::posix::Line;
use crate::table::Table;
use esker_cli::units::Bytes;
use std::fmt;

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        writeln!(f, "{host}")?;
        let note = self.settings.buffer_note();
        writeln!(f, "{} ({}){note}\n", host.file_system, host.medium)?;
        writeln!(f, "{}\n", self.table())?;
        if let Some(why) = &self.absent {
            writeln!(f, "parallel HDF5 is absent: {why}")?;
        }
        write!(f, "{LEGEND}")
    }
}

const HEADINGS: &str = "scaling|>size|>procs|phase|>x filled|>x unfilled|>x contiguous|>x file|>of medium|>MiB/s|>least|>most";

const LEGEND: &str = "\
x: how many times as fast the tensor store is as parallel HDF5 with chunks that it fills by default, with chunks that it \
never fills and without chunks, and as pwrite or pread of a new plain file, each one file that all processes share. of \
medium: share of the rate of pwrite and pread of a file that was written before. All are medians of the ratios of the \
iterations. MiB/s: the tensor store, median, least and most. size: of each process (weak), of the array (strong).";

impl Outcome {
    fn table(&self) -> Table {
        let mut table = Table::new(HEADINGS);
        for case in &self.cases {
            case.lines.each().for_each(|line| table.row(row(case, line)));
        }
        table
    }
}

fn row(case: &Case, line: &Line) -> Vec<String> {
    let rates = Statistics::from_values(&line.rates(ESKER));
    let named = [
        case.scaling.name().to_owned(),
        Bytes(case.scaling.bytes()).to_string(),
        case.part.procs.to_string(),
        line.title.clone(),
    ];
    let others = [HDF5, HDF5 + 1, HDF5 + 2, FILE, MEDIUM].map(|other| ratio(line, other));
    let rates = [rates.median, rates.min, rates.max].map(|rate| format!("{rate:.0}"));
    named.into_iter().chain(others).chain(rates).collect()
}

fn ratio(line: &Line, other: usize) -> String {
    line.ratio(ESKER, other).map_or_else(|| "absent".to_owned(), |times| format!("{times:.2}"))
}
