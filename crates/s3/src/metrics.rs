//! Metrics of the server.
use esker::types::metrics::{Counter, Latency, Page};
use hyper::StatusCode;
use std::array::from_fn;
use std::time::Duration;

/// The supported operations, and one for all other requests.
const OPERATIONS: [&str; 27] = [
    "AbortMultipartUpload",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateBucket",
    "CreateMultipartUpload",
    "DeleteBucket",
    "DeleteObject",
    "DeleteObjectTagging",
    "DeleteObjects",
    "GetBucketLocation",
    "GetBucketVersioning",
    "GetObject",
    "GetObjectAttributes",
    "GetObjectTagging",
    "HeadBucket",
    "HeadObject",
    "ListBuckets",
    "ListMultipartUploads",
    "ListObjectVersions",
    "ListObjects",
    "ListObjectsV2",
    "ListParts",
    "PutObject",
    "PutObjectTagging",
    "UploadPart",
    "UploadPartCopy",
    OTHER,
];

/// Operations that are not supported, and requests without a signature.
const OTHER: &str = "other";

/// Hundreds of statuses: 1xx to 5xx.
const CLASSES: usize = 5;

/// The numbers of one server.
pub(crate) struct Metrics {
    requests: [Latency; OPERATIONS.len()],
    statuses: [Counter; CLASSES],
    pub(crate) connections: Counter,
    pub(crate) received_bytes: Counter,
    pub(crate) sent_bytes: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: from_fn(|_| Latency::default()),
            statuses: from_fn(|_| Counter::default()),
            connections: Counter::default(),
            received_bytes: Counter::default(),
            sent_bytes: Counter::default(),
        }
    }
}

impl Metrics {
    /// Counts a request whose answer begins: its headers are ready, but not the content of an object. `operation` is
    /// `None` for a request without a valid signature.
    pub(crate) fn answered(&self, operation: Option<&str>, status: StatusCode, took: Duration) {
        let known = operation.and_then(|name| OPERATIONS.iter().position(|known| *known == name));
        let at = known.unwrap_or(OPERATIONS.len() - 1);
        if let Some(latency) = self.requests.get(at) {
            latency.add(took);
        }
        if let Some(counter) = self.statuses.get(usize::from(status.as_u16() / 100).wrapping_sub(1))
        {
            counter.add(1);
        }
    }

    /// The text of the metrics for Prometheus.
    pub(crate) fn page(&self, connections: u64, connections_max: u64, is_draining: bool) -> String {
        let mut page = Page::default();
        page.gauge("esker_s3_connections", "Connections that are served.", connections);
        page.gauge(
            "esker_s3_connections_max",
            "Most connections that are served.",
            connections_max,
        );
        page.counter(
            "esker_s3_connections_total",
            "Connections that were accepted.",
            &self.connections,
        );
        page.latencies(
            ("esker_s3_request_seconds", "operation"),
            "Time from the headers of a request to those of its answer.",
            OPERATIONS.into_iter().zip(&self.requests),
        );
        let statuses = self.statuses.iter().enumerate();
        page.counters(
            ("esker_s3_answers_total", "status"),
            "Answers by their status.",
            statuses.map(|(class, counter)| (format!("{}xx", class + 1), counter)),
        );
        page.counter(
            "esker_s3_received_bytes_total",
            "Bytes of objects and parts that were put.",
            &self.received_bytes,
        );
        page.counter(
            "esker_s3_sent_bytes_total",
            "Bytes of objects that were sent.",
            &self.sent_bytes,
        );
        page.gauge("esker_s3_draining", "1 if the server ends.", is_draining.into());
        page.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_by_operation_and_status() {
        let metrics = Metrics::default();
        let took = Duration::from_millis(1);
        metrics.answered(Some("GetObject"), StatusCode::OK, took);
        metrics.answered(Some("GetBucketPolicy"), StatusCode::NOT_IMPLEMENTED, took);
        metrics.answered(None, StatusCode::FORBIDDEN, took);
        let page = metrics.page(1, 2, false);
        for line in [
            "esker_s3_request_seconds_count{operation=\"GetObject\"} 1",
            "esker_s3_request_seconds_count{operation=\"other\"} 2",
            "esker_s3_answers_total{status=\"2xx\"} 1",
            "esker_s3_answers_total{status=\"5xx\"} 1",
            "esker_s3_connections_max 2",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}");
        }
    }
}
