//! The topics of the conformance suite as tests of a backend.
use crate::topics::{Make, Outcome, Topic};
use esker_backend::Pool;
use std::sync::Arc;

/// Defines a module with one test for each topic of the conformance suite, or for each of those listed.
///
/// The expression is evaluated in each test. Its value is a [`Setup`]: a function that creates an empty pool, or an
/// error that says why this machine has none.
///
/// A test is skipped if there is no pool, or if the backend does not declare the capability that the topic needs. It
/// says so on standard error, and in the file that [`SKIPPED_VARIABLE`](esker_testing::SKIPPED_VARIABLE)
/// (`ESKER_TEST_SKIPPED`) names, by one line; `cargo test` counts it as passed.
///
/// ```
/// use esker_backend::Pool;
/// use esker_backend::memory::Memory;
/// use std::sync::Arc;
///
/// fn pools(targets: u32) -> impl Fn() -> Arc<dyn Pool> {
///     move || Arc::new(Memory::new(targets))
/// }
///
/// esker_conformance::suite!(memory, pools(4));
/// esker_conformance::suite!(memory_of_one_target, pools(1), [listing query]);
/// ```
#[macro_export]
macro_rules! suite {
    (@topics $use:ident $($more:tt)*) => {
        $crate::suite!(@$use [containers metadata single_values arrays conditions punch listing long_keys query
            snapshots transactions read_leases oids leases replies change_ids threads] $($more)*);
    };
    (@list [$($topic:ident)+]) => {
        /// All topics with their names, except [`commits`], which concerns pools over several nodes.
        pub const TOPICS: &[(&str, Topic)] = &[$((stringify!($topic), $topic as Topic)),+];
    };
    (@tests [$($topic:ident)+] $module:ident, $setup:expr) => {
        $crate::suite!($module, $setup, [$($topic)+]);
    };
    ($module:ident, $setup:expr) => {
        $crate::suite!(@topics tests $module, $setup);
    };
    ($module:ident, $setup:expr, [$($topic:ident)+]) => {
        mod $module {
            #[allow(unused_imports, reason = "the expression may have no names of this file")]
            use super::*;
            $(#[test]
            fn $topic() {
                $crate::run_topic($crate::topics::$topic, &$setup);
            })+
        }
    };
}

/// Empty pools for a test, each created by a call of [`Make`].
pub trait Setup {
    /// The function that creates the pools of a test, one for each call.
    ///
    /// # Errors
    /// The reason why this machine has none: the test is skipped.
    fn pools(&self) -> Result<Make<'_>, &str>;
}

impl<F: Fn() -> Arc<dyn Pool>> Setup for F {
    fn pools(&self) -> Result<Make<'_>, &str> {
        Ok(self)
    }
}

impl<F: Fn() -> Arc<dyn Pool>> Setup for Result<F, String> {
    fn pools(&self) -> Result<Make<'_>, &str> {
        self.as_ref().map(|make| make as Make<'_>).map_err(String::as_str)
    }
}

/// Runs a topic in a test, and reports if it is skipped.
///
/// # Panics
/// If the backend violates a requirement.
pub fn run_topic(topic: Topic, setup: &impl Setup) {
    match setup.pools().map(topic) {
        Ok(Outcome::Passed { .. }) => {}
        Ok(Outcome::Skipped { capability }) => {
            esker_testing::skip(format_args!("the backend does not declare `{capability}`"));
        }
        Err(reason) => esker_testing::skip(reason),
    }
}
