//! `esker cont`.
use super::attributes::AttributeCommand;
use super::copy::Copy;
use super::drain::Drain;
use super::posix::Layout;
use super::properties::{GetProp, SetProp};
use super::snapshot::SnapshotCommand;
use crate::args::{ContainerArg, PoolArg};
use crate::output::Answer;
use crate::{shapes, when};
use clap::{Args, Subcommand, ValueEnum};
use dfs::Dfs;
use esker::Wait;
use esker::backend::NewContainer;
use esker::types::info::{ContainerInfo, OpenMode};
use esker::types::{Checksum, Result};
use esker_bench::table::Table;
use serde_json::json;

/// Make, look at and remove containers, their snapshots, properties and attributes
#[derive(Subcommand)]
pub(crate) enum ContCommand {
    Create(Create),
    List(List),
    Query(Query),
    Destroy(Destroy),
    #[command(visible_alias = "clone")]
    Copy(Copy),
    Drain(Drain),
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    GetProp(GetProp),
    SetProp(SetProp),
    #[command(flatten)]
    Attribute(AttributeCommand<ContainerArg>),
}

/// Make a container
///
/// With --type posix it holds a file system: see `esker fs`.
#[derive(Args)]
pub(crate) struct Create {
    #[command(flatten)]
    pool: PoolArg,
    /// Label of the container [default: none, it is known by its UUID]
    #[arg(value_name = "LABEL")]
    name: Option<String>,
    /// The label, in another place
    #[arg(long, value_name = "LABEL", conflicts_with = "name", hide = true)]
    label: Option<String>,
    /// Checksum over the data [default: crc32c]
    #[arg(long, value_name = "SUM")]
    checksum: Option<ChecksumArg>,
    #[command(flatten)]
    layout: Layout,
}

/// Checksum over the data of a container.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ChecksumArg {
    /// CRC-32C
    Crc32c,
    /// CRC-64/NVME
    Crc64,
    /// None: damage goes unnoticed
    Off,
}

impl From<ChecksumArg> for Checksum {
    fn from(checksum: ChecksumArg) -> Self {
        match checksum {
            ChecksumArg::Crc32c => Self::Crc32c,
            ChecksumArg::Crc64 => Self::Crc64,
            ChecksumArg::Off => Self::Off,
        }
    }
}

/// List the containers of a pool
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    pool: PoolArg,
}

/// Show a container
#[derive(Args)]
pub(crate) struct Query {
    #[command(flatten)]
    container: ContainerArg,
}

/// Remove a container with all its objects
#[derive(Args)]
pub(crate) struct Destroy {
    #[command(flatten)]
    container: ContainerArg,
    /// Also where somebody has it open
    #[arg(long, short)]
    force: bool,
}

impl ContCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        match self {
            Self::Create(create) => create.run(),
            Self::List(list) => list.run(),
            Self::Query(query) => query.run(),
            Self::Destroy(destroy) => destroy.run(),
            Self::Copy(copy) => copy.run(),
            Self::Drain(drain) => drain.run(),
            Self::Snapshot(command) => command.run(),
            Self::GetProp(get) => get.run(),
            Self::SetProp(set) => set.run(),
            Self::Attribute(command) => command.run(),
        }
    }
}

impl Create {
    fn run(self) -> Result<Answer> {
        let (file_system, properties) = (self.layout.file_system()?, self.layout.properties()?);
        let pool = self.pool.open(OpenMode::ReadWrite)?;
        let label = self.name.or(self.label).or(properties.label);
        let checksum = self.checksum.map(Checksum::from).or(properties.checksum);
        let checksum = checksum.unwrap_or(Checksum::Crc32c);
        let new = NewContainer { label: label.as_deref(), checksum, ..NewContainer::default() };
        let info = match file_system {
            Some(file_system) => Dfs::create_container(&pool, &new, &file_system)?,
            None => pool.create_container(&new).wait()?,
        };
        // Scripts written for DAOS look for these words.
        let text = format!(
            "  Container UUID : {}\n  Container Label: {}\n  Container Type : {}",
            info.uuid,
            info.label,
            self.layout.name()
        );
        Ok(Answer::new(shapes::container(&info), text))
    }
}

impl List {
    fn run(self) -> Result<Answer> {
        let containers = self.pool.open(OpenMode::ReadOnly)?.containers().wait()?;
        let mut table = Table::new(&["uuid", "created", ">handles", "label"]);
        for info in &containers {
            let (uuid, created) = (info.uuid.to_string(), when::utc(info.created));
            table.row([uuid, created, info.handles.to_string(), info.label.clone()]);
        }
        let response: Vec<_> = containers.iter().map(shapes::container).collect();
        let text = if table.is_empty() { String::new() } else { table.to_string() };
        Ok(Answer::new(json!(response), text))
    }
}

impl Query {
    fn run(self) -> Result<Answer> {
        let container = self.container.open(OpenMode::ReadOnly)?;
        let info = container.query().wait()?;
        let snapshots = container.snapshots().wait()?;
        let mut response = shapes::container(&info);
        response["snapshots"] = json!(snapshots.iter().map(shapes::snapshot).collect::<Vec<_>>());
        Ok(Answer::new(response, describe(&info, snapshots.len())))
    }
}

fn describe(info: &ContainerInfo, snapshots: usize) -> String {
    format!(
        "label      {}\nuuid       {}\nchecksum   {}\ncreated    {}\nhandles    {}\nsnapshots  {snapshots}",
        info.label,
        info.uuid,
        shapes::checksum(info.checksum),
        when::utc(info.created),
        info.handles,
    )
}

impl Destroy {
    fn run(self) -> Result<Answer> {
        let pool = self.container.pool.open_sound(OpenMode::ReadWrite)?;
        pool.destroy_container(&self.container.container, self.force).wait()?;
        let name = self.container.container;
        Ok(Answer::new(json!({"container": name}), format!("container {name} is gone")))
    }
}
