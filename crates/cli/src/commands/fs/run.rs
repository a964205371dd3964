//! A copy with its progress bar, and its result.
use crate::output::{self, Answer, Bar, watched};
use crate::shapes;
use crate::units::{Bytes, amount_and_rate};
use dfs::Kind;
use dfs::transfer::{self, Failure, Options, Progress, Summary, Target, Tree};
use esker::types::{Error, Result};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

/// A copy with its progress bar.
pub(super) struct CopyRun {
    what: &'static str,
    pub(super) options: Options,
    progress: Progress,
    start: Instant,
}

impl CopyRun {
    /// A copy that starts now; `what` names it on the bar.
    pub(super) fn new(what: &'static str, options: Options) -> Self {
        Self { what, options, progress: Progress::default(), start: Instant::now() }
    }

    /// Copies the entries of `source` into `dir`, or `source` itself if it is not a directory.
    pub(super) fn fill<S: Tree, D: Tree>(
        &self,
        from: &S,
        source: &S::Node,
        to: &D,
        dir: &D::Node,
    ) -> Result<()> {
        let path = from.path(source);
        match (from.meta(source)?.kind, last_name(Path::new(OsStr::from_bytes(&path)))) {
            (Some(Kind::Directory), _) | (_, None) => {
                self.copy(from, source, to, Target::Into(dir))
            }
            (_, Some(name)) => self.copy(from, source, to, Target::Name(dir, &name)),
        }
    }

    /// Copies `source` to `target`, and shows the progress on a terminal.
    pub(super) fn copy<S: Tree, D: Tree>(
        &self,
        from: &S,
        source: &S::Node,
        to: &D,
        target: Target<'_, D::Node>,
    ) -> Result<()> {
        let show = |bar: &Bar| {
            let counts = self.progress.counts();
            bar.update(counts.bytes_passed, counts.bytes_found);
        };
        watched(
            || Bar::bytes(self.what),
            show,
            || transfer::copy((from, source), (to, target), &self.options, &self.progress),
        )
    }

    /// The answer with what was copied, and how fast.
    pub(super) fn answer(self) -> Answer {
        if output::is_quiet() {
            return self.quiet_answer();
        }
        let seconds = self.start.elapsed().as_secs_f64();
        let summary = self.progress.summary();
        let lines = [failures(&summary), counts(&summary, seconds)].concat();
        Self::answer_with(&summary, seconds, &lines)
    }

    /// Returns the answer whose text lists only the failures, without a summary.
    pub(super) fn quiet_answer(self) -> Answer {
        let seconds = self.start.elapsed().as_secs_f64();
        let summary = self.progress.summary();
        Self::answer_with(&summary, seconds, &failures(&summary))
    }

    fn answer_with(summary: &Summary, seconds: f64, lines: &[String]) -> Answer {
        Answer::new(shape(summary, seconds), lines.join("\n")).with_trouble(trouble(summary))
    }
}

/// Error of the command if something was not copied.
fn trouble(summary: &Summary) -> Option<Error> {
    let first = summary.failures.first()?;
    let more = match summary.stopped {
        true => "the copy was stopped, because all else would fail too",
        false => "everything else was copied",
    };
    let message = format!("not copied: {}; {more}", shapes::count(summary.failed, "entry"));
    Some(Error::new(first.error.kind(), message))
}

/// The answer as JSON.
fn shape(summary: &Summary, seconds: f64) -> Value {
    let failures = summary.failures.iter().map(
        |failure| json!({"path": shapes::bytes(&failure.path), "message": failure.error.message()}),
    );
    json!({
        "files": summary.files,
        "directories": summary.directories,
        "links": summary.links,
        "skipped": summary.skipped,
        "hard_links": summary.more_names,
        "lost_xattrs": summary.lost_xattrs,
        "copied_bytes": summary.bytes,
        "found_bytes": summary.bytes_found,
        "verified_bytes": summary.bytes_verified,
        "seconds": seconds,
        "failed": summary.failed,
        "failures": failures.collect::<Vec<_>>(),
    })
}

/// A line for each entry that could not be copied.
fn failures(summary: &Summary) -> Vec<String> {
    let failures = summary.failures.iter();
    let line = |failure: &Failure| {
        let path = String::from_utf8_lossy(&failure.path).escape_debug().to_string();
        format!("not copied: {path}: {}", failure.error.message())
    };
    failures.map(line).collect()
}

/// Lines on what was copied, and how fast.
fn counts(summary: &Summary, seconds: f64) -> Vec<String> {
    let mut lines = vec![format!(
        "{}, {}, {}; {} already there",
        shapes::count(summary.files, "file"),
        shapes::count(summary.directories, "directory"),
        shapes::count(summary.links, "link"),
        summary.skipped
    )];
    lines.push(amount_and_rate(summary.bytes, seconds));
    if summary.bytes_verified > 0 {
        lines.push(format!("{} verified", Bytes(summary.bytes_verified)));
    }
    let notes = [
        (summary.more_names, "hard links copied as separate files"),
        (summary.lost_xattrs, "extended attributes of the system not preserved"),
    ];
    let notes = notes.into_iter().filter(|(count, _)| *count > 0);
    lines.extend(notes.map(|(count, what)| format!("{count} {what}")));
    lines
}

/// The last name of a path; `None` for `.`, `..` and `/`.
pub(super) fn last_name(path: &Path) -> Option<Vec<u8>> {
    path.file_name().map(|name| name.as_bytes().to_vec())
}
