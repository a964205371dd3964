//! `esker bench placement`: how evenly objects are placed on the targets of many nodes.
use super::JsonFile;
use super::report;
use clap::Args;
use esker::types::Result;
use esker_bench::placement::{Ids, Kind, PlacementPlan};
use esker_bench::plots::page::Page;
use esker_bench::plots::results::Results;
use esker_cli::output::{Answer, Bar, watched};
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

const METHOD: &str = "\
Nothing is stored, and no pool is needed: each object is placed by the function that real pools use. Objects are Arrays \
of --dkeys chunks, or Key-Values of as many keys. The dkeys on each target and node are counted and compared with those of \
an ideal hash: the standard deviation, and the fullest target over the mean, from its 1st to its 99th percentile. The table shows the ids that are spread least evenly; --json has all.

Ids: consecutive (as allocate_oids returns them), random, strided16 and strided4096 (multiples), ranks (the rank of 64 \
processes in bits 32 to 37 of the lower word), blocks (processes allocate 1024 ids and use 100).

Examples:
  esker bench placement -o placement.html
  esker bench placement --nodes 512 --objects 100000000 --class S1,SX
  esker bench placement --kind kv --class SX --objects 1 --dkeys 10000000";

/// Simulate how evenly objects are placed on the targets of many nodes
#[derive(Args)]
#[command(after_long_help = METHOD)]
pub(crate) struct Placement {
    /// Number of nodes, or several numbers, separated by commas
    #[arg(
        long,
        value_name = "N",
        default_value = "1,2,4,8,16,32,64,128,256,512",
        value_delimiter = ','
    )]
    nodes: Vec<u32>,
    /// Number of targets of each node
    #[arg(long, value_name = "T", default_value_t = 8)]
    targets: u32,
    /// Kind of objects, or both, separated by a comma
    #[arg(long, value_name = "KIND", default_value = "array", value_delimiter = ',')]
    kind: Vec<Kind>,
    /// Object class, or several, separated by commas
    #[arg(long, value_name = "CLASS", default_value = "S1,S2,S4,S8,SX", value_delimiter = ',')]
    class: Vec<String>,
    /// How ids are chosen, or several ways, separated by commas [default: all]
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    ids: Vec<Ids>,
    /// Number of objects
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    objects: u64,
    /// Chunks of an Array, or keys of a Key-Value
    #[arg(long, value_name = "N", default_value_t = 8)]
    dkeys: u32,
    /// Number of threads [default: one per processor]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Seed of random ids
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Report the count of each target and node
    #[arg(long)]
    counts: bool,
    /// HTML page with plots to write
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write each plot to a file in this directory too
    #[arg(long, value_name = "DIR", requires = "output")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    json: JsonFile,
}

impl Placement {
    pub(crate) fn run(self) -> Result<Answer> {
        self.json.check()?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let plan = PlacementPlan {
            nodes: self.nodes,
            targets: self.targets,
            kinds: self.kind,
            classes: self.class,
            ids: if self.ids.is_empty() { Ids::ALL.to_vec() } else { self.ids },
            objects: self.objects,
            dkeys: self.dkeys,
            threads: self.threads.unwrap_or(processors),
            seed: self.seed,
            counts: self.counts,
        };
        let (total, done) = (plan.total()?, AtomicU64::new(0));
        let show = |bar: &Bar| bar.update(done.load(Ordering::Relaxed), total);
        let found = watched(|| Bar::steps("placing objects"), show, || plan.run(&done))?;
        if let Some(output) = &self.output {
            let results = Results::from_json("esker bench placement", json!(found))?;
            let page = Page::from_results("Placement over nodes", &[results])?;
            report::write(&page, output, self.svg.as_deref())?;
        }
        self.json.answer_with(json!(found), found.to_string())
    }
}
