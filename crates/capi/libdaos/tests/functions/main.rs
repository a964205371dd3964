//! Calls the C functions as C does, on pools in memory.
mod acl;
mod array;
mod attribute;
mod common;
mod container;
mod event;
mod fuzz;
mod hash;
mod kv;
mod layout;
mod listing;
mod misc;
mod object;
mod pool;
mod property;
mod task;
mod tx;
