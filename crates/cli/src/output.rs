//! How every command answers: text for people, or one JSON envelope for programs.
use esker::types::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;

/// The outcome of a command that could do its work.
pub(crate) struct Answer {
    response: Value,
    text: Vec<u8>,
    trouble: Option<Error>,
    /// How another program ended that did the work and gave the answer.
    ended: Option<ExitCode>,
}

impl Answer {
    /// What programs get, and the lines that people get.
    pub(crate) fn new(response: Value, text: impl Into<String>) -> Self {
        let mut text: String = text.into();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        Self::bytes(response, text.into_bytes())
    }

    /// The same with bytes that are written to standard output as they are.
    pub(crate) fn bytes(response: Value, bytes: Vec<u8>) -> Self {
        Self { response, text: bytes, trouble: None, ended: None }
    }

    /// Another program did the work and gave the answer, and this is how it ended.
    pub(crate) fn ended(code: ExitCode) -> Self {
        Self { ended: Some(code), ..Self::bytes(Value::Null, Vec::new()) }
    }

    /// The work was done, and what it found is a reason to fail.
    pub(crate) fn with_trouble(self, trouble: Option<Error>) -> Self {
        Self { trouble, ..self }
    }
}

/// Prints an outcome. Success only where all went well.
pub(crate) fn show(outcome: Result<Answer>, json: bool) -> ExitCode {
    if let Ok(Answer { ended: Some(code), .. }) = outcome {
        return code;
    }
    let (answer, error) = match outcome {
        Ok(mut answer) => {
            let trouble = answer.trouble.take();
            (Some(answer), trouble)
        }
        Err(error) => (None, Some(error)),
    };
    let printed = match (json, answer) {
        (true, answer) => print(&envelope(answer.map(|answer| answer.response), error.as_ref())),
        (false, Some(answer)) => print(&answer.text),
        (false, None) => Ok(()),
    };
    if let (false, Some(error)) = (json, &error) {
        eprintln!("esker: {error}");
    }
    match (printed, error) {
        (Ok(()), None) => ExitCode::SUCCESS,
        (Err(cause), _) => {
            eprintln!("esker: writing to standard output: {cause}");
            ExitCode::FAILURE
        }
        _ => ExitCode::FAILURE,
    }
}

fn envelope(response: Option<Value>, error: Option<&Error>) -> Vec<u8> {
    let shown =
        error.map(|error| json!({"kind": kind_name(error.kind()), "message": error.message()}));
    let envelope = json!({
        "response": response,
        "error": shown,
        "status": error.map_or(0, Error::der),
    });
    format!("{envelope:#}\n").into_bytes()
}

/// The kind as it is written in JSON: `not_found` for [`ErrorKind::NotFound`].
fn kind_name(kind: ErrorKind) -> String {
    let mut name = String::new();
    for letter in format!("{kind:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// A reader that has seen enough and gone is no failure.
fn print(bytes: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_is_the_documented_one() {
        let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        let fine = read(&envelope(Some(json!({"a": 1})), None));
        assert_eq!(fine, json!({"response": {"a": 1}, "error": null, "status": 0}));
        let error = Error::new(ErrorKind::NotFound, "no pool");
        let failed = read(&envelope(None, Some(&error)));
        let shown = json!({"kind": "not_found", "message": "no pool"});
        assert_eq!(failed, json!({"response": null, "error": shown, "status": -1005}));
    }

    #[test]
    fn lines_end() {
        assert_eq!(Answer::new(Value::Null, "a").text, b"a\n");
        assert_eq!(Answer::new(Value::Null, "a\n").text, b"a\n");
        assert_eq!(Answer::new(Value::Null, "").text, b"");
    }
}
