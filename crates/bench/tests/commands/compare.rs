//! `esker bench compare`: stores in turn, the limit beside them, and nothing left behind.
use crate::bench_site::{BenchSite, runs};
use serde_json::{Value, json};

fn compare(bench: &BenchSite, stores: &str) -> Value {
    let common = "--path $DIR --ops 30 --rounds 2 --verify";
    let report = bench.report(&format!("compare {common} --stores {stores}"));
    bench.assert_left(&[]);
    report
}

#[test]
fn stores_are_compared_with_the_limit_beside_them() {
    let bench = BenchSite::new();
    for stores in
        ["native,files --size 8K --procs 1,2", "files,native --workload kv --size 64 --procs 2,1"]
    {
        let report = compare(&bench, stores);
        assert_eq!(report["schema"], json!(1));
        let lines = report["compared"].as_array().unwrap();
        assert_eq!(lines.len(), 4);
        for line in lines {
            assert!(line["limit_mib_s"]["files"].is_f64(), "{line}");
            assert!(line["first_store_over"]["files"].is_f64(), "{line}");
        }
        let stores: Vec<_> = runs(&report).iter().map(|run| &run["store"]).collect();
        assert_eq!(stores.len(), 8);
        assert!(stores.contains(&&json!("native")) && stores.contains(&&json!("files")));
        assert_eq!(report["runs"][0]["repeat"]["count"], json!(2));
    }
}

#[test]
fn a_comparison_can_be_drawn() {
    let bench = BenchSite::new();
    let report = compare(&bench, "native,files --size 4K");
    bench.site.file("c.json", report.to_string().as_bytes());
    bench.ok("report $DIR/c.json -o $DIR/c.html");
    let page = std::fs::read_to_string(bench.path("c.html")).unwrap();
    assert!(page.contains("Stores side by side"));
}

/// A batch script of Slurm is rank 0 of the ranks that `srun` could start.
#[test]
fn batch_script_of_several_tasks_can_compare() {
    let bench = BenchSite::new();
    let small = "--size 4K --ops 4 --rounds 1 --stores native,files";
    let mut command = bench.command(&format!("compare --path $DIR --workload field-io {small}"));
    let command = command.env("SLURM_PROCID", "0").env("SLURM_NTASKS", "4");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn invalid_comparisons_are_refused() {
    let bench = BenchSite::new();
    let kind = |stores: &str| bench.error_kind(&format!("compare --path $DIR --stores {stores}"));
    assert_eq!(kind("native"), "invalid");
    assert_eq!(kind("native,native"), "invalid");
    assert_eq!(kind("files,files:/tmp --workload field-io --pattern B"), "invalid");
    assert_eq!(kind("files,files:/no/such --ops 1"), "io");
    assert_eq!(kind("native,files --pattern A"), "invalid");
    let modes = "compare --workload field-io --mode full,no-index";
    assert!(bench.usage_error(modes).contains("full,no-index"));
    bench.assert_left(&[]);
}
