//! `esker pool create` over nodes.
use super::engine::parse_metrics;
use crate::args::{parse_duration, parse_lifetime};
use crate::engine::Address;
use crate::nodes::{
    EngineSpec, Launch, Launcher, NodePoolSpec, hosts_of_job, parse_list, read_file,
    refuse_missing_parent,
};
use crate::output::{Answer, Bar};
use crate::programs::on_path;
use crate::shapes;
use crate::units::Bytes;
use clap::{Args, ValueEnum};
use esker::names;
use esker::types::limits::NODES_MAX;
use esker::types::{Error, ErrorKind, Result};
use esker_nodes::{Map, Transport};
use serde_json::json;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Words by which `ssh` starts a program, unless others are given: it must not ask for a password.
const SSH: &str = "ssh -T -o BatchMode=yes -o ConnectTimeout=15";

/// Command of MPI that starts programs, unless another is given.
const MPIRUN: &str = "mpirun";

/// Variable with the end of a Slurm job, in seconds since 1970.
const SLURM_END: &str = "SLURM_JOB_END_TIME";

/// Nodes of a new pool, and options for starting its engines.
#[derive(Args)]
#[command(next_help_heading = "Over nodes")]
pub(crate) struct OverNodes {
    /// Create the pool over these nodes: n1,n2 or n[001-016]
    #[arg(long, value_name = "LIST", conflicts_with_all = ["hostfile", "job"])]
    hosts: Option<String>,
    /// ... over the nodes in this file: a host file of MPI, or a host per line
    #[arg(long, value_name = "FILE", conflicts_with = "job")]
    hostfile: Option<PathBuf>,
    /// ... over the nodes of this job, of Slurm, PBS, LSF, Grid Engine or OAR
    #[arg(long)]
    job: bool,
    /// Use only the first N nodes; with --launcher local, start N engines on this machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    nodes: Option<u32>,
    /// How to start engines [default: srun in a job of Slurm that has it, else ssh]
    #[arg(long, value_name = "WHAT", value_enum)]
    launcher: Option<LauncherName>,
    /// Command that takes the name of a node and a command line, as ssh does: blaunch, pbs_tmrsh
    /// [default: ESKER_SSH, or ssh -T -o BatchMode=yes -o ConnectTimeout=15]
    #[arg(long, value_name = "COMMAND", conflicts_with = "mpirun")]
    ssh: Option<String>,
    /// Command of MPI that starts programs on nodes [default: ESKER_MPIRUN, or mpirun]
    #[arg(long, value_name = "COMMAND")]
    mpirun: Option<String>,
    /// Write the map of the pool here; --parents makes its directory [default: DIR/NAME.map]
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// Let engines listen on this network interface only [default: all; clients connect to the name of the node]
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
    /// How clients reach engines: over TCP, or over a fast network by libfabric, which FI_PROVIDER chooses
    /// [default: tcp]
    #[arg(long, value_name = "WHAT", value_enum)]
    transport: Option<TransportName>,
    /// Encrypt the traffic between nodes by TLS 1.3
    #[arg(long)]
    tls: bool,
    /// End the engines after this time [default: with a job of Slurm; otherwise never]
    #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
    lifetime: Option<Duration>,
    /// Keep or remove the pools of the nodes when a signal or --lifetime ends the engines
    /// [default: remove with --launcher srun, otherwise keep]
    #[arg(long, value_name = "WHAT", value_enum)]
    at_end: Option<AtEnd>,
    /// Number of threads of an engine [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Serve /metrics, for Prometheus, and /health of each engine over HTTP; PORT alone: on its node only
    #[arg(long, value_name = "[HOST:]PORT", value_parser = parse_metrics)]
    metrics: Option<Address>,
    /// How long to wait for the nodes [default: 1m, plus 2s for each GiB of a node]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

/// How engines are started.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LauncherName {
    /// By ssh, in a tree: each node starts several others
    Ssh,
    /// By one mpirun for each node
    Mpirun,
    /// By one srun: a step of the Slurm job, which lasts as long as the engines
    Srun,
    /// By processes on this machine
    Local,
}

/// Fate of the pool of a node when its engine ends.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AtEnd {
    /// Remove them, so that a job leaves nothing behind
    Remove,
    /// Keep them, so that engines can be started again
    Keep,
}

/// How clients reach engines.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TransportName {
    Tcp,
    Fabric,
}

impl From<TransportName> for Transport {
    fn from(name: TransportName) -> Self {
        match name {
            TransportName::Tcp => Self::Tcp,
            TransportName::Fabric => Self::Fabric,
        }
    }
}

impl OverNodes {
    /// True if the pool is to be created over nodes: an option is given that applies to pools over nodes only.
    pub(super) fn is_wanted(&self) -> bool {
        let hosts = [self.hosts.is_some(), self.hostfile.is_some(), self.job, self.nodes.is_some()];
        let network = [self.interface.is_some(), self.transport.is_some(), self.tls];
        let engines = [
            self.launcher.is_some(),
            self.ssh.is_some(),
            self.mpirun.is_some(),
            self.map.is_some(),
            self.lifetime.is_some(),
            self.at_end.is_some(),
            self.threads.is_some(),
            self.metrics.is_some(),
            self.timeout.is_some(),
        ];
        [&hosts[..], &network, &engines].concat().contains(&true)
    }

    /// Creates the pool. With `parents`, makes a missing directory for `--map`.
    pub(super) fn create(self, pool: NodePoolSpec, parents: bool) -> Result<Answer> {
        let transport = self.transport.map_or(Transport::Tcp, Transport::from);
        transport.check(self.tls)?;
        let launcher = self.launcher();
        self.refuse_unused(&launcher)?;
        let hosts = self.chosen_hosts()?;
        let pool = NodePoolSpec { nodes: hosts.len() as u32, ..pool };
        self.map.as_deref().map_or(Ok(()), |map| refuse_missing_parent(map, parents))?;
        let map = self.map.clone().unwrap_or_else(|| Map::path(&pool.directory, &pool.label));
        refuse_taken(&map)?;
        let lifetime = self.lifetime.or_else(remaining_job_time);
        let by_step = matches!(launcher, Launcher::Srun);
        let engine = EngineSpec {
            interface: self.interface,
            tls: self.tls,
            lifetime_seconds: lifetime.map(|lifetime| lifetime.as_secs_f64()),
            remove_at_end: self.at_end.map_or(by_step, |at_end| at_end == AtEnd::Remove),
            threads: self.threads,
            metrics: self.metrics.map(|address| address.to_string()),
        };
        let (bar, all) = (Bar::steps("starting nodes"), hosts.len() as u64);
        bar.update(0, all);
        let launch = Launch {
            pool,
            engine,
            hosts,
            launcher,
            transport,
            map: map.clone(),
            timeout: self.timeout,
            program: own_program()?,
        };
        let size = launch.pool.size_bytes;
        let made = launch.run(&mut |ready| bar.update(ready as u64, all))?;
        drop(bar);
        Ok(created(&made, &map, size))
    }

    /// How processes are started on other nodes. In a Slurm job it is `srun`, else `ssh`, unless an option says
    /// otherwise.
    fn launcher(&self) -> Launcher {
        let in_slurm = || std::env::var_os("SLURM_JOB_ID").is_some() && on_path("srun").is_some();
        let ssh = || Launcher::Ssh(command(self.ssh.as_deref(), "ESKER_SSH", SSH));
        let mpirun = || Launcher::Mpirun(command(self.mpirun.as_deref(), "ESKER_MPIRUN", MPIRUN));
        match self.launcher {
            Some(LauncherName::Srun) => Launcher::Srun,
            Some(LauncherName::Local) => Launcher::Local,
            Some(LauncherName::Mpirun) => mpirun(),
            None if self.mpirun.is_some() => mpirun(),
            None if self.ssh.is_none() && in_slurm() => Launcher::Srun,
            Some(LauncherName::Ssh) | None => ssh(),
        }
    }

    /// Refuses options that the launcher does not use.
    fn refuse_unused(&self, launcher: &Launcher) -> Result<()> {
        let is_local = matches!(launcher, Launcher::Local);
        let is_ssh = matches!(launcher, Launcher::Ssh(_));
        let is_mpirun = matches!(launcher, Launcher::Mpirun(_));
        let given = [
            ("--ssh", self.ssh.is_some() && !is_ssh),
            ("--mpirun", self.mpirun.is_some() && !is_mpirun),
            ("--hosts", self.hosts.is_some() && is_local),
            ("--hostfile", self.hostfile.is_some() && is_local),
            ("--job", self.job && is_local),
        ];
        let Some((option, _)) = given.iter().find(|(_, is_unused)| *is_unused) else {
            return Ok(());
        };
        let hint = match is_local {
            true => ": all engines run on this machine, and --nodes N sets their number",
            false => "",
        };
        Err(invalid(format!(
            "--launcher {} does not use {option}{hint}: leave out {option}",
            launcher.name()
        )))
    }

    /// Hosts from the options, from a file, or from the variables of a batch job.
    fn chosen_hosts(&self) -> Result<Vec<String>> {
        let is_local = self.launcher == Some(LauncherName::Local);
        let mut hosts = match (&self.hosts, &self.hostfile) {
            (Some(list), _) => parse_list(list)?,
            (None, Some(file)) => read_file(file)?,
            (None, None) if is_local => {
                vec!["localhost".to_owned(); self.nodes.unwrap_or(1) as usize]
            }
            (None, None) => hosts_of_job(|name| std::env::var(name).ok())?,
        };
        let wanted = self.nodes.map_or(hosts.len(), |nodes| nodes as usize);
        if hosts.is_empty() || hosts.len() < wanted {
            return Err(invalid(format!(
                "{} are named, and {} wanted",
                shapes::count(hosts.len(), "host"),
                wanted.max(1)
            )));
        }
        if wanted > NODES_MAX as usize {
            return Err(too_many_nodes_error(wanted));
        }
        hosts.truncate(wanted);
        let mut seen = HashSet::new();
        match hosts.iter().find(|host| !seen.insert(host.as_str())) {
            Some(twice) if !is_local => Err(invalid(format!(
                "node {twice} is named twice: only `--launcher local --nodes N` starts several engines on one machine"
            ))),
            _ => Ok(hosts),
        }
    }
}

#[cold]
fn too_many_nodes_error(wanted: usize) -> Error {
    invalid(format!(
        "a pool has at most {NODES_MAX} nodes (NODES_MAX), and {} are named: use the first {NODES_MAX} with \
         `--nodes {NODES_MAX}`, or create several pools",
        shapes::count(wanted, "node")
    ))
}

fn own_program() -> Result<PathBuf> {
    std::env::current_exe()
        .map_err(|error| Error::io("looking for the program of the engines", &error))
}

/// Words of the command of an option, else of the environment variable, else of the default.
fn command(given: Option<&str>, variable: &str, default: &str) -> Vec<String> {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    match given {
        Some(given) => words(given),
        None => words(&std::env::var(variable).unwrap_or_else(|_| default.to_owned())),
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

/// Fails if there is already a file at the path of the map.
fn refuse_taken(map: &Path) -> Result<()> {
    if map.symlink_metadata().is_err() {
        return Ok(());
    }
    let map = map.display();
    let message = format!(
        "the map {map} already exists: choose another label or --map, or remove its pool with `esker pool destroy nodes:{map}`"
    );
    Err(Error::new(ErrorKind::Exists, message))
}

/// Time until the Slurm job ends.
fn remaining_job_time() -> Option<Duration> {
    let end: u64 = std::env::var(SLURM_END).ok()?.parse().ok()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Duration::from_secs(end).saturating_sub(now))
}

/// Answer about a new pool, with the next steps.
fn created(map: &Map, path: &Path, size_bytes: u64) -> Answer {
    let nodes: Vec<_> = map.nodes.iter().enumerate().map(shapes::node).collect();
    let url = format!("nodes:{}", path.display());
    let response = json!({
        "uuid": map.uuid.to_string(),
        "label": map.label,
        "url": url,
        "size_bytes": size_bytes * map.nodes.len() as u64,
        "targets": map.targets as usize * map.nodes.len(),
        "transport": map.transport,
        "tls": map.tls,
        "nodes": nodes,
    });
    let mut text = format!(
        "created pool {} over {}, each with {} and {}\nmap: {}\n",
        map.label,
        shapes::count(map.nodes.len(), "node"),
        Bytes(size_bytes),
        shapes::count(map.targets, "target"),
        path.display(),
    );
    text += &next_steps(map, path);
    Answer::confirmation(response, text)
}

/// Tells how to use the new pool.
fn next_steps(map: &Map, path: &Path) -> String {
    let directory = map.nodes.first().and_then(|node| node.directory.parent());
    let is_known = directory
        .is_some_and(|directory| names::pool_directories().iter().any(|known| known == directory));
    match directory {
        Some(_) if is_known => format!("use it as {} on all of its nodes", map.label),
        Some(directory) => format!(
            "use it as {} on all of its nodes: export {}={}\nor as nodes:{} here",
            map.label,
            names::POOLS_VARIABLE,
            directory.display(),
            path.display()
        ),
        None => String::new(),
    }
}
