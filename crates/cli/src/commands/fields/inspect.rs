//! `esker fields list`, `inspect`, `axes`, `status`, `stats`, `where` and `dump`: what a store holds.
use super::select::{NAMING, RequestArg, StoreArg};
use crate::commands::fields as shown;
use crate::output::Answer;
use crate::shapes::count;
use crate::units::Bytes;
use clap::Args;
use esker::Wait;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker_fields::request::Selection;
use esker_fields::{FieldStore, Listed};
use serde_json::json;

/// Arguments that these commands share.
#[derive(Args)]
pub(super) struct Look {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    request: RequestArg,
}

impl Look {
    fn open(&self) -> Result<FieldStore> {
        self.store.open(OpenMode::ReadOnly)
    }

    /// Returns the fields of all requests.
    fn listed(&self) -> Result<Vec<Listed>> {
        let store = self.open()?;
        let selections = self.request.selections(&store)?;
        list(&store, &selections)
    }
}

/// The fields of all selections.
fn list(store: &FieldStore, selections: &[Selection]) -> Result<Vec<Listed>> {
    let listed = selections.iter().map(|selection| store.list(selection));
    Ok(listed.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The fields of all selections that later ones with the same key mask.
fn list_masked(store: &FieldStore, selections: &[Selection]) -> Result<Vec<Listed>> {
    let mut all = Vec::new();
    for selection in selections {
        store.visit(selection, true, |listed| {
            all.push(listed);
            Ok(true)
        })?;
    }
    Ok(all)
}

/// List fields by their keys
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields list -s tank/fields
  esker fields list -s tank/fields class=od,step=0/to/24 --long

{NAMING}"))]
pub(crate) struct List {
    #[command(flatten)]
    look: Look,
    /// Show the length, the time of archiving and the location of each field
    #[arg(long, short)]
    long: bool,
    /// Omit values that are defaults of the schema, as FDB's listings do
    #[arg(long)]
    no_defaults: bool,
}

impl List {
    pub(super) fn run(self) -> Result<Answer> {
        let mut all = self.look.listed()?;
        if self.no_defaults {
            let store = self.look.open()?;
            for listed in &mut all {
                listed.key = store.schema().without_defaults(&listed.key);
            }
        }
        let line = |listed: &Listed| match self.long {
            true => shown::long(&listed.key, &listed.location),
            false => listed.key.to_string(),
        };
        let lines: Vec<String> = all.iter().map(line).collect();
        let response = json!({"fields": all.iter().map(shown::listed).collect::<Vec<_>>()});
        Ok(Answer::new(response, lines.join("\n")))
    }
}

/// Find the fields of a request, and report those that are missing
///
/// No data is read. The exit status is 1 if a field is missing.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields inspect -s tank/fields --from request.txt

{NAMING}"))]
pub(crate) struct Inspect {
    #[command(flatten)]
    look: Look,
}

impl Inspect {
    pub(super) fn run(self) -> Result<Answer> {
        let store = self.look.open()?;
        let (mut fields, mut lines, mut missing, mut missing_count) =
            (Vec::new(), Vec::new(), Vec::new(), 0);
        for selection in self.look.request.required_selections(&store)? {
            let found = store.find(&selection)?;
            for field in &found.fields {
                fields.push(shown::with_place(field.key(), field.location()));
                lines.push(shown::long(field.key(), field.location()));
            }
            missing.extend(found.missing.iter().map(|key| format!("missing: {key}")));
            missing_count += found.missing_count;
        }
        let trouble = (missing_count > 0 || fields.is_empty()).then(|| {
            let text = format!("{} found, {missing_count} missing", count(fields.len(), "field"));
            Error::new(ErrorKind::NotFound, text)
        });
        lines.append(&mut missing);
        let response = json!({"fields": fields, "missing": missing_count});
        Ok(Answer::new(response, lines.join("\n")).with_trouble(trouble))
    }
}

/// Show the values that occur in the keys of fields
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields axes -s tank/fields class=od

{NAMING}"))]
pub(crate) struct Axes {
    #[command(flatten)]
    look: Look,
}

impl Axes {
    pub(super) fn run(self) -> Result<Answer> {
        let store = self.look.open()?;
        let mut axes = esker_fields::Axes::new(store.schema());
        for selection in self.look.request.selections(&store)? {
            for (name, values) in store.axes(&selection)?.iter() {
                values.for_each(|value| axes.add_value(name, value));
            }
        }
        let axes = axes.to_map();
        let lines: Vec<_> =
            axes.iter().map(|(name, values)| format!("{name}={}", values.join("/"))).collect();
        Ok(Answer::new(json!({"axes": axes}), lines.join("\n")))
    }
}

/// Show databases, and the number and size of their fields
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields status -s tank/fields

{NAMING}"))]
pub(crate) struct Status {
    #[command(flatten)]
    look: Look,
}

impl Status {
    pub(super) fn run(self) -> Result<Answer> {
        let store = self.look.open()?;
        let (mut rows, mut lines) = (Vec::new(), Vec::new());
        for selection in self.look.request.selections(&store)? {
            for (database, fields, bytes) in store.by_database(&selection)? {
                lines.push(format!("{database}  {}  {}", count(fields, "field"), Bytes(bytes)));
                rows.push(
                    json!({"database": shown::key(&database), "fields": fields, "size_bytes": bytes}),
                );
            }
        }
        if lines.is_empty() {
            lines.push("no fields".to_owned());
        }
        Ok(Answer::new(json!({"databases": rows}), lines.join("\n")))
    }
}

/// Count fields and bytes
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields stats -s tank/fields class=od

{NAMING}"))]
pub(crate) struct Stats {
    #[command(flatten)]
    look: Look,
}

impl Stats {
    pub(super) fn run(self) -> Result<Answer> {
        let store = self.look.open()?;
        let (mut rows, mut lines) = (Vec::new(), Vec::new());
        for selection in self.look.request.selections(&store)? {
            let stats = store.stats(&selection)?;
            lines.push(format!(
                "databases  {}\nindexes    {}\nfields     {}  {}\nadopted    {}  {} in files\nmasked     {}  {}",
                stats.databases,
                stats.indexes,
                stats.fields,
                Bytes(stats.bytes),
                stats.adopted,
                Bytes(stats.adopted_bytes),
                stats.masked,
                Bytes(stats.masked_bytes),
            ));
            rows.push(json!({
                "databases": stats.databases, "indexes": stats.indexes,
                "fields": stats.fields, "size_bytes": stats.bytes,
                "adopted": stats.adopted, "adopted_bytes": stats.adopted_bytes,
                "masked": stats.masked, "masked_bytes": stats.masked_bytes,
            }));
        }
        Ok(Answer::new(json!({"stats": rows}), lines.join("\n")))
    }
}

/// Show the pool and the container of a store
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields where -s tank/fields

{NAMING}"))]
pub(crate) struct Where {
    #[command(flatten)]
    store: StoreArg,
}

impl Where {
    pub(super) fn run(self) -> Result<Answer> {
        let store = self.store.open(OpenMode::ReadOnly)?;
        let pool = store.container().pool_info().wait()?;
        let container = store.container().info();
        let text = format!(
            "pool       {} ({})\ncontainer  {} ({})",
            pool.label, pool.uuid, container.label, container.uuid
        );
        let response = json!({
            "store": self.store.name(),
            "pool": {"label": pool.label, "uuid": pool.uuid.to_string()},
            "container": {"label": container.label, "uuid": container.uuid.to_string()},
        });
        Ok(Answer::new(response, text))
    }
}

/// Show all entries of the indexes, masked ones too
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields dump -s tank/fields class=od,step=0

{NAMING}"))]
pub(crate) struct Dump {
    #[command(flatten)]
    look: Look,
}

impl Dump {
    pub(super) fn run(self) -> Result<Answer> {
        let store = self.look.open()?;
        // Read once: standard input is empty afterwards.
        let selections = self.look.request.selections(&store)?;
        let (current, masked) = (list(&store, &selections)?, list_masked(&store, &selections)?);
        let line_with = |state| {
            move |listed: &Listed| {
                format!("{state}  {}", shown::long(&listed.key, &listed.location))
            }
        };
        let lines = current.iter().map(line_with("current"));
        let lines: Vec<String> = lines.chain(masked.iter().map(line_with("masked "))).collect();
        let response = json!({
            "current": current.iter().map(shown::listed).collect::<Vec<_>>(),
            "masked": masked.iter().map(shown::listed).collect::<Vec<_>>(),
        });
        Ok(Answer::new(response, lines.join("\n")))
    }
}
