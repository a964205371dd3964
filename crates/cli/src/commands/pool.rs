//! `esker pool`.
use super::attributes::AttributeCommand;
use super::new_pool::Place;
use super::pool_check::{Check, Scrub};
use super::pool_salvage::Salvage;
use super::{pool_posix, pool_rados};
use crate::args::PoolArg;
use crate::output::Answer;
use crate::progress::Bar;
use crate::shapes;
use clap::{Args, Subcommand, ValueEnum};
use esker::names::Named;
use esker::types::info::{Durability, Medium, OpenMode, PoolInfo, Space};
use esker::types::{Error, ErrorKind, Result};
use esker::{PosixUrl, RadosUrl, Wait, names};
use esker_bench::table::Table;
use esker_bench::units::Bytes;
use esker_store::{HugePages, PoolSpec};
use serde_json::json;
use std::path::Path;

/// Make, look at and look after pools
#[derive(Subcommand)]
pub(crate) enum PoolCommand {
    Create(Create),
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

/// Make a pool and reserve its space
///
/// All of the space is reserved at once, so that no write can run out of it later. The medium is found
/// from the file system: memory (tmpfs, DAX) or block; network file systems are refused.
///
/// NAME may also be posix:/path/NAME: a pool of plain files in that directory, on any file system,
/// network file systems too. It reserves nothing and takes no option but --fsync; it has no snapshots
/// and no transactions. Or rados:POOL?conf=FILE: a pool on Ceph, which takes no option.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker pool create tank --size 4G
  esker pool create fast --size 1G --dir /dev/shm --targets 2
  esker pool create jobs --size 8G --dir /dev/shm --huge-pages
  esker pool create safe --size 10G --durability commit
  esker pool create posix:/lustre/project/fields
  esker pool create rados:data?namespace=project")]
pub(crate) struct Create {
    /// Label: 1 to 127 letters, digits and ":._-"; the pool is the directory of this name. Or the URL
    /// posix:/path/NAME
    #[arg(value_name = "NAME", required_unless_present = "label")]
    name: Option<String>,
    /// The label, in another place
    #[arg(long, value_name = "NAME", conflicts_with = "name", hide = true)]
    label: Option<String>,
    /// Size of the pool with its index: 512MiB, 4G, 1.5T (powers of 1024)
    #[arg(long, short, value_name = "SIZE")]
    size: Option<Bytes>,
    #[command(flatten)]
    place: Place,
    /// Number of targets [default: one per core, 2 to 8]
    #[arg(long, value_name = "N")]
    targets: Option<u32>,
    /// What an acknowledged update survives [default: process in memory, commit on block media]
    #[arg(long, value_name = "LEVEL")]
    durability: Option<DurabilityArg>,
    /// Keep the index out of reach of stray pointers of programs; commits are slower
    #[arg(long)]
    guarded: bool,
    /// Let the members of this group use the pool, not only its owner
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Share of the space the index begins with; it grows as it needs [default: 4]
    #[arg(long, value_name = "PERCENT")]
    index_percent: Option<u32>,
    /// Bytes of a segment, a multiple of 4096 [default: by the size of the pool]
    #[arg(long, value_name = "SIZE")]
    segment_size: Option<Bytes>,
    /// Keep all data in huge pages, however long the kernel takes to make them (memory only); processes
    /// that have just started write and read twice as fast [default: those that take no longer than
    /// small ones]
    #[arg(long)]
    huge_pages: bool,
    /// Sync files and directories before an operation returns (posix: only)
    #[arg(long)]
    pub(super) fsync: bool,
}

/// What an acknowledged update survives.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum DurabilityArg {
    /// The death of any process, not that of the machine
    Process,
    /// Loss of power as well
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
pub(crate) struct List {}

/// Show a pool: space, targets, medium, containers
#[derive(Args)]
pub(crate) struct Query {
    #[command(flatten)]
    pool: PoolArg,
}

/// Remove a pool with everything in it
///
/// Who uses a pool of this machine is seen, and it stays without --force. Who uses a posix: pool is not
/// seen: it goes.
#[derive(Args)]
pub(crate) struct Destroy {
    #[command(flatten)]
    pool: PoolArg,
    /// Also where processes use it
    #[arg(long, short)]
    force: bool,
}

/// Move data together until no more space can be gained
///
/// Programs that write do this on their own, step by step.
#[derive(Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    pool: PoolArg,
    /// Also gather the data in huge pages (memory only), also of a pool made without them
    #[arg(long)]
    huge_pages: bool,
}

impl PoolCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        match self {
            Self::Create(create) => create.run(),
            Self::List(_) => Ok(list()),
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
            return pool_posix::create(&url, &self);
        }
        if let Some(url) = RadosUrl::parse(self.label())? {
            return pool_rados::create(&url, &self);
        }
        let spec = self.spec()?;
        let (path, pool) = self.place.create(&spec)?;
        let mut text = format!(
            "pool {} of {} in {} targets: {}",
            pool.label,
            Bytes(shapes::reserved_bytes(&pool)),
            pool.targets,
            path.display()
        );
        if let Some(directory) = path.parent().filter(|directory| !is_looked_in(directory)) {
            text += &format!(
                "\nuse it as esker:{}, or put {} in {}",
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
        Ok(Answer::new(response, text))
    }

    fn label(&self) -> &str {
        self.name.as_deref().or(self.label.as_deref()).unwrap_or_default()
    }

    /// True where an option is set that only pools of this machine have.
    pub(super) fn reserves(&self) -> bool {
        let sizes =
            [self.size.is_some(), self.segment_size.is_some(), self.index_percent.is_some()];
        let others = [self.place.is_given(), self.targets.is_some(), self.durability.is_some()];
        let switches = [self.guarded, self.group.is_some(), self.huge_pages];
        [&sizes[..], &others, &switches].concat().contains(&true)
    }

    fn spec(&self) -> Result<PoolSpec> {
        let wrong = |message| Err(Error::new(ErrorKind::Invalid, message));
        let Some(size) = self.size else {
            return wrong("how large is the pool to be? use --size, for example --size 4G");
        };
        if self.fsync {
            return wrong("--fsync is for posix: pools: use --durability commit");
        }
        Ok(PoolSpec {
            targets: self.targets,
            durability: self.durability.map(Durability::from),
            guarded: self.guarded,
            group: self.group.clone(),
            index_percent: self.index_percent,
            segment_bytes: self.segment_size.map(|size| size.0),
            huge_pages: self.huge_pages,
            ..PoolSpec::new(self.label(), size.0)
        })
    }
}

/// Why not all data is in huge pages that was to be.
const NO_MORE: &str = "the kernel made no more; that takes Linux 6.1 or later, transparent huge pages that are \
                       not switched off (PR_SET_THP_DISABLE), and free memory in one piece";

fn huge_pages(pool: &Path) -> Result<HugePages> {
    esker_store::Pool::open(pool)?.state()?.huge_pages()
}

fn is_looked_in(directory: &Path) -> bool {
    let places = names::pool_directories();
    places.iter().any(|place| place.canonicalize().is_ok_and(|place| place == directory))
}

fn list() -> Answer {
    let pools = names::list();
    let mut table = Table::new(&["label", "uuid", ">size", ">targets", "medium", "path"]);
    for (path, pool) in &pools {
        table.row([
            pool.label.clone(),
            pool.uuid.to_string(),
            Bytes(shapes::reserved_bytes(pool)).to_string(),
            pool.targets.to_string(),
            shapes::medium(pool.medium).to_owned(),
            path.display().to_string(),
        ]);
    }
    let posix = names::list_posix();
    for (path, pool) in &posix {
        let (uuid, path) = (pool.uuid.to_string(), path.display().to_string());
        table.row([pool.label.clone(), uuid, "-".into(), "-".into(), "posix".into(), path]);
    }
    let mut response: Vec<_> =
        pools.iter().map(|(path, pool)| shapes::superblock(path, pool)).collect();
    response.extend(posix.iter().map(|(path, pool)| shapes::posix(path, pool)));
    Answer::new(json!(response), if table.is_empty() { String::new() } else { table.to_string() })
}

impl Query {
    fn run(self) -> Result<Answer> {
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
        text += &table(&info.targets);
        Ok(Answer::new(response, text))
    }
}

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

fn table(targets: &[Space]) -> String {
    let mut table = Table::new(&[">target", ">data free", ">of", ">index free", ">of"]);
    for (number, target) in targets.iter().enumerate() {
        let sizes = [target.data_free, target.data_total, target.index_free, target.index_total];
        let sizes = sizes.map(|size| Bytes(size).to_string());
        table.row(std::iter::once(number.to_string()).chain(sizes));
    }
    format!("\n{table}")
}

impl Destroy {
    fn run(self) -> Result<Answer> {
        let path = match names::resolve(&self.pool.pool)? {
            Named::Posix(url) => return pool_posix::destroy(&url.path),
            Named::Native(path) => path,
        };
        esker_store::Pool::destroy(&path, self.force)?;
        let response = json!({"url": format!("esker:{}", path.display())});
        Ok(Answer::new(response, format!("pool {} is gone", path.display())))
    }
}

impl Compact {
    fn run(self) -> Result<Answer> {
        let pool = esker_store::Pool::open(&names::find(&self.pool.pool)?)?;
        if self.huge_pages {
            gather(&pool)?;
        }
        let bar = Bar::steps("compacting");
        let freed = pool.state()?.compact(&mut |done, all| bar.update(done, all))?;
        drop(bar);
        let (mut response, mut text) =
            (json!({"freed_bytes": freed}), format!("{} became free", Bytes(freed)));
        if self.huge_pages {
            let pages = pool.state()?.huge_pages()?;
            response["huge_page_bytes"] = json!(pages.bytes);
            text += &format!("\nhuge pages: {}", shapes::huge_pages(&pages, NO_MORE));
        }
        Ok(Answer::new(response, text))
    }
}

fn gather(pool: &esker_store::Pool) -> Result<()> {
    let (state, bar) = (pool.state()?, Bar::bytes("gathering"));
    state.gather_pages(&mut |done, all| bar.update(done, all))
}
