//! `esker bench mdtest`: metadata operations, as mdtest measures them.
use super::shared_options::{Common, Original, Refused, Work};
use clap::Args;
use esker::types::Result;
use esker_bench::plan::posix::MdtestPlan;
use esker_bench::posix::mdtest::{Kind, Options, Tree};
use esker_cli::output::Answer;
use esker_cli::units::Bytes;
use serde_json::json;
use std::path::PathBuf;

const ABOUT: &str = "\
Several processes create, examine, read and remove directories and files, as mdtest does: option letters have the same \
meaning, and the table has the same form. MPI is not required: --procs processes of this machine start each phase at \
the same moment. The time of a phase runs from the first start to the last end.

The same work runs on a file system in memory and on one on a disk, alternating phase by phase. If files are created and \
removed, an unmeasured iteration comes first.

After the stonewall (-W), each process continues until it has created as many files as the fastest one; the rate up to \
the stonewall has a separate line.

If mdtest itself is on the PATH (or given by --genuine), it does the same work afterwards on each of the folders, by \
mpirun where there are several processes. Its mean rates stand beside ours below the table.

Examples:
  esker bench mdtest --procs 2 -n 10000 -d /dev/shm/md -i 3
  esker bench mdtest -a DFS --procs 1 -n 1000000 -F --list -d /one
  esker run tank/home -- esker bench mdtest -n 10000 -F -w 3901 -e 3901 -X -d /esker/md";

/// Measure metadata: create, examine, read and remove directories and files, as mdtest does
#[derive(Args)]
#[command(after_long_help = ABOUT)]
pub(crate) struct Mdtest {
    /// Directory of the test tree
    #[arg(short = 'd', value_name = "DIR")]
    folder: PathBuf,
    /// Number of directories and files of each process in the whole tree
    #[arg(short = 'n', value_name = "N", conflicts_with = "items_per_dir")]
    items: Option<u64>,
    /// Number of directories and files of each process in each directory of the tree
    #[arg(short = 'I', value_name = "N")]
    items_per_dir: Option<u64>,
    /// Number of processes
    #[arg(long, visible_alias = "np", value_name = "N", default_value_t = 2)]
    procs: u32,
    /// Files only
    #[arg(short = 'F')]
    files_only: bool,
    /// Directories only
    #[arg(short = 'D', conflicts_with = "files_only")]
    directories_only: bool,
    /// Create; with any of -C, -T, -E and -r, only these phases are measured
    #[arg(short = 'C')]
    create: bool,
    /// Examine (stat)
    #[arg(short = 'T')]
    stat: bool,
    /// Open, read and close files
    #[arg(short = 'E')]
    read: bool,
    /// Remove
    #[arg(short = 'r')]
    remove: bool,
    /// List the directories too, after -T; rates are names per second
    #[arg(long)]
    list: bool,
    /// Use one tree per process
    #[arg(short = 'u')]
    unique: bool,
    /// Depth of the tree
    #[arg(short = 'z', value_name = "N", default_value_t = 0)]
    depth: u32,
    /// Number of subdirectories of each directory
    #[arg(short = 'b', value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    branch: u64,
    /// Create items only in the lowest level of the tree
    #[arg(short = 'L')]
    leaf_only: bool,
    /// Distance to the process whose items are examined; twice that for reading, three times for
    /// removing
    #[arg(short = 'N', value_name = "N", default_value_t = 0)]
    stride: u32,
    /// Bytes written to each new file
    #[arg(short = 'w', value_name = "SIZE", default_value = "0")]
    write: Bytes,
    /// Bytes read from each file
    #[arg(short = 'e', value_name = "SIZE", default_value = "0")]
    read_bytes: Bytes,
    /// Sync each file before closing it
    #[arg(short = 'y')]
    sync: bool,
    /// Compare what is read with what was written
    #[arg(short = 'X', long = "verify-read")]
    verify: bool,
    /// Examine items in random order
    #[arg(short = 'R')]
    random: bool,
    /// Stonewall: end the creation of files after this time
    #[arg(short = 'W', value_name = "SECONDS", default_value_t = 0)]
    stonewall: u32,
    /// Pause before each iteration
    #[arg(short = 'p', value_name = "SECONDS", default_value_t = 0)]
    delay: u32,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    _refused: Refused<TheOriginal>,
}

pub(crate) struct TheOriginal;

impl Original for TheOriginal {
    const NAME: &'static str = "mdtest";
    const REFUSED: &'static [(&'static str, &'static str)] = &[
        ("-B", "all processes always start a phase together"),
        ("-c", "every process creates its own items"),
        ("-f", "give the number of processes to --procs"),
        ("-l", "give the number of processes to --procs"),
        ("-s", "give the number of processes to --procs"),
        ("-k", "files are created by open"),
        ("-P", "times are in the report of --json"),
        ("-S", "use `esker bench ior` for a shared file"),
        ("-t", "the directories of processes (-u) are included in tree-creation"),
        ("-U", "renaming is not measured"),
        ("-v", "the output is complete"),
        ("-V", "the output is complete"),
        ("-x", "split phases over several runs with -C, -T, -E and -r"),
        ("-Y", "sync each file with -y"),
        ("-Z", "times are in the report of --json"),
    ];
}

impl Mdtest {
    pub(crate) fn run(self) -> Result<Answer> {
        let plan = self.plan();
        let work = Work {
            genuine: ("mdtest", plan.genuine()),
            folder: self.folder,
            cleared: plan.create && plan.remove,
            bytes: plan.bytes(),
            entries: plan.entries(),
        };
        self.common.run(work, |systems, note| plan.run(systems, note))
    }

    fn plan(&self) -> MdtestPlan {
        let some = self.create || self.stat || self.read || self.remove;
        MdtestPlan {
            setting: self.common.setting(self.procs, self.delay, self.stonewall),
            options: self.options(),
            kinds: match (self.files_only, self.directories_only) {
                (true, _) => vec![Kind::File],
                (_, true) => vec![Kind::Directory],
                _ => vec![Kind::Directory, Kind::File],
            },
            create: self.create || !some,
            stat: self.stat || !some,
            list: self.list,
            read: self.read || !some,
            remove: self.remove || !some,
            told: self.told(),
        }
    }

    /// Options of the benchmark. The items of -n are divided by the number of directories; as in mdtest, the remainder is
    /// dropped.
    fn options(&self) -> Options {
        let tree = Tree { depth: self.depth, branch: self.branch, leaf_only: self.leaf_only };
        let directories = tree.item_dirs().end - tree.item_dirs().start;
        let divided = self.items.unwrap_or(0).checked_div(directories);
        Options {
            tree,
            items_per_dir: self.items_per_dir.or(divided).unwrap_or(0),
            unique: self.unique,
            stride: self.stride,
            write_bytes: self.write.0,
            read_bytes: self.read_bytes.0,
            sync: self.sync,
            verify: self.verify,
            random_stat: self.random,
        }
    }

    fn told(&self) -> serde_json::Value {
        json!({
            "folder": self.folder.display().to_string(), "items": self.options().items(),
            "depth": self.depth, "branch": self.branch, "leaf_only": self.leaf_only,
            "unique": self.unique, "stride": self.stride, "write_bytes": self.write.0,
            "read_bytes": self.read_bytes.0, "sync": self.sync, "verified": self.verify,
            "random_stat": self.random, "stonewall_s": self.stonewall,
        })
    }
}
