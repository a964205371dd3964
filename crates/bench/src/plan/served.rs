//! Temporary pools over nodes, whose engines serve them over TCP on loopback.
use super::Note;
use crate::runner::Runner;
use esker::types::info::Durability;
use esker_cli::units::Bytes;
use esker_store::PoolSpec;
use esker_types::Result;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A pool whose engines all run on this machine. It is destroyed, and its engines end, when this value is dropped. If
/// this process dies, the engines end once the directory with their pools is removed.
pub(crate) struct Served {
    runner: Runner,
    url: String,
    start_s: f64,
}

impl Served {
    /// Creates a pool in `folder` over `nodes` nodes, with the size of `spec` on each, and starts its engines.
    pub(crate) fn new(folder: &Path, spec: &PoolSpec, nodes: u32, note: Note<'_>) -> Result<Self> {
        let folder = folder.display().to_string();
        let size = Bytes(spec.size_bytes);
        note(&format!("creating a pool in {folder}: engines: {nodes}, each with {size}"));
        let runner = Runner::new(PathBuf::new(), Vec::new())?;
        let start = Instant::now();
        runner.run(&words(spec, &folder, nodes))?;
        let url = format!("nodes:{folder}/{}.map", spec.label);
        Ok(Self { runner, url, start_s: start.elapsed().as_secs_f64() })
    }

    /// Time that the command took which created the pool and started its engines, in seconds.
    pub(crate) fn start_s(&self) -> f64 {
        self.start_s
    }

    /// URL of the pool.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.runner.undo(&["pool", "destroy", "--force", &self.url]);
    }
}

fn words(spec: &PoolSpec, folder: &str, nodes: u32) -> Vec<String> {
    let (size, nodes) = (spec.size_bytes.to_string(), nodes.to_string());
    let fixed = ["pool", "create", &spec.label, "--size", &size, "--dir", folder];
    let over = ["--nodes", &nodes, "--launcher", "local"];
    let durability = spec.durability.map(|level| match level {
        Durability::Process => "process".to_owned(),
        Durability::Commit => "commit".to_owned(),
    });
    let options = [
        ("--targets", spec.targets.map(|targets| targets.to_string())),
        ("--index-percent", spec.index_percent.map(|percent| percent.to_string())),
        ("--durability", durability),
    ];
    let options = options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
    let huge_pages = spec.huge_pages.then(|| "--huge-pages".to_owned());
    let fixed = fixed.into_iter().chain(over).map(str::to_owned);
    fixed.chain(options.flatten()).chain(huge_pages).collect()
}
