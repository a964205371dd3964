//! What `esker bench mdtest` and `esker bench ior` share.
use super::parallel::PinArg;
use super::{JsonFile, launcher};
use crate::output::Answer;
use crate::progress::Bar;
use clap::{Args, ValueEnum};
use esker::types::Result;
use esker_bench::plan::Note;
use esker_bench::plan::posix::{Api, Beside, Outcome, Setting, Sites, Subject};
use serde_json::json;
use std::path::PathBuf;

/// Where the work is done, and beside what.
#[derive(Args)]
pub(super) struct Common {
    /// Interface
    #[arg(short = 'a', value_name = "API", default_value = "POSIX", ignore_case = true)]
    api: ApiArg,
    /// How often all is repeated
    #[arg(short = 'i', value_name = "N", default_value_t = 1)]
    iterations: u32,
    /// Seed of the data
    #[arg(short = 'G', long = "seed", value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Processors that processes are pinned to: sockets in turn, all cores of a socket first, or none
    #[arg(long, value_name = "HOW", default_value = "sockets")]
    pin: PinArg,
    /// Folder in memory for the comparison [default: /dev/shm]
    #[arg(long, value_name = "DIR")]
    tmpfs: Option<PathBuf>,
    /// Folder on a disk for the comparison [default: where temporary files go]
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Compare with nothing
    #[arg(long, conflicts_with_all = ["tmpfs", "disk"])]
    alone: bool,
    #[command(flatten)]
    json: JsonFile,
}

#[derive(Clone, Copy, ValueEnum)]
enum ApiArg {
    #[value(name = "POSIX")]
    Posix,
}

impl Common {
    pub(super) fn setting(&self, procs: u32, delay_s: u32, stonewall_s: u32) -> Setting {
        Setting {
            procs,
            iterations: self.iterations,
            delay_s,
            stonewall_s: (stonewall_s > 0).then(|| f64::from(stonewall_s)),
            seed: self.seed,
            pin: self.pin.into(),
        }
    }

    /// Measures and answers.
    pub(super) fn run(
        &self,
        folder: PathBuf,
        cleared: bool,
        measure: impl FnOnce(Sites, Note<'_>) -> Result<Outcome>,
    ) -> Result<Answer> {
        self.json.check()?;
        let bar = Bar::spinner();
        let api = match self.api {
            ApiArg::Posix => Api::Posix,
        };
        let subject = Subject { api, folder, cleared };
        let beside =
            Beside { nothing: self.alone, memory: self.tmpfs.clone(), disk: self.disk.clone() };
        let note: Note<'_> = &mut |what| bar.say(what);
        let sites = Sites::new(&launcher("posix-worker")?, &subject, &beside, note)?;
        let outcome = measure(sites, note)?;
        drop(bar);
        self.json.answer_with(json!(outcome.report()), outcome.to_string())
    }
}
