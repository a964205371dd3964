//! The original `ior` and `mdtest`, if they are installed, which run the same work for comparison.
use super::super::Note;
use super::{FileSystem, IorPlan, Line, MdtestPlan, Outcome, Setting};
use crate::interrupt;
use crate::metrics::Statistics;
use crate::posix::FileLocation;
use crate::runner::output_of;
use crate::table::new_table;
use esker_cli::programs::on_path;
use esker_cli::units::rounded;
use serde_json::{Map, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Test file or directory, below the directory of a file system.
const NAME: &str = "genuine";

/// The program, and `mpirun` for several processes.
#[derive(Clone, Debug)]
pub struct Genuine {
    program: PathBuf,
    mpirun: Option<PathBuf>,
}

impl Genuine {
    /// The given program, or the one of this name on the PATH.
    pub fn find(name: &str, given: Option<&Path>, procs: u32) -> Result<Self, String> {
        let program = given.map(Path::to_owned).or_else(|| on_path(name));
        let program = program.ok_or_else(|| {
            format!("{name} is not on the PATH: only our own implementation is measured")
        })?;
        let mpirun = (procs > 1).then(|| on_path("mpirun").or_else(|| on_path("mpiexec")));
        match mpirun {
            Some(None) => Err(format!(
                "{} needs mpirun for {procs} processes, and there is none on the PATH: only our own implementation is measured",
                program.display()
            )),
            mpirun => Ok(Self { program, mpirun: mpirun.flatten() }),
        }
    }

    /// Runs the same work on each system that is a directory, once as warm-up and once measured. Adds the mean rates to
    /// the notes of the outcome, beside ours, and to the settings of its report. Fails if the user interrupts it.
    pub fn compare(
        &self,
        outcome: &mut Outcome,
        arguments: &[String],
        note: Note<'_>,
    ) -> esker_types::Result<()> {
        let program = self.program.display().to_string();
        let mut table = new_table("Operation|on|>genuine|>ours|>ours x");
        let mut mean_rates = Map::new();
        for index in 0..outcome.systems.len() {
            let system = outcome.systems[index].clone();
            let FileLocation::Posix { folder } = &system.location else { continue };
            note(&format!("{program} on {}", system.name));
            let words = [arguments, &[folder.join(NAME).display().to_string()]].concat();
            let said = self.run(outcome.procs, &words);
            interrupt::check()?;
            let rates = said.and_then(|_| self.run(outcome.procs, &words));
            interrupt::check()?;
            match rates.and_then(|said| rates_in(&said, outcome)) {
                Ok(rates) => {
                    let mut means = Map::new();
                    for (line, rate) in rates {
                        table.row(row(line, index, &system, rate));
                        means.insert(line.phase.clone(), json!(rounded(rate)));
                    }
                    mean_rates.insert(system.name, means.into());
                }
                Err(why) => outcome.notes.push(format!("{program} on {}: {why}", system.name)),
            }
        }
        if !mean_rates.is_empty() {
            let rates = table.text();
            outcome.notes.push(format!("\nMean rates of {program} and ours:\n{rates}"));
        }
        let report = json!({"program": program, "mean_rates": mean_rates});
        outcome.settings.options.insert("genuine".to_owned(), report);
        Ok(())
    }

    /// Runs the program and returns its output.
    fn run(&self, procs: u32, words: &[String]) -> Result<String, String> {
        let mut command = Command::new(self.mpirun.as_ref().unwrap_or(&self.program));
        if self.mpirun.is_some() {
            command.args(["-n", &procs.to_string()]).arg(&self.program);
        }
        output_of(command.args(words))
    }
}

/// The mean rates of the phases that the program printed.
fn rates_in<'o>(said: &str, outcome: &'o Outcome) -> Result<Vec<(&'o Line, f64)>, String> {
    let rate = |line: &'o Line| Some((line, mean_rate(said, &line.title)?));
    let rates: Vec<_> = outcome.lines.iter().filter_map(rate).collect();
    match rates.is_empty() {
        true => Err("its output has none of the rates above".to_owned()),
        false => Ok(rates),
    }
}

/// A row of the table: rate of the original, of this program, and their ratio.
fn row(line: &Line, index: usize, system: &FileSystem, genuine: f64) -> [String; 5] {
    let ours = Statistics::rounded(&line.rates(index)).mean;
    let numbers = [genuine, ours, ours / genuine].map(|number| format!("{number:.2}"));
    let [genuine, ours, ratio] = numbers;
    [line.title.clone(), system.name.clone(), genuine, ours, ratio]
}

/// The mean in the last line that begins with the name of an operation; maximum and minimum precede it.
fn mean_rate(said: &str, title: &str) -> Option<f64> {
    let of_line = |line: &str| {
        let rest = line.trim_start().strip_prefix(title)?;
        rest.starts_with([' ', ':']).then(|| rest.trim_start_matches([' ', ':']).to_owned())
    };
    let numbers = said.lines().filter_map(of_line).next_back()?;
    numbers.split_whitespace().nth(2)?.parse().ok().filter(|rate| *rate > 0.0)
}

/// Options with values, then flags that are set.
fn options(valued: &[(&str, u64)], wanted: &[(&str, bool)]) -> Vec<String> {
    let valued = valued.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]);
    let wanted = wanted.iter().filter(|(_, wanted)| *wanted).map(|(name, _)| (*name).to_owned());
    valued.chain(wanted).collect()
}

impl IorPlan {
    /// The options of the genuine program for the same work, up to the file name; none if files of another run are
    /// read. They lack `-C`, which shifts readers by one node and has no effect on a single node.
    pub fn genuine(&self, setting: &Setting) -> Option<Vec<String>> {
        let work = &self.options;
        let mut words = options(
            &[
                ("-b", work.block_bytes),
                ("-t", work.transfer_bytes),
                ("-s", work.segments),
                ("-i", setting.iterations.into()),
                ("-D", setting.stonewall_s.into()),
            ],
            &[
                ("-w", self.writes()),
                ("-r", self.reads()),
                ("-F", work.file_per_process),
                ("-e", work.sync),
                ("-Y", work.sync_each),
                ("-z", work.random),
                ("-g", self.barriers),
            ],
        );
        if self.wears_out() {
            words.extend(["-O", "stoneWallingWearOut=1"].map(str::to_owned));
        }
        words.push("-o".to_owned());
        self.writes().then_some(words)
    }
}

impl MdtestPlan {
    /// The options of the genuine program for the same work, up to the directory name; none if items of another run are
    /// examined.
    pub fn genuine(&self, setting: &Setting) -> Option<Vec<String>> {
        let work = &self.options;
        let mut words = options(
            &[
                ("-I", work.per_dir()),
                ("-z", work.tree.depth.into()),
                ("-b", work.tree.branch),
                ("-N", work.stride.into()),
                ("-w", work.write_bytes),
                ("-e", work.read_bytes),
                ("-i", setting.iterations.into()),
                ("-W", setting.stonewall_s.into()),
            ],
            &[
                ("-C", self.measures(self.create)),
                ("-T", self.measures(self.stat)),
                ("-E", self.measures(self.read)),
                ("-r", self.measures(self.remove)),
                ("-F", self.files_only),
                ("-D", self.directories_only),
                ("-u", work.unique),
                ("-L", work.tree.leaf_only),
                ("-y", work.sync),
                ("-R", work.random_stat),
                ("-X", work.verify && self.measures(self.read) && work.read_bytes > 0),
            ],
        );
        words.push("-d".to_owned());
        self.clears().then_some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MDTEST: &str = "\
SUMMARY rate (in ops/sec): (of 2 iterations)
   Operation                     Max            Min           Mean        Std Dev
   ---------                     ---            ---           ----        -------
   File creation                7147.432       6789.531       6996.044        132.149
   File stat                 :  97175.603      48544.142      91063.340      12000.718
   File read                      0.000          0.000          0.000          0.000
";
    const IOR: &str = "\
access    bw(MiB/s)  IOPS       Latency(s)
write     1000.00    1000       0.001
Operation   Max(MiB)   Min(MiB)  Mean(MiB)
write        1200.00     1000.00    1100.50       0.00
";

    #[test]
    fn means_are_parsed_from_program_output() {
        assert_eq!(mean_rate(MDTEST, "File creation"), Some(6996.044));
        assert_eq!(mean_rate(MDTEST, "File stat"), Some(91063.34));
        assert_eq!(mean_rate(MDTEST, "File read"), None);
        assert_eq!(mean_rate(MDTEST, "File removal"), None);
        assert_eq!(mean_rate(IOR, "write"), Some(1100.5));
        assert_eq!(mean_rate(IOR, "read"), None);
    }

    #[test]
    fn error_names_missing_benchmark_program() {
        let missing = Genuine::find("esker-no-such-program", None, 1).unwrap_err();
        assert!(missing.contains("esker-no-such-program is not on the PATH"), "{missing}");
        let given = Genuine::find("ior", Some(Path::new("/bin/false")), 1).unwrap();
        assert_eq!(given.run(1, &[]).unwrap_err(), "failed: it printed nothing");
    }
}
