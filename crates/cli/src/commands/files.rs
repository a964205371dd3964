//! Reading and writing files, standard input and standard output.
use crate::output::{self, Bar};
use esker::types::limits::SINGLE_VALUE_MAX;
use esker::types::{Error, ErrorKind, Result};
use esker_os::whole::WholeFile;
use std::fs::File;
use std::io::{IsTerminal, Read, StdoutLock, Write};
use std::path::Path;

/// The value that an argument gives: text, `@FILE`, `@@text`, or `-` for standard input.
pub(super) fn value(text: &str) -> Result<Vec<u8>> {
    if text == "-" {
        if std::io::stdin().is_terminal() && !output::is_quiet() {
            output::say(
                "reading the value from the terminal: end it with Ctrl-D on a line of its own",
            );
        }
        return read_value(std::io::stdin().lock(), "standard input");
    }
    match text.strip_prefix('@') {
        Some(rest) if rest.starts_with('@') => Ok(rest.as_bytes().to_vec()),
        Some(path) => {
            let file = File::open(path);
            read_value(file.map_err(|error| Error::io(format!("reading {path}"), &error))?, path)
        }
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// Reads a value to its end. Fails once it is longer than any value can be.
fn read_value(source: impl Read, name: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = source.take(SINGLE_VALUE_MAX + 1).read_to_end(&mut bytes);
    match read.map_err(|error| Error::io(format!("reading {name}"), &error))? as u64 {
        0..=SINGLE_VALUE_MAX => Ok(bytes),
        _ => Err(Error::new(
            ErrorKind::RecordTooBig,
            format!(
                "{name} is longer than a value can be: at most {SINGLE_VALUE_MAX} bytes (SINGLE_VALUE_MAX)"
            ),
        )),
    }
}

/// A file or standard input, with its name for messages.
pub(super) struct Source {
    name: String,
    inner: Box<dyn Read>,
    /// The length of a regular file.
    pub(super) len: Option<u64>,
}

impl Source {
    /// Opens a file to read; `-` is standard input.
    pub(super) fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            let (name, inner) = ("standard input".to_owned(), Box::new(std::io::stdin().lock()));
            return Ok(Self { name, inner, len: None });
        }
        let name = path.display().to_string();
        let failed = |error| Error::io(format!("reading {name}"), &error);
        let file = File::open(path).map_err(failed)?;
        let status = file.metadata().map_err(failed)?;
        if status.is_dir() {
            let message = format!("{name} is a directory: name a file");
            return Err(Error::new(ErrorKind::IsDirectory, message));
        }
        let len = status.is_file().then_some(status.len());
        Ok(Self { name, inner: Box::new(file), len })
    }

    /// The error with the name of the file before its message.
    pub(super) fn named(&self, error: &Error) -> Error {
        Error::new(error.kind(), format!("{}: {}", self.name, error.message()))
    }

    /// Fills `buffer`; returns the number of bytes read, which is less only at the end.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.inner.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(format!("reading {}", self.name), &error)),
            }
        }
        Ok(filled)
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.inner.read(buffer)
    }
}

/// A file or standard output, with its name for messages. A file has its name only once it is finished.
pub(crate) struct Sink {
    name: String,
    inner: Inner,
}

enum Inner {
    Standard(StdoutLock<'static>),
    File(WholeFile),
}

impl Sink {
    /// Creates or replaces a file to write; `-` is standard output.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            let name = "standard output".to_owned();
            return Ok(Self { name, inner: Inner::Standard(std::io::stdout().lock()) });
        }
        let inner = Inner::File(WholeFile::create(path)?);
        Ok(Self { name: path.display().to_string(), inner })
    }

    /// Refuses a terminal, since the output is binary. `remedy` says how to name a file.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it is one.
    pub(crate) fn refuse_terminal(&self, remedy: &str) -> Result<()> {
        if self.is_terminal() { Err(binary(remedy)) } else { Ok(()) }
    }

    /// A bar over the bytes that are written, hidden if they go to a terminal themselves.
    pub(crate) fn bar(&self, what: &'static str) -> Bar {
        if self.is_terminal() { Bar::hidden() } else { Bar::bytes(what) }
    }

    fn is_terminal(&self) -> bool {
        matches!(&self.inner, Inner::Standard(out) if out.is_terminal())
    }

    /// Writes all of `bytes`. On a terminal, they must be text.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.is_terminal() && is_binary(bytes) {
            return Err(binary(WITH_OPTION));
        }
        self.write_all(bytes).map_err(|error| self.write_error(&error))
    }

    /// Writes the buffered output. A new file gets its name only now, so that an incomplete file is never seen.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.flush().map_err(|error| self.write_error(&error))?;
        match self.inner {
            Inner::Standard(_) => Ok(()),
            Inner::File(file) => file.finish(),
        }
    }

    fn write_error(&self, error: &std::io::Error) -> Error {
        Error::io(format!("writing {}", self.name), error)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.inner {
            Inner::Standard(out) => out.write(bytes).inspect_err(note_closed_pipe),
            Inner::File(file) => Write::write(file, bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.inner {
            Inner::Standard(out) => out.flush().inspect_err(note_closed_pipe),
            Inner::File(file) => file.flush(),
        }
    }
}

/// Records an error of standard output that means that its reader has closed its end.
fn note_closed_pipe(error: &std::io::Error) {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        output::set_reader_gone();
    }
}

/// True for binary data: bytes with a zero, or not UTF-8. The last character may be cut off.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    let wrong = std::str::from_utf8(bytes).err();
    bytes.contains(&0) || wrong.is_some_and(|error| error.error_len().is_some())
}

/// Remedy of commands with the option `-o FILE`.
pub(crate) const WITH_OPTION: &str = "name a file with -o";

/// The error for binary data on a terminal. `remedy` says how to name a file.
#[cold]
pub(super) fn binary(remedy: &str) -> Error {
    let message = format!(
        "this is binary data, which a terminal cannot show: {remedy}, or redirect the output"
    );
    Error::new(ErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_text_or_files() {
        assert_eq!(value("text").unwrap(), b"text");
        assert_eq!(value("@@at").unwrap(), b"@at");
        assert_eq!(value("").unwrap(), b"");
        assert_eq!(value("@/dev/zero").unwrap_err().kind(), ErrorKind::RecordTooBig);
        assert!(value("@/no/such/file").unwrap_err().message().contains("/no/such/file"));
    }

    #[test]
    fn binary_data_is_told_from_text() {
        for text in [&b""[..], b"a\tb\n", "\u{e4}\u{1f600}".as_bytes(), &"\u{e4}".as_bytes()[..1]] {
            assert!(!is_binary(text), "{text:?}");
        }
        for binary in [&b"GRIB\0\0"[..], b"\x93NUMPY", b"a\xffb"] {
            assert!(is_binary(binary), "{binary:?}");
        }
    }

    #[test]
    fn a_source_is_read_to_its_end() {
        let inner: Box<dyn Read> = Box::new("abcde".as_bytes());
        let mut stream = Source { name: "test".to_owned(), inner, len: None };
        let mut buffer = [0; 4];
        assert_eq!((stream.fill(&mut buffer).unwrap(), &buffer), (4, b"abcd"));
        assert_eq!(stream.fill(&mut buffer).unwrap(), 1);
        assert_eq!(stream.fill(&mut buffer).unwrap(), 0);
    }
}
