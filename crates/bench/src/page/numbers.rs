//! Tables with every number of the result files.
use super::Html;
use crate::plot::short;
use crate::results::{Measurement, Results, Spread};
use crate::units::Bytes;

const BANDWIDTHS: [&str; 14] = [
    "store", "workload", "phase", "mode", "access", "class", ">nodes", ">procs", ">size", ">ops",
    ">ops/s", ">MiB/s", ">limit", ">ratio",
];
const SPREADS: [&str; 8] =
    ["run", "phase", ">repeats", ">mean MiB/s", ">min", ">max", ">std. dev.", ">global timing"];
const TIMES: [&str; 10] = [
    "run",
    "phase",
    ">p50 us",
    ">p99 us",
    ">max us",
    ">wall clock s",
    ">off_0 ms",
    ">off_f ms",
    ">po_0 ms",
    ">po_f ms",
];

/// The tables of all files.
pub(crate) fn tables(html: &mut Html, files: &[Results]) {
    html.leaf("h2", &[], "Numbers");
    html.leaf("p", &[("class", "note")], ABOUT);
    for file in files {
        let rows = |row: fn(&Measurement) -> Option<Vec<String>>| -> Vec<Vec<String>> {
            file.runs.iter().filter_map(row).collect()
        };
        html.table(&format!("{}: bandwidth and rate", file.name), &BANDWIDTHS, &rows(bandwidth));
        let spreads = rows(spread);
        if !spreads.is_empty() {
            html.table(&format!("{}: repeats", file.name), &SPREADS, &spreads);
        }
        html.table(&format!("{}: latency and offsets", file.name), &TIMES, &rows(times));
    }
}

const ABOUT: &str = "\
MiB/s is the global timing bandwidth (all bytes over the time from the first start to the last end); of \
segments it is the synchronous bandwidth (the mean over iterations). The limit is what the medium gave the \
same processes with pwrite and pread in turns with the store; the ratio is the share of it. off_0 and off_f \
are the initial and final I/O offsets of a phase, po_0 and po_f those between the phases of pattern B.";

fn bandwidth(run: &Measurement) -> Option<Vec<String>> {
    let access = [run.pattern.clone(), run.contention.clone()];
    let classes =
        [run.class_array.clone(), run.class_kv.as_ref().map(|class| format!("Key-Values {class}"))];
    Some(vec![
        run.store.clone(),
        run.workload.clone(),
        run.phase.clone(),
        run.mode.clone().unwrap_or_default(),
        joined(&access),
        joined(&classes),
        run.nodes.unwrap_or(1).to_string(),
        run.procs.to_string(),
        Bytes(run.size_bytes).to_string(),
        run.ops.to_string(),
        short(run.ops_per_s),
        short(run.bandwidth()),
        or_dash(run.limit_mib_s),
        run.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
    ])
}

fn joined(parts: &[Option<String>]) -> String {
    parts.iter().flatten().cloned().collect::<Vec<_>>().join(", ")
}

fn or_dash(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), short)
}

/// Rows of other tables repeat what tells runs apart in one cell.
fn name(run: &Measurement) -> String {
    crate::figures::label(run)
}

fn spread(run: &Measurement) -> Option<Vec<String>> {
    let repeat = run.repeat.as_ref()?;
    let Spread { mean, min, max, stddev } = run.spread()?;
    Some(vec![
        name(run),
        run.phase.clone(),
        repeat.count.to_string(),
        short(mean),
        short(min),
        short(max),
        or_dash(stddev),
        or_dash(run.global_timing_bandwidth_mib_s),
    ])
}

fn times(run: &Measurement) -> Option<Vec<String>> {
    let latency = run.latency_us?;
    let ms = |seconds: Option<f64>| or_dash(seconds.map(|seconds| seconds * 1e3));
    Some(vec![
        name(run),
        run.phase.clone(),
        short(latency.p50),
        short(latency.p99),
        short(latency.max),
        short(run.total_wall_clock_s.unwrap_or(run.seconds)),
        ms(run.off_0),
        ms(run.off_f),
        ms(run.po_0),
        ms(run.po_f),
    ])
}
