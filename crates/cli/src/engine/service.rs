//! Serves a node's pool until the process is told to end.
use super::descriptors::raise_file_limit;
use super::upkeep::Upkeep;
use super::{Address, Signals, claim, log_beside, map_beside, web};
use crate::nodes::launcher_log;
use esker::Native;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result, Uuid};
use esker_engine::{Engine, Host, Threads};
use esker_nodes::RECONNECT_TIMEOUT;
use esker_os::{start_thread, start_with_threads};
use esker_store::{CheckReport, Pool, Superblock};
use esker_wire::handshake::Secret;
use esker_wire::message::{Check, Maintained, Maintenance};
use serde::{Deserialize, Serialize};
use std::net::TcpListener as StdListener;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

/// How often an engine checks that the directory of its pool still exists.
const EXISTENCE_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Reason for which an engine ends when a client has requested a repair.
const REPAIR: &str = "its pool is to be repaired";

/// Configuration of an engine: the node's pool, its addresses and its limits.
pub(crate) struct Service {
    pub(crate) directory: PathBuf,
    pub(crate) secret: Secret,
    /// Serve only clients that speak TLS.
    pub(crate) tls: bool,
    pub(crate) listen: Address,
    /// Host that clients connect to, if it differs from the host of `listen`.
    pub(crate) advertise: Option<String>,
    /// Address of the HTTP server for metrics and health.
    pub(crate) metrics: Option<Address>,
    pub(crate) lifetime: Option<Duration>,
    /// Remove the node's pool when a signal or the end of the lifetime ends the engine.
    pub(crate) remove_at_end: bool,
    pub(crate) threads: Option<usize>,
}

/// Line that an engine prints once clients can connect.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// Address that clients connect to.
    pub(crate) address: String,
    pub(crate) uuid: Uuid,
    #[serde(rename = "part")]
    pub(crate) directory: PathBuf,
    pub(crate) pid: u32,
    /// Address of its metrics.
    #[serde(default)]
    pub(crate) metrics: Option<String>,
}

/// State of an engine's process that requests of clients act on: its end, checks and maintenance.
struct Process {
    directory: PathBuf,
    superblock: Superblock,
    /// The pool lasts as long as a job. The directory of pools is removed with it if nothing else is in it.
    is_temporary: bool,
    end: Notify,
    checking: Mutex<Option<JoinHandle<Result<CheckReport>>>>,
    upkeep: Upkeep,
    /// True while a client's request removes the pool: the engine must still answer it.
    removing: AtomicBool,
}

impl Host for Process {
    /// Ends the engine, and first removes the pool if `remove`.
    fn shut_down(&self, remove: bool) -> Result<()> {
        if remove {
            // Otherwise the engine could end because its pool is gone, before the client has the answer.
            self.removing.store(true, Ordering::Relaxed);
            let removed = self.remove();
            self.removing.store(removed.is_ok(), Ordering::Relaxed);
            removed?;
        }
        self.end.notify_one();
        Ok(())
    }

    /// The first call starts a check on a thread. Later calls return `None` until it has ended, then its result, once.
    fn check(&self) -> Result<Option<Check>> {
        let mut checking = self.checking.lock().unwrap_or_else(PoisonError::into_inner);
        match &*checking {
            None => {
                let directory = self.directory.clone();
                let check = move || Pool::check(&directory, false, &mut |_, _| ());
                *checking = Some(start_thread(check)?);
                return Ok(None);
            }
            Some(running) if !running.is_finished() => return Ok(None),
            Some(_) => {}
        }
        let Some(report) = checking.take().map(JoinHandle::join) else { return Ok(None) };
        let defect =
            |_| Error::new(ErrorKind::Corrupt, "the check failed: a defect of the program");
        report.map_err(defect)?.map(|report| Some(found(report)))
    }

    fn maintain(&self, what: Maintenance, number: u64) -> Result<Option<Maintained>> {
        self.upkeep.start_or_poll(&self.directory, what, number)
    }
}

/// The result of a check in the form in which engines send it.
pub(super) fn found(report: CheckReport) -> Check {
    let CheckReport { problems, records, live_bytes, lost_bytes, lost, .. } = report;
    Check { problems, records, live_bytes, lost_bytes, lost }
}

impl Process {
    /// Removes the pool, the map beside it and its log.
    fn remove(&self) -> Result<()> {
        let map = map_beside(&self.directory, &self.superblock).map(|(path, _)| path);
        let launcher = map.as_deref().map(launcher_log);
        Pool::destroy(&self.directory, true)?;
        let log = log_beside(&self.directory);
        for path in map.into_iter().chain(launcher).chain([log]) {
            // If several nodes share one directory, another engine may have removed the map. Only the node of the
            // launcher has its log.
            let _ = std::fs::remove_file(path);
        }
        if let Some(directory) = self.directory.parent().filter(|_| self.is_temporary) {
            let _ = std::fs::remove_dir(directory);
        }
        Ok(())
    }

    /// False once the node's pool was destroyed, or another pool is in its directory.
    fn has_pool(&self) -> bool {
        is_pool_at(&self.directory, self.superblock.uuid)
    }

    /// Returns when the engine is to end, and why.
    async fn end_wanted(&self) -> &'static str {
        tokio::select! {
            () = self.end.notified() => "a client asked for it",
            () = self.pool_gone() => "its pool is gone",
            () = self.upkeep.repair_wanted() => REPAIR,
        }
    }

    /// Returns when another process has removed the node's pool.
    async fn pool_gone(&self) {
        // If this process removes the pool for a client, it continues until the client has the answer.
        while self.has_pool() || self.removing.load(Ordering::Relaxed) {
            tokio::time::sleep(EXISTENCE_CHECK_INTERVAL).await;
        }
    }
}

impl Service {
    /// Serves until the process is told to end. Calls `ready` once clients can connect.
    ///
    /// # Errors
    /// `Busy` if another engine serves the pool; those of opening it and of listening.
    pub(crate) fn run(self, ready: impl FnOnce(&Ready) -> Result<()>) -> Result<()> {
        let directory = esker_os::resolve_links(&self.directory)?;
        let superblock = Superblock::read(&directory)?;
        let _claim = claim(&directory)?;
        let (end, checking, upkeep) = (Notify::new(), Mutex::default(), Upkeep::default());
        let removing = AtomicBool::new(false);
        let is_temporary = self.remove_at_end;
        let process =
            Process { directory, superblock, is_temporary, end, checking, upkeep, removing };
        let process = Arc::new(process);
        let threads = Arc::new(self.start_threads()?);
        Self::runtime()?.block_on(self.serve(&process, threads, ready))
    }

    /// Opens the node's pool and creates an engine that serves it.
    fn open_engine(&self, process: &Arc<Process>) -> Result<(Arc<Native>, Engine)> {
        let pool = Arc::new(Native::open(&process.directory, OpenMode::ReadWrite)?);
        pool.pool().opened()?.begin_engine(RECONNECT_TIMEOUT);
        let served = Arc::clone(&pool) as Arc<dyn esker::backend::Pool>;
        let engine = Engine::new(served, process.superblock.uuid, self.secret.clone());
        engine.set_host(Arc::clone(process) as Arc<dyn Host>);
        let clients_max = raise_file_limit()?;
        engine.limit_clients(clients_max);
        tracing::info!(clients_max, "the number of clients is limited");
        if self.tls {
            engine.require_tls()?;
        }
        Ok((pool, engine))
    }

    /// Starts the threads that serve clients.
    fn start_threads(&self) -> Result<Threads> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Threads::start(self.threads.unwrap_or_else(cores))
    }

    /// The runtime that accepts connections, serves metrics and waits for signals.
    fn runtime() -> Result<Runtime> {
        start_with_threads(|| Builder::new_multi_thread().worker_threads(1).enable_all().build())
    }

    /// Serves the node's pool, with a new engine after each repair.
    async fn serve(
        &self,
        process: &Arc<Process>,
        threads: Arc<Threads>,
        ready: impl FnOnce(&Ready) -> Result<()>,
    ) -> Result<()> {
        let mut signals = Signals::new()?;
        let listener = into_std_listener(self.listen.listen().await?)?;
        let mut line = self.ready_line(&duplicate(&listener)?, process)?;
        let metrics = self.metrics_listener().await?;
        line.metrics =
            metrics.as_ref().map(|(address, at)| bound_address(address, at)).transpose()?;
        let mut ready = Some(ready);
        let mut expired = pin!(expired(self.lifetime));
        loop {
            let (pool, engine) = self.open_engine(process)?;
            engine.serve_on(Arc::clone(&threads));
            let web = metrics.as_ref().map(|(_, at)| duplicate(at)).transpose()?;
            let web = web.map(|at| tokio::spawn(web::serve(at, engine.clone())));
            if let Some(ready) = ready.take() {
                tracing::info!(part = %line.directory.display(), address = line.address, tls = self.tls, metrics = line.metrics, "ready");
                ready(&line)?;
            }
            let (why, is_over) = tokio::select! {
                () = engine.listen(duplicate(&listener)?) => ("no more clients", false),
                why = signals.first() => (why, true),
                why = process.end_wanted() => (why, false),
                () = &mut expired => ("its lifetime is over", true),
            };
            tracing::info!(why, "ending");
            // Clients that had to be disconnected are in the log.
            let drained = engine.drain().await;
            // Otherwise the next engine lets clients take their lost leases again.
            if drained.is_ok() && !engine.has_lost_leases() {
                pool.pool().opened()?.end_engine();
            }
            end(web).await;
            if is_over && self.remove_at_end {
                return process.remove();
            }
            if why != REPAIR {
                return Ok(());
            }
            drop(engine);
            process.upkeep.repair(&process.directory, pool).await;
            tracing::info!("serving again");
        }
    }

    /// Listener for metrics, if they are served.
    async fn metrics_listener(&self) -> Result<Option<(&Address, StdListener)>> {
        let Some(address) = &self.metrics else { return Ok(None) };
        Ok(Some((address, into_std_listener(address.listen().await?)?)))
    }

    /// The line by which an engine reports that it is ready.
    fn ready_line(&self, listener: &TcpListener, process: &Process) -> Result<Ready> {
        let mut address = self.listen.bound(listener)?;
        if let Some(host) = &self.advertise {
            address.host.clone_from(host);
        }
        let address = address.to_string();
        let (uuid, directory) = (process.superblock.uuid, process.directory.clone());
        Ok(Ready { address, uuid, directory, pid: std::process::id(), metrics: None })
    }
}

/// False if there is no pool in a directory, or another one. A superblock that cannot be read, for example because too
/// many files are open, proves neither.
fn is_pool_at(directory: &Path, uuid: Uuid) -> bool {
    match Superblock::read(directory) {
        Ok(found) => found.uuid == uuid,
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// Ends a task, and waits until it has ended.
async fn end(task: Option<tokio::task::JoinHandle<()>>) {
    if let Some(task) = task {
        task.abort();
        let _ = task.await;
    }
}

/// Converts a listener so that it outlives an engine. Clients that connect during a repair wait.
fn into_std_listener(listener: TcpListener) -> Result<StdListener> {
    listener.into_std().map_err(|error| Error::io("listening", &error))
}

/// Duplicates the listener for one engine.
fn duplicate(listener: &StdListener) -> Result<TcpListener> {
    let again = listener.try_clone().and_then(TcpListener::from_std);
    again.map_err(|error| Error::io("listening", &error))
}

/// Address of the metrics, with the port that is bound.
fn bound_address(address: &Address, listener: &StdListener) -> Result<String> {
    Ok(address.bound(&duplicate(listener)?)?.to_string())
}

/// Waits for the end of the engine's lifetime; without one, for ever.
async fn expired(lifetime: Option<Duration>) {
    match lifetime {
        Some(lifetime) => tokio::time::sleep(lifetime).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_store::PoolSpec;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn pool_whose_superblock_cannot_be_read_is_not_gone() {
        let parent = std::env::temp_dir().join(format!("esker-service-{}", std::process::id()));
        std::fs::create_dir_all(&parent).unwrap();
        let spec = PoolSpec { targets: Some(1), ..PoolSpec::new("p", 64 << 20) };
        Pool::create(&parent, &spec, &mut |_, _| ()).map(drop).unwrap();
        let directory = parent.join("p");
        let uuid = Superblock::read(&directory).unwrap().uuid;
        assert!(is_pool_at(&directory, uuid) && !is_pool_at(&directory, Uuid([7; 16])));
        // Others may write it, so it is refused.
        set_permissions(directory.join("pool"), Permissions::from_mode(0o666)).unwrap();
        assert!(Superblock::read(&directory).is_err());
        assert!(is_pool_at(&directory, uuid));
        std::fs::remove_dir_all(&parent).unwrap();
        assert!(!is_pool_at(&directory, uuid));
    }
}
