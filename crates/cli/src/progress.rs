//! Bars for people who wait. They appear on terminals only.
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::borrow::Cow;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(120);

/// A bar on standard error, gone when dropped.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// A bar over bytes.
    pub(crate) fn bytes(what: &'static str) -> Self {
        Self::new(what, "{msg} {bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
    }

    /// A bar over anything that can be counted.
    pub(crate) fn steps(what: &'static str) -> Self {
        Self::new(what, "{msg} {bar:40} {pos}/{len}")
    }

    /// A word on what is being done.
    pub(crate) fn spinner() -> Self {
        let bar = Self::new("", "{spinner} {msg}");
        bar.0.enable_steady_tick(TICK);
        bar
    }

    fn new(what: impl Into<Cow<'static, str>>, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what);
        Self(bar)
    }

    /// Shows how much is done.
    pub(crate) fn update(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
    }

    /// Shows what is being done.
    pub(crate) fn say(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
