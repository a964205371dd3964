//! The backend on targets of other nodes: each operation is a request to the engine of the node.
#![deny(unsafe_code)]

mod admin;
mod connection;
mod dial;
mod map;
mod reconnecting;
mod remote;
mod runtime;
mod sharded;

pub use admin::survey::Survey;
pub use admin::{DESTROY_TIMEOUT, QUERY_TIMEOUT, SILENCE_TOLD_AFTER};
pub use connection::{
    CONNECT_TIMEOUT, Connection, ENGINE_LOST_TIMEOUT, Endpoint, REQUEST_TIMEOUT, REQUESTS_MAX,
};
pub use dial::{Dial, Fabric, Tcp};
pub use esker_wire::fabric::EndpointOptions;
pub use map::{MAP_SUFFIX, MAP_VERSION, Map, Node, Transport, parse_secret, secret_text};
pub use reconnecting::CHANGES_MAX;
pub use reconnecting::pool::RECONNECT_TIMEOUT;
pub use remote::pool::RemotePool;
pub use sharded::absent::AbsentPool;
pub use sharded::commit::{DOUBT_TIMEOUT, UNDECIDED_TIMEOUT};
pub use sharded::pool::{ShardedPool, Timeouts};
