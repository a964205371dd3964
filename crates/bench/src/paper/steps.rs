//! What `esker bench paper` runs: commands that anyone can run by hand.
use crate::plan::Note;
use crate::plan::arena::{Arena, Store};
use crate::results::Results;
use crate::runner::Runner;
use esker_types::Result;
use std::path::Path;

/// One command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// What figures call it.
    pub(super) name: &'static str,
    /// On a native pool that is made, or on the pool of files.
    pub(super) posix: bool,
    /// What follows `esker bench`, but for where.
    pub(super) words: &'static str,
}

/// All of them, each with the figures it serves in docs/paper.md.
pub(super) const STEPS: [Step; 7] = [
    Step {
        name: "segments",
        posix: false,
        words: "segments --procs 1,2,4 --segments 50 --iterations 3 --repeat 3",
    },
    Step {
        name: "segments-posix",
        posix: true,
        words: "segments --procs 1,2,4 --segments 50 --iterations 3 --repeat 3",
    },
    Step {
        name: "processes",
        posix: false,
        words: "field-io --mode full --pattern A --contention low --procs 1,2,4,8 --ops 200 --repeat 5",
    },
    Step {
        name: "modes",
        posix: false,
        words: "field-io --mode full,no-containers,no-index --pattern A,B --contention low,high \
                --procs 2,4 --ops 200 --repeat 5",
    },
    Step {
        name: "sizes",
        posix: false,
        words: "field-io --mode no-containers --pattern A --contention low --procs 2 --ops 20 --repeat 5 \
                --size 1MiB,5MiB,10MiB,20MiB,50MiB --class-array S1,S2,SX",
    },
    Step {
        name: "modes-posix",
        posix: true,
        words: "field-io --mode full,no-containers --pattern A,B --contention low --procs 2,4 --ops 100 \
                --repeat 3",
    },
    Step {
        name: "sizes-posix",
        posix: true,
        words: "field-io --mode full --pattern A --contention low --procs 2 --ops 20 --repeat 3 \
                --size 1MiB,5MiB,10MiB,20MiB",
    },
];

impl Step {
    /// The step with fewer operations and repeats, for a look at the page.
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

    /// Runs it.
    pub(super) fn run(
        &self,
        runner: &Runner,
        arena: &Arena,
        folder: &Path,
        quick: bool,
    ) -> Result<Results> {
        let place = match self.posix {
            true => ["--pool".to_owned(), arena.url(&Store::Posix)],
            false => ["--path".to_owned(), folder.display().to_string()],
        };
        runner.bench(self.name, &[self.words(quick), place.to_vec()].concat())
    }
}

/// Runs all steps.
pub(super) fn run_all(
    runner: &Runner,
    arena: &Arena,
    folder: &Path,
    quick: bool,
    note: Note<'_>,
) -> Result<Vec<Results>> {
    let numbered = STEPS.iter().enumerate();
    let run = |(index, step): (usize, &Step)| {
        note(&format!("{} of {}: esker bench {}", index + 1, STEPS.len(), step.words));
        step.run(runner, arena, folder, quick)
    };
    numbered.map(run).collect()
}
