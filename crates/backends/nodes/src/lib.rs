//! The backend on targets of other nodes: each operation is a request to the engine of the node.
#![deny(unsafe_code)]

mod absent;
mod admin;
mod change;
mod commit;
mod connection;
mod container;
mod dial;
mod fetch;

mod map;
mod nodes;
mod nodes_container;
mod peer;
mod peer_container;
mod pool;
mod receiving;
mod runtime;
mod sending;
mod slots;
mod socket;
mod spread;
mod survey;
mod sweep;
mod tagged;

pub use absent::Absent;
pub use admin::{DESTROY_TIMEOUT, QUERY_TIMEOUT};
pub use commit::{DOUBT_TIMEOUT, UNDECIDED_TIMEOUT};
pub use connection::{CONNECT_TIMEOUT, Connection, Endpoint, REQUEST_TIMEOUT, REQUESTS_MAX};
pub use dial::{Dial, Fabric, Tcp};
pub use esker_wire::fabric::EndpointOptions;
pub use map::{MAP_SUFFIX, MAP_VERSION, Map, Node, Transport, parse_secret, secret_text};
pub use nodes::{Nodes, Timeouts};
pub use peer::RECONNECT_TIMEOUT;
pub use pool::Remote;
pub use slots::CHANGES_MAX;
pub use survey::Survey;
