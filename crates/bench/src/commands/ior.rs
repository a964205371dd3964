//! `esker bench ior`: transfers, as ior measures them.
use super::shared_options::{Common, Original, Refused, Work};
use clap::Args;
use esker::types::{Error, ErrorKind, Result};
use esker_bench::plan::posix::IorPlan;
use esker_bench::posix::ior::Options;
use esker_cli::output::Answer;
use esker_cli::units::Bytes;
use serde_json::json;
use std::path::{Path, PathBuf};

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
    /// File; with -F, the number of the process is appended to its name
    #[arg(short = 'o', value_name = "FILE")]
    file: PathBuf,
    /// Contiguous bytes of each process in a segment
    #[arg(short = 'b', value_name = "SIZE", default_value = "1MiB")]
    block: Bytes,
    /// Size of one read or write
    #[arg(short = 't', value_name = "SIZE", default_value = "256KiB")]
    transfer: Bytes,
    /// Number of segments; each has a block of every process
    #[arg(short = 's', value_name = "N", default_value_t = 1)]
    segments: u64,
    /// Number of processes
    #[arg(short = 'N', long, visible_alias = "np", value_name = "N", default_value_t = 2)]
    procs: u32,
    /// Use one file per process
    #[arg(short = 'F')]
    file_per_process: bool,
    /// Write; without -w and -r, both are measured
    #[arg(short = 'w')]
    write: bool,
    /// Read
    #[arg(short = 'r')]
    read: bool,
    /// Read back and compare after writing
    #[arg(short = 'W')]
    check_write: bool,
    /// Compare what is read
    #[arg(short = 'R')]
    check_read: bool,
    /// Read what another process wrote
    #[arg(short = 'C')]
    reorder: bool,
    /// Distance to the process whose data -C reads
    #[arg(short = 'Q', value_name = "N", default_value_t = 1)]
    task_offset: u32,
    /// Sync at the end of writing, and include it in the time
    #[arg(short = 'e')]
    sync: bool,
    /// Sync after each write
    #[arg(short = 'Y')]
    sync_each: bool,
    /// Synchronize all processes between open, transfers and close
    #[arg(short = 'g')]
    barriers: bool,
    /// Transfer in random order
    #[arg(short = 'z')]
    random: bool,
    /// Do not remove an existing file before writing
    #[arg(short = 'E')]
    existing: bool,
    /// Keep the files
    #[arg(short = 'k')]
    keep: bool,
    /// Stonewall: end writing, and reading, after this time
    #[arg(short = 'D', value_name = "SECONDS", default_value_t = 0)]
    stonewall: u32,
    /// Directives: with stoneWallingWearOut=1, all processes write the same amount after the stonewall
    #[arg(short = 'O', value_name = "NAME=VALUE", value_delimiter = ',')]
    directives: Vec<String>,
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
        let name = self.file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let plan = self.plan(name)?;
        let cleared = plan.write && !plan.keep && !plan.existing;
        let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        let work = Work {
            genuine: ("ior", plan.genuine()),
            folder,
            cleared,
            bytes: plan.options.bytes(plan.setting.procs),
            entries: u64::from(plan.setting.procs),
        };
        self.common.run(work, |systems, note| plan.run(systems, note))
    }

    fn plan(&self, file: &str) -> Result<IorPlan> {
        let some = self.write || self.read;
        Ok(IorPlan {
            setting: self.common.setting(self.procs, self.delay, self.stonewall),
            options: self.options(file),
            write: self.write || !some,
            check_write: self.check_write,
            read: self.read || !some,
            check_read: self.check_read,
            existing: self.existing,
            keep: self.keep,
            barriers: self.barriers,
            wear_out: wears_out(&self.directives)?,
            told: self.told(),
        })
    }

    fn options(&self, file: &str) -> Options {
        Options {
            block_bytes: self.block.0,
            transfer_bytes: self.transfer.0,
            segments: self.segments,
            file_per_process: self.file_per_process,
            file: file.to_owned(),
            task_offset: if self.reorder { self.task_offset } else { 0 },
            sync: self.sync,
            sync_each: self.sync_each,
            random: self.random,
        }
    }

    fn told(&self) -> serde_json::Value {
        json!({
            "file": self.file.display().to_string(), "block_bytes": self.block.0,
            "transfer_bytes": self.transfer.0, "segments": self.segments,
            "file_per_process": self.file_per_process, "reordered": self.reorder,
            "sync": self.sync, "sync_each": self.sync_each, "random": self.random,
            "barriers": self.barriers, "verified": self.check_write || self.check_read,
            "stonewall_s": self.stonewall,
        })
    }
}

/// The value of the only directive of ior that is supported.
fn wears_out(directives: &[String]) -> Result<bool> {
    let mut wears_out = false;
    for directive in directives {
        wears_out = match directive.split_once('=') {
            Some(("stoneWallingWearOut", "1")) => true,
            Some(("stoneWallingWearOut", "0")) => false,
            _ => {
                let message = format!(
                    "-O {directive} is not supported: only stoneWallingWearOut=0 and =1 are"
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        };
    }
    Ok(wears_out)
}
