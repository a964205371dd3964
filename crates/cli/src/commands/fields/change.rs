//! Commands that move and remove fields. All are dry runs without `--doit`.
use super::select::{NAMING, RequestArg, StoreArg, open_or_create};
use super::shown;
use crate::output::Answer;
use crate::progress::Bar;
use clap::Args;
use esker::types::Result;
use esker::types::info::OpenMode;
use esker_bench::units::Bytes;
use esker_fields::{FieldStore, Listed, Moved, Moving, Purged, Selection, Wiped};
use serde_json::{Value, json};

/// What a command that changes things is told.
#[derive(Args)]
struct Change {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    request: RequestArg,
    /// Do it; without, only say what would be done
    #[arg(long)]
    doit: bool,
    /// Print only the keys, one in a line, for scripts
    #[arg(long)]
    porcelain: bool,
}

impl Change {
    fn open(&self) -> Result<FieldStore> {
        self.store.open(if self.doit { OpenMode::ReadWrite } else { OpenMode::ReadOnly })
    }

    /// The keys for scripts, or one line for people.
    fn answer(&self, keys: &[String], response: Value, done: &str) -> Answer {
        let dry = if self.doit { "" } else { " would be: nothing was changed; --doit does it" };
        let text = match self.porcelain {
            true => keys.join("\n"),
            false => format!("{done}{dry}"),
        };
        Answer::new(response, text)
    }
}

fn note(keys: &mut Vec<String>) -> impl FnMut(&Listed) -> Result<()> + '_ {
    |listed| {
        keys.push(listed.key.to_string());
        Ok(())
    }
}

/// Remove fields and their bytes
///
/// The request must name every value of the databases that it meets. Readers that have found a field may find it gone.
#[derive(Args)]
#[command(after_long_help = NAMING)]
pub(crate) struct Wipe {
    #[command(flatten)]
    change: Change,
}

impl Wipe {
    pub(super) fn run(self) -> Result<Answer> {
        let change = self.change;
        let store = change.open()?;
        let (mut keys, mut all) = (Vec::new(), Wiped::default());
        for selection in change.request.demanded(&store)? {
            let wiped = store.wipe(&selection, change.doit, note(&mut keys))?;
            all.fields += wiped.fields;
            all.masked += wiped.masked;
            all.bytes += wiped.bytes;
            all.databases.extend(wiped.databases);
        }
        let response = json!({
            "done": change.doit, "fields": all.fields, "masked": all.masked, "size_bytes": all.bytes,
            "databases": all.databases.iter().map(shown::key).collect::<Vec<_>>(),
        });
        let done = format!(
            "{} fields and {} masked ones, {}, wiped",
            all.fields,
            all.masked,
            Bytes(all.bytes)
        );
        Ok(change.answer(&keys, response, &done))
    }
}

/// Give back the space of masked fields, and what writers and wipes left that ended early
#[derive(Args)]
#[command(after_long_help = NAMING)]
pub(crate) struct Purge {
    #[command(flatten)]
    change: Change,
}

impl Purge {
    pub(super) fn run(self) -> Result<Answer> {
        let change = self.change;
        // To ask whether a writer lives is a change of sorts.
        let store = change.store.open(OpenMode::ReadWrite)?;
        let (mut keys, mut all) = (Vec::new(), Purged::default());
        for selection in change.request.selections(&store)? {
            let purged = store.purge(&selection, change.doit, note(&mut keys))?;
            all.masked += purged.masked;
            all.unflushed += purged.unflushed;
            all.removed += purged.removed;
            all.bytes += purged.bytes;
        }
        let response = json!({
            "done": change.doit, "masked": all.masked, "unflushed": all.unflushed, "removed": all.removed,
            "size_bytes": all.bytes,
        });
        let (masked, left, bytes) = (all.masked, all.unflushed + all.removed, Bytes(all.bytes));
        let done = format!(
            "{masked} masked fields, and {left} that were left unflushed or half removed, {bytes}, purged"
        );
        Ok(change.answer(&keys, response, &done))
    }
}

/// Move fields to another store, on a pool of any sort
///
/// Part by part they are archived and flushed there, read back and compared, and removed here, with the fields that
/// they mask; what is archived here meanwhile stays. The other store is made with the schema of this one where it is
/// not there. Where this is stopped, also by a crash, nothing is lost, and the same command goes on.
#[derive(Args)]
#[command(after_long_help = NAMING)]
pub(crate) struct Move {
    #[command(flatten)]
    change: Change,
    /// Store to move them to
    #[arg(long, value_name = "POOL/CONT")]
    to: String,
    /// Leave them here as well
    #[arg(long)]
    keep: bool,
    /// Threads that copy
    #[arg(long, short = 'j', value_name = "N", default_value_t = 4)]
    workers: usize,
}

impl Move {
    pub(super) fn run(self) -> Result<Answer> {
        let store = self.change.open()?;
        let (mut keys, mut all, mut total) = (Vec::new(), Moved::default(), 0);
        let selections = self.change.request.demanded(&store)?;
        for selection in &selections {
            // Refused as a whole where it may not be wiped.
            if !self.keep {
                store.wipe(selection, false, |_| Ok(()))?;
            }
            store.visit(selection, false, |listed| {
                total += listed.place.bytes;
                keys.push(listed.key.to_string());
                Ok(true)
            })?;
        }
        match self.change.doit {
            true => self.move_all(&store, &selections, total, &mut all)?,
            false => (all.fields, all.bytes) = (keys.len() as u64, total),
        }
        let word = if self.keep { "copied" } else { "moved" };
        let done = format!("{} fields, {}, {word} to {}", all.fields, Bytes(all.bytes), self.to);
        Ok(self.change.answer(&keys, self.shape(&all), &done))
    }

    fn shape(&self, all: &Moved) -> Value {
        json!({
            "done": self.change.doit, "fields": all.fields, "size_bytes": all.bytes,
            "there": all.there, "left": all.left, "to": self.to,
        })
    }

    fn move_all(
        &self,
        store: &FieldStore,
        selections: &[Selection],
        total: u64,
        all: &mut Moved,
    ) -> Result<()> {
        let other = open_or_create(&self.to, store.schema())?;
        let how = Moving { workers: self.workers, keep: self.keep };
        let (bar, mut done) = (Bar::bytes("moving"), 0);
        for selection in selections {
            let moved = store.move_to(selection, &other, how, |listed| {
                done += listed.place.bytes;
                bar.update(done, total);
                Ok(())
            })?;
            all.fields += moved.fields;
            all.bytes += moved.bytes;
            all.there += moved.there;
            all.left += moved.left;
        }
        Ok(())
    }
}
