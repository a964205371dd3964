//! `esker cont snapshot`: frozen states of a container.
use crate::args::ContainerArg;
use crate::output::{Answer, Table};
use crate::shapes;
use clap::{Args, Subcommand};
use esker::types::info::{OpenMode, SnapshotInfo};
use esker::types::{Epoch, Error, ErrorKind, Result};
use esker::{Container, Wait};
use serde_json::json;

/// Create, list and destroy snapshots
#[derive(Subcommand)]
pub(crate) enum SnapshotCommand {
    Create(Create),
    #[command(visible_alias = "ls")]
    List(List),
    Destroy(Destroy),
}

/// Create a snapshot of a container
///
/// The option --snapshot of `esker kv`, `esker array`, `esker object`, `esker tensor`, `esker cont copy` and
/// `esker mount` reads it.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker cont snapshot create tank/run1 monday
  esker kv get tank/run1 index t2m --snapshot monday
  esker mount tank/home ~/before --snapshot monday")]
pub(crate) struct Create {
    #[command(flatten)]
    container: ContainerArg,
    /// Name of the snapshot [default: none, only its epoch names it]
    #[arg(value_name = "NAME", default_value = "", hide_default_value = true)]
    name: String,
    /// The name, as an option
    #[arg(long, value_name = "NAME", conflicts_with = "name", hide = true)]
    snap: Option<String>,
}

/// List the snapshots of a container, the oldest first
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker cont snapshot list tank/run1")]
pub(crate) struct List {
    #[command(flatten)]
    container: ContainerArg,
}

/// Destroy a snapshot, and free the space that only it uses
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker cont snapshot destroy tank/run1 monday")]
pub(crate) struct Destroy {
    #[command(flatten)]
    container: ContainerArg,
    /// Name or epoch of the snapshot
    #[arg(value_name = "SNAPSHOT", required_unless_present_any = ["snap", "epc"])]
    snapshot: Option<String>,
    /// The name, as an option
    #[arg(long, value_name = "NAME", conflicts_with = "snapshot", hide = true)]
    snap: Option<String>,
    /// The epoch, as an option
    #[arg(long, value_name = "EPOCH", conflicts_with_all = ["snapshot", "snap"], hide = true)]
    epc: Option<u64>,
}

impl SnapshotCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        match self {
            Self::Create(create) => create.run(),
            Self::List(list) => list.run(),
            Self::Destroy(destroy) => destroy.run(),
        }
    }
}

impl Create {
    fn run(mut self) -> Result<Answer> {
        self.name = self.snap.take().unwrap_or(self.name);
        let container = self.container.open(OpenMode::ReadWrite)?;
        let existing = container.snapshots().wait()?;
        if !self.name.is_empty() && existing.iter().any(|snapshot| snapshot.name == self.name) {
            return Err(self.name_taken_error());
        }
        let epoch = container.create_snapshot(&self.name).wait()?;
        let snapshot = SnapshotInfo { epoch, name: self.name };
        let text = format!("created snapshot at epoch {}", epoch.0);
        Ok(Answer::confirmation(shapes::snapshot(&snapshot), text))
    }

    /// The error that names the existing snapshot and the remedy.
    fn name_taken_error(&self) -> Error {
        let (pool, container) = (&self.container.pool.pool, &self.container.container);
        let message = format!(
            "container {container} already has a snapshot {:?}: choose another name, or remove it with \
             `esker cont snapshot destroy {pool} {container} {}`",
            self.name, self.name
        );
        Error::new(ErrorKind::Exists, message)
    }
}

impl List {
    fn run(self) -> Result<Answer> {
        let snapshots = self.container.open(OpenMode::ReadOnly)?.snapshots().wait()?;
        let mut table = Table::new(&[">epoch", "created", "name"]);
        for snapshot in &snapshots {
            let name = snapshot.name.clone();
            table.row([snapshot.epoch.0.to_string(), shapes::utc(snapshot.epoch), name]);
        }
        let response: Vec<_> = snapshots.iter().map(shapes::snapshot).collect();
        Ok(Answer::listing(json!(response), table, || {
            let (pool, container) = (&self.container.pool.pool, &self.container.container);
            format!(
                "container {container} has no snapshots: `esker cont snapshot create {pool} {container} NAME` creates one"
            )
        }))
    }
}

impl Destroy {
    fn run(self) -> Result<Answer> {
        let container = self.container.open(OpenMode::ReadWrite)?;
        let epoch = self.find(&container)?;
        container.destroy_snapshot(epoch).wait()?;
        Ok(Answer::confirmation(
            json!({"epoch": epoch.0}),
            format!("destroyed snapshot at epoch {}", epoch.0),
        ))
    }

    /// The epoch of the snapshot. `--snap` finds names only and `--epc` epochs only, because a snapshot may be named
    /// like the epoch of another one.
    fn find(&self, container: &Container) -> Result<Epoch> {
        if let Some(name) = &self.snapshot {
            return container.find_snapshot(name).wait();
        }
        let is_it = |snapshot: &&SnapshotInfo| match (&self.snap, self.epc) {
            (Some(name), _) => snapshot.name == *name,
            (None, epoch) => Some(snapshot.epoch.0) == epoch,
        };
        let all = container.snapshots().wait()?;
        let found = all.iter().rev().find(is_it);
        found.map(|snapshot| snapshot.epoch).ok_or_else(|| self.missing_error())
    }

    #[cold]
    fn missing_error(&self) -> Error {
        let (pool, container) = (&self.container.pool.pool, &self.container.container);
        let named = match (&self.snap, self.epc) {
            (Some(name), _) => format!("{name:?}"),
            (None, epoch) => format!("at epoch {}", epoch.unwrap_or_default()),
        };
        let message = format!(
            "container {container} has no snapshot {named}: `esker cont snapshot list {pool} {container}` lists its snapshots"
        );
        Error::new(ErrorKind::NotFound, message)
    }
}
