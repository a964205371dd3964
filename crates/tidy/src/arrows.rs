//! The layering of crates: which crate of the workspace may depend on which.
use crate::tree::{self, Finding};
use serde_json::Value;

/// Every crate with its allowed dependencies, including development and build dependencies.
/// Add a new crate in the row of its rank. Dependencies point downwards only, never to a sibling.
const ARROWS: &[(&str, &[&str])] = &[
    ("esker-types", &[]),
    ("esker-testing", &[]),
    ("esker-os", &["esker-testing", "esker-types"]),
    ("esker-store", &["esker-testing", "esker-types", "esker-os"]),
    ("esker-backend", &["esker-testing", "esker-types", "esker-os"]),
    ("esker-native", &["esker-testing", "esker-types", "esker-store", "esker-backend"]),
    ("esker-posix", &["esker-testing", "esker-types", "esker-os", "esker-backend"]),
    ("esker-rados", &["esker-testing", "esker-types", "esker-os", "esker-backend"]),
    ("esker-daos", &["esker-types", "esker-os", "esker-backend"]),
    ("esker-wire", &["esker-testing", "esker-types", "esker-os"]),
    ("esker-engine", &["esker-types", "esker-os", "esker-backend", "esker-wire"]),
    ("esker-nodes", &["esker-testing", "esker-types", "esker-os", "esker-backend", "esker-wire"]),
    ("esker", CLIENT),
    ("esker-conformance", &["esker-testing", "esker-types", "esker-os", "esker-backend", "esker"]),
    ("esker-dfs", &["esker-testing", "esker-types", "esker-os", "esker-store", "esker"]),
    ("esker-fields", &["esker-testing", "esker-types", "esker-os", "esker-store", "esker"]),
    (
        "esker-tensors",
        &[
            "esker-testing",
            "esker-types",
            "esker-os",
            "esker-store",
            "esker-backend",
            "esker",
            "esker-dfs",
        ],
    ),
    (
        "esker-libdaos",
        &[
            "esker-testing",
            "esker-conformance",
            "esker-types",
            "esker-os",
            "esker-store",
            "esker",
            "esker-dfs",
            "esker-fields",
            "esker-tensors",
        ],
    ),
    ("esker-preload-interface", &["esker", "esker-dfs"]),
    (
        "esker-preload",
        &[
            "esker-types",
            "esker-os",
            "esker-store",
            "esker",
            "esker-dfs",
            "esker-preload-interface",
        ],
    ),
    ("esker-preload-store", &["esker", "esker-dfs", "esker-tensors", "esker-preload-interface"]),
    (
        "esker-python",
        &["esker-types", "esker-store", "esker", "esker-dfs", "esker-fields", "esker-tensors"],
    ),
    ("esker-s3", &["esker-testing", "esker", "esker-dfs"]),
    (
        "esker-fuse",
        &[
            "esker-testing",
            "esker-conformance",
            "esker-types",
            "esker-os",
            "esker-store",
            "esker",
            "esker-dfs",
        ],
    ),
    ("esker-cli", CLI),
    (
        "esker-bench",
        &[
            "esker-testing",
            "esker-types",
            "esker-os",
            "esker-rados",
            "esker-store",
            "esker-wire",
            "esker-engine",
            "esker-nodes",
            "esker",
            "esker-dfs",
            "esker-s3",
            "esker-fields",
            "esker-tensors",
            "esker-cli",
        ],
    ),
    ("esker-tidy", &[]),
    ("esker-example", &["esker-store", "esker"]),
];

/// The client, with every backend below it.
const CLIENT: &[&str] = &[
    "esker-testing",
    "esker-types",
    "esker-os",
    "esker-store",
    "esker-backend",
    "esker-native",
    "esker-posix",
    "esker-rados",
    "esker-daos",
    "esker-wire",
    "esker-engine",
    "esker-nodes",
];

/// The tool, above everything but its benchmarks.
const CLI: &[&str] = &[
    "esker-testing",
    "esker-types",
    "esker-os",
    "esker-daos",
    "esker-rados",
    "esker-store",
    "esker",
    "esker-engine",
    "esker-nodes",
    "esker-wire",
    "esker-dfs",
    "esker-fields",
    "esker-tensors",
    "esker-fuse",
    "esker-s3",
    "esker-preload-interface",
];

/// Dependencies between crates of the workspace that the table does not allow.
///
/// # Errors
/// If cargo cannot describe the workspace; the text says why.
pub fn forbidden() -> Result<Vec<Finding>, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let metadata = tree::run(&tree::repository(), &cargo, &arguments)?;
    forbidden_in(&metadata).map_err(|error| format!("cargo metadata: {error}"))
}

/// The same for the output of `cargo metadata`.
fn forbidden_in(metadata: &str) -> serde_json::Result<Vec<Finding>> {
    let metadata: Value = serde_json::from_str(metadata)?;
    Ok(items(&metadata["packages"]).flat_map(forbidden_of).collect())
}

/// Dependencies of one package, as `cargo metadata` describes it, that the table does not allow.
fn forbidden_of(package: &Value) -> Vec<Finding> {
    let name = text(&package["name"]);
    let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
        return vec![finding(package, format!("crate `{name}` has no row in {}", file!()))];
    };
    let ours = items(&package["dependencies"]).filter(|dependency| is_ours(dependency));
    let ours = ours.filter(|dependency| !is_for_tests(name, dependency));
    let wrong =
        ours.map(|dependency| text(&dependency["name"])).filter(|wanted| !allowed.contains(wanted));
    wrong.map(|wanted| finding(package, format!("`{name}` may not depend on `{wanted}`"))).collect()
}

/// True if a dependency is a crate of the workspace.
fn is_ours(dependency: &Value) -> bool {
    dependency["path"].is_string()
        || ARROWS.iter().any(|(name, _)| *name == text(&dependency["name"]))
}

/// True for a dependency of tests that the table need not allow. The conformance suite is above the client, but tests
/// of the crates below may use it. The torture tests are in the lowest crate, because their helpers are those of all
/// tests, and may use any crate.
fn is_for_tests(package: &str, dependency: &Value) -> bool {
    let is_above = text(&dependency["name"]) == "esker-conformance" || package == "esker-testing";
    is_above && dependency["kind"] == "dev"
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn finding(package: &Value, message: String) -> Finding {
    let manifest = text(&package["manifest_path"]);
    let path = manifest.find("crates/").map_or(manifest, |start| &manifest[start..]);
    Finding { path: path.to_owned(), line: 1, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(name: &str, dependency: Value) -> Vec<String> {
        let package = json!({"name": name, "manifest_path": "/crates/a/Cargo.toml", "dependencies": [dependency]});
        let found = forbidden_in(&json!({"packages": [package]}).to_string());
        found.expect("valid metadata").iter().map(|finding| finding.message.clone()).collect()
    }

    #[test]
    fn a_downward_dependency_is_allowed() {
        assert!(found("esker-store", json!({"name": "esker-types", "path": "/types"})).is_empty());
        assert!(found("esker-types", json!({"name": "libc"})).is_empty());
    }

    #[test]
    fn an_upward_dependency_is_found() {
        let message = "`esker-types` may not depend on `esker-store`";
        assert_eq!(found("esker-types", json!({"name": "esker-store"})), [message]);
    }

    #[test]
    fn torture_tests_may_use_any_crate() {
        let wanted = |kind: &str| json!({"name": "esker", "kind": kind, "path": "/client"});
        assert!(found("esker-testing", wanted("dev")).is_empty());
        assert_eq!(found("esker-testing", wanted("normal")).len(), 1);
        assert_eq!(found("esker-types", wanted("dev")).len(), 1);
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        assert_eq!(found("esker-new", json!({"name": "libc"})).len(), 1);
    }

    #[test]
    fn the_table_has_no_cycle_of_two_crates() {
        let rank = |name: &str| ARROWS.iter().position(|(known, _)| *known == name);
        for (name, allowed) in ARROWS {
            assert!(allowed.iter().all(|below| rank(below) < rank(name)), "{name}");
        }
    }
}
