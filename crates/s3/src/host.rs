//! Buckets in the names of hosts.
use s3s::S3Result;
use s3s::host::{S3Host, VirtualHost};

/// A domain: `BUCKET.DOMAIN` names a bucket. By any other name of the host, the bucket is in the path.
pub(crate) struct Domain(pub(crate) String);

impl S3Host for Domain {
    /// The bucket that the header `Host` names, if any. Its port does not count.
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let below = name.len().checked_sub(self.0.len()).and_then(|at| name.split_at_checked(at));
        let bucket = below
            .filter(|(_, domain)| domain.eq_ignore_ascii_case(&self.0))
            .and_then(|(bucket, _)| bucket.strip_suffix('.'));
        let domain = VirtualHost::new(self.0.as_str());
        Ok(match bucket {
            Some(bucket) => domain.with_bucket(bucket),
            None => domain,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_is_the_part_of_the_host_before_the_domain() {
        let domain = Domain("s3.site".to_owned());
        for (host, bucket) in [
            ("home.s3.site", Some("home")),
            ("home.S3.site:9000", Some("home")),
            ("a.b.s3.site", Some("a.b")),
            ("s3.site", None),
            ("s3.site:9000", None),
            ("n1:9000", None),
            ("[::1]:9000", None),
            ("xs3.site", None),
            ("\u{e9}", None),
        ] {
            let parsed = domain.parse_host_header(host).unwrap();
            assert_eq!(parsed.bucket(), bucket, "{host}");
        }
    }
}
