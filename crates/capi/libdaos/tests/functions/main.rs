//! Calls the C functions as C does, on pools in memory.
#![allow(unsafe_code)]
mod acl;
mod array;
mod attribute;
mod common;
mod container;
mod dfs;
mod event;
mod fuzz;
mod handles;
mod hash;
mod kv;
mod layout;
mod listing;
mod misc;
mod object;
mod pipeline;
mod pool;
mod property;
mod rights;
mod stores;
mod task;
mod tx;
