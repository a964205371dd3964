//! The unwinder of the interception libraries, for their build scripts. Every program under `esker run` loads the first
//! library. If that needed libgcc_s, each start would take about 0.1 ms longer.
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Links the unwinder into the library. The library does not export the C functions that are linked into it, because
/// programs may have functions of the same names.
pub(super) fn link() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=../unwinder_build.rs");
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    let (Some(unwinder), Ok(out)) = (static_unwinder(), env::var("OUT_DIR")) else {
        return Ok(());
    };
    // The linker finds this script before the library of that name.
    fs::write(Path::new(&out).join("libgcc_s.so"), format!("INPUT ( {unwinder} )\n"))?;
    println!("cargo::rustc-cdylib-link-arg=-L{out}");
    Ok(())
}

/// The path of the C compiler's unwinder for static linking, if it has one.
fn static_unwinder() -> Option<String> {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let asked = Command::new(compiler).arg("-print-file-name=libgcc_eh.a").output().ok()?;
    let path = String::from_utf8(asked.stdout).ok()?.trim().to_owned();
    Path::new(&path).is_absolute().then_some(path)
}
