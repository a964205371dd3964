//! Parallel HDF5: a program in C that is compiled here and runs under mpirun, if both are installed.
use super::super::scratch::Scratch;
use super::{COLUMNS, Done, Job, PEER, Times};
use crate::processes::{Launcher, Processes};
use crate::runner::output_of;
use clap::Args;
use esker_cli::programs::on_path;
use esker_types::{ErrorKind, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Layouts of the file: chunks that are filled by default, chunks that never are, and no chunks.
pub(super) const LAYOUTS: u32 = 3;

/// Compilers of parallel HDF5, each with the mpirun of the same MPI.
const PAIRS: [(&str, &str); 2] =
    [("h5pcc.openmpi", "mpirun.openmpi"), ("h5pcc.mpich", "mpirun.mpich")];

/// Compiler and mpirun on machines with a single MPI.
const USUAL: [(&str, &str); 2] = [("h5pcc", "mpirun"), ("h5pcc", "mpiexec")];

/// Settings of Open MPI: there may be more processes than cores, and the program pins itself. Its files are in the
/// directory of the program (`TMPDIR`), which is removed even if the run is killed.
const VARIABLES: [(&str, &str); 3] = [
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
];

/// Variables that set the directory of the memory that Open MPI ranks share. It is removed even if the run is killed.
const MEMORY: [&str; 2] =
    ["OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory"];

const ABSENT: &str = "there is no h5pcc with its mpirun on the PATH: install parallel HDF5 (Debian: libhdf5-openmpi-dev and openmpi-bin), \
                      or name both by --h5pcc and --mpirun";
const REFUSED: &str = "mpirun tells why on standard error; Open MPI refuses to work for root unless OMPI_ALLOW_RUN_AS_ROOT=1 and \
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 are set";

/// Options to find parallel HDF5.
#[derive(Clone, Debug, Default, Args)]
pub struct Hdf5 {
    /// Omit parallel HDF5
    #[arg(long = "no-hdf5", conflicts_with_all = ["compiler", "mpirun", "collective"])]
    pub left_out: bool,
    /// Compiler of parallel HDF5 [default: h5pcc on the PATH]
    #[arg(long = "h5pcc", value_name = "PROGRAM")]
    pub compiler: Option<PathBuf>,
    /// Program that starts the processes of MPI [default: the mpirun that belongs to h5pcc]
    #[arg(long, value_name = "PROGRAM")]
    pub mpirun: Option<PathBuf>,
    /// Let parallel HDF5 transfer collectively [default: independently]
    #[arg(long)]
    pub collective: bool,
}

/// The program, and its processes during a measurement.
pub(super) struct Peer {
    found: std::result::Result<Program, String>,
    processes: Option<Processes<[u32; 3], Done>>,
    about: Option<String>,
}

struct Program {
    path: PathBuf,
    mpirun: PathBuf,
    collective: bool,
}

/// A step of the program, by its number there.
#[derive(Clone, Copy, Debug)]
pub(super) enum PeerPhase {
    Put,
    Get,
    Verify,
    Remove,
}

impl Hdf5 {
    /// Compiles the program in a temporary directory, and returns both. If that fails, the [`Peer`] has the reason, and
    /// HDF5 is not measured.
    pub(super) fn peer(&self) -> Result<(Peer, Scratch)> {
        let built = Scratch::programs()?;
        let found = self.tools().and_then(|(compiler, mpirun)| {
            let path = compiled(&compiler, built.path())?;
            Ok(Program { path, mpirun, collective: self.collective })
        });
        Ok((Peer { found, processes: None, about: None }, built))
    }

    /// Paths of an HDF5 compiler and of the mpirun of the same MPI: those that the user gave, or else the first pair on
    /// the PATH. The error is the reason why HDF5 is not measured.
    fn tools(&self) -> std::result::Result<(PathBuf, PathBuf), String> {
        if self.left_out {
            return Err("--no-hdf5 was given".to_owned());
        }
        let given = |given: Option<&PathBuf>, name: &str| given.cloned().or_else(|| on_path(name));
        let pair = |(compiler, mpirun): (&str, &str)| {
            Some((given(self.compiler.as_ref(), compiler)?, given(self.mpirun.as_ref(), mpirun)?))
        };
        // If the user names a compiler, only its pair fits. A compiler of no pair is used with the usual mpirun.
        let is_named = |(compiler, _): &(&str, &str)| {
            self.compiler.as_ref().is_none_or(|given| given.ends_with(compiler))
        };
        let pairs = PAIRS.into_iter().filter(is_named).chain(USUAL);
        pairs.filter_map(pair).next().ok_or_else(|| ABSENT.to_owned())
    }
}

/// Writes the C source to `folder`, compiles it there, and returns the path of the program. The error is the reason why
/// HDF5 is not measured.
fn compiled(compiler: &Path, folder: &Path) -> std::result::Result<PathBuf, String> {
    let (source, program) = (folder.join("parallel_hdf5.c"), folder.join("parallel_hdf5"));
    std::fs::write(&source, PEER).map_err(|error| format!("{}: {error}", source.display()))?;
    let mut command = Command::new(compiler);
    command.current_dir(folder).args(["-O2", "-o"]).arg(&program).arg(&source);
    let output = output_of(&mut command);
    output.map(|_| program).map_err(|why| format!("{} {why}", compiler.display()))
}

impl Program {
    /// Command that runs the program with HDF5.
    fn launcher(&self, job: &Job, cpus: &[u32]) -> Launcher {
        let cpus: Vec<_> = cpus.iter().map(u32::to_string).collect();
        let numbers = [
            job.part.rows.to_string(),
            COLUMNS.to_string(),
            job.part.chunk_rows().to_string(),
            job.member.seed.to_string(),
            if cpus.is_empty() { "-".to_owned() } else { cpus.join(",") },
            u8::from(self.collective).to_string(),
        ];
        let mut worker: Vec<OsString> = vec!["-n".into(), job.part.procs.to_string().into()];
        worker.extend([self.path.clone().into(), job.files.clone().into()]);
        worker.extend(numbers.map(OsString::from));
        Launcher { program: self.mpirun.clone(), worker, variables: self.variables(&job.files) }
    }

    /// Environment of the program: its files and temporary files stay in the folders of the benchmark.
    fn variables(&self, files: &Path) -> Vec<(String, String)> {
        let folder = |folder: &Path| folder.display().to_string();
        let own = self.path.parent().unwrap_or(&self.path);
        let fixed = VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let memory = MEMORY.map(|name| (name.to_owned(), folder(files)));
        fixed.into_iter().chain(memory).chain([("TMPDIR".to_owned(), folder(own))]).collect()
    }
}

impl Peer {
    /// The reason why HDF5 is not measured; `None` if it is.
    pub(super) fn absent(&self) -> Option<&str> {
        self.found.as_ref().err().map(String::as_str)
    }

    /// The versions of HDF5 and MPI.
    pub(super) fn about(&self) -> Option<&str> {
        self.about.as_deref()
    }

    /// Starts the processes of the HDF5 program by mpirun. If that fails, HDF5 is not measured, and [`Self::absent`]
    /// returns the reason.
    pub(super) fn start(&mut self, job: &Job, cpus: &[u32]) -> Result<()> {
        let Ok(program) = &self.found else { return Ok(()) };
        match Processes::start(&program.launcher(job, cpus), [()]) {
            Ok(processes) => self.processes = Some(processes),
            Err(error) if error.kind() == ErrorKind::Canceled => return Err(error),
            Err(error) => {
                self.found = Err(format!("{}: {error}: {REFUSED}", program.mpirun.display()));
            }
        }
        Ok(())
    }

    /// Ends the processes of the HDF5 program, if any run.
    pub(super) fn stop(&mut self) {
        self.processes = None;
    }

    /// Makes all HDF5 processes run a phase. Returns its times; `None` if HDF5 is not measured.
    pub(super) fn take(
        &mut self,
        phase: PeerPhase,
        round: u32,
        layout: u32,
    ) -> Result<Option<Times>> {
        let Some(processes) = &mut self.processes else { return Ok(None) };
        let done = processes.first([phase as u32, round, layout])?;
        self.about = done.about.or(self.about.take());
        Ok(Some(done.times_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tools_and_failed_compilation_are_reported() {
        let none = Hdf5 { left_out: true, ..Hdf5::default() };
        assert_eq!(none.tools().unwrap_err(), "--no-hdf5 was given");
        let given = Hdf5 {
            compiler: Some("/a/h5pcc".into()),
            mpirun: Some("/a/mpirun".into()),
            ..Hdf5::default()
        };
        assert_eq!(given.tools().unwrap(), ("/a/h5pcc".into(), "/a/mpirun".into()));
        let folder = std::env::temp_dir().join(format!("esker-hdf5-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (compiler, why) in
            [("/no/h5pcc", "/no/h5pcc cannot be started: "), ("false", "false failed: it printed")]
        {
            let error = compiled(Path::new(compiler), &folder).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
