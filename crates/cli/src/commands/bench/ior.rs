//! `esker bench ior`.
use super::beside::{Common, Work};
use super::refused::{Original, Refused};
use crate::output::Answer;
use clap::Args;
use esker::types::{Error, ErrorKind, Result};
use esker_bench::plan::posix::IorPlan;
use esker_bench::posix::ior::Options;
use esker_bench::units::Bytes;
use serde_json::json;
use std::path::{Path, PathBuf};

const ABOUT: &str = "\
Several processes write and read large files in transfers, as ior does it: option letters mean what they mean \
there, and the table is the same. No MPI is needed: --procs processes of this machine begin each phase at \
the same moment. Times go from the first start to the last end; bw is all bytes over the time from the first \
opening to the last closing.

The same work runs on a plain file system in memory and on the one of the disk, in turns, phase by phase. \
Where files are removed again, an iteration that is not measured comes first: the first use of fresh memory \
is ten times slower than its reuse.

Data is made from the process, the iteration and the place in the file. -W and -R read it in a pass that is \
not measured and compare every byte.

Examples:
  esker bench ior --procs 2 -F -t 8k -b 64m -C -i 3 -o /dev/shm/file
  esker bench ior -a DFS -F -t 1m -b 256m -i 3 -o /file
  esker bench ior -w -r -W -R -t 1m -b 256m -s 2 -D 10 -O stoneWallingWearOut=1 -o /mnt/esker/file
  esker run tank/home -- esker bench ior -F -t 1m -b 256m -o /esker/file";

/// Measure transfers: write and read files, one of each process or one of all, as ior does
#[derive(Args)]
#[command(after_long_help = ABOUT)]
pub(crate) struct Ior {
    /// File; with -F the number of the process follows its name
    #[arg(short = 'o', value_name = "FILE")]
    file: PathBuf,
    /// Bytes of a process that lie in one piece
    #[arg(short = 'b', value_name = "SIZE", default_value = "1MiB")]
    block: Bytes,
    /// Bytes of one read or write
    #[arg(short = 't', value_name = "SIZE", default_value = "256KiB")]
    transfer: Bytes,
    /// How often the blocks of all processes follow each other
    #[arg(short = 's', value_name = "N", default_value_t = 1)]
    segments: u64,
    /// Processes
    #[arg(short = 'N', long, visible_alias = "np", value_name = "N", default_value_t = 2)]
    procs: u32,
    /// A file for each process
    #[arg(short = 'F')]
    file_per_process: bool,
    /// Write; without -w and -r both is done
    #[arg(short = 'w')]
    write: bool,
    /// Read
    #[arg(short = 'r')]
    read: bool,
    /// Compare what was written, right after it
    #[arg(short = 'W')]
    check_write: bool,
    /// Compare what is read
    #[arg(short = 'R')]
    check_read: bool,
    /// Read what another process wrote
    #[arg(short = 'C')]
    reorder: bool,
    /// How many processes on that one is
    #[arg(short = 'Q', value_name = "N", default_value_t = 1)]
    task_offset: u32,
    /// Sync at the end of writing, within its time
    #[arg(short = 'e')]
    sync: bool,
    /// Sync after each write
    #[arg(short = 'Y')]
    sync_each: bool,
    /// Wait for each other between opening, transfers and closing
    #[arg(short = 'g')]
    barriers: bool,
    /// Transfers in random order
    #[arg(short = 'z')]
    random: bool,
    /// Do not remove what is there before it is written
    #[arg(short = 'E')]
    existing: bool,
    /// Keep the files
    #[arg(short = 'k')]
    keep: bool,
    /// Stonewall: write, and read, for so many seconds
    #[arg(short = 'D', value_name = "SECONDS", default_value_t = 0)]
    stonewall: u32,
    /// Directives: stoneWallingWearOut=1 has all processes go on to the same amount after the stonewall
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
        ("-A", "name the file of --json"),
        ("-c", "there is no collective I/O without MPI"),
        ("-f", "give the options on the command line"),
        ("-j", "all iterations are in the table"),
        ("-J", "file formats are not measured"),
        ("-K", "what differs is named, and ends the run"),
        ("-l", "data always comes from process, iteration and place"),
        ("-M", "memory is not taken away"),
        ("-m", "each iteration writes the same files"),
        ("-T", "end it with the stonewall -D, or with -i"),
        ("-u", "files differ by their names"),
        ("-v", "all there is to say is said"),
        ("-x", "what is short is an error"),
        ("-X", "give the seed to -G"),
        ("-y", "there is one mount point"),
        ("-Z", "read what another process wrote with -C"),
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
            folder,
            cleared,
            bytes: plan.options.bytes(plan.setting.procs),
            entries: u64::from(plan.setting.procs),
        };
        self.common.run(work, |sites, note| plan.run(sites, note))
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

    fn told(&self) -> serde_json::Map<String, serde_json::Value> {
        let told = json!({
            "file": self.file.display().to_string(), "block_bytes": self.block.0,
            "transfer_bytes": self.transfer.0, "segments": self.segments,
            "file_per_process": self.file_per_process, "reordered": self.reorder,
            "sync": self.sync, "sync_each": self.sync_each, "random": self.random,
            "barriers": self.barriers, "verified": self.check_write || self.check_read,
            "stonewall_s": self.stonewall,
        });
        told.as_object().cloned().unwrap_or_default()
    }
}

/// Of the directives of ior one is known here.
fn wears_out(directives: &[String]) -> Result<bool> {
    let mut wears_out = false;
    for directive in directives {
        wears_out = match directive.split_once('=') {
            Some(("stoneWallingWearOut", "1")) => true,
            Some(("stoneWallingWearOut", "0")) => false,
            _ => {
                let message = format!(
                    "-O {directive}: of ior's directives only stoneWallingWearOut=0 and =1 are known"
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        };
    }
    Ok(wears_out)
}
