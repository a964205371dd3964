//! Libraries in the mount point that a program needs when it starts.
//!
//! The loader of the new program would search them itself and see no directory of the mount point. So they are copied
//! ([`copies`](crate::copies)), and the copies are named at the end of `LD_PRELOAD`. The new process removes them from
//! the variable, so that programs which it starts do not load them.
use crate::copies;
use crate::exec::environment;
use crate::search::Plan;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const PRELOAD: &[u8] = b"LD_PRELOAD=";
const LIBRARY_PATH: &[u8] = b"LD_LIBRARY_PATH=";

/// Copies the libraries in the mount point that a program needs, and appends the copies to `LD_PRELOAD` in its
/// environment. `file` is the program in a form that can be read, `path` its path as programs know it.
pub(crate) fn add(file: &Path, path: &[u8], environment: &mut [CString]) {
    let library_path = value(environment, LIBRARY_PATH).unwrap_or_default().to_vec();
    let mut plan = Plan::for_program(library_path);
    plan.add_program(file, path);
    // A library precedes those that it needs, as in the order in which the loader resolves symbols.
    let copies: Vec<_> =
        plan.first.iter().rev().filter_map(|copy| entry(copy.as_c_str())).collect();
    let preload = environment.iter_mut().find(|text| text.to_bytes().starts_with(PRELOAD));
    if let Some(text) = preload.filter(|_| !copies.is_empty()) {
        let longer = [text.to_bytes(), &copies.concat()].concat();
        *text = CString::new(longer).unwrap_or_else(|_| text.clone());
    }
}

/// A further entry of `LD_PRELOAD`; `None` for a path that the variable cannot hold.
fn entry(copy: &CStr) -> Option<Vec<u8>> {
    let path = copy.to_bytes();
    let separates = |byte: &u8| matches!(byte, b':' | b' ');
    (!path.iter().any(separates)).then(|| [&b":"[..], path].concat())
}

/// The value of a variable, whose `name` ends with `=`.
fn value<'a>(environment: &'a [CString], name: &[u8]) -> Option<&'a [u8]> {
    environment.iter().find_map(|text| text.to_bytes().strip_prefix(name))
}

/// Removes the copies from `LD_PRELOAD` of this process, which has loaded them. Called before the variables are read.
pub(crate) fn forget() {
    let run_dir = std::env::var_os("ESKER_RUN_DIR").unwrap_or_default();
    let Some(copies) = copies::folder_in(run_dir.as_bytes()) else { return };
    let start = [&b":"[..], &copies].concat();
    let position = |bytes: &[u8]| bytes.windows(start.len()).position(|part| part == start);
    let find = |text: &CStr| {
        Some(text.to_bytes()).filter(|bytes| bytes.starts_with(PRELOAD)).and_then(position)
    };
    let found = environment().list().into_iter().map(find).enumerate();
    for (index, length) in found.filter_map(|(index, at)| Some((index, at?))) {
        environment().shorten(index, length);
    }
}
