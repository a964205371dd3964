//! Pools and containers behind handles, and what the handles on them share.
use crate::code::Result;
use crate::container::rights::Rights;
use esker::{Container, Pool, Wait};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A pool, the name it was opened by, and how many containers were opened through it.
pub(crate) struct OpenPool {
    pub(crate) pool: Pool,
    name: Box<str>,
    uses: Arc<AtomicU32>,
    /// The handle this one ends with: itself, or that whose bytes it was made of.
    open: Arc<AtomicBool>,
    is_own: bool,
}

impl OpenPool {
    pub(crate) fn new(pool: Pool, name: &str) -> Self {
        let open = Arc::new(AtomicBool::new(true));
        Self { pool, name: name.into(), uses: Arc::default(), open, is_own: true }
    }

    /// The same connection behind another handle, which ends with this one.
    pub(crate) fn lend(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            name: self.name.clone(),
            uses: Arc::default(),
            open: Arc::clone(&self.open),
            is_own: false,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// What other processes open it by: names mean the same to all only where they are URLs.
    pub(crate) fn url(&self) -> Result<String> {
        match self.name.contains(':') {
            true => Ok(self.name.to_string()),
            false => Ok(self.pool.info().wait()?.url),
        }
    }

    pub(crate) fn is_used(&self) -> bool {
        self.uses.load(Ordering::Acquire) > 0
    }

    /// A container opened through this pool.
    pub(crate) fn with(&self, container: Container) -> OpenContainer {
        self.uses.fetch_add(1, Ordering::AcqRel);
        let (pool, uses) = (self.pool.clone(), Arc::clone(&self.uses));
        let (rights, described) = (Rights::ALL, None);
        OpenContainer { container, described, rights, pool, uses, is_own: true, is_timed: true }
    }
}

impl Drop for OpenPool {
    fn drop(&mut self) {
        if self.is_own {
            self.open.store(false, Ordering::Release);
        }
    }
}

/// A container, which counts as a use of the pool it was opened through.
pub(crate) struct OpenContainer {
    pub(crate) container: Container,
    /// The same, to change what describes it, where its user may do that but not write data.
    described: Option<Container>,
    /// What its user may do.
    pub(crate) rights: Rights,
    pub(crate) pool: Pool,
    uses: Arc<AtomicU32>,
    /// Closing this handle closes the container.
    is_own: bool,
    /// Opening and closing it are noted in its times.
    pub(crate) is_timed: bool,
}

impl OpenContainer {
    pub(crate) fn for_user(mut self, rights: Rights, described: Option<Container>) -> Self {
        (self.rights, self.described) = (rights, described);
        self
    }

    /// By which what describes it is changed.
    pub(crate) fn described(&self) -> &Container {
        self.described.as_ref().unwrap_or(&self.container)
    }

    /// Another handle of the same user, through another connection.
    pub(crate) fn lend(&self, pool: &OpenPool) -> Self {
        let lent = pool.with(self.container.clone()).for_user(self.rights, self.described.clone());
        lent.lent()
    }

    /// A handle that ends with the one `container` is of.
    fn lent(mut self) -> Self {
        self.is_own = false;
        self.untimed()
    }

    /// A handle that comes and goes without a note of it.
    pub(crate) fn untimed(mut self) -> Self {
        self.is_timed = false;
        self
    }

    /// Ends what it stands for, for all handles on it.
    pub(crate) async fn evict(&self) -> Result<()> {
        if let Some(described) = &self.described {
            described.close().await?;
        }
        Ok(self.container.close().await?)
    }

    /// Ends this use of it.
    pub(crate) async fn close(&self) -> Result<()> {
        if self.is_own { self.evict().await } else { Ok(()) }
    }
}

impl Drop for OpenContainer {
    fn drop(&mut self) {
        self.uses.fetch_sub(1, Ordering::AcqRel);
    }
}
