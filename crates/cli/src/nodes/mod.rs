//! Pools over nodes: starting their engines, and sending requests to them.
mod contact;
mod hosts;
mod launch;
mod order;
mod start_node;
mod starter;
mod timing;
mod tree;

pub(crate) use contact::{NodesPool, SurvivingPool, talk};
pub(crate) use hosts::{hosts_of_job, parse_list, read_file};
pub use launch::FANOUT;
pub(crate) use launch::{Launch, Launcher, launcher_log};
pub(crate) use order::{EngineSpec, NodePoolSpec, refuse_missing_parent};
pub(crate) use starter::run as start_nodes;
pub use timing::time_start;
pub use tree::bounds;
