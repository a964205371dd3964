//! Tells the crate the commit that it is built from.
use std::process::Command;

fn main() {
    for path in ["../../crates", "../../Cargo.lock", "build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    if let Some(head) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={head}");
    }
    // A copy of the sources may be in the repository of another project.
    if git(&["ls-files", "build.rs"]).is_none() {
        return;
    }
    if let Some(commit) = git(&["describe", "--tags", "--always", "--dirty"]) {
        println!("cargo::rustc-env=BUILD_COMMIT={commit}");
    }
}

/// The output of git; none if it is missing, or if this is not a repository.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
