//! Almost valid pool URLs (`tests/corpus/url`).
use esker::PosixUrl;
use esker_testing::fuzz;

#[test]
fn fuzz_urls() {
    fuzz("url", &[], |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = PosixUrl::parse(&text);
        #[cfg(feature = "rados")]
        let _ = esker::RadosUrl::parse(&text);
    });
}
