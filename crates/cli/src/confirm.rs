//! Questions to the user of a terminal, before something is destroyed.
use esker::types::{Error, ErrorKind, Result};
use std::io::{BufRead, IsTerminal, Write};

/// True if a question can be asked: standard input and standard error are terminals.
pub(crate) fn is_possible() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks `question` on standard error and reads one line.
///
/// # Errors
/// [`ErrorKind::Canceled`] unless the answer is `y` or `yes`.
pub(crate) fn ask(question: &str) -> Result<()> {
    let failed = |error| Error::io("asking on the terminal", &error);
    let mut out = std::io::stderr().lock();
    write!(out, "{question} [y/N] ").and_then(|()| out.flush()).map_err(failed)?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(failed)?;
    match is_yes(&line) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Canceled, "nothing was destroyed: answer y to do it")),
    }
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_confirms() {
        for line in ["y\n", "Y", " yes\r\n", "YES"] {
            assert!(is_yes(line), "{line:?}");
        }
        for line in ["", "\n", "n", "yess", "ja", "y n"] {
            assert!(!is_yes(line), "{line:?}");
        }
    }
}
