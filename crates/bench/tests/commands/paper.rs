//! `esker bench paper`: a page of real runs, and nothing left behind.
use crate::support::Site;
use serde_json::json;

#[test]
fn every_figure_is_measured_and_judged() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let page = site.dir.join("papers.html");
    let answer =
        site.json(&["bench", "paper", "--quick", "--dir", &dir, "-o", page.to_str().unwrap()]);
    assert!(answer["figures"].as_u64().unwrap() > 10, "{answer}");
    assert_eq!(answer["cannot_be_seen"], json!(6));
    let html = std::fs::read_to_string(&page).unwrap();
    for text in [
        "2023, Table I",
        "2023, Fig. 8",
        "2022, Fig. 4",
        "2018, Fig. 8",
        "2023, applications, Fig. 3",
        "BD-CATS read",
        "I/O timeline",
        "write + read",
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert_eq!(std::fs::read_dir(&site.dir).unwrap().count(), 1);
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
