//! Creates a pool over nodes: starts an engine on each node, sends the map to all, and leaves the engines running. If a
//! step fails, everything is removed.
use super::order::{
    Down, EngineSpec, NodePoolSpec, ORDER_VERSION, Order, Own, Place, Reach, State, Up,
};
use super::tree::Tree;
use esker::types::{Error, ErrorKind, Result, Uuid};
use esker_nodes::{Map, Node, Transport, secret_text};
use esker_wire::handshake::Secret;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Number of starters that one starter starts directly.
pub const FANOUT: usize = 8;

/// How long nodes may take to start, to write the map, or to clean up.
pub(crate) const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Additional time to start for each GiB of a node's pool, since all space is reserved.
const TIMEOUT_PER_GIB: Duration = Duration::from_secs(2);

/// Number of failed nodes that an error message names.
const NAMED_MAX: usize = 4;

/// Method by which starters are started on the nodes.
#[derive(Clone, Debug)]
pub(crate) enum Launcher {
    /// By a tree of starters, each started by this command followed by the name of a node.
    Ssh(Vec<String>),
    /// By one command of MPI for each node, which begins with these words.
    Mpirun(Vec<String>),
    /// All at once, as a step of a Slurm job.
    Srun,
    /// By processes on this machine.
    Local,
}

impl Launcher {
    /// The name of the launcher, as options spell it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Ssh(_) => "ssh",
            Self::Mpirun(_) => "mpirun",
            Self::Srun => "srun",
            Self::Local => "local",
        }
    }
}

/// Specification of a pool over nodes that is to be created.
pub(crate) struct Launch {
    pub(crate) pool: NodePoolSpec,
    pub(crate) engine: EngineSpec,
    pub(crate) hosts: Vec<String>,
    pub(crate) launcher: Launcher,
    /// How clients reach its engines.
    pub(crate) transport: Transport,
    /// Path of the map on this machine.
    pub(crate) map: PathBuf,
    pub(crate) timeout: Option<Duration>,
    /// The command `esker`, which starts the nodes.
    pub(crate) program: PathBuf,
}

/// Called with the number of nodes that are ready.
pub(crate) type Progress<'p> = &'p mut dyn FnMut(usize);

impl Launch {
    /// Creates the pool. If that fails, nothing is left of it.
    ///
    /// # Errors
    /// Names the nodes that failed, and why.
    pub(crate) fn run(self, progress: Progress<'_>) -> Result<Map> {
        let secret = Secret::new(esker_os::random_bytes()?);
        let uuid = esker_os::random_uuid()?;
        let order = self.order(&secret)?;
        // Made first, because the launcher writes its log there. The log has the reason if it fails.
        let made = make_directory_of(&self.map);
        let mut nodes = Nodes::start(order, &self.launcher, &self.map);
        let started = self.start(&mut nodes, uuid, secret, progress);
        match &started {
            Ok(_) => nodes.leave(&self.launcher),
            Err(_) => {
                let is_own = !is_map_of_another(&self.map, uuid);
                if is_own {
                    let _ = std::fs::remove_file(&self.map);
                }
                nodes.abandon();
                if is_own {
                    let _ = std::fs::remove_file(launcher_log(&self.map));
                }
                let _ = made.map(std::fs::remove_dir);
            }
        }
        started
    }

    /// Waits until all engines report, writes the map of the pool here and on all nodes, and lets the engines run on.
    fn start(
        &self,
        nodes: &mut Nodes,
        uuid: Uuid,
        secret: Secret,
        progress: Progress<'_>,
    ) -> Result<Map> {
        nodes.all_report(self.start_timeout(), progress)?;
        let NodePoolSpec { label, targets, .. } = &self.pool;
        let (tls, transport) = (self.engine.tls, self.transport);
        let map =
            Map { tls, transport, ..Map::new(label, uuid, secret, *targets, nodes.map_nodes()) };
        write_here(&map, &self.map)?;
        nodes.tree.tell(&Down::Publish(Box::new(map.clone())));
        nodes.all_report(STEP_TIMEOUT, &mut |_| ())?;
        nodes.tree.tell(&Down::Keep);
        nodes.all_report(STEP_TIMEOUT, &mut |_| ())?;
        Ok(map)
    }

    /// Time that nodes may take to start: `--timeout`, or a time that grows with the size of a node's pool.
    fn start_timeout(&self) -> Duration {
        let gib = (self.pool.size_bytes >> 30).min(1 << 20) as u32;
        self.timeout.unwrap_or(STEP_TIMEOUT + TIMEOUT_PER_GIB * gib)
    }

    /// The order that the starters of all nodes get.
    fn order(&self, secret: &Secret) -> Result<Order> {
        let (own, reach, fanout) = match &self.launcher {
            Launcher::Ssh(words) => (Own::First, Reach::Shell(words.clone()), FANOUT),
            Launcher::Local => (Own::First, Reach::Local, FANOUT),
            // Programs that MPI has started may not start others with it.
            Launcher::Mpirun(words) => (Own::First, Reach::Mpi(words.clone()), self.hosts.len()),
            Launcher::Srun => (Own::Ranked, Reach::Local, FANOUT),
        };
        Ok(Order {
            version: ORDER_VERSION,
            secret: secret_text(secret),
            pool: self.pool.clone(),
            engine: self.engine.clone(),
            places: places(&self.hosts),
            own,
            reach,
            program: self.program.clone(),
            fanout,
        })
    }
}

/// Path of the log of a launcher that outlives this process, next to the map.
pub(crate) fn launcher_log(map: &Path) -> PathBuf {
    map.with_extension("launch.log")
}

/// The places of hosts. A host that is listed several times gets a different name for each place.
fn places(hosts: &[String]) -> Vec<Place> {
    let mut times: HashMap<&str, u32> = HashMap::new();
    hosts.iter().for_each(|host| *times.entry(host).or_default() += 1);
    let place = |(number, host): (usize, &String)| {
        let number = number as u32;
        let name = match times.get(host.as_str()) {
            Some(1) | None => host.clone(),
            _ => format!("{host}.{number}"),
        };
        Place { number, name, host: host.clone() }
    };
    hosts.iter().enumerate().map(place).collect()
}

/// Makes the directory of a map if only that is missing, and returns it then. Nodes refuse a directory whose own parent
/// is missing, too.
fn make_directory_of(map: &Path) -> Option<&Path> {
    let directory = map.parent().filter(|parent| !parent.as_os_str().is_empty())?;
    std::fs::create_dir(directory).ok().map(|()| directory)
}

/// True if there is a map at `path`, and it is not that of the pool `uuid`: another command has written it meanwhile.
fn is_map_of_another(path: &Path, uuid: Uuid) -> bool {
    path.symlink_metadata().is_ok() && Map::read(path).map_or(true, |map| map.uuid != uuid)
}

/// Writes the map to `path` on this machine, where there must not be one yet. Makes its directory if that is missing.
fn write_here(map: &Map, path: &Path) -> Result<()> {
    if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory)
            .map_err(|error| Error::io(format_args!("making {}", directory.display()), &error))?;
    }
    map.write_new(path).map_err(|error| match error.kind() {
        ErrorKind::Exists => map_taken_error(path),
        _ => error,
    })
}

#[cold]
fn map_taken_error(path: &Path) -> Error {
    let map = path.display();
    let message = format!(
        "another command has written the map {map} meanwhile: choose another label or --map, or use its pool"
    );
    Error::new(ErrorKind::Exists, message)
}

/// The nodes that are being started.
struct Nodes {
    order: Order,
    tree: Tree,
    reports: Receiver<Up>,
    ready: BTreeMap<u32, (String, Uuid)>,
    failed: BTreeMap<u32, (ErrorKind, String)>,
    /// Nodes that have sent their last report.
    over: BTreeSet<u32>,
}

impl Nodes {
    /// Starts the engines of all nodes.
    fn start(order: Order, launcher: &Launcher, map: &Path) -> Self {
        let (to, reports) = channel();
        let tree = match command(launcher, &order) {
            None => Tree::grow(&order, &order.places, &to),
            Some(command) => Tree::by_launcher(command, &launcher_log(map), order.clone(), &to),
        };
        let (ready, failed, over) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { order, tree, reports, ready, failed, over }
    }

    /// Waits until each node has sent one more report, for at most `timeout`.
    fn all_report(&mut self, timeout: Duration, progress: Progress<'_>) -> Result<()> {
        let deadline = Instant::now() + timeout;
        let mut silent: BTreeSet<u32> =
            self.order.places.iter().map(|place| place.number).collect();
        while !silent.is_empty() {
            match self.reports.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(up) => {
                    silent.remove(&up.node);
                    self.take(up);
                    progress(self.ready.len());
                }
                Err(why) => {
                    let why = silence_error(why, timeout);
                    let failed = silent.iter().map(|node| (*node, why.clone()));
                    self.failed.extend(failed);
                    break;
                }
            }
        }
        self.refuse_failed()
    }

    /// Records the report of a node. The last report of a node also marks the node as finished.
    fn take(&mut self, Up { node, state }: Up) {
        if state.is_last() {
            self.over.insert(node);
        }
        match state {
            State::Ready { address, uuid } => {
                self.ready.insert(node, (address, uuid));
            }
            State::Failed { kind, message } => {
                self.failed.insert(node, (kind, message));
            }
            State::Published | State::Kept | State::Removed => {}
        }
    }

    /// Returns an error that names the nodes that failed, if there are any.
    fn refuse_failed(&self) -> Result<()> {
        let Some((kind, _)) = self.failed.values().next() else { return Ok(()) };
        let named = self.failed.iter().take(NAMED_MAX);
        let mut reasons: Vec<String> =
            named.map(|(node, (_, why))| format!("node {}: {why}", self.name(*node))).collect();
        if self.failed.len() > NAMED_MAX {
            reasons.push(format!("and {} more nodes", self.failed.len() - NAMED_MAX));
        }
        let all_same = self.failed.values().all(|(other, _)| other == kind);
        let message =
            format!("pool {} was not created: {}", self.order.pool.label, reasons.join("; "));
        Err(Error::new(if all_same { *kind } else { ErrorKind::Io }, message))
    }

    fn name(&self, node: u32) -> &str {
        self.order.places.get(node as usize).map_or("?", |place| &place.name)
    }

    /// Returns the nodes for the map. A node that did not report its address is left out.
    fn map_nodes(&self) -> Vec<Node> {
        let node = |place: &Place| {
            let (address, uuid) = self.ready.get(&place.number)?.clone();
            let directory = self.order.pool.pool_directory(place.number);
            Some(Node { name: place.name.clone(), address, uuid, directory })
        };
        self.order.places.iter().filter_map(node).collect()
    }

    /// Stops and removes everything, and waits for the reports of the nodes until the timeout.
    fn abandon(mut self) {
        self.tree.tell(&Down::Abandon);
        let deadline = Instant::now() + STEP_TIMEOUT;
        while self.over.len() < self.order.places.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(up) = self.reports.recv_timeout(left) else { break };
            self.take(up);
        }
        self.tree.leave();
    }

    /// Ends the starters and leaves the engines running.
    fn leave(self, launcher: &Launcher) {
        match launcher {
            Launcher::Ssh(_) | Launcher::Mpirun(_) | Launcher::Local => self.tree.end(),
            // The step of Slurm lasts as long as the engines.
            Launcher::Srun => self.tree.leave(),
        }
    }
}

/// Returns the kind and text of the error for a node that did not report.
fn silence_error(why: RecvTimeoutError, timeout: Duration) -> (ErrorKind, String) {
    match why {
        RecvTimeoutError::Timeout => {
            let message = format!("no answer within {} s (--timeout)", timeout.as_secs());
            (ErrorKind::TimedOut, message)
        }
        RecvTimeoutError::Disconnected => (ErrorKind::Io, "its starter ended".to_owned()),
    }
}

/// The command that runs a starter on each node at once. `None` for launchers that start them one by one, in a tree.
fn command(launcher: &Launcher, order: &Order) -> Option<Command> {
    let hosts: Vec<&str> = order.places.iter().map(|place| place.host.as_str()).collect();
    let (count, list) = (hosts.len().to_string(), hosts.join(","));
    let mut command = match launcher {
        Launcher::Ssh(_) | Launcher::Mpirun(_) | Launcher::Local => return None,
        Launcher::Srun => {
            let mut command = Command::new("srun");
            command.args(["--nodes", &count, "--ntasks", &count, "--ntasks-per-node=1"]);
            command.args(["--nodelist", &list, "--overlap", "--mem=0", "--input=all"]);
            // If an engine or a node fails, the other engines stay.
            command.args(["--kill-on-bad-exit=0", "--wait=0", "--no-kill"]);
            command.args(["--job-name=esker", "--unbuffered"]);
            command
        }
    };
    command.arg(&order.program).args(["engine", "start"]);
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_of_another_pool_is_neither_replaced_nor_removed() {
        let path = std::env::temp_dir().join(format!("esker-launch-{}.map", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let map = |byte| {
            let (uuid, secret) = (Uuid([byte; 16]), Secret::new([byte; 32]));
            let (name, address, directory) = ("n".to_owned(), "a:1".to_owned(), "/p".into());
            Map::new("p", uuid, secret, 1, vec![Node { name, address, uuid, directory }])
        };
        assert!(!is_map_of_another(&path, Uuid([1; 16])));
        write_here(&map(1), &path).unwrap();
        let taken = write_here(&map(2), &path).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::Exists, "{taken}");
        assert!(!is_map_of_another(&path, Uuid([1; 16])));
        assert!(is_map_of_another(&path, Uuid([2; 16])));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn hosts_that_repeat_get_names_of_their_own() {
        let hosts = ["n1", "n2", "n1"].map(str::to_owned);
        let names: Vec<_> = places(&hosts).into_iter().map(|place| place.name).collect();
        assert_eq!(names, ["n1.0", "n2", "n1.2"]);
    }
}
