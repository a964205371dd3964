//! Pools over nodes: starting their engines, and sending requests to them.
mod contact;
mod hosts;
mod launch;
mod model;
mod order;
mod start_node;
mod starter;
mod tree;

pub(crate) use contact::{NodesPool, SurvivingPool, talk};
pub(crate) use hosts::{hosts_of_job, parse_list, read_file};
pub(crate) use launch::{FANOUT, Launch, Launcher, launcher_log};
pub(crate) use model::{Outcome, Steps};
pub(crate) use order::{EngineSpec, NodePoolSpec, refuse_missing_parent};
pub(crate) use starter::run as start_nodes;
