//! `esker bench paper`: a page of real runs, and nothing left behind.
use crate::bench_site::BenchSite;
use serde_json::json;

#[test]
fn quick_run_measures_everything_and_judges_nothing() {
    let bench = BenchSite::new();
    let answer = bench.json("paper --quick --size 1GiB --dir $DIR -o $DIR/papers.html");
    assert!(answer["figures"].as_u64().unwrap() > 10, "{answer}");
    assert_eq!((&answer["quick"], &answer["reproduced"]), (&json!(true), &json!(null)));
    let html = std::fs::read_to_string(bench.path("papers.html")).unwrap();
    for text in [
        "Quick run",
        "2023, Table I",
        "2023, Fig. 8",
        "2022, Fig. 4",
        "2018, Fig. 8",
        "2023, applications, Fig. 3",
        "2018, GekkoFS, Fig. 3",
        "I/O timeline",
        "write + read",
        // The words of the command that ran, not those of the whole run.
        "esker bench segments --procs 1,2 --segments 4 --iterations 1 --repeat 1 (a native pool)",
    ] {
        assert!(html.contains(text), "{text}");
    }
    for text in ["class=\"verdict", "reproduced here", "--segments 50"] {
        assert!(!html.contains(text), "{text}");
    }
    bench.assert_left(&["papers.html"]);
}

#[test]
fn space_that_is_too_small_is_refused() {
    let said = BenchSite::new().usage_error("paper --size 100MiB");
    assert!(said.contains("at least 1 GiB"), "{said}");
}

#[test]
fn failed_paper_leaves_no_page() {
    let bench = BenchSite::new();
    let to = |page: &str| bench.error_kind(&format!("paper --dir /no/such -o {page}"));
    assert_eq!(to("/no/such/papers.html"), "not_found");
    assert_eq!(to("$DIR/papers.html"), "not_found");
    bench.assert_left(&[]);
}
