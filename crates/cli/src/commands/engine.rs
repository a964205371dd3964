//! `esker engine`: the process that serves the pool of a node, as a shard of a pool over nodes.
use crate::args::parse_duration;
use crate::engine::{Address, Ready, Service, create_node_pool, interface_address, log_to};
use crate::nodes::start_nodes;
use crate::output::Answer;
use crate::units::Bytes;
use clap::{Args, Subcommand};
use esker::types::{Error, ErrorKind, Result};
use esker_nodes::{Map, Node};
use esker_store::Superblock;
use esker_wire::handshake::Secret;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Serve the pool of a node, as a shard of a pool over nodes
#[derive(Subcommand)]
pub(crate) enum EngineCommand {
    Run(Box<Run>),
    #[command(hide = true)]
    Start(Start),
}

const ABOUT: &str = "\
Serve the pool of a node, as a shard of a pool over nodes

`esker pool create --hosts` starts an engine on each node. This command starts one by hand, in the foreground: for \
example after it was killed. No acknowledged update is lost then, and clients connect again.

If the pool of a node is gone, for example with its memory, --new-node-pool creates a new one. The new pool is empty: `esker \
pool check` lists what was lost.

When clients can connect, the engine prints one line of JSON with its address, and logs to standard error. It ends on \
SIGTERM and SIGINT, when the node's pool is destroyed, and when --lifetime is over. Before it ends, it completes the requests \
that it has received. The node's pool stays, unless --remove-at-end is given.";

/// Serve the pool of a node, as a shard of a pool over nodes
#[derive(Args)]
#[command(long_about = ABOUT, after_long_help = "Examples:
  esker engine run --map /dev/shm/esker/scratch.map
  esker engine run --map scratch.map --node n2 --log engine.log
  esker engine run --map scratch.map --node n2 --new-node-pool
  esker engine run --node-pool /dev/shm/esker/scratch.2 --secret-from-stdin --listen n2:0")]
pub(crate) struct Run {
    /// Map of the pool: where the engine listens and what its secret is
    #[arg(long, value_name = "FILE", required_unless_present = "secret_from_stdin")]
    map: Option<PathBuf>,
    /// Node of the map to serve, by name or number [default: the one whose pool is on this machine]
    #[arg(long, value_name = "NODE", requires = "map", conflicts_with = "node_pool")]
    node: Option<String>,
    /// Create a new, empty pool for the node, whose pool is gone
    #[arg(long, alias = "new-part", requires = "map", requires = "node")]
    new_node_pool: bool,
    /// Size of the node's new pool, as for `pool create` [default: the space that another node reports,
    /// which is a little less]
    #[arg(long, value_name = "SIZE", requires = "new_node_pool")]
    size: Option<Bytes>,
    /// Directory of the node's pool
    #[arg(long, alias = "part", value_name = "DIR", requires = "secret_from_stdin")]
    node_pool: Option<PathBuf>,
    /// Read the secret of the pool from standard input: 64 hexadecimal digits
    #[arg(long, requires = "node_pool", requires = "listen", conflicts_with = "map")]
    secret_from_stdin: bool,
    /// Address to listen on; port 0: any free port. A host name: all addresses of this node
    /// [default: the address in the map]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<Address>,
    /// Listen on the address of this network interface only. With --secret-from-stdin, --listen gives the port
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
    /// Serve only clients that speak TLS [default: as the map says]
    #[arg(long, conflicts_with = "map")]
    tls: bool,
    /// Host that others connect to [default: that of --listen]
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Serve /metrics, for Prometheus, and /health over HTTP; PORT alone: on this machine only
    #[arg(long, value_name = "[HOST:]PORT", value_parser = parse_metrics)]
    metrics: Option<Address>,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    lifetime: Option<Duration>,
    /// Remove the node's pool when a signal or --lifetime ends the engine
    #[arg(long)]
    remove_at_end: bool,
    /// Number of threads that serve clients [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Leave the session and the working directory of the process that starts the engine
    #[arg(long, hide = true)]
    detach: bool,
    /// Append the log to this file [default: standard error]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Start engines on this node and others, as the messages on standard input say
///
/// `esker pool create` starts this command on the nodes.
#[derive(Args)]
pub(crate) struct Start {}

impl Start {
    fn run(self) -> Result<Answer> {
        start_nodes().map(|()| Answer::new(serde_json::Value::Null, ""))
    }
}

impl EngineCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        match self {
            Self::Run(run) => run.run(),
            Self::Start(start) => start.run(),
        }
    }
}

impl Run {
    fn run(self) -> Result<Answer> {
        log_to(self.log.as_deref())?;
        if self.detach {
            detach()?;
        }
        let served = self.service().and_then(|service| service.run(print_ready));
        // Without a file of the log, the command prints the error where the log would.
        if let (Err(error), Some(_)) = (&served, &self.log) {
            tracing::error!(%error, "failed");
        }
        served.map(|()| Answer::new(serde_json::Value::Null, ""))
    }

    /// The service that the options describe: for a node of a pool map, or for a pool of this machine.
    fn service(&self) -> Result<Service> {
        let (directory, secret, tls, address) = match &self.map {
            Some(path) => {
                let map = Map::read(path)?;
                let node = select_node(&map, self.node.as_deref())?;
                match self.new_node_pool {
                    true => create_node_pool(&map, node, self.size)?,
                    false => check_node_pool(node)?,
                }
                let address = node.address.parse().map_err(invalid)?;
                (node.directory.clone(), map.secret.clone(), map.tls, Some(address))
            }
            // Without a map, the command line must name the pool of the node.
            None => {
                (self.node_pool.clone().unwrap_or_default(), secret_from_stdin()?, self.tls, None)
            }
        };
        let listen = self.listen.clone().or_else(|| address.clone());
        let mut listen =
            listen.ok_or_else(|| invalid("give the address to listen on with --listen".into()))?;
        if let Some(interface) = &self.interface {
            if self.map.is_some() && self.listen.is_some() {
                return Err(invalid(
                    "--listen and --interface both choose the address: leave out one".into(),
                ));
            }
            listen.host = interface_address(interface)?.to_string();
        }
        let advertise = self.advertise.clone().or(address.map(|address| address.host));
        let threads = self.threads.map(usize::from);
        let (metrics, lifetime) = (self.metrics.clone(), self.lifetime);
        let remove_at_end = self.remove_at_end;
        Ok(Service {
            directory,
            secret,
            tls,
            listen,
            advertise,
            metrics,
            lifetime,
            remove_at_end,
            threads,
        })
    }
}

/// Parses the value of `--metrics`: a port of the loopback interface, or an address.
pub(super) fn parse_metrics(text: &str) -> std::result::Result<Address, String> {
    match text.parse() {
        Ok(port) => Ok(Address::on_loopback(port)),
        Err(_) => text.parse(),
    }
}

/// Detaches the engine from the caller's terminal and working directory.
fn detach() -> Result<()> {
    let failed = |error: std::io::Error| Error::io("leaving the session of the caller", &error);
    rustix::process::setsid().map_err(|error| failed(error.into()))?;
    std::env::set_current_dir("/").map_err(failed)
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

/// The node of a map that this engine serves, by name or number.
fn select_node<'m>(map: &'m Map, name: Option<&str>) -> Result<&'m Node> {
    let Some(name) = name else {
        return only(map.nodes.iter().filter(|node| is_here(node)), &map.label);
    };
    if let Some(node) = name.parse().ok().and_then(|number: usize| map.nodes.get(number)) {
        return Ok(node);
    }
    only(map.nodes.iter().filter(|node| node.name == name), &map.label)
}

/// Returns the only node in `nodes`, which are the nodes of pool `label` that this machine may serve. An error if there
/// are none or several.
fn only<'m>(mut nodes: impl Iterator<Item = &'m Node>, label: &str) -> Result<&'m Node> {
    match (nodes.next(), nodes.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => {
            let message = format!(
                "no such node of pool {label} has its pool on this machine: `esker pool query {label}` lists its nodes"
            );
            Err(Error::new(ErrorKind::NotFound, message))
        }
        _ => Err(invalid(format!(
            "several nodes of pool {label} could be meant: give the number of one with --node"
        ))),
    }
}

/// Fails if the pool of `node` is not where the map says, with what to do: an engine does not make a pool unasked.
fn check_node_pool(node: &Node) -> Result<()> {
    if node.directory.symlink_metadata().is_ok() {
        return Ok(());
    }
    let message = format!(
        "the pool of node {} is not at {} on this machine: start its engine on its own machine; if the pool is gone, \
         --new-node-pool creates a new, empty one",
        node.name,
        node.directory.display()
    );
    Err(Error::new(ErrorKind::NotFound, message))
}

/// True if the directory of the node's pool is on this machine.
fn is_here(node: &Node) -> bool {
    Superblock::read(&node.directory).is_ok_and(|found| found.uuid == node.uuid)
}

/// Reads the secret of the pool from standard input, where other users cannot see it.
fn secret_from_stdin() -> Result<Secret> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    read.map_err(|error| Error::io("reading the secret from standard input", &error))?;
    esker_nodes::parse_secret(line.trim()).ok_or_else(|| {
        invalid("standard input is not a secret, which has 64 hexadecimal digits".to_owned())
    })
}

/// Tells the process that started the engine that it is ready. The engine also serves if that process has gone.
fn print_ready(ready: &Ready) -> Result<()> {
    let line = serde_json::to_string(ready).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    Ok(())
}
