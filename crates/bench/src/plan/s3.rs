//! `esker bench s3`: compares S3 puts and gets with the rate of the HTTP library alone, which serves from memory.
use super::{Note, check};
use crate::host::Host;
use crate::job::WARM_UP;
use crate::measure::{Measured, Tally};
use crate::plan::location;
use crate::plan::scratch::{OwnPool, Scratch};
use crate::processes::{Launcher, Processes};
use crate::report::{Report, Run, RunName, Settings};
use crate::s3::worker::Done;
use crate::s3::{Addresses, Checksum, ClientJob, Job, Key, ServeJob, Step, Store};
use esker_types::{Error, ErrorKind, Result};
use serde_json::json;

/// Plan of `esker bench s3`.
#[derive(Clone, Debug)]
pub struct S3Plan {
    /// How to start processes.
    pub launcher: Launcher,
    /// The pool.
    pub own: OwnPool,
    /// Bytes of an object.
    pub size_bytes: u64,
    /// Numbers of clients.
    pub clients: Vec<u32>,
    /// Objects of each client in each phase; chosen by size if not given.
    pub ops: Option<u64>,
    /// Number of repetitions.
    pub rounds: u32,
    /// Kinds of ETags.
    pub etags: Vec<String>,
    /// Another server to measure in the same run.
    pub peer: Option<Store>,
    /// Compare all data that is got with what was put, in a separate phase.
    pub verify: bool,
    /// Seed of the data.
    pub seed: u64,
}

/// Payload of one client in one phase if the number of objects is not given.
const DEFAULT_BYTES: u64 = 256 << 20;
const DEFAULT_OPS_MAX: u64 = 2000;

/// Names in reports of the limit, and of another server.
const MEMORY: &str = "memory";
const PEER: &str = "peer";

/// A measured server, with its measurements.
struct Subject {
    store: Store,
    /// Name in reports.
    name: String,
    /// The benchmark creates its bucket, and removes it at the end.
    has_bucket: bool,
    puts: Vec<(Checksum, Tally)>,
    get: Tally,
}

impl Subject {
    fn new(name: &str, store: Store, has_bucket: bool, puts: &[Checksum]) -> Self {
        let puts = puts.iter().map(|&checksum| (checksum, Tally::default())).collect();
        Self { store, name: name.to_owned(), has_bucket, puts, get: Tally::default() }
    }
}

impl S3Plan {
    /// Runs the benchmark.
    ///
    /// # Errors
    /// If the pool cannot be created or served, a server refuses a request, or an option is invalid; with
    /// [`S3Plan::verify`], [`ErrorKind::Corrupt`] if the data got is not the data put.
    pub fn run(&self, note: Note<'_>) -> Result<Report> {
        check(&[self.size_bytes], &self.clients)?;
        if self.rounds == 0 || self.ops == Some(0) || self.etags.is_empty() {
            let why = "rounds, objects and kinds of ETags must be at least 1";
            return Err(Error::new(ErrorKind::Invalid, why));
        }
        let scratch = self.own.make(&self.launcher, self.needs(), note)?;
        let key = draw_key(&scratch)?;
        let location =
            location::Location::open(&scratch.url(), Some(self.own.folder.clone()), None)?;
        let (_servers, addresses) = self.serve(&location, &scratch)?;
        let mut runs = Vec::new();
        for &procs in &self.clients {
            let mut subjects = self.subjects(&addresses, &key);
            self.measure(procs, &mut subjects, note)?;
            runs.extend(self.runs_of(procs, &subjects));
        }
        Ok(Report::new(Host::for_folder(&location.folder)?, self.settings(&location)?, runs))
    }

    fn ops(&self) -> u64 {
        self.ops.unwrap_or((DEFAULT_BYTES / self.size_bytes).clamp(1, DEFAULT_OPS_MAX))
    }

    /// Payload and index entries of the largest case: a phase, and the data of the previous phase that is being freed.
    fn needs(&self) -> (u64, u64) {
        let most = self.clients.iter().max().map_or(1, |&procs| u64::from(procs));
        let ops = most.saturating_mul(self.ops());
        (ops.saturating_mul(self.size_bytes).saturating_mul(2), ops.saturating_mul(16))
    }

    fn serve(
        &self,
        location: &location::Location,
        scratch: &Scratch,
    ) -> Result<(Processes, Addresses)> {
        let job = ServeJob {
            pool: location.url.clone(),
            keys: scratch.path().join(KEYS),
            etags: self.etags.clone(),
            size_bytes: self.size_bytes,
        };
        let mut servers = Processes::start(&self.launcher, &[Job::Serve(job)])?;
        let found: Vec<Done> = servers.ask(&[Step::Locate])?;
        let addresses = found.into_iter().find_map(|done| done.addresses);
        let addresses =
            addresses.ok_or_else(|| Error::new(ErrorKind::Io, "the servers have no address"))?;
        Ok((servers, addresses))
    }

    /// Memory, which is the limit, first.
    fn subjects(&self, addresses: &Addresses, key: &Key) -> Vec<Subject> {
        let at = |address: &str, name: &str, key: Option<&Key>| Store {
            address: address.to_owned(),
            bucket: format!("bench-{name}"),
            key: key.cloned(),
        };
        let memory =
            Subject::new(MEMORY, at(&addresses.memory, MEMORY, None), false, &[Checksum::None]);
        let doors = addresses.doors.iter().zip(&self.etags).map(|(address, etags)| {
            Subject::new(etags, at(address, etags, Some(key)), true, &Checksum::ALL)
        });
        let peer = self.peer.iter();
        let peer = peer.map(|peer| Subject::new(PEER, peer.clone(), true, &Checksum::ALL));
        std::iter::once(memory).chain(doors).chain(peer).collect()
    }

    /// The servers alternate, so that other load on the machine affects all.
    fn measure(&self, procs: u32, subjects: &mut [Subject], note: Note<'_>) -> Result<()> {
        let mut clients = self.clients_of(procs, subjects)?;
        note(&format!("{procs} clients: warming up"));
        for (number, subject) in subjects.iter().enumerate() {
            if subject.has_bucket {
                one(&mut clients, procs, Step::MakeBucket(number))?;
            }
            step(&mut clients, procs, Step::Put(number, WARM_UP, Checksum::None))?;
            step(&mut clients, procs, Step::Get(number, WARM_UP))?;
        }
        for round in 1..=self.rounds {
            note(&format!("{procs} clients: round {round} of {}", self.rounds));
            for (number, subject) in subjects.iter_mut().enumerate() {
                self.round(&mut clients, procs, round, (number, subject))?;
            }
        }
        for (number, _) in subjects.iter().enumerate().filter(|(_, subject)| subject.has_bucket) {
            step(&mut clients, procs, Step::Remove(number))?;
            one(&mut clients, procs, Step::RemoveBucket(number))?;
        }
        Ok(())
    }

    fn round(
        &self,
        clients: &mut Processes,
        procs: u32,
        round: u32,
        (number, subject): (usize, &mut Subject),
    ) -> Result<()> {
        for (checksum, tally) in &mut subject.puts {
            tally.add_round(&step(clients, procs, Step::Put(number, round, *checksum))?);
        }
        subject.get.add_round(&step(clients, procs, Step::Get(number, round))?);
        if self.verify && subject.has_bucket {
            step(clients, procs, Step::Verify(number, round))?;
        }
        Ok(())
    }

    fn clients_of(&self, procs: u32, subjects: &[Subject]) -> Result<Processes> {
        let stores: Vec<_> = subjects.iter().map(|subject| subject.store.clone()).collect();
        let job = |rank| ClientJob {
            rank,
            procs,
            stores: stores.clone(),
            size_bytes: self.size_bytes,
            ops: self.ops(),
            seed: self.seed,
        };
        let jobs: Vec<_> = (0..procs).map(|rank| Job::Client(job(rank))).collect();
        Processes::start(&self.launcher, &jobs)
    }

    fn runs_of(&self, procs: u32, subjects: &[Subject]) -> Vec<Run> {
        let Some(limit) = subjects.first() else { return Vec::new() };
        let run = |subject: &Subject, phase, tally: &Tally, limit: &Tally| {
            let is_limit = !subject.has_bucket;
            let store = match subject.name.as_str() {
                MEMORY => "medium",
                PEER => PEER,
                _ => "esker",
            };
            let workload = &subject.name;
            let name = RunName { store, workload, phase, procs, size_bytes: self.size_bytes };
            Run::new(&name, tally, (!is_limit).then_some(limit))
        };
        let put_limit = limit.puts.first().map(|(_, tally)| tally.clone()).unwrap_or_default();
        let runs = subjects.iter().flat_map(|subject| {
            let puts = subject.puts.iter();
            let puts =
                puts.map(|(checksum, tally)| run(subject, checksum.phase(), tally, &put_limit));
            puts.chain([run(subject, "get", &subject.get, &limit.get)]).collect::<Vec<_>>()
        });
        runs.collect()
    }

    fn settings(&self, location: &location::Location) -> Result<Settings> {
        let options = json!({
            "rounds": self.rounds,
            "ops": self.ops(),
            "etags": self.etags,
            "peer": self.peer.as_ref().map(|peer| &peer.address),
            "targets": location.targets()?,
            "durability": if location.durable { "commit" } else { "process" },
            "verified": self.verify,
            "huge_pages": location.huge_pages()?,
            "write_buffer": location.write_buffer()?,
        });
        Ok(Settings::new(self.seed, options))
    }
}

/// Name of the file of keys, in the directory of the pool.
const KEYS: &str = "s3.keys";

/// The region for which requests are signed.
pub const REGION: &str = "us-east-1";

/// Generates a key and writes it to a file in the directory of the pool.
fn draw_key(scratch: &Scratch) -> Result<Key> {
    let path = scratch.path().join(KEYS);
    esker_s3::Keys::create(&path)?;
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|error| Error::io(format!("reading {}", path.display()), &error))?;
    let mut words = text.split_whitespace().map(str::to_owned);
    let (access, secret) = words.next().zip(words.next()).unwrap_or_default();
    Ok(Key { access, secret, region: REGION.to_owned() })
}

fn step(clients: &mut Processes, procs: u32, step: Step) -> Result<Vec<Measured>> {
    let done: Vec<Done> = clients.ask(&vec![step; procs as usize])?;
    Ok(done.into_iter().map(|done| done.measured).collect())
}

/// The first client takes a step alone.
fn one(clients: &mut Processes, procs: u32, step: Step) -> Result<()> {
    let mut steps = vec![Step::Rest; procs as usize];
    steps.iter_mut().take(1).for_each(|first| *first = step);
    clients.ask::<Done>(&steps).map(drop)
}
