//! Files to archive, and the result of archiving them.
use crate::output::Answer;
use crate::shapes::count;
use esker::types::{Error, ErrorKind, Result};
use esker_bench::units::Bytes;
use esker_fields::Key;
use serde_json::json;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Errors that are printed one by one.
const TROUBLES_SHOWN: u64 = 20;

/// All files below the paths, sorted within each directory, and their total size in bytes.
pub(super) fn collect(paths: &[PathBuf]) -> Result<(Vec<PathBuf>, u64)> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut open: Vec<PathBuf> = paths.iter().rev().cloned().collect();
    while let Some(path) = open.pop() {
        let failed = |error| Error::io(format_args!("reading {}", path.display()), &error);
        let meta = std::fs::metadata(&path).map_err(failed)?;
        if meta.is_file() {
            bytes += meta.len();
            found.push(path);
            continue;
        }
        let entries = std::fs::read_dir(&path).map_err(failed)?;
        let entries = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut entries = entries.collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
        entries.sort_unstable_by(|a, b| b.cmp(a));
        open.append(&mut entries);
    }
    Ok((found, bytes))
}

/// The result of archiving one file.
#[derive(Default)]
pub(super) struct Outcome {
    /// The fields of the file, each with its length, and whether it was already archived and skipped.
    fields: Vec<(Key, u64, bool)>,
    troubles: Vec<Error>,
}

impl Outcome {
    /// Notes a field that was archived.
    pub(super) fn archived(&mut self, key: Key, bytes: u64) {
        self.fields.push((key, bytes, false));
    }

    /// Notes a field that was already archived.
    pub(super) fn was_there(&mut self, key: Key, bytes: u64) {
        self.fields.push((key, bytes, true));
    }

    /// Notes an error.
    pub(super) fn trouble(&mut self, error: Error) {
        self.troubles.push(error);
    }
}

/// The result of archiving all files so far.
#[derive(Default)]
pub(super) struct Archived {
    fields: u64,
    bytes: u64,
    there: u64,
    /// The keys so far, and whether a field was archived under each.
    seen: HashMap<Key, bool>,
    duplicates: u64,
    troubles: u64,
}

impl Archived {
    /// True if an earlier file archived a field under a key of this one.
    pub(super) fn meets(&self, outcome: &Outcome) -> bool {
        outcome.fields.iter().any(|(key, _, _)| self.seen.get(key) == Some(&true))
    }

    /// Adds the result of the next file, and prints its errors.
    pub(super) fn take(&mut self, path: &Path, outcome: Outcome) {
        for (key, bytes, there) in outcome.fields {
            if there {
                self.there += 1;
                self.seen.entry(key).or_insert(false);
                continue;
            }
            self.fields += 1;
            self.bytes += bytes;
            self.duplicates += u64::from(self.seen.insert(key, true).is_some());
        }
        for error in outcome.troubles {
            self.troubles += 1;
            if self.troubles <= TROUBLES_SHOWN {
                eprintln!("esker: {}: {error}", path.display());
            }
        }
    }

    /// The answer of the command.
    pub(super) fn answer(self, files: usize) -> Answer {
        let mut lines = vec![format!(
            "archived {}, {}, from {}",
            count(self.fields, "field"),
            Bytes(self.bytes),
            count(files, "file")
        )];
        if self.there > 0 {
            lines.push(format!("already there: {}", count(self.there, "field")));
        }
        if self.duplicates > 0 {
            lines.push(format!(
                "masked by later ones of the same key: {}",
                count(self.duplicates, "field")
            ));
        }
        let trouble = (self.troubles > 0).then(|| {
            let text = format!(
                "messages or files that could not be archived: {}; all others were",
                self.troubles
            );
            Error::new(ErrorKind::Invalid, text)
        });
        let response = json!({
            "files": files, "fields": self.fields, "size_bytes": self.bytes, "there": self.there,
            "duplicates": self.duplicates, "troubles": self.troubles,
        });
        Answer::new(response, lines.join("\n")).with_trouble(trouble)
    }
}
