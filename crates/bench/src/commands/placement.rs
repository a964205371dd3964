//! `esker bench placement`: how evenly objects are placed on the targets of many nodes.
use super::JsonFile;
use super::report;
use clap::Args;
use esker::types::Result;
use esker_bench::placement::PlacementPlan;
use esker_bench::plots::page::Page;
use esker_bench::plots::results::Results;
use esker_cli::output::{Answer, Bar, watched};
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

// No documentation comment: the help would show it in place of that of the plan.
#[derive(Args)]
pub(crate) struct Placement {
    #[command(flatten)]
    plan: PlacementPlan,
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
        let plan = &self.plan;
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
