//! The interception library: unmodified programs on an Esker file system.
//!
//! It is loaded into a program (`LD_PRELOAD`, which `esker run` sets) and intercepts the functions of the C library that
//! work on files. The store answers calls on the mount point in the same process; all others pass on to the C library.
//! `edge` defines the form of exported functions, `serve` decides who answers a call, `descriptors` and `open_file` track
//! open files, and `paths` resolves paths. The other modules implement the functions, by nouns. docs/semantics.md lists
//! what is served, and docs/decisions/0017-interception.md gives the reasons.
#![allow(unsafe_code)]
mod answer;
mod attributes;
mod close;
mod config;
mod control;
mod cwd;
mod descriptors;
mod dirs;
mod edge;
mod exec;
mod fork;
mod identity;
mod internal;
mod io;
mod limits;
mod listed;
mod loader;
mod locks;
mod maps;
mod mounted;
mod names;
mod next;
mod older;
mod open;
mod open_file;
mod paths;
mod process;
mod raw;
mod refused;
mod report;
mod serve;
mod space;
mod spawn;
mod special;
mod stat;
mod stdio;
mod syscalls;
mod temps;
mod thread;
mod transfer;
mod umask;
mod unreached;
mod view;
mod walk;
mod xattrs;
