//! Labels of pools and containers.
use crate::limits::LABEL_MAX;
use crate::{Error, ErrorKind, Result, Uuid};

/// Checks a label: 1 to [`LABEL_MAX`] letters, digits and `:._-`, not starting with `.` (a label may become the
/// name of a hidden file otherwise), and not in the form of a UUID.
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
            "{label:?} is not a label: a label has 1 to {LABEL_MAX} letters, digits and \":._-\", does not start with \
\".\", and does not look like a UUID"
        ),
    ))
}
