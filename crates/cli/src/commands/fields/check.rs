//! `esker fields check`.
use super::key;
use super::select::{NAMING, RequestArg, StoreArg};
use crate::output::Answer;
use crate::shapes::count;
use crate::units::Bytes;
use clap::Args;
use esker::types::{Error, ErrorKind, Result};
use esker_fields::{Checked, Lost};
use serde_json::{Value, json};

/// List the fields that cannot be read
///
/// Looks whether each field has all its bytes; --data reads them, too, and compares them with their checksums. Masked
/// fields are left out. If a node of a pool over nodes does not have the store, what is lost with it is listed: fields
/// whose bytes lay there, and databases whose lists of fields did. The exit status is 1 if anything is lost.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields check -s tank/fields
  esker fields check -s tank/fields class=od,date=-1 --data

{NAMING}"))]
pub(crate) struct Check {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    request: RequestArg,
    /// Read all data and compare it with its checksums
    #[arg(long)]
    data: bool,
}

impl Check {
    pub(super) fn run(self) -> Result<Answer> {
        let (store, left) = self.store.open_left()?;
        let mut all = Checked::default();
        for selection in self.request.selections(&store)? {
            let mut checked = store.check(&selection, self.data)?;
            all.fields += checked.fields;
            all.bytes += checked.bytes;
            all.lost.append(&mut checked.lost);
        }
        let lost_nodes = left.as_ref().map_or(&[][..], |left| &left.lost);
        let response = json!({
            "fields": all.fields,
            "size_bytes": all.bytes,
            "data_read": self.data,
            "lost": all.lost.iter().map(shape).collect::<Vec<_>>(),
            "lost_nodes": lost_nodes,
        });
        let trouble = match &left {
            Some(left) => Some(left.error("archive again what is lost")),
            None => trouble(&all.lost),
        };
        Ok(Answer::new(response, text(&all, self.data)).with_trouble(trouble))
    }
}

/// Error of the command if fields are lost.
fn trouble(lost: &[Lost]) -> Option<Error> {
    let message =
        "some fields cannot be read: archive them again, or remove them with `esker fields wipe`";
    (!lost.is_empty()).then(|| Error::new(ErrorKind::Corrupt, message))
}

fn shape(lost: &Lost) -> Value {
    json!({"key": key(&lost.key), "database": lost.is_database, "what": lost.why})
}

/// The answer of the command as text: what is lost, then the totals.
fn text(checked: &Checked, data: bool) -> String {
    let line = |Lost { key, is_database, why }: &Lost| match is_database {
        true => format!("{key}: the list of its fields: {why}"),
        false => format!("{key}: {why}"),
    };
    let mut lines: Vec<_> = checked.lost.iter().map(line).collect();
    let fields = checked.lost.iter().filter(|lost| !lost.is_database).count();
    let databases = checked.lost.len() - fields;
    lines.push(format!("{}, {}", count(checked.fields, "field"), Bytes(checked.bytes)));
    lines.push(match (checked.lost.len(), data) {
        (0, true) => "nothing is lost; all data was read".to_owned(),
        (0, false) => "nothing is lost; data was not read: --data reads it too".to_owned(),
        _ => format!("lost: {}, {}", count(fields, "field"), count(databases, "database")),
    });
    lines.join("\n")
}
