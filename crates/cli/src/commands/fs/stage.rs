//! `esker fs import` and `export`: whole trees in and out.
use super::change::{directory, make_all};
use super::copy::host_spot;
use super::place::{FsPath, Mounts, NAMING, inside};
use super::run::Run;
use super::umask;
use crate::output::Answer;
use clap::Args;
use dfs::transfer::{Host, Inside, Options, Target, Tree};
use dfs::{Create, Follow, Kind};
use esker::types::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const STAGING: &str = "\
SOURCE becomes DEST: what is in a directory goes into the directory DEST, which is made where it is missing. \
Kept are modes, times, owners (of exports by the system's administrator only), symbolic links as they are, \
extended attributes, and holes of files. Each name of a file with hard links becomes a file of its own. \
Devices, pipes and sockets are refused and listed.

The same command goes on where one was stopped, also by a crash: files that are there with the same size and \
time are left alone, all others are written anew. Everything in a container is stored with checksums and compared \
with them when it is read; --verify also reads back what was written, and compares what is left alone.

The exit status is 1 where anything could not be copied; the rest is copied all the same.";

/// What `import` and `export` have in common.
#[derive(Args)]
pub(crate) struct Staging {
    /// Read back and compare all that was written, and all that was there already
    #[arg(long)]
    verify: bool,
    /// Copy all files anew, also those that are there already
    #[arg(long)]
    again: bool,
    /// Threads that copy [default: one for each processor]
    #[arg(long, short = 'j', value_name = "N", default_value_t = 0, hide_default_value = true)]
    workers: usize,
}

impl Staging {
    fn options(&self) -> Options {
        let (workers, resume, verify) = (self.workers, !self.again, self.verify);
        Options { workers, keep: true, mask: 0, resume, verify }
    }
}

/// Bring files from the host into a container
///
/// Copies a file or a whole tree, in parallel.
#[derive(Args)]
#[command(after_long_help = format!("{STAGING}\n\n{NAMING}"))]
pub(crate) struct Import {
    /// File or directory of the host
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// Where it goes, in a container
    #[arg(value_name = "DEST", value_parser = inside())]
    dest: FsPath,
    #[command(flatten)]
    staging: Staging,
}

/// Bring files from a container to the host
///
/// Copies a file or a whole tree, in parallel.
#[derive(Args)]
#[command(after_long_help = format!("{STAGING}\n\n{NAMING}"))]
pub(crate) struct Export {
    /// File or directory in a container
    #[arg(value_name = "SOURCE", value_parser = inside())]
    source: FsPath,
    /// Where it goes, on the host
    #[arg(value_name = "DEST")]
    dest: PathBuf,
    #[command(flatten)]
    staging: Staging,
}

impl Import {
    pub(super) fn run(self) -> Result<Answer> {
        let mut mounts = Mounts::writing();
        let run = Run::new("importing", self.staging.options());
        let source: Arc<Path> = self.source.into();
        let into = match Host.meta(&source)?.kind {
            Some(Kind::Directory) => {
                // The last one gets the mode of SOURCE when all is in it.
                let (above, last) = (0o777 & !umask(), 0o700);
                let (above, last) = (Create::with_mode(above), Create::with_mode(last));
                Some(make_all(&mut mounts, &self.dest, &above, &last)?)
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
        let run = Run::new("exporting", self.staging.options());
        let is_directory = source.kind() == Kind::Directory;
        if is_directory {
            let made = std::fs::create_dir_all(&self.dest);
            made.map_err(|cause| Error::io(format!("making {}", self.dest.display()), &cause))?;
        }
        let (dir, name) = host_spot(&self.dest, is_directory)?;
        match name {
            None => run.fill(&Inside, &source, &Host, &dir)?,
            Some(name) => run.copy(&Inside, &source, &Host, Target::Name(&dir, &name))?,
        }
        Ok(run.answer())
    }
}
