//! `esker object`: objects of any type.
use crate::args::{AnyObjectArg, ContainerArg, SnapshotArg};
use crate::output::{Answer, Table};
use crate::shapes;
use clap::{Args, Subcommand};
use esker::types::info::OpenMode;
use esker::types::ops::{Anchor, Cond, ListLimit};
use esker::types::{Error, ErrorKind, ObjectId, Result};
use esker::{Access, Container, Object, ObjectNames, Wait, is_name_catalog};
use serde_json::{Value, json};

/// Objects or keys that are listed at a time.
const ENTRIES_PER_CALL: usize = 4096;

/// List the objects of a container, of any type, show one, and remove one
#[derive(Subcommand)]
pub(crate) enum ObjectCommand {
    #[command(visible_alias = "ls")]
    List(List),
    Query(Query),
    Rm(Remove),
}

/// List the objects of a container
///
/// An object has a name in the listing if `esker kv` or `esker array` created it by name.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker object list tank/run1")]
pub(crate) struct List {
    #[command(flatten)]
    container: ContainerArg,
    #[command(flatten)]
    snapshot: SnapshotArg,
}

/// Show an object: its type, class, number of dkeys and time of change
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker object query tank/run1 index
  esker object query tank/run1 576742238483139410.1
  esker --json object list tank/run1")]
pub(crate) struct Query {
    #[command(flatten)]
    object: AnyObjectArg,
    #[command(flatten)]
    snapshot: SnapshotArg,
}

/// Remove an object of any type, with all it holds
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker object rm tank/run1 field-1
  esker object rm tank/run1 576742238483139410.1")]
pub(crate) struct Remove {
    #[command(flatten)]
    object: AnyObjectArg,
}

impl ObjectCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        match self {
            Self::List(list) => list.run(),
            Self::Query(query) => query.run(),
            Self::Rm(remove) => remove.run(),
        }
    }
}

impl List {
    fn run(self) -> Result<Answer> {
        let container = self.container.open(OpenMode::ReadOnly)?;
        let access = self.snapshot.access(&container)?;
        list(&container, access, |_| true)
    }
}

/// The objects of a container that are `wanted`, each with its name if that is known.
pub(super) fn list(
    container: &Container,
    access: Access<'_>,
    wanted: impl Fn(ObjectId) -> bool,
) -> Result<Answer> {
    let (mut objects, mut anchor) = (Vec::new(), Anchor::Start);
    while !anchor.is_end() {
        objects.extend(container.list_objects(&mut anchor, ENTRIES_PER_CALL, access).wait()?);
    }
    let names = container.object_names(access).wait()?;
    let shown = objects.into_iter().filter(|oid| !is_name_catalog(*oid) && wanted(*oid));
    let response: Vec<_> = shown.map(|oid| described(oid, &names)).collect();
    let table = table(&response);
    Ok(Answer::listing(json!(response), table, || "the container has no such objects".to_owned()))
}

/// An object as JSON, with its name.
fn described(oid: ObjectId, names: &ObjectNames) -> Value {
    let mut object = shapes::object(oid);
    object["name"] = json!(names.name_of(oid));
    object
}

/// Formats a listing of objects as a table.
fn table(objects: &[Value]) -> Table {
    let mut table = Table::new(&["oid", "type", "class", "name"]);
    for object in objects {
        let text = |name: &str| object[name].as_str().unwrap_or("unknown").to_owned();
        let name = object["name"].as_str().unwrap_or("-").escape_debug().to_string();
        table.row(["oid", "type", "class"].map(text).into_iter().chain([name]));
    }
    table
}

impl AnyObjectArg {
    /// The object of this ID or name.
    fn find(&self, container: &Container, access: Access<'_>) -> Result<ObjectId> {
        match container.objects_of(&self.object, access).wait()?[..] {
            [only] => Ok(only),
            [] => Err(self.not_found_error()),
            ref several => Err(self.several_objects_error(several)),
        }
    }

    #[cold]
    fn not_found_error(&self) -> Error {
        let (pool, container) = (&self.container.pool.pool, &self.container.container);
        let message = format!(
            "container {container} has no object {:?}: `esker object list {pool} {container}` shows its objects",
            self.object
        );
        Error::new(ErrorKind::NotFound, message)
    }

    #[cold]
    fn several_objects_error(&self, found: &[ObjectId]) -> Error {
        let ids: Vec<_> = found.iter().map(ToString::to_string).collect();
        let message = format!(
            "container {} has several objects {:?}: give one of their IDs, {}",
            self.container.container,
            self.object,
            ids.join(", ")
        );
        Error::new(ErrorKind::Invalid, message)
    }
}

impl Query {
    fn run(self) -> Result<Answer> {
        let container = self.object.container.open(OpenMode::ReadOnly)?;
        let access = self.snapshot.access(&container)?;
        let oid = self.object.find(&container, access)?;
        let object = container.object(oid);
        let dkeys = count_dkeys(&object, access)?;
        let epoch = object.epoch(access).wait()?;
        let mut response = described(oid, &container.object_names(access).wait()?);
        response["dkeys"] = json!(dkeys);
        response["changed"] = json!(shapes::utc(epoch));
        response["epoch"] = json!(epoch.0);
        let text = format!(
            "{}\n\ndkeys    {dkeys}\nchanged  {}",
            table(std::slice::from_ref(&response)).text(),
            shapes::utc(epoch)
        );
        Ok(Answer::new(response, text))
    }
}

impl Remove {
    fn run(self) -> Result<Answer> {
        let container = self.object.container.open(OpenMode::ReadWrite)?;
        let oid = self.object.find(&container, Access::Latest)?;
        container.object(oid).punch(Cond::NONE, Access::Latest).wait()?;
        container.forget_name(&self.object.object).wait()?;
        Ok(Answer::new(json!({"oid": oid.to_string()}), ""))
    }
}

/// The number of dkeys of `object`, found by listing them.
fn count_dkeys(object: &Object, access: Access<'_>) -> Result<usize> {
    let (mut count, mut anchor) = (0, Anchor::Start);
    while !anchor.is_end() {
        let limit = ListLimit::entries(ENTRIES_PER_CALL);
        count += object.list_dkeys(&mut anchor, limit, access).wait()?.len();
    }
    Ok(count)
}
