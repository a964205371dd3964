//! When a container was last opened, and when what describes it last changed.
//!
//! They are notes beside the container: where one cannot be made, because the pool is open for reading
//! only or full, the call it belongs to succeeds all the same.
use crate::code::Result;
use crate::handles::OpenContainer;
use esker::Container;
use esker::types::Epoch;
use esker::types::info::OpenMode;

/// A time that is kept.
#[derive(Clone, Copy)]
pub(crate) enum Time {
    Opened,
    Changed,
}

impl Time {
    /// Name of the property that keeps it.
    fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Changed => "changed",
        }
    }

    /// What it is; a container begins with the time of its creation.
    pub(crate) async fn of(self, container: &Container, created: Epoch) -> Result<Epoch> {
        let kept = container.properties().get(self.name()).await?;
        let kept = kept.and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
        Ok(kept.map_or(created, Epoch))
    }

    /// Moves it to now.
    pub(crate) async fn touch(self, open: &OpenContainer) {
        if open.pool.mode() != OpenMode::ReadOnly {
            let _ = self.advance(open).await;
        }
    }

    async fn advance(self, open: &OpenContainer) -> Result<()> {
        let about = open.container.info();
        let now = Epoch::after(self.of(&open.container, about.created).await?).0.to_le_bytes();
        Ok(open.container.note_property(self.name(), &now).await?)
    }
}
