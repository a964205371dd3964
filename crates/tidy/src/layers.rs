//! The layering of modules in the crates that have many: which module may use which, and what is private to a layer.
use crate::rust::{self, Source, Token};
use crate::{Finding, Tree};
use std::collections::HashMap;

/// The order of the top-level modules of a crate.
struct Layering {
    /// The folder of its sources.
    root: &'static str,
    /// The modules, the lowest layer first. A module uses lower layers only.
    layers: &'static [&'static [&'static str]],
}

const LAYERINGS: [Layering; 3] = [STORE, CLIENT, DFS];

const STORE: Layering = Layering {
    root: "crates/store/src/",
    layers: &[
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
    ],
};

const CLIENT: Layering = Layering {
    root: "crates/client/src/",
    layers: &[
        &["config", "limits", "proof", "view"],
        &["names"],
        &["container"],
        &["lease", "transaction"],
        &["access"],
        &["attributes", "object"],
        &["array", "kv", "naming", "oid", "pool"],
        &["object_names", "copy"],
        &["prelude"],
    ],
};

const DFS: Layering = Layering {
    root: "crates/dfs/src/",
    layers: &[
        // The bytes of a file system.
        &["inode", "limits", "oids", "preload_check"],
        &["entry", "retry"],
        &["superblock"],
        // State of a process, which a mounted file system holds.
        &[
            "deferred_close",
            "deferred_removal",
            "directory_cache",
            "entry_cache",
            "entry_hints",
            "lazy",
            "lease_on_create",
            "moves",
            "validated_paths",
        ],
        &["open"],
        &["mount"],
        // Nodes, and how a path leads to one.
        &["attr"],
        &["node"],
        &["list", "xattr"],
        &["existing", "read_ahead"],
        &["prefetch"],
        &["path"],
        &["orphans"],
        &["located"],
        // Changes.
        &["create", "set_attr"],
        &["file", "path_validation", "remove", "rename"],
        &["publish", "remove_many", "resize", "walk"],
        &["remove_tree"],
        // File systems as a whole.
        &["lifecycle"],
        &["check", "transfer"],
    ],
};

/// Names of the store that only these modules may use: the words and types that a reader or writer of a target must
/// combine.
const PRIVATE: [&str; 3] = ["WriteBuffer", "LockedBuffer", "in_doubt"];
const OWNERS: [&str; 2] = ["shared", "shard"];

/// Product code that uses a higher layer of its crate or a sibling, or a name that is private to another layer.
pub fn violations(tree: &Tree) -> Vec<Finding> {
    let (sources, _) = rust::sources(tree);
    LAYERINGS.iter().flat_map(|layering| layering.violations(&sources)).collect()
}

impl Layering {
    fn violations(&self, sources: &[Source<'_>]) -> Vec<Finding> {
        let reexports = self.reexports(sources);
        sources.iter().flat_map(|source| self.violations_of(source, &reexports)).collect()
    }

    /// Violations in one file. `reexports` has the modules of the names that the root of the crate exports.
    fn violations_of(
        &self,
        source: &Source<'_>,
        reexports: &HashMap<String, String>,
    ) -> Vec<Finding> {
        let Some(module) = source.file.path.strip_prefix(self.root).and_then(module_of) else {
            return Vec::new();
        };
        let own = module[0];
        if module.contains(&"tests") {
            return Vec::new();
        }
        let Some(own_rank) = self.rank(own) else {
            let message = format!("module `{own}` has no layer in {}", file!());
            return vec![source.file.finding(1, message)];
        };
        let used = used_modules(&source.tokens, module.len());
        let used = used.map(|(line, name)| (line, reexports.get(name).map_or(name, |it| it)));
        let used = used.filter(|(_, name)| *name != own);
        let upward = used.filter(|(_, name)| self.rank(name).is_some_and(|rank| rank >= own_rank));
        let upward = upward
            .map(|(line, name)| (line, format!("`{own}` may not use `{name}`, not below it")));
        let found = upward.chain(self.private_names(source, own));
        let found = found.filter(|(line, _)| !source.is_test(*line));
        found.map(|(line, message)| source.file.finding(line, message)).collect()
    }

    /// Uses of private names of the store in the module `own`, which does not own them: the line and the message of
    /// each. There are none in other crates.
    fn private_names(
        &self,
        source: &Source<'_>,
        own: &str,
    ) -> impl Iterator<Item = (usize, String)> {
        let is_open = self.root != STORE.root || OWNERS.contains(&own);
        let names = source.tokens.iter().filter(move |_| !is_open);
        let names = names.filter(|token| PRIVATE.contains(&token.text.as_str()));
        names.map(|it| (it.line, format!("`{}` is private to {OWNERS:?}", it.text)))
    }

    /// The number of the layer of a module, 0 for the lowest.
    fn rank(&self, module: &str) -> Option<usize> {
        self.layers.iter().position(|layer| layer.contains(&module))
    }

    /// The modules of the names that the root of the crate exports, such as `node` of `Node`.
    fn reexports(&self, sources: &[Source<'_>]) -> HashMap<String, String> {
        let root = format!("{}lib.rs", self.root);
        let root = sources.iter().find(|source| source.file.path == root);
        let tokens = root.map(|source| source.tokens.as_slice()).unwrap_or_default();
        let uses = (0..tokens.len()).filter(|at| tokens[*at].text == "use");
        let pairs = uses.filter_map(|at| {
            let module = tokens.get(at + 1).filter(|token| self.rank(&token.text).is_some())?;
            let names = names_at(tokens, at + 2).into_iter();
            Some(names.map(|name| (name.text.clone(), module.text.clone())))
        });
        pairs.flatten().collect()
    }
}

/// The path of a module, from its file; `None` for the crate's root.
fn module_of(path: &str) -> Option<Vec<&str>> {
    let path = path.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    (path != "lib").then(|| path.split('/').collect())
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

/// Position after a run of `depth` times `super`, joined by `::`, which begins at `at`; `None` if there is no such run.
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
        let path = format!("{}{path}", STORE.root);
        found(&[(&path, text)])
    }

    fn found(texts: &[(&str, &str)]) -> Vec<String> {
        violations(&Tree::of_texts(texts)).iter().map(|finding| finding.message.clone()).collect()
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
        let upward = ["`shard` may not use `commit`, not below it"];
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
    fn sibling_and_reexported_modules_are_found() {
        assert_eq!(messages("check.rs", "use crate::salvage;").len(), 1);
        let root = ("crates/dfs/src/lib.rs", "pub use file::{File, Open};\npub use inode::Kind;");
        let user = |text| found(&[root, ("crates/dfs/src/node.rs", text)]);
        assert_eq!(user("use crate::File;"), ["`node` may not use `file`, not below it"]);
        assert_eq!(user("use crate::Kind;").len(), 0);
    }

    #[test]
    fn module_without_a_layer_is_found() {
        assert_eq!(found(&[("crates/dfs/src/new.rs", "")]).len(), 1);
    }

    #[test]
    fn private_names_are_found_outside_of_their_layers() {
        let text = "fn f(target: &Target) { target.in_doubt(); }";
        assert_eq!(messages("commit/group.rs", text).len(), 1);
        assert!(messages("shard/doubt.rs", text).is_empty());
    }
}
