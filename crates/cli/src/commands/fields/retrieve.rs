//! `esker fields retrieve`: reading fields by request.
use super::select::{NAMING, RequestArg, StoreArg};
use crate::commands::files::{Sink, WITH_OPTION};
use crate::output::{Answer, Bar};
use crate::shapes::count;
use crate::units::Bytes;
use clap::Args;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker_fields::{Field, FieldStore};
use serde_json::json;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Read fields in the order of the request
///
/// The names of a request are its axes; the last one varies fastest. If a field of the request is not in the store, the
/// command fails and writes nothing, unless --partial is given.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields retrieve --store tank/fields class=od,date=-1,step=0/to/24/by/6,param=167 -o t2m.grib
  esker fields retrieve --store tank/fields --from request.txt > out.grib

{NAMING}"))]
pub(crate) struct Retrieve {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    request: RequestArg,
    /// File to write; - for standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Write the fields that are found, even if others are missing
    #[arg(long)]
    partial: bool,
}

impl Retrieve {
    pub(super) fn run(self, json: bool) -> Result<Answer> {
        let to_standard = self.output.as_os_str() == "-";
        if json && to_standard {
            let message = "standard output is for the JSON document: name a file with -o";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let store = self.store.open(OpenMode::ReadOnly)?;
        let (fields, missing) = self.find(&store)?;
        let total = fields.iter().map(Field::bytes).sum();
        let mut sink = Sink::create(&self.output)?;
        sink.refuse_terminal(WITH_OPTION)?;
        write(&fields, total, &mut sink)?;
        sink.finish()?;
        let response = json!({"fields": fields.len(), "size_bytes": total, "missing": missing});
        let text = format!("{}, {}", count(fields.len(), "field"), Bytes(total));
        let trouble = (missing > 0).then(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("missing: {}; all others were written", count(missing, "field")),
            )
        });
        let text = if to_standard { String::new() } else { text };
        Ok(Answer::new(response, text).with_trouble(trouble))
    }

    /// The fields that were asked for, and the number of missing ones. Without `--partial`, a missing one is an error.
    fn find(&self, store: &FieldStore) -> Result<(Vec<Field>, u64)> {
        let (mut fields, mut missing) = (Vec::new(), 0);
        for selection in self.request.required_selections(store)? {
            if self.partial {
                let mut found = store.find(&selection)?;
                missing += found.missing_count;
                fields.append(&mut found.fields);
            } else {
                fields.append(&mut store.retrieve(&selection)?);
            }
        }
        Ok((fields, missing))
    }
}

/// Writes fields one after the other, and reads the next ones meanwhile.
fn write(fields: &[Field], total: u64, out: impl Write) -> Result<()> {
    let (mut out, bar, mut done) = (BufWriter::new(out), Bar::bytes("retrieving"), 0);
    let wrong = |error: std::io::Error| Error::io("writing fields", &error);
    esker_fields::read_ahead(fields, |_, bytes| {
        out.write_all(bytes).map_err(wrong)?;
        done += bytes.len() as u64;
        bar.update(done, total);
        Ok(())
    })?;
    out.flush().map_err(wrong)
}
