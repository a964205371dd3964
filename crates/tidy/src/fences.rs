//! Where `unsafe` may stand and what it owes the reader, and calls that may stop the host program.
use crate::rust::{self, Source};
use crate::tree::File;
use crate::{Finding, Tree};

/// The only product code that may be unsafe: what touches mapped memory, what C calls, and the memory of
/// Python objects.
const UNSAFE_PLACES: [&str; 4] =
    ["crates/store/src/io/", "crates/os/src/fork.rs", "crates/capi/", "python/src/buffer.rs"];

/// Lines of code that may stand between a SAFETY comment and the `unsafe` it is for.
const CODE_BETWEEN_MAX: usize = 2;

/// `unsafe` outside its places, or without the comment that says why it is sound.
pub fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    each_source(tree, |source| {
        let tokens = source.tokens.iter().enumerate();
        let marked = tokens.filter(|(_, token)| token.text == "unsafe");
        marked.filter_map(|(index, token)| check_unsafe(source, index, token.line)).collect()
    })
}

fn check_unsafe(source: &Source<'_>, index: usize, line: usize) -> Option<Finding> {
    let file = source.file;
    if !may_be_unsafe(&file.path) && !source.is_test(line) {
        return Some(
            file.finding(line, format!("unsafe code outside {}", UNSAFE_PLACES.join(" and "))),
        );
    }
    let markers = markers_owed(source, index);
    let explained = markers.is_empty() || is_explained(file, line, markers);
    (!explained).then(|| {
        file.finding(line, format!("unsafe code without `{}` above it", markers.join("` or `")))
    })
}

fn may_be_unsafe(path: &str) -> bool {
    UNSAFE_PLACES.iter().any(|place| path.starts_with(place))
}

/// What the comment must contain: callers of an unsafe function read its documentation, a block
/// answers in place, an attribute such as `#[unsafe(no_mangle)]` or a type of pointer owes nothing.
fn markers_owed(source: &Source<'_>, index: usize) -> &'static [&'static str] {
    let rest = source.tokens.iter().skip(index + 1).map(|token| token.text.as_str());
    let mut rest = rest.skip_while(|text| *text == "extern" || text.starts_with('"'));
    match (rest.next(), rest.next()) {
        (Some("("), _) | (Some("fn"), Some("(")) => &[],
        (Some("fn"), _) => &["SAFETY:", "# Safety"],
        _ => &["SAFETY:"],
    }
}

/// Looks upwards from the line; comments and attributes do not count as distance.
fn is_explained(file: &File, line: usize, markers: &[&str]) -> bool {
    let lines: Vec<_> = file.text.lines().take(line).collect();
    let mut code_lines = 0;
    let within_reach = lines.into_iter().rev().take_while(|text| {
        let text = text.trim_start();
        code_lines += usize::from(!text.starts_with("//") && !text.starts_with("#["));
        code_lines <= CODE_BETWEEN_MAX + 1
    });
    within_reach.into_iter().any(|text| markers.iter().any(|marker| text.contains(marker)))
}

/// Crate roots that do not have the compiler keep unsafe code out.
pub fn crate_roots(tree: &Tree) -> Vec<Finding> {
    each_source(tree, |source| {
        let missing = fence_owed(&source.file.path).filter(|level| !has_fence(source, level));
        missing
            .map(|level| source.file.finding(1, format!("needs #![{level}(unsafe_code)]")))
            .into_iter()
            .collect()
    })
}

/// The store and the Python module deny, so that their one place can allow; a crate of the C API is made of
/// unsafe code.
fn fence_owed(path: &str) -> Option<&'static str> {
    let parts: Vec<_> = path.split('/').collect();
    match parts.as_slice() {
        ["crates", "store" | "os", "src", "lib.rs"] | ["python", "src", "lib.rs"] => Some("deny"),
        ["crates", _, "src", "lib.rs" | "main.rs"]
        | ["crates", "backends", _, "src", "lib.rs"]
        | ["crates", _, "src", "bin", ..] => Some("forbid"),
        _ => None,
    }
}

fn has_fence(source: &Source<'_>, level: &str) -> bool {
    source.contains(&["#", "!", "[", level, "(", "unsafe_code"])
}

/// Calls that end the host program where an error should be returned. Tests may use them.
const FATAL_METHODS: [&str; 2] = ["unwrap", "expect"];
const FATAL_MACROS: [&str; 4] = ["panic", "todo", "unimplemented", "dbg"];

/// Calls outside tests that may stop the host program.
pub fn fatal_calls(tree: &Tree) -> Vec<Finding> {
    each_source(tree, |source| {
        let product =
            (0..source.tokens.len()).filter(|&index| !source.is_test(source.tokens[index].line));
        product.filter_map(|index| fatal_call(source, index)).collect()
    })
}

fn fatal_call(source: &Source<'_>, index: usize) -> Option<Finding> {
    let is_method =
        |name: &&str| [".", ":"].iter().any(|mark| source.starts_with(index, &[mark, name]));
    let is_macro = |name: &&str| source.starts_with(index, &[name, "!"]);
    let method = FATAL_METHODS.into_iter().find(is_method).map(|name| format!("{name}()"));
    let call = method
        .or_else(|| FATAL_MACROS.into_iter().find(is_macro).map(|name| format!("{name}!")))?;
    let line = source.tokens[index].line;
    Some(source.file.finding(line, format!("{call} outside tests; return an error")))
}

fn each_source(tree: &Tree, rule: impl Fn(&Source<'_>) -> Vec<Finding>) -> Vec<Finding> {
    let (sources, _) = rust::sources(tree);
    sources.iter().flat_map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(rule: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
        rule(&Tree::of_texts(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    const CAPI: &str = "crates/capi/libdaos/src/kv.rs";

    #[test]
    fn unsafe_code_keeps_to_its_places() {
        let text = "// SAFETY: none.\nunsafe impl Send for A {}";
        assert_eq!(lines(unsafe_code, "crates/store/src/index.rs", text), [2]);
        assert_eq!(lines(unsafe_code, "crates/store/src/io/map.rs", text), NONE);
        assert_eq!(lines(unsafe_code, "crates/store/tests/fork.rs", text), NONE);
        assert_eq!(lines(unsafe_code, CAPI, text), NONE);
    }

    #[test]
    fn a_block_is_explained_just_above_it() {
        let far = "fn a() {\n// SAFETY: far.\n1;\n1;\n1;\nunsafe { b() }\n}";
        assert_eq!(lines(unsafe_code, CAPI, far), [6]);
        let near = "fn a() {\n// SAFETY: a long\n// reason\n// given.\n1;\n1;\nunsafe { b() }\n}";
        assert_eq!(lines(unsafe_code, CAPI, near), NONE);
        assert_eq!(lines(unsafe_code, CAPI, "fn a() {\n/// # Safety\nunsafe { b() }\n}"), [3]);
    }

    #[test]
    fn a_function_is_explained_in_its_documentation() {
        let text = "/// # Safety\n/// One.\n/// Two.\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn a() {}";
        assert_eq!(lines(unsafe_code, CAPI, text), NONE);
        assert_eq!(lines(unsafe_code, CAPI, "unsafe fn a() {}"), [1]);
    }

    #[test]
    fn a_pointer_to_an_unsafe_function_owes_nothing() {
        assert_eq!(lines(unsafe_code, CAPI, "type A = unsafe extern \"C\" fn(u8);"), NONE);
    }

    #[test]
    fn unsafe_code_in_macros_is_seen() {
        assert_eq!(lines(unsafe_code, CAPI, "call!(unsafe { b() });"), [1]);
    }

    #[test]
    fn every_crate_root_has_its_fence() {
        assert_eq!(lines(crate_roots, "crates/types/src/lib.rs", "#![forbid(unsafe_code)]"), NONE);
        assert_eq!(lines(crate_roots, "crates/types/src/lib.rs", "#![deny(unsafe_code)]"), [1]);
        assert_eq!(lines(crate_roots, "crates/store/src/lib.rs", "#![deny(unsafe_code)]"), NONE);
        assert_eq!(lines(crate_roots, "python/src/lib.rs", "#![deny(unsafe_code)]"), NONE);
        assert_eq!(lines(crate_roots, CAPI, ""), NONE);
    }

    #[test]
    fn fatal_calls_are_found_outside_tests() {
        let text =
            "fn a() {\n b.unwrap();\n c.map(Option::unwrap);\n panic!();\n d.unwrap_or(1);\n}";
        assert_eq!(lines(fatal_calls, "crates/types/src/lib.rs", text), [2, 3, 4]);
        assert_eq!(lines(fatal_calls, "crates/types/tests/a.rs", text), NONE);
        let in_module = format!("#[cfg(test)]\nmod tests {{ {text} }}");
        assert_eq!(lines(fatal_calls, "crates/types/src/lib.rs", &in_module), NONE);
    }
}
