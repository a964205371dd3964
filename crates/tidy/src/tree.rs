//! The files under version control, and the findings of rules.
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Larger files are data, not written by people.
const FILE_SIZE_MAX_BYTES: u64 = 1 << 20;

/// The files of the repository that are, or are about to be, under version control.
#[derive(Debug, Default)]
pub struct Tree {
    files: Vec<File>,
}

/// One file: its path from the root with `/` between the parts, and its text.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Tree {
    /// Reads the repository that contains this crate.
    ///
    /// # Errors
    /// If git cannot list the files or one of them is not readable; the text says why.
    pub fn of_repository() -> Result<Self, String> {
        let root = repository();
        let listing =
            run(&root, "git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let mut paths: Vec<_> =
            listing.split('\0').filter(|path| is_text_file(&root.join(path))).collect();
        paths.sort_unstable();
        let files =
            paths.into_iter().map(|path| File::read(&root, path)).collect::<Result<_, _>>()?;
        Ok(Self { files })
    }

    /// A tree made from (path, text) pairs, for tests of rules.
    pub fn of_texts(texts: &[(&str, &str)]) -> Self {
        let file =
            |&(path, text): &(&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        Self { files: texts.iter().map(file).collect() }
    }

    /// Every file, sorted by path.
    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// The file with this path.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }
}

impl File {
    /// Bytes that are not UTF-8 become U+FFFD, which the ASCII rule then reports.
    fn read(root: &Path, path: &str) -> Result<Self, String> {
        let bytes = std::fs::read(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
        Ok(Self { path: path.to_owned(), text: String::from_utf8_lossy(&bytes).into_owned() })
    }

    /// File name: the last part of the path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The part of the name after its last dot; empty for names without a dot and for names that start with their
    /// only dot.
    pub(crate) fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(|text| text.to_str()).unwrap_or_default()
    }

    /// A finding on a line of this file, counted from 1.
    pub(crate) fn finding(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, message: message.into() }
    }
}

/// A line that violates a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// The root of the repository, two directories above this crate.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The output of a command run in `folder`.
pub(crate) fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// True for a regular file of at most [`FILE_SIZE_MAX_BYTES`]. False for symbolic links, and for files that are deleted
/// but not yet committed as such.
fn is_text_file(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|status| status.is_file() && status.len() <= FILE_SIZE_MAX_BYTES)
}
