//! `esker bench ior`: transfers, as ior measures them.
use super::shared_options::{Common, Original, Refused, Work};
use clap::Args;
use esker::types::Result;
use esker_bench::plan::posix::IorPlan;
use esker_cli::output::Answer;
use std::path::Path;

const ABOUT: &str = "\
Several processes write and read large files, as ior does: option letters have the same meaning, and the table has the \
same form. MPI is not required: --procs processes of this machine start each phase at the same moment. Times run from \
the first start to the last end; bw is the number of bytes divided by the time from the first open to the last close.

The same work runs on a file system in memory and on one on a disk, alternating phase by phase. If files are removed at \
the end, an unmeasured iteration comes first, because the first use of fresh memory is ten times slower than its reuse.

Data is generated from the process, the iteration and the offset in the file. -W and -R read it in an unmeasured pass \
and compare every byte.

If ior itself is on the PATH (or given by --genuine), it does the same work afterwards on each of the folders, by \
mpirun where there are several processes. Its mean rates stand beside ours below the table.

Examples:
  esker bench ior --procs 2 -F -t 8k -b 64m -C -i 3 -o /dev/shm/file
  esker bench ior -a DFS -F -t 1m -b 256m -i 3 -o /file
  esker bench ior -w -r -W -R -t 1m -b 256m -s 2 -D 10 -O stoneWallingWearOut=1 -o /mnt/esker/file
  esker run tank/home -- esker bench ior -F -t 1m -b 256m -o /esker/file";

/// Measure transfers to one file per process or to a shared file, as ior does
#[derive(Args)]
#[command(after_long_help = ABOUT)]
pub(crate) struct Ior {
    #[command(flatten)]
    plan: IorPlan,
    /// Number of processes
    #[arg(short = 'N', long, visible_alias = "np", value_name = "N", default_value_t = 2)]
    procs: u32,
    /// Stonewall: end writing, and reading, after this time
    #[arg(short = 'D', value_name = "SECONDS", default_value_t = 0)]
    stonewall: u32,
    /// Pause before each iteration
    #[arg(short = 'd', value_name = "SECONDS", default_value_t = 0)]
    delay: u32,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    _refused: Refused<TheOriginal>,
}

pub(crate) struct TheOriginal;

impl Original for TheOriginal {
    const NAME: &'static str = "ior";
    const REFUSED: &'static [(&'static str, &'static str)] = &[
        ("-A", "name the file with --json"),
        ("-c", "collective I/O requires MPI"),
        ("-f", "give the options on the command line"),
        ("-j", "all iterations are in the table"),
        ("-J", "file formats are not supported"),
        ("-K", "the first difference is reported and ends the run"),
        ("-l", "data is always generated from process, iteration and offset"),
        ("-M", "memory is not reserved"),
        ("-m", "each iteration writes the same files"),
        ("-T", "limit the run with the stonewall -D, or with -i"),
        ("-u", "files differ by their names"),
        ("-v", "the output is complete"),
        ("-x", "a short transfer is always an error"),
        ("-X", "set the seed with -G"),
        ("-y", "only one mount point is supported"),
        ("-Z", "read the data of another process with -C"),
    ];
}

impl Ior {
    pub(crate) fn run(self) -> Result<Answer> {
        let Self { plan, common, .. } = self;
        let setting = common.setting(self.procs, self.delay, self.stonewall);
        let folder = plan.options.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let work = Work {
            genuine: ("ior", plan.genuine(&setting)),
            folder: folder.unwrap_or(Path::new(".")).to_owned(),
            cleared: plan.writes() && !plan.keep && !plan.existing,
            bytes: plan.options.bytes(setting.procs),
            entries: u64::from(setting.procs),
        };
        common.run(work, |systems, note| plan.run(&setting, systems, note))
    }
}
