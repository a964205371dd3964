//! A backend whose operations wait at a gate: a local pool that responds late, like a pool on another machine.
use crate::between::{Interceptor, PoolBetween};
use esker_backend::{Pool, Reply};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// A gate at which operations wait while it is shut. It is open at first.
#[derive(Default)]
pub struct Gate(Mutex<Operations>);

#[derive(Default)]
struct Operations {
    /// Number of operations that must arrive before the gate opens; 0 while it is open.
    missing: usize,
    waiting: Vec<Waker>,
    /// Number of operations that arrived while the gate was shut, and of those that have passed.
    come: usize,
    passed: usize,
}

impl Gate {
    fn operations(&self) -> MutexGuard<'_, Operations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shuts the gate until `count` operations wait at it, so that each of them depends on all others.
    pub fn shut_until(&self, count: usize) {
        self.operations().missing = count;
    }

    /// Shuts the gate until [`Gate::open`].
    pub fn shut(&self) {
        self.shut_until(usize::MAX);
    }

    /// Opens the gate for all waiting and later operations.
    pub fn open(&self) {
        let waiting = {
            let mut operations = self.operations();
            operations.missing = 0;
            std::mem::take(&mut operations.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Number of operations that arrived while the gate was shut.
    #[must_use]
    pub fn come(&self) -> usize {
        self.operations().come
    }

    /// Number of those operations that have passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.operations().passed
    }

    /// Counts an arriving operation; true if it is the last one that the gate waits for.
    fn arrive(&self) -> bool {
        let mut operations = self.operations();
        operations.come += 1;
        operations.missing = operations.missing.saturating_sub(1);
        operations.missing == 0
    }

    /// Counts an operation that arrives, and waits until the gate is open.
    async fn come_through(&self) {
        if self.arrive() {
            self.open();
        }
        poll_fn(|context| {
            let mut operations = self.operations();
            if operations.missing == 0 {
                operations.passed += 1;
                return Poll::Ready(());
            }
            operations.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Interceptor for Gate {
    /// Makes the call when the gate lets it pass.
    fn pass<'a, T: Send + Unpin + 'a>(
        &'a self,
        call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
    ) -> Reply<'a, T> {
        if self.operations().missing == 0 {
            return call();
        }
        Reply::Pending(Box::pin(async move {
            self.come_through().await;
            call().await
        }))
    }
}

/// A pool behind a gate, with its containers.
pub type Gated = PoolBetween<Gate>;

impl Gated {
    /// Puts a pool behind a gate.
    #[must_use]
    pub fn new(inner: Arc<dyn Pool>, gate: &Arc<Gate>) -> Self {
        Self { inner, interceptor: Arc::clone(gate) }
    }
}
