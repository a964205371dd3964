//! Reports as text.
use crate::parallel::Parallel;
use crate::report::{Report, Run};
use crate::table::{Table, new_table, or_dash};
use esker_cli::units::Bytes;
use std::fmt;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        writeln!(f, "{host}")?;
        let note = self.settings.buffer_note();
        writeln!(f, "{} ({}){note}", host.file_system, host.medium)?;
        writeln!(f)?;
        match self.runs.iter().any(|run| run.parallel.is_some()) {
            true => f.write_str(&parallel_table(&self.runs).text()),
            false => f.write_str(&table(&self.runs).text()),
        }
    }
}

/// Runs of field-io and segments, with their limits in a column. Bandwidths are means of the global timing bandwidth,
/// or of the synchronous bandwidth if iterations are synchronized.
fn parallel_table(runs: &[Run]) -> Table {
    let mut table = new_table(
        "mode|pattern|contention|class|phase|>procs|>size|>MiB/s|>+-|>limit|>ratio|>off_0 ms|>off_f ms|>p50 us|>p99 us",
    );
    let measured = runs.iter().filter_map(|run| Some((run, run.parallel.as_deref()?)));
    measured.for_each(|(run, parallel)| table.row(parallel_row(run, parallel)));
    table
}

/// A row of the table of parallel runs.
fn parallel_row(run: &Run, parallel: &Parallel) -> [String; 15] {
    let repeat = &parallel.repeat;
    let spread = repeat.synchronous_bandwidth_mib_s.unwrap_or(repeat.global_timing_bandwidth_mib_s);
    let classes = parallel.class_kv.iter().chain([&parallel.class_array]);
    let ms = |seconds: f64| format!("{:.2}", seconds * 1000.0);
    [
        parallel.mode.clone(),
        parallel.pattern.clone(),
        parallel.contention.clone().unwrap_or_else(|| "-".to_owned()),
        classes.cloned().collect::<Vec<_>>().join("/"),
        run.phase.clone(),
        parallel.phase_procs.to_string(),
        Bytes(run.size_bytes).to_string(),
        rate(spread.mean),
        rate(spread.stddev),
        rate(repeat.limit_mib_s.mean),
        format!("{:.2}", repeat.ratio.mean),
        ms(parallel.off_0),
        ms(parallel.off_f),
        format!("{:.1}", run.latency_us.p50),
        format!("{:.1}", run.latency_us.p99),
    ]
}

/// Table of runs.
fn table(runs: &[Run]) -> Table {
    let entries = runs.iter().any(|run| run.entries.is_some());
    let first = if entries { "workload|>entries|phase" } else { "workload|phase" };
    let conflicts = runs.iter().any(|run| run.conflicts.is_some());
    let last = if conflicts { "|>conflicts" } else { "" };
    let mut table = new_table(&format!(
        "{first}|>procs|>size|>ops/s|>MiB/s|>limit|>ratio|>p50 us|>p99 us|>p99.9 us|>max us{last}"
    ));
    for run in runs {
        let count = entries.then(|| number_or_dash(run.entries));
        let last = conflicts.then(|| number_or_dash(run.conflicts));
        table.row([run.workload.clone()].into_iter().chain(count).chain(row(run)).chain(last));
    }
    table
}

fn number_or_dash(number: Option<u64>) -> String {
    or_dash(number.map(|number| number.to_string()))
}

/// A row of the table of runs, without the columns that describe the workload.
fn row(run: &Run) -> [String; 11] {
    let latency = run.latency_us;
    [
        run.phase.clone(),
        run.procs.to_string(),
        Bytes(run.size_bytes).to_string(),
        format!("{:.0}", run.ops_per_s),
        rate(run.bandwidth_mib_s),
        or_dash(run.limit_mib_s.map(rate)),
        or_dash(run.ratio.map(|ratio| format!("{ratio:.2}"))),
        format!("{:.1}", latency.p50),
        format!("{:.1}", latency.p99),
        format!("{:.1}", latency.p99_9),
        format!("{:.1}", latency.max),
    ]
}

/// Formats a rate in MiB/s: with two decimal places below 10, otherwise with none.
fn rate(mib_per_s: f64) -> String {
    if mib_per_s < 10.0 { format!("{mib_per_s:.2}") } else { format!("{mib_per_s:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Tally;
    use crate::report::RunName;

    #[test]
    fn row_shows_measurement_and_share_of_limit() {
        let name =
            RunName { store: "esker", workload: "kv", phase: "write", procs: 2, size_bytes: 64 };
        let tally = |bytes| Tally { ops: 1000, bytes, seconds: 2.0, ..Tally::default() };
        let run = Run::new(&name, &tally(2 << 20), Some(&tally(8 << 20)));
        let text = table(&[run]).text();
        let row: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[..9], ["kv", "write", "2", "64", "B", "500", "1.00", "4.00", "0.25"]);
        assert!(!text.contains("conflicts"), "{text}");
    }

    #[test]
    fn conflicts_have_a_column_if_a_run_has_some() {
        let name =
            RunName { store: "esker", workload: "tx", phase: "tx", procs: 2, size_bytes: 128 };
        let run = Run::new(&name, &Tally::default(), None);
        let text = table(&[run.clone(), Run { conflicts: Some(7), ..run }]).text();
        let last: Vec<_> =
            text.lines().map(|line| line.split_whitespace().last().unwrap_or_default()).collect();
        assert_eq!(last, ["conflicts", "-", "7"]);
    }
}
