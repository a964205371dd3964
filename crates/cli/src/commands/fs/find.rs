//! `esker fs find`: searching a tree.
use super::each::Failures;
use super::expression::{Expression, Reference};
use super::path::{FsPath, Mounts, NAMING};
use super::show::{self, Lines};
use crate::output::Answer;
use clap::Args;
use dfs::{Follow, Time, Visit};
use esker::types::{Error, ErrorKind, Result};
use serde_json::json;
use std::ffi::OsString;

const EXPRESSIONS: &str = "\
Tests, all of which must hold (! or -not negates the next one):
  -name GLOB       the last name matches; * ? [a-z] as in a shell
  -iname GLOB      the same, regardless of case
  -path GLOB       the whole path in the container matches; * matches slashes too
  -type f|d|l      file, directory, symbolic link
  -size [+-]N[u]   size in blocks of 512 bytes, rounded up; u: c bytes, k, M, G; + more, - less
  -newer PATH      modified later than PATH, which is in a container or on the host
  -mtime [+-]N     modified N days ago; + longer ago, - more recently
  -mmin [+-]N      the same in minutes
  -perm MODE       exactly these bits, octal; -MODE: all of these, /MODE: any of these
  -uid N, -gid N   owner, group
  -empty           an empty file or directory
Others:
  -maxdepth N      descend at most N levels below PATH
  -mindepth N      no entries above level N
  -print0          end names with a zero byte in place of a newline

Examples:
  esker fs find tank/run1:/ -name '*.grib' -size +1M
  esker fs find tank/run1:/out -type f -newer ./started -print0 | xargs -0 ...";

/// Find files, directories and symbolic links by name, size, time and other tests
#[derive(Args)]
#[command(after_long_help = format!("{EXPRESSIONS}\n\n{NAMING}"))]
pub(crate) struct Find {
    /// Paths to search, then tests
    #[arg(value_name = "PATH [TEST]...", required = true, num_args = 1.., allow_hyphen_values = true)]
    #[arg(trailing_var_arg = true)]
    arguments: Vec<OsString>,
}

impl Find {
    pub(super) fn run(self, json: bool) -> Result<Answer> {
        let is_test = |word: &OsString| word == "!" || word.as_encoded_bytes().starts_with(b"-");
        let tests = self.arguments.iter().position(is_test).unwrap_or(self.arguments.len());
        let (paths, words) = self.arguments.split_at(tests);
        if paths.is_empty() {
            return Err(no_path_error());
        }
        let (mut mounts, mut failures) = (Mounts::reading(), Failures::default());
        let expression = Expression::parse(words, &mut |path| newer_than(&mut mounts, path))?;
        // --json may also follow the tests.
        let json = json || expression.json;
        let (mut lines, mut found) =
            (Lines::new(if expression.print0 { 0 } else { b'\n' }), Vec::new());
        for path in paths {
            let path = FsPath::parse(path).ok_or_else(|| not_a_path_error(path))?;
            let mut walk = mounts.node(&path, Follow::AllButLast)?.walk(expression.depth_max);
            while let Some(visit) = failures.next(&path, &mut walk) {
                if failures.check(&path, &visit, expression.holds(&visit)) != Some(true) {
                    continue;
                }
                match json {
                    true => {
                        let attr = failures.check(&path, &visit, visit.node.attr());
                        found.extend(attr.map(|attr| show::attr(&visit.node.path(), &attr)));
                    }
                    false if lines.line("", &shown(&path, &visit))? => {}
                    // The reader of standard output has closed it.
                    false => return Ok(Answer::new(json!(null), "")),
                }
            }
        }
        lines.finish()?;
        Ok(Answer::new(json!(found), "").with_trouble(failures.trouble()))
    }
}

fn shown(path: &FsPath, visit: &Visit) -> Vec<u8> {
    path.shown(&visit.node.path())
}

/// Time of the file that `-newer` names, in a container or outside.
fn newer_than(mounts: &mut Mounts, reference: &Reference) -> Result<Time> {
    match FsPath::parse_full(reference) {
        Some(path) => Ok(mounts.node(&path, Follow::All)?.attr()?.mtime),
        None => {
            let stat = rustix::fs::stat(reference).map_err(|cause| {
                Error::io(format!("reading the time of {}", reference.display()), &cause.into())
            })?;
            Ok(Time { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 })
        }
    }
}

#[cold]
fn no_path_error() -> Error {
    let message = "no path to search: write POOL/CONT:/path before the tests";
    Error::new(ErrorKind::Invalid, message)
}

#[cold]
fn not_a_path_error(word: &OsString) -> Error {
    let message =
        format!("{word:?} is not a path in a container: write POOL/CONT:/path, then tests");
    Error::new(ErrorKind::Invalid, message)
}
