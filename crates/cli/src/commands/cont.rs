//! `esker cont`: containers of a pool.
use super::attributes::AttributeCommand;
use super::copy::Copy;
use super::drain::Drain;
use super::posix::Layout;
use super::properties::{GetProp, SetProp};
use super::snapshot::SnapshotCommand;
use crate::args::{ContainerArg, PoolArg};
use crate::confirm;
use crate::output::{Answer, Table};
use crate::shapes;
use clap::{Args, Subcommand, ValueEnum};
use dfs::Dfs;
use esker::backend::NewContainer;
use esker::types::info::{ContainerInfo, OpenMode};
use esker::types::ops::Anchor;
use esker::types::{Checksum, Error, ErrorKind, Result};
use esker::{Access, Pool, Wait, is_name_catalog};
use serde_json::json;

/// Create, inspect, copy and destroy containers, and manage their snapshots and properties
#[derive(Subcommand)]
pub(crate) enum ContCommand {
    Create(Create),
    #[command(visible_alias = "ls")]
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

/// Create a container
///
/// A container of type posix holds a file system: see `esker fs`, `esker run` and `esker mount`.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker cont create tank/run1
  esker cont create tank/home --type posix --chunk-size 4MiB
  esker cont create rados:data/run1?conf=/etc/ceph/ceph.conf")]
pub(crate) struct Create {
    #[command(flatten)]
    pool: PoolArg,
    /// Label of the container [default: none, only its UUID names it]
    #[arg(value_name = "LABEL")]
    name: Option<String>,
    /// The label, as an option
    #[arg(long, value_name = "LABEL", conflicts_with = "name", hide = true)]
    label: Option<String>,
    /// Checksum of the data [default: crc32c]
    #[arg(long, value_name = "SUM")]
    checksum: Option<ChecksumArg>,
    #[command(flatten)]
    layout: Layout,
}

/// Checksum of the data of a container: `--checksum`.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ChecksumArg {
    /// CRC-32C
    Crc32c,
    /// CRC-64/NVME
    Crc64,
    /// None: damaged data is not detected
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
#[command(after_long_help = "Examples:
  esker cont list tank
  esker --json cont list rados:data?conf=/etc/ceph/ceph.conf")]
pub(crate) struct List {
    #[command(flatten)]
    pool: PoolArg,
}

/// Show a container: its label, UUID, checksum and number of snapshots
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker cont query tank/run1")]
pub(crate) struct Query {
    #[command(flatten)]
    container: ContainerArg,
}

/// Destroy a container and all its objects
///
/// On a terminal, the command asks before it destroys a container with objects, unless --force is given.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker cont destroy tank/run1
  esker cont destroy tank/run1 --force")]
pub(crate) struct Destroy {
    #[command(flatten)]
    container: ContainerArg,
    /// Destroy the container even if it is open, without a question
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
        let label = one_of("label", self.name.or(self.label), properties.label)?;
        let checksum = self.checksum.map(Checksum::from);
        let checksum = one_of("checksum", checksum, properties.checksum)?;
        let pool = self.pool.open(OpenMode::ReadWrite)?;
        let name = &self.pool.pool;
        let checksum = checksum.unwrap_or(Checksum::Crc32c);
        let new = NewContainer::nameless().with_label(label.as_deref()).with_checksum(checksum);
        let made = match file_system {
            Some(file_system) => Dfs::create_container(&pool, &new, &file_system),
            None => pool.create_container(&new).wait(),
        };
        let info = made.map_err(|error| label_taken_error(name, label.as_deref(), error))?;
        // Scripts written for DAOS parse these lines.
        let text = format!(
            "  Container UUID : {}\n  Container Label: {}\n  Container Type : {}",
            info.uuid,
            info.label,
            self.layout.name()
        );
        Ok(Answer::confirmation(shapes::container(&info), text))
    }
}

/// Returns the value that was given by an option of the command or in `--properties`. An error if both give one.
fn one_of<T>(what: &str, option: Option<T>, property: Option<T>) -> Result<Option<T>> {
    match (option, property) {
        (Some(_), Some(_)) => {
            let message = format!("the {what} is given twice: leave it out of --properties");
            Err(Error::new(ErrorKind::Invalid, message))
        }
        (option, property) => Ok(option.or(property)),
    }
}

/// Replaces an `Exists` error by one that names the existing container and the remedy.
fn label_taken_error(pool: &str, label: Option<&str>, error: Error) -> Error {
    match (error.kind(), label) {
        (ErrorKind::Exists, Some(label)) => {
            let message = format!(
                "pool {pool} already has a container {label:?}: choose another label, or remove it with \
                 `esker cont destroy {pool} {label}`"
            );
            Error::new(ErrorKind::Exists, message)
        }
        _ => error,
    }
}

impl List {
    fn run(self) -> Result<Answer> {
        let containers = self.pool.open(OpenMode::ReadOnly)?.containers().wait()?;
        let mut table = Table::new(&["uuid", "created", ">handles", "label"]);
        for info in &containers {
            let (uuid, created) = (info.uuid.to_string(), shapes::created(info));
            table.row([uuid, created, info.handles.to_string(), info.label.clone()]);
        }
        let response: Vec<_> = containers.iter().map(shapes::container).collect();
        Ok(Answer::listing(json!(response), table, || {
            let pool = &self.pool.pool;
            format!("pool {pool} has no containers: `esker cont create {pool} LABEL` creates one")
        }))
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

/// The answer of the command as text.
fn describe(info: &ContainerInfo, snapshots: usize) -> String {
    format!(
        "label      {}\nuuid       {}\nchecksum   {}\ncreated    {}\nhandles    {}\nsnapshots  {snapshots}",
        info.label,
        info.uuid,
        shapes::checksum(info.checksum),
        shapes::created(info),
        info.handles,
    )
}

impl Destroy {
    fn run(self) -> Result<Answer> {
        let pool = self.container.pool.open_sound(OpenMode::ReadWrite)?;
        if !self.force && confirm::is_possible() && self.has_objects(&pool)? {
            let name = &self.container.container;
            confirm::ask(&format!("container {name} has objects: destroy them all?"))?;
        }
        pool.destroy_container(&self.container.container, self.force).wait()?;
        let name = self.container.container;
        Ok(Answer::confirmation(json!({"container": name}), format!("destroyed container {name}")))
    }

    /// True if the container has objects besides the one with the names of objects.
    fn has_objects(&self, pool: &Pool) -> Result<bool> {
        let container =
            pool.open_container(&self.container.container, OpenMode::ReadOnly).wait()?;
        // Two are enough: at most one of them has the names.
        let found = container.list_objects(&mut Anchor::Start, 2, Access::Latest).wait()?;
        container.close().wait()?;
        Ok(found.into_iter().any(|oid| !is_name_catalog(oid)))
    }
}
