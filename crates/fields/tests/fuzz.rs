//! Fuzzing of all parsers of the field store, with mutations of nearly valid input (`tests/corpus`).
use esker_fields::grib::{Fields, Messages, Scan};
use esker_fields::request::Request;
use esker_fields::{Date, Key, Schema};
use esker_testing::fuzz;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn fuzz_schemas() {
    fuzz("schema", &[], |bytes| {
        if let Ok(schema) = Schema::parse(&text(bytes), "fuzz") {
            assert!(Schema::parse(schema.text(), "fuzz").is_ok());
        }
    });
}

#[test]
fn fuzz_requests() {
    let schema = Schema::default_mars().expect("the default schema");
    let today = Date::new(2024, 2, 29).expect("a day");
    fuzz("request", &[], |bytes| {
        for request in Request::parse_all(&text(bytes)).into_iter().flatten() {
            let _ = request.expand(&schema, today);
        }
    });
}

#[test]
fn fuzz_keys() {
    fuzz("key", &[], |bytes| {
        if let Ok(key) = Key::parse(&text(bytes)) {
            assert_eq!(Key::parse(key.as_str()).expect("its own spelling"), key);
        }
    });
}

#[test]
fn fuzz_grib_messages() {
    fuzz("grib", &[], |bytes| {
        let mut found = 0;
        for message in Scan::new(bytes).flatten() {
            found += 1;
            Fields::split(message.bytes).for_each(drop);
        }
        assert_eq!(Messages::new(bytes).flatten().count(), found);
    });
}
