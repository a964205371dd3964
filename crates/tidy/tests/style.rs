//! Runs each rule on the whole repository.
use esker_tidy::{
    Finding, Tree, arrows, facts, fences, layers, limits, pages, sizes, test_rules, text, words,
};

/// Fails the test if the rule finds anything in the repository.
fn demand(rule: impl Fn(&Tree) -> Vec<Finding>) {
    let tree = Tree::of_repository().expect("the tracked files can be read");
    let findings: Vec<_> = rule(&tree).iter().map(Finding::to_string).collect();
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn functions_are_short() {
    demand(sizes::long_functions);
}

#[test]
fn most_functions_are_very_short() {
    let tree = Tree::of_repository().expect("the tracked files can be read");
    let distribution = sizes::Distribution::measure(&tree);
    println!("{distribution}");
    assert!(distribution.is_within_limits(), "{distribution}");
}

#[test]
fn dependencies_point_downwards() {
    demand(|_| arrows::forbidden().expect("cargo describes the workspace"));
}

#[test]
fn modules_use_lower_layers_only() {
    demand(layers::violations);
}

#[test]
fn unsafe_code_is_limited_to_listed_files() {
    demand(fences::unsafe_code);
    demand(fences::unfenced_crates);
}

#[test]
fn product_code_prints_without_panics() {
    demand(fences::printing);
}

#[test]
fn product_code_starts_threads_without_panics() {
    demand(fences::starting_threads);
}

#[test]
fn tests_wait_for_events() {
    demand(test_rules::sleeping);
}

#[test]
fn skipped_tests_are_counted() {
    demand(test_rules::skipped_silently);
}

#[test]
fn conditions_of_checks_are_not_ignored() {
    demand(test_rules::ignored_conditions);
}

#[test]
fn every_crate_keeps_the_lints() {
    demand(text::manifests);
}

#[test]
fn source_is_ascii() {
    demand(text::not_ascii);
}

#[test]
fn no_machine_is_mentioned() {
    demand(text::machine_paths);
}

#[test]
fn limits_are_as_documented() {
    demand(limits::stale);
}

#[test]
fn facts_in_pages_are_those_of_the_source() {
    demand(facts::cited_constants);
    demand(facts::optional_libraries);
    demand(facts::versions);
    demand(facts::doctor_checks);
    demand(facts::environment);
}

#[test]
fn decisions_are_listed() {
    demand(pages::unlisted_decisions);
}

#[test]
fn decisions_have_a_status() {
    demand(pages::decisions_without_status);
}

#[test]
fn pages_are_in_the_book() {
    demand(pages::outside_the_book);
}

#[test]
fn cited_tests_exist() {
    demand(pages::unknown_tests);
}

#[test]
fn cited_files_exist() {
    demand(pages::unknown_files);
}

#[test]
fn promises_have_numbers_of_their_own() {
    demand(pages::repeated_promises);
}

#[test]
fn words_are_those_of_the_field() {
    demand(words::retired);
    demand(words::is_no);
}

#[test]
fn comments_have_a_subject() {
    demand(words::comments_without_subject);
}

#[test]
fn names_of_functions_are_clear() {
    demand(words::unclear_names);
}
