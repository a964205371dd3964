//! `esker bench paper`: measures every table and figure of the two papers on weather fields and DAOS. It also measures
//! figures of one paper on arrays and of one on applications. All are scaled down to one machine and a few minutes.
use crate::plan::Note;
use crate::plan::served::Served;
use crate::plan::work_dir::{Capacity, Store, WorkDir};
use esker::types::info::Durability;
use esker_store::PoolSpec;
use esker_types::{Error, Result};
use std::path::{Path, PathBuf};

/// A run of all benchmarks of the papers.
#[derive(Clone, Debug)]
pub struct PaperPlan {
    /// Folder on the medium to measure.
    pub folder: PathBuf,
    /// Use few operations, for a preview of the page. The numbers mean little.
    pub quick: bool,
}

/// The reports of all commands, in a directory that is removed when this value is dropped.
pub struct PaperReports {
    /// One report per command, in order.
    pub reports: Vec<PaperReport>,
    _work_dir: WorkDir,
}

/// The report of one command.
#[derive(Clone, Debug)]
pub struct PaperReport {
    /// Name that the findings use.
    pub name: &'static str,
    /// The kind of store and the command.
    pub command: String,
    /// Path of the report; its traces are in the same directory.
    pub path: PathBuf,
}

/// One command, which users can also run by hand.
struct Command {
    /// Name that the findings use.
    name: &'static str,
    /// The measured system.
    on: On,
    /// Arguments after `esker bench`, without the location.
    words: &'static str,
}

/// The pools of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    /// A temporary native pool.
    Native,
    /// The pool of files.
    Posix,
    /// Pools over [`NODES`] nodes.
    Nodes,
    /// The file system in a temporary native pool, compared with tmpfs and the file system of a disk.
    Files,
}

/// Numbers of nodes of the pools whose engines all run on this machine.
const NODES: [u32; 3] = [1, 2, 4];
/// Bytes of each of these pools.
const NODES_BYTES: u64 = 2 << 30;

/// All commands. docs/paper.md lists the figures of each.
const STEPS: [Command; 16] = [
    Command {
        name: "segments",
        on: On::Native,
        words: "segments --procs 1,2,4 --segments 50 --iterations 3 --repeat 3",
    },
    Command {
        name: "segments-posix",
        on: On::Posix,
        words: "segments --procs 1,2,4 --segments 50 --iterations 3 --repeat 3",
    },
    Command {
        name: "processes",
        on: On::Native,
        words: "field-io --mode full --pattern A --contention low --procs 1,2,4,8 --ops 200 --repeat 5",
    },
    Command {
        name: "modes",
        on: On::Native,
        words: "field-io --mode full,no-containers,no-index --pattern A,B --contention low,high \
                --procs 2,4 --ops 200 --repeat 5",
    },
    Command {
        name: "sizes",
        on: On::Native,
        words: "field-io --mode no-containers --pattern A --contention low --procs 2 --ops 20 --repeat 5 \
                --size 1MiB,5MiB,10MiB,20MiB,50MiB --class-array S1,S2,SX",
    },
    Command {
        name: "modes-posix",
        on: On::Posix,
        words: "field-io --mode full,no-containers --pattern A,B --contention low --procs 2,4 --ops 100 \
                --repeat 3",
    },
    Command {
        name: "sizes-posix",
        on: On::Posix,
        words: "field-io --mode full --pattern A --contention low --procs 2 --ops 20 --repeat 3 \
                --size 1MiB,5MiB,10MiB,20MiB",
    },
    Command {
        name: "segments-nodes",
        on: On::Nodes,
        words: "segments --procs 2,4 --segments 20 --iterations 2 --repeat 3",
    },
    Command {
        name: "modes-nodes",
        on: On::Nodes,
        words: "field-io --mode full,no-containers,no-index --pattern A,B --contention low,high \
                --procs 4 --ops 30 --repeat 2",
    },
    Command {
        name: "tensors",
        on: On::Native,
        words: "tensors --procs 1,2,4 --size 4MiB,16MiB --total 16MiB --iterations 7",
    },
    Command {
        name: "io500-ior-easy",
        on: On::Files,
        words: "ior -a DFS --procs 2 -F -C -t 1MiB -b 128MiB -i 5 -o /easy",
    },
    Command {
        name: "io500-ior-hard",
        on: On::Files,
        words: "ior -a DFS --procs 2 -C -t 47008 -b 47008 -s 1000 -i 5 -o /hard",
    },
    Command {
        name: "io500-mdtest-easy",
        on: On::Files,
        words: "mdtest -a DFS --procs 2 -F -u -n 5000 -i 5 -d /easy",
    },
    Command {
        name: "io500-mdtest-hard",
        on: On::Files,
        words: "mdtest -a DFS --procs 2 -F -w 3901 -e 3901 -n 2500 -i 5 -d /hard",
    },
    Command {
        name: "samples",
        on: On::Files,
        words: "ior -a DFS --procs 2 -z -t 32KiB -b 64MiB -i 5 -o /samples",
    },
    Command {
        name: "particles",
        on: On::Files,
        words: "ior -a DFS --procs 2 -t 8MiB -b 8MiB -s 16 -i 5 -o /particles",
    },
];

impl PaperPlan {
    /// Runs all commands.
    ///
    /// # Errors
    /// If there is no space, a command fails, or this process receives a signal to end.
    pub fn run(&self, note: Note<'_>) -> Result<PaperReports> {
        let capacity =
            Capacity { bytes: 0, entries: 0, targets: None, durability: Durability::Process };
        let work_dir = WorkDir::new(&self.folder, &[Store::Posix], &capacity, note)?;
        let runner = work_dir.runner()?;
        let served = NODES.map(|nodes| self.served(work_dir.folder(), nodes, note));
        let served = served.into_iter().collect::<Result<Vec<_>>>()?;
        let mut reports = Vec::new();
        for (index, step) in STEPS.iter().enumerate() {
            note(&format!("{} of {}: esker bench {}", index + 1, STEPS.len(), step.words));
            let urls = || served.iter().map(Served::url).collect::<Vec<_>>().join(",");
            let pool = match step.on {
                On::Posix => ["--pool".to_owned(), work_dir.url(&Store::Posix)],
                On::Native | On::Files => ["--path".to_owned(), self.folder.display().to_string()],
                On::Nodes => ["--nodes".to_owned(), urls()],
            };
            runner.bench(step.name, &[step.words(self.quick), pool.to_vec()].concat())?;
            let command = format!("esker bench {} ({})", step.words, step.on.words());
            reports.push(PaperReport {
                name: step.name,
                command,
                path: runner.report_path(step.name),
            });
        }
        Ok(PaperReports { reports, _work_dir: work_dir })
    }

    /// A pool over nodes, in a directory of its own.
    fn served(&self, within: &Path, nodes: u32, note: Note<'_>) -> Result<Served> {
        let folder = within.join(format!("nodes-{nodes}"));
        std::fs::create_dir(&folder)
            .map_err(|error| Error::io(format!("creating {}", folder.display()), &error))?;
        let spec =
            PoolSpec { targets: Some(2), ..PoolSpec::new("nodes", NODES_BYTES / u64::from(nodes)) };
        Served::new(&folder, &spec, nodes, note)
    }
}

impl On {
    fn words(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Posix => "posix",
            Self::Nodes => "--nodes: pools over 1, 2 and 4 nodes, whose engines all run here",
            Self::Files => "a file system in a native pool, beside tmpfs and that of a disk",
        }
    }
}

impl Command {
    /// The arguments, with fewer operations and repeats for a preview.
    fn words(&self, quick: bool) -> Vec<String> {
        let mut words: Vec<_> = self.words.split_whitespace().map(str::to_owned).collect();
        for index in 1..words.len() {
            let least = match words[index - 1].as_str() {
                "--ops" | "--segments" | "-s" => "4",
                "--repeat" | "--iterations" | "-i" => "1",
                "-n" => "40",
                "-b" if words[index].ends_with("MiB") => "8MiB",
                _ => continue,
            };
            if quick {
                words[index] = least.to_owned();
            }
        }
        words
    }
}
