//! `esker fields schema`: printing, checking and explaining schemas.
use super::select::read_schema;
use crate::commands::fields as shown;
use crate::output::Answer;
use clap::Args;
use esker::types::Result;
use esker_fields::schema::{Level, Rule};
use esker_fields::{Key, Schema as FieldSchema};
use serde_json::{Value, json};
use std::path::PathBuf;

const LONG_HELP: &str = "\
Without --explain, the schema is printed as it is. This also checks a FILE: errors name the line.

Examples:
  esker fields schema > my-schema
  esker fields schema my-schema
  esker fields schema --explain class=od,expver=1,stream=oper,date=20240610,time=0,type=fc,levtype=sfc,step=0,param=2t";

/// Print or check a schema, or explain which rule matches a key
///
/// The language is FDB's; docs/fields.md describes it.
#[derive(Args)]
#[command(after_long_help = LONG_HELP)]
pub(crate) struct Schema {
    /// File with a schema [default: the schema that comes with Esker]
    file: Option<PathBuf>,
    /// Show the rule that matches this key, and how it splits the key
    #[arg(long, value_name = "KEY")]
    explain: Option<Key>,
}

impl Schema {
    pub(super) fn run(self) -> Result<Answer> {
        let schema = read_schema(self.file.as_ref())?;
        match &self.explain {
            Some(key) => explain(&schema, key),
            None => Ok(printed(&schema)),
        }
    }
}

fn printed(schema: &FieldSchema) -> Answer {
    let rules: Vec<_> = schema.rules().iter().map(rule).collect();
    Answer::new(json!({"text": schema.text(), "rules": rules}), schema.text())
}

fn rule(rule: &Rule) -> Value {
    json!({"line": rule.line(), "rule": rule.to_string()})
}

/// Shows the rule of the schema that applies to a key, and how the rule divides the key into its levels.
fn explain(schema: &FieldSchema, key: &Key) -> Result<Answer> {
    let split = schema.split_strictly(key)?;
    let taken = &schema.rules()[split.rule];
    let mut lines = vec![format!("rule      {} line {}: {taken}", schema.source(), taken.line())];
    let parts = [("database", &split.database), ("index", &split.index), ("datum", &split.datum)];
    for ((name, part), level) in parts.into_iter().zip(Level::ALL) {
        lines.push(format!("{name:<9} {part}"));
        for place in taken.level(level) {
            if let Some(value) = part.get(place.name()) {
                lines.push(format!("          {}={value} ({})", place.name(), place.kind()));
            }
        }
    }
    let response = json!({
        "rule": rule(taken),
        "database": shown::key(&split.database),
        "index": shown::key(&split.index),
        "datum": shown::key(&split.datum),
    });
    Ok(Answer::new(response, lines.join("\n")))
}
