//! Metrics as text, in the exposition format of Prometheus (version 0.0.4).
use super::{BUCKETS, Counter, Latency};
use std::fmt::Write;

/// Text with one family of metrics after the other.
#[derive(Default)]
pub struct Page(String);

impl Page {
    /// Adds the two lines that begin a family of metrics. `kind` is its type in Prometheus.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a line with a value. `labels` is empty or has its braces.
    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    /// Adds a gauge: a metric whose value may also decrease.
    pub fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help);
        self.line(name, "", value);
    }

    /// Adds a counter: a metric whose value only increases.
    pub fn counter(&mut self, name: &str, help: &str, counter: &Counter) {
        self.family(name, "counter", help);
        self.line(name, "", counter.get());
    }

    /// Adds a counter for each value of `label`.
    pub fn counters<'c>(
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

    /// Adds a histogram of latencies for each value of `label`.
    pub fn latencies<'c>(
        &mut self,
        (name, label): (&str, &str),
        help: &str,
        latencies: impl Iterator<Item = (&'static str, &'c Latency)>,
    ) {
        self.family(name, "histogram", help);
        for (value, latency) in latencies {
            self.write_histogram(name, &format!("{label}=\"{value}\""), latency);
        }
    }

    /// The text.
    #[must_use]
    pub fn text(self) -> String {
        self.0
    }

    /// Writes the histogram for one value of a label, `of`: cumulative buckets, the sum in seconds, and the count.
    fn write_histogram(&mut self, name: &str, of: &str, latency: &Latency) {
        let bounds = BUCKETS.iter().map(|(_, bound)| *bound).chain(["+Inf"]);
        let mut count = 0;
        for (bound, bucket) in bounds.zip(&latency.buckets) {
            count += bucket.get();
            let labels = format!("{{{of},le=\"{bound}\"}}");
            self.line(&format!("{name}_bucket"), &labels, count);
        }
        let (labels, seconds) = (format!("{{{of}}}"), latency.nanoseconds.get() as f64 / 1e9);
        self.line(&format!("{name}_sum"), &labels, seconds);
        self.line(&format!("{name}_count"), &labels, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_page_has_one_family_after_the_other() {
        let (counter, latency) = (Counter::default(), Latency::default());
        counter.add(3);
        latency.add(Duration::from_millis(5));
        let mut page = Page::default();
        page.gauge("up", "Whether it is.", 1);
        page.counters(("all_total", "kind"), "All.", std::iter::once(("a".to_owned(), &counter)));
        page.latencies(("seconds", "request"), "Time.", std::iter::once(("get", &latency)));
        let text = page.text();
        for line in [
            "# TYPE up gauge",
            "up 1",
            "all_total{kind=\"a\"} 3",
            "seconds_bucket{request=\"get\",le=\"0.001\"} 0",
            "seconds_bucket{request=\"get\",le=\"0.01\"} 1",
            "seconds_bucket{request=\"get\",le=\"+Inf\"} 1",
            "seconds_sum{request=\"get\"} 0.005",
            "seconds_count{request=\"get\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
        }
    }
}
