//! `esker pool`: pools of this machine, over nodes, of plain files and on Ceph.
use super::attributes::AttributeCommand;
use super::pool_check::{Check, Scrub};
use super::pool_destroy::Destroy;
use super::pool_maintenance;
use super::pool_nodes::OverNodes;
use super::pool_over_nodes::Asked;
use super::pool_salvage::Salvage;
use crate::args::PoolArg;
use crate::nodes::{NodePoolSpec, NodesPool, refuse_missing_parent};
use crate::output::{Answer, Bar, Table};
use crate::shapes;
use crate::units::Bytes;
use clap::{Args, Subcommand, ValueEnum};
use esker::types::info::{Durability, Medium, OpenMode, PoolInfo, Space};
use esker::types::{Error, ErrorKind, Result, Uuid};
use esker::{DaosUrl, Pool, PosixPool, PosixUrl, Rados, RadosUrl, Wait, check_pool_label, names};
use esker_store::{HugePages, PoolSpec, Superblock};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Create, inspect, check and destroy pools
#[derive(Subcommand)]
pub(crate) enum PoolCommand {
    Create(Box<Create>),
    #[command(visible_alias = "ls")]
    List(List),
    Query(Query),
    Destroy(Destroy),
    Check(Check),
    Scrub(Scrub),
    Salvage(Salvage),
    Compact(Compact),
    #[command(flatten)]
    Attribute(AttributeCommand<PoolArg>),
}

/// Create a pool and reserve its space
///
/// All of the space is reserved now, so no later write can run out of disk space. The file system determines the
/// medium: memory (tmpfs, DAX) or block. Network file systems are refused.
///
/// NAME may also be the URL of another kind of pool. posix:/path/NAME is a pool of plain files on any file system,
/// network file systems included. It reserves no space, has no snapshots, and takes no options but --fsync and
/// --parents. rados:CEPH_POOL?conf=FILE is a pool on Ceph, which takes no option.
///
/// --hosts, --hostfile or --job create one pool over several nodes, with the given size on each, and start an engine on
/// each of them. `esker pool destroy` ends the engines.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker pool create tank --size 4G
  esker pool create fast --size 1G --dir /dev/shm --targets 2
  esker pool create jobs --size 8G --dir /dev/shm --huge-pages
  esker pool create safe --size 10G --durability commit
  esker pool create scratch --size 8G --dir /dev/shm --job
  esker pool create scratch --size 8G --dir /dev/shm --hosts n[1-4]
  esker pool create posix:/lustre/project/fields
  esker pool create rados:data?namespace=project")]
pub(crate) struct Create {
    /// Label of the pool: 1 to 127 letters, digits and "._-". A posix: or rados: URL creates another kind
    #[arg(value_name = "NAME", required_unless_present = "label")]
    name: Option<String>,
    /// The label, as an option
    #[arg(long, value_name = "NAME", conflicts_with = "name", hide = true)]
    label: Option<String>,
    /// Size of the pool with its index: 512MiB, 4G, 1.5T (powers of 1024)
    #[arg(long, short, value_name = "SIZE")]
    size: Option<Bytes>,
    #[command(flatten)]
    directory: PoolDirectory,
    /// Number of targets [default: one per core, 2 to 8; over nodes, 4 of each]
    #[arg(long, value_name = "N")]
    targets: Option<u32>,
    /// Failures that an acknowledged update survives [default: process in memory, commit on block media]
    #[arg(long, value_name = "LEVEL")]
    durability: Option<DurabilityArg>,
    /// Protect the index against stray pointers of programs; commits are slower
    #[arg(long)]
    guarded: bool,
    /// Let the members of this group use the pool [default: its owner only]
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Share of the index in the space [default: 4, and it grows as needed; 12 on file systems where it cannot grow]
    #[arg(long, value_name = "PERCENT")]
    index_percent: Option<u32>,
    /// Size of a segment, a multiple of 4096 bytes [default: depends on the size of the pool]
    #[arg(long, value_name = "SIZE")]
    segment_size: Option<Bytes>,
    /// Keep all data in huge pages, however long the kernel takes to make them (memory only). New
    /// processes then read and write twice as fast at first [default: use the huge pages that cost no
    /// extra time]
    #[arg(long)]
    huge_pages: bool,
    /// Commit each put to the index, instead of to a write buffer first. Small puts and new extents take up
    /// to twice as long, on a durable pool three times, reads a tenth less (see docs/decisions/0054 and 0076)
    #[arg(long)]
    no_write_buffer: bool,
    /// Sync files and directories before each operation returns (posix: only)
    #[arg(long)]
    fsync: bool,
    #[command(flatten)]
    nodes: OverNodes,
}

/// Directory in which a pool of this machine is created.
#[derive(Args)]
pub(super) struct PoolDirectory {
    /// Directory for the new pool; it is made if only its last component is missing, see --parents
    /// [default: the first in ESKER_POOLS, or the user's data directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Make all missing directories above the new pool, and that of --map
    #[arg(long)]
    parents: bool,
}

/// Failures that an acknowledged update survives: `--durability`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DurabilityArg {
    /// The death of any process, but not a crash of the machine
    Process,
    /// A crash or power failure of the machine as well
    Commit,
}

impl From<DurabilityArg> for Durability {
    fn from(level: DurabilityArg) -> Self {
        match level {
            DurabilityArg::Process => Self::Process,
            DurabilityArg::Commit => Self::Commit,
        }
    }
}

/// List the pools in the pool directories
#[derive(Args)]
pub(crate) struct List {
    /// Show UUIDs too
    #[arg(long, short)]
    verbose: bool,
}

/// Show a pool: its space, targets, medium and number of containers
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker pool query tank
  esker pool query posix:/lustre/project/fields")]
pub(crate) struct Query {
    #[command(flatten)]
    pool: PoolArg,
}

/// Compact the data of a pool until no more space can be freed
///
/// Programs that write compact the pool step by step on their own, so this is rarely needed.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker pool compact tank")]
pub(crate) struct Compact {
    #[command(flatten)]
    pool: PoolArg,
    /// Gather the data in huge pages too (memory only), even if the pool was created without them
    #[arg(long)]
    huge_pages: bool,
}

impl PoolCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        match self {
            Self::Create(create) => create.run(),
            Self::List(list) => list.run(),
            Self::Query(query) => query.run(),
            Self::Destroy(destroy) => destroy.run(),
            Self::Check(check) => check.run(),
            Self::Scrub(scrub) => scrub.run(),
            Self::Salvage(salvage) => salvage.run(),
            Self::Compact(compact) => compact.run(),
            Self::Attribute(command) => command.run(),
        }
    }
}

impl Create {
    fn run(self) -> Result<Answer> {
        if let Some(url) = PosixUrl::parse(self.label())? {
            return self.create_posix(&url);
        }
        if DaosUrl::parse(self.label()).is_ok_and(|url| url.is_some()) {
            let message = "a pool of a DAOS system is made by its administrator: `dmg pool create`";
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        if let Some(url) = RadosUrl::parse(self.label())? {
            return self.create_rados(&url);
        }
        check_pool_label(self.label())?;
        if self.nodes.is_wanted() {
            let pool = self.node_pool()?;
            return self.nodes.create(pool, self.directory.parents);
        }
        let (path, pool) = self.directory.create(&self.spec()?)?;
        let mut text = format!(
            "created pool {} of {} with {}: {}",
            pool.label,
            Bytes(pool.reserved_bytes()),
            shapes::count(pool.targets, "target"),
            path.display()
        );
        if let Some(directory) = path.parent().filter(|directory| !is_pool_directory(directory)) {
            text += &format!(
                "\nuse it as esker:{}, or add {} to {}",
                path.display(),
                directory.display(),
                names::POOLS_VARIABLE
            );
        }
        let mut response = shapes::superblock(&path, &pool);
        if self.huge_pages {
            let pages = huge_pages(&path)?;
            text += &format!("\nhuge pages: {}", shapes::huge_pages(&pages, NO_MORE));
            response["huge_page_bytes"] = json!(pages.bytes);
        }
        Ok(Answer::confirmation(response, text))
    }

    fn create_posix(&self, url: &PosixUrl) -> Result<Answer> {
        if self.reserves() {
            let message = "a posix: pool reserves no space and takes no options but --fsync and --parents: leave out the others";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if self.fsync && url.fsync == Some(false) {
            let message = "--fsync contradicts ?fsync=off in the URL: leave out one of them";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        url.path
            .parent()
            .map_or(Ok(()), |dir| refuse_missing_parent(dir, self.directory.parents))?;
        let fsync = self.fsync || url.fsync == Some(true);
        let pool = create_in(&url.path, || PosixPool::create(&url.path, fsync))?;
        let path = url.path.canonicalize().unwrap_or_else(|_| url.path.clone());
        let text = format!(
            "created pool {} of plain files: use it as posix:{}",
            pool.label,
            path.display()
        );
        Ok(Answer::confirmation(shapes::posix(&path, &pool), text))
    }

    /// Creates a pool in a pool of Ceph, which must exist.
    fn create_rados(&self, url: &RadosUrl) -> Result<Answer> {
        if self.reserves() || self.fsync || self.directory.parents {
            let message = "a rados: pool takes no option: Ceph determines its size and durability";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if Rados::open(url, OpenMode::ReadOnly).is_ok() {
            let message = format!(
                "a pool already exists at {url}: choose another namespace=NAME, or use this pool"
            );
            return Err(Error::new(ErrorKind::Exists, message));
        }
        // Opening for writing creates the pool.
        let made = Rados::open(url, OpenMode::ReadWrite)?;
        let info = Pool::from_backend(Arc::new(made), OpenMode::ReadWrite).info().wait()?;
        let response = json!({
            "uuid": info.uuid.to_string(),
            "label": info.label,
            "url": info.url,
            "medium": "other",
            "durability": "commit",
            "size_bytes": null,
            "targets": info.targets.len(),
        });
        let text = format!("created pool {} on Ceph: use it as {}", info.label, info.url);
        Ok(Answer::confirmation(response, text))
    }

    /// Specification of the pool of each node, for a pool over nodes.
    fn node_pool(&self) -> Result<NodePoolSpec> {
        let spec = self.spec()?;
        if spec.group.is_some() {
            let message = "a pool over nodes is for its owner only: leave out --group";
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        Ok(NodePoolSpec {
            label: spec.label,
            directory: self.directory.absolute()?,
            parents: self.directory.parents || self.directory.dir.is_none(),
            nodes: 1,
            size_bytes: spec.size_bytes,
            targets: spec.targets.unwrap_or(TARGETS),
            durability: spec.durability,
            guarded: spec.guarded,
            index_percent: spec.index_percent,
            segment_bytes: spec.segment_bytes,
            huge_pages: spec.huge_pages,
        })
    }

    fn label(&self) -> &str {
        self.name.as_deref().or(self.label.as_deref()).unwrap_or_default()
    }

    /// True if an option is given that only native pools have, on this machine or over nodes.
    fn reserves(&self) -> bool {
        let sizes =
            [self.size.is_some(), self.segment_size.is_some(), self.index_percent.is_some()];
        let others =
            [self.directory.dir.is_some(), self.targets.is_some(), self.durability.is_some()];
        let switches = [self.guarded, self.group.is_some(), self.huge_pages, self.no_write_buffer];
        [&sizes[..], &others, &switches, &[self.nodes.is_wanted()]].concat().contains(&true)
    }

    /// Specification of the pool, from the options.
    fn spec(&self) -> Result<PoolSpec> {
        let wrong = |message| Err(Error::new(ErrorKind::Invalid, message));
        let Some(size) = self.size else {
            return wrong("give the size of the pool with --size, for example --size 4G");
        };
        if self.fsync {
            return wrong("--fsync is for posix: pools only: use --durability commit");
        }
        Ok(PoolSpec {
            targets: self.targets,
            durability: self.durability.map(Durability::from),
            guarded: self.guarded,
            group: self.group.clone(),
            index_percent: self.index_percent,
            segment_bytes: self.segment_size.map(|size| size.0),
            huge_pages: self.huge_pages,
            write_buffer: self.no_write_buffer.then_some(false),
            ..PoolSpec::new(self.label(), size.0)
        })
    }
}

/// Default number of targets of each node of a pool over nodes. It is fixed because nodes may differ in their cores.
const TARGETS: u32 = 4;

/// Why some data is not in huge pages although it should be.
const NO_MORE: &str = "the kernel made no more; this requires Linux 6.1 or later, transparent huge pages that are not \
                       disabled (PR_SET_THP_DISABLE), and contiguous free memory";

/// Opens a pool and returns how much of its data is in huge pages.
fn huge_pages(pool: &Path) -> Result<HugePages> {
    esker_store::Pool::open(pool)?.opened()?.huge_pages()
}

impl PoolDirectory {
    /// Absolute path of the directory, for processes with other working directories.
    fn absolute(&self) -> Result<PathBuf> {
        let directory = self.dir.clone().map_or_else(names::new_pool_directory, Ok)?;
        let failed = |error| Error::io(format_args!("looking at {}", directory.display()), &error);
        std::path::absolute(&directory).map_err(failed)
    }

    /// Creates a pool, with a progress bar; returns its path as well.
    pub(super) fn create(&self, spec: &PoolSpec) -> Result<(PathBuf, Superblock)> {
        let directory = self.dir.clone().map_or_else(names::new_pool_directory, Ok)?;
        self.dir.as_deref().map_or(Ok(()), |dir| refuse_missing_parent(dir, self.parents))?;
        let path = directory.join(&spec.label);
        let bar = Bar::bytes("reserving");
        let made = create_in(&path, || {
            esker_store::Pool::create(&directory, spec, &mut |done, all| bar.update(done, all))
        })?;
        Ok((path.canonicalize().unwrap_or(path), made))
    }
}

/// Creates a pool at `path`. If that fails, the directories that were made for it are removed again.
fn create_in<T>(path: &Path, create: impl FnOnce() -> Result<T>) -> Result<T> {
    let is_missing =
        |path: &&Path| !path.as_os_str().is_empty() && path.symlink_metadata().is_err();
    let missing: Vec<_> = path.ancestors().take_while(is_missing).collect();
    create().map_err(|error| {
        // A directory that another process uses meanwhile is not empty, so it stays.
        missing.iter().for_each(|directory| drop(std::fs::remove_dir(directory)));
        if error.kind() == ErrorKind::Exists { path_taken_error(path, error) } else { error }
    })
}

/// Replaces an `Exists` error by one that names the existing pool or file, and the remedy.
fn path_taken_error(path: &Path, error: Error) -> Error {
    let shown = path.display();
    let message = if PosixPool::is_at(path) {
        format!(
            "a pool already exists at {shown}: choose another name, or remove it with `esker pool destroy posix:{shown}`"
        )
    } else if path.join("pool").exists() {
        format!(
            "a pool already exists at {shown}: choose another name, or remove it with `esker pool destroy esker:{shown}`"
        )
    } else if path.symlink_metadata().is_ok() {
        format!("{shown} already exists and is not a pool: choose another name or directory")
    } else {
        return error;
    };
    Error::new(ErrorKind::Exists, message)
}

/// True for a directory in which pools are found by their label.
fn is_pool_directory(directory: &Path) -> bool {
    let places = names::pool_directories();
    places.iter().any(|place| place.canonicalize().is_ok_and(|place| place == directory))
}

impl List {
    fn run(&self) -> Result<Answer> {
        let over_nodes = Asked::ask_all(NodesPool::all())?;
        let headings = ["label", ">size", ">targets", "medium"].into_iter();
        let headings = headings.chain(self.verbose.then_some("uuid")).chain(["path"]);
        let mut table = Table::new(&headings.collect::<Vec<_>>());
        let mut add = |cells: [String; 4], uuid: Uuid, path: &Path| {
            let uuid = self.verbose.then(|| uuid.to_string());
            table.row(cells.into_iter().chain(uuid).chain([path.display().to_string()]));
        };
        let mut response = Vec::new();
        for asked in &over_nodes {
            for (cells, place) in asked.rows() {
                add(cells, asked.pool.map.uuid, Path::new(&place));
            }
            response.push(asked.response());
        }
        let is_listed = |path: &Path, pool: &Superblock| {
            over_nodes.iter().any(|asked| asked.pool.has_node_pool(path, pool.uuid))
        };
        for (path, pool) in names::list().iter().filter(|(path, pool)| !is_listed(path, pool)) {
            let (size, targets) = (Bytes(pool.reserved_bytes()), pool.targets);
            let medium = shapes::medium(pool.medium).to_owned();
            let cells = [pool.label.clone(), size.to_string(), targets.to_string(), medium];
            add(cells, pool.uuid, path);
            response.push(shapes::superblock(path, pool));
        }
        for (path, pool) in &names::list_posix() {
            let cells = [&pool.label, "-", "-", "posix"].map(str::to_owned);
            add(cells, pool.uuid, path);
            response.push(shapes::posix(path, pool));
        }
        let trouble = over_nodes.iter().find_map(Asked::trouble);
        Ok(Answer::listing(json!(response), table, no_pools).with_trouble(trouble))
    }
}

/// A line for a listing without pools.
fn no_pools() -> String {
    let places: Vec<_> =
        names::pool_directories().iter().map(|place| place.display().to_string()).collect();
    format!(
        "no pools in {}: `esker pool create NAME --size 4G` creates one, {} sets the directories",
        places.join(":"),
        names::POOLS_VARIABLE
    )
}

impl Query {
    fn run(self) -> Result<Answer> {
        if let Some(pool) = NodesPool::find(&self.pool.pool)? {
            return Asked::ask(pool)?.answer();
        }
        let pool = self.pool.open(OpenMode::ReadOnly)?;
        let info = pool.info().wait()?;
        let containers = pool.containers().wait()?.len();
        let mut response = shapes::pool(&info);
        response["containers"] = json!(containers);
        let mut text = describe(&info, containers);
        if info.medium == Medium::Memory
            && let Some(path) = info.url.strip_prefix("esker:")
        {
            let pages = huge_pages(Path::new(path))?;
            response["huge_page_bytes"] = json!(pages.bytes);
            let rest = "`esker pool compact --huge-pages` makes more, on Linux 6.1 or later";
            text += &format!("huge pages  {}\n", shapes::huge_pages(&pages, rest));
        }
        let exceptions: Vec<_> = pool.capabilities().exceptions().collect();
        response["exceptions"] = exceptions.iter().map(|(name, _)| json!(name)).collect();
        text += &exceptions.iter().map(exception).collect::<String>();
        text += &table(&info.targets);
        Ok(Answer::new(response, text))
    }
}

/// A line about an exception: a property in which the pool differs from other kinds.
fn exception((name, text): &(&str, &str)) -> String {
    format!("exception   {text} ({name})\n")
}

/// Describes a pool for people: its label, URL, medium, durability and free space.
fn describe(info: &PoolInfo, containers: usize) -> String {
    let sum = shapes::sum(&info.targets);
    let mut text = format!(
        "pool        {}\nuuid        {}\nurl         {}\nmedium      {}\ndurability  {}\n\
         containers  {containers}\ndata        {}\nindex       {}\n",
        info.label,
        info.uuid,
        info.url,
        shapes::medium(info.medium),
        shapes::durability(info.durability),
        shapes::free(sum.data_free, sum.data_total),
        shapes::free(sum.index_free, sum.index_total),
    );
    if let Some((number, fullest)) = Space::fullest(&info.targets) {
        let free = Bytes(fullest.free());
        text += &format!("fullest     target {number}, which has {free} free\n");
    }
    text
}

/// Formats the space of each target as a table.
fn table(targets: &[Space]) -> String {
    let mut table = Table::new(&[">target", ">data free", ">of", ">index free", ">of"]);
    for (number, target) in targets.iter().enumerate() {
        let sizes = [target.data_free, target.data_total, target.index_free, target.index_total];
        let sizes = sizes.map(|size| Bytes(size).to_string());
        table.row(std::iter::once(number.to_string()).chain(sizes));
    }
    format!("\n{}", table.text())
}

impl Compact {
    fn run(self) -> Result<Answer> {
        if let Some(pool) = NodesPool::find(&self.pool.pool)? {
            return self.compact_parts(&pool);
        }
        let path = names::find(&self.pool.pool)?;
        // Refuses a file system that is mounted read-only.
        let _writable = self.pool.open(OpenMode::ReadWrite)?;
        let pool = esker_store::Pool::open(&path)?;
        if self.huge_pages {
            gather(&pool)?;
        }
        let bar = Bar::steps("compacting");
        let freed = pool.opened()?.compact(&mut |done, all| bar.update(done, all))?;
        drop(bar);
        let (mut response, mut text) =
            (json!({"freed_bytes": freed}), format!("freed {}", Bytes(freed)));
        if self.huge_pages {
            let pages = pool.opened()?.huge_pages()?;
            response["huge_page_bytes"] = json!(pages.bytes);
            text += &format!("\nhuge pages: {}", shapes::huge_pages(&pages, NO_MORE));
        }
        Ok(Answer::new(response, text))
    }
}

impl Compact {
    /// Compacts the pools of all nodes.
    fn compact_parts(&self, pool: &NodesPool) -> Result<Answer> {
        if self.huge_pages {
            let message = "data of a pool over nodes is gathered in huge pages when the pool is created: leave out --huge-pages";
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        pool_maintenance::compact(pool)
    }
}

/// Gathers the data of a pool in huge pages, with a progress bar.
fn gather(pool: &esker_store::Pool) -> Result<()> {
    let (state, bar) = (pool.opened()?, Bar::bytes("gathering"));
    state.gather_pages(&mut |done, all| bar.update(done, all))
}
