//! `rados:` URLs.
use crate::librados::Settings;
use esker_types::limits::LABEL_MAX;
use esker_types::{Error, ErrorKind, Result};
use std::path::PathBuf;

/// Namespace of a pool if its URL does not name one.
const NAMESPACE: &str = "esker";

/// Location of a pool on Ceph: `rados:POOL?conf=FILE&id=USER&keyring=FILE&namespace=NAME&timeout=SECONDS`. Only the
/// Ceph pool is required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RadosUrl {
    /// The Ceph pool.
    pub pool: String,
    /// Prefix of its namespaces. It distinguishes the Esker pools in one Ceph pool.
    pub namespace: String,
    /// How to connect to the cluster.
    pub settings: Settings,
}

impl RadosUrl {
    /// Parses a URL; `None` for another scheme.
    ///
    /// # Errors
    /// `BadPath` for an invalid name or option.
    pub fn parse(url: &str) -> Result<Option<Self>> {
        let Some(rest) = url.strip_prefix("rados:") else { return Ok(None) };
        let (pool, options) = rest.split_once('?').unwrap_or((rest, ""));
        let pool = pool.trim_matches('/').to_owned();
        check_name("the name of a Ceph pool", &pool)?;
        let (namespace, settings) = (NAMESPACE.to_owned(), Settings::default());
        let mut parsed = Self { pool, namespace, settings };
        let options = options.split('&').filter(|option| !option.is_empty());
        options.into_iter().try_for_each(|option| parsed.set(option))?;
        Ok(Some(parsed))
    }

    /// Parses an option `name=value` of the URL and sets it.
    fn set(&mut self, option: &str) -> Result<()> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let settings = &mut self.settings;
        match name {
            _ if value.is_empty() => {
                return Err(invalid_url_error(&format!("`{option}` has no value")));
            }
            "conf" => settings.conf = Some(PathBuf::from(value)),
            "id" => settings.id = Some(value.to_owned()),
            "keyring" => settings.keyring = Some(PathBuf::from(value)),
            "timeout" => settings.timeout = Some(seconds(value)?),
            "namespace" => {
                check_name("a namespace", value)?;
                self.namespace = value.to_owned();
            }
            _ => return Err(invalid_url_error(&format!("`{name}` is not an option"))),
        }
        Ok(())
    }
}

impl std::fmt::Display for RadosUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rados:{}?namespace={}", self.pool, self.namespace)?;
        let Settings { conf, id, keyring, timeout } = &self.settings;
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let timeout = timeout.map(|seconds| seconds.to_string());
        let options = [
            ("conf", path(conf)),
            ("id", id.clone()),
            ("keyring", path(keyring)),
            ("timeout", timeout),
        ];
        options.into_iter().try_for_each(|(name, value)| match value {
            Some(value) => write!(f, "&{name}={value}"),
            None => Ok(()),
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
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match (1..=LABEL_MAX).contains(&name.len()) && name.bytes().all(allowed) {
        true => Ok(()),
        false => Err(invalid_url_error(&format!(
            "{what} must have 1 to {LABEL_MAX} letters, digits, `.`, `_`, `-`"
        ))),
    }
}

#[cold]
fn invalid_url_error(what: &str) -> Error {
    let message = format!(
        "{what}: write rados:POOL?conf=FILE&id=USER&keyring=FILE&namespace=NAME&timeout=SECONDS"
    );
    Error::new(ErrorKind::BadPath, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_round_trip() {
        let text = "rados:data?namespace=run1&conf=/etc/c.conf&id=me&keyring=/k&timeout=5";
        let url = RadosUrl::parse(text).unwrap().unwrap();
        assert_eq!(url.to_string(), text);
        let plain = RadosUrl::parse("rados:data").unwrap().unwrap();
        assert_eq!((plain.namespace.as_str(), plain.settings), ("esker", Settings::default()));
        assert_eq!(RadosUrl::parse("posix:/x").unwrap(), None);
    }

    #[test]
    fn errors_name_the_invalid_part_of_a_url() {
        for text in ["rados:", "rados:a b", "rados:a?x=1", "rados:a?conf=", "rados:a?timeout=0"] {
            let error = RadosUrl::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadPath, "{text}");
            assert!(error.message().contains("rados:POOL"), "{error}");
        }
    }
}
