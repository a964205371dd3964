//! `esker fs import` and `export`: copying whole trees.
use super::change::{create_all, directory};
use super::copy::host_destination;
use super::path::{FsPath, Mounts, NAMING, inside};
use super::run::CopyRun;
use super::umask;
use crate::args::JobsArg;
use crate::output::Answer;
use clap::Args;
use dfs::transfer::{Host, Inside, Options, Target, Tree};
use dfs::{Create, Follow, Kind};
use esker::types::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const STAGING: &str = "\
SOURCE becomes DEST: the entries of a directory are copied into the directory DEST, which is created if it does not \
exist. Modes, times, symbolic links, extended attributes and holes of files are preserved, as are owners (on export by \
root only). Each name of a file with hard links becomes a separate file. Devices, pipes and sockets are not copied; \
they are listed.

If a copy is interrupted, even by a crash, the same command resumes it: files that exist with the same size and time are \
skipped, and all others are copied again. Data in a container is stored with checksums, which every read verifies. \
--verify also reads back and compares what was written, and what was skipped.

The exit status is 1 if anything could not be copied; everything else is copied nevertheless.

Examples:
  esker fs import ./data tank/home:/data
  esker fs export tank/home:/data /scratch/data --verify";

/// Options that `import` and `export` share.
#[derive(Args)]
pub(crate) struct Staging {
    /// Read back and compare all files, those that were already there too
    #[arg(long)]
    verify: bool,
    /// Copy all files again, those that are already there too
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    jobs: JobsArg,
}

impl Staging {
    /// Options of the copy.
    fn options(&self) -> Options {
        let workers = self.jobs.given().unwrap_or_default();
        let (resume, verify) = (!self.again, self.verify);
        Options { workers, keep: true, mask: 0, resume, verify }
    }
}

/// Copy a file or a tree from the host into a container, in parallel
#[derive(Args)]
#[command(after_long_help = format!("{STAGING}\n\n{NAMING}"))]
pub(crate) struct Import {
    /// File or directory of the host
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// Destination in a container
    #[arg(value_name = "DEST", value_parser = inside())]
    dest: FsPath,
    #[command(flatten)]
    staging: Staging,
}

/// Copy a file or a tree from a container to the host, in parallel
#[derive(Args)]
#[command(after_long_help = format!("{STAGING}\n\n{NAMING}"))]
pub(crate) struct Export {
    /// File or directory in a container
    #[arg(value_name = "SOURCE", value_parser = inside())]
    source: FsPath,
    /// Destination on the host
    #[arg(value_name = "DEST")]
    dest: PathBuf,
    #[command(flatten)]
    staging: Staging,
}

impl Import {
    pub(super) fn run(self) -> Result<Answer> {
        let mut mounts = Mounts::writing();
        let run = CopyRun::new("importing", self.staging.options());
        let source: Arc<Path> = self.source.into();
        let into = match Host.meta(&source)?.kind {
            Some(Kind::Directory) => {
                // The last one gets the mode of SOURCE at the end of the copy.
                let (above, last) = (0o777 & !umask(), 0o700);
                let (above, last) = (Create::with_mode(above), Create::with_mode(last));
                Some(create_all(&mut mounts, &self.dest, &above, &last)?)
            }
            _ => directory(&mut mounts, &self.dest)?,
        };
        match into {
            Some(dir) => run.fill(&Host, &source, &Inside, &dir)?,
            None => {
                let (dir, name) = mounts.parent(&self.dest)?;
                run.copy(&Host, &source, &Inside, Target::Name(&dir, &name))?;
            }
        }
        mounts.flush()?;
        Ok(run.answer())
    }
}

impl Export {
    pub(super) fn run(self) -> Result<Answer> {
        let source = Mounts::reading().node(&self.source, Follow::All)?;
        let run = CopyRun::new("exporting", self.staging.options());
        let is_directory = source.kind() == Kind::Directory;
        if is_directory {
            let made = std::fs::create_dir_all(&self.dest);
            made.map_err(|cause| Error::io(format!("creating {}", self.dest.display()), &cause))?;
        }
        let (dir, name) = host_destination(&self.dest, is_directory)?;
        match name {
            None => run.fill(&Inside, &source, &Host, &dir)?,
            Some(name) => run.copy(&Inside, &source, &Host, Target::Name(&dir, &name))?,
        }
        Ok(run.answer())
    }
}
