//! Parameters in the query of a request.
use crate::place::is_text;
use hyper::Uri;

/// Names and values of a query, decoded as `s3s` decodes them.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// The query of a request; empty without one.
    pub(crate) fn new(uri: &Uri) -> Self {
        let text = uri.query().unwrap_or_default();
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// Names and values of all parameters, in the order in which they were sent.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// True if names and values can be repeated in the XML of an answer.
    pub(crate) fn is_text(&self) -> bool {
        self.iter().all(|(name, value)| is_text(name) && is_text(value))
    }

    /// True if a parameter has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.iter().any(|(found, _)| found == name)
    }

    /// The value of a parameter; `None` if it was not sent, or more than once.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.iter().filter(|(found, _)| *found == name);
        found.next().filter(|_| found.next().is_none()).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_by_decoded_names() {
        let query = Query::new(&Uri::from_static("/b?AWSAccess%4BeyId=1&a+b=%2B&twice&twice=2"));
        assert_eq!(query.get("AWSAccessKeyId"), Some("1"));
        assert_eq!(query.get("a b"), Some("+"));
        assert!(query.has("twice") && query.get("twice").is_none());
        assert!(!query.has("") && Query::new(&Uri::from_static("/b")).iter().next().is_none());
    }
}
