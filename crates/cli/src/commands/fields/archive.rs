//! `esker fields archive` and `adopt`: bringing fields into a store.
use super::files::{Input, Outcome, collect};
use super::parallel_archive::{JOBS_MAX, Plan, Progress, usual_jobs};
use super::select::{NAMING, StoreArg};
use crate::args::configured_jobs;
use crate::output::Answer;
use clap::Args;
use esker::types::{Error, ErrorKind, Result};
use esker_fields::grib::{EcCodes, Fields, Identify, Labelled, Learned, Message, Messages};
use esker_fields::limits::INDEX_STRIPES_MAX;
use esker_fields::{FieldStore, FieldWriter, Key, NewFields};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Archive GRIB files, or any bytes under a key
///
/// Each field of a GRIB file is archived under the key that ecCodes reads from it; a message with several fields is
/// split. For a directory, all GRIB files below it are archived, several at the same time; other files are skipped and
/// counted. The fields of a file become visible together when the file is done, and files become visible in their
/// order. A field that already has the same key, even from an earlier file, is masked, and its space is in use until
/// `esker fields purge`.
///
/// Messages without MARS labels, which other centres write, get class=unknown, expver=0001, stream=unknown and
/// type=unknown; --set overrides these.
///
/// A damaged message is reported and skipped; the rest of its file is archived, and the exit status is 1.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields archive --store tank/fields forecast.grib
  esker fields archive --store tank/fields --resume runs/
  esker fields archive --store tank/fields --key class=rd,expver=x,stream=oper,...,param=t map.png

{NAMING}"))]
pub(crate) struct Archive {
    #[command(flatten)]
    what: What,
    /// Archive each file as one field under this key, whatever its content
    #[arg(long, value_name = "NAME=VALUE,...", conflicts_with = "set")]
    key: Option<Key>,
    /// Skip fields that are already archived with the same bytes, to resume an interrupted run
    #[arg(long)]
    resume: bool,
}

/// Index GRIB files in the store, and leave their data in place
///
/// No data is copied, so the files must not be moved or changed. `esker fields wipe` does not remove them.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields adopt --store tank/fields /lustre/archive/2024/

{NAMING}"))]
pub(crate) struct Adopt {
    #[command(flatten)]
    what: What,
}

/// Most stripes of an index.
const STRIPES_MAX: i64 = INDEX_STRIPES_MAX as i64;

/// Arguments that `archive` and `adopt` share.
#[derive(Args)]
struct What {
    #[command(flatten)]
    store: StoreArg,
    /// Schema for a new store, in FDB's language [default: a schema for MARS keys]
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Stripes of the index of each database in a new store, at most 64 [default: one for each node of the pool, at
    /// most 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=STRIPES_MAX))]
    stripes: Option<u32>,
    /// Values that override those of the messages
    #[arg(long, value_name = "NAME=VALUE,...")]
    set: Option<Key>,
    /// Number of files to archive at the same time, at most 64 [default: `jobs` of the
    /// configuration file, or one per processor, at most 8]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=JOBS_MAX))]
    jobs: Option<u16>,
    /// Files, or directories of files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

/// Reads the keys of messages, and applies `--set`.
struct Keys {
    reader: Labelled<Learned<EcCodes>>,
    set: Option<Key>,
}

impl Keys {
    /// Key of a message: read from the message, then changed by `--set`.
    fn identify(&self, message: &[u8]) -> Result<Key> {
        let mut key = self.reader.identify(message)?;
        for (name, value) in self.set.iter().flatten() {
            key.set(name, value)?;
        }
        Ok(key)
    }
}

impl What {
    fn open(&self) -> Result<FieldStore> {
        self.store.open_or_create(self.schema.as_ref(), NewFields { stripes: self.stripes })
    }

    /// Calls `each` with every message of every file, several files at the same time. `what` names the action on the
    /// bar.
    fn messages(
        &self,
        what: &'static str,
        resume: bool,
        each: impl Fn(&mut Entry<'_>, &Path, &Keys, &Message<Vec<u8>>) -> Result<()> + Sync,
    ) -> Result<Answer> {
        let keys = Keys { reader: Labelled(Learned::new(EcCodes::new()?)), set: self.set.clone() };
        self.files(what, resume, |writer, input, progress| {
            let mut entry = Entry { writer, outcome: Outcome::of_messages() };
            let (path, mut messages) = (input.path.as_path(), 0);
            for message in Messages::new(open(path)?) {
                messages += 1;
                let bytes = message.as_ref().map_or(0, |message| message.bytes.len() as u64);
                let entered = message.and_then(|message| {
                    let entered = each(&mut entry, path, &keys, &message);
                    entered.map_err(|error| numbered(&error, message.number, message.offset))
                });
                match entered {
                    // One message cannot be archived: the error is noted, and the others are archived.
                    Err(error) if is_of_input(&error) => entry.outcome.trouble(error),
                    other => other?,
                }
                // Another file has failed, which ends the command.
                if !progress.pass(bytes) {
                    break;
                }
            }
            match messages {
                0 if input.is_named => {
                    let text = "the file contains no GRIB message: --key archives other files";
                    entry.outcome.trouble(Error::new(ErrorKind::Invalid, text));
                }
                0 => entry.outcome.skip(),
                _ => {}
            }
            Ok(entry.outcome)
        })
    }

    /// Calls `work` with every file, several at the same time. `what` names the action on the bar.
    fn files(
        &self,
        what: &'static str,
        resume: bool,
        work: impl Fn(&mut FieldWriter, &Input, &Progress) -> Result<Outcome> + Sync,
    ) -> Result<Answer> {
        let store = self.open()?;
        let inputs = collect(&self.paths)?;
        let configured = configured_jobs().map(|jobs| jobs.min(JOBS_MAX as u16));
        let jobs = self.jobs.or(configured).map_or_else(usual_jobs, usize::from);
        let progress = Progress::new(what, inputs.bytes);
        let plan = Plan { store: &store, files: &inputs.files, jobs, resume, progress, work };
        Ok(plan.run()?.answer(&inputs))
    }
}

/// A file that is being archived.
struct Entry<'a> {
    writer: &'a mut FieldWriter,
    outcome: Outcome,
}

impl Entry<'_> {
    /// The key as the store keeps it: in the order of the schema, with canonical values. Two spellings of a key are one
    /// field.
    fn stored_key(&self, key: &Key) -> Result<Key> {
        Ok(self.writer.store().schema().split(key)?.whole)
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Error::io(format_args!("opening {}", path.display()), &error))
}

/// Refuses to adopt a stream: its bytes are gone once they are read.
fn refuse_stream(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(meta) if !meta.is_file() && !meta.is_dir() => {
            let text = format!("{} is not a file: archive it", path.display());
            Err(Error::new(ErrorKind::Invalid, text))
        }
        _ => Ok(()),
    }
}

/// True if an error concerns one message of the input only. The command reports it and continues with the next message.
/// After other errors, such as a full pool, it stops.
fn is_of_input(error: &Error) -> bool {
    use ErrorKind::{Corrupt, Invalid, KeyTooBig, NotFound, NotSupported, RecordTooBig};
    matches!(error.kind(), Corrupt | Invalid | KeyTooBig | NotFound | NotSupported | RecordTooBig)
}

/// The error with the number of the message and its offset in the file.
fn numbered(error: &Error, number: u64, offset: u64) -> Error {
    Error::new(error.kind(), format!("GRIB message {number} at byte {offset}: {error}"))
}

impl Archive {
    pub(super) fn run(self) -> Result<Answer> {
        match &self.key {
            Some(key) => self.whole_files(key),
            None => self.what.messages("archiving", self.resume, |entry, _, keys, message| {
                Fields::split(&message.bytes).try_for_each(|field| {
                    let field = field?;
                    self.enter(entry, &keys.identify(&field)?, &field)
                })
            }),
        }
    }

    /// Archives a message, unless `--resume` was given and the store has the same one.
    fn enter(&self, entry: &mut Entry<'_>, key: &Key, data: &[u8]) -> Result<()> {
        let stored = entry.stored_key(key)?;
        // An earlier message of the file that has the key must not count in place of this one.
        let may_skip = self.resume && !entry.outcome.has_archived(&stored);
        if may_skip && entry.writer.store().has_same(key, data)? {
            entry.outcome.was_there(stored, data.len() as u64);
            return Ok(());
        }
        entry.writer.archive(key, data)?;
        entry.outcome.archived(stored, data.len() as u64);
        Ok(())
    }

    /// Archives each file as one field with the given key.
    fn whole_files(&self, key: &Key) -> Result<Answer> {
        self.what.files("archiving", self.resume, |writer, input, progress| {
            let path = &input.path;
            let data = std::fs::read(path)
                .map_err(|error| Error::io(format_args!("reading {}", path.display()), &error))?;
            let mut entry = Entry { writer, outcome: Outcome::default() };
            self.enter(&mut entry, key, &data)?;
            progress.pass(data.len() as u64);
            Ok(entry.outcome)
        })
    }
}

impl Adopt {
    pub(super) fn run(self) -> Result<Answer> {
        self.what.paths.iter().try_for_each(|path| refuse_stream(path))?;
        self.what.messages("adopting", false, |entry, path, keys, message| {
            if Fields::split(&message.bytes).nth(1).is_some() {
                let text = "a message with several fields cannot be adopted: archive it";
                return Err(Error::new(ErrorKind::NotSupported, text));
            }
            let key = keys.identify(&message.bytes)?;
            let whole = path.canonicalize();
            let whole = whole
                .map_err(|error| Error::io(format_args!("resolving {}", path.display()), &error))?;
            let bytes = message.bytes.len() as u64;
            let stored = entry.stored_key(&key)?;
            entry.writer.adopt(&key, &whole, message.offset, bytes)?;
            entry.outcome.archived(stored, bytes);
            Ok(())
        })
    }
}
