//! How long a pool over one node takes to start.
use super::{EngineSpec, Launch, Launcher, NodePoolSpec, talk};
use esker::names;
use esker::types::{Error, Result};
use esker_nodes::{Map, Transport};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Starts a pool over this node alone in `directory`, or in the directory of new pools, and destroys it. `program` is
/// the command `esker`. Returns the times until the node was ready, and from there until the pool was created.
///
/// # Errors
/// If the pool cannot be created or destroyed.
pub fn time_start(
    program: PathBuf,
    directory: Option<&Path>,
    label: String,
    size_bytes: u64,
) -> Result<[Duration; 2]> {
    let directory = directory.map_or_else(names::new_pool_directory, |given| Ok(given.into()))?;
    let directory = std::path::absolute(&directory)
        .map_err(|error| Error::io(format_args!("looking at {}", directory.display()), &error))?;
    let map = Map::path(&directory, &label);
    let launch = Launch {
        pool: node_pool(label, directory, size_bytes),
        engine: EngineSpec::default(),
        hosts: vec!["localhost".to_owned()],
        launcher: Launcher::Local,
        transport: Transport::Tcp,
        map: map.clone(),
        timeout: None,
        program,
    };
    let begin = Instant::now();
    let mut ready = Duration::ZERO;
    let created = launch.run(&mut |_| ready = begin.elapsed())?;
    let total = begin.elapsed();
    talk(created.shut_down(true))?.into_iter().collect::<Result<()>>()?;
    let _ = std::fs::remove_file(map);
    Ok([ready, total.saturating_sub(ready)])
}

/// Specification of a pool with one node.
fn node_pool(label: String, directory: PathBuf, size_bytes: u64) -> NodePoolSpec {
    NodePoolSpec {
        label,
        directory,
        parents: true,
        nodes: 1,
        size_bytes,
        targets: 4,
        durability: None,
        guarded: false,
        index_percent: None,
        segment_bytes: None,
        huge_pages: false,
    }
}
