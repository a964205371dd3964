//! `esker bench compare`: stores in turn, the limit beside them, and nothing left behind.
use crate::support::Site;
use serde_json::{Value, json};

fn compare(site: &Site, more: &[&str]) -> Value {
    let dir = site.dir.display().to_string();
    let common = ["bench", "compare", "--path", &dir, "--ops", "30", "--rounds", "2", "--verify"];
    let text = site.ok(&[&common[..], more, &["--json", "-"]].concat());
    assert_eq!(std::fs::read_dir(&site.dir).unwrap().count(), 0);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn stores_are_compared_with_the_limit_beside_them() {
    let site = Site::in_memory();
    for more in [
        &["--stores", "native,files", "--size", "8K", "--procs", "1,2"][..],
        &["--stores", "files,native", "--workload", "kv", "--size", "64", "--procs", "2,1"],
    ] {
        let report = compare(&site, more);
        assert_eq!(report["schema"], json!(1));
        let lines = report["compared"].as_array().unwrap();
        assert_eq!(lines.len(), 4);
        for line in lines {
            assert!(line["limit_mib_s"].is_f64(), "{line}");
            assert!(line["first_store_over"]["files"].is_f64(), "{line}");
        }
        let stores: Vec<_> =
            report["runs"].as_array().unwrap().iter().map(|run| &run["store"]).collect();
        assert_eq!(stores.len(), 8);
        assert!(stores.contains(&&json!("native")) && stores.contains(&&json!("files")));
        assert_eq!(report["runs"][0]["repeat"]["count"], json!(2));
    }
}

#[test]
fn a_comparison_can_be_drawn() {
    let site = Site::in_memory();
    let report = compare(&site, &["--stores", "native,files", "--size", "4K"]).to_string();
    let (file, page) = (site.file("c.json", report.as_bytes()), site.dir.join("c.html"));
    site.ok(&["bench", "report", &file, "-o", page.to_str().unwrap()]);
    assert!(std::fs::read_to_string(page).unwrap().contains("Stores side by side"));
}

#[test]
fn invalid_comparisons_are_refused() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let kind =
        |more: &[&str]| site.fails(&[&["bench", "compare", "--path", &dir][..], more].concat()).0;
    assert_eq!(kind(&["--stores", "native"]), "invalid");
    assert_eq!(kind(&["--stores", "native,native"]), "invalid");
    assert_eq!(
        kind(&["--stores", "files,files:/tmp", "--workload", "field-io", "--pattern", "B"]),
        "invalid"
    );
    assert_eq!(kind(&["--stores", "files,files:/no/such", "--ops", "1"]), "io");
    assert_eq!(std::fs::read_dir(&site.dir).unwrap().count(), 0);
}
