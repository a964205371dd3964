//! From a request to what it selects.
use super::selection::{Selection, Wanted};
use super::{Request, invalid, lists};
use crate::date::Date;
use crate::schema::Schema;
use esker_types::{Error, Result};

/// Names that say what becomes of the fields and not which they are.
const NOT_FOR_SELECTION: [&str; 8] =
    ["database", "expect", "fieldset", "padding", "process", "source", "target", "use"];

/// Names that ask for other fields than those that are stored.
const PROCESSING: [&str; 13] = [
    "accuracy",
    "area",
    "bitmap",
    "format",
    "frame",
    "gaussian",
    "grid",
    "interpolation",
    "packing",
    "resol",
    "rotation",
    "specification",
    "truncation",
];

pub(super) fn expand(request: &Request, schema: &Schema, today: Date) -> Result<Selection> {
    let (mut wanted, mut any) = (Vec::new(), false);
    for (name, raw) in request.iter() {
        let kinds = schema.kinds(name);
        if kinds.is_empty() {
            if NOT_FOR_SELECTION.contains(&name) {
                any |=
                    name == "expect" && matches!(raw, [value] if value.eq_ignore_ascii_case("any"));
                continue;
            }
            return Err(unknown(schema, name));
        }
        let values = lists::values(name, kinds, raw, today)?;
        wanted.push(Wanted::new(name, kinds, values));
    }
    let mut selection = Selection::new(schema, wanted);
    selection.any = any;
    Ok(selection)
}

fn unknown(schema: &Schema, name: &str) -> Error {
    if PROCESSING.contains(&name) {
        let remedy = "fields come as they were archived; leave it out and process them afterwards";
        return invalid(format!("{name} asks for processing: {remedy}"));
    }
    schema.unknown_name(name)
}
