//! Links the unwinder into the library. Constants are in one segment with the code, which saves a mapping at each
//! start.
#[path = "../unwinder_build.rs"]
mod unwinder;

use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

/// Options of linkers that put constants and code into one segment.
const ONE_SEGMENT: [&str; 2] = ["-Wl,-z,noseparate-code", "-Wl,--no-rosegment"];

/// A library of this crate's kind, to try options on.
const EMPTY: &str =
    "#![no_std] #[panic_handler] fn end(_: &core::panic::PanicInfo) -> ! { loop {} }";

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    for option in ONE_SEGMENT.into_iter().filter(|option| is_known(option).unwrap_or(false)) {
        println!("cargo::rustc-cdylib-link-arg={option}");
    }
    unwinder::link()
}

/// True if the linker of this build accepts an option.
fn is_known(option: &str) -> std::io::Result<bool> {
    let folder = env::var_os("OUT_DIR").unwrap_or_default();
    let source = Path::new(&folder).join("empty.rs");
    fs::write(&source, EMPTY)?;
    let mut compiler = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    compiler.args(["--edition=2024", "--crate-type=cdylib", "-Cpanic=abort"]).arg(source);
    compiler.arg("--out-dir").arg(folder).arg(format!("-Clink-arg={option}"));
    compiler.args(env::var("TARGET").iter().flat_map(|target| ["--target", target.as_str()]));
    compiler.args(env::var("RUSTC_LINKER").iter().map(|linker| format!("-Clinker={linker}")));
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    compiler.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    Ok(compiler.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success())
}
