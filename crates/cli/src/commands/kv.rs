//! `esker kv`: the values of Key-Values.
use super::files;
use crate::args::{NAMING, ObjectArg, SnapshotArg};
use crate::output::Answer;
use crate::shapes;
use clap::{Args, Subcommand};
use esker::types::info::OpenMode;
use esker::types::ops::{Anchor, ListLimit};
use esker::types::{Error, ErrorKind, ObjectType, Result};
use esker::{Access, Container, Kv, Wait};
use serde_json::json;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Keys that are listed at a time.
const KEYS_PER_CALL: usize = 4096;

/// Store, read, list and remove the values of a Key-Value object
#[derive(Subcommand)]
pub(crate) enum KvCommand {
    Put(Put),
    Get(Get),
    #[command(visible_alias = "ls")]
    List(List),
    Rm(Remove),
}

/// Store a value under a key
///
/// The Key-Value is created with its first key.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker kv put tank/run1 index t2m 'step 0'
  esker kv put tank/run1 index grid @grid.json
  date | esker kv put tank/run1 index started

{NAMING}"))]
pub(crate) struct Put {
    #[command(flatten)]
    kv: ObjectArg,
    /// Key
    #[arg(value_name = "KEY")]
    key: String,
    /// Value: text, @FILE for the content of a file (@@ for text that begins with @), or - for standard input
    #[arg(value_name = "VALUE", default_value = "-", allow_negative_numbers = true)]
    value: String,
    /// Fail if the key already exists
    #[arg(long, conflicts_with = "update")]
    insert: bool,
    /// Fail if the key does not exist
    #[arg(long)]
    update: bool,
}

/// Print the value of a key
///
/// The bytes are printed as they are. On a terminal, a newline follows, and a value that is not text is refused.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker kv get tank/run1 index t2m
  esker kv get tank/run1 index t2m --snapshot monday
  esker kv get tank/run1 index grid -o grid.json

{NAMING}"))]
pub(crate) struct Get {
    #[command(flatten)]
    kv: ObjectArg,
    /// Key
    #[arg(value_name = "KEY")]
    key: String,
    /// File, or - for standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    snapshot: SnapshotArg,
}

/// List the keys of a Key-Value
///
/// `esker object list` lists the Key-Values of a container.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker kv list tank/run1 index

{NAMING}"))]
pub(crate) struct List {
    #[command(flatten)]
    kv: ObjectArg,
    #[command(flatten)]
    snapshot: SnapshotArg,
}

/// Remove a key, or all of them
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker kv rm tank/run1 index t2m
  esker kv rm tank/run1 index --all

{NAMING}"))]
pub(crate) struct Remove {
    #[command(flatten)]
    kv: ObjectArg,
    /// Key
    #[arg(value_name = "KEY", required_unless_present = "all")]
    key: Option<String>,
    /// Remove all keys
    #[arg(long, conflicts_with = "key")]
    all: bool,
}

impl KvCommand {
    pub(crate) fn run(self, json: bool) -> Result<Answer> {
        match self {
            Self::Put(put) => put.run(),
            Self::Get(get) => get.run(json),
            Self::List(list) => list.run(),
            Self::Rm(remove) => remove.run(),
        }
    }
}

/// Opens the container of a Key-Value for writing, and the Key-Value.
fn open(kv: &ObjectArg) -> Result<(Container, Kv)> {
    let (container, oid) = kv.open(OpenMode::ReadWrite, ObjectType::KvHashed)?;
    let kv = container.kv(oid)?;
    Ok((container, kv))
}

impl Put {
    fn run(self) -> Result<Answer> {
        let value = files::value(&self.value)?;
        let (container, kv) = open(&self.kv)?;
        let cond = match (self.insert, self.update) {
            (true, _) => Kv::INSERT,
            (_, true) => Kv::UPDATE,
            _ => esker::types::ops::Cond::NONE,
        };
        let key = self.key.as_bytes();
        let put = kv.put(key, &value, cond, Access::Latest).wait();
        put.map_err(|error| explain(error, &self.key, &self.kv, &kv, Access::Latest))?;
        // Listings show the name from now on.
        self.kv.record(&container)?;
        let response =
            json!({"oid": kv.oid().to_string(), "key": self.key, "size_bytes": value.len()});
        Ok(Answer::new(response, ""))
    }
}

/// Names the key that an error is about, or the Key-Value if there is none.
fn explain(error: Error, key: &str, named: &ObjectArg, kv: &Kv, access: Access<'_>) -> Error {
    let object = &named.object;
    let message = match error.kind() {
        ErrorKind::Exists => {
            format!("{object} already has a key {key:?}: replace its value without --insert")
        }
        ErrorKind::NotFound if is_empty(kv, access) => return named.not_found_error("Key-Value"),
        ErrorKind::NotFound => {
            let (pool, container) = (&named.container.pool.pool, &named.container.container);
            format!(
                "{object} has no key {key:?}: `esker kv list {pool} {container} {object}` shows its keys"
            )
        }
        _ => return error,
    };
    Error::new(error.kind(), message)
}

/// True if there are no keys: then there is no such object.
fn is_empty(kv: &Kv, access: Access<'_>) -> bool {
    let first = kv.list(&mut Anchor::Start, ListLimit::entries(1), access).wait();
    first.is_ok_and(|keys| keys.is_empty())
}

impl Get {
    fn run(self, json: bool) -> Result<Answer> {
        let (container, oid, access) = self.kv.open_at(&self.snapshot, ObjectType::KvHashed)?;
        let kv = container.kv(oid)?;
        let value = kv.get(self.key.as_bytes(), access).wait()?;
        let missing = || explain(ErrorKind::NotFound.into(), &self.key, &self.kv, &kv, access);
        let mut value = value.ok_or_else(missing)?;
        let response = json!({
            "oid": kv.oid().to_string(),
            "key": self.key,
            "size_bytes": value.len(),
            "value": shapes::bytes(&value),
        });
        if self.output != Path::new("-") {
            let mut sink = files::Sink::create(&self.output)?;
            sink.write(&value)?;
            sink.finish()?;
            return Ok(Answer::new(response, ""));
        }
        if !json && std::io::stdout().is_terminal() {
            if files::is_binary(&value) {
                return Err(files::binary(files::WITH_OPTION));
            }
            value.push(b'\n');
        }
        Ok(Answer::bytes(response, value))
    }
}

impl List {
    fn run(self) -> Result<Answer> {
        let (container, oid, access) = self.kv.open_at(&self.snapshot, ObjectType::KvHashed)?;
        let kv = container.kv(oid)?;
        let (mut keys, mut lines) = (Vec::new(), Vec::new());
        let mut anchor = Anchor::Start;
        while !anchor.is_end() {
            let batch = kv.list(&mut anchor, ListLimit::entries(KEYS_PER_CALL), access).wait()?;
            keys.extend(batch.iter().map(shapes::bytes));
            lines.extend(batch.iter().map(shapes::readable));
        }
        if keys.is_empty() {
            return Err(self.kv.not_found_error("Key-Value"));
        }
        let response = json!({"oid": kv.oid().to_string(), "keys": keys});
        Ok(Answer::new(response, lines.join("\n")))
    }
}

impl Remove {
    fn run(self) -> Result<Answer> {
        let (container, kv) = open(&self.kv)?;
        match &self.key {
            Some(key) => {
                let removed = kv.remove(key.as_bytes(), Kv::REMOVE, Access::Latest).wait();
                removed.map_err(|error| explain(error, key, &self.kv, &kv, Access::Latest))?;
            }
            None if is_empty(&kv, Access::Latest) => {
                return Err(self.kv.not_found_error("Key-Value"));
            }
            None => kv.destroy(Access::Latest).wait()?,
        }
        // Without keys there is no such object, so listings must not show its name.
        if is_empty(&kv, Access::Latest) {
            container.forget_name(&self.kv.object).wait()?;
        }
        Ok(Answer::new(json!({"oid": kv.oid().to_string(), "key": self.key}), ""))
    }
}
