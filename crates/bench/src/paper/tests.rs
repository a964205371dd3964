use super::rules::{Bound, Phases, Pick};
use super::*;
use crate::results::tests::results;
use serde_json::{Value, json};

fn run(mode: &str, pattern: &str, phase: &str, mib_s: f64) -> Value {
    json!({"mode": mode, "pattern": pattern, "contention": "low", "phase": phase, "class_array": "S1",
           "global_timing_bandwidth_mib_s": mib_s, "total_wall_clock_s": 1.0, "off_0": 0.01, "off_f": 0.2})
}

/// The same runs for every step.
fn files() -> Vec<Results> {
    let runs = [
        run("full", "A", "write", 80.0),
        run("full", "A", "read", 100.0),
        run("no-containers", "A", "write", 100.0),
        run("no-containers", "A", "read", 100.0),
        run("no-containers", "B", "write", 70.0),
        run("no-containers", "B", "read", 60.0),
    ];
    STEPS.iter().map(|_| results(&runs)).collect()
}

fn pick(mode: &'static str, pattern: &'static str) -> Pick {
    Pick { step: "modes", mode: Some(mode), pattern: Some(pattern), ..Pick::default() }
}

fn verdict(phases: Phases, bound: Bound, first: Pick, second: Pick) -> Verdict {
    Rule::Ratio { first, second, phases, bound }.judge(&files()).verdict
}

#[test]
fn a_finding_is_seen_where_its_rule_holds_for_every_phase() {
    let (full, bare) = (pick("full", "A"), pick("no-containers", "A"));
    let each = |bound| verdict(Phases::Each, bound, full, bare);
    assert_eq!(each(Bound::AtLeast(0.8)), Verdict::Seen);
    assert_eq!(each(Bound::AtLeast(0.9)), Verdict::NotSeen);
    assert_eq!(each(Bound::AtMost(0.9)), Verdict::NotSeen);
    assert_eq!(verdict(Phases::Write, Bound::AtMost(0.9), full, bare), Verdict::Seen);
    assert_eq!(verdict(Phases::Read, Bound::Within(0.9, 1.1), full, bare), Verdict::Seen);
}

#[test]
fn phases_at_the_same_time_are_summed() {
    let (b, a) = (pick("no-containers", "B"), pick("no-containers", "A"));
    assert_eq!(verdict(Phases::SumWithMean, Bound::Within(1.29, 1.31), b, a), Verdict::Seen);
    assert_eq!(verdict(Phases::SumWithGreater, Bound::Within(1.29, 1.31), b, a), Verdict::Seen);
    assert_eq!(verdict(Phases::Sums, Bound::Within(0.64, 0.66), b, a), Verdict::Seen);
}

#[test]
fn what_was_not_measured_is_not_seen_and_what_needs_nodes_cannot_be() {
    let none = pick("no-index", "A");
    assert_eq!(verdict(Phases::Each, Bound::AtLeast(0.0), none, none), Verdict::NotSeen);
    assert_eq!(Rule::Cannot("why").judge(&files()).verdict, Verdict::CannotBeSeen);
}

#[test]
fn offsets_are_shares_of_the_wall_clock() {
    let rule = |bound| Rule::Offset { step: "modes", of: |run| run.off_f, bound };
    assert_eq!(rule(Bound::Within(0.1, 0.3)).judge(&files()).verdict, Verdict::Seen);
    assert_eq!(rule(Bound::AtMost(0.1)).judge(&files()).verdict, Verdict::NotSeen);
}

#[test]
fn every_figure_of_the_papers_has_its_place_on_the_page() {
    let papers = papers(&files()).unwrap();
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(&papers.page.html, options).unwrap();
    for item in &ITEMS {
        assert!(papers.page.html.contains(&format!("<h2>{}: ", item.label)), "{}", item.label);
    }
    let claims: usize = ITEMS.iter().map(|item| item.claims.len()).sum();
    assert_eq!(papers.seen + papers.not_seen + papers.cannot, claims);
    assert_eq!(papers.cannot, 3);
}

#[test]
fn items_name_steps_that_there_are() {
    let known = |name: &str| STEPS.iter().any(|step| step.name == name);
    for item in &ITEMS {
        assert!(item.steps.iter().all(|step| known(step)), "{}", item.label);
        for claim in item.claims {
            if let Rule::Ratio { first, second, .. } = &claim.rule {
                assert!(known(first.step) && known(second.step), "{}", claim.finding);
            }
        }
    }
}
