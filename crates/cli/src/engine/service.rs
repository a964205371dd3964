//! Serves a part until the process is told to end.
use super::descriptors::make_room;
use super::upkeep::Upkeep;
use super::{Address, Signals, claim, log_beside, map_beside, web};
use esker::Native;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result, Uuid};
use esker_engine::{Engine, Host, Threads};
use esker_store::{CheckReport, Pool, Superblock};
use esker_wire::handshake::Secret;
use esker_wire::message::{Check, Maintained, Maintenance};
use serde::{Deserialize, Serialize};
use std::net::TcpListener as StdListener;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

/// How often an engine looks whether its part is still there.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Why an engine ends whose part is to be repaired.
const REPAIR: &str = "its part is to be repaired";

/// What an engine serves, and where.
pub(crate) struct Service {
    pub(crate) part: PathBuf,
    pub(crate) secret: Secret,
    /// Serve only clients that speak TLS.
    pub(crate) tls: bool,
    pub(crate) listen: Address,
    /// The host by which others reach it, if that is not the one where it listens.
    pub(crate) advertise: Option<String>,
    /// Where metrics and health are served.
    pub(crate) metrics: Option<Address>,
    pub(crate) lifetime: Option<Duration>,
    pub(crate) threads: Option<usize>,
}

/// What an engine says once it serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// Where others reach it.
    pub(crate) address: String,
    pub(crate) uuid: Uuid,
    pub(crate) part: PathBuf,
    pub(crate) pid: u32,
    /// Where its metrics are.
    #[serde(default)]
    pub(crate) metrics: Option<String>,
}

/// The process of an engine, as its clients may control it.
struct Process {
    part: PathBuf,
    superblock: Superblock,
    end: Notify,
    checking: Mutex<Option<JoinHandle<Result<CheckReport>>>>,
    upkeep: Upkeep,
    /// A client has the part removed, and is still to hear of it.
    removing: AtomicBool,
}

impl Host for Process {
    fn shut_down(&self, remove: bool) -> Result<()> {
        if remove {
            self.removing.store(true, Ordering::Relaxed);
            let removed = self.remove();
            self.removing.store(removed.is_ok(), Ordering::Relaxed);
            removed?;
        }
        self.end.notify_one();
        Ok(())
    }

    fn check(&self) -> Result<Option<Check>> {
        let mut checking = self.checking.lock().unwrap_or_else(PoisonError::into_inner);
        let part = self.part.clone();
        let begin = || std::thread::spawn(move || Pool::check(&part, false, &mut |_, _| ()));
        if !checking.get_or_insert_with(begin).is_finished() {
            return Ok(None);
        }
        let Some(report) = checking.take().map(JoinHandle::join) else { return Ok(None) };
        let defect = |_| Error::new(ErrorKind::Corrupt, "the check met a defect of the program");
        report.map_err(defect)?.map(|report| Some(found(report)))
    }

    fn maintain(&self, what: Maintenance, number: u64) -> Result<Option<Maintained>> {
        self.upkeep.ask(&self.part, what, number)
    }
}

pub(super) fn found(report: CheckReport) -> Check {
    let CheckReport { problems, records, live_bytes, lost_bytes, lost, .. } = report;
    Check { problems, records, live_bytes, lost_bytes, lost }
}

impl Process {
    fn remove(&self) -> Result<()> {
        let map = map_beside(&self.part, &self.superblock);
        Pool::destroy(&self.part, true)?;
        let log = log_beside(&self.part);
        for path in map.iter().map(|(path, _)| path).chain([&log]) {
            // Of several nodes with one directory, another one may have removed the map.
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    }

    /// False once the part was destroyed, or its directory is that of another pool.
    fn has_part(&self) -> bool {
        Superblock::read(&self.part).is_ok_and(|found| found.uuid == self.superblock.uuid)
    }

    /// Returns when the engine is to end, and why.
    async fn end_wanted(&self) -> &'static str {
        tokio::select! {
            () = self.end.notified() => "a client asked for it",
            () = self.part_gone() => "the part is gone",
            () = self.upkeep.repair_wanted() => REPAIR,
        }
    }

    /// Returns when somebody else has removed the part.
    async fn part_gone(&self) {
        while self.has_part() || self.removing.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Service {
    /// Serves until the process is told to end. Calls `ready` once clients can connect.
    ///
    /// # Errors
    /// `Busy` if another engine serves the part; those of opening it and of listening.
    pub(crate) fn run(self, ready: impl FnOnce(&Ready) -> Result<()>) -> Result<()> {
        let part = esker_os::resolve_links(&self.part)?;
        let superblock = Superblock::read(&part)?;
        let _claim = claim(&part)?;
        let (end, checking, upkeep) = (Notify::new(), Mutex::default(), Upkeep::default());
        let removing = AtomicBool::new(false);
        let process = Arc::new(Process { part, superblock, end, checking, upkeep, removing });
        let threads = Arc::new(self.threads()?);
        Self::runtime()?.block_on(self.serve(&process, threads, ready))
    }

    /// An engine for the part, which it has open.
    fn engine(&self, process: &Arc<Process>) -> Result<(Arc<Native>, Engine)> {
        let pool = Arc::new(Native::open(&process.part, OpenMode::ReadWrite)?);
        let served = Arc::clone(&pool) as Arc<dyn esker::backend::Pool>;
        let engine = Engine::new(served, process.superblock.uuid, self.secret.clone());
        engine.set_host(Arc::clone(process) as Arc<dyn Host>);
        let clients_max = make_room()?;
        engine.limit_clients(clients_max);
        tracing::info!(clients_max, "the number of clients is limited");
        if self.tls {
            engine.require_tls()?;
        }
        Ok((pool, engine))
    }

    /// The threads that serve clients.
    fn threads(&self) -> Result<Threads> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Threads::start(self.threads.unwrap_or_else(cores))
    }

    /// Accepts clients, and does everything else that takes little time.
    fn runtime() -> Result<Runtime> {
        let made = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        made.map_err(|error| Error::io("starting the threads of the engine", &error))
    }

    /// Serves the part, with a new engine after each repair.
    async fn serve(
        &self,
        process: &Arc<Process>,
        threads: Arc<Threads>,
        ready: impl FnOnce(&Ready) -> Result<()>,
    ) -> Result<()> {
        let mut signals = Signals::new()?;
        let listener = kept(self.listen.listen().await?)?;
        let mut said = self.said(&again(&listener)?, process)?;
        let metrics = self.metrics_listener().await?;
        said.metrics = metrics.as_ref().map(|(address, at)| shown(address, at)).transpose()?;
        let mut ready = Some(ready);
        let mut expired = pin!(expired(self.lifetime));
        loop {
            let (pool, engine) = self.engine(process)?;
            engine.serve_on(Arc::clone(&threads));
            let web = metrics.as_ref().map(|(_, at)| again(at)).transpose()?;
            let web = web.map(|at| tokio::spawn(web::serve(at, engine.clone())));
            if let Some(ready) = ready.take() {
                tracing::info!(part = %said.part.display(), address = said.address, tls = self.tls, metrics = said.metrics, "ready");
                ready(&said)?;
            }
            let why = tokio::select! {
                () = engine.listen(again(&listener)?) => "no more clients",
                why = signals.first() => why,
                why = process.end_wanted() => why,
                () = &mut expired => "its lifetime is over",
            };
            tracing::info!(why, "ending");
            // Clients that had to be disconnected are in the log.
            let _ = engine.drain().await;
            end(web).await;
            if why != REPAIR {
                return Ok(());
            }
            drop(engine);
            process.upkeep.repair(&process.part, pool).await;
            tracing::info!("serving again");
        }
    }

    /// Where metrics are served, if they are.
    async fn metrics_listener(&self) -> Result<Option<(&Address, StdListener)>> {
        let Some(address) = &self.metrics else { return Ok(None) };
        Ok(Some((address, kept(address.listen().await?)?)))
    }

    fn said(&self, listener: &TcpListener, process: &Process) -> Result<Ready> {
        let mut address = self.listen.bound(listener)?;
        if let Some(host) = &self.advertise {
            address.host.clone_from(host);
        }
        let address = address.to_string();
        let (uuid, part) = (process.superblock.uuid, process.part.clone());
        Ok(Ready { address, uuid, part, pid: std::process::id(), metrics: None })
    }
}

/// Ends a task, and waits until it has ended.
async fn end(task: Option<tokio::task::JoinHandle<()>>) {
    if let Some(task) = task {
        task.abort();
        let _ = task.await;
    }
}

/// A listener that outlives engines: whoever connects meanwhile waits.
fn kept(listener: TcpListener) -> Result<StdListener> {
    listener.into_std().map_err(|error| Error::io("listening", &error))
}

/// The same listener, for one engine.
fn again(listener: &StdListener) -> Result<TcpListener> {
    let again = listener.try_clone().and_then(TcpListener::from_std);
    again.map_err(|error| Error::io("listening", &error))
}

/// Where metrics are served.
fn shown(address: &Address, listener: &StdListener) -> Result<String> {
    Ok(address.bound(&again(listener)?)?.to_string())
}

async fn expired(lifetime: Option<Duration>) {
    match lifetime {
        Some(lifetime) => tokio::time::sleep(lifetime).await,
        None => std::future::pending().await,
    }
}
