//! Walks that continue after the failure of an entry.
use super::path::FsPath;
use crate::output::say;
use crate::shapes;
use dfs::{Visit, Walk};
use esker::types::{Error, ErrorKind, Result};

/// Entries of a walk that failed. Each is reported on standard error, and the walk continues with the next one.
#[derive(Default)]
pub(super) struct Failures {
    count: usize,
    /// The kind of the first error.
    kind: Option<ErrorKind>,
}

impl Failures {
    /// The next entry of a walk below `path`, `None` at the end. Skips directories that cannot be listed.
    pub(super) fn next(&mut self, path: &FsPath, walk: &mut Walk) -> Option<Visit> {
        loop {
            match walk.visit() {
                Ok(visit) => return visit,
                Err(error) => self.report(&path.shown(b""), &error),
            }
        }
    }

    /// The result for an entry; `None` if it failed. Another process may have removed an entry after it was listed: that
    /// is not a failure.
    pub(super) fn check<T>(
        &mut self,
        path: &FsPath,
        visit: &Visit,
        result: Result<T>,
    ) -> Option<T> {
        match result {
            Ok(value) => return Some(value),
            Err(error) if visit.depth > 0 && error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                let entry = [&visit.node.path()[..], b": "].concat();
                self.report(&path.shown(&entry), &error);
            }
        }
        None
    }

    fn report(&mut self, before: &[u8], error: &Error) {
        say(format_args!("{}{}", String::from_utf8_lossy(before).escape_debug(), error.message()));
        self.count += 1;
        self.kind.get_or_insert(error.kind());
    }

    /// The error of the command if an entry failed.
    pub(super) fn trouble(self) -> Option<Error> {
        let message =
            format!("failed: {}; see the lines above", shapes::count(self.count, "entry"));
        self.kind.map(|kind| Error::new(kind, message))
    }
}
