//! The commands of `esker bench paper`, as they fit into a size.
use crate::plan::parse_size;
use clap::ValueEnum;

const STEPS: &str = include_str!("steps.txt");

const MIB: u64 = 1 << 20;
/// Space of a pool without its data.
const POOL_BYTES: u64 = 640 * MIB;

/// Space of a pool over nodes without its data, and the most of such pools at a time.
const POOL_OF_NODES_BYTES: u64 = 256 * MIB;
const POOLS: u64 = 3;

/// One command, which users can also run by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Name that the findings use.
    pub(super) name: &'static str,
    /// The measured system.
    pub(super) on: On,
    /// Arguments after `esker bench`, without the location.
    words: &'static str,
}

/// The pools of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum On {
    /// A temporary native pool.
    Native,
    /// The pool of files.
    Posix,
    /// The pool of files on a second medium.
    Beside,
    /// Pools over several numbers of nodes.
    Nodes,
    /// The file system in a temporary pool, compared with tmpfs and the file system of a disk.
    Files,
}

/// All commands. docs/paper.md lists the figures of each.
pub(super) fn steps() -> impl Iterator<Item = Step> {
    STEPS.lines().filter_map(Step::parse)
}

impl Step {
    /// Parses a line `NAME ON COMMAND` of the list of steps. `ON` says on which system the step runs.
    fn parse(line: &'static str) -> Option<Self> {
        let (name, rest) = line.split_once(' ')?;
        let (on, words) = rest.trim_start().split_once(' ')?;
        let on = On::from_str(on, false).ok()?;
        Some(Self { name, on, words: words.trim_start() })
    }

    /// The arguments that need at most `space` bytes on a medium, with few operations if `quick`.
    pub(super) fn words(&self, quick: bool, space: u64) -> Words {
        let mut words = Words(self.words.split_whitespace().map(str::to_owned).collect());
        if quick {
            words.shorten();
        }
        words.fit(self.on, space);
        words
    }
}

/// Arguments after `esker bench`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words(pub(super) Vec<String>);

impl Words {
    /// Fewer operations, sizes and repeats, to check that everything works.
    fn shorten(&mut self) {
        let block = self.largest_value("-b", 0).min(self.largest_value("-t", 0).max(8 * MIB));
        for index in 1..self.0.len() {
            let first_two = || self.0[index].split(',').take(2).collect::<Vec<_>>().join(",");
            self.0[index] = match self.0[index - 1].as_str() {
                "--ops" | "--segments" | "-s" => "4".to_owned(),
                "--repeat" | "--iterations" | "-i" => "1".to_owned(),
                "-n" => "40".to_owned(),
                "-b" => size_word(block),
                "--procs" | "--nodes" | "--size" => first_two(),
                _ => continue,
            };
        }
    }

    /// Halves the number of operations until the command fits.
    fn fit(&mut self, on: On, space: u64) {
        while self.needs(on) > space {
            let halved =
                ["--ops", "--segments", "-s", "-n", "-b"].iter().any(|name| self.halve(name));
            if !halved {
                return;
            }
        }
    }

    /// Sets the option `name` to half of its largest value. Returns false and changes nothing if the option is absent
    /// or cannot be halved. A block size of ior (`-b`) must remain a multiple of the transfer size (`-t`).
    fn halve(&mut self, name: &str) -> bool {
        let transfer = if name == "-b" { self.largest_value("-t", 1) } else { 1 };
        let Some(index) = self.value_index(name) else { return false };
        let half = self.largest_value(name, 0) / 2;
        let can_halve = half > 0 && half.is_multiple_of(transfer);
        if can_halve {
            self.0[index] = size_word(half);
        }
        can_halve
    }

    /// Bytes that the command needs on its medium: 5/2 of the data for a pool, and once the data for files that the
    /// pool is compared with. On nodes: [`POOLS`] pools over nodes.
    pub(super) fn needs(&self, on: On) -> u64 {
        match on {
            On::Nodes => POOLS * self.pool_of_nodes(),
            _ => POOL_BYTES + self.data() * 7 / 2,
        }
    }

    /// Size in bytes of a pool over nodes that has space for the data of the command.
    pub(super) fn pool_of_nodes(&self) -> u64 {
        POOL_OF_NODES_BYTES + self.data() * 5 / 2
    }

    /// Bytes that all processes write in the longest repeat: in `field-io` that is the warm-up with an eighth more
    /// operations.
    fn data(&self) -> u64 {
        let procs = self.largest_value("--procs", 1);
        let ops = self.largest_value("--ops", 1);
        procs
            * match self.0.first().map_or("", String::as_str) {
                "field-io" => (1 + ops + ops / 8) * self.largest_value("--size", MIB),
                "segments" => {
                    (1 + self.largest_value("--iterations", 1))
                        * self.largest_value("--segments", 1)
                        * MIB
                }
                "ior" => self.largest_value("-b", MIB) * self.largest_value("-s", 1),
                "tensors" => 2 * self.largest_value("--size", MIB),
                _ => self.largest_value("-n", 1) * self.largest_value("-w", 4096),
            }
    }

    /// Position of the value of an option: the word after its name.
    fn value_index(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|word| word == name).map(|place| place + 1)
    }

    /// The largest of the values of an option, or `default` if the option is absent.
    fn largest_value(&self, name: &str, default: u64) -> u64 {
        let values = self.value_index(name).and_then(|index| self.0.get(index));
        let values = values.into_iter().flat_map(|values| values.split(','));
        values.filter_map(|value| parse_size(value).ok()).max().unwrap_or(default)
    }
}

/// A number or a size as the command line has it.
fn size_word(bytes: u64) -> String {
    if bytes.is_multiple_of(MIB) { format!("{}MiB", bytes / MIB) } else { bytes.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLENTY: u64 = 1 << 40;

    fn words(name: &str, quick: bool, space: u64) -> String {
        let step = steps().find(|step| step.name == name).unwrap();
        step.words(quick, space).0.join(" ")
    }

    #[test]
    fn every_line_is_a_step_with_a_name_of_its_own() {
        let mut names: Vec<_> = steps().map(|step| step.name).collect();
        assert_eq!(names.len(), STEPS.lines().count());
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.lines().count());
    }

    #[test]
    fn documented_commands_are_those_that_run() {
        let page = include_str!("../../../../docs/paper.md");
        for step in steps() {
            assert!(page.contains(&format!("`{}`", step.words)), "{}", step.words);
        }
    }

    #[test]
    fn quick_runs_have_few_operations() {
        let quick = words("sizes", true, PLENTY);
        assert!(quick.contains("--ops 4 --repeat 1 --size 1MiB,5MiB"), "{quick}");
        assert!(
            words("gekko-64MiB", true, PLENTY)
                .contains("--nodes 1,2 --procs 2 -F -C -t 64MiB -b 64MiB -i 1")
        );
        assert!(words("io500-ior-easy", true, PLENTY).contains("-b 8MiB"));
        assert!(words("io500-ior-hard", true, PLENTY).contains("-b 47008 -s 4"));
    }

    #[test]
    fn commands_are_fitted_to_the_space() {
        let sizes = "field-io --mode no-containers --pattern A --contention low --procs 2 --ops 20";
        assert!(words("sizes", false, PLENTY).starts_with(sizes));
        for step in steps() {
            for quick in [false, true] {
                let words = step.words(quick, 2 << 30);
                assert!(words.needs(step.on) <= 2 << 30, "{words:?}");
            }
        }
        assert!(words("sizes", false, 2 << 30).contains("--ops 2 "));
        assert!(words("io500-ior-easy", false, 1 << 30).contains("-b 32MiB"));
    }
}
