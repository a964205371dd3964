//! `daos:` URLs.
use esker_types::limits::LABEL_MAX;
use esker_types::{Error, ErrorKind, Result};

/// Location of a pool of a DAOS system: `daos:POOL?sys=NAME&timeout=SECONDS`. Only the pool is required: its label or
/// UUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaosUrl {
    /// Label or UUID of the pool.
    pub pool: String,
    /// Name of the system; `None` for the usual one, `daos_server`.
    pub system: Option<String>,
    /// Seconds after which an operation times out.
    pub timeout: Option<u32>,
}

impl DaosUrl {
    /// Parses a URL; `None` for another scheme.
    ///
    /// # Errors
    /// `BadPath` for an invalid name or option.
    pub fn parse(url: &str) -> Result<Option<Self>> {
        let Some(rest) = url.strip_prefix("daos:") else { return Ok(None) };
        let (pool, options) = rest.split_once('?').unwrap_or((rest, ""));
        check_name("the name of a DAOS pool", pool)?;
        let mut parsed = Self { pool: pool.to_owned(), system: None, timeout: None };
        let options = options.split('&').filter(|option| !option.is_empty());
        options.into_iter().try_for_each(|option| parsed.set(option))?;
        Ok(Some(parsed))
    }

    /// Takes one `NAME=VALUE` of the URL. An unknown name, and a name without a value, are errors.
    fn set(&mut self, option: &str) -> Result<()> {
        match option.split_once('=').unwrap_or((option, "")) {
            (_, "") => return Err(invalid_url_error(&format!("`{option}` has no value"))),
            ("sys", name) => {
                check_name("the name of a DAOS system", name)?;
                self.system = Some(name.to_owned());
            }
            ("timeout", value) => self.timeout = Some(seconds(value)?),
            (name, _) => return Err(invalid_url_error(&format!("`{name}` is not an option"))),
        }
        Ok(())
    }
}

impl std::fmt::Display for DaosUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "daos:{}", self.pool)?;
        let timeout = self.timeout.map(|seconds| seconds.to_string());
        let options = [("sys", self.system.clone()), ("timeout", timeout)];
        let given = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
        given.enumerate().try_for_each(|(index, (name, value))| {
            write!(f, "{}{name}={value}", if index == 0 { '?' } else { '&' })
        })
    }
}

/// Parses a time-out: 1 to 86400 seconds.
fn seconds(value: &str) -> Result<u32> {
    let seconds = value.parse().ok().filter(|seconds| (1..=86_400).contains(seconds));
    seconds.ok_or_else(|| invalid_url_error(&format!("`timeout={value}`: give 1 to 86400 seconds")))
}

/// Fails if the name has characters that a URL must not have, is empty or too long. `what` describes it in the error.
fn check_name(what: &str, name: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":._-".contains(&byte);
    match (1..=LABEL_MAX).contains(&name.len()) && name.bytes().all(allowed) {
        true => Ok(()),
        false => Err(invalid_url_error(&format!(
            "{what} must have 1 to {LABEL_MAX} letters, digits and `:._-`"
        ))),
    }
}

#[cold]
fn invalid_url_error(what: &str) -> Error {
    let message = format!(
        "{what}: write daos:POOL?sys=NAME&timeout=SECONDS (daos://POOL/CONT, with slashes, is how tools of DAOS write a \
         pool of Esker)"
    );
    Error::new(ErrorKind::BadPath, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_round_trip() {
        for text in ["daos:prod", "daos:prod?sys=other&timeout=5", "daos:prod?timeout=7"] {
            assert_eq!(DaosUrl::parse(text).unwrap().unwrap().to_string(), text);
        }
        assert_eq!(DaosUrl::parse("rados:x").unwrap(), None);
    }

    #[test]
    fn errors_name_the_invalid_part_of_a_url() {
        for text in
            ["daos:", "daos://a", "daos:a/b", "daos:a?x=1", "daos:a?sys=", "daos:a?timeout=0"]
        {
            let error = DaosUrl::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadPath, "{text}");
            assert!(error.message().contains("daos:POOL"), "{error}");
        }
    }
}
