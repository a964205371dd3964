//! Gives the library the name that programs built for DAOS look for, and libuuid, which those that name only
//! libdaos find by it. Nothing here calls libuuid, so the linker is told to keep it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdaos.so.2");
    let kept = "-Wl,--push-state,--no-as-needed,-luuid,--pop-state";
    println!("cargo:rustc-cdylib-link-arg={kept}");
}
