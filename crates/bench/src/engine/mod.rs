//! The work of `esker bench engine`: one process serves a pool over TCP, others work on it, and both measure the raw
//! connection.
mod client;
mod data;
mod raw;
mod server;

pub use client::Client;
pub use server::Server;

use crate::job::{Kind, Member};
use esker_types::Uuid;
use serde::{Deserialize, Serialize};

/// Addresses of the engines and of the server of raw connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// Address of the engine, as `host:port`.
    pub engine: String,
    /// Address of an engine that serves the same pool with TLS.
    pub engine_tls: String,
    /// Address of the raw connections.
    pub raw: String,
}

/// Description of the pool, known to all processes of a benchmark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// URL of the pool.
    pub pool: String,
    /// UUID of the pool.
    pub uuid: Uuid,
    /// The secret of engine and clients.
    pub secret: [u8; 32],
}

/// The container that clients work in.
pub const CONTAINER: &str = "bench";

/// The work of all clients at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The kind of data.
    pub kind: Kind,
    /// Number of clients.
    pub procs: u32,
    /// Operations of a client under way at a time.
    pub in_flight: u32,
    /// Bytes of one operation.
    pub size_bytes: u64,
    /// Operations of a client in each phase.
    pub ops: u64,
    /// Reach the engine over the fabric.
    pub fabric: bool,
}

/// The job of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientJob {
    /// The process.
    pub member: Member,
    /// The pool.
    pub shared: Shared,
    /// Its engine.
    pub addresses: Addresses,
    /// Work through the engine with TLS.
    pub tls: bool,
    /// Its work.
    pub case: Case,
}

/// One phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Sends blocks over a raw connection.
    Send,
    /// Receives blocks over a raw connection.
    Receive,
    /// Sends blocks, which the server sends back.
    Echo,
    /// Stores the data of a round.
    Write(u32),
    /// Reads the data that the next process stored in a round.
    Read(u32),
    /// Reads and compares that data; not measured.
    Verify(u32),
    /// Removes the data that this process stored in a round.
    Remove(u32),
}
