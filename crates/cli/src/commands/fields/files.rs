//! Files to archive, and the result of archiving them.
use crate::output::{Answer, say};
use crate::shapes::count;
use crate::units::Bytes;
use esker::types::{Error, ErrorKind, Result};
use esker_fields::Key;
use esker_fields::grib::{UNKNOWN, UNLABELLED};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Errors that are printed one by one.
const TROUBLES_SHOWN: u64 = 20;

/// A file to archive.
pub(super) struct Input {
    pub(super) path: PathBuf,
    /// The user named the file itself, not a directory above it.
    pub(super) is_named: bool,
}

/// The files to archive.
#[derive(Default)]
pub(super) struct Inputs {
    /// Sorted within each directory.
    pub(super) files: Vec<Input>,
    /// Total size of the files. The size of a stream is not known.
    pub(super) bytes: u64,
    /// Entries of directories that are neither files nor directories, such as sockets and dangling links.
    pub(super) skipped: usize,
}

/// All files below the paths. A path may also name a stream, such as a pipe.
pub(super) fn collect(paths: &[PathBuf]) -> Result<Inputs> {
    let mut found = Inputs::default();
    // A stack of paths to visit, the next one last.
    let named = paths.iter().rev().cloned();
    let mut open: Vec<_> = named.map(|path| Input { path, is_named: true }).collect();
    while let Some(input) = open.pop() {
        let path = &input.path;
        let failed = |error| Error::io(format_args!("reading {}", path.display()), &error);
        let meta = match std::fs::metadata(path) {
            Err(error) if !input.is_named && error.kind() == std::io::ErrorKind::NotFound => {
                found.skipped += 1;
                continue;
            }
            meta => meta.map_err(failed)?,
        };
        if !meta.is_dir() {
            match meta.is_file() || input.is_named {
                true => {
                    found.bytes += meta.len();
                    found.files.push(input);
                }
                false => found.skipped += 1,
            }
            continue;
        }
        let entries = std::fs::read_dir(path).map_err(failed)?;
        let entries = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut entries = entries.collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
        entries.sort_unstable_by(|a, b| b.cmp(a));
        open.extend(entries.into_iter().map(|path| Input { path, is_named: false }));
    }
    Ok(found)
}

/// The result of archiving one file.
#[derive(Default)]
pub(super) struct Outcome {
    /// The fields of the file by their stored keys, each with its length, and whether it was already archived and
    /// skipped.
    fields: Vec<(Key, u64, bool)>,
    /// The stored keys of the fields that were archived.
    archived: HashSet<Key>,
    troubles: Vec<Error>,
    is_skipped: bool,
    /// The keys were read from messages, not given by the user.
    is_read: bool,
}

impl Outcome {
    /// Records that this file archived a field of `bytes` bytes under `key`.
    pub(super) fn archived(&mut self, key: Key, bytes: u64) {
        self.archived.insert(key.clone());
        self.fields.push((key, bytes, false));
    }

    /// True if a field of the file was archived under a stored key.
    pub(super) fn has_archived(&self, key: &Key) -> bool {
        self.archived.contains(key)
    }

    /// Records that the store already had this field of `bytes` bytes, so that it was not archived again.
    pub(super) fn was_there(&mut self, key: Key, bytes: u64) {
        self.fields.push((key, bytes, true));
    }

    /// No field yet of a file whose keys are read from its messages.
    pub(super) fn of_messages() -> Self {
        Self { is_read: true, ..Self::default() }
    }

    /// Records that the file has nothing to archive.
    pub(super) fn skip(&mut self) {
        self.is_skipped = true;
    }

    /// Records an error of this file, or of a message in it.
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
    /// The stored keys so far, and whether a field was archived under each.
    seen: HashMap<Key, bool>,
    duplicates: u64,
    /// Fields with a label that their messages do not have.
    unlabelled: u64,
    /// Files without any field, in directories.
    skipped: usize,
    troubles: u64,
}

impl Archived {
    /// True if an earlier file archived a field under a key that this file has, too.
    pub(super) fn meets(&self, outcome: &Outcome) -> bool {
        outcome.fields.iter().any(|(key, _, _)| self.seen.get(key) == Some(&true))
    }

    /// Adds the result of the next file, and prints its errors.
    pub(super) fn take(&mut self, path: &Path, outcome: Outcome) {
        self.skipped += usize::from(outcome.is_skipped);
        for (key, bytes, there) in outcome.fields {
            if there {
                self.there += 1;
                self.seen.entry(key).or_insert(false);
                continue;
            }
            self.fields += 1;
            self.unlabelled += u64::from(outcome.is_read && is_unlabelled(&key));
            self.bytes += bytes;
            self.duplicates += u64::from(self.seen.insert(key, true).is_some());
        }
        for error in outcome.troubles {
            self.troubles += 1;
            if self.troubles <= TROUBLES_SHOWN {
                say(format_args!("{}: {error}", path.display()));
            }
        }
    }

    /// The answer of the command about the files of `inputs`.
    pub(super) fn answer(mut self, inputs: &Inputs) -> Answer {
        self.skipped += inputs.skipped;
        let files = inputs.files.len() + inputs.skipped;
        let response = json!({
            "files": files - self.skipped, "fields": self.fields, "size_bytes": self.bytes, "there": self.there,
            "duplicates": self.duplicates, "unlabelled": self.unlabelled, "skipped": self.skipped,
            "troubles": self.troubles,
        });
        Answer::new(response, self.lines(files).join("\n")).with_trouble(self.trouble())
    }

    /// Lines of the answer.
    fn lines(&self, files: usize) -> Vec<String> {
        let archived = format!(
            "archived {}, {}, from {}",
            count(self.fields, "field"),
            Bytes(self.bytes),
            count(files - self.skipped, "file")
        );
        let fields = |number| count(number, "field");
        let remarks = [
            (self.there > 0).then(|| format!("already there: {}", fields(self.there))),
            (self.duplicates > 0)
                .then(|| format!("masked by later ones of the same key: {}", fields(self.duplicates))),
            (self.skipped > 0)
                .then(|| format!("skipped, without a GRIB message: {}", count(self.skipped, "file"))),
            (self.unlabelled > 0).then(|| {
                format!(
                    "without all MARS labels in their messages: {}, archived under class, stream or type `unknown`; \
                     --set class=...,stream=...,type=... gives them others",
                    fields(self.unlabelled)
                )
            }),
        ];
        std::iter::once(archived).chain(remarks.into_iter().flatten()).collect()
    }

    /// Error of the command if a file or message could not be archived, or if nothing was archived.
    fn trouble(&self) -> Option<Error> {
        let text = match self.troubles {
            0 if self.skipped == 0 || self.fields + self.there > 0 => return None,
            0 => "no file contains a GRIB message: name GRIB files, or give the key of other files by --key".into(),
            number => {
                let others = if self.fields + self.there > 0 { "all others were" } else { "there are no others" };
                format!("messages or files that could not be archived: {number}; {others}")
            }
        };
        Some(Error::new(ErrorKind::Invalid, text))
    }
}

/// True if a label has the value that replaces a missing one.
fn is_unlabelled(key: &Key) -> bool {
    UNLABELLED.iter().any(|&(name, value)| value == UNKNOWN && key.get(name) == Some(value))
}
