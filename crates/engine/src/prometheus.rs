//! Metrics as text, in the exposition format of Prometheus (version 0.0.4).
use crate::kinds::RequestKind;
use crate::metrics::{Metrics, Refused};
use esker_types::ErrorKind;
use esker_types::metrics::Page;

/// Current values, in addition to the counters.
pub(crate) struct Gauges {
    pub(crate) connections: u64,
    pub(crate) connections_max: u64,
    pub(crate) unauthenticated: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) memory_max_bytes: u64,
    pub(crate) draining: bool,
}

/// The metrics of an engine as text.
pub(crate) fn render(metrics: &Metrics, gauges: &Gauges) -> String {
    let mut page = Page::default();
    write_connections(&mut page, metrics, gauges);
    write_requests(&mut page, metrics);
    page.gauge(
        "esker_engine_memory_bytes",
        "Memory that requests and their replies take.",
        gauges.memory_bytes,
    );
    page.gauge(
        "esker_engine_memory_max_bytes",
        "Most memory that they may take.",
        gauges.memory_max_bytes,
    );
    page.gauge(
        "esker_engine_draining",
        "1 if the engine accepts nothing more.",
        gauges.draining.into(),
    );
    page.text()
}

/// Writes the metrics of connections.
fn write_connections(page: &mut Page, metrics: &Metrics, gauges: &Gauges) {
    page.gauge(
        "esker_engine_connections",
        "Authenticated clients that are connected.",
        gauges.connections,
    );
    page.gauge(
        "esker_engine_connections_max",
        "Most clients that may be connected.",
        gauges.connections_max,
    );
    page.gauge(
        "esker_engine_unauthenticated_connections",
        "Connections whose client has not authenticated yet.",
        gauges.unauthenticated,
    );
    page.counter(
        "esker_engine_connections_total",
        "Clients that have authenticated.",
        &metrics.connections,
    );
    let refused = Refused::ALL.iter().map(|(_, name)| (*name).to_owned()).zip(&metrics.refused);
    page.counters(
        ("esker_engine_handshakes_refused_total", "reason"),
        "Connections that ended before their client had authenticated.",
        refused,
    );
    page.counter(
        "esker_engine_malformed_total",
        "Connections of authenticated clients that ended because the client broke the protocol.",
        &metrics.malformed,
    );
}

/// Writes the latency of each kind of request, and the number of each kind of error.
fn write_requests(page: &mut Page, metrics: &Metrics) {
    let name = "esker_engine_request_seconds";
    let latencies = RequestKind::ALL.iter().map(|(_, kind)| *kind).zip(&metrics.requests);
    page.latencies(
        (name, "request"),
        "Time from the start of serving a request to its reply.",
        latencies,
    );
    let errors = ErrorKind::ALL.iter().map(|kind| format!("{kind:?}")).zip(&metrics.errors);
    page.counters(
        ("esker_engine_errors_total", "error"),
        "Requests that were answered by an error.",
        errors,
    );
    page.counter(
        "esker_engine_panics_total",
        "Requests that failed because of a defect of the engine.",
        &metrics.panics,
    );
    page.counter(
        "esker_engine_received_bytes_total",
        "Bytes of all requests.",
        &metrics.received_bytes,
    );
    page.counter("esker_engine_sent_bytes_total", "Bytes of all replies.", &metrics.sent_bytes);
}
