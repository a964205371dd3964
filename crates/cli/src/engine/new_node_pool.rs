//! Creation of a new, empty pool for a node whose pool is lost.
use crate::nodes::talk;
use crate::shapes;
use crate::units::Bytes;
use esker::types::info::{Part, PoolInfo};
use esker::types::{Error, ErrorKind, Result};
use esker_nodes::{Map, Node};
use esker_store::{Pool, PoolSpec};

/// Creates the pool of a node again, without content, in the directory that the map names. The new pool has the UUID of
/// the old one, so that all copies of the map stay valid.
///
/// # Errors
/// `NotSupported` for the first node, which has the list of containers; `Busy` if the node answers; `Exists` if its
/// pool still exists; errors of requests to the other nodes, and of creating a pool.
pub(crate) fn create_node_pool(map: &Map, node: &Node, size: Option<Bytes>) -> Result<()> {
    let number = map.nodes.iter().position(|other| other == node).unwrap_or_default();
    if number == 0 {
        return Err(first_node_error(map));
    }
    let answers = talk(map.query())?;
    if matches!(answers.get(number), Some(Ok(_))) {
        let message = format!("the engine of node {} serves its pool: it is not gone", node.name);
        return Err(Error::new(ErrorKind::Busy, message));
    }
    let like = answers.into_iter().find_map(Result::ok);
    let size = size.map(|size| size.0).or(like.as_ref().map(reserved_bytes));
    let size = size.ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            "no other node answers: give the size of the new pool with --size",
        )
    })?;
    let (Some(directory), Some(label)) = (node.directory.parent(), node.directory.file_name())
    else {
        let message = format!("{} is not the directory of a node's pool", node.directory.display());
        return Err(Error::new(ErrorKind::Invalid, message));
    };
    let spec = PoolSpec {
        targets: Some(map.targets),
        durability: like.map(|like| like.durability),
        part: Part { node: number as u32, nodes: map.nodes.len() as u32 },
        uuid: Some(node.uuid),
        ..PoolSpec::new(&label.to_string_lossy(), size)
    };
    Pool::create(directory, &spec, &mut |_, _| ()).map(drop)
}

/// Bytes of data and index that a node's pool reserves.
fn reserved_bytes(info: &PoolInfo) -> u64 {
    let space = shapes::sum(&info.targets);
    space.data_total + space.index_total
}

#[cold]
fn first_node_error(map: &Map) -> Error {
    let message = format!(
        "the first node has the list of containers, without which nothing in the pool can be found: `esker pool destroy \
         {} --force`, then create the pool again",
        map.label
    );
    Error::new(ErrorKind::NotSupported, message)
}
