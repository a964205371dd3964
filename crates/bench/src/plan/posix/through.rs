//! Access to the container of a benchmark through the interception library and through a mount.
use super::container::OpenContainer;
use super::{FileSystem, FileSystems};
use crate::errors::Doing;
use crate::posix::FileLocation;
use crate::processes::Launcher;
use crate::runner::Runner;
use esker_types::Result;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Path of the container in intercepted processes.
const INTERCEPTED_PATH: &str = "/esker";

/// A mount that is removed when this value is dropped.
pub(super) struct Mounted {
    runner: Runner,
    dir: PathBuf,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.runner.undo(&["umount", &self.dir.display().to_string()]);
        let _ = std::fs::remove_dir(&self.dir);
    }
}

impl FileSystems {
    /// Adds the container through the interception library and, if `mounted`, through a mount, started as the first
    /// system is. If either does not work here, it is reported as missing.
    pub(super) fn add_programs(&mut self, mounted: bool) {
        let launcher = self.all.first().map(|system| system.launcher.clone());
        let container = self.container.as_ref().map(OpenContainer::names);
        let Some((launcher, (pool, container))) = launcher.zip(container) else { return };
        let source = format!("{pool}/{container}");
        let run = self.add_run(&source, &launcher);
        let mount = if mounted { self.add_mount(&source, launcher) } else { Ok(()) };
        for (program, added) in [("run", run), ("mount", mount)] {
            if let Err(error) = added {
                self.missing.push(format!("esker {program} is not measured: {error}"));
            }
        }
    }

    fn add_run(&mut self, source: &str, launcher: &Launcher) -> Result<()> {
        let run = ["run", source, "--mount", INTERCEPTED_PATH, "--"];
        let runner = Runner::new(PathBuf::new(), launcher.variables.clone())?;
        let esker = runner.program.display().to_string();
        runner.run(&[&run[..], &[&esker, "--version"]].concat())?;
        let mut worker: Vec<OsString> = run.iter().map(OsString::from).collect();
        worker.push(launcher.program.clone().into());
        worker.extend(launcher.worker.iter().cloned());
        self.all.push(FileSystem {
            name: "run".to_owned(),
            about: format!("the same container through esker run, at {INTERCEPTED_PATH}"),
            location: FileLocation::Posix { folder: Path::new(INTERCEPTED_PATH).join("run") },
            launcher: Launcher { program: runner.program, worker, ..launcher.clone() },
        });
        Ok(())
    }

    fn add_mount(&mut self, source: &str, launcher: Launcher) -> Result<()> {
        let dir = std::env::temp_dir().join(format!("esker-bench-mount-{}", std::process::id()));
        std::fs::create_dir(&dir).doing(|| format!("creating {}", dir.display()))?;
        let at = dir.display().to_string();
        let runner = Runner::new(PathBuf::new(), launcher.variables.clone())?;
        let mounted = Mounted { runner, dir };
        mounted.runner.run(&["mount", source, &at])?;
        self.all.push(FileSystem {
            name: "mount".to_owned(),
            about: format!("the same container through esker mount, at {at}"),
            location: FileLocation::Posix { folder: mounted.dir.join("mount") },
            launcher,
        });
        self.mounted = Some(mounted);
        Ok(())
    }
}
