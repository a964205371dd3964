//! The files under version control, and what rules say about them.
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files beyond this are data, not something a person wrote.
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
    /// Reads the repository this crate lies in.
    ///
    /// # Errors
    /// Says what is wrong where git cannot list the files or one of them cannot be read.
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

    /// A tree made of (path, text) pairs, to try a rule on.
    pub fn of_texts(texts: &[(&str, &str)]) -> Self {
        let file =
            |&(path, text): &(&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        Self { files: texts.iter().map(file).collect() }
    }

    /// Every file, in order of path.
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

    /// The path's last part.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The part of the name after its last dot; nothing for a name without one, or starting with it.
    pub(crate) fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(|text| text.to_str()).unwrap_or_default()
    }

    /// A finding on a line of this file, counted from 1.
    pub(crate) fn finding(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, message: message.into() }
    }
}

/// A place that breaks a rule.
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

/// The root of the repository, two folders up from this crate.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a command prints when it is run in `folder`.
pub(crate) fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Leaves out links, and files that are deleted but not yet committed as such.
fn is_text_file(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|status| status.is_file() && status.len() <= FILE_SIZE_MAX_BYTES)
}
