//! Benchmarks with a server: one process serves, others are its clients.
use crate::measure::Measured;
use crate::processes::{Launcher, Processes, WorkerKind};
use crate::worker::Work;
use esker_types::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Role of a process: its first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job<S, C> {
    /// It serves.
    Serve(S),
    /// It is a client.
    Client(C),
}

/// The reply of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done<A> {
    /// Addresses of the servers, in the reply of their process only.
    pub addresses: Option<A>,
    /// Measurements of the phase, in replies of clients.
    pub measured: Measured,
}

/// The server process: it only tells its addresses.
pub trait Server: Sized {
    /// Its job.
    type Job: DeserializeOwned;
    /// Addresses that clients connect to.
    type Addresses: Clone + Default + Serialize + DeserializeOwned;

    /// Starts to serve, as long as the value exists.
    ///
    /// # Errors
    /// If the job cannot begin.
    fn start(job: Self::Job) -> Result<Self>;

    /// Returns the addresses.
    fn addresses(&self) -> &Self::Addresses;
}

/// A client process.
pub trait Client: Sized {
    /// Its job.
    type Job: DeserializeOwned;
    /// One phase.
    type Step: DeserializeOwned;

    /// Prepares the job.
    ///
    /// # Errors
    /// If the job cannot begin.
    fn start(job: Self::Job) -> Result<Self>;

    /// Takes a step.
    ///
    /// # Errors
    /// Errors of the operations.
    fn take(&mut self, step: Self::Step) -> Result<Measured>;
}

/// Message after the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order<T> {
    /// To the server: return the addresses.
    Locate,
    /// To a client: take a step.
    Take(T),
}

/// The state of a process.
pub enum Worker<S, C> {
    /// It serves.
    Server(S),
    /// It is a client.
    Client(Box<C>),
}

impl<S: Server, C: Client> Work for Worker<S, C> {
    type Job = Job<S::Job, C::Job>;
    type Step = Order<C::Step>;
    type Done = Done<S::Addresses>;

    fn begin(job: Self::Job) -> Result<Self> {
        Ok(match job {
            Job::Serve(job) => Self::Server(S::start(job)?),
            Job::Client(job) => Self::Client(Box::new(C::start(job)?)),
        })
    }

    fn take(&mut self, order: Self::Step) -> Result<Self::Done> {
        match (self, order) {
            (Self::Server(server), Order::Locate) => Ok(Done {
                addresses: Some(server.addresses().clone()),
                measured: Measured::default(),
            }),
            (Self::Client(client), Order::Take(step)) => {
                client.take(step).map(|measured| Done { addresses: None, measured })
            }
            _ => Err(Error::new(ErrorKind::Invalid, "the order is for another role")),
        }
    }
}

/// Starts the server process, and returns its addresses.
///
/// # Errors
/// If it cannot begin.
pub(crate) fn serve<J: Serialize, A: DeserializeOwned>(
    kind: WorkerKind,
    job: J,
) -> Result<(Processes, A)> {
    let mut server = Processes::start(&Launcher::for_kind(kind)?, &[Job::<J, ()>::Serve(job)])?;
    let found: Vec<Done<A>> = server.ask(&[Order::<()>::Locate])?;
    let addresses = found.into_iter().find_map(|done| done.addresses);
    let addresses = addresses
        .ok_or_else(|| Error::new(ErrorKind::Io, "the server of the benchmark has no address"))?;
    Ok((server, addresses))
}

/// A listener on loopback, and its address.
///
/// # Errors
/// If the system refuses it.
pub(crate) fn listen(runtime: &Runtime) -> Result<(TcpListener, String)> {
    let failed = |error| Error::io("listening on loopback", &error);
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?.to_string();
    Ok((listener, address))
}

/// Starts a client process for each rank.
///
/// # Errors
/// If one cannot begin.
pub(crate) fn start_clients<J: Serialize>(
    kind: WorkerKind,
    procs: u32,
    job: impl Fn(u32) -> J,
) -> Result<Processes> {
    let launcher = Launcher::for_kind(kind)?;
    Processes::start_ranks(&launcher, procs, |rank| Job::<(), J>::Client(job(rank)))
}

/// Makes all clients take the same step at the same time.
///
/// # Errors
/// The first error that a client reports.
pub(crate) fn take_all<T: Copy + Serialize>(
    clients: &mut Processes,
    step: T,
) -> Result<Vec<Measured>> {
    take(clients, &vec![step; clients.count()])
}

/// Makes each client take its step, all at the same time.
///
/// # Errors
/// The first error that a client reports.
pub(crate) fn take<T: Copy + Serialize>(
    clients: &mut Processes,
    steps: &[T],
) -> Result<Vec<Measured>> {
    let orders: Vec<_> = steps.iter().map(|&step| Order::Take(step)).collect();
    let done: Vec<Done<serde::de::IgnoredAny>> = clients.ask(&orders)?;
    Ok(done.into_iter().map(|done| done.measured).collect())
}
