//! The table of `zarr`.
use super::outcome::{Case, ESKER, LOCAL, Outcome};
use crate::plan::posix::Line;
use crate::table::{Table, or_dash};
use esker_cli::units::Bytes;
use std::fmt;

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        writeln!(f, "{host}")?;
        let note = self.settings.buffer_note();
        writeln!(f, "{} ({}){note}\n", host.file_system, host.medium)?;
        writeln!(f, "{}\n", self.table())?;
        write!(f, "{LEGEND}")
    }
}

const HEADINGS: &str = "chunks|>procs|phase|>esker|>local|>x local|>least|>most|>MiB/s";

const LEGEND: &str = "\
esker, local: esker.zarr.Store and zarr's LocalStore in a directory on the same medium, median of the iterations: chunks \
written and read per second, keys listed per second, and commits per second; a LocalStore has no commits, its chunks are \
replaced one by one. x local: the median of the ratios of the iterations, the least and the most of them. MiB/s: \
esker.zarr.Store.";

impl Outcome {
    fn table(&self) -> Table {
        let mut table = Table::new(HEADINGS);
        for case in &self.cases {
            case.lines.iter().for_each(|line| table.row(row(case, line)));
        }
        table
    }
}

fn row(case: &Case, line: &Line) -> Vec<String> {
    let mut row = vec![
        Bytes(case.size_bytes).to_string(),
        case.procs.to_string(),
        line.title.clone(),
        format!("{:.0}", line.median(ESKER)),
        format!("{:.0}", line.median(LOCAL)),
    ];
    row.extend(line.spread(ESKER, LOCAL).map(|ratio| or_dash(ratio.map(|r| format!("{r:.2}")))));
    let tally = line.tally(ESKER);
    row.push(or_dash((tally.bytes > 0).then(|| format!("{:.0}", tally.bandwidth_mib_s()))));
    row
}
