//! `esker bench field-io --nodes` and `esker bench segments --nodes`: the sweep over pools on more and more nodes, and the
//! model of still more.
use super::report;
use super::{JsonFile, launcher};
use clap::Args;
use esker::names::NODE_VARIABLE;
use esker::types::Result;
use esker_bench::plots::page::Page;
use esker_bench::plots::results::Results;
use esker_bench::scaling::{ModelledSystems, ScalingPlan, Swept};
use esker_cli::output::{Answer, with_spinner};
use esker_cli::units::Bytes;
use serde_json::json;
use std::path::PathBuf;

/// Pools over nodes, and what to model.
#[derive(Args)]
pub(super) struct ScalingArgs {
    /// Pools over 1, 2, 4 ... nodes, separated by commas: measure each, and model more nodes
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["pool", "path", "targets", "durability", "huge_pages", "no_write_buffer", "rendezvous", "rank", "traces"])]
    pub(super) nodes: Vec<String>,
    /// Most nodes of the pool that are modelled
    #[arg(long, value_name = "N", default_value_t = 16, requires = "nodes")]
    model_nodes: u32,
    /// Client nodes for each node of the pool, in the model
    #[arg(long, value_name = "N", default_value_t = 2, requires = "nodes")]
    model_clients: u32,
    /// Processes on each client node, in the model
    #[arg(long, value_name = "N", default_value_t = 36, requires = "nodes")]
    model_procs: u32,
    /// Bytes per second of a link, in the model [default: those of a TCP stream in this machine]
    #[arg(long, value_name = "SIZE", requires = "nodes")]
    model_link: Option<Bytes>,
    /// HTML page with plots to write
    #[arg(short, long, value_name = "FILE", requires = "nodes")]
    output: Option<PathBuf>,
}

/// The settings of a benchmark in a sweep.
pub(super) struct Sweep {
    /// The benchmark.
    pub(super) swept: Swept,
    /// Options that do not vary.
    pub(super) words: Vec<String>,
    /// Numbers of processes.
    pub(super) procs: Vec<u32>,
    /// Sizes of a field.
    pub(super) sizes: String,
    /// Operations of each process, or its segments.
    pub(super) ops: Option<u32>,
}

impl ScalingArgs {
    /// Measures, models and answers.
    pub(super) fn run(self, sweep: Sweep, json: &JsonFile) -> Result<Answer> {
        json.check()?;
        let memory = PathBuf::from("/dev/shm");
        let plan = ScalingPlan {
            swept: sweep.swept,
            launcher: launcher("worker")?,
            folder: if memory.is_dir() { memory } else { std::env::temp_dir() },
            pools: self.nodes,
            words: sweep.words,
            procs: sweep.procs,
            sizes: sweep.sizes,
            ops: sweep.ops,
            node: std::env::var(NODE_VARIABLE).unwrap_or_else(|_| "none".to_owned()),
            beyond: ModelledSystems {
                servers: self.model_nodes,
                clients: self.model_clients,
                procs: self.model_procs,
                link_mib_s: self.model_link.map(|link| link.0 as f64 / f64::from(1 << 20)),
            },
        };
        let found = with_spinner(|note| plan.run(note))?;
        if let Some(output) = &self.output {
            let (command, title) = match sweep.swept {
                Swept::FieldIo => ("esker bench field-io --nodes", "Field I/O"),
                Swept::Segments => ("esker bench segments --nodes", "Segments"),
            };
            let results = Results::from_json(command, json!(found))?;
            let title = format!("{title} on more and more nodes, measured and modelled");
            let page = Page::from_results(&title, &[results])?;
            report::write(&page, output, None)?;
        }
        json.answer(&found)
    }
}
