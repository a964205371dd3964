//! `esker fields archive` and `adopt`.
use super::files::{Outcome, collect};
use super::select::{NAMING, StoreArg};
use super::turns::{JOBS_MAX, Plan, Progress, usual_jobs};
use crate::output::Answer;
use clap::Args;
use esker::types::{Error, ErrorKind, Result};
use esker_fields::grib::{EcCodes, Fields, Identify, Labelled, Learned, Message, Messages};
use esker_fields::{FieldStore, FieldWriter, Key};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Archive GRIB files, or any bytes under a key
///
/// Each field of a GRIB file becomes one of the store, under the key that ecCodes tells of it; a message of several
/// fields is taken apart. Of directories all files
/// below them are archived, several at once. What a file holds becomes visible at its end, all at one moment, and files in
/// their order; a field that was there under the same key, also from a file before, is masked and stays until
/// `esker fields purge`.
///
/// Messages without MARS labels, as other centres write them, are filed under class=unknown, expver=0001,
/// stream=unknown and type=unknown; --set gives them others.
///
/// A damaged message is told and left out; the rest of its file is archived, and the exit status is 1.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields archive --store tank/fields forecast.grib
  esker fields archive --store tank/fields --resume runs/
  esker fields archive --store tank/fields --key class=rd,expver=x,stream=oper,...,param=t map.png

{NAMING}"))]
pub(crate) struct Archive {
    #[command(flatten)]
    what: What,
    /// Archive each file as one field of this key, whatever is in it
    #[arg(long, value_name = "NAME=VALUE,...", conflicts_with = "set")]
    key: Option<Key>,
    /// Leave alone what is there with the same bytes, to go on where a run was stopped
    #[arg(long)]
    resume: bool,
}

/// Enter GRIB files in the store and leave their bytes where they are
///
/// Nothing is copied: the files must stay where and as they are. `esker fields wipe` does not touch them.
#[derive(Args)]
#[command(after_long_help = NAMING)]
pub(crate) struct Adopt {
    #[command(flatten)]
    what: What,
}

/// What is archived where.
#[derive(Args)]
struct What {
    #[command(flatten)]
    store: StoreArg,
    /// Schema of a store that is made, in FDB's language [default: one for MARS keys]
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Values that go before those of the messages
    #[arg(long, value_name = "NAME=VALUE,...")]
    set: Option<Key>,
    /// Files archived at once, at most 64 [default: as many as there are processors, up to 8]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=JOBS_MAX))]
    jobs: Option<u16>,
    /// Files, and directories of files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

/// What a message is, with the values that were set.
struct Keys {
    told: Labelled<Learned<EcCodes>>,
    set: Option<Key>,
}

impl Keys {
    fn of(&self, message: &[u8]) -> Result<Key> {
        let mut key = self.told.identify(message)?;
        for (name, value) in self.set.iter().flatten() {
            key.set(name, value)?;
        }
        Ok(key)
    }
}

impl What {
    fn open(&self) -> Result<FieldStore> {
        self.store.open_or_create(self.schema.as_ref())
    }

    /// Calls `each` with every message of every file, several files at once.
    fn messages(
        &self,
        what: &'static str,
        resume: bool,
        each: impl Fn(&mut Entry<'_>, &Path, &Keys, &Message<Vec<u8>>) -> Result<()> + Sync,
    ) -> Result<Answer> {
        let keys = Keys { told: Labelled(Learned::new(EcCodes::new()?)), set: self.set.clone() };
        self.files(what, resume, |writer, path, progress| {
            let mut entry = Entry { writer, outcome: Outcome::default() };
            let mut messages = 0;
            for message in Messages::new(open(path)?) {
                messages += 1;
                let bytes = message.as_ref().map_or(0, |message| message.bytes.len() as u64);
                let entered = message.and_then(|message| {
                    let entered = each(&mut entry, path, &keys, &message);
                    entered.map_err(|error| numbered(&error, message.number, message.offset))
                });
                match entered {
                    Err(error) if is_of_input(&error) => entry.outcome.trouble(error),
                    other => other?,
                }
                if !progress.pass(bytes) {
                    break;
                }
            }
            if messages == 0 {
                let text = "there is no GRIB message in it";
                entry.outcome.trouble(Error::new(ErrorKind::Invalid, text));
            }
            Ok(entry.outcome)
        })
    }

    /// Calls `work` with every file, several at once.
    fn files(
        &self,
        what: &'static str,
        resume: bool,
        work: impl Fn(&mut FieldWriter, &Path, &Progress) -> Result<Outcome> + Sync,
    ) -> Result<Answer> {
        let store = self.open()?;
        let (files, bytes) = collect(&self.paths)?;
        let jobs = self.jobs.map_or_else(usual_jobs, usize::from);
        let progress = Progress::new(what, bytes);
        let plan = Plan { store: &store, files: &files, jobs, resume, progress, work };
        Ok(plan.run()?.answer(files.len()))
    }
}

/// What is being archived of a file.
struct Entry<'a> {
    writer: &'a mut FieldWriter,
    outcome: Outcome,
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Error::io(format_args!("opening {}", path.display()), &error))
}

/// What is wrong with a message does not keep others from being archived; a full pool does.
fn is_of_input(error: &Error) -> bool {
    use ErrorKind::{Corrupt, Invalid, KeyTooBig, NotFound, NotSupported, RecordTooBig};
    matches!(error.kind(), Corrupt | Invalid | KeyTooBig | NotFound | NotSupported | RecordTooBig)
}

fn numbered(error: &Error, number: u64, offset: u64) -> Error {
    Error::new(error.kind(), format!("GRIB message {number} at byte {offset}: {error}"))
}

impl Archive {
    pub(super) fn run(self) -> Result<Answer> {
        match &self.key {
            Some(key) => self.whole_files(key),
            None => self.what.messages("archiving", self.resume, |entry, _, keys, message| {
                Fields::of(&message.bytes).try_for_each(|field| {
                    let field = field?;
                    self.enter(entry, keys.of(&field)?, &field)
                })
            }),
        }
    }

    fn enter(&self, entry: &mut Entry<'_>, key: Key, data: &[u8]) -> Result<()> {
        if self.resume && entry.writer.store().has_same(&key, data)? {
            entry.outcome.was_there(key, data.len() as u64);
            return Ok(());
        }
        entry.writer.archive(&key, data)?;
        entry.outcome.archived(key, data.len() as u64);
        Ok(())
    }

    fn whole_files(&self, key: &Key) -> Result<Answer> {
        self.what.files("archiving", self.resume, |writer, path, progress| {
            let data = std::fs::read(path)
                .map_err(|error| Error::io(format_args!("reading {}", path.display()), &error))?;
            let mut entry = Entry { writer, outcome: Outcome::default() };
            self.enter(&mut entry, key.clone(), &data)?;
            progress.pass(data.len() as u64);
            Ok(entry.outcome)
        })
    }
}

impl Adopt {
    pub(super) fn run(self) -> Result<Answer> {
        self.what.messages("adopting", false, |entry, path, keys, message| {
            if Fields::of(&message.bytes).nth(1).is_some() {
                let text = "it holds several fields, which share what it says of them: archive it";
                return Err(Error::new(ErrorKind::NotSupported, text));
            }
            let key = keys.of(&message.bytes)?;
            let whole = path.canonicalize();
            let whole = whole
                .map_err(|error| Error::io(format_args!("finding {}", path.display()), &error))?;
            let bytes = message.bytes.len() as u64;
            entry.writer.adopt(&key, &whole, message.offset, bytes)?;
            entry.outcome.archived(key, bytes);
            Ok(())
        })
    }
}
