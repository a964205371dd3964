//! The pool over nodes: its targets, and with them the objects of a container, are distributed over the pools of all
//! nodes. [`pool`] and [`container`] send each operation to the nodes that it concerns.
pub(crate) mod absent;
pub(crate) mod commit;
pub(crate) mod container;
pub(crate) mod pool;
mod replay;
mod spread;
mod sweep;
mod tagged;
