//! `esker pool list`, `query` and `destroy` of pools over nodes.
use super::pool_destroy::Guard;
use crate::nodes::{NodesPool, launcher_log, talk};
use crate::output::{Answer, Table};
use crate::shapes;
use crate::units::Bytes;
use esker::types::info::{PoolInfo, Space};
use esker::types::{Error, ErrorKind, Result};
use esker_nodes::{Map, Node, Transport};
use serde_json::{Value, json};

/// A pool over nodes, with the answers of its nodes.
pub(super) struct Asked {
    pub(super) pool: NodesPool,
    answers: Vec<Result<PoolInfo>>,
}

/// How clients reach the nodes of a pool.
fn network(map: &Map) -> &'static str {
    match (map.transport, map.tls) {
        (Transport::Tcp, true) => "TCP, encrypted by TLS 1.3",
        (Transport::Tcp, false) => "TCP, not encrypted",
        (Transport::Fabric, _) => "libfabric, not encrypted",
    }
}

/// The remedy for a node that cannot be reached.
pub(super) fn start_remedy(pool: &NodesPool, number: usize) -> String {
    format!(
        "remedy: `esker engine run --map {} --node {number}` on the node starts its engine again",
        pool.path.display()
    )
}

impl Asked {
    /// Asks all nodes of a pool about their state and space, and keeps the answers and errors.
    pub(super) fn ask(pool: NodesPool) -> Result<Self> {
        let answers = talk(pool.map.query())?;
        Ok(Self { pool, answers })
    }

    /// Asks the nodes of several pools, all at a time.
    pub(super) fn ask_all(pools: Vec<NodesPool>) -> Result<Vec<Self>> {
        let answers = talk(async {
            let maps: Vec<_> = pools.iter().map(|pool| pool.map.clone()).collect();
            let asked = maps.into_iter().map(|map| tokio::spawn(async move { map.query().await }));
            let asked: Vec<_> = asked.collect();
            let mut answers = Vec::new();
            for map in asked {
                answers.push(map.await.unwrap_or_default());
            }
            answers
        })?;
        Ok(pools.into_iter().zip(answers).map(|(pool, answers)| Self { pool, answers }).collect())
    }

    /// Number, entry in the map and answer of each node.
    fn nodes(&self) -> impl Iterator<Item = (usize, &Node, &Result<PoolInfo>)> {
        let nodes = self.pool.map.nodes.iter().zip(&self.answers).enumerate();
        nodes.map(|(number, (node, answer))| (number, node, answer))
    }

    fn infos(&self) -> impl Iterator<Item = &PoolInfo> {
        self.answers.iter().filter_map(|answer| answer.as_ref().ok())
    }

    /// Space of all targets of the nodes that answered.
    fn spaces(&self) -> Vec<Space> {
        self.infos().flat_map(|info| info.targets.iter().copied()).collect()
    }

    /// The pool in JSON. Nodes that do not answer do not count for its space.
    pub(super) fn response(&self) -> Value {
        let (map, first) = (&self.pool.map, self.infos().next());
        let space = shapes::sum(&self.spaces());
        json!({
            "uuid": map.uuid.to_string(),
            "label": map.label,
            "url": self.pool.url(),
            "medium": first.map(|info| shapes::medium(info.medium)),
            "durability": first.map(|info| shapes::durability(info.durability)),
            "size_bytes": space.data_total + space.index_total,
            "targets": map.targets as usize * map.nodes.len(),
            "transport": map.transport,
            "tls": map.tls,
            "space": shapes::space(&space),
            "nodes": self.nodes().map(node_response).collect::<Vec<_>>(),
        })
    }

    /// The rows of `esker pool list`: label, size, targets, medium and location.
    pub(super) fn rows(&self) -> Vec<([String; 4], String)> {
        let map = &self.pool.map;
        let space = shapes::sum(&self.spaces());
        let medium = self.infos().next().map_or("-", |info| shapes::medium(info.medium));
        let size = Bytes(space.data_total + space.index_total).to_string();
        let targets = map.targets as usize * map.nodes.len();
        let total = [map.label.clone(), size, targets.to_string(), medium.to_owned()];
        let mut rows = vec![(total, self.pool.url())];
        rows.extend(self.nodes().map(|(number, node, answer)| row(map, number, node, answer)));
        rows
    }

    /// An error if nodes do not answer: why the first does not, how many others, and the remedy.
    pub(super) fn trouble(&self) -> Option<Error> {
        let mut failed =
            self.nodes().filter_map(|(number, _, answer)| Some((number, answer.as_ref().err()?)));
        let (number, first) = failed.next()?;
        let others = match failed.count() {
            0 => String::new(),
            others => format!(", and {others} more do not answer"),
        };
        let message = format!("{}{others}; {}", first.message(), start_remedy(&self.pool, number));
        Some(Error::new(first.kind(), message))
    }

    /// Text of the answer.
    fn describe(&self) -> String {
        let (map, space) = (&self.pool.map, shapes::sum(&self.spaces()));
        let up = self.infos().count();
        format!(
            "pool        {}\nuuid        {}\nurl         {}\nnodes       {up} of {} answer\n\
             network     {}\ndata        {}\nindex       {}\n",
            map.label,
            map.uuid,
            self.pool.url(),
            map.nodes.len(),
            network(map),
            shapes::free(space.data_free, space.data_total),
            shapes::free(space.index_free, space.index_total),
        )
    }

    /// Table of the nodes.
    fn table(&self) -> String {
        let headings =
            [">node", "name", "state", ">targets", ">data free", ">of", "address", "problem"];
        let mut table = Table::new(&headings);
        for (number, node, answer) in self.nodes() {
            let (state, [targets, free, total], problem) = cells(answer);
            let (name, address) = (node.name.clone(), node.address.clone());
            let state = state.to_owned();
            table.row([number.to_string(), name, state, targets, free, total, address, problem]);
        }
        table.text()
    }

    /// The answer of `esker pool query`.
    pub(super) fn answer(&self) -> Result<Answer> {
        // The first node has the list. If it does not answer, the error below says so.
        let containers = talk(self.pool.map.containers())?.ok().map(|all| all.len());
        let mut response = self.response();
        response["containers"] = json!(containers);
        let known = containers.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let text = format!("{}containers  {known}\n\n{}", self.describe(), self.table());
        Ok(Answer::new(response, text).with_trouble(self.trouble()))
    }
}

/// State, targets, free and total space of a node, and its problem.
fn cells(answer: &Result<PoolInfo>) -> (&'static str, [String; 3], String) {
    match answer {
        Ok(info) => {
            let space = shapes::sum(&info.targets);
            let sizes = [space.data_free, space.data_total].map(|size| Bytes(size).to_string());
            let [free, total] = sizes;
            ("up", [info.targets.len().to_string(), free, total], String::new())
        }
        Err(error) => ("down", ["-", "-", "-"].map(str::to_owned), error.message().to_owned()),
    }
}

/// Row of a node in the list of pools.
fn row(map: &Map, number: usize, node: &Node, answer: &Result<PoolInfo>) -> ([String; 4], String) {
    let label = format!("{}.{number}", map.label);
    match answer {
        Ok(info) => {
            let space = shapes::sum(&info.targets);
            let size = Bytes(space.data_total + space.index_total).to_string();
            let (targets, medium) = (info.targets.len().to_string(), shapes::medium(info.medium));
            ([label, size, targets, medium.to_owned()], format!("{}, up", node.address))
        }
        Err(error) => {
            let cells = [label, "-".to_owned(), "-".to_owned(), "-".to_owned()];
            (cells, format!("{}, down: {}", node.address, error.message()))
        }
    }
}

/// State of a node as JSON.
fn node_response((number, node, answer): (usize, &Node, &Result<PoolInfo>)) -> Value {
    let mut response = shapes::node((number, node));
    let info = answer.as_ref().ok();
    response["state"] = json!(if info.is_some() { "up" } else { "down" });
    response["problem"] = json!(answer.as_ref().err().map(Error::message));
    response["targets"] = json!(info.map(|info| info.targets.len()));
    response["space"] = json!(info.map(|info| shapes::space(&shapes::sum(&info.targets))));
    response
}

/// Destroys a pool over nodes. Without `force`, all of its nodes must answer, no client may use it, and `guard`
/// decides about its containers.
pub(super) fn destroy(pool: NodesPool, force: bool, guard: &Guard<'_>) -> Result<Answer> {
    let asked = Asked::ask(pool)?;
    if let Some(trouble) = asked.trouble().filter(|_| !force) {
        let message = format!(
            "{}; or destroy the rest of the pool with --force, which does not remove the pools of such nodes",
            trouble.message()
        );
        return Err(Error::new(trouble.kind(), message));
    }
    let pool = asked.pool;
    if !force {
        refuse_used(&pool, "end them, or use --force")?;
        guard.check(|| talk(pool.map.containers())?)?;
    }
    let destroyed = talk(pool.map.shut_down(true))?;
    remove_map(&pool)?;
    let nodes = pool.map.nodes.iter().zip(&destroyed).enumerate();
    let nodes = nodes.map(|(number, (node, destroyed))| {
        let mut response = shapes::node((number, node));
        response["problem"] = json!(destroyed.as_ref().err().map(Error::message));
        response
    });
    let response = json!({"url": pool.url(), "nodes": nodes.collect::<Vec<_>>()});
    let text = format!("destroyed pool {}", pool.url());
    Ok(Answer::confirmation(response, text).with_trouble(undestroyed_error(&pool, &destroyed)))
}

/// Refuses a pool that is in use: the first node counts the clients that have a container open. `remedy` ends the
/// error.
pub(super) fn refuse_used(pool: &NodesPool, remedy: &str) -> Result<()> {
    let containers = talk(pool.map.containers())??;
    match containers.iter().find(|container| container.handles > 0) {
        None => Ok(()),
        Some(used) => {
            let message = format!(
                "pool {} is in use: programs have container {} open; {remedy}",
                pool.map.label,
                shapes::name(used)
            );
            Err(Error::new(ErrorKind::Busy, message))
        }
    }
}

/// Removes the map of a destroyed pool. If a node is on this machine, its engine may have removed it already.
fn remove_map(pool: &NodesPool) -> Result<()> {
    // There is one only if a launcher started the engines from here.
    let _ = std::fs::remove_file(launcher_log(&pool.path));
    match std::fs::remove_file(&pool.path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format_args!("removing {}", pool.path.display()), &error))
        }
        _ => Ok(()),
    }
}

/// An error that names the pools of nodes that may remain, and why.
fn undestroyed_error(pool: &NodesPool, destroyed: &[Result<()>]) -> Option<Error> {
    let nodes = pool.map.nodes.iter().zip(destroyed);
    let left: Vec<String> = nodes
        .filter_map(|(node, destroyed)| Some((node, destroyed.as_ref().err()?)))
        .map(|(node, why)| {
            format!("{} on {} ({})", node.directory.display(), node.name, why.message())
        })
        .collect();
    if left.is_empty() {
        return None;
    }
    let message = format!(
        "these pools of nodes may be left: {}; remove them there with `esker pool destroy esker:DIR --force`",
        left.join(", ")
    );
    Some(Error::new(ErrorKind::Io, message))
}
