//! `esker cont get-prop` and `set-prop`: the properties of a container.
use crate::args::ContainerArg;
use crate::output::Answer;
use crate::shapes;
use clap::Args;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker::{Container, Wait};
use serde_json::{Map, Value, json};

/// Show the properties of a container
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker cont get-prop tank/run1
  esker cont get-prop tank/run1 label csum")]
pub(crate) struct GetProp {
    #[command(flatten)]
    container: ContainerArg,
    /// Names of properties [default: all]
    #[arg(value_name = "PROP")]
    names: Vec<String>,
}

/// Change a property of a container
///
/// Only the label can change: `esker cont set-prop tank/run1 label:run2`.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker cont set-prop tank/run1 label:run2")]
pub(crate) struct SetProp {
    #[command(flatten)]
    container: ContainerArg,
    /// The property and its new value. An empty value removes the label
    #[arg(value_name = "PROP:VALUE")]
    pair: String,
}

impl GetProp {
    pub(crate) fn run(self) -> Result<Answer> {
        let all = properties(&self.container.open(OpenMode::ReadOnly)?)?;
        let missing = self.names.iter().find(|name| !all.contains_key(*name));
        if let Some(missing) = missing {
            let known: Vec<_> = all.keys().map(String::as_str).collect();
            let message =
                format!("there is no property {missing:?}: the container has {}", known.join(", "));
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let wanted = |name: &String| self.names.is_empty() || self.names.contains(name);
        let chosen: Map<_, _> = all.into_iter().filter(|(name, _)| wanted(name)).collect();
        let lines = chosen.iter().map(|(name, value)| format!("{name}:{}", readable(value)));
        let lines: Vec<_> = lines.collect();
        Ok(Answer::new(Value::Object(chosen), lines.join("\n")))
    }
}

/// Returns the properties of a container: label, UUID and checksum, and those that programs have stored.
fn properties(container: &Container) -> Result<Map<String, Value>> {
    let info = container.query().wait()?;
    let mut all = Map::new();
    let stored = container.properties();
    for name in stored.list().wait()? {
        let value = stored.get(&name).wait()?.unwrap_or_default();
        all.insert(name, shapes::bytes(&value));
    }
    all.insert("label".to_owned(), json!(info.label));
    all.insert("uuid".to_owned(), json!(info.uuid.to_string()));
    all.insert("csum".to_owned(), json!(shapes::checksum(info.checksum)));
    Ok(all)
}

/// A value as text, or in hexadecimal digits if it is not text that a terminal can show.
fn readable(value: &Value) -> String {
    match value.get("hex").and_then(Value::as_str) {
        Some(digits) => format!("0x{digits}"),
        None => {
            let text = value.get("text").unwrap_or(value).as_str().unwrap_or_default();
            shapes::readable(text.as_bytes())
        }
    }
}

impl SetProp {
    pub(crate) fn run(self) -> Result<Answer> {
        let Some(label) = self.pair.strip_prefix("label:") else {
            let message = format!(
                "{:?}: only the label can change: write label:NAME; the checksum is set by \
                 `esker cont create --checksum`",
                self.pair
            );
            return Err(Error::new(ErrorKind::NotSupported, message));
        };
        let container = self.container.open(OpenMode::ReadWrite)?;
        container.rename(Some(label).filter(|label| !label.is_empty())).wait()?;
        Ok(Answer::new(json!({"label": label}), ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_in_hexadecimal_digits() {
        assert_eq!(readable(&shapes::bytes(b"\x01\0\0\0")), "0x01000000");
        assert_eq!(readable(&shapes::bytes(b"\xff\xfe")), "0xfffe");
        assert_eq!(readable(&shapes::bytes(b"text")), "text");
    }
}
