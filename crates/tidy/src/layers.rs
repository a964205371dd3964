//! The layering of the store's modules: which module of `crates/store` may use which, and what is private to a layer.
use crate::rust::{self, Source, Token};
use crate::{Finding, Tree};

const ROOT: &str = "crates/store/src/";

/// Top-level modules of the store, the lowest layer first. A module uses its own layer and lower ones.
const LAYERS: [&[&str]; 10] = [
    &["sync"],
    &["io"],
    &["format"],
    &["index"],
    &["shared"],
    &["data"],
    &["shard"],
    &["commit"],
    &["pool"],
    &["check", "salvage"],
];

/// Names that only these modules may use: the words and types that a reader or writer of a target must combine.
const PRIVATE: [&str; 3] = ["WriteBuffer", "LockedBuffer", "in_doubt"];
const OWNERS: [&str; 2] = ["shared", "shard"];

/// Product code of the store that uses a higher layer, or what is private to another one.
pub fn violations(tree: &Tree) -> Vec<Finding> {
    let (sources, _) = rust::sources(tree);
    sources.iter().flat_map(violations_of).collect()
}

fn violations_of(source: &Source<'_>) -> Vec<Finding> {
    let Some(module) = source.file.path.strip_prefix(ROOT).and_then(module_of) else {
        return Vec::new();
    };
    let own = module[0];
    let Some(own_rank) = rank(own).filter(|_| !module.contains(&"tests")) else {
        return Vec::new();
    };
    let product = |line| !source.is_test(line);
    let used = used_modules(&source.tokens, module.len());
    let upward = used.filter(|(_, name)| rank(name).is_some_and(|rank| rank > own_rank));
    let upward =
        upward.map(|(line, name)| (line, format!("`{own}` may not use `{name}` above it")));
    let owned = source.tokens.iter().filter(|it| PRIVATE.contains(&it.text.as_str()));
    let owned = owned.filter(|_| !OWNERS.contains(&own));
    let owned = owned.map(|it| (it.line, format!("`{}` is private to {OWNERS:?}", it.text)));
    let found = upward.chain(owned).filter(|(line, _)| product(*line));
    found.map(|(line, message)| source.file.finding(line, message)).collect()
}

/// The path of a module of the store, from its file; `None` for the crate's root.
fn module_of(path: &str) -> Option<Vec<&str>> {
    let path = path.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    (path != "lib").then(|| path.split('/').collect())
}

fn rank(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Top-level modules that code of a module of this depth names, with their lines: behind `crate::`, or behind as many
/// `super::` as lead to the root.
fn used_modules(tokens: &[Token], depth: usize) -> impl Iterator<Item = (usize, &str)> {
    let root = (0..tokens.len()).filter_map(move |at| match tokens[at].text.as_str() {
        "crate" => Some(at + 1),
        "super" => above(tokens, at, depth),
        _ => None,
    });
    root.flat_map(|after| names_at(tokens, after)).map(|token| (token.line, token.text.as_str()))
}

/// Position after a run of `depth` times `super`, which begins here.
fn above(tokens: &[Token], at: usize, depth: usize) -> Option<usize> {
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.text == text);
    let steps = (0..depth).map(|step| at + 3 * step);
    let is_run = steps.clone().all(|at| is(at, "super") && is(at + 1, ":") && is(at + 2, ":"));
    is_run.then_some(at + 3 * depth - 2)
}

/// The name behind `::`, or the first names of each path in braces there.
fn names_at(tokens: &[Token], colons: usize) -> Vec<&Token> {
    let Some(first) = tokens.get(colons + 2).filter(|_| tokens[colons].text == ":") else {
        return Vec::new(); // As in `pub(crate)`.
    };
    if first.text != "{" {
        return vec![first];
    }
    let (mut depth, mut names, mut begins) = (0, Vec::new(), true);
    for token in &tokens[colons + 2..] {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" if depth == 1 => break,
            "}" => depth -= 1,
            "," if depth == 1 => begins = true,
            _ if depth == 1 && begins => {
                names.push(token);
                begins = false;
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let found = violations(&Tree::of_texts(&[(&format!("{ROOT}{path}"), text)]));
        found.iter().map(|finding| finding.message.clone()).collect()
    }

    #[test]
    fn lower_layers_and_tests_are_allowed() {
        let down = "use crate::index::txn::Txn;\nuse crate::{io, format::keys};\nuse super::view;\npub(crate) fn check() {}";
        assert!(messages("shard/view.rs", down).is_empty());
        let test = "#[cfg(test)]\nmod tests {\n use crate::commit::coordinated;\n}";
        assert!(messages("shard/view.rs", test).is_empty());
        assert!(messages("lib.rs", "pub use check::Report;").is_empty());
    }

    #[test]
    fn upward_imports_are_found() {
        let upward = ["`shard` may not use `commit` above it"];
        for text in [
            "use crate::commit::settle;",
            "fn f() { crate::commit::settle() }",
            "use crate::{io, commit::settle};",
            "use super::super::commit::settle;",
        ] {
            assert_eq!(messages("shard/view.rs", text), upward, "{text}");
        }
        assert!(messages("shard/lending/pack.rs", "use super::super::view;").is_empty());
        let upward = "use super::super::super::check;";
        assert_eq!(messages("shard/lending/pack.rs", upward).len(), 1);
    }

    #[test]
    fn private_names_are_found_outside_of_their_layers() {
        let text = "fn f(target: &Target) { target.in_doubt(); }";
        assert_eq!(messages("commit/group.rs", text).len(), 1);
        assert!(messages("shard/doubt.rs", text).is_empty());
    }
}
