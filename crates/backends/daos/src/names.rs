//! Translation of names and values between Esker and DAOS: labels of containers, attributes.
use esker_types::{Epoch, Error, ErrorKind, Result, Uuid};

/// The label of a container without one, as DAOS lists it.
const NO_LABEL: &str = "container_label_not_set";
/// Beginning of the labels that replace removed labels: DAOS can change labels, but not remove them.
const UNNAMED: &str = "esker.unnamed.";

/// Prefix of names of Esker, except user attributes.
const OTHER: &str = "esker.";
/// Attributes of the backend itself.
const OWN: &str = "esker:";
/// Attributes of users, as the backend trait names them.
const USER: &str = "attr:";

/// Prefix of a stored value that is empty, since DAOS does not store empty values, or that itself begins with this
/// prefix.
const MARK: &[u8] = b"\0esker\0";

/// The attribute with the time at which a container was created.
pub(super) const CREATED: &str = "esker:created";

/// Returns the label that users see; empty if DAOS's label stands for none.
pub(super) fn shown_label(stored: &str) -> &str {
    if stored == NO_LABEL || stored.starts_with(UNNAMED) { "" } else { stored }
}

/// Rejects a label that stands for no label, since users could not see it.
pub(super) fn check_shown(label: Option<&str>) -> Result<()> {
    match label.filter(|label| shown_label(label).is_empty()) {
        None => Ok(()),
        Some(label) => {
            let message = format!("{label:?} stands for no label: choose another");
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

/// The label of a container that has none for users.
pub(super) fn unnamed(uuid: Uuid) -> String {
    format!("{UNNAMED}{uuid}")
}

/// Returns the name of the DAOS attribute that stores `name`. A user attribute has its name unchanged, unless that
/// begins with a prefix of Esker. All other names get the prefix [`OTHER`].
pub(super) fn stored_name(name: &str) -> String {
    match name.strip_prefix(USER) {
        Some(own) if !own.starts_with(OTHER) && !own.starts_with(OWN) => own.to_owned(),
        _ => format!("{OTHER}{name}"),
    }
}

/// The name that an attribute stores; `None` for attributes of the backend itself.
pub(super) fn shown_name(stored: &str) -> Option<String> {
    match stored.strip_prefix(OTHER) {
        Some(name) => Some(name.to_owned()),
        None if stored.starts_with(OWN) => None,
        None => Some(format!("{USER}{stored}")),
    }
}

/// The attribute with the name of a snapshot.
pub(super) fn snapshot(epoch: Epoch) -> String {
    format!("{OWN}snapshot:{:016x}", epoch.0)
}

/// A value as DAOS stores it. Values that are empty or begin with the mark get a mark, because DAOS stores no empty
/// values.
pub(super) fn stored_value(value: &[u8]) -> Vec<u8> {
    match value.is_empty() || value.starts_with(MARK) {
        true => [MARK, value].concat(),
        false => value.to_vec(),
    }
}

/// The value in a stored form, the inverse of `stored_value`.
pub(super) fn shown_value(stored: Vec<u8>) -> Vec<u8> {
    match stored.strip_prefix(MARK) {
        Some(value) => value.to_vec(),
        None => stored,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_stay_distinct() {
        let names = ["attr:a", "attr:esker.a", "attr:esker:created", "prop:a", "a", "attr:prop:a"];
        let stored: std::collections::BTreeSet<_> = names.map(stored_name).into_iter().collect();
        assert_eq!(stored.len(), names.len());
        for name in names {
            assert_eq!(shown_name(&stored_name(name)).as_deref(), Some(name));
        }
        assert_eq!(stored_name("attr:a"), "a", "users see their attributes in DAOS's tools");
        assert_eq!(shown_name(CREATED), None);
    }

    #[test]
    fn values_round_trip_and_are_never_empty() {
        for value in [&b""[..], b"a", MARK, b"\0esker\0more"] {
            let stored = stored_value(value);
            assert!(!stored.is_empty());
            assert_eq!(shown_value(stored), value);
        }
    }

    #[test]
    fn a_removed_label_is_not_shown() {
        assert_eq!(shown_label("run1"), "run1");
        assert_eq!((shown_label(&unnamed(Uuid([7; 16]))), shown_label(NO_LABEL)), ("", ""));
        assert!(check_shown(Some("run1")).is_ok() && check_shown(Some(NO_LABEL)).is_err());
        assert!(esker_types::check_label(&unnamed(Uuid([7; 16]))).is_ok());
    }
}
