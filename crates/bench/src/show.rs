//! Reports as people read them.
use crate::report::{Report, Run};
use crate::table::Table;
use crate::units::Bytes;
use std::fmt;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        let memory = Bytes(host.memory_bytes);
        writeln!(f, "{} x {}, {memory}, Linux {}", host.cpus, host.cpu, host.kernel)?;
        writeln!(f, "{} ({})", host.file_system, host.medium)?;
        writeln!(f)?;
        write!(f, "{}", table(&self.runs))
    }
}

fn table(runs: &[Run]) -> Table {
    let mut table = Table::new(&[
        "workload", "phase", ">procs", ">size", ">ops/s", ">MiB/s", ">limit", ">ratio", ">p50 us",
        ">p99 us", ">max us",
    ]);
    runs.iter().for_each(|run| table.row(row(run)));
    table
}

fn row(run: &Run) -> [String; 11] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let latency = run.latency_us;
    [
        run.workload.clone(),
        run.phase.clone(),
        run.procs.to_string(),
        Bytes(run.size_bytes).to_string(),
        format!("{:.0}", run.ops_per_s),
        rate(run.bandwidth_mib_s),
        or_dash(run.limit_mib_s.map(rate)),
        or_dash(run.ratio.map(|ratio| format!("{ratio:.2}"))),
        format!("{:.1}", latency.p50),
        format!("{:.1}", latency.p99),
        format!("{:.1}", latency.max),
    ]
}

/// Small values move few bytes however fast they are.
fn rate(mib_per_s: f64) -> String {
    if mib_per_s < 10.0 { format!("{mib_per_s:.2}") } else { format!("{mib_per_s:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Tally;
    use crate::report::RunName;

    #[test]
    fn a_row_says_what_was_measured_and_its_share_of_the_limit() {
        let name =
            RunName { store: "esker", workload: "kv", phase: "write", procs: 2, size_bytes: 64 };
        let tally = |bytes| Tally { ops: 1000, bytes, seconds: 2.0, ..Tally::default() };
        let run = Run::new(&name, &tally(2 << 20), Some(&tally(8 << 20)));
        let text = table(&[run]).to_string();
        let row: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[..9], ["kv", "write", "2", "64", "B", "500", "1.00", "4.00", "0.25"]);
    }
}
