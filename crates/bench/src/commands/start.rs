//! `esker bench start`: how long a pool over many nodes takes to start, by a model.
use clap::Args;
use esker::names::new_pool_directory;
use esker::types::{Error, Result};
use esker_bench::processes::esker_program;
use esker_bench::report::{Settings, with_origin};
use esker_bench::start_model::{Outcome, Steps};
use esker_cli::nodes::{FANOUT, time_start};
use esker_cli::output::{Answer, Table};
use esker_cli::parse_duration;
use esker_cli::units::Bytes;
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

impl Start {
    pub(super) fn run(self) -> Result<Answer> {
        let steps = self.measure()?;
        let outcomes: Vec<(u32, Outcome)> =
            self.nodes.iter().map(|nodes| (*nodes, steps.start(*nodes as usize, FANOUT))).collect();
        let mut table = Table::new(&[">nodes", ">depth", ">all ready", ">pool created"]);
        for (nodes, Outcome { depth, ready, total }) in &outcomes {
            table.row([nodes.to_string(), depth.to_string(), seconds(*ready), seconds(*total)]);
        }
        let Steps { fork, connect, node, round_trip, publish } = steps;
        let origin = if self.ssh_host.is_some() { "measured" } else { "assumed" };
        let text = format!(
            "A model, from steps of one node on this machine:\n  process {} (measured), node {} (measured), \
             map {} (measured)\n  connection {} ({origin}), round trip {} (assumed)\n\n{}",
            seconds(fork),
            seconds(node),
            seconds(publish),
            seconds(connect),
            seconds(round_trip),
            table.text()
        );
        let starts = outcomes.iter().map(|(nodes, Outcome { depth, ready, total })| {
            json!({"nodes": nodes, "depth": depth, "ready_s": ready.as_secs_f64(), "total_s": total.as_secs_f64()})
        });
        let results = json!({
            "is_model": true,
            "fanout": FANOUT,
            "steps": {
                "fork_s": fork.as_secs_f64(),
                "connect_s": connect.as_secs_f64(),
                "connect_is_measured": self.ssh_host.is_some(),
                "node_s": node.as_secs_f64(),
                "round_trip_s": round_trip.as_secs_f64(),
                "publish_s": publish.as_secs_f64(),
            },
            "starts": starts.collect::<Vec<_>>(),
        });
        let folder = self.dir.clone().map_or_else(new_pool_directory, Ok)?;
        let settings = Settings::new(0, json!({"pool_bytes": self.size.0, "repeats": REPEATS}));
        Ok(Answer::new(with_origin(&folder, &settings, results)?, text))
    }

    /// Measures the steps that one machine has.
    fn measure(&self) -> Result<Steps> {
        let esker = esker_program()?;
        let fork = median(|| time_command(&esker, &[]))?;
        let connect = match &self.ssh_host {
            None => self.connect,
            Some(host) => {
                median(|| time_command(Path::new("ssh"), &["-o", "BatchMode=yes", host, "true"]))?
            }
        };
        let mut starts = Vec::new();
        for repeat in 0..REPEATS {
            let label = format!("bench-start-{}-{repeat}", std::process::id());
            starts.push(time_start(esker.clone(), self.dir.as_deref(), label, self.size.0)?);
        }
        let [node, publish] = [0, 1].map(|step| {
            let mut times: Vec<_> = starts.iter().map(|start| start[step]).collect();
            times.sort_unstable();
            times[times.len() / 2]
        });
        let node = node.saturating_sub(fork);
        Ok(Steps { fork, connect, node, round_trip: self.round_trip, publish })
    }
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

fn median(measure: impl Fn() -> Result<Duration>) -> Result<Duration> {
    let mut times = (0..REPEATS).map(|_| measure()).collect::<Result<Vec<_>>>()?;
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}
