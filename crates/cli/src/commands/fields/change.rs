//! `esker fields wipe`, `purge` and `move`. All are dry runs without `--doit`.
use super::select::{NAMING, RequestArg, StoreArg, open_or_create};
use crate::args::JobsArg;
use crate::commands::fields as shown;
use crate::output::{Answer, Bar};
use crate::shapes::count;
use crate::units::Bytes;
use clap::Args;
use esker::types::Result;
use esker::types::info::OpenMode;
use esker_fields::{FieldStore, Listed, Moved, Moving, NewFields, Purged, Selection, Wiped};
use serde_json::{Value, json};

/// Threads that move fields, unless the user sets another number.
const WORKERS: usize = 4;

/// Arguments that these commands share.
#[derive(Args)]
struct Change {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    request: RequestArg,
    /// Make the changes [default: only report what would be done]
    #[arg(long)]
    doit: bool,
    /// Print only the keys, one per line, for scripts
    #[arg(long)]
    porcelain: bool,
}

impl Change {
    fn open(&self) -> Result<FieldStore> {
        self.store.open(if self.doit { OpenMode::ReadWrite } else { OpenMode::ReadOnly })
    }

    /// The answer: the keys for scripts, or one line for people.
    fn answer(&self, keys: &[String], response: Value, verb: Verb, what: &str) -> Answer {
        let text = match (self.porcelain, self.doit) {
            (true, _) => keys.join("\n"),
            (false, true) => format!("{} {what}", verb.past),
            (false, false) => {
                format!("would {} {what}; nothing was changed: --doit does it", verb.present)
            }
        };
        Answer::new(response, text)
    }
}

/// Verb for the action of a command, in two tenses.
struct Verb {
    present: &'static str,
    past: &'static str,
}

/// Returns a visitor of a listing that appends the key of each field to `keys`.
fn note(keys: &mut Vec<String>) -> impl FnMut(&Listed) -> Result<()> + '_ {
    |listed| {
        keys.push(listed.key.to_string());
        Ok(())
    }
}

/// Remove fields and their bytes
///
/// The request must give every value of the keys of the databases that it selects from. A reader that has found a field
/// may then fail to read it.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields wipe -s tank/fields class=od,expver=1,stream=oper,date=20240610,time=0
  esker fields wipe -s tank/fields --from request.txt --doit

{NAMING}"))]
pub(crate) struct Wipe {
    #[command(flatten)]
    change: Change,
}

impl Wipe {
    pub(super) fn run(self) -> Result<Answer> {
        let change = self.change;
        let store = change.open()?;
        let (mut keys, mut all) = (Vec::new(), Wiped::default());
        let selections = change.request.required_selections(&store)?;
        // Refuses all requests before the first is carried out.
        selections.iter().try_for_each(|selection| store.check_wipe(selection))?;
        for selection in selections {
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
        let what =
            format!("{}, {} masked, {}", count(all.fields, "field"), all.masked, Bytes(all.bytes));
        Ok(change.answer(&keys, response, Verb { present: "wipe", past: "wiped" }, &what))
    }
}

/// Free the space of masked fields, and of interrupted archives and wipes
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields purge -s tank/fields --doit

{NAMING}"))]
pub(crate) struct Purge {
    #[command(flatten)]
    change: Change,
}

impl Purge {
    pub(super) fn run(self) -> Result<Answer> {
        let change = self.change;
        // Finding out whether a writer is alive requires write access.
        let store = change.store.open(OpenMode::ReadWrite)?;
        let (mut keys, mut all) = (Vec::new(), Purged::default());
        for (number, selection) in change.request.selections(&store)?.iter().enumerate() {
            let note = note(&mut keys);
            let purged = match number {
                0 => store.purge(selection, change.doit, note)?,
                _ => store.purge_masked(selection, change.doit, note)?,
            };
            all.masked += purged.masked;
            all.unflushed += purged.unflushed;
            all.removed += purged.removed;
            all.bytes += purged.bytes;
        }
        let response = json!({
            "done": change.doit, "masked": all.masked, "unflushed": all.unflushed, "removed": all.removed,
            "size_bytes": all.bytes,
        });
        // `removed` counts the fields that an interrupted removal has left.
        let (masked, leftovers) = (all.masked, all.unflushed + all.removed);
        let bytes = Bytes(all.bytes);
        let what = format!(
            "{masked} masked fields and {leftovers} unflushed or partly removed ones, {bytes}"
        );
        Ok(change.answer(&keys, response, Verb { present: "purge", past: "purged" }, &what))
    }
}

/// Move fields to another store, on a pool of any kind
///
/// Fields are moved in batches: each batch is archived and flushed in the other store, read back and compared, and then
/// removed here together with the fields that it masks. Fields that are archived here meanwhile stay. The other store
/// is created with the schema of this one if it does not exist. If the move is interrupted, even by a crash, nothing is
/// lost, and the same command resumes it.
///
/// The request must give every value of the keys of the databases that it selects from, unless the fields are kept.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields move -s fast/fields --to rados:archive/fields class=od,date=20240610 --doit

{NAMING}"))]
pub(crate) struct Move {
    #[command(flatten)]
    change: Change,
    /// Store to move the fields to
    #[arg(long, value_name = "POOL/CONT")]
    to: String,
    /// Keep the fields in this store too
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    jobs: JobsArg,
}

impl Move {
    pub(super) fn run(self) -> Result<Answer> {
        let store = self.change.open()?;
        let (mut keys, mut all, mut total) = (Vec::new(), Moved::default(), 0);
        let selections = self.change.request.required_selections(&store)?;
        for selection in &selections {
            // Refuses the whole move before any of it.
            if !self.keep {
                store.check_move(selection)?;
            }
            store.visit(selection, false, |listed| {
                total += listed.location.bytes;
                keys.push(listed.key.to_string());
                Ok(true)
            })?;
        }
        match self.change.doit {
            true => self.move_all(&store, &selections, total, &mut all)?,
            false => (all.fields, all.bytes) = (keys.len() as u64, total),
        }
        let verb = match self.keep {
            true => Verb { present: "copy", past: "copied" },
            false => Verb { present: "move", past: "moved" },
        };
        let what = format!("{}, {}, to {}", count(all.fields, "field"), Bytes(all.bytes), self.to);
        Ok(self.change.answer(&keys, self.shape(&all), verb, &what))
    }

    /// The answer as JSON.
    fn shape(&self, all: &Moved) -> Value {
        json!({
            "done": self.change.doit, "fields": all.fields, "size_bytes": all.bytes,
            "there": all.there, "left": all.left, "to": self.to,
        })
    }

    /// Moves the fields of all selections to the store `--to`, which is created if it does not exist.
    fn move_all(
        &self,
        store: &FieldStore,
        selections: &[Selection],
        total: u64,
        all: &mut Moved,
    ) -> Result<()> {
        let other = open_or_create(&self.to, store.schema(), NewFields::default())?;
        let how = Moving { workers: self.jobs.given().unwrap_or(WORKERS), keep: self.keep };
        let (bar, mut done) = (Bar::bytes("moving"), 0);
        for selection in selections {
            let moved = store.move_to(selection, &other, how, |listed| {
                done += listed.location.bytes;
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
