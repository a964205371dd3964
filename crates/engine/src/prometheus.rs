//! Metrics as text, in the exposition format of Prometheus (version 0.0.4).
use crate::kinds::RequestKind;
use crate::metrics::{BUCKETS, Counter, Latency, Metrics, Refused};
use esker_types::ErrorKind;
use std::fmt::Write;

/// Numbers that are not counted but looked up.
pub(crate) struct Gauges {
    pub(crate) connections: u64,
    pub(crate) connections_max: u64,
    pub(crate) strangers: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) memory_max_bytes: u64,
    pub(crate) draining: bool,
}

/// Text with one family of metrics after the other.
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help);
        self.line(name, "", value);
    }

    fn counter(&mut self, name: &str, help: &str, counter: &Counter) {
        self.family(name, "counter", help);
        self.line(name, "", counter.get());
    }

    /// A counter for each value of `label`.
    fn counters<'c>(
        &mut self,
        (name, label): (&str, &str),
        help: &str,
        counters: impl Iterator<Item = (String, &'c Counter)>,
    ) {
        self.family(name, "counter", help);
        for (value, counter) in counters {
            self.line(name, &format!("{{{label}=\"{value}\"}}"), counter.get());
        }
    }

    fn latency(&mut self, name: &str, kind: &str, latency: &Latency) {
        let bounds = BUCKETS.iter().map(|(_, bound)| *bound).chain(["+Inf"]);
        let mut count = 0;
        for (bound, bucket) in bounds.zip(&latency.buckets) {
            count += bucket.get();
            let labels = format!("{{request=\"{kind}\",le=\"{bound}\"}}");
            self.line(&format!("{name}_bucket"), &labels, count);
        }
        let (labels, seconds) =
            (format!("{{request=\"{kind}\"}}"), latency.nanoseconds.get() as f64 / 1e9);
        self.line(&format!("{name}_sum"), &labels, seconds);
        self.line(&format!("{name}_count"), &labels, count);
    }
}

/// The metrics of an engine as text.
pub(crate) fn render(metrics: &Metrics, gauges: &Gauges) -> String {
    let mut page = Page(String::new());
    connections(&mut page, metrics, gauges);
    requests(&mut page, metrics);
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
    page.0
}

fn connections(page: &mut Page, metrics: &Metrics, gauges: &Gauges) {
    page.gauge(
        "esker_engine_connections",
        "Clients that are connected and have proved themselves.",
        gauges.connections,
    );
    page.gauge(
        "esker_engine_connections_max",
        "Most clients that may be connected.",
        gauges.connections_max,
    );
    page.gauge(
        "esker_engine_strangers",
        "Connections whose client has not proved itself yet.",
        gauges.strangers,
    );
    page.counter(
        "esker_engine_connections_total",
        "Clients that have proved themselves.",
        &metrics.connections,
    );
    let refused = Refused::ALL.iter().map(|(_, name)| (*name).to_owned()).zip(&metrics.refused);
    page.counters(
        ("esker_engine_handshakes_refused_total", "reason"),
        "Connections that ended before their client had proved itself.",
        refused,
    );
    page.counter(
        "esker_engine_malformed_total",
        "Connections of known clients that ended because the client broke the protocol.",
        &metrics.malformed,
    );
}

fn requests(page: &mut Page, metrics: &Metrics) {
    let name = "esker_engine_request_seconds";
    page.family(name, "histogram", "Time from the first look at a request to its reply.");
    for ((_, kind), latency) in RequestKind::ALL.iter().zip(&metrics.requests) {
        page.latency(name, kind, latency);
    }
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
