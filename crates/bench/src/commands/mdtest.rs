//! `esker bench mdtest`: metadata operations, as mdtest measures them.
use super::shared_options::{Common, Original, Refused, Work};
use clap::Args;
use esker::types::Result;
use esker_bench::plan::posix::MdtestPlan;
use esker_cli::output::Answer;
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
    #[command(flatten)]
    plan: MdtestPlan,
    /// Number of processes
    #[arg(long, visible_alias = "np", value_name = "N", default_value_t = 2)]
    procs: u32,
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
        let Self { plan, common, folder, .. } = self;
        let setting = common.setting(self.procs, self.delay, self.stonewall);
        let name = json!(folder.display().to_string());
        let work = Work {
            genuine: ("mdtest", plan.genuine(&setting)),
            folder,
            cleared: plan.clears(),
            bytes: plan.bytes(setting.procs),
            entries: plan.entries(setting.procs),
        };
        common.run(work, |systems, note| {
            let mut outcome = plan.run(&setting, systems, note)?;
            outcome.settings.options.insert("folder".to_owned(), name.clone());
            Ok(outcome)
        })
    }
}
