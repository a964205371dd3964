//! Location of tests' containers: in memory, or in the pool over nodes that the environment names.
#![expect(clippy::panic, reason = "a test stops where something fails")]

use esker::types::info::OpenMode;
use esker::{Pool, Wait};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Environment variable with the URL of a pool over nodes. The first test of a process that uses it destroys everything
/// in it.
pub const NODES_VARIABLE: &str = "ESKER_TEST_NODES";

/// A pool, and the label of a container that only this test uses.
#[derive(Clone, Debug)]
pub struct Place {
    /// Name of the pool.
    pub url: String,
    /// Label of the container, which does not exist yet.
    pub label: String,
}

impl Place {
    /// A location for a test called `name`: a pool in memory of its own, or one in the pool of the environment.
    #[must_use]
    pub fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let label = format!("{name}-{number}");
        let url = nodes().map_or_else(|| format!("memory:{label}"), str::to_owned);
        Self { url, label }
    }

    /// The pool.
    ///
    /// # Panics
    /// If it cannot be opened.
    #[must_use]
    pub fn pool(&self) -> Pool {
        let opened = Pool::connect(&self.url, OpenMode::ReadWrite);
        opened.unwrap_or_else(|error| panic!("{}: {error}", self.url))
    }
}

/// URL of the pool over nodes that the environment names, if it does. This process finds it empty.
///
/// # Panics
/// If it cannot be opened or emptied.
#[must_use]
pub fn nodes() -> Option<&'static str> {
    static URL: OnceLock<Option<String>> = OnceLock::new();
    let emptied = || {
        let url = std::env::var(NODES_VARIABLE).ok()?;
        drop(empty(&url));
        Some(url)
    };
    URL.get_or_init(emptied).as_deref()
}

/// Destroys everything in a pool, and returns it.
///
/// # Panics
/// If that fails.
#[must_use]
pub fn empty(url: &str) -> Pool {
    let emptied = Pool::connect(url, OpenMode::ReadWrite).and_then(|pool| {
        for container in pool.containers().wait()? {
            pool.destroy_container(&container.uuid.to_string(), true).wait()?;
        }
        Ok(pool)
    });
    emptied.unwrap_or_else(|error| panic!("emptying {url}: {error}"))
}
