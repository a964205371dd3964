//! Messages with several fields are split like ecCodes splits them.
#![allow(clippy::unwrap_used)]
use esker_fields::eccodes::Library;
use esker_fields::grib::{EcCodes, Fields, Identify, Learned, Scan};
use std::borrow::Cow;

/// The sections of a message of edition 2, by number.
fn sections(message: &[u8]) -> [&[u8]; 8] {
    let (mut sections, mut at) = ([&[][..]; 8], 16);
    while at < message.len() - 4 {
        let length = u32::from_be_bytes(message[at..at + 4].try_into().unwrap()) as usize;
        sections[usize::from(message[at + 4])] = &message[at..at + length];
        at += length;
    }
    sections
}

/// A message of these sections.
fn message(sections: &[&[u8]]) -> Vec<u8> {
    let body = sections.concat();
    [b"GRIB\0\0\0\x02", &(body.len() as u64 + 20).to_be_bytes()[..], &body, b"7777"].concat()
}

/// A field that ecCodes makes on a grid of 16 by 31 points. With `missing`, some points have no value. With `local`,
/// the message has a section 2.
fn made(library: &Library, step: i64, missing: bool, local: bool) -> Vec<u8> {
    let mut draft = library.sample("regular_ll_pl_grib2").unwrap();
    if local {
        draft.set_long("setLocalDefinition", 1).unwrap();
    }
    draft.set_long("step", step).unwrap();
    draft.set_long("bitmapPresent", i64::from(missing)).unwrap();
    let values = 0..draft.values().unwrap().len() as i64;
    let values: Vec<_> =
        values.map(|i| if missing && i % 7 == 0 { 9999.0 } else { (i * step) as f64 }).collect();
    draft.set_values(&values).unwrap();
    draft.message().unwrap()
}

/// The fields of a message, which must all be complete.
fn split(message: &[u8]) -> Vec<Cow<'_, [u8]>> {
    Fields::split(message).map(|field| field.unwrap()).collect()
}

#[test]
fn fields_are_split_like_in_eccodes() {
    let found = Library::shared().inspect_err(|error| esker_testing::skip(error));
    let Ok(library) = found else { return };
    let [one, two, three] = [(6, true, true), (12, true, false), (18, false, true)]
        .map(|(step, missing, local)| made(library, step, missing, local));
    let [a, b, c] = [&one, &two, &three].map(|message| sections(message));
    let before = [0, 0, 0, 6, 6, 254];
    let repeated: [Vec<&[u8]>; 5] = [
        [&a[1..8], &b[4..8]].concat(),
        [&a[1..8], &b[3..8], &c[4..8]].concat(),
        [&c[1..8], &a[2..8], &b[4..8]].concat(),
        [&a[1..8], &b[4..6], &[&before], &b[7..8], &c[4..8]].concat(),
        [&c[1..8], &a[4..8], &b[4..6], &[&before], &b[7..8]].concat(),
    ];
    for (index, parts) in repeated.iter().enumerate() {
        let message = message(parts);
        assert_eq!(Scan::new(&message).filter(Result::is_ok).count(), 1);
        let fields = split(&message);
        let expected = library.split(&message).unwrap();
        assert_eq!(fields.len(), expected.len(), "{index}");
        for (field, expected) in fields.iter().zip(&expected) {
            assert!(**field == **expected, "{index}");
            assert!(library.field(field).unwrap().values().is_ok());
        }
    }
}

#[test]
fn a_local_section_may_come_late() {
    // ecCodes splits this message into messages that it cannot read.
    let section = |number: u8, octet: u8| [0, 0, 0, 6, number, octet];
    let octets = [
        (1, 1),
        (3, 1),
        (4, 1),
        (5, 1),
        (6, 255),
        (7, 1),
        (2, 2),
        (3, 2),
        (4, 2),
        (5, 2),
        (6, 255),
        (7, 2),
    ];
    let all: Vec<_> = octets.iter().map(|(number, octet)| section(*number, *octet)).collect();
    let parts: Vec<_> = all.iter().map(|section| &section[..]).collect();
    let second = [&parts[..1], &parts[6..]].concat();
    assert_eq!(split(&message(&parts)), [message(&parts[..6]), message(&second)]);
}

#[test]
fn each_field_has_its_own_identity() {
    let found = Library::shared().inspect_err(|error| esker_testing::skip(error));
    let Ok(library) = found else { return };
    let [one, two] = [6, 12].map(|step| made(library, step, false, false));
    let both = message(&[&sections(&one)[1..8], &sections(&two)[4..8]].concat());
    let learned = Learned::new(EcCodes::new().unwrap());
    let steps: Vec<_> = split(&both)
        .iter()
        .map(|field| learned.identify(field).unwrap().get("step").unwrap().to_owned())
        .collect();
    assert_eq!(steps, ["6", "12"]);
    // Without splitting, the first field counts, and nothing is learned from it.
    for asked in [5, 6] {
        assert_eq!(learned.identify(&both).unwrap().get("step"), Some("6"));
        assert_eq!(learned.asked(), asked);
    }
}

#[test]
fn one_field_is_the_message_itself() {
    for one in [&b"GRIB\0\0\x08\x01"[..], b"no message", b""] {
        let fields = split(one);
        assert!(matches!(fields[..], [Cow::Borrowed(field)] if field == one));
    }
}

#[test]
fn a_field_without_all_its_sections_is_an_error() {
    let section = |number: u8| [0, 0, 0, 6, number, 255];
    let all: Vec<_> = [1, 3, 4, 5, 6, 7, 4, 5, 6, 7].map(section).to_vec();
    let parts: Vec<_> = all.iter().map(|section| &section[..]).collect();
    assert_eq!(split(&message(&parts)).len(), 2);
    for (left_out, number) in [(0, 1), (1, 3), (2, 4)] {
        let mut parts = parts.clone();
        parts.remove(left_out);
        let message = message(&parts);
        let error = Fields::split(&message).next().unwrap().unwrap_err();
        assert!(error.message().contains(&format!("no section {number}")), "{error}");
    }
}
