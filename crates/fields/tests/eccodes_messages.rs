//! Creates messages with ecCodes and reads them back. Without ecCodes each test reports that it is skipped.
use esker_fields::eccodes::Library;
use esker_types::ErrorKind;
use std::path::Path;

/// ecCodes; if it is missing, `None` after a line that says why.
fn library() -> Option<&'static Library> {
    let found = Library::shared();
    found.inspect_err(|error| esker_testing::skip(error)).ok()
}

#[test]
fn a_created_message_returns_the_values_that_were_set() {
    let Some(library) = library() else { return };
    println!("ecCodes {} from {}", library.version(), library.file().display());
    for (sample, edition) in [("GRIB1", 1), ("GRIB2", 2)] {
        let mut draft = library.sample(sample).unwrap();
        draft.set_long("date", 20_200_131).unwrap();
        draft.set_text("typeOfLevel", "isobaricInhPa").unwrap();
        draft.set_double("level", 850.0).unwrap();
        let count = draft.values().unwrap().len();
        let values: Vec<_> = (0..count).map(|index| index as f64).collect();
        draft.set_values(&values).unwrap();

        let message = draft.try_clone().unwrap().message().unwrap();
        let field = library.field(&message).unwrap();
        assert_eq!(field.edition().unwrap(), edition);
        assert_eq!(field.long("level").unwrap(), 850);
        let read = field.values().unwrap();
        assert_eq!(read.len(), count);
        assert!(read.iter().zip(&values).all(|(read, set)| (read - set).abs() < 0.1));
        let keys = field.keys("mars").unwrap();
        assert!(keys.contains(&("date".to_owned(), "20200131".to_owned())), "{keys:?}");
        assert!(keys.contains(&("levelist".to_owned(), "850".to_owned())), "{keys:?}");
    }
}

#[test]
fn errors_name_the_key_or_sample() {
    let Some(library) = library() else { return };
    let mut draft = library.sample("GRIB2").unwrap();
    let error = draft.text("nosuchkey").unwrap_err();
    assert_eq!((error.kind(), error.message().contains("nosuchkey")), (ErrorKind::NotFound, true));
    assert_eq!(draft.set_long("nosuchkey", 1).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(draft.text("a\0b").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(library.sample("nosuchsample").unwrap_err().kind(), ErrorKind::NotFound);
    for bytes in [&b"no message"[..], b"", b"GRI", &[b'G'; 100]] {
        assert_eq!(library.field(bytes).unwrap_err().kind(), ErrorKind::Invalid, "{bytes:?}");
    }
}

#[test]
fn a_truncated_message_is_an_error() {
    let Some(library) = library() else { return };
    for sample in ["GRIB1", "GRIB2"] {
        let message = library.sample(sample).unwrap().message().unwrap();
        for end in [8, 16, 40, message.len() / 2, message.len() - 5] {
            let values = library.field(&message[..end]).and_then(|field| field.values());
            assert_eq!(values.unwrap_err().kind(), ErrorKind::Invalid, "{end} bytes of {sample}");
        }
    }
}

#[test]
fn several_threads_can_use_the_library() {
    let Some(library) = library() else { return };
    std::thread::scope(|scope| {
        for number in 1..=4 {
            scope.spawn(move || {
                for step in 0..25 {
                    let mut draft = library.sample("GRIB2").unwrap();
                    draft.set_long("step", step * number).unwrap();
                    let message = draft.message().unwrap();
                    let field = library.field(&message).unwrap();
                    assert_eq!(field.text("step").unwrap(), (step * number).to_string());
                }
            });
        }
    });
}

#[test]
fn a_missing_library_says_what_to_install() {
    let error = Library::load(Path::new("/nonexistent/libeccodes.so")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    for part in ["/nonexistent/libeccodes.so", "libeccodes0", "eccodeslib", "ESKER_ECCODES"] {
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn another_library_is_rejected() {
    let error = Library::load(Path::new("libc.so.6")).unwrap_err();
    assert!(error.message().contains("codes_get_api_version"), "{error}");
}
