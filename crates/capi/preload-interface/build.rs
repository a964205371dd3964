//! Computes a hash of the compiler and of the sources that define the shared types. Two libraries understand each
//! other's values only if both are the same.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Directories of these sources.
const SOURCES: [&str; 3] = ["src", "../../dfs/src", "../../types/src"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let compiler = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let mut hash = fnv(0xcbf2_9ce4_8422_2325, &Command::new(compiler).arg("-vV").output()?.stdout);
    for folder in SOURCES {
        println!("cargo::rerun-if-changed={folder}");
        for file in files(Path::new(folder))? {
            hash = fnv(hash, &fs::read(file)?);
        }
    }
    println!("cargo::rustc-env=SHARED_SOURCES={hash:016x}");
    Ok(())
}

/// All files below a directory, sorted.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(files(&path)?),
            false => found.push(path),
        }
    }
    found.sort();
    Ok(found)
}

fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
