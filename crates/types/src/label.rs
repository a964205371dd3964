//! Labels of pools and containers.
use crate::limits::LABEL_MAX;
use crate::{Error, ErrorKind, Result, Uuid};

/// Refuses what is no label: 1 to [`LABEL_MAX`] of letters, digits and `:._-`, no `.` at the beginning, for a label
/// may become the name of a file, and not like a UUID.
///
/// # Errors
/// [`ErrorKind::Invalid`].
pub fn check_label(label: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":._-".contains(&byte);
    let valid = (1..=LABEL_MAX).contains(&label.len())
        && label.bytes().all(allowed)
        && !label.starts_with('.')
        && Uuid::parse(label).is_none();
    if valid {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Invalid,
        format!(
            "{label:?} is no label: 1 to {LABEL_MAX} letters, digits and \":._-\", no \".\" at the beginning, \
             not like a UUID"
        ),
    ))
}
