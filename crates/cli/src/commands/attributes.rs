//! `list-attr`, `get-attr`, `set-attr` and `del-attr`: the user attributes of pools and containers.
use crate::args::{ContainerArg, PoolArg};
use crate::output::Answer;
use crate::shapes;
use clap::{Args, Subcommand};
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker::{Attributes, Wait};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Arguments that name a holder of attributes: a pool or a container.
pub(crate) trait Scope: Args {
    /// Opens it and returns its attributes.
    fn attributes(&self, mode: OpenMode) -> Result<Attributes>;

    /// The command that lists the attributes, for remedies.
    fn list_command(&self) -> String;
}

impl Scope for PoolArg {
    fn attributes(&self, mode: OpenMode) -> Result<Attributes> {
        Ok(self.open(mode)?.attributes())
    }

    fn list_command(&self) -> String {
        format!("esker pool list-attr {}", self.pool)
    }
}

impl Scope for ContainerArg {
    fn attributes(&self, mode: OpenMode) -> Result<Attributes> {
        Ok(self.open(mode)?.attributes())
    }

    fn list_command(&self) -> String {
        format!("esker cont list-attr {} {}", self.pool.pool, self.container)
    }
}

#[derive(Subcommand)]
pub(crate) enum AttributeCommand<S: Scope> {
    /// List the names of user attributes
    #[command(name = "list-attr", visible_alias = "list-attrs")]
    List(Named<S>),
    /// Show user attributes: the named ones, or all
    #[command(name = "get-attr", visible_alias = "get-attrs")]
    Get(Names<S>),
    /// Set user attributes: all of them, or none if one fails
    #[command(name = "set-attr")]
    Set(Pairs<S>),
    /// Remove user attributes: all of them, or none if one is missing
    #[command(name = "del-attr")]
    Remove(NamesToRemove<S>),
}

#[derive(Args)]
pub(crate) struct Named<S: Scope> {
    #[command(flatten)]
    scope: S,
}

#[derive(Args)]
pub(crate) struct Names<S: Scope> {
    #[command(flatten)]
    scope: S,
    /// Names of attributes [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Pairs<S: Scope> {
    #[command(flatten)]
    scope: S,
    /// Attributes to set, each with its value
    #[arg(value_name = "NAME:VALUE", required = true)]
    pairs: Vec<String>,
}

#[derive(Args)]
pub(crate) struct NamesToRemove<S: Scope> {
    #[command(flatten)]
    scope: S,
    /// Names of attributes
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

impl<S: Scope> AttributeCommand<S> {
    pub(crate) fn run(self) -> Result<Answer> {
        match self {
            Self::List(named) => {
                let names = named.scope.attributes(OpenMode::ReadOnly)?.list().wait()?;
                Ok(Answer::new(json!(names), names.join("\n")))
            }
            Self::Get(names) => get(&names.scope, names.names),
            Self::Set(pairs) => {
                let attributes = pairs.scope.attributes(OpenMode::ReadWrite)?;
                let pairs =
                    pairs.pairs.iter().map(|pair| split(pair)).collect::<Result<Vec<_>>>()?;
                refuse_repeated(&pairs)?;
                change(&attributes, &pairs)
            }
            Self::Remove(names) => {
                let attributes = names.scope.attributes(OpenMode::ReadWrite)?;
                let is_there = |name: &String| value_of(&names.scope, &attributes, name).map(drop);
                names.names.iter().try_for_each(is_there)?;
                let pairs: Vec<_> = names.names.iter().map(|name| (name.as_str(), None)).collect();
                change(&attributes, &pairs)
            }
        }
    }
}

/// Changes attributes: names with new values, or `None` to remove one. The answer has the names.
fn change(attributes: &Attributes, changes: &[(&str, Option<&[u8]>)]) -> Result<Answer> {
    attributes.change(changes).wait()?;
    let names: Vec<_> = changes.iter().map(|(name, _)| name).collect();
    Ok(Answer::new(json!(names), ""))
}

/// Refuses two values for one attribute.
fn refuse_repeated(changes: &[(&str, Option<&[u8]>)]) -> Result<()> {
    let mut seen = HashSet::new();
    match changes.iter().find(|(name, _)| !seen.insert(name)) {
        None => Ok(()),
        Some((name, _)) => {
            let message = format!("attribute {name:?} is given twice: give it once");
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

/// Splits `NAME:VALUE`.
fn split(pair: &str) -> Result<(&str, Option<&[u8]>)> {
    let parts = pair.split_once(':').map(|(name, value)| (name, Some(value.as_bytes())));
    parts.ok_or_else(|| {
        Error::new(ErrorKind::Invalid, format!("{pair:?} has no value: write NAME:VALUE"))
    })
}

/// Shows the named attributes, or all of them.
fn get(scope: &impl Scope, names: Vec<String>) -> Result<Answer> {
    let attributes = scope.attributes(OpenMode::ReadOnly)?;
    let names = if names.is_empty() { attributes.list().wait()? } else { names };
    let (mut response, mut lines) = (Map::new(), Vec::new());
    for name in names {
        let value = value_of(scope, &attributes, &name)?;
        lines.push(format!("{name}:{}", shapes::readable(&value)));
        response.insert(name, shapes::bytes(&value));
    }
    Ok(Answer::new(Value::Object(response), lines.join("\n")))
}

/// Value of an attribute. An error if there is none.
fn value_of(scope: &impl Scope, attributes: &Attributes, name: &str) -> Result<Vec<u8>> {
    attributes.get(name).wait()?.ok_or_else(|| {
        let list = scope.list_command();
        let message = format!("there is no attribute {name:?}: `{list}` shows all of them");
        Error::new(ErrorKind::NotFound, message)
    })
}
