//! `esker bench compare`: the same workload on several stores, alternating (A B A B).
use super::scratch;
use super::work_dir::{Store, WorkDir};
use super::{Benchmark, Measurement, Note, check_rounds, memory_or_temporary, parse_size};
use crate::errors::ensure_valid;
use crate::field_io::{Contention, Mode, Pattern};
use crate::metrics::Statistics;
use crate::names::Named;
use crate::parallel::Parallel;
use crate::report::{Latency, Report, Run, SCHEMA};
use crate::table::{new_table, or_dash};
use clap::{Args, ValueEnum};
use esker_cli::DurabilityArg;
use esker_cli::units::{Bytes, rounded};
use esker_store::PoolSpec;
use esker_types::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Compare several stores under the same workload
#[derive(Clone, Debug, Args)]
#[command(after_long_help = include_str!("../help/compare.txt").trim_end())]
pub struct Comparison {
    /// Stores, separated by commas; ratios are relative to the first
    #[arg(long, value_name = "STORES", default_value = "native,posix,files")]
    #[arg(value_delimiter = ',')]
    pub stores: Vec<Store>,
    /// Workload to measure
    #[arg(long, value_name = "WORKLOAD", default_value = "array")]
    pub workload: Workload,
    /// Index each Array in a Key-Value of its process (array only)
    #[arg(long)]
    pub indexed: bool,
    /// Mode of field-io [default: full]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<Mode>,
    /// Access pattern of field-io [default: A]
    #[arg(long, value_name = "PATTERN", ignore_case = true)]
    pub pattern: Option<Pattern>,
    /// Contention of field-io on the index [default: low]
    #[arg(long, value_name = "LEVEL")]
    pub contention: Option<Contention>,
    /// Size of an object, or several sizes, separated by commas
    #[arg(long = "size", value_name = "SIZE", default_value = "1MiB", value_delimiter = ',')]
    #[arg(value_parser = parse_size)]
    pub sizes: Vec<u64>,
    /// Number of processes, or several numbers, separated by commas
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    pub procs: Vec<u32>,
    /// Operations of each process in each phase [default: 256 MiB, 64 to 20000 operations]
    #[arg(long, value_name = "N")]
    pub ops: Option<u64>,
    /// Number of rounds; each measures all stores
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: u32,
    /// Durability of temporary stores; with commit, plain files are synced too
    #[arg(long, value_name = "LEVEL", default_value = "process")]
    pub durability: DurabilityArg,
    /// Compare what is read with what was written, in an unmeasured phase
    #[arg(long)]
    pub verify: bool,
    /// Directory on the medium [default: /dev/shm, or the directory for temporary files]
    #[arg(long = "path", value_name = "DIR")]
    #[arg(default_value_os_t = memory_or_temporary(), hide_default_value = true)]
    pub folder: PathBuf,
}

/// The workload on each store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Arrays, as `esker bench array`
    Array,
    /// Key-Values, as `esker bench kv`
    Kv,
    /// Weather fields, as `esker bench field-io`
    FieldIo,
}

/// Payload of one process in one phase if the number of operations is not given.
const DEFAULT_BYTES: u64 = 256 << 20;
const DEFAULT_OPS_MIN: u64 = 64;
const DEFAULT_OPS_MAX: u64 = 20_000;

/// The results of all rounds.
#[derive(Clone, Debug, PartialEq)]
struct Compared {
    stores: Vec<String>,
    lines: Vec<Line>,
    /// The limits of all stores are the same kind of access to the same medium.
    has_common_limit: bool,
    /// The report, with the members of the comparison.
    report: Value,
}

/// One phase: each store in each round.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    like: Run,
    /// By store, then by round.
    runs: Vec<Vec<Run>>,
}

impl Benchmark for Comparison {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        self.check()?;
        let mut present = self.clone();
        let absent = present.leave_out_absent(note)?;
        let mut compared = present.measure(note)?;
        compared.report["absent"] = absent.iter().cloned().collect();
        let text = format!("{compared}\n{}", absent_lines(&absent)).trim_end().to_owned();
        Ok(Measurement { report: compared.report, text })
    }
}

impl Comparison {
    /// Leaves out absent stores. Returns each with the reason.
    fn leave_out_absent(&mut self, note: Note<'_>) -> Result<Vec<(String, String)>> {
        let mut absent = Vec::new();
        self.stores.retain(|store| {
            note(&format!("looking for {store}"));
            let found = store.find();
            let reason = |error: &Error| (store.to_string(), error.message().to_owned());
            absent.extend(found.as_ref().err().map(reason));
            found.is_ok()
        });
        match self.stores.is_empty() {
            true => Err(Error::new(ErrorKind::NotFound, absent_lines(&absent).trim_end())),
            false => Ok(absent),
        }
    }

    /// Measures all stores in turn, so that slow changes of the machine concern all of them.
    fn measure(&self, note: Note<'_>) -> Result<Compared> {
        let work_dir = WorkDir::new(&self.folder, &self.stores, &self.spec(), note)?;
        let runner = work_dir.runner()?;
        let mut measured: Vec<(usize, Report)> = Vec::new();
        for round in 1..=self.rounds {
            for (index, store) in self.stores.iter().enumerate() {
                for &size in &self.sizes {
                    for &procs in &self.procs {
                        let (rounds, each) = (self.rounds, Bytes(size));
                        note(&format!("round {round} of {rounds}: {store}, {procs} x {each}"));
                        let words = self.words(store, &work_dir.url(store), size, procs);
                        measured.push((index, runner.bench("round", &words)?));
                    }
                }
            }
        }
        Ok(self.compared(&measured))
    }

    /// Fails if a size or number is invalid, if fewer than two different stores are named, or if plain files are to run
    /// pattern B, which needs an index.
    fn check(&self) -> Result<()> {
        super::check(&self.sizes, &self.procs)?;
        check_rounds(self.rounds, self.ops)?;
        let twice = |store: &Store| self.stores.iter().filter(|one| *one == store).count() > 1;
        ensure_valid(
            self.stores.len() >= 2 && !self.stores.iter().any(twice),
            || "name at least two different stores: --stores native,posix",
        )?;
        self.check_workload()?;
        let needs_index = self.pattern == Some(Pattern::B);
        ensure_valid(
            !needs_index || !self.stores.iter().any(Store::is_files),
            || "plain files have no index for pattern B: leave out `files`, or choose pattern A",
        )
    }

    /// Fails if an option was given that the workload does not have.
    fn check_workload(&self) -> Result<()> {
        let is_array = self.workload == Workload::Array;
        ensure_valid(!self.indexed || is_array, || "--indexed needs --workload array")?;
        let options = [
            ("--mode", self.mode.is_some()),
            ("--pattern", self.pattern.is_some()),
            ("--contention", self.contention.is_some()),
        ];
        let is_field_io = self.workload == Workload::FieldIo;
        options.into_iter().try_for_each(|(option, is_given)| {
            ensure_valid(!is_given || is_field_io, || format!("{option} needs --workload field-io"))
        })
    }

    fn ops_of(&self, size: u64) -> u64 {
        self.ops.unwrap_or((DEFAULT_BYTES / size.max(1)).clamp(DEFAULT_OPS_MIN, DEFAULT_OPS_MAX))
    }

    /// Options of the temporary native pool, which has space for the largest case. Two index entries are counted for
    /// each operation.
    fn spec(&self) -> PoolSpec {
        let procs = u64::from(self.procs.iter().copied().max().unwrap_or(1));
        let most =
            |of: &dyn Fn(u64) -> u64| self.sizes.iter().map(|&size| of(size)).max().unwrap_or(0);
        let bytes = procs * most(&|size| self.ops_of(size) * size);
        let entries = procs * most(&|size| self.ops_of(size) * 2);
        let durability = Some(self.durability.into());
        PoolSpec { durability, ..scratch::spec(bytes, entries, None) }
    }

    /// The arguments of the command that measures one store. On plain files, every workload is one file for each
    /// object.
    fn words(&self, store: &Store, url: &str, size: u64, procs: u32) -> Vec<String> {
        let field_io = self.workload == Workload::FieldIo && !store.is_files();
        let (workload, sized, rounds) = match self.workload {
            Workload::Kv => ("kv", "--value", "--rounds"),
            _ if field_io => ("field-io", "--size", "--repeat"),
            _ => ("array", "--size", "--rounds"),
        };
        let numbers = [size.to_string(), procs.to_string(), self.ops_of(size).to_string()];
        let [size, procs, ops] = numbers.each_ref().map(String::as_str);
        let choices = [
            ("--mode", self.mode.unwrap_or(Mode::Full).name()),
            ("--pattern", self.pattern.unwrap_or(Pattern::A).name()),
            ("--contention", self.contention.unwrap_or(Contention::Low).name()),
        ];
        let mut words =
            vec![workload, "--pool", url, sized, size, "--procs", procs, "--ops", ops, rounds, "1"];
        if field_io {
            words.extend(choices.iter().flat_map(|(option, value)| [*option, value.as_str()]));
        }
        words.extend((self.indexed && self.workload == Workload::Array).then_some("--indexed"));
        words.extend(self.verify.then_some("--verify"));
        words.into_iter().map(str::to_owned).collect()
    }

    /// Joins the runs of the rounds: a line for each phase, size and number of processes.
    fn compared(&self, measured: &[(usize, Report)]) -> Compared {
        let stores: Vec<_> = self.stores.iter().map(Store::to_string).collect();
        let mut lines: Vec<Line> = Vec::new();
        for (index, results) in measured {
            for run in results.runs.iter().filter(|run| !run.is_limit()) {
                let line = match lines.iter().position(|line| is_same_phase(&line.like, run)) {
                    Some(known) => known,
                    None => {
                        let runs = vec![Vec::new(); stores.len()];
                        lines.push(Line { like: run.clone(), runs });
                        lines.len() - 1
                    }
                };
                lines[line].runs[*index].push(run.clone());
            }
        }
        let report = self.report(measured, &stores, &lines);
        let mut limits = measured.iter().map(|(_, report)| kind_of_limit(report));
        let first = limits.next();
        let has_common_limit = limits.all(|kind| Some(kind) == first);
        Compared { stores, lines, has_common_limit, report }
    }

    /// The JSON report.
    fn report(&self, measured: &[(usize, Report)], stores: &[String], lines: &[Line]) -> Value {
        let runs: Vec<_> = lines.iter().flat_map(|line| line.merged(stores)).collect();
        let ratios: Vec<_> = lines.iter().map(|line| line.ratios(stores)).collect();
        let Some((_, first)) = measured.first() else { return Value::Null };
        let mut settings = json!(first.settings);
        settings["stores"] = json!(stores);
        settings["rounds"] = json!(self.rounds);
        settings["durability"] = json!(self.durability.name());
        json!({
            "schema": SCHEMA, "host": first.host, "settings": settings, "runs": runs, "compared": ratios,
        })
    }
}

/// True if the table shows two runs in one line: equal phase, number of processes and size. The workload is not
/// compared, because plain files have another one than Field I/O of a pool.
fn is_same_phase(one: &Run, other: &Run) -> bool {
    (&one.phase, one.procs, one.size_bytes) == (&other.phase, other.procs, other.size_bytes)
}

/// The medium that the limits of a report were measured on, and their phases.
fn kind_of_limit(report: &Report) -> (&str, &str, Vec<&str>) {
    let limits = report.runs.iter().filter(|run| run.is_limit());
    let phases = limits.map(|run| run.phase.as_str()).collect();
    (&report.host.medium, &report.host.file_system, phases)
}

impl Line {
    /// One run for each store, with the spread over rounds.
    fn merged(&self, stores: &[String]) -> Vec<Value> {
        let runs = stores.iter().zip(&self.runs);
        runs.filter_map(|(store, runs)| self.merge(store, runs)).collect()
    }

    /// One run in place of those of a store over all rounds: medians of their figures, sums of their operations and
    /// seconds. Members that describe a single run are left out.
    fn merge(&self, store: &str, runs: &[Run]) -> Option<Value> {
        let over_rounds = |of: fn(&Run) -> Option<f64>| {
            Statistics::rounded(&runs.iter().filter_map(of).collect::<Vec<_>>())
        };
        let bandwidth = over_rounds(|run| Some(bandwidth_of(run)));
        let first = runs.first()?;
        let mut merged = json!(Run {
            store: store.to_owned(),
            workload: self.like.workload.clone(),
            ops: runs.iter().map(|run| run.ops).sum(),
            seconds: rounded(runs.iter().map(|run| run.seconds).sum()),
            ops_per_s: rounded(median(runs, |run| Some(run.ops_per_s))?),
            bandwidth_mib_s: bandwidth.median,
            limit_mib_s: median(runs, limit_of).map(rounded),
            ratio: median(runs, share_of_limit).map(rounded),
            latency_us: latency(runs),
            parallel: merged_parallel(runs),
            ..first.clone()
        });
        merged["global_timing_bandwidth_mib_s"] = json!(bandwidth.median);
        merged["repeat"] = json!({
            "count": runs.len(), "global_timing_bandwidth_mib_s": bandwidth,
            "limit_mib_s": over_rounds(limit_of), "ratio": over_rounds(share_of_limit),
        });
        let members = merged.as_object_mut()?;
        members.retain(|name, _| !["repeats", "latency_percentiles_us"].contains(&name.as_str()));
        Some(merged)
    }

    /// Median over the rounds of a store; none if no round has a value.
    fn median(&self, store: usize, of: fn(&Run) -> Option<f64>) -> Option<f64> {
        median(&self.runs[store], of)
    }

    /// Bandwidth of the first store divided by that of store `store`. It is the median of the ratios of the rounds, so
    /// that changes between rounds affect both stores. `None` if there are no rounds.
    fn times(&self, store: usize) -> Option<f64> {
        let rounds = self.runs.first()?.iter().zip(&self.runs[store]);
        let ratio = |(first, other)| bandwidth_of(first) / bandwidth_of(other).max(1e-9);
        median_of(rounds.map(ratio))
    }

    /// Median rates and limits of the stores, and the ratios of the first store to each and of each to its limit.
    fn ratios(&self, stores: &[String]) -> Value {
        let by_store = |of: &dyn Fn(usize) -> Option<f64>| -> Value {
            let value =
                |(index, store): (usize, &String)| (store.clone(), json!(of(index).map(rounded)));
            Value::Object(stores.iter().enumerate().map(value).collect())
        };
        json!({
            "workload": self.like.workload, "phase": self.like.phase, "procs": self.like.procs,
            "size_bytes": self.like.size_bytes,
            "limit_mib_s": by_store(&|index| self.median(index, limit_of)),
            "bandwidth_mib_s": by_store(&|index| self.median(index, |run| Some(bandwidth_of(run)))),
            "ratio_to_limit": by_store(&|index| self.median(index, share_of_limit)),
            "first_store_over": by_store(&|index| self.times(index)),
        })
    }
}

fn median(runs: &[Run], of: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
    median_of(runs.iter().filter_map(of))
}

/// The median; none if there are no values.
fn median_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<_> = values.collect();
    (!values.is_empty()).then(|| Statistics::median(&values))
}

/// Global timing bandwidth; the bandwidth of workloads without synchronous iterations.
fn bandwidth_of(run: &Run) -> f64 {
    let parallel = run.parallel.as_ref();
    parallel.map_or(run.bandwidth_mib_s, |parallel| parallel.global_timing_bandwidth_mib_s)
}

fn limit_of(run: &Run) -> Option<f64> {
    run.limit_mib_s
}

/// Ratio of a run to the limit that was measured in the same round.
fn share_of_limit(run: &Run) -> Option<f64> {
    Some(bandwidth_of(run) / run.limit_mib_s?)
}

/// The members of Field I/O, with medians of its times.
fn merged_parallel(runs: &[Run]) -> Option<Box<Parallel>> {
    let median =
        |of: fn(&Parallel) -> Option<f64>| median(runs, |run| run.parallel.as_deref().and_then(of));
    let first = runs.first()?.parallel.clone()?;
    Some(Box::new(Parallel {
        total_wall_clock_s: median(|one| Some(one.total_wall_clock_s))?,
        off_0: median(|one| Some(one.off_0))?,
        off_f: median(|one| Some(one.off_f))?,
        po_0: median(|one| one.po_0),
        po_f: median(|one| one.po_f),
        ..*first
    }))
}

/// Medians of percentiles, and the maximum of all.
fn latency(runs: &[Run]) -> Latency {
    let median = |of: fn(&Latency) -> f64| {
        rounded(median(runs, |run| Some(of(&run.latency_us))).unwrap_or(0.0))
    };
    Latency {
        p50: median(|one| one.p50),
        p99: median(|one| one.p99),
        p99_9: median(|one| one.p99_9),
        max: runs.iter().map(|run| run.latency_us.max).fold(0.0, f64::max),
    }
}

impl std::fmt::Display for Compared {
    /// Bandwidths with their shares of the limit, then ratios of the first store to the others. If limits are of
    /// different kinds, each store has a column for its own.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let first = self.stores.first().map_or("", String::as_str);
        let (common, own) = if self.has_common_limit { ("|>limit", "") } else { ("", "|>limit") };
        let stores = self.stores.iter().map(|store| format!("|>{store}{own}"));
        let ratios = self.stores.iter().skip(1).map(|store| format!("|>{first}/{store}"));
        let columns: String = stores.chain(ratios).collect();
        let mut table = new_table(&format!("phase|>procs|>size{common}{columns}"));
        self.lines.iter().for_each(|line| table.row(row(line, self.has_common_limit)));
        writeln!(
            f,
            "MiB/s, and the share of the store's limit; {first}/STORE: ratio of {first} to STORE"
        )?;
        f.write_str(&table.text())
    }
}

/// A line for each store that was not measured, with the reason.
fn absent_lines(absent: &[(String, String)]) -> String {
    absent.iter().map(|(store, reason)| format!("absent: {store}: {reason}\n")).collect()
}

/// Cells of a line in the table: phase, processes, size and limit, then the median of each store with its share of its
/// limit, then the ratios of the first store to each other one.
fn row(line: &Line, has_common_limit: bool) -> Vec<String> {
    let limit = |limit: Option<f64>| or_dash(limit.map(|limit| format!("{limit:.0}")));
    let mut cells = vec![
        line.like.phase.clone(),
        line.like.procs.to_string(),
        Bytes(line.like.size_bytes).to_string(),
    ];
    cells.extend(has_common_limit.then(|| limit(median(&line.runs.concat(), limit_of))));
    for store in 0..line.runs.len() {
        let share = line.median(store, share_of_limit);
        let share = share.map_or(String::new(), |share| format!(" ({share:.2})"));
        let median = line.median(store, |run| Some(bandwidth_of(run)));
        cells.push(or_dash(median.map(|median| format!("{median:.0}{share}"))));
        cells.extend((!has_common_limit).then(|| limit(line.median(store, limit_of))));
    }
    let times = |store| line.times(store).map(|times| format!("{times:.2}"));
    cells.extend((1..line.runs.len()).map(|store| or_dash(times(store))));
    cells
}

#[cfg(test)]
mod tests;
