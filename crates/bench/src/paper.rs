//! `esker bench paper`: measures every table and figure of the two papers on weather fields and DAOS, scaled
//! down to one machine and a few minutes.
use crate::fleet::Launcher;
use crate::plan::Note;
use crate::plan::arena::{Arena, Room, Store};
use esker::types::info::Durability;
use esker_types::Result;
use std::path::PathBuf;

/// A run of all benchmarks of the papers.
#[derive(Clone, Debug)]
pub struct PaperPlan {
    /// How to start processes.
    pub launcher: Launcher,
    /// Folder on the medium to measure.
    pub folder: PathBuf,
    /// Use few operations, for a preview of the page. The numbers mean little.
    pub quick: bool,
}

/// The reports of all commands, in a directory that is removed when this value is dropped.
pub struct PaperReports {
    /// One report per command, in order.
    pub reports: Vec<PaperReport>,
    _arena: Arena,
}

/// The report of one command.
#[derive(Clone, Debug)]
pub struct PaperReport {
    /// Name that the findings use.
    pub name: &'static str,
    /// The kind of store and the command.
    pub command: String,
    /// The report, with its traces beside it.
    pub path: PathBuf,
}

/// One command; anyone can run it by hand.
struct Command {
    /// Name that the findings use.
    name: &'static str,
    /// Use the pool of files, else the native pool.
    posix: bool,
    /// Arguments after `esker bench`, without the location.
    words: &'static str,
}

/// All commands. docs/paper.md lists the figures of each.
const STEPS: [Command; 7] = [
    Command {
        name: "segments",
        posix: false,
        words: "segments --procs 1,2,4 --segments 50 --iterations 3 --repeat 3",
    },
    Command {
        name: "segments-posix",
        posix: true,
        words: "segments --procs 1,2,4 --segments 50 --iterations 3 --repeat 3",
    },
    Command {
        name: "processes",
        posix: false,
        words: "field-io --mode full --pattern A --contention low --procs 1,2,4,8 --ops 200 --repeat 5",
    },
    Command {
        name: "modes",
        posix: false,
        words: "field-io --mode full,no-containers,no-index --pattern A,B --contention low,high \
                --procs 2,4 --ops 200 --repeat 5",
    },
    Command {
        name: "sizes",
        posix: false,
        words: "field-io --mode no-containers --pattern A --contention low --procs 2 --ops 20 --repeat 5 \
                --size 1MiB,5MiB,10MiB,20MiB,50MiB --class-array S1,S2,SX",
    },
    Command {
        name: "modes-posix",
        posix: true,
        words: "field-io --mode full,no-containers --pattern A,B --contention low --procs 2,4 --ops 100 \
                --repeat 3",
    },
    Command {
        name: "sizes-posix",
        posix: true,
        words: "field-io --mode full --pattern A --contention low --procs 2 --ops 20 --repeat 3 \
                --size 1MiB,5MiB,10MiB,20MiB",
    },
];

impl PaperPlan {
    /// Runs all commands.
    ///
    /// # Errors
    /// If there is no space, a command fails, or this process receives a signal to end.
    pub fn run(&self, note: Note<'_>) -> Result<PaperReports> {
        let room = Room { bytes: 0, entries: 0, targets: None, durability: Durability::Process };
        let arena = Arena::new(&self.launcher, &self.folder, &[Store::Posix], &room, note)?;
        let runner = arena.runner(&self.launcher);
        let mut reports = Vec::new();
        for (index, step) in STEPS.iter().enumerate() {
            note(&format!("{} of {}: esker bench {}", index + 1, STEPS.len(), step.words));
            let place = match step.posix {
                true => ["--pool".to_owned(), arena.url(&Store::Posix)],
                false => ["--path".to_owned(), self.folder.display().to_string()],
            };
            runner.bench(step.name, &[step.words(self.quick), place.to_vec()].concat())?;
            let store = if step.posix { "posix" } else { "native" };
            let command = format!("esker bench {} ({store})", step.words);
            reports.push(PaperReport {
                name: step.name,
                command,
                path: runner.report_path(step.name),
            });
        }
        Ok(PaperReports { reports, _arena: arena })
    }
}

impl Command {
    /// The arguments, with fewer operations and repeats for a preview.
    fn words(&self, quick: bool) -> Vec<String> {
        let mut words: Vec<_> = self.words.split_whitespace().map(str::to_owned).collect();
        for index in 1..words.len() {
            let least = match words[index - 1].as_str() {
                "--ops" | "--segments" => "4",
                "--repeat" | "--iterations" => "1",
                _ => continue,
            };
            if quick {
                words[index] = least.to_owned();
            }
        }
        words
    }
}
