//! `esker bench mdtest`.
use super::beside::{Common, Work};
use super::refused::{Original, Refused};
use crate::output::Answer;
use clap::Args;
use esker::types::Result;
use esker_bench::plan::posix::MdtestPlan;
use esker_bench::posix::mdtest::{Kind, Options, Tree};
use esker_bench::units::Bytes;
use serde_json::json;
use std::path::PathBuf;

const ABOUT: &str = "\
Directories and files are made, looked at, read and removed by several processes, as mdtest does it: option \
letters mean what they mean there, and the table is the same. No MPI is needed: --procs processes of this \
machine begin each phase at the same moment. The time of a phase goes from the first start to the last end.

The same work runs on a plain file system in memory and on the one of the disk, in turns, phase by phase. \
Where files are made and removed again, an iteration that is not measured comes first.

After the stonewall (-W) all processes go on until they have made as many files as the one that made most; \
the rate up to the stonewall has a line of its own.

Examples:
  esker bench mdtest --procs 2 -n 10000 -d /dev/shm/md -i 3
  esker bench mdtest -a DFS --procs 1 -n 1000000 -F --list -d /one
  esker run tank/home -- esker bench mdtest -n 10000 -F -w 3901 -e 3901 -X -d /esker/md";

/// Measure names: make, look at, read and remove directories and files, as mdtest does
#[derive(Args)]
#[command(after_long_help = ABOUT)]
pub(crate) struct Mdtest {
    /// Folder for all of it
    #[arg(short = 'd', value_name = "DIR")]
    folder: PathBuf,
    /// Directories and files of each process, over the whole tree
    #[arg(short = 'n', value_name = "N", conflicts_with = "items_per_dir")]
    items: Option<u64>,
    /// The same in each directory of the tree
    #[arg(short = 'I', value_name = "N")]
    items_per_dir: Option<u64>,
    /// Processes
    #[arg(long, visible_alias = "np", value_name = "N", default_value_t = 2)]
    procs: u32,
    /// Files only
    #[arg(short = 'F')]
    files_only: bool,
    /// Directories only
    #[arg(short = 'D', conflicts_with = "files_only")]
    directories_only: bool,
    /// Make them; with -C, -T, -E or -r only what is named is done
    #[arg(short = 'C')]
    create: bool,
    /// Look at them (stat)
    #[arg(short = 'T')]
    stat: bool,
    /// Open, read and close files
    #[arg(short = 'E')]
    read: bool,
    /// Remove them
    #[arg(short = 'r')]
    remove: bool,
    /// List the directories too, after the stat; rates are names per second
    #[arg(long)]
    list: bool,
    /// A tree for each process
    #[arg(short = 'u')]
    unique: bool,
    /// Depth of the tree
    #[arg(short = 'z', value_name = "N", default_value_t = 0)]
    depth: u32,
    /// Directories in each directory of the tree
    #[arg(short = 'b', value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    branch: u64,
    /// Items in the last level of the tree only
    #[arg(short = 'L')]
    leaf_only: bool,
    /// How many processes on is the one whose items are looked at; twice that for reading, three times
    /// for removing
    #[arg(short = 'N', value_name = "N", default_value_t = 0)]
    stride: u32,
    /// Bytes written to each new file
    #[arg(short = 'w', value_name = "SIZE", default_value = "0")]
    write: Bytes,
    /// Bytes read from each file
    #[arg(short = 'e', value_name = "SIZE", default_value = "0")]
    read_bytes: Bytes,
    /// Sync each file before it is closed
    #[arg(short = 'y')]
    sync: bool,
    /// Compare what is read with what was written
    #[arg(short = 'X', long = "verify-read")]
    verify: bool,
    /// Look at items in random order
    #[arg(short = 'R')]
    random: bool,
    /// Stonewall: make files for so many seconds
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
        ("-B", "phases always begin together"),
        ("-c", "every process makes its own items"),
        ("-f", "give the number of processes to --procs"),
        ("-l", "give the number of processes to --procs"),
        ("-s", "give the number of processes to --procs"),
        ("-k", "files are made by opening them"),
        ("-P", "times are in the report of --json"),
        ("-S", "a shared file is the work of `esker bench ior`"),
        ("-t", "directories of processes (-u) are timed as the creation of the tree"),
        ("-U", "renaming is not measured"),
        ("-v", "all there is to say is said"),
        ("-V", "all there is to say is said"),
        ("-x", "phases of several runs are joined by -C, -T, -E and -r"),
        ("-Y", "sync each file with -y"),
        ("-Z", "times are in the report of --json"),
    ];
}

impl Mdtest {
    pub(crate) fn run(self) -> Result<Answer> {
        let plan = self.plan();
        let work = Work {
            folder: self.folder,
            cleared: plan.create && plan.remove,
            bytes: plan.bytes(),
            entries: plan.entries(),
        };
        self.common.run(work, |sites, note| plan.run(sites, note))
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

    /// What -n does not divide by the directories is left out, as mdtest does.
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

    fn told(&self) -> serde_json::Map<String, serde_json::Value> {
        let told = json!({
            "folder": self.folder.display().to_string(), "items": self.options().items(),
            "depth": self.depth, "branch": self.branch, "leaf_only": self.leaf_only,
            "unique": self.unique, "stride": self.stride, "write_bytes": self.write.0,
            "read_bytes": self.read_bytes.0, "sync": self.sync, "verified": self.verify,
            "random_stat": self.random, "stonewall_s": self.stonewall,
        });
        told.as_object().cloned().unwrap_or_default()
    }
}
