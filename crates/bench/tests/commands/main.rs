//! `esker bench`, in processes of its own: these tests need the command `esker` beside `esker-bench`, which
//! `cargo test -p esker-cli -p esker-bench` builds.
mod bench;
mod bench_fields;
mod bench_site;
mod bench_tensors;
mod command_line;
mod compare;
mod field_io;
mod field_io_errors;
mod mdtest_ior;
mod paper;
mod report;
#[path = "../../../cli/tests/commands/support/mod.rs"]
mod support;
