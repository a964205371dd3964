use super::*;
use crate::plots::results::tests::results;
use serde_json::{Value, json};

/// Steps of Field I/O and segments.
const STEPS: [&str; 12] = [
    "segments",
    "segments-unpinned",
    "segments-posix",
    "segments-posix-beside",
    "processes",
    "modes",
    "sizes",
    "modes-posix",
    "modes-posix-beside",
    "sizes-posix",
    "segments-nodes",
    "modes-nodes",
];

fn run(mode: &str, pattern: &str, phase: &str, mib_s: f64) -> Value {
    json!({"mode": mode, "pattern": pattern, "contention": "low", "phase": phase, "class_array": "S1",
           "global_timing_bandwidth_mib_s": mib_s, "total_wall_clock_s": 1.0, "off_0": 0.01, "off_f": 0.2,
           "po_f": 0.1})
}

fn runs(factor: f64) -> Vec<Value> {
    [
        run("full", "A", "write", 80.0 * factor),
        run("full", "A", "read", 100.0 * factor),
        run("no-containers", "A", "write", 100.0 * factor),
        run("no-containers", "A", "read", 100.0 * factor),
        run("no-containers", "B", "write", 70.0 * factor),
        run("no-containers", "B", "read", 60.0 * factor),
    ]
    .to_vec()
}

fn step(name: &str, runs: &[Value]) -> PaperStep {
    PaperStep { name: name.to_owned(), command: format!("ran {name}"), results: results(runs) }
}

/// The same runs for every step.
fn steps() -> Vec<PaperStep> {
    STEPS.map(|name| step(name, &runs(1.0))).to_vec()
}

fn class_in(rule: Value, steps: &[PaperStep]) -> &'static str {
    let rule: Rule = serde_json::from_value(rule).unwrap();
    rule.judge(("", ""), &[], steps).class
}

fn class(rule: Value) -> &'static str {
    class_in(rule, &steps())
}

fn pick(step: &str, [mode, pattern]: [&str; 2]) -> Value {
    json!({"step": step, "mode": mode, "pattern": pattern})
}

fn ratio(phases: &str, bound: Value, first: [&str; 2], second: [&str; 2]) -> &'static str {
    let [first, second] = [first, second].map(|one| pick("modes", one));
    class(json!({"ratio": {"first": first, "second": second, "phases": phases, "bound": bound}}))
}

#[test]
fn a_finding_is_reproduced_if_its_rule_holds_for_every_phase() {
    let of = |phases, bound| ratio(phases, bound, ["full", "A"], ["no-containers", "A"]);
    assert_eq!(of("each", json!({"at_least": 0.8})), "reproduced");
    assert_eq!(of("each", json!({"at_least": 0.9})), "not-reproduced");
    assert_eq!(of("each", json!({"at_most": 0.9})), "not-reproduced");
    assert_eq!(of("write", json!({"at_most": 0.9})), "reproduced");
    assert_eq!(of("read", json!({"within": [0.9, 1.1]})), "reproduced");
}

#[test]
fn phases_at_the_same_time_are_summed() {
    let of = |phases, bound| ratio(phases, bound, ["no-containers", "B"], ["no-containers", "A"]);
    assert_eq!(of("sum_with_mean", json!({"within": [1.29, 1.31]})), "reproduced");
    assert_eq!(of("sum_with_greater", json!({"within": [1.29, 1.31]})), "reproduced");
    assert_eq!(of("sums", json!({"within": [0.64, 0.66]})), "reproduced");
}

#[test]
fn missing_measurements_are_not_judged() {
    let none = ["no-index", "A"];
    assert_eq!(ratio("each", json!({"at_least": 0.0}), none, none), "not-measured");
    assert_eq!(class(json!({"not_measured": {"why": "w", "command": "c"}})), "not-measured");
    // Reads alone do not decide about writes and reads.
    let only_reads = [step("modes", &[run("full", "A", "read", 1.0)])];
    let [first, second] = [["full", "A"]; 2].map(|one| pick("modes", one));
    let rule = json!({"ratio": {"first": first, "second": second, "phases": "each", "bound": {"at_least": 0.0}}});
    assert_eq!(class_in(rule, &only_reads), "not-measured");
}

#[test]
fn faster_of_two_media_is_compared() {
    let class = |beside: f64| {
        let steps = [
            step("modes", &runs(2.0)),
            step("modes-posix", &runs(1.0)),
            step("modes-posix-beside", &runs(beside)),
        ];
        let [first, second] = ["modes", "modes-posix"].map(|one| pick(one, ["full", "A"]));
        let rule = json!({"ratio": {"first": first, "second": second, "phases": "each", "bound": {"at_least": 1.2}}});
        class_in(rule, &steps)
    };
    assert_eq!((class(0.5), class(1.9)), ("reproduced", "not-reproduced"));
}

#[test]
fn offsets_are_percentages_of_the_wall_clock() {
    let rule = |of: &str, bound: Value| {
        class(json!({"offset": {"step": "modes", "of": [of], "pattern": "A", "bound": bound}}))
    };
    assert_eq!(rule("off_f", json!({"within": [10, 30]})), "reproduced");
    assert_eq!(rule("off_f", json!({"at_most": 10})), "not-reproduced");
    assert_eq!(rule("po_f", json!({"within": [9.9, 10.1]})), "reproduced");
    assert_eq!(rule("po0", json!({"at_most": 100})), "not-measured");
}

#[test]
fn every_figure_of_the_papers_has_its_place_on_the_page() {
    let papers = page(&steps(), false).unwrap();
    let html = papers.page.html().unwrap();
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&html, options).unwrap();
    let items = items().unwrap();
    for (number, item) in (1..).zip(&items) {
        assert!(html.contains(&format!("<h2 id=\"s{number}\">{}: ", item.label)), "{}", item.label);
        assert!(
            html.contains(&format!("<a href=\"#s{number}\">{}: ", item.label)),
            "{}",
            item.label
        );
    }
    let claims: usize = items.iter().map(|item| item.claims.len()).sum();
    assert_eq!(papers.verdicts.unwrap().iter().sum::<usize>(), claims);
    let ids: Vec<_> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    let links = document.descendants().filter_map(|node| node.attribute("href"));
    for link in links {
        assert!(ids.contains(&link.trim_start_matches('#')), "{link}");
    }
}

#[test]
fn quick_pages_have_no_verdicts_and_name_the_commands_that_ran() {
    let papers = page(&steps(), true).unwrap();
    assert_eq!(papers.verdicts, None);
    let html = papers.page.html().unwrap();
    assert!(html.contains("Quick run"));
    for text in
        ["reproduced here", "class=\"verdict", "Rule: ", ">not measured<", "<th scope=\"col\">here"]
    {
        assert!(!html.contains(text), "{text}");
    }
    assert!(html.contains("Run here: ran modes"));
    let whole = page(&steps(), false).unwrap().page.html().unwrap();
    assert!(whole.contains("class=\"verdict") && !whole.contains("Quick run"));
}

#[test]
fn findings_name_steps_and_charts_that_there_are() {
    for item in items().unwrap() {
        let own: Vec<_> = item.files.iter().map(|file| file.0.as_str()).collect();
        let is_step = |step: &str| crate::paper::step_names().any(|name| name == step);
        assert!(
            item.steps.iter().map(String::as_str).chain(own.iter().copied()).all(is_step),
            "{}",
            item.label
        );
        let is_chart = |name: &String| {
            ["offsets", "timeline", "none", RATES].contains(&name.as_str())
                || SWEEPS.iter().any(|sweep| sweep.stem == name)
        };
        assert!(item.charts.iter().all(is_chart), "{}", item.label);
        for claim in &item.claims {
            assert!(claim.rule.steps().into_iter().all(is_step), "{}", claim.finding);
            assert!(!claim.paper.is_empty(), "{}", claim.finding);
        }
    }
}

#[test]
fn documented_findings_are_those_of_the_page() {
    let document = include_str!("../../../../../docs/paper.md");
    for claim in items().unwrap().iter().flat_map(|item| &item.claims) {
        let row = format!("| {} | {} |", claim.finding.trim_end_matches('.'), claim.paper);
        assert!(document.contains(&row), "{row}");
    }
}

#[test]
fn every_step_is_on_the_page() {
    let items = items().unwrap();
    for name in crate::paper::step_names() {
        let is_used = |item: &Item| {
            item.steps.iter().any(|step| step == name)
                || item.files.iter().any(|file| file.0 == name)
        };
        assert!(name == TENSORS || items.iter().any(is_used), "{name}");
    }
}

/// Two phases of each step on files, three times as fast as tmpfs, and nine times as fast as the disk but for one step.
fn applications(slow: &str) -> Vec<PaperStep> {
    let mut names: Vec<_> =
        items().unwrap().into_iter().flat_map(|item| item.files).map(|file| file.0).collect();
    names.dedup();
    let all = names.into_iter().map(|name| {
        let disk = if name == slow { 0.5 } else { 9.0 };
        let (workload, phases) = match name.contains("mdtest") {
            true => ("mdtest", ["file-creation", "file-removal", "tree-creation"]),
            false => ("ior", ["write", "read", "tree-removal"]),
        };
        let runs = phases.map(|phase| {
            json!({"store": "DFS", "workload": workload, "phase": phase, "ratio_to": {"tmpfs": 3.0, "ext4": disk},
                   "rate": {"mean": 7.0, "min": 7.0, "max": 7.0, "stddev": 0.0, "median": 7.0}})
        });
        step(&name, &runs)
    });
    all.collect()
}

fn sections_of_applications(steps: &[PaperStep]) -> Vec<Section> {
    let sections = page(steps, false).unwrap().page.sections.into_iter();
    sections.filter(|section| section.title.starts_with("2023, applications")).collect()
}

fn classes(sections: &[Section]) -> Vec<&'static str> {
    sections.iter().flat_map(|section| &section.findings).map(|one| one.class).collect()
}

#[test]
fn work_on_files_is_judged_by_the_faster_of_the_other_file_systems() {
    let drawn = sections_of_applications(&applications("io500-ior-hard"));
    assert_eq!(drawn.len(), 3);
    for section in &drawn {
        let figure = &section.figures[0];
        assert!(figure.svg.contains("times ext4") && figure.svg.contains("times tmpfs"));
        assert!(figure.sentence.contains("7 MiB/s"), "{}", figure.sentence);
        assert!(section.notes.iter().any(|note| note.starts_with("Run here: ran ")));
    }
    let expected = [
        "reproduced",
        "not-reproduced",
        "reproduced",
        "not-measured",
        "reproduced",
        "not-measured",
        "reproduced",
        "reproduced",
        "not-measured",
    ];
    assert_eq!(classes(&drawn), expected);
    let evidence = &drawn[0].findings[1];
    assert!(evidence.here.contains("ior hard write (of ext4) 0.5"), "{}", evidence.here);
}

#[test]
fn every_phase_that_is_measured_is_drawn() {
    let drawn = sections_of_applications(&applications(""));
    let sentence = &drawn[0].figures[0].sentence;
    assert!(
        sentence.contains("mdtest hard remove") && sentence.contains("mdtest easy create"),
        "{sentence}"
    );
    assert!(!sentence.contains("tree"), "{sentence}");
}

#[test]
fn work_on_files_without_measurements_is_not_measured() {
    let drawn = sections_of_applications(&[]);
    assert!(classes(&drawn).iter().all(|class| *class == "not-measured"));
    assert!(drawn.iter().all(|section| section.figures.is_empty()));
}
