//! The how-to "Write a backend" and the example that it makes.
use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of a page that are Rust, without empty ones.
fn rust_of(page: &str) -> Vec<&str> {
    let blocks = page.split("\n```rust\n").skip(1);
    let blocks = blocks.filter_map(|after| after.split("\n```").next());
    blocks.flat_map(str::lines).filter(|line| !line.is_empty()).collect()
}

/// A reader who copies all blocks of the page has the example, which passes the suite.
#[test]
fn page_shows_the_whole_example() {
    let (page, example) =
        (read("docs/howto/backend.md"), read("crates/conformance/examples/backend.rs"));
    let wanted: Vec<_> = example.lines().filter(|line| !line.is_empty()).collect();
    let shown = rust_of(&page);
    let differs = shown.iter().zip(&wanted).position(|(shown, wanted)| shown != wanted);
    assert_eq!(differs.map(|line| (shown[line], wanted[line])), None);
    assert_eq!(shown.len(), wanted.len());
}
