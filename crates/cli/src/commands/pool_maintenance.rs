//! `esker pool check`, `scrub` and `compact` of pools over nodes: each engine works on the pool of its node. The
//! containers of the nodes are compared with the pool's list of containers.
use super::pool_over_nodes::{refuse_used, start_remedy};
use crate::nodes::{NodesPool, talk};
use crate::output::{Answer, Bar, Table, say};
use crate::shapes::{self, count};
use crate::units::Bytes;
use esker::types::info::ContainerInfo;
use esker::types::{Error, ErrorKind, ObjectId, Result};
use esker_nodes::{Node, SILENCE_TOLD_AFTER, Survey};
use esker_wire::message::{Check, Maintained, Maintenance};
use serde_json::{Value, json};

/// Objects of a container that JSON names; any more are only counted.
const NAMED_MAX: usize = 1000;

/// Result of the check of a node's pool.
struct Found {
    checked: Result<Check>,
    repaired: Vec<String>,
}

/// Data that a container has lost, or cannot read because nodes do not answer.
struct Lost<'s> {
    container: &'s ContainerInfo,
    nodes: Vec<usize>,
    /// True if one of the nodes does not answer, and may still have its pool.
    is_down: bool,
    /// Objects with targets there that other nodes also store.
    objects: Result<Vec<ObjectId>>,
}

impl Found {
    /// Takes the reply of an engine to a request for a repair. Any other kind of reply is an error of that node.
    fn from_repair(maintained: Result<Maintained>) -> Self {
        match maintained {
            Ok(Maintained::Repaired(check, repaired)) => Self { checked: Ok(check), repaired },
            Ok(_) => Self { checked: Err(unexpected()), repaired: Vec::new() },
            Err(error) => Self { checked: Err(error), repaired: Vec::new() },
        }
    }

    /// True if the repair has removed something, or may have: its result is not known.
    fn may_have_removed(&self) -> bool {
        self.checked.is_err() || !self.repaired.is_empty()
    }

    /// Adds a problem that was found on a node.
    fn note(&mut self, problem: String, repaired: bool) {
        match &mut self.checked {
            _ if repaired => self.repaired.push(problem),
            Ok(check) => check.problems.push(problem),
            Err(_) => {}
        }
    }
}

#[cold]
fn unexpected() -> Error {
    Error::new(ErrorKind::Corrupt, "the answer of the engine does not match the request")
}

/// Checks the pools of all nodes, each by its engine.
pub(super) fn check(pool: &NodesPool, repair: bool) -> Result<Answer> {
    let bar = Bar::spinner();
    bar.say("the nodes check their pools");
    let mut found = match repair {
        true => {
            refuse_used(pool, "end them first")?;
            let done = talk(pool.map.maintain(Maintenance::Repair, warn_of_silence))?;
            done.into_iter().map(Found::from_repair).collect()
        }
        false => {
            let checked = talk(pool.map.check())?.into_iter();
            checked.map(|checked| Found { checked, repaired: Vec::new() }).collect::<Vec<_>>()
        }
    };
    // If the first node does not answer, its row of the table says so.
    let survey = pool.survey().ok();
    let lost = survey.as_ref().map(|survey| losses(pool, survey)).transpose()?.unwrap_or_default();
    if let Some(survey) = &survey {
        if repair && (!lost.is_empty() || found.iter().any(Found::may_have_removed)) {
            let stripe_marks = format!("prop:{}", esker::STRIPE_MARKS);
            // The marks of some files may be lost: from now on, the size of a file is a request to all nodes.
            talk(pool.map.remove_metadata(&survey.catalog, &stripe_marks))??;
        }
        compare(pool, survey, repair, &mut found)?;
    }
    drop(bar);
    Ok(answer(pool, &found, &lost))
}

/// The losses of each container by failed nodes: the objects of which a part was on such a node.
fn losses<'s>(pool: &NodesPool, survey: &'s Survey) -> Result<Vec<Lost<'s>>> {
    let mut lost = Vec::new();
    for container in &survey.catalog {
        let nodes = survey.nodes_without(container.uuid);
        if nodes.is_empty() {
            continue;
        }
        let objects = talk(pool.map.objects_on(container.uuid, &nodes))?;
        let objects = objects.map(|objects| {
            let mut objects: Vec<_> = objects.into_iter().collect();
            objects.sort_unstable();
            objects
        });
        let is_down = nodes.iter().any(|node| matches!(survey.parts.get(*node), Some(Err(_))));
        lost.push(Lost { container, nodes, is_down, objects });
    }
    Ok(lost)
}

/// Compares the containers of each node with the pool's list. With `repair`, creates missing containers, empty, and
/// removes those that are not in the list.
fn compare(pool: &NodesPool, survey: &Survey, repair: bool, found: &mut [Found]) -> Result<()> {
    for (node, found) in found.iter_mut().enumerate() {
        if !matches!(survey.parts.get(node), Some(Ok(_))) {
            continue;
        }
        let (missing, forgotten) =
            (survey.missing_containers(node), survey.orphaned_containers(node));
        if repair {
            talk(pool.map.create_missing(node, &missing))??;
            talk(pool.map.remove(node, &forgotten))??;
        }
        for container in missing {
            let what = "is missing: the node has lost the data that it stored of this container";
            found.note(format!("container {} {what}", shapes::name(container)), repair);
        }
        for uuid in forgotten {
            let what = "takes space, but is not in the pool's list: it was destroyed while the node did not answer, \
                        or its client was killed";
            found.note(format!("container {uuid} {what}"), repair);
        }
    }
    Ok(())
}

/// The answer, with a row for each node.
fn answer(pool: &NodesPool, found: &[Found], lost: &[Lost<'_>]) -> Answer {
    let nodes = || pool.map.nodes.iter().zip(found).enumerate();
    let mut table = Table::new(&[">node", "name", ">records", ">data", ">problems", "problem"]);
    let mut lines = Vec::new();
    for (number, (node, found)) in nodes() {
        let (numbers, problem) = cells(&found.checked);
        let cells = [number.to_string(), node.name.clone()].into_iter().chain(numbers);
        table.row(cells.chain([problem]));
        lines
            .extend(found.repaired.iter().map(|done| format!("repaired on {}: {done}", node.name)));
    }
    lines.extend(lost.iter().map(|lost| lost.line(pool)));
    let parts = nodes().map(|(number, (node, found))| found.response(number, node));
    let lost: Vec<_> = lost.iter().map(|lost| lost.response(pool)).collect();
    let response = json!({"nodes": parts.collect::<Vec<_>>(), "lost": lost});
    let trouble = nodes().find_map(|(number, (node, found))| found.trouble((number, node), pool));
    let text = format!(
        "{}{}",
        table.text(),
        lines.iter().map(|line| format!("\n{line}")).collect::<String>()
    );
    Answer::new(response, text).with_trouble(trouble)
}

/// Records, data and number of problems of a node's pool, and the first problem.
fn cells(found: &Result<Check>) -> ([String; 3], String) {
    match found {
        Ok(found) => {
            let (data, problems) = (Bytes(found.live_bytes).to_string(), found.problems.len());
            let first = found.problems.first().cloned().unwrap_or_default();
            ([found.records.to_string(), data, problems.to_string()], first)
        }
        Err(error) => (["-", "-", "-"].map(str::to_owned), error.message().to_owned()),
    }
}

impl Found {
    /// Returns the result of the check on one node, as JSON. The fields of the check are null if it failed.
    fn response(&self, number: usize, node: &Node) -> Value {
        let mut response = shapes::node((number, node));
        let done = self.checked.as_ref().ok();
        response["problem"] = json!(self.checked.as_ref().err().map(Error::message));
        response["problems"] = json!(done.map(|found| &found.problems));
        response["repaired"] = json!(self.repaired);
        response["records"] = json!(done.map(|found| found.records));
        response["live_bytes"] = json!(done.map(|found| found.live_bytes));
        response["lost_bytes"] = json!(done.map(|found| found.lost_bytes));
        response["lost"] = json!(done.map(|found| &found.lost));
        response
    }

    /// Error of the command because of a node: it cannot be reached, or has problems.
    fn trouble(&self, (number, node): (usize, &Node), pool: &NodesPool) -> Option<Error> {
        match &self.checked {
            Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::TimedOut) => {
                let message = format!("{}; {}", error.message(), start_remedy(pool, number));
                Some(Error::new(error.kind(), message))
            }
            Err(error) => Some(error.clone()),
            Ok(found) => found.problems.first().map(|problem| {
                let label = &pool.map.label;
                let message = format!(
                    "node {}: {problem}; remedy: `esker pool check {label} --repair` while no program uses the pool",
                    node.name
                );
                Error::new(ErrorKind::Corrupt, message)
            }),
        }
    }
}

impl Lost<'_> {
    fn names<'p>(&self, pool: &'p NodesPool) -> Vec<&'p str> {
        let nodes = self.nodes.iter().filter_map(|node| pool.map.nodes.get(*node));
        nodes.map(|node| node.name.as_str()).collect()
    }

    /// Line about the lost data of a container.
    fn line(&self, pool: &NodesPool) -> String {
        let (container, nodes) = (shapes::name(self.container), self.names(pool).join(", "));
        let lost = if self.is_down { "cannot read its data" } else { "has lost its data" };
        let what = match &self.objects {
            Ok(objects) => format!(
                "data of {} that other nodes know of, and all objects that are on no other node",
                count(objects.len(), "object")
            ),
            Err(error) => format!("its objects cannot be listed: {}", error.message()),
        };
        format!("container {container} {lost} on {nodes}: {what}")
    }

    /// Lost data of a container, as JSON.
    fn response(&self, pool: &NodesPool) -> Value {
        let mut response = shapes::container(self.container);
        let objects = self.objects.as_ref().ok();
        let named = |objects: &Vec<ObjectId>| {
            objects.iter().take(NAMED_MAX).map(ToString::to_string).collect::<Vec<_>>()
        };
        response["nodes"] = json!(self.names(pool));
        response["problem"] = json!(self.objects.as_ref().err().map(Error::message));
        response["objects"] = json!(objects.map(Vec::len));
        response["oids"] = json!(objects.map(named));
        response
    }
}

/// Reads all data: each node reads its own pool.
pub(super) fn scrub(pool: &NodesPool) -> Result<Answer> {
    let scrubbed = maintain(pool, Maintenance::Scrub, "the nodes read their data")?;
    let mut table = Table::new(&[">node", "name", ">records", ">data", ">damaged", "damage"]);
    let (mut response, mut trouble) = (Vec::new(), None);
    for (number, (node, done)) in pool.map.nodes.iter().zip(&scrubbed).enumerate() {
        let mut shape = shapes::node((number, node));
        let (cells, first) = match done {
            Ok(Maintained::Scrubbed(records, bytes, damaged)) => {
                (shape["records"], shape["bytes"]) = (json!(records), json!(bytes));
                shape["damaged"] = json!(damaged);
                let first = damaged.first().cloned();
                let why = first.as_ref().map(|first| {
                    let remedy = "write the object again, or remove it";
                    Error::new(
                        ErrorKind::Checksum,
                        format!("node {}: {first}; remedy: {remedy}", node.name),
                    )
                });
                trouble = trouble.or(why);
                let cells =
                    [records.to_string(), Bytes(*bytes).to_string(), damaged.len().to_string()];
                (cells, first.unwrap_or_default())
            }
            other => absent(&mut shape, &mut trouble, other),
        };
        table.row([number.to_string(), node.name.clone()].into_iter().chain(cells).chain([first]));
        response.push(shape);
    }
    Ok(Answer::new(json!({"nodes": response}), table.text()).with_trouble(trouble))
}

/// Compacts all data: each node compacts its own pool.
pub(super) fn compact(pool: &NodesPool) -> Result<Answer> {
    let compacted = maintain(pool, Maintenance::Compact, "the nodes compact their data")?;
    let mut table = Table::new(&[">node", "name", ">freed", "problem"]);
    let (mut response, mut trouble) = (Vec::new(), None);
    for (number, (node, done)) in pool.map.nodes.iter().zip(&compacted).enumerate() {
        let mut shape = shapes::node((number, node));
        let (freed, problem) = match done {
            Ok(Maintained::Compacted(freed)) => {
                shape["freed_bytes"] = json!(freed);
                (Bytes(*freed).to_string(), String::new())
            }
            other => {
                let ([freed, ..], problem) = absent(&mut shape, &mut trouble, other);
                (freed, problem)
            }
        };
        table.row([number.to_string(), node.name.clone(), freed, problem]);
        response.push(shape);
    }
    Ok(Answer::new(json!({"nodes": response}), table.text()).with_trouble(trouble))
}

/// Runs maintenance on all nodes at once, and shows the text `doing` meanwhile. Returns the reply of each node.
fn maintain(pool: &NodesPool, what: Maintenance, doing: &str) -> Result<Vec<Result<Maintained>>> {
    let bar = Bar::spinner();
    bar.say(doing);
    talk(pool.map.maintain(what, warn_of_silence))
}

/// Tells the user that a node does not answer. It is waited for, because its repair may take long.
fn warn_of_silence(node: &str) {
    let minutes = SILENCE_TOLD_AFTER.as_secs() / 60;
    say(format_args!(
        "warning: node {node} has not answered for {minutes} minutes: it still repairs its pool, or is away; if it is \
         away, end this command"
    ));
}

/// The cells in the row of a node that has failed. Sets its problem in the JSON document, and keeps the error for the
/// status of the command, unless there is an earlier one.
fn absent(
    shape: &mut Value,
    trouble: &mut Option<Error>,
    done: &Result<Maintained>,
) -> ([String; 3], String) {
    let error = done.as_ref().err().cloned().unwrap_or_else(unexpected);
    let message = error.message().to_owned();
    shape["problem"] = json!(message);
    *trouble = trouble.take().or(Some(error));
    (["-", "-", "-"].map(str::to_owned), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise files whose stripe marks are lost would be shown too short.
    #[test]
    fn repair_without_a_known_result_may_have_removed_something() {
        let check = || Check {
            problems: Vec::new(),
            records: 0,
            live_bytes: 0,
            lost_bytes: 0,
            lost: Vec::new(),
        };
        let repaired = |done: &[&str]| {
            let done = done.iter().map(|&done| done.to_owned()).collect();
            Found::from_repair(Ok(Maintained::Repaired(check(), done))).may_have_removed()
        };
        assert!(!repaired(&[]) && repaired(&["a record"]));
        assert!(Found::from_repair(Err(ErrorKind::TimedOut.into())).may_have_removed());
    }
}
