//! The store of a command, and the fields that its request selects.
use crate::args::configured;
use crate::nodes::SurvivingPool;
use crate::open;
use clap::Args;
use esker::Pool;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker_fields::request::{Request, Selection};
use esker_fields::{Date, FieldStore, NewFields, Schema};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The forms of STORE and REQUEST: the end of the help of commands that take them.
pub(super) const NAMING: &str = "\
A STORE is POOL/CONT: a container by label or UUID, in a pool by label, UUID or URL. ESKER_FIELDS is the default of \
--store.

A REQUEST is in the MARS language: class=od,date=20240610/to/20240612,step=0/to/24/by/6,param=t/u. A name that is left \
out may have any value. Several arguments form one request. --from FILE reads any number of requests (- for standard \
input).";

/// The store that a command uses.
#[derive(Args)]
pub(super) struct StoreArg {
    /// Store: a container in a pool
    #[arg(long, short, value_name = "POOL/CONT", env = "ESKER_FIELDS")]
    #[arg(default_value = configured("fields"), required = configured("fields").is_none())]
    store: String,
}

impl StoreArg {
    /// Opens the store, which must exist.
    pub(super) fn open(&self, mode: OpenMode) -> Result<FieldStore> {
        open(&self.store, mode)
    }

    /// Opens the store for reading. If some nodes of its pool have lost their data, opens the store on the other nodes.
    /// Then it also returns the pool of these nodes, which can name the lost nodes. The fields of the lost nodes are
    /// missing.
    pub(super) fn open_left(&self) -> Result<(FieldStore, Option<SurvivingPool>)> {
        let (pool, container) = open::split(&self.store)?;
        match SurvivingPool::open_if_damaged(&pool, container)? {
            None => Ok((self.open(OpenMode::ReadOnly)?, None)),
            Some(left) => {
                let store = FieldStore::open(&left.pool, container, OpenMode::ReadOnly)?;
                Ok((store, Some(left)))
            }
        }
    }

    /// Opens the store. If it does not exist, it is created with the schema in the file, or the default one.
    pub(super) fn open_or_create(
        &self,
        schema: Option<&PathBuf>,
        new: NewFields,
    ) -> Result<FieldStore> {
        open_or_create(&self.store, &read_schema(schema)?, new)
    }

    /// The name of the store, as the user wrote it.
    pub(super) fn name(&self) -> &str {
        &self.store
    }
}

/// The schema in the file, or the default one.
pub(super) fn read_schema(file: Option<&PathBuf>) -> Result<Schema> {
    let Some(path) = file else { return Schema::default_mars() };
    let text = std::fs::read_to_string(path);
    let text =
        text.map_err(|error| Error::io(format_args!("reading {}", path.display()), &error))?;
    Schema::parse(&text, &path.display().to_string())
}

fn open(store: &str, mode: OpenMode) -> Result<FieldStore> {
    let (pool, container) = open::split(store)?;
    FieldStore::open(&Pool::connect(&pool, mode)?, container, mode)
}

/// Opens a store by name. If it does not exist, it is created with this schema.
pub(super) fn open_or_create(store: &str, schema: &Schema, new: NewFields) -> Result<FieldStore> {
    let (pool, container) = open::split(store)?;
    let pool = Pool::connect(&pool, OpenMode::ReadWrite)?;
    FieldStore::open_or_create_with(&pool, container, schema, new)
}

/// The fields that a command selects.
#[derive(Args)]
pub(super) struct RequestArg {
    /// Request: name=value/value,name=value [default: all fields]
    #[arg(value_name = "REQUEST")]
    request: Vec<String>,
    /// Read requests from this file; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "request")]
    from: Option<PathBuf>,
}

impl RequestArg {
    /// The selection of each request, or of all fields if neither a request nor a file is given. A file without requests
    /// is an error.
    pub(super) fn selections(&self, store: &FieldStore) -> Result<Vec<Selection>> {
        let text = match &self.from {
            Some(path) => read(path)?,
            None => self.request.join(","),
        };
        if text.trim().is_empty() && self.from.is_none() {
            return Ok(vec![Selection::everything(store.schema())]);
        }
        let requests = Request::parse_all(&text)?;
        if let (Some(path), true) = (&self.from, requests.is_empty()) {
            return Err(no_request_error(path));
        }
        requests.iter().map(|request| request.expand(store.schema(), Date::today())).collect()
    }

    /// Like [`RequestArg::selections`], but an error if neither a request nor a file is given.
    pub(super) fn required_selections(&self, store: &FieldStore) -> Result<Vec<Selection>> {
        if self.request.is_empty() && self.from.is_none() {
            let text =
                "select fields by a request such as class=od,date=-1,step=24, or by --from FILE";
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        self.selections(store)
    }
}

#[cold]
fn no_request_error(path: &Path) -> Error {
    let from = match path.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    };
    let text = format!("no request in {from}: write one, such as class=od,step=24");
    Error::new(ErrorKind::Invalid, text)
}

/// Reads requests from a file, or from standard input for `-`.
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
