//! The interception library: unmodified programs on an Esker file system.
//!
//! Loaded into a program (`LD_PRELOAD`, which `esker run` sets), it stands in front of the functions of
//! the C library that work on files. Calls on the mount point are answered by the store in this
//! process; all others go on to the C library. `edge` has the form of every exported function,
//! `serve` the fork in the road, `descriptors` and `open_file` what is open, `paths` what is meant. The
//! other rooms hold the functions, by nouns. What is served and what is not stands in
//! docs/semantics.md, the reasons in docs/decisions/0017-interception.md.
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
