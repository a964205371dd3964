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

/// Measure Field I/O: weather fields by key, as in the papers on DAOS
#[derive(Args)]
#[command(after_long_help = include_str!("../help/field-io.txt").trim_end())]
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
#[command(after_long_help = include_str!("../help/segments.txt").trim_end())]
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

/// Runs the benchmark on one pool or, with `--nodes`, on each of `pools`, which are over more and more nodes. The
/// results of the latter can also be drawn as a page.
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
    pages::check(pools.output.as_deref(), None)?;
    let found = with_spinner(|note| plan.run_on_pools(&pools.names, note))?;
    let answer = json.answer(json!(found), found.to_string())?;
    if let Some(output) = &pools.output {
        let results = Results::from_json(&format!("esker bench {name} --nodes"), json!(found))?;
        let title = format!("esker bench {name} on more and more nodes");
        pages::write(&Page::from_results(&title, &[results])?, output, None)?;
    }
    Ok(answer)
}

impl JsonFile {
    /// The file of the traces beside the report: the same stem with `.traces.csv`.
    fn traces(&self) -> Option<PathBuf> {
        let path = self.json.as_deref().filter(|path| *path != Path::new("-"))?;
        Some(path.with_extension("traces.csv"))
    }
}
