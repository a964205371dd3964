//! `esker cont snapshot`.
use crate::args::ContainerArg;
use crate::output::Answer;
use crate::{shapes, when};
use clap::{Args, Subcommand};
use esker::Wait;
use esker::types::Result;
use esker::types::info::{OpenMode, SnapshotInfo};
use esker_bench::table::Table;
use serde_json::json;

/// Freeze the state of a container, and list and drop what is frozen
#[derive(Subcommand)]
pub(crate) enum SnapshotCommand {
    Create(Create),
    List(List),
    Destroy(Destroy),
}

/// Freeze the state of a container
///
/// Read it with --snapshot NAME of `esker kv`, `esker array` and `esker object`.
#[derive(Args)]
pub(crate) struct Create {
    #[command(flatten)]
    container: ContainerArg,
    /// Name of the snapshot
    #[arg(value_name = "NAME", default_value = "", hide_default_value = true)]
    name: String,
}

/// List the snapshots of a container, oldest first
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    container: ContainerArg,
}

/// Drop a snapshot and what only it kept
#[derive(Args)]
pub(crate) struct Destroy {
    #[command(flatten)]
    container: ContainerArg,
    /// Name or epoch of the snapshot
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,
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
    fn run(self) -> Result<Answer> {
        let container = self.container.open(OpenMode::ReadWrite)?;
        let epoch = container.create_snapshot(&self.name).wait()?;
        let snapshot = SnapshotInfo { epoch, name: self.name };
        let text = format!("snapshot at epoch {}", epoch.0);
        Ok(Answer::new(shapes::snapshot(&snapshot), text))
    }
}

impl List {
    fn run(self) -> Result<Answer> {
        let snapshots = self.container.open(OpenMode::ReadOnly)?.snapshots().wait()?;
        let mut table = Table::new(&[">epoch", "created", "name"]);
        for snapshot in &snapshots {
            let name = snapshot.name.clone();
            table.row([snapshot.epoch.0.to_string(), when::utc(snapshot.epoch), name]);
        }
        let response: Vec<_> = snapshots.iter().map(shapes::snapshot).collect();
        Ok(Answer::new(json!(response), table.to_string()))
    }
}

impl Destroy {
    fn run(self) -> Result<Answer> {
        let container = self.container.open(OpenMode::ReadWrite)?;
        let epoch = container.find_snapshot(&self.snapshot).wait()?;
        container.destroy_snapshot(epoch).wait()?;
        Ok(Answer::new(
            json!({"epoch": epoch.0}),
            format!("the snapshot at epoch {} is gone", epoch.0),
        ))
    }
}
