//! Gives the library the name that programs built for DAOS look for.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdaos.so.2");
}
