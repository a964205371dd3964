//! `esker bench s3`: compares S3 puts and gets with the rate of the HTTP library alone, which serves from memory.
//! One process serves, others put and get objects there.
mod client;
mod request;
mod server;
mod sign;

pub use client::Client;
pub use server::Servers;

use super::location::Location;
use super::scratch::{OwnPool, Scratch};
use super::{Benchmark, Measurement, Note, check, parse_size};
use crate::errors::{Doing, ensure_valid};
use crate::job::{Member, WARM_UP};
use crate::measure::{Measured, Tally};
use crate::processes::{Processes, WorkerKind};
use crate::report::{Run, RunName};
use clap::Args;
use esker_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;

/// Measure PUT and GET by S3, beside the HTTP library that serves from memory
#[derive(Clone, Debug, Args)]
#[command(after_long_help = include_str!("../../help/s3.txt").trim_end())]
pub struct S3Plan {
    /// The temporary pool.
    #[command(flatten)]
    pub own: OwnPool,
    /// Size of an object
    #[arg(long = "size", value_name = "SIZE", default_value = "8MiB")]
    #[arg(value_parser = parse_size)]
    pub size_bytes: u64,
    /// Number of clients, or several numbers, separated by commas
    #[arg(long, value_name = "N", default_value = "1,2", value_delimiter = ',')]
    pub clients: Vec<u32>,
    /// Kind of ETags, as for `esker serve s3 --etag`, or several kinds separated by commas
    #[arg(long = "etag", value_name = "KIND", default_value = "md5,xxh3", value_delimiter = ',', value_parser = ["md5", "xxh3"])]
    pub etags: Vec<String>,
    /// Objects of each client in each phase [default: 256 MiB, at most 2000 objects]
    #[arg(long, value_name = "N")]
    pub ops: Option<u64>,
    /// Number of rounds of putting and getting; figures are over all rounds
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: u32,
    /// Another server of S3 to measure in the same run, over HTTP
    #[arg(long, value_name = "URL")]
    pub peer: Option<String>,
    /// Name of the bucket that is made there
    #[arg(long, value_name = "NAME", default_value = "esker-bench", requires = "peer")]
    pub bucket: String,
    /// Compare what is got with what was put, in an unmeasured phase
    #[arg(long)]
    pub verify: bool,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl Benchmark for S3Plan {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        check(&[self.size_bytes], &self.clients)?;
        let is_empty = self.rounds == 0 || self.ops == Some(0) || self.etags.is_empty();
        ensure_valid(!is_empty, || "rounds, objects and kinds of ETags must be at least 1")?;
        let peer = self.peer.as_deref().map(|url| parse_peer(url, &self.bucket)).transpose()?;
        let scratch = self.own.make(self.needs(), note)?;
        let key = draw_key(&scratch)?;
        let location = Location::open(&scratch.url(), Some(self.own.folder.clone()), None)?;
        let job = ServeJob {
            pool: location.url.clone(),
            keys: scratch.path().join(KEYS),
            etags: self.etags.clone(),
            size_bytes: self.size_bytes,
        };
        let mut servers = Processes::launch(WorkerKind::S3Server, [job])?;
        let addresses: Addresses = servers.first(())?;
        let mut runs = Vec::new();
        for &procs in &self.clients {
            let mut subjects = self.subjects(&addresses, &key, peer.as_ref());
            self.measure(procs, &mut subjects, note)?;
            runs.extend(self.runs_of(procs, &subjects));
        }
        let options = json!({
            "rounds": self.rounds, "ops": self.ops(), "etags": self.etags,
            "peer": peer.map(|peer| peer.address), "verified": self.verify,
        });
        location.report(self.seed, options, runs).map(Measurement::from)
    }
}

/// Payload of one client in one phase if the number of objects is not given.
const DEFAULT_BYTES: u64 = 256 << 20;
const DEFAULT_OPS_MAX: u64 = 2000;

type Clients = Processes<Step, Measured>;

/// A measured server, with its measurements.
struct Subject {
    store: Store,
    /// Kind of store in reports; `medium` for the limit, which has no bucket.
    kind: &'static str,
    /// Name in reports.
    name: String,
    /// Puts with these checksums, then gets.
    phases: Vec<(Option<Checksum>, Tally)>,
}

impl Subject {
    fn new(kind: &'static str, name: &str, store: Store, puts: &[Checksum]) -> Self {
        let phases = puts.iter().copied().map(Some).chain([None]);
        let phases = phases.map(|put| (put, Tally::default())).collect();
        Self { store, kind, name: name.to_owned(), phases }
    }

    /// True if the benchmark creates its bucket, and removes it at the end.
    fn has_bucket(&self) -> bool {
        self.kind != "medium"
    }
}

impl S3Plan {
    fn ops(&self) -> u64 {
        self.ops.unwrap_or((DEFAULT_BYTES / self.size_bytes).clamp(1, DEFAULT_OPS_MAX))
    }

    /// Payload and index entries of the largest case: a phase, and the data of the previous phase that is being freed.
    fn needs(&self) -> (u64, u64) {
        let most = self.clients.iter().max().map_or(1, |&procs| u64::from(procs));
        let ops = most.saturating_mul(self.ops());
        (ops.saturating_mul(self.size_bytes).saturating_mul(2), ops.saturating_mul(16))
    }

    /// The servers that are measured: first one that stores nothing, which is the limit, then Esker's, then the one for
    /// comparison.
    fn subjects(&self, addresses: &Addresses, key: &Key, peer: Option<&Store>) -> Vec<Subject> {
        let at = |address: &str, name: &str, key: Option<&Key>| Store {
            address: address.to_owned(),
            bucket: format!("bench-{name}"),
            key: key.cloned(),
        };
        let memory = at(&addresses.memory, "memory", None);
        let memory = Subject::new("medium", "memory", memory, &[Checksum::None]);
        let servers = addresses.doors.iter().zip(&self.etags).map(|(address, etags)| {
            Subject::new("esker", etags, at(address, etags, Some(key)), &Checksum::ALL)
        });
        let peer = peer.map(|peer| Subject::new("peer", "peer", peer.clone(), &Checksum::ALL));
        std::iter::once(memory).chain(servers).chain(peer).collect()
    }

    /// Measures all servers with this number of clients. They alternate, so that other load on the machine affects all.
    fn measure(&self, procs: u32, subjects: &mut [Subject], note: Note<'_>) -> Result<()> {
        let mut clients = self.clients_of(procs, subjects)?;
        // The server of the user is the last: if its bucket cannot be made, nothing is left there.
        for number in with_bucket(subjects) {
            clients.first(Step::MakeBucket(number))?;
        }
        if let Err(error) = self.measure_with(&mut clients, subjects, note) {
            // The clients may be in the middle of a step: others remove what is on the server of the user.
            drop(clients);
            let _ = self.clients_of(procs, subjects).and_then(|others| remove(others, subjects));
            return Err(error);
        }
        remove(clients, subjects)
    }

    fn measure_with(
        &self,
        clients: &mut Clients,
        subjects: &mut [Subject],
        note: Note<'_>,
    ) -> Result<()> {
        let procs = clients.count();
        note(&format!("{procs} clients: warming up"));
        for number in 0..subjects.len() {
            clients.all(Step::Put(number, WARM_UP, Checksum::None))?;
            clients.all(Step::Get(number))?;
        }
        for round in 1..=self.rounds {
            note(&format!("{procs} clients: round {round} of {}", self.rounds));
            for (number, subject) in subjects.iter_mut().enumerate() {
                self.measure_round(clients, round, (number, subject))?;
            }
        }
        Ok(())
    }

    /// Measures a round on one server, and verifies the objects afterwards.
    fn measure_round(
        &self,
        clients: &mut Clients,
        round: u32,
        (number, subject): (usize, &mut Subject),
    ) -> Result<()> {
        for (put, tally) in &mut subject.phases {
            let step = put.map_or(Step::Get(number), |checksum| Step::Put(number, round, checksum));
            tally.add_round(&clients.all(step)?);
        }
        if self.verify && subject.has_bucket() {
            clients.all(Step::Verify(number, round))?;
        }
        Ok(())
    }

    /// Starts the client processes.
    fn clients_of(&self, procs: u32, subjects: &[Subject]) -> Result<Clients> {
        let stores: Vec<_> = subjects.iter().map(|subject| subject.store.clone()).collect();
        let (size_bytes, ops) = (self.size_bytes, self.ops());
        let job = |member| ClientJob { member, stores: stores.clone(), size_bytes, ops };
        Clients::launch(WorkerKind::S3, Member::all(procs, self.seed, &[]).map(job))
    }

    /// The runs of the report. Puts and gets are compared with those of memory.
    fn runs_of(&self, procs: u32, subjects: &[Subject]) -> Vec<Run> {
        let memory = || subjects.iter().take(1).flat_map(|memory| &memory.phases);
        let limit = |is_put| memory().find(|(put, _)| put.is_some() == is_put);
        let mut runs = Vec::new();
        for subject in subjects {
            for (put, tally) in &subject.phases {
                let phase = put.map_or("get", Checksum::phase);
                let (store, workload, size_bytes) = (subject.kind, &*subject.name, self.size_bytes);
                let name = RunName { store, workload, phase, procs, size_bytes };
                let limit = limit(put.is_some()).filter(|_| subject.has_bucket());
                runs.push(Run::new(&name, tally, limit.map(|(_, tally)| tally)));
            }
        }
        runs
    }
}

/// Numbers of the servers that have a bucket.
fn with_bucket(subjects: &[Subject]) -> impl DoubleEndedIterator<Item = usize> {
    (0..subjects.len()).filter(|&number| subjects[number].has_bucket())
}

/// Removes the buckets with their objects, that of the user's server first.
fn remove(mut clients: Clients, subjects: &[Subject]) -> Result<()> {
    for number in with_bucket(subjects).rev() {
        clients.all(Step::Remove(number))?;
        clients.first(Step::RemoveBucket(number))?;
    }
    Ok(())
}

/// A server at `http://HOST[:PORT]`, with the key of the environment.
fn parse_peer(url: &str, bucket: &str) -> Result<Store> {
    let host = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    let host = host.filter(|host| !host.is_empty() && !host.contains(['/', '?', '@']));
    let host = host.ok_or_else(|| {
        let message = format!("{url} is not the URL of a server: write http://HOST:PORT");
        Error::new(ErrorKind::Invalid, message)
    })?;
    let address = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let key = variable("AWS_ACCESS_KEY_ID").zip(variable("AWS_SECRET_ACCESS_KEY"));
    let region = variable("AWS_REGION").unwrap_or_else(|| REGION.to_owned());
    let key = key.map(|(access, secret)| Key { access, secret, region });
    Ok(Store { address, bucket: bucket.to_owned(), key })
}

/// Name of the file of keys, in the directory of the pool.
const KEYS: &str = "s3.keys";

/// The region for which requests are signed.
const REGION: &str = "us-east-1";

/// Generates a key and writes it to a file in the directory of the pool.
fn draw_key(scratch: &Scratch) -> Result<Key> {
    let path = scratch.path().join(KEYS);
    esker_s3::Keys::create(&path)?;
    let text = std::fs::read_to_string(&path).doing(|| format!("reading {}", path.display()))?;
    let mut words = text.split_whitespace().map(str::to_owned);
    let (access, secret) = words.next().zip(words.next()).unwrap_or_default();
    Ok(Key { access, secret, region: REGION.to_owned() })
}

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
