//! `esker bench report`: from a benchmark to a page, and what is refused.
use crate::support::Site;
use serde_json::json;

#[test]
fn a_benchmark_becomes_a_page() {
    let site = Site::in_memory();
    let path = |name: &str| site.dir.join(name).display().to_string();
    let (results, page, plots) = (path("r.json"), path("r.html"), path("plots"));
    let dir = site.dir.display().to_string();
    let wanted =
        ["--procs", "1,2", "--size", "4K", "--ops", "20", "--rounds", "1", "--targets", "2"];
    site.ok(&[&["bench", "array", "--path", &dir, "--json", &results][..], &wanted].concat());
    let made = ["bench", "report", &results, "-o", &page, "--svg", &plots, "--title", "A <&> B"];
    let answer = site.json(&made);
    assert_eq!((&answer["figures"], &answer["report"]), (&json!(1), &json!(page)));
    let html = std::fs::read_to_string(&page).unwrap();
    for text in ["<h1>A &lt;&amp;&gt; B</h1>", "r.json", "Bandwidth against processes", "</html>"] {
        assert!(html.contains(text), "{text}");
    }
    let plot = std::fs::read_to_string(answer["plots"][0].as_str().unwrap()).unwrap();
    assert!(plot.starts_with("<svg ") && html.contains(&plot));
    let left: Vec<_> =
        std::fs::read_dir(&site.dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn invalid_result_file_is_named_and_no_page_is_written() {
    let site = Site::new();
    let page = site.dir.join("r.html");
    let refused = |file: &str| {
        let arguments = ["bench", "report", file, "-o", page.to_str().unwrap()];
        let envelope = site.failure(&arguments);
        assert!(envelope["error"]["message"].as_str().unwrap().contains(file), "{envelope}");
        assert!(!page.exists());
        site.fails(&arguments).0
    };
    assert_eq!(refused(&site.file("text.json", b"no json")), "invalid");
    assert_eq!(refused(&site.file("odd.json", b"{\"a\": 1}")), "invalid");
    assert_eq!(refused(&site.file("newer.json", b"{\"schema\": 99}")), "invalid");
    assert_eq!(refused("/no/such.json"), "not_found");
}
