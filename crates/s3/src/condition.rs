//! Conditions of a request on the object that it reads, replaces or removes.
use crate::fault::{Fault, Outcome};
use crate::record::timestamp;
use dfs::Time;
use hyper::header::{HeaderMap, HeaderName, IF_MATCH, IF_NONE_MATCH};
use s3s::S3ErrorCode;
use s3s::dto::{ETag, ETagCondition, Timestamp, TimestampFormat};

/// `If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since`.
#[derive(Clone, Default)]
pub(crate) struct Condition {
    pub(crate) matches: Option<ETagCondition>,
    pub(crate) matches_not: Option<ETagCondition>,
    pub(crate) modified_since: Option<Timestamp>,
    pub(crate) unmodified_since: Option<Timestamp>,
}

impl Condition {
    /// The condition on the object that an operation replaces, from the headers of its request. Only for operations in
    /// which `s3s` does not parse these headers.
    ///
    /// # Errors
    /// `InvalidArgument` for a header that is not an ETag.
    pub(crate) fn of_target(headers: &HeaderMap) -> Outcome<Self> {
        let matches = parse_header(headers, IF_MATCH)?;
        let matches_not = parse_header(headers, IF_NONE_MATCH)?;
        Ok(Self { matches, matches_not, ..Self::default() })
    }

    /// Refuses a condition on a directory, which is not checked in the transaction that makes or removes it.
    ///
    /// # Errors
    /// `NotImplemented`.
    pub(crate) fn refuse_on_directory(&self) -> Outcome<()> {
        match self.is_none() {
            true => Ok(()),
            false => Err(Fault::new(
                S3ErrorCode::NotImplemented,
                "conditions on keys that end with a slash are not offered here",
            )),
        }
    }

    /// True if the request has no conditional header.
    pub(crate) fn is_none(&self) -> bool {
        self.matches.is_none()
            && self.matches_not.is_none()
            && self.modified_since.is_none()
            && self.unmodified_since.is_none()
    }

    /// True if the request compares an ETag, other than `*`.
    pub(crate) fn compares_etags(&self) -> bool {
        let conditions = [&self.matches, &self.matches_not];
        conditions.into_iter().any(|one| matches!(one, Some(ETagCondition::ETag(_))))
    }

    /// Checks an object that is to be read, in the order of RFC 9110.
    ///
    /// # Errors
    /// `PreconditionFailed`; `NotModified` if the client's copy of the object is current.
    pub(crate) fn check_read(&self, etag: &str, mtime: Time) -> Outcome<()> {
        let mtime = whole_seconds(timestamp(mtime));
        match (&self.matches, &self.unmodified_since) {
            (Some(wanted), _) if !is_strongly(wanted, etag) => return Err(precondition_fault()),
            (None, Some(since)) if mtime > *since => return Err(precondition_fault()),
            _ => {}
        }
        match (&self.matches_not, &self.modified_since) {
            (Some(known), _) if is(known, etag) => Err(S3ErrorCode::NotModified.into()),
            (None, Some(since)) if mtime <= *since => Err(S3ErrorCode::NotModified.into()),
            _ => Ok(()),
        }
    }

    /// Checks an object that is to be copied. All failed conditions are errors, since the client has no copy to use
    /// instead.
    ///
    /// # Errors
    /// `PreconditionFailed`.
    pub(crate) fn check_source(&self, etag: &str, mtime: Time) -> Outcome<()> {
        self.check_read(etag, mtime).map_err(|_| precondition_fault())
    }

    /// Checks an object that is to be replaced or removed; `etag` is `None` if it does not exist.
    ///
    /// # Errors
    /// `PreconditionFailed`; `NoSuchKey` if the object does not exist.
    pub(crate) fn check_change(&self, etag: Option<&str>) -> Outcome<()> {
        match (&self.matches, etag) {
            (Some(_), None) => return Err(S3ErrorCode::NoSuchKey.into()),
            (Some(wanted), Some(etag)) if !is_strongly(wanted, etag) => {
                return Err(precondition_fault());
            }
            _ => {}
        }
        match (&self.matches_not, etag) {
            (Some(known), Some(etag)) if is(known, etag) => Err(precondition_fault()),
            _ => Ok(()),
        }
    }
}

/// Parses a header with ETags; `None` if it is absent. It must not be there twice.
fn parse_header(headers: &HeaderMap, name: HeaderName) -> Outcome<Option<ETagCondition>> {
    let mut values = headers.get_all(&name).iter();
    let parsed = values.next().map(|value| ETagCondition::parse_http_header(value.as_bytes()));
    match (parsed, values.next()) {
        (None, _) => Ok(None),
        (Some(Ok(parsed)), None) => Ok(Some(parsed)),
        _ => {
            let why = format!("{name} must be sent once, with an ETag in quotes or *");
            Err(Fault::new(S3ErrorCode::InvalidArgument, why))
        }
    }
}

/// True if the ETags are equal by the strong comparison of RFC 9110, which `If-Match` uses: a weak ETag matches
/// nothing.
fn is_strongly(condition: &ETagCondition, etag: &str) -> bool {
    !matches!(condition, ETagCondition::ETag(ETag::Weak(_))) && is(condition, etag)
}

/// True if the ETags are equal by the weak comparison of HTTP, which `If-None-Match` uses.
fn is(condition: &ETagCondition, etag: &str) -> bool {
    match condition {
        ETagCondition::Any => true,
        ETagCondition::ETag(ETag::Strong(wanted) | ETag::Weak(wanted)) => wanted == etag,
    }
}

#[cold]
fn precondition_fault() -> Fault {
    Fault::new(S3ErrorCode::PreconditionFailed, "a condition of the request does not hold")
}

/// Rounds a time down to seconds, since times in headers have no fractions.
fn whole_seconds(time: Timestamp) -> Timestamp {
    let mut text = Vec::new();
    let whole = time.format(TimestampFormat::HttpDate, &mut text).ok().and_then(|()| {
        Timestamp::parse(TimestampFormat::HttpDate, std::str::from_utf8(&text).ok()?).ok()
    });
    whole.unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A condition that demands this ETag.
    fn etag(value: &str) -> Option<ETagCondition> {
        Some(ETagCondition::ETag(ETag::Strong(value.to_owned())))
    }

    /// A time in seconds since 1970.
    fn since(seconds: i64) -> Option<Timestamp> {
        Some(timestamp(Time { seconds, nanos: 0 }))
    }

    /// The S3 code of a failure; `None` for success.
    fn code<T>(outcome: Outcome<T>) -> Option<String> {
        outcome.err().map(|fault| s3s::S3Error::from(fault).code().as_str().to_owned())
    }

    #[test]
    fn read_condition_on_etag_precedes_one_on_time() {
        let at = Time { seconds: 100, nanos: 7 };
        let check = |condition: Condition| code(condition.check_read("a", at));
        let none = Condition::default;
        assert_eq!(check(none()), None);
        assert_eq!(
            check(Condition { matches: etag("a"), unmodified_since: since(1), ..none() }),
            None
        );
        assert_eq!(
            check(Condition { matches: etag("b"), ..none() }).as_deref(),
            Some("PreconditionFailed")
        );
        assert_eq!(
            check(Condition { unmodified_since: since(99), ..none() }).as_deref(),
            Some("PreconditionFailed")
        );
        assert_eq!(check(Condition { unmodified_since: since(100), ..none() }), None);
        assert_eq!(
            check(Condition { matches_not: etag("a"), ..none() }).as_deref(),
            Some("NotModified")
        );
        assert_eq!(
            check(Condition { matches_not: etag("b"), modified_since: since(200), ..none() }),
            None
        );
        assert_eq!(
            check(Condition { modified_since: since(100), ..none() }).as_deref(),
            Some("NotModified")
        );
        assert_eq!(check(Condition { modified_since: since(99), ..none() }), None);
    }

    #[test]
    fn condition_on_target_is_parsed_from_headers() {
        let of = |value: &'static str| {
            let value = hyper::header::HeaderValue::from_static(value);
            Condition::of_target(&HeaderMap::from_iter([(IF_MATCH, value)]))
        };
        assert_eq!(of("\"a\"").unwrap().matches, etag("a"));
        assert_eq!(of("*").unwrap().matches, Some(ETagCondition::Any));
        assert!(of("\"a").is_err());
        assert!(Condition::of_target(&HeaderMap::new()).unwrap().is_none());
    }

    #[test]
    fn change_condition_compares_etags_strongly_and_absence() {
        let check = |condition: Condition, found| code(condition.check_change(found));
        let none = Condition::default;
        let any = || Some(ETagCondition::Any);
        assert_eq!(check(Condition { matches_not: any(), ..none() }, None), None);
        let wrong = Some("PreconditionFailed".to_owned());
        assert_eq!(check(Condition { matches_not: any(), ..none() }, Some("a")), wrong);
        assert_eq!(check(Condition { matches: etag("b"), ..none() }, Some("a")), wrong);
        assert_eq!(check(Condition { matches: etag("a"), ..none() }, Some("a")), None);
        let weak = || Some(ETagCondition::ETag(ETag::Weak("a".to_owned())));
        assert_eq!(check(Condition { matches: weak(), ..none() }, Some("a")), wrong);
        assert_eq!(check(Condition { matches_not: weak(), ..none() }, Some("a")), wrong);
        let read = Condition { matches: weak(), ..none() }.check_read("a", Time::default());
        assert_eq!(code(read), wrong);
        assert_eq!(
            check(Condition { matches: etag("a"), ..none() }, None).as_deref(),
            Some("NoSuchKey")
        );
        assert!(none().is_none() && !Condition { matches: any(), ..none() }.is_none());
    }
}
