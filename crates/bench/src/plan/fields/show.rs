//! The table of `fields`.
use super::outcome::{ESKER, FILES, MEDIUM, Outcome, PEER, share};
use crate::fields::Phase;
use crate::metrics::Statistics;
use crate::plan::posix::Line;
use crate::table::{Table, or_dash};
use esker_cli::units::Bytes;
use std::fmt;

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        let (size, note) = (Bytes(self.size_bytes), self.settings.buffer_note());
        writeln!(f, "{host}")?;
        writeln!(f, "{} ({}){note}, fields of {size}\n", host.file_system, host.medium)?;
        writeln!(f, "{}", self.table())?;
        for case in &self.cases {
            if let Some(share) = case.lines.scattered() {
                let procs = case.procs;
                writeln!(
                    f,
                    "scattered reads reach {share:.2} of the rate of reads in order (--procs {procs})"
                )?;
            }
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))?;
        write!(f, "\n{LEGEND}")
    }
}

const LEGEND: &str = "\
fields/s: median of the repeats, +- its standard deviation. of medium: share of the rate of pwrite or pread of the same \
blocks. files: one plain file per field, and the ratio of the store to it (median of the ratios of the repeats). pyfdb: \
the same for a real FDB. Latencies of list and axes are of one call. Those of watch run from the start of a flush until \
a reader sees a field of it.";

impl Outcome {
    /// The table, with the columns of the peer if there is one.
    fn table(&self) -> Table {
        let peer = self.has_peer();
        let pyfdb = if peer { "|>pyfdb|>x pyfdb" } else { "" };
        let mut table = Table::new(&format!("{OF_STORE}{pyfdb}|>p50 us|>p99 us"));
        for case in &self.cases {
            for (phase, line) in case.lines.compared() {
                table.row(row(case.procs, phase, &line, peer));
            }
        }
        table
    }

    fn has_peer(&self) -> bool {
        let mut lines = self.cases.iter().flat_map(|case| case.lines.compared());
        lines.any(|(_, line)| !line.rates(PEER).is_empty())
    }
}

const OF_STORE: &str = "phase|>procs|>fields/s|>+-|>MiB/s|>of medium|>files|>x files";

fn row(procs: u32, phase: Phase, line: &Line, peer: bool) -> Vec<String> {
    let (rates, tally) = (Statistics::rounded(&line.rates(ESKER)), line.tally(ESKER));
    let mut row = vec![
        phase.name().to_owned(),
        procs.to_string(),
        format!("{:.0}", rates.median),
        format!("{:.0}", rates.stddev),
        or_dash((tally.bytes > 0).then(|| format!("{:.0}", tally.bandwidth_mib_s()))),
        or_dash(share(&tally, &line.tally(MEDIUM)).map(|share| format!("{share:.2}"))),
    ];
    row.extend(other_system(line, FILES));
    row.extend(peer.then(|| other_system(line, PEER)).into_iter().flatten());
    row.extend([50.0, 99.0].map(|percent| format!("{:.1}", tally.latency.percentile_us(percent))));
    row
}

/// The rate of another system, and the ratio of the store to it.
fn other_system(line: &Line, other: usize) -> [String; 2] {
    let rate = Some(line.median(other)).filter(|rate| *rate > 0.0);
    let times = line.ratio(ESKER, other).map(|times| format!("{times:.2}"));
    [or_dash(rate.map(|rate| format!("{rate:.0}"))), or_dash(times)]
}
