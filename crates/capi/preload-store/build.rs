//! Links the unwinder into the library.
#[path = "../unwinder_build.rs"]
mod unwinder;

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    unwinder::link()
}
