//! `esker bench field-io` and `esker bench segments`: the benchmarks of two papers on DAOS.
use super::{JsonFile, pages};
use clap::Args;
use esker::types::Result;
use esker_bench::field_io::segments::Objects;
use esker_bench::plan::{Fields, ParallelOptions, ParallelPlan, Subject, parse_size};
use esker_bench::plots::page::Page;
use esker_bench::plots::results::Results;
use esker_cli::output::{Answer, with_spinner};
use serde_json::json;
use std::path::{Path, PathBuf};

const FIELD_IO: &str = "\
The benchmark of the papers on weather fields. A field is an Array. The main Key-Value maps the most significant part \
of a field's key to the Key-Value of its forecast, which maps the rest of the key to the Array. Writing a field again \
creates a new Array; the old one remains, unreferenced.

Modes: full (containers named by md5 for the index and the fields of each forecast), no-containers (all in one \
container), no-index (no Key-Values: Arrays named by the md5 of the key).
Patterns: A (every process writes its own fields; then other processes read them), B (half of the processes rewrite the \
same fields while the other half reads them).
Contention: low (one forecast Key-Value per process), high (one that all processes share).

All combinations of the values in comma-separated lists are measured in sequence. An unmeasured pass before each warms up \
the memory of the pool. The limit is pwrite and pread of the same blocks by the same number of processes, alternating with \
the repeats; in pattern B, half of them write while the others read. docs/cli.md defines all figures and the columns of \
the traces.

Several nodes: start the same command once per node, by srun or mpirun, with --pool and --rendezvous on file systems that \
all nodes share; --procs is the number of processes per node. Rank 0 prints the results.
  srun --ntasks-per-node=1 esker bench field-io --pool posix:/lustre/p --rendezvous /lustre/meet --procs 24
With ssh, give each node its rank: --rank R --ranks N. The clocks of the nodes must be synchronized.

Pools over nodes: --nodes measures several, as their clients on other nodes would (ESKER_NODE=none, unless it is set), \
and -o draws the bandwidth against their nodes.

Examples:
  esker bench field-io --nodes one,two,four --mode full,no-index --pattern A,B -o scaling.html
  esker bench field-io --procs 2 --mode full,no-containers,no-index --pattern A,B --json run.json
  esker bench field-io --procs 1,2 --size 1MiB,5MiB --class-array S1,S2,SX --repeat 10";

const SEGMENTS: &str = "\
IOR in segments mode: each process transfers all its segments in one operation. Iterations are synchronized: all \
processes wait for each other before they open the object and after they close it. Each process reads what another \
process wrote.

Examples:
  esker bench segments --procs 2 --segments 100 --size 1MiB
  esker bench segments --objects own,shared --class-array SX --json segments.json";

/// Measure Field I/O: weather fields by key, as in the papers on DAOS
#[derive(Args)]
#[command(after_long_help = FIELD_IO)]
pub(crate) struct FieldIo {
    #[command(flatten)]
    fields: Fields,
    /// Size of a field, or several sizes, separated by commas
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_delimiter = ',')]
    #[arg(value_parser = parse_size)]
    size: Vec<u64>,
    /// Operations of each process in each repeat [default: 512 MiB, 8 to 2000 operations]
    #[arg(long, value_name = "N")]
    ops: Option<u32>,
    #[command(flatten)]
    pools: Pools,
    #[command(flatten)]
    options: ParallelOptions,
    #[command(flatten)]
    json: JsonFile,
}

/// Measure segments: all processes transfer large objects in step, as IOR does
#[derive(Args)]
#[command(after_long_help = SEGMENTS)]
pub(crate) struct Segments {
    /// One object per process, or a shared one; or both, separated by a comma
    #[arg(long, value_name = "OBJECTS", default_value = "own", value_delimiter = ',')]
    objects: Vec<Objects>,
    /// Number of segments of each process
    #[arg(long, value_name = "N", default_value_t = 100)]
    segments: u32,
    /// Size of a segment, or several sizes, separated by commas
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_delimiter = ',')]
    #[arg(value_parser = parse_size)]
    size: Vec<u64>,
    /// Number of iterations in each repeat, each with new objects
    #[arg(long, value_name = "N", default_value_t = 5)]
    iterations: u32,
    #[command(flatten)]
    pools: Pools,
    #[command(flatten)]
    options: ParallelOptions,
    #[command(flatten)]
    json: JsonFile,
}

/// Pools over more and more nodes.
#[derive(Args)]
struct Pools {
    /// Measure each of these pools over nodes, separated by commas
    #[arg(long = "nodes", value_name = "POOL", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["pool", "path", "targets", "durability", "huge_pages", "no_write_buffer", "rendezvous", "rank", "traces"])]
    names: Vec<String>,
    /// HTML page with plots to write
    #[arg(short, long, value_name = "FILE", requires = "names")]
    output: Option<PathBuf>,
}

impl FieldIo {
    pub(crate) fn run(self) -> Result<Answer> {
        let Self { fields, size: sizes, ops, options, .. } = self;
        let subject = Subject::Fields(fields);
        let plan = ParallelPlan { subject, sizes, ops, options, variables: Vec::new() };
        run(plan, &self.pools, "field-io", &self.json)
    }
}

impl Segments {
    pub(crate) fn run(self) -> Result<Answer> {
        let Self { objects, segments: count, size: sizes, options, .. } = self;
        let (subject, ops) = (Subject::Segments { objects, count }, Some(self.iterations));
        let plan = ParallelPlan { subject, sizes, ops, options, variables: Vec::new() };
        run(plan, &self.pools, "segments", &self.json)
    }
}

fn run(mut plan: ParallelPlan, pools: &Pools, name: &str, json: &JsonFile) -> Result<Answer> {
    json.check()?;
    if pools.names.is_empty() {
        plan.options.traces = plan.options.traces.or_else(|| json.traces());
        // Only the first of several nodes has a report.
        return match with_spinner(|note| plan.run(note))? {
            Some(report) => json.answer(json!(report), report.to_string()),
            None => Ok(Answer::new(json!(null), "")),
        };
    }
    let found = with_spinner(|note| plan.run_on_pools(&pools.names, note))?;
    if let Some(output) = &pools.output {
        let results = Results::from_json(&format!("esker bench {name} --nodes"), json!(found))?;
        let title = format!("esker bench {name} on more and more nodes");
        pages::write(&Page::from_results(&title, &[results])?, output, None)?;
    }
    json.answer(json!(found), found.to_string())
}

impl JsonFile {
    /// The file of the traces beside the report: the same stem with `.traces.csv`.
    fn traces(&self) -> Option<PathBuf> {
        let path = self.json.as_deref().filter(|path| *path != Path::new("-"))?;
        Some(path.with_extension("traces.csv"))
    }
}
