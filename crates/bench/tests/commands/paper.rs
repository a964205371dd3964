//! `esker bench paper`: a page of real runs, and nothing left behind.
use crate::support::Site;
use serde_json::json;

#[test]
fn quick_run_measures_everything_and_judges_nothing() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let page = site.dir.join("papers.html");
    let answer = site.json(&[
        "bench",
        "paper",
        "--quick",
        "--size",
        "1GiB",
        "--dir",
        &dir,
        "-o",
        page.to_str().unwrap(),
    ]);
    assert!(answer["figures"].as_u64().unwrap() > 10, "{answer}");
    assert_eq!((&answer["quick"], &answer["reproduced"]), (&json!(true), &json!(null)));
    let html = std::fs::read_to_string(&page).unwrap();
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
    assert_eq!(std::fs::read_dir(&site.dir).unwrap().count(), 1);
}

#[test]
fn space_that_is_too_small_is_refused() {
    let refused = Site::new().run(&["bench", "paper", "--size", "100MiB"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("at least 1 GiB"), "{said}");
}

#[test]
fn a_page_that_cannot_be_written_is_told_of_first_and_a_failure_leaves_none() {
    let site = Site::new();
    let page = site.dir.join("papers.html");
    let to = |page: &str| site.fails(&["bench", "paper", "--dir", "/no/such", "-o", page]).0;
    assert_eq!(to("/no/such/papers.html"), "not_found");
    assert_eq!(to(page.to_str().unwrap()), "not_found");
    assert!(!page.exists());
}
