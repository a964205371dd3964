use super::*;
use crate::plots::results::tests::results;
use serde_json::{Value, json};

fn run(mode: &str, pattern: &str, phase: &str, mib_s: f64) -> Value {
    json!({"mode": mode, "pattern": pattern, "contention": "low", "phase": phase, "class_array": "S1",
           "global_timing_bandwidth_mib_s": mib_s, "total_wall_clock_s": 1.0, "off_0": 0.01, "off_f": 0.2,
           "po_f": 0.1})
}

fn runs(factor: f64) -> [Value; 6] {
    [
        run("full", "A", "write", 80.0 * factor),
        run("full", "A", "read", 100.0 * factor),
        run("no-containers", "A", "write", 100.0 * factor),
        run("no-containers", "A", "read", 100.0 * factor),
        run("no-containers", "B", "write", 70.0 * factor),
        run("no-containers", "B", "read", 60.0 * factor),
    ]
}

fn step(name: &str, runs: &[Value]) -> PaperStep {
    PaperStep { name: name.to_owned(), command: format!("ran {name}"), results: results(runs) }
}

/// The same runs for every step.
fn steps() -> Vec<PaperStep> {
    crate::paper::step_names().map(|name| step(name, &runs(1.0))).collect()
}

/// Verdict of a rule.
fn class(rule: Value, bound: Value, steps: &[PaperStep]) -> &'static str {
    let claim = json!({"finding": "", "paper": "", "rule": rule, "bound": bound});
    serde_json::from_value::<Claim>(claim).unwrap().judge(steps, &[]).class
}

/// A rule on the ratio between two selections of runs. Each selection has its step, and its mode and pattern in
/// `picks`.
fn ratio(steps: [&str; 2], phases: &str, picks: [[&str; 2]; 2]) -> Value {
    let pick = |number: usize| {
        let ([mode, pattern], step) = (picks[number], steps[number]);
        json!({"step": step, "mode": mode, "pattern": pattern})
    };
    json!({"ratio": {"first": pick(0), "second": pick(1), "phases": phases}})
}

#[test]
fn a_finding_is_reproduced_if_its_rule_holds_for_every_phase() {
    let of = |phases, bound| {
        let rule = ratio(["modes"; 2], phases, [["full", "A"], ["no-containers", "A"]]);
        class(rule, bound, &steps())
    };
    assert_eq!(of("each", json!({"at_least": 0.8})), "reproduced");
    assert_eq!(of("each", json!({"at_least": 0.9})), "not-reproduced");
    assert_eq!(of("each", json!({"at_most": 0.9})), "not-reproduced");
    assert_eq!(of("write", json!({"at_most": 0.9})), "reproduced");
    assert_eq!(of("read", json!({"within": [0.9, 1.1]})), "reproduced");
}

#[test]
fn phases_at_the_same_time_are_summed() {
    for (phases, bound) in [
        ("sum_with_mean", [1.29, 1.31]),
        ("sum_with_greater", [1.29, 1.31]),
        ("sums", [0.64, 0.66]),
    ] {
        let rule = ratio(["modes"; 2], phases, [["no-containers", "B"], ["no-containers", "A"]]);
        assert_eq!(class(rule, json!({"within": bound}), &steps()), "reproduced", "{phases}");
    }
}

#[test]
fn missing_measurements_are_not_judged() {
    let any = json!({"at_least": 0.0});
    let none = ratio(["modes"; 2], "each", [["no-index", "A"]; 2]);
    assert_eq!(class(none, any.clone(), &steps()), "not-measured");
    let rule = json!({"not_measured": {"why": "w", "command": "c"}});
    assert_eq!(class(rule, Value::Null, &steps()), "not-measured");
    // Reads alone do not decide about writes and reads.
    let only_reads = [step("modes", &[run("full", "A", "read", 1.0)])];
    let rule = ratio(["modes"; 2], "each", [["full", "A"]; 2]);
    assert_eq!(class(rule, any, &only_reads), "not-measured");
}

#[test]
fn faster_of_two_media_is_compared() {
    for (beside, expected) in [(0.5, "reproduced"), (1.9, "not-reproduced")] {
        let steps = [
            step("modes", &runs(2.0)),
            step("modes-posix", &runs(1.0)),
            step("modes-posix-beside", &runs(beside)),
        ];
        let rule = ratio(["modes", "modes-posix"], "each", [["full", "A"]; 2]);
        assert_eq!(class(rule, json!({"at_least": 1.2}), &steps), expected);
    }
}

#[test]
fn offsets_are_percentages_of_the_wall_clock() {
    for (of, bound, expected) in [
        ("off_f", json!({"within": [10, 30]}), "reproduced"),
        ("off_f", json!({"at_most": 10}), "not-reproduced"),
        ("po_f", json!({"within": [9.9, 10.1]}), "reproduced"),
        ("po0", json!({"at_most": 100}), "not-measured"),
    ] {
        let rule = json!({"offset": {"step": "modes", "of": [of], "pattern": "A"}});
        assert_eq!(class(rule, bound, &steps()), expected, "{of}");
    }
}

#[test]
fn every_figure_of_the_papers_is_on_the_page() {
    let papers = page(&steps(), false).unwrap();
    let html = papers.page.html().unwrap();
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&html, options).unwrap();
    let items = findings().unwrap().figures;
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
fn findings_name_existing_steps_and_charts() {
    for item in findings().unwrap().figures {
        let is_step = |step: &str| crate::paper::step_names().any(|name| name == step);
        let mut steps = item.steps.iter().chain(item.files.iter().map(|file| &file.0));
        assert!(steps.all(|step| is_step(step)), "{}", item.label);
        for kind in &item.charts {
            let Charts::Sweep(name) = kind else { continue };
            assert!(sweeps().unwrap().iter().any(|sweep| sweep.stem == *name), "{name}");
        }
        for claim in &item.claims {
            assert!(claim.rule.steps().into_iter().all(is_step), "{}", claim.finding);
            assert!(!claim.paper.is_empty(), "{}", claim.finding);
        }
    }
}

#[test]
fn documented_findings_are_those_of_the_page() {
    let document = include_str!("../../../../../docs/paper.md");
    for claim in findings().unwrap().figures.iter().flat_map(|item| &item.claims) {
        let row = format!("| {} | {} |", claim.finding.trim_end_matches('.'), claim.paper);
        assert!(document.contains(&row), "{row}");
    }
}

#[test]
fn every_step_is_on_the_page() {
    let items = findings().unwrap().figures;
    for name in crate::paper::step_names() {
        let is_used = |item: &Item| {
            item.steps.iter().any(|step| step == name)
                || item.files.iter().any(|file| file.0 == name)
        };
        assert!(items.iter().any(is_used), "{name}");
    }
}

/// Steps with results of files, which are three times as fast as tmpfs, and nine times as fast as the disk. Only the
/// step `slow` is half as fast as the disk.
fn applications(slow: &str) -> Vec<PaperStep> {
    let mut names: Vec<_> = findings()
        .unwrap()
        .figures
        .into_iter()
        .flat_map(|item| item.files)
        .map(|file| file.0)
        .collect();
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
