//! Rules that limit `unsafe` code, and macros that print, to some files. The compiler denies unsafe code by default
//! (`unsafe_code` in the workspace's lints), and clippy requires a reason for each block; a rule limits the files that
//! may allow it.
use crate::rust::{self, Source};
use crate::{Finding, Tree};

/// The only product code with unsafe blocks: code that accesses mapped memory and sockets, forks and signals, the
/// allocator, the C interface, bindings to C libraries, and the memory of Python objects.
const UNSAFE_PATHS: &[&str] = &[
    "crates/backends/daos/src/binding/",
    "crates/backends/rados/src/librados/",
    "crates/backends/nodes/src/connection/socket.rs",
    "crates/store/src/index/lmdb.rs",
    "crates/store/src/index/txn.rs",
    "crates/store/src/io/",
    "crates/os/src/wake_up.rs",
    "crates/os/src/descriptors.rs",
    "crates/os/src/fork.rs",
    "crates/os/src/memory.rs",
    "crates/os/src/signals.rs",
    "crates/capi/libdaos/",
    "crates/capi/preload/",
    "crates/capi/preload-interface/",
    "crates/capi/preload-store/",
    "crates/fields/src/eccodes/",
    "crates/fuse/src/ring/entry.rs",
    "crates/wire/src/fabric/libfabric/",
    "python/src/buffer.rs",
];

/// Macros that panic if nobody reads what they print.
const PRINTING: [&str; 4] = ["print", "println", "eprint", "eprintln"];

/// Code that may use them: it is run by cargo only.
const PRINTING_PATHS: [&str; 3] = ["crates/testing/", "crates/tidy/", "build.rs"];

/// Tokens of the functions that panic if the system starts no more threads.
const SPAWNING: [&[&str]; 2] = [&["thread", ":", ":", "spawn", "("], &["scope", ".", "spawn", "("]];

/// Code that may use them: only tests run it.
const THREAD_PATHS: [&str; 2] = ["crates/testing/", "crates/conformance/"];

/// Lint levels that allow code.
const LENIENT_LEVELS: [&str; 3] = ["allow", "expect", "warn"];

/// Product code in other files that allows unsafe code.
pub fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    let (sources, _) = rust::sources(tree);
    let fenced = sources.iter().filter(|source| !may_be_unsafe(&source.file.path));
    fenced.flat_map(openings).collect()
}

/// Roots of crates that do not fence unsafe code: each forbids it, or denies it if a listed module of the crate has
/// some.
pub fn unfenced_crates(tree: &Tree) -> Vec<Finding> {
    let (sources, _) = rust::sources(tree);
    let roots = sources.iter().filter(|source| is_root(&source.file.path));
    roots
        .filter_map(|root| {
            let level = level_owed(&root.file.path)?;
            let attribute = format!("#![{level}(unsafe_code)]");
            let has = root.file.text.lines().any(|line| line == attribute);
            (!has).then(|| root.file.finding(1, format!("needs `{attribute}`")))
        })
        .collect()
}

fn is_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs")
}

/// The lint level that the root of a crate sets; none for a crate that is listed as a whole.
fn level_owed(root: &str) -> Option<&'static str> {
    let (sources, _) = root.rsplit_once('/')?;
    match UNSAFE_PATHS.iter().any(|allowed| allowed.starts_with(sources)) {
        _ if may_be_unsafe(root) => None,
        true => Some("deny"),
        false => Some("forbid"),
    }
}

/// Product code that prints by a macro, which panics if standard output or standard error is closed.
pub fn printing(tree: &Tree) -> Vec<Finding> {
    let (sources, _) = rust::sources(tree);
    let may_print = |path: &str| PRINTING_PATHS.iter().any(|allowed| path.contains(allowed));
    let others = sources.iter().filter(|source| !may_print(&source.file.path));
    others.flat_map(printed).collect()
}

/// Findings for the macros that print in one file.
fn printed(source: &Source<'_>) -> Vec<Finding> {
    let pairs = source.tokens.windows(2).filter(|pair| !source.is_test(pair[0].line));
    let calls = pairs.filter(|pair| PRINTING.contains(&&*pair[0].text) && pair[1].text == "!");
    let message = "panics if nobody reads it: use writeln! and ignore its result";
    calls.map(|pair| source.file.finding(pair[0].line, message)).collect()
}

/// Product code that starts threads by a function that panics if the system starts no more of them.
pub fn starting_threads(tree: &Tree) -> Vec<Finding> {
    let (sources, _) = rust::sources(tree);
    let may_panic = |path: &str| THREAD_PATHS.iter().any(|allowed| path.starts_with(allowed));
    let others = sources.iter().filter(|source| !may_panic(&source.file.path));
    others.flat_map(started).collect()
}

/// Findings for the functions that start threads in one file.
fn started(source: &Source<'_>) -> Vec<Finding> {
    let message = "panics if the system starts no more threads: use esker_os::start_thread or \
                   std::thread::Builder";
    let calls = SPAWNING.iter().flat_map(|spawning| {
        let windows = source.tokens.windows(spawning.len());
        windows.filter(move |window| {
            window.iter().map(|token| &*token.text).eq(spawning.iter().copied())
        })
    });
    let product = calls.filter(|call| !source.is_test(call[0].line));
    product.map(|call| source.file.finding(call[0].line, message)).collect()
}

fn may_be_unsafe(path: &str) -> bool {
    UNSAFE_PATHS.iter().any(|allowed| path.starts_with(allowed))
}

/// Findings for the attributes that allow unsafe code in one file.
fn openings(source: &Source<'_>) -> Vec<Finding> {
    let product = source.tokens.iter().enumerate().filter(|(_, token)| !source.is_test(token.line));
    let named = product.filter(|(_, token)| token.text == "unsafe_code");
    let allowed = named.filter(|(index, _)| is_lenient(source, *index));
    let message = format!("unsafe code outside {}", UNSAFE_PATHS.join(", "));
    allowed.map(|(_, token)| source.file.finding(token.line, message.as_str())).collect()
}

/// True if the attribute around a token, the name of a lint, allows code. Searches backwards to its start.
fn is_lenient(source: &Source<'_>, lint: usize) -> bool {
    let before = source.tokens[..lint].iter().rev().map(|token| token.text.as_str());
    before.take_while(|text| *text != "[").any(|text| LENIENT_LEVELS.contains(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let found = unsafe_code(&Tree::of_texts(&[(path, text)]));
        found.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn unsafe_code_is_limited_to_the_listed_paths() {
        let text = "#![allow(\n    dead_code,\n    unsafe_code\n)]\nfn a() {}";
        assert_eq!(lines("crates/store/src/index.rs", text), [3]);
        assert_eq!(lines("crates/store/src/io/map.rs", text), NONE);
        assert_eq!(lines("crates/store/tests/fork.rs", text), NONE);
        assert_eq!(lines("crates/capi/libdaos/src/kv.rs", text), NONE);
    }

    #[test]
    fn crates_forbid_unsafe_code_or_deny_it_around_listed_modules() {
        let found =
            |path: &str, text: &str| unfenced_crates(&Tree::of_texts(&[(path, text)])).len();
        let (forbid, deny) = ("#![forbid(unsafe_code)]", "#![deny(unsafe_code)]");
        assert_eq!(
            (found("crates/dfs/src/lib.rs", forbid), found("crates/dfs/src/lib.rs", deny)),
            (0, 1)
        );
        assert_eq!(
            (found("crates/wire/src/lib.rs", deny), found("crates/wire/src/lib.rs", "")),
            (0, 1)
        );
        assert_eq!(found("crates/capi/libdaos/src/lib.rs", ""), 0);
        assert_eq!(found("crates/dfs/src/check/mod.rs", ""), 0);
    }

    #[test]
    fn macros_that_print_are_for_tests() {
        let text = "fn a() {\n    eprintln!(\"a\");\n    print(1);\n}\n#[cfg(test)]\nmod tests {\n    fn b() { println!() }\n}";
        let found = |path| printing(&Tree::of_texts(&[(path, text)])).len();
        assert_eq!((found("crates/cli/src/a.rs"), found("crates/cli/build.rs")), (1, 0));
        assert_eq!((found("crates/cli/tests/a.rs"), found("examples/rust/src/main.rs")), (0, 0));
    }

    #[test]
    fn threads_that_may_not_start_are_found() {
        let text = "fn a() {\n    std::thread::spawn(b);\n    scope.spawn(|| c);\n    Builder::new().spawn(d);\n}";
        let lines = |path, text: &str| {
            let found = starting_threads(&Tree::of_texts(&[(path, text)]));
            found.iter().map(|finding| finding.line).collect::<Vec<_>>()
        };
        assert_eq!(lines("crates/cli/src/a.rs", text), [2, 3]);
        let in_module = format!("#[cfg(test)]\nmod tests {{ {text} }}");
        assert_eq!(lines("crates/cli/src/a.rs", &in_module), NONE);
        assert_eq!(lines("crates/testing/src/a.rs", text), NONE);
    }

    #[test]
    fn every_way_to_allow_unsafe_code_is_detected() {
        for attribute in ["#[expect(unsafe_code)]", "#[cfg_attr(miri, allow(unsafe_code))]"] {
            assert_eq!(lines("crates/types/src/lib.rs", &format!("{attribute}\nfn a() {{}}")), [1]);
        }
        assert_eq!(lines("crates/types/src/lib.rs", "#![forbid(unsafe_code)]"), NONE);
    }
}
