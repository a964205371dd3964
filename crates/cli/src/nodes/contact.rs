//! Access to an existing pool over nodes: its map, and requests to its nodes.
use esker::Pool;
use esker::names::{self, Named};
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker_nodes::{AbsentPool, Map, ShardedPool, Survey, Timeouts};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A pool over nodes, with the path of its map.
pub(crate) struct NodesPool {
    pub(crate) path: PathBuf,
    pub(crate) map: Map,
}

impl NodesPool {
    /// The pool over nodes of this name; `None` if the name is unknown or that of another kind of pool.
    ///
    /// # Errors
    /// The errors of reading a map.
    pub(crate) fn find(name: &str) -> Result<Option<Self>> {
        match names::resolve(name) {
            Ok(Named::Nodes(path)) => Self::read(path).map(Some),
            _ => Ok(None),
        }
    }

    fn read(path: PathBuf) -> Result<Self> {
        let (path, map) = names::read_map(&path)?;
        Ok(Self { path, map })
    }

    /// All pools whose maps are in the pool directories and can be read, sorted by path.
    pub(crate) fn all() -> Vec<Self> {
        names::list_nodes().into_iter().map(|(path, map)| Self { path, map }).collect()
    }

    /// The containers on each node. First resolves the commits of dead clients, which hide the containers of a node
    /// until then.
    ///
    /// # Errors
    /// Why the first node does not answer.
    pub(crate) fn survey(&self) -> Result<Survey> {
        let timeouts = Timeouts { reconnect: Duration::ZERO, ..Timeouts::default() };
        let pool = ShardedPool::open_with(&self.map, &self.path, Vec::new(), timeouts)?;
        // The survey reports a node that does not answer.
        drop(talk(pool.resolve_commits())?);
        talk(self.map.survey())?
    }

    /// Numbers of the nodes that lack a container; `None` if all nodes have it, or the first node does not list it.
    ///
    /// # Errors
    /// Why the first node does not answer.
    pub(crate) fn nodes_without(&self, container: &str) -> Result<Option<Vec<usize>>> {
        let survey = self.survey()?;
        let is_meant = |uuid: &str, label: &str| uuid == container || label == container;
        let mut all = survey.catalog.iter();
        let found = all.find(|info| is_meant(&info.uuid.to_string(), &info.label));
        let without = found.map(|info| survey.nodes_without(info.uuid));
        Ok(without.filter(|nodes| !nodes.is_empty()))
    }

    /// Opens the pool for reading without the lost nodes.
    ///
    /// # Errors
    /// The errors of opening it.
    fn open_without(&self, lost: &[usize]) -> Result<SurvivingPool> {
        let nodes = || lost.iter().map(|number| (*number as u32, &self.map.nodes[*number].name));
        let absent = |(number, name): (u32, &String)| -> (u32, Arc<dyn esker::backend::Pool>) {
            (number, Arc::new(AbsentPool::new(name, self.map.targets)))
        };
        let left = ShardedPool::open(&self.map, &self.path, nodes().map(absent).collect())?;
        let pool = Pool::from_backend(Arc::new(left), OpenMode::ReadOnly);
        Ok(SurvivingPool { pool, lost: nodes().map(|(_, name)| name.clone()).collect() })
    }

    /// The name by which every program of this machine can open the pool.
    pub(crate) fn url(&self) -> String {
        format!("nodes:{}", self.path.display())
    }

    /// True if this directory is the pool of one of its nodes.
    pub(crate) fn has_node_pool(&self, part: &Path, uuid: esker::types::Uuid) -> bool {
        self.map.nodes.iter().any(|node| node.uuid == uuid && node.directory == part)
    }
}

/// A pool opened without the nodes that have lost a container.
pub(crate) struct SurvivingPool {
    pub(crate) pool: Pool,
    /// Names of the nodes that lack the container.
    pub(crate) lost: Vec<String>,
}

impl SurvivingPool {
    /// Opens the pool `name` without the nodes that lack the container. `None` if all nodes have it, or the pool is not
    /// over nodes.
    ///
    /// # Errors
    /// Why its first node does not answer, and those of opening the pool.
    pub(crate) fn open_if_damaged(name: &str, container: &str) -> Result<Option<Self>> {
        let Some(nodes) = NodesPool::find(name)? else { return Ok(None) };
        nodes.nodes_without(container)?.map(|lost| nodes.open_without(&lost)).transpose()
    }

    /// The error that names the nodes without the container; `then` is the last step of the remedy.
    pub(crate) fn error(&self, then: &str) -> Error {
        let message = format!(
            "node {} does not have the container: start its engine; or, if its pool is gone, note what is lost, give it \
             a new one with `esker engine run --new-node-pool`, run `esker pool check --repair`, and then {then}",
            self.lost.join(", ")
        );
        Error::new(ErrorKind::DataLoss, message)
    }
}

/// Runs a future that sends requests to nodes, and waits for its result.
pub(crate) fn talk<T>(work: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Error::io("preparing to talk to the nodes of a pool", &error))?;
    Ok(runtime.block_on(work))
}
