//! `esker bench start`: how long a pool over many nodes takes to start, by a model.
use clap::Args;
use esker::names::new_pool_directory;
use esker::types::{Error, Result};
use esker_bench::processes::esker_program;
use esker_bench::report::{Settings, with_origin};
use esker_cli::nodes::{FANOUT, bounds, time_start};
use esker_cli::output::{Answer, Table};
use esker_cli::parse_duration;
use esker_cli::units::Bytes;
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Number of starts that are measured; the median is used.
const REPEATS: usize = 5;

/// Model how long a pool over many nodes takes to start
///
/// This is a model, not a measurement of many nodes. It measures on this machine how long a process takes to start, and
/// how long one node takes to create its pool and to start its engine. The connection to another node and a round trip
/// are assumed (--connect, --round-trip), or measured with --ssh-host. From these times it computes the tree of starters
/// that `esker pool create --launcher ssh` uses, in which each starts at most 8 others.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker bench start
  esker bench start --nodes 64,512 --connect 1s --size 1G --dir /dev/shm
  esker bench start --ssh-host n2")]
pub(crate) struct Start {
    /// Numbers of nodes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,8,64,512,1024")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    nodes: Vec<u32>,
    /// Time until ssh runs a command on another node
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "500ms")]
    connect: Duration,
    /// Measure this time instead, with this host
    #[arg(long, value_name = "HOST", conflicts_with = "connect")]
    ssh_host: Option<String>,
    /// Time of a message to another node and its reply
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1ms")]
    round_trip: Duration,
    /// Size of the pool of a node
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    size: Bytes,
    /// Directory for the pool of a node [default: the first in ESKER_POOLS, or the user's data directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// How long the steps of a start take, in seconds.
#[derive(Clone, Copy, Serialize)]
struct Steps {
    /// Creation of a process of this program. A starter creates one after the other.
    fork_s: f64,
    /// From there until the starter on another node runs: connection, authentication, shell.
    connect_s: f64,
    connect_is_measured: bool,
    /// From there until the node is ready: its pool is created and its engine started.
    node_s: f64,
    /// A message to another node and its reply.
    round_trip_s: f64,
    /// From the time when all nodes are ready until one node has the map and is kept, without messages.
    publish_s: f64,
}

/// A modelled start.
#[derive(Debug, PartialEq, Serialize)]
struct Modelled {
    nodes: u32,
    /// Depth of the tree of starters.
    depth: u32,
    /// Time until `esker pool create` knows that all nodes are ready.
    ready_s: f64,
    /// Time until the command returns.
    total_s: f64,
}

impl Start {
    pub(super) fn run(self) -> Result<Answer> {
        let steps = self.measure()?;
        let starts: Vec<_> = self.nodes.iter().map(|nodes| steps.start(*nodes, FANOUT)).collect();
        let folder = self.dir.clone().map_or_else(new_pool_directory, Ok)?;
        let settings = Settings::new(0, json!({"pool_bytes": self.size.0, "repeats": REPEATS}));
        let results = json!({"is_model": true, "fanout": FANOUT, "steps": steps, "starts": starts});
        Ok(Answer::new(with_origin(&folder, &settings, results)?, text(&steps, &starts)))
    }

    /// Measures the times of the model that one machine has: forking a process, connecting by ssh if a host is given,
    /// creating and starting a node, and publishing the map.
    fn measure(&self) -> Result<Steps> {
        let esker = esker_program()?;
        let fork_s = median_s(|_| time_command(&esker, &[]))?;
        let connect_s = match &self.ssh_host {
            None => self.connect.as_secs_f64(),
            Some(host) => median_s(|_| {
                time_command(Path::new("ssh"), &["-o", "BatchMode=yes", host, "true"])
            })?,
        };
        let mut publishing = Vec::new();
        let node_s = median_s(|repeat| {
            let label = format!("bench-start-{}-{repeat}", std::process::id());
            let [node, publish] =
                time_start(esker.clone(), self.dir.as_deref(), label, self.size.0)?;
            publishing.push(publish);
            Ok(node)
        })?;
        Ok(Steps {
            fork_s,
            connect_s,
            connect_is_measured: self.ssh_host.is_some(),
            // The measured start of a node includes the creation of a process, which the model counts separately.
            node_s: (node_s - fork_s).max(0.0),
            round_trip_s: self.round_trip.as_secs_f64(),
            publish_s: median_s(|repeat| Ok(publishing[repeat]))?,
        })
    }
}

impl Steps {
    /// Models the start of `nodes` nodes, where each starter starts at most `fanout` others.
    fn start(&self, nodes: u32, fanout: usize) -> Modelled {
        let (depth, ready_s) = self.below(nodes as usize, fanout);
        // All nodes receive the map and acknowledge it; then they are told to stay, and acknowledge that.
        let rounds = f64::from(2 * depth);
        Modelled {
            nodes,
            depth,
            ready_s,
            total_s: ready_s + self.publish_s + self.round_trip_s * rounds,
        }
    }

    /// Depth of the tree of starts below a node, and the seconds from the node's start until it knows that all `nodes`
    /// nodes below it are ready.
    fn below(&self, nodes: usize, fanout: usize) -> (u32, f64) {
        let mut deepest = (0, 0.0_f64);
        for (turn, range) in (1..).zip(bounds(nodes, fanout)).filter(|(_, range)| !range.is_empty())
        {
            let (depth, others_s) = self.below(range.len() - 1, fanout);
            // A starter forks its children one after the other. Half a round trip brings the message that all are
            // ready.
            let begun_s = self.fork_s * f64::from(turn) + self.connect_s;
            let ready_s = begun_s + self.node_s.max(others_s) + self.round_trip_s / 2.0;
            deepest = (deepest.0.max(depth + 1), deepest.1.max(ready_s));
        }
        deepest
    }
}

/// The modelled times as a table, with the steps that they were computed from.
fn text(steps: &Steps, starts: &[Modelled]) -> String {
    let mut table = Table::new(&[">nodes", ">depth", ">all ready", ">pool created"]);
    for Modelled { nodes, depth, ready_s, total_s } in starts {
        let times = [ready_s, total_s].map(|time| format!("{time:.3} s"));
        table.row([nodes.to_string(), depth.to_string()].into_iter().chain(times));
    }
    let Steps { fork_s, connect_s, node_s, round_trip_s, publish_s, .. } = steps;
    let origin = if steps.connect_is_measured { "measured" } else { "assumed" };
    format!(
        "A model, from steps of one node on this machine:
  process {fork_s:.3} s (measured), node {node_s:.3} s (measured), map {publish_s:.3} s (measured)
  connection {connect_s:.3} s ({origin}), round trip {round_trip_s:.3} s (assumed)

{}",
        table.text()
    )
}

/// How long a command takes.
fn time_command(program: &Path, words: &[&str]) -> Result<Duration> {
    let failed = |error| Error::io("running a command to measure it", &error);
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
    let begin = Instant::now();
    let status = command.status().map_err(failed)?;
    if !status.success() {
        let message = format!("{} {}: {status}", program.display(), words.join(" "));
        return Err(Error::new(esker::types::ErrorKind::Io, message));
    }
    Ok(begin.elapsed())
}

/// Median of repeated measurements, in seconds.
fn median_s(measure: impl FnMut(usize) -> Result<Duration>) -> Result<f64> {
    let mut times = (0..REPEATS).map(measure).collect::<Result<Vec<_>>>()?;
    times.sort_unstable();
    Ok(times[times.len() / 2].as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deepest_branch_determines_the_start_time() {
        let steps = Steps {
            fork_s: 1.0,
            connect_s: 100.0,
            connect_is_measured: false,
            node_s: 30.0,
            round_trip_s: 2.0,
            publish_s: 5.0,
        };
        let one = steps.start(1, 8);
        assert_eq!(one, Modelled { nodes: 1, depth: 1, ready_s: 132.0, total_s: 141.0 });
        assert_eq!(steps.start(8, 8).ready_s, 132.0 + 7.0);
        // The last branch, begun after 8 s, has two nodes, one below the other.
        let nine = steps.start(9, 8);
        assert_eq!((nine.depth, nine.ready_s), (2, 8.0 + 100.0 + 132.0 + 1.0));
        assert_eq!(steps.start(512, 8).depth, 3);
        assert!(steps.start(512, 512).ready_s > steps.start(512, 8).ready_s);
    }
}
