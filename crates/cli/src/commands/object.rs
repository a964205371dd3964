//! `esker object`: objects of any type.
use crate::args::{ContainerArg, SnapshotArg};
use crate::output::{Answer, Table};
use crate::shapes;
use clap::{Args, Subcommand};
use esker::types::info::OpenMode;
use esker::types::ops::{Anchor, ListLimit};
use esker::types::{Error, ErrorKind, ObjectId, Result};
use esker::{Object, Wait};
use serde_json::{Value, json};

/// Objects or keys that are listed at a time.
const ENTRIES_PER_CALL: usize = 4096;

/// List the objects of a container, of any type, and show one
#[derive(Subcommand)]
pub(crate) enum ObjectCommand {
    List(List),
    Query(Query),
}

/// List the objects of a container
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
  esker object query tank/run1 576742238483139410.1
  esker --json object list tank/run1")]
pub(crate) struct Query {
    #[command(flatten)]
    container: ContainerArg,
    /// Object ID HI.LO, in decimal, or in hexadecimal with 0x
    #[arg(value_name = "OID")]
    oid: String,
    #[command(flatten)]
    snapshot: SnapshotArg,
}

impl ObjectCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        match self {
            Self::List(list) => list.run(),
            Self::Query(query) => query.run(),
        }
    }
}

impl List {
    fn run(self) -> Result<Answer> {
        let container = self.container.open(OpenMode::ReadOnly)?;
        let access = self.snapshot.access(&container)?;
        let mut objects = Vec::new();
        let mut anchor = Anchor::Start;
        while !anchor.is_end() {
            objects.extend(container.list_objects(&mut anchor, ENTRIES_PER_CALL, access).wait()?);
        }
        let response: Vec<_> = objects.into_iter().map(shapes::object).collect();
        let text = table(&response).text();
        Ok(Answer::new(json!(response), text))
    }
}

fn table(objects: &[Value]) -> Table {
    let mut table = Table::new(&["oid", "type", "class"]);
    for object in objects {
        let text = |name: &str| object[name].as_str().unwrap_or("unknown").to_owned();
        table.row(["oid", "type", "class"].map(text));
    }
    table
}

impl Query {
    fn run(self) -> Result<Answer> {
        let oid = ObjectId::parse(&self.oid).ok_or_else(|| {
            let message = format!("{:?} is not an object ID: write HI.LO", self.oid);
            Error::new(ErrorKind::Invalid, message)
        })?;
        let container = self.container.open(OpenMode::ReadOnly)?;
        let access = self.snapshot.access(&container)?;
        let object = container.object(oid);
        let dkeys = count_dkeys(&object, access)?;
        if dkeys == 0 {
            let message =
                format!("there is no object {oid}: `esker object list` shows all objects");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let epoch = object.epoch(access).wait()?;
        let mut response = shapes::object(oid);
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

fn count_dkeys(object: &Object, access: esker::Access<'_>) -> Result<usize> {
    let (mut count, mut anchor) = (0, Anchor::Start);
    while !anchor.is_end() {
        let limit = ListLimit::entries(ENTRIES_PER_CALL);
        count += object.list_dkeys(&mut anchor, limit, access).wait()?.len();
    }
    Ok(count)
}
