//! The work of `esker bench s3`. One process serves a pool by S3, and bytes from memory by the same HTTP library. Other
//! processes put and get objects there.
mod client;
mod request;
mod server;
mod sign;

pub use client::Client;
pub use server::Servers;

use crate::job::Member;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A server of objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Store {
    /// Address of the server, as `host:port`.
    pub address: String,
    /// The bucket.
    pub bucket: String,
    /// Key that signs requests; none for a server that does not require signatures.
    pub key: Option<Key>,
}

/// An access key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Its name.
    pub access: String,
    /// Its secret.
    pub secret: String,
    /// The region for which requests are signed.
    pub region: String,
}

/// Job of the server process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServeJob {
    /// URL of the pool.
    pub pool: String,
    /// The file of keys.
    pub keys: PathBuf,
    /// Kinds of ETags; a server for each.
    pub etags: Vec<String>,
    /// Bytes of an object in memory.
    pub size_bytes: u64,
}

/// The job of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientJob {
    /// The process.
    pub member: Member,
    /// The servers.
    pub stores: Vec<Store>,
    /// Bytes of an object.
    pub size_bytes: u64,
    /// Objects of each phase.
    pub ops: u64,
}

/// Addresses on which the server process listens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// Address of the server from memory.
    pub memory: String,
    /// Addresses of the servers of the pool, one for each kind of ETag.
    pub doors: Vec<String>,
}

/// Checksum that a client sends with a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Checksum {
    /// No checksum.
    None,
    /// SHA-256 in the signature and CRC32 in a header, as boto3 does over HTTP.
    Signed,
    /// CRC64 in a trailer, as the SDKs do over HTTPS (`aws-chunked`).
    Trailer,
}

impl Checksum {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Signed, Self::Trailer];

    /// Name of the phase in reports.
    pub fn phase(self) -> &'static str {
        match self {
            Self::None => "put",
            Self::Signed => "put signed",
            Self::Trailer => "put trailer",
        }
    }
}

/// One phase. Stores are numbered as in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Creates the bucket.
    MakeBucket(usize),
    /// Removes the bucket.
    RemoveBucket(usize),
    /// Puts the objects of a round.
    Put(usize, u32, Checksum),
    /// Gets the objects that the next process put last.
    Get(usize),
    /// Gets and compares them; not measured.
    Verify(usize, u32),
    /// Removes the objects of this process.
    Remove(usize),
}
