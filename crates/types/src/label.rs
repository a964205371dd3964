//! Labels of pools and containers.
use crate::limits::LABEL_MAX;
use crate::{Error, ErrorKind, Result, Uuid};

/// Checks the label of a container: 1 to [`LABEL_MAX`] letters, digits and `:._-`, and not in the form of a UUID. It
/// must not start with `.`, because it may become the name of a file, which would be hidden. It must not end with `:`,
/// because `POOL/CONT:` is the root directory of `CONT`.
///
/// # Errors
/// [`ErrorKind::Invalid`].
pub fn check_label(label: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":._-".contains(&byte);
    let valid = (1..=LABEL_MAX).contains(&label.len())
        && label.bytes().all(allowed)
        && !label.starts_with('.')
        && !label.ends_with(':')
        && Uuid::parse(label).is_none();
    if valid {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Invalid,
        format!(
            "{label:?} is not a label: a label has 1 to {LABEL_MAX} letters, digits and \":._-\", does not start with \
             \".\" or end with \":\", and does not look like a UUID"
        ),
    ))
}

/// Checks the label of a pool: as [`check_label`], and without a colon. Commands take a name with a colon for a URL, so
/// they would not find the pool by its label.
///
/// # Errors
/// [`ErrorKind::Invalid`].
pub fn check_pool_label(label: &str) -> Result<()> {
    let Some((scheme, rest)) = label.split_once(':') else { return check_label(label) };
    let message = match scheme {
        "memory" => "a process creates a memory: pool when it opens it: choose a label without a colon for a pool that \
                     processes share"
            .to_owned(),
        "esker" | "nodes" | "posix" => {
            format!("{label:?} is a URL: give the label of the pool, and its directory apart (--dir)")
        }
        _ => format!(
            "{label:?} begins with {scheme:?}:, as URLs do: choose a label without a colon, such as {:?}",
            format!("{scheme}-{rest}")
        ),
    };
    Err(Error::new(ErrorKind::Invalid, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_look_like_urls_are_refused() {
        for label in ["memory:x", "esker:x", "posix:/x", "rados:x", "a:b", ":", "a:"] {
            let error = check_pool_label(label).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{label}");
            assert!(
                error.message().contains("colon") || error.message().contains("URL"),
                "{error}"
            );
        }
        check_pool_label("tank-1.old_2").unwrap();
        assert_eq!(check_pool_label("").unwrap_err().kind(), ErrorKind::Invalid);
        check_label("a:b").unwrap();
        assert_eq!(check_label("a:").unwrap_err().kind(), ErrorKind::Invalid);
    }
}
