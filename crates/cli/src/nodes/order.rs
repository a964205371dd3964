//! Messages to and from a starter: lines of JSON on its standard input and output.
use esker::types::info::{Durability, Part};
use esker::types::{Error, ErrorKind, Result, Uuid};
use esker_nodes::Map;
use esker_store::PoolSpec;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of these messages.
pub(crate) const ORDER_VERSION: u32 = 2;

/// A node that is to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) number: u32,
    /// Name of the node in messages.
    pub(crate) name: String,
    /// Host name by which the launcher reaches the node.
    pub(crate) host: String,
}

/// Method by which starters are started on other nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Reach {
    /// By these words, followed by the name of the node and a command line for its shell, as `ssh` accepts them.
    Shell(Vec<String>),
    /// By these words, which begin a command of MPI.
    Mpi(Vec<String>),
    /// By processes on this machine.
    Local,
}

/// The node of an order that a starter starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Own {
    /// The first node. The starter also starts those of the other nodes, and ends once all engines are to stay.
    First,
    /// The node of its rank, since a launcher has started all starters. It runs as long as its engine, and so does the
    /// launcher.
    Ranked,
}

/// Specification of the pool that each node of a pool over nodes gets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NodePoolSpec {
    /// Label of the pool.
    pub(crate) label: String,
    /// Directory that holds the node's pool, on each node.
    pub(crate) directory: PathBuf,
    /// Make all missing directories above the node's pool.
    pub(crate) parents: bool,
    pub(crate) nodes: u32,
    pub(crate) size_bytes: u64,
    pub(crate) targets: u32,
    pub(crate) durability: Option<Durability>,
    pub(crate) guarded: bool,
    pub(crate) index_percent: Option<u32>,
    pub(crate) segment_bytes: Option<u64>,
    pub(crate) huge_pages: bool,
}

/// Refuses a directory for pools whose parent directory is missing, because the path may be mistyped. `parents` allows
/// it.
///
/// # Errors
/// [`ErrorKind::NotFound`] naming the directory that is missing.
pub(crate) fn refuse_missing_parent(directory: &Path, parents: bool) -> Result<()> {
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    match parent.filter(|parent| !parents && !parent.exists()) {
        None => Ok(()),
        Some(missing) => {
            let message = format!(
                "there is no directory {}: correct {}, or give --parents to make both",
                missing.display(),
                directory.display()
            );
            Err(Error::new(ErrorKind::NotFound, message))
        }
    }
}

impl NodePoolSpec {
    /// Label of a node's pool. Its directory has the same name.
    pub(crate) fn pool_label(&self, number: u32) -> String {
        format!("{}.{number}", self.label)
    }

    /// Directory of a node's pool.
    pub(crate) fn pool_directory(&self, number: u32) -> PathBuf {
        self.directory.join(self.pool_label(number))
    }

    /// Specification of the pool of one node.
    pub(crate) fn pool_spec(&self, number: u32) -> PoolSpec {
        PoolSpec {
            targets: Some(self.targets),
            durability: self.durability,
            guarded: self.guarded,
            index_percent: self.index_percent,
            segment_bytes: self.segment_bytes,
            huge_pages: self.huge_pages,
            part: Part { node: number, nodes: self.nodes },
            ..PoolSpec::new(&self.pool_label(number), self.size_bytes)
        }
    }
}

/// How engines are started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct EngineSpec {
    /// Network interface to listen on.
    pub(crate) interface: Option<String>,
    /// Serve only clients that speak TLS.
    #[serde(default)]
    pub(crate) tls: bool,
    /// Time after which they end, in seconds from their start.
    pub(crate) lifetime_seconds: Option<f64>,
    /// Remove the node's pool when a signal or the end of their lifetime ends them.
    #[serde(default)]
    pub(crate) remove_at_end: bool,
    pub(crate) threads: Option<u16>,
    /// Address of their metrics.
    pub(crate) metrics: Option<String>,
}

/// First message to a starter: the nodes to start, and how.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// [`ORDER_VERSION`].
    pub(crate) version: u32,
    /// The secret of the pool, as hexadecimal digits.
    pub(crate) secret: String,
    #[serde(rename = "part")]
    pub(crate) pool: NodePoolSpec,
    pub(crate) engine: EngineSpec,
    pub(crate) places: Vec<Place>,
    pub(crate) own: Own,
    pub(crate) reach: Reach,
    /// Path of this program, the same on all nodes.
    pub(crate) program: PathBuf,
    /// Number of starters that one starter starts directly.
    pub(crate) fanout: usize,
}

/// Message to a starter.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Down {
    /// Create the node's pool and start its engine. Sent once, as the first message.
    Start(Box<Order>),
    /// Write the map next to the node's pool.
    Publish(Box<Map>),
    /// Keep pools and engines. The last message.
    Keep,
    /// Stop and remove everything. The same happens if the input ends before `Keep`.
    Abandon,
}

/// Message of a starter about a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Up {
    /// The number of the node.
    pub(crate) node: u32,
    pub(crate) state: State,
}

/// State of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Its engine can be reached at `address`.
    Ready { address: String, uuid: Uuid },
    /// It has the map.
    Published,
    /// Its pool and engine are kept. This is the last report.
    Kept,
    /// Its pool and engine are removed. This is the last report.
    Removed,
    /// It could not be started or removed, for this reason. This is the last report.
    Failed { kind: ErrorKind, message: String },
}

impl State {
    /// True if this is the last report about the node.
    pub(crate) fn is_last(&self) -> bool {
        matches!(self, Self::Kept | Self::Removed | Self::Failed { .. })
    }

    pub(crate) fn from_error(error: &Error) -> Self {
        Self::Failed { kind: error.kind(), message: error.message().to_owned() }
    }
}

/// Serializes a message as one line of JSON.
pub(crate) fn to_line(message: &impl Serialize) -> String {
    // Messages have nothing that cannot be written as JSON.
    serde_json::to_string(message).unwrap_or_default() + "\n"
}

/// Parses the first line of a starter's input.
pub(crate) fn read_order(line: &str) -> Result<Order> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    #[derive(Deserialize)]
    struct First {
        start: Versioned,
    }
    let wrong = |why: String| Error::new(ErrorKind::Incompatible, why);
    let unknown =
        |error: serde_json::Error| wrong(format!("not an order to start a node: {error}"));
    let First { start: Versioned { version } } = serde_json::from_str(line).map_err(unknown)?;
    if version != ORDER_VERSION {
        return Err(wrong(format!(
            "an order of version {version}, this release takes {ORDER_VERSION}: use the same release of Esker on all nodes"
        )));
    }
    match serde_json::from_str(line).map_err(unknown)? {
        Down::Start(order) => Ok(*order),
        _ => Err(wrong("a starter was told something else before its order".to_owned())),
    }
}
