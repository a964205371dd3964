//! Synchronizes the ranks of a benchmark on several nodes through files in a shared directory. Files are renamed into
//! place, so that readers see only complete ones. No network protocol is needed.
//!
//! A rank is one call of the command, by `srun`, `mpirun` or `ssh`. All ranks make the same exchanges in the same
//! order, so that each exchange has a number. Files of earlier benchmarks do no harm: each rank announces itself with a
//! random word and joins the session whose roster contains it.
use crate::clock::{monotonic_ns, unix_ns};
use crate::errors::{Doing, ensure, ensure_valid};
use crate::interrupt;
use esker_os::whole;
use esker_types::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval at which a rank checks the directory.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum time that a rank waits for the others.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum time that rank 0 waits at the end until the others have left.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(30);

/// Rank of this process, and the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Number of this rank, from 0.
    pub rank: u32,
    /// Number of ranks.
    pub ranks: u32,
}

/// Environment variables for rank and number of ranks: Slurm, Open MPI, and PMI (MPICH, Intel MPI).
pub const VARIABLES: [(&str, &str); 3] = [
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
];

impl Rank {
    /// The only rank.
    pub const ALONE: Self = Self { rank: 0, ranks: 1 };

    /// The rank by the environment; [`Rank::ALONE`] if no variable is set.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if a variable has an invalid value.
    pub fn from_environment() -> Result<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// The rank of this process from the variables of MPI or of the batch system.
    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let found = VARIABLES.iter().find_map(|(rank, ranks)| {
            Some((rank, variable(rank)?, variable(ranks).unwrap_or_else(|| "1".to_owned())))
        });
        let Some((name, rank, ranks)) = found else { return Ok(Self::ALONE) };
        let wrong = || {
            let message = format!(
                "{name} is {rank} of {ranks}, which is not a valid rank: give --rank and --ranks"
            );
            Error::new(ErrorKind::Invalid, message)
        };
        let number = |text: &str| text.parse().map_err(|_| wrong());
        Self { rank: number(&rank)?, ranks: number(&ranks)? }.checked().map_err(|_| wrong())
    }

    /// Refuses a rank that is not below the number of ranks.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`].
    pub fn checked(self) -> Result<Self> {
        let Self { rank, ranks } = self;
        ensure_valid(rank < ranks, || format!("rank {rank} of {ranks}: ranks are counted from 0"))?;
        Ok(self)
    }

    /// True for the rank that reports.
    pub fn is_first(self) -> bool {
        self.rank == 0
    }
}

/// The file that rank 0 writes once all ranks have announced themselves.
#[derive(Serialize, Deserialize)]
struct Roster {
    session: String,
    words: Vec<String>,
}

/// A meeting of all ranks.
pub struct Rendezvous {
    who: Rank,
    /// Directory of this session; none for a single rank.
    session: Option<PathBuf>,
    exchanges: u64,
}

impl Rendezvous {
    /// Joins all other ranks in `folder`. A single rank needs no directory.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if there are several ranks and no directory; [`ErrorKind::TimedOut`] if a rank is
    /// missing; if the directory cannot be written.
    pub fn meet(who: Rank, folder: Option<&Path>) -> Result<Self> {
        let several = who.ranks > 1;
        ensure_valid(!several || folder.is_some(), || {
            let ranks = who.ranks;
            format!(
                "this is one of {ranks} ranks: give all of them --rendezvous with a shared directory"
            )
        })?;
        let session = folder.filter(|_| several).map(|folder| meet_in(who, folder)).transpose()?;
        Ok(Self { who, session, exchanges: 0 })
    }

    /// Rank of this process.
    pub fn who(&self) -> Rank {
        self.who
    }

    /// Gathers the `value` of each rank on rank 0, in order. The other ranks receive an empty list.
    ///
    /// # Errors
    /// The error of another rank; [`ErrorKind::TimedOut`] if a rank does not answer.
    pub fn gather<T: Serialize + DeserializeOwned>(&mut self, value: T) -> Result<Vec<T>> {
        let Some(session) = self.session.clone() else { return Ok(vec![value]) };
        self.exchanges += 1;
        let path = |rank| session.join(format!("{}.{rank}", self.exchanges));
        if !self.who.is_first() {
            write(&path(self.who.rank), &value)?;
            return Ok(Vec::new());
        }
        let others = (1..self.who.ranks).map(|rank| {
            let heard = wait(&format!("rank {rank}"), Some(&session), || read(&path(rank)));
            let _ = std::fs::remove_file(path(rank));
            heard
        });
        std::iter::once(Ok(value)).chain(others).collect()
    }

    /// Broadcasts a value from rank 0, the only rank that calls `make`.
    ///
    /// # Errors
    /// The errors of [`Rendezvous::gather`] and of `make`.
    pub fn broadcast<T: Serialize + DeserializeOwned>(
        &mut self,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Some(session) = self.session.clone() else { return make() };
        self.exchanges += 1;
        let path = session.join(format!("{}.all", self.exchanges));
        match self.who.is_first() {
            true => {
                let value = make()?;
                write(&path, &value)?;
                Ok(value)
            }
            false => wait("rank 0", Some(&session), || read(&path)),
        }
    }

    /// Waits until all ranks have reached this call.
    ///
    /// # Errors
    /// Same as [`Rendezvous::gather`].
    pub fn barrier(&mut self) -> Result<()> {
        self.gather(())?;
        self.broadcast(|| Ok(()))
    }

    /// Reports an error to the other ranks, so that they do not wait for this one.
    pub fn report_error(&self, error: &Error) {
        if let Some(session) = &self.session {
            let said = format!("rank {}: {error}", self.who.rank);
            let _ = write(&session.join(FAILED), &said);
        }
    }
}

impl Drop for Rendezvous {
    /// All ranks leave. Rank 0 waits for the others before it removes the directory, because they may still read its
    /// last file, or why the benchmark failed.
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        let left = |rank| session.join(format!("left.{rank}"));
        if !self.who.is_first() {
            let _ = write(&left(self.who.rank), &());
            return;
        }
        let start = Instant::now();
        let is_here = |rank| !left(rank).exists();
        while (1..self.who.ranks).any(is_here) && start.elapsed() < LEAVE_TIMEOUT {
            std::thread::sleep(POLL_INTERVAL);
        }
        let _ = std::fs::remove_dir_all(session);
    }
}

/// File with the error of the first rank that failed.
const FAILED: &str = "failed";

/// Meets the other ranks in a shared folder: all announce themselves, and rank 0 answers with the folder of this
/// session.
fn meet_in(who: Rank, folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).doing(|| format!("creating {}", folder.display()))?;
    let word = format!("{}-{}-{}", std::process::id(), unix_ns(), who.rank);
    let hello = |rank| folder.join(format!("hello.{rank}"));
    write(&hello(who.rank), &word)?;
    let roster = folder.join("roster");
    if who.is_first() {
        return gather_announcements(who, folder, &word, hello);
    }
    let session = wait("rank 0", None, || {
        let roster: Option<Roster> = read(&roster);
        let has_this_rank = |roster: &Roster| roster.words.get(who.rank as usize) == Some(&word);
        roster.filter(has_this_rank).map(|roster| folder.join(roster.session))
    })?;
    write(&session.join(format!("joined.{}", who.rank)), &())?;
    Ok(session)
}

/// Rank 0 rewrites the roster until all ranks have joined, because an announcement may be left from an earlier
/// benchmark.
fn gather_announcements(
    who: Rank,
    folder: &Path,
    word: &str,
    hello: impl Fn(u32) -> PathBuf,
) -> Result<PathBuf> {
    let session = folder.join(format!("session-{word}"));
    std::fs::create_dir(&session).doing(|| format!("creating {}", session.display()))?;
    let mut invited = Vec::new();
    let met = wait("the other ranks", None, || {
        let words: Vec<String> =
            (0..who.ranks).map(|rank| read(&hello(rank)).unwrap_or_default()).collect();
        if words != invited {
            let roster = Roster { session: format!("session-{word}"), words: words.clone() };
            // If the write fails, the next poll repeats it.
            write(&folder.join("roster"), &roster).ok()?;
            invited = words;
        }
        let joined = |rank| session.join(format!("joined.{rank}")).exists();
        (1..who.ranks).all(joined).then_some(())
    });
    let _ = met.is_err().then(|| std::fs::remove_dir_all(&session));
    let _ = std::fs::remove_file(folder.join("roster"));
    (0..who.ranks).for_each(|rank| drop(std::fs::remove_file(hello(rank))));
    met.map(|()| session)
}

/// Calls `poll` again and again until it returns a value. Fails if the benchmark failed on another node, is
/// interrupted, or takes too long.
fn wait<T>(whom: &str, session: Option<&Path>, mut poll: impl FnMut() -> Option<T>) -> Result<T> {
    let start = monotonic_ns();
    loop {
        interrupt::check()?;
        if let Some(found) = poll() {
            return Ok(found);
        }
        if let Some(why) = session.and_then(|session| read::<String>(&session.join(FAILED))) {
            return Err(Error::new(ErrorKind::Canceled, format!("the benchmark failed on {why}")));
        }
        ensure(
            session.is_none_or(Path::is_dir),
            ErrorKind::Canceled,
            || "the benchmark ended on rank 0: see the error of that rank",
        )?;
        let waited = Duration::from_nanos(monotonic_ns() - start);
        ensure(waited <= ANSWER_TIMEOUT, ErrorKind::TimedOut, || {
            let seconds = ANSWER_TIMEOUT.as_secs();
            format!(
                "{whom} did not answer for {seconds} s: start all ranks, with the same --rendezvous on a shared file system"
            )
        })?;
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Writes a value as JSON, so that readers find all of it or nothing.
fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec(value)
        .map_err(|error| Error::new(ErrorKind::Invalid, format!("value of a rank: {error}")))?;
    whole::write(path, &text)
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("esker-{name}-{}", std::process::id()))
    }

    /// Ranks in threads: each does the same.
    fn together<T: Send>(
        folder: &Path,
        ranks: u32,
        each: impl Fn(Rendezvous) -> T + Sync,
    ) -> Vec<T> {
        std::thread::scope(|scope| {
            let start = |rank| {
                let each = &each;
                let meet = move || Rendezvous::meet(Rank { rank, ranks }, Some(folder)).unwrap();
                scope.spawn(move || each(meet()))
            };
            let threads: Vec<_> = (0..ranks).map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn rank_is_read_from_environment() {
        let of = |known: &[(&str, &str)]| {
            Rank::from_variables(|name| {
                known.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(of(&[]).unwrap(), Rank::ALONE);
        let slurm = of(&[("SLURM_PROCID", "2"), ("SLURM_NTASKS", "4")]).unwrap();
        assert_eq!(slurm, Rank { rank: 2, ranks: 4 });
        assert_eq!(
            of(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]).unwrap(),
            Rank { rank: 1, ranks: 2 }
        );
        assert!(of(&[("PMI_RANK", "2"), ("PMI_SIZE", "2")]).is_err());
        assert!(of(&[("PMI_RANK", "x")]).is_err());
    }

    #[test]
    fn gather_returns_messages_in_rank_order() {
        let folder = folder("gather");
        let heard = together(&folder, 3, |mut meeting| {
            let rank = meeting.who().rank;
            let first = meeting.gather(rank * 10).unwrap();
            meeting.barrier().unwrap();
            let told = meeting.broadcast(|| Ok(first.iter().sum::<u32>())).unwrap();
            (first, told)
        });
        assert_eq!(heard[0], (vec![0, 10, 20], 30));
        assert_eq!(heard[2], (vec![], 30));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn files_of_earlier_benchmark_are_ignored() {
        let folder = folder("stale");
        std::fs::create_dir_all(folder.join("session-old")).unwrap();
        write(&folder.join("hello.1"), &"old").unwrap();
        let words = vec!["old".to_owned(), "old".to_owned()];
        write(&folder.join("roster"), &Roster { session: "session-old".to_owned(), words })
            .unwrap();
        let heard = together(&folder, 2, |mut meeting| meeting.gather(meeting.who().rank).unwrap());
        assert_eq!(heard[0], [0, 1]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn gather_fails_if_another_rank_failed() {
        let folder = folder("failed");
        let heard = together(&folder, 2, |mut meeting| match meeting.who().rank {
            0 => meeting.gather(0).unwrap_err().to_string(),
            _ => {
                meeting.report_error(&Error::new(ErrorKind::NoSpace, "the pool is full"));
                String::new()
            }
        });
        assert!(heard[0].contains("failed on rank 1: the pool is full"), "{heard:?}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn several_ranks_require_rendezvous_folder() {
        let error = Rendezvous::meet(Rank { rank: 0, ranks: 2 }, None).err().unwrap();
        assert!(error.message().contains("--rendezvous"), "{error}");
        let mut alone = Rendezvous::meet(Rank::ALONE, None).unwrap();
        assert_eq!(alone.gather(5).unwrap(), [5]);
        assert_eq!(alone.broadcast(|| Ok(6)).unwrap(), 6);
    }
}
