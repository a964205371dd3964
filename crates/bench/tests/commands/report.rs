//! `esker bench report`: from a benchmark to a page, and what is refused.
use crate::bench_site::BenchSite;
use serde_json::json;

#[test]
fn a_benchmark_becomes_a_page() {
    let bench = BenchSite::new();
    let small = "--procs 1,2 --size 4K --ops 20 --rounds 1 --targets 2";
    bench.ok(&format!("array --path $DIR {small} --json $DIR/r.json"));
    let [results, page, plots] =
        ["r.json", "r.html", "plots"].map(|name| bench.path(name).display().to_string());
    let made = ["bench", "report", &results, "-o", &page, "--svg", &plots, "--title", "A <&> B"];
    let answer = bench.site.json(&made);
    assert_eq!((&answer["figures"], &answer["report"]), (&json!(1), &json!(page)));
    let html = std::fs::read_to_string(&page).unwrap();
    for text in ["<h1>A &lt;&amp;&gt; B</h1>", "r.json", "Bandwidth against processes", "</html>"] {
        assert!(html.contains(text), "{text}");
    }
    let plot = std::fs::read_to_string(answer["plots"][0].as_str().unwrap()).unwrap();
    assert!(plot.starts_with("<svg ") && html.contains(&plot));
    bench.assert_left(&["r.json", "r.html", "plots"]);
}

#[test]
fn invalid_result_file_is_named_and_no_page_is_written() {
    let bench = BenchSite::new();
    let kind = |file: &str, text: &[u8]| {
        let command = format!("report $DIR/{file} -o $DIR/r.html");
        if !text.is_empty() {
            bench.site.file(file, text);
        }
        assert!(bench.message(&command).contains(file));
        assert!(!bench.path("r.html").exists());
        bench.error_kind(&command)
    };
    assert_eq!(kind("text.json", b"no json"), "invalid");
    assert_eq!(kind("odd.json", b"{\"a\": 1}"), "invalid");
    assert_eq!(kind("newer.json", b"{\"schema\": 99}"), "invalid");
    assert_eq!(kind("missing.json", b""), "not_found");
}
