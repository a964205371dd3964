//! Sets the soname that programs built for DAOS look for. Also links libuuid, because programs that link only libdaos
//! find libuuid through it. Nothing here calls libuuid, so the linker is told to keep it. C functions of the libraries
//! inside stay there: programs may have others of the same names.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdaos.so.2");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    let kept = "-Wl,--push-state,--no-as-needed,-luuid,--pop-state";
    println!("cargo:rustc-cdylib-link-arg={kept}");
}
