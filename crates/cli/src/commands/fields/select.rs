//! Which store, and which fields of it.
use crate::open;
use clap::Args;
use esker::Pool;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker_fields::request::{Request, Selection};
use esker_fields::{Date, FieldStore, Schema};
use std::io::Read;
use std::path::PathBuf;

/// How stores and fields are named, for the help of commands.
pub(super) const NAMING: &str = "\
A STORE is POOL/CONT: a pool and a container in it, by label, UUID or URL. ESKER_FIELDS names it where --store does \
not.

A REQUEST is in the MARS language: class=od,date=20240610/to/20240612,step=0/to/24/by/6,param=t/u. Names it leaves out \
may have any value. Several arguments are one request; --from FILE reads any number of requests (- for standard \
input).";

/// The store.
#[derive(Args)]
pub(super) struct StoreArg {
    /// Store: a pool and a container in it
    #[arg(long, short, value_name = "POOL/CONT", env = "ESKER_FIELDS")]
    store: String,
}

impl StoreArg {
    pub(super) fn open(&self, mode: OpenMode) -> Result<FieldStore> {
        open(&self.store, mode)
    }

    /// The store, made with the schema of a file or the default one where it is not there.
    pub(super) fn open_or_create(&self, schema: Option<&PathBuf>) -> Result<FieldStore> {
        open_or_create(&self.store, &read_schema(schema)?)
    }

    pub(super) fn name(&self) -> &str {
        &self.store
    }
}

/// The schema of a file, or the default one.
pub(super) fn read_schema(file: Option<&PathBuf>) -> Result<Schema> {
    let Some(path) = file else { return Schema::default_mars() };
    let text = std::fs::read_to_string(path);
    let text =
        text.map_err(|error| Error::io(format_args!("reading {}", path.display()), &error))?;
    Schema::parse(&text, &path.display().to_string())
}

fn open(store: &str, mode: OpenMode) -> Result<FieldStore> {
    let (pool, container) = open::split(store)?;
    FieldStore::open(&Pool::connect(pool, mode)?, container, mode)
}

pub(super) fn open_or_create(store: &str, schema: &Schema) -> Result<FieldStore> {
    let (pool, container) = open::split(store)?;
    FieldStore::open_or_create(&Pool::connect(pool, OpenMode::ReadWrite)?, container, schema)
}

/// The fields.
#[derive(Args)]
pub(super) struct RequestArg {
    /// Request: name=value/value,name=value; all fields where there is none
    #[arg(value_name = "REQUEST")]
    request: Vec<String>,
    /// Read requests from a file, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "request")]
    from: Option<PathBuf>,
}

impl RequestArg {
    /// What each request selects; one selection of everything where there is no request.
    pub(super) fn selections(&self, store: &FieldStore) -> Result<Vec<Selection>> {
        let text = match &self.from {
            Some(path) => read(path)?,
            None => self.request.join(","),
        };
        if text.trim().is_empty() && self.from.is_none() {
            return Ok(vec![Selection::everything(store.schema())]);
        }
        let requests = Request::parse_all(&text)?;
        requests.iter().map(|request| request.expand(store.schema(), Date::today())).collect()
    }

    /// As [`RequestArg::selections`], where there must be a request.
    pub(super) fn demanded(&self, store: &FieldStore) -> Result<Vec<Selection>> {
        if self.request.is_empty() && self.from.is_none() {
            let text =
                "say which fields: a request such as class=od,date=-1,step=24, or --from FILE";
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        self.selections(store)
    }
}

fn read(path: &PathBuf) -> Result<String> {
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(path).map(|whole| text = whole),
    };
    read.map_err(|error| {
        Error::io(format_args!("reading requests from {}", path.display()), &error)
    })?;
    Ok(text)
}
