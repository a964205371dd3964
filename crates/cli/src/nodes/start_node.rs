//! Start of one node: its pool is created, and the engine that serves the pool is started.
use super::order::{Order, Place, refuse_missing_parent};
use crate::engine::{Address, Ready, Signals, log_beside};
use esker::types::{Error, ErrorKind, Result};
use esker_nodes::Map;
use esker_os::start_thread;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use tokio::runtime::Builder;

/// A started node: its pool, its engine and their files.
pub(crate) struct StartedNode {
    pub(crate) ready: Ready,
    engine: Child,
    log: PathBuf,
    map: Option<PathBuf>,
}

impl StartedNode {
    /// Creates the node's pool and starts its engine. If that fails, everything is removed.
    pub(crate) fn start(order: &Order, place: &Place, detach: bool) -> Result<Self> {
        let (spec, number) = (&order.pool, place.number);
        let directory = spec.pool_directory(number);
        let log = log_beside(&directory);
        refuse_missing_parent(&spec.directory, spec.parents)?;
        refuse_existing(&directory)?;
        esker_store::Pool::create(&spec.directory, &spec.pool_spec(number), &mut |_, _| ())?;
        let started = start_engine(order, place, &log, detach);
        let (engine, ready) = started.inspect_err(|_| remove(&directory, &log))?;
        Ok(Self { ready, engine, log, map: None })
    }

    /// Writes the map next to the node's pool.
    pub(crate) fn publish(&mut self, map: &Map, directory: &Path) -> Result<()> {
        let path = Map::path(directory, &map.label);
        map.write(&path)?;
        self.map = Some(path);
        Ok(())
    }

    /// Waits until the engine has ended, and passes SIGTERM on to it: Slurm may signal only the process that it has
    /// started, and kills the engine when that process has ended.
    pub(crate) fn wait(mut self, signals: Option<ForwardedSignals>) {
        if let Some(signals) = signals {
            signals.forward_to(&self.engine);
        }
        let _ = self.engine.wait();
    }

    /// Ends the engine, and removes the pool, the log and the map of this node, since another node failed.
    pub(crate) fn abandon(mut self) -> Result<()> {
        // No client has used the pool yet, so the engine can be killed.
        let _ = self.engine.kill();
        let _ = self.engine.wait();
        if let Some(map) = &self.map {
            let _ = std::fs::remove_file(map);
        }
        let _ = std::fs::remove_file(&self.log);
        esker_store::Pool::destroy(&self.ready.directory, true)
    }
}

/// SIGTERM and SIGINT to a starter, also those that arrive before its engine has started.
pub(crate) struct ForwardedSignals(Sender<Pid>);

impl ForwardedSignals {
    /// Starts to catch signals, so that none of them ends this process before the engine has started.
    pub(crate) fn new() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::io("preparing for signals", &error))?;
        let mut signals = runtime.block_on(async { Signals::new() })?;
        let (engine, engines) = channel();
        start_thread(move || {
            let Ok(engine) = engines.recv() else { return };
            loop {
                runtime.block_on(signals.first());
                let _ = kill_process(engine, Signal::TERM);
            }
        })?;
        Ok(Self(engine))
    }

    /// Passes caught signals on to the engine, as SIGTERM. The kernel cannot reuse the process ID of the engine before
    /// this process has waited for it, and this process ends right after that.
    fn forward_to(self, engine: &Child) {
        // The thread that `new` has started waits for the process ID.
        let _ = self.0.send(Pid::from_child(engine));
    }
}

/// Fails if there is already something at the path of the new pool.
fn refuse_existing(directory: &Path) -> Result<()> {
    if directory.symlink_metadata().is_err() {
        return Ok(());
    }
    let directory = directory.display();
    let message = format!(
        "{directory} already exists: choose another label, or remove it with `esker pool destroy esker:{directory} --force`"
    );
    Err(Error::new(ErrorKind::Exists, message))
}

/// Removes the pool and log of a failed start. The next attempt reports files that could not be removed.
fn remove(directory: &Path, log: &Path) {
    let _ = esker_store::Pool::destroy(directory, true);
    let _ = std::fs::remove_file(log);
}

/// Starts the engine of a node's pool, and waits until it is ready.
fn start_engine(order: &Order, place: &Place, log: &Path, detach: bool) -> Result<(Child, Ready)> {
    let failed = |error| Error::io("starting the engine", &error);
    let mut options = File::options();
    let errors = options.append(true).create(true).mode(0o600).open(log).map_err(failed)?;
    let mut command = engine_command(order, place, log, detach)?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
    let mut engine = command.spawn().map_err(failed)?;
    if let Some(mut input) = engine.stdin.take() {
        // An engine that has already ended has logged why.
        let _ = writeln!(input, "{}", order.secret);
    }
    let mut line = String::new();
    if let Some(out) = engine.stdout.take() {
        BufReader::new(out).read_line(&mut line).map_err(failed)?;
    }
    match serde_json::from_str(&line) {
        Ok(ready) => Ok((engine, ready)),
        Err(_) => {
            let _ = engine.kill();
            let _ = engine.wait();
            Err(Error::new(ErrorKind::Io, last_error(log)))
        }
    }
}

/// Command that runs the engine of a node.
fn engine_command(order: &Order, place: &Place, log: &Path, detach: bool) -> Result<Command> {
    let program = std::env::current_exe()
        .map_err(|error| Error::io("looking for the program of the engine", &error))?;
    let mut command = Command::new(program);
    command.args(["engine", "run", "--secret-from-stdin", "--node-pool"]);
    command.arg(order.pool.pool_directory(place.number)).arg("--log").arg(log);
    let (address, spec) = (Address::any_port(&place.host), &order.engine);
    command.args(["--listen", &address.to_string()]);
    if let Some(interface) = &spec.interface {
        command.args(["--interface", interface]);
    }
    if let Some(seconds) = spec.lifetime_seconds {
        command.args(["--lifetime", &seconds.to_string()]);
    }
    if let Some(threads) = spec.threads {
        command.args(["--threads", &threads.to_string()]);
    }
    if let Some(metrics) = &spec.metrics {
        command.args(["--metrics", metrics]);
    }
    if spec.tls {
        command.arg("--tls");
    }
    if spec.remove_at_end {
        command.arg("--remove-at-end");
    }
    if detach {
        command.arg("--detach");
    }
    Ok(command)
}

/// Error message for an engine that failed, from its log.
fn last_error(log: &Path) -> String {
    reason_of(&std::fs::read_to_string(log).unwrap_or_default())
}

/// The last error in a log; without one, its last line. Errors in options begin with `error: `.
fn reason_of(log: &str) -> String {
    let said = |line: &str| {
        line.strip_prefix("esker: ").or_else(|| line.strip_prefix("error: ")).map(str::to_owned)
    };
    let ended = "the engine ended before it was ready";
    log.lines().rev().find_map(said).unwrap_or_else(|| {
        match log.lines().rev().find(|line| !line.trim().is_empty()) {
            Some(last) => format!("{ended}, and the last line of its log is: {last}"),
            None => {
                format!("{ended}, and its log is empty: it was killed, or its program cannot run")
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_in_the_log() {
        for (log, reason) in [
            ("INFO begins\nesker: no space\n", "no space"),
            (
                "error: the argument '--a' cannot be used\n\nUsage: esker\n",
                "the argument '--a' cannot be used",
            ),
            (
                "INFO begins\n\n",
                "the engine ended before it was ready, and the last line of its log is: INFO begins",
            ),
        ] {
            assert_eq!(reason_of(log), reason);
        }
        assert!(reason_of("").contains("its log is empty"));
    }
}
