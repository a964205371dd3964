//! Who uses a container: counted within a process, locked against other processes.
use crate::pool::State;
use esker_types::info::{ContainerId, OpenMode};
use esker_types::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::sync::PoisonError;

/// Containers this process uses.
#[derive(Debug, Default)]
pub(crate) struct Uses(HashMap<ContainerId, Use>);

#[derive(Debug)]
struct Use {
    handles: u32,
    exclusive: bool,
}

impl State {
    pub(super) fn begin_use(&self, uses: &mut Uses, id: ContainerId, mode: OpenMode) -> Result<()> {
        let exclusive = mode == OpenMode::Exclusive;
        let busy = || Error::new(ErrorKind::Busy, "the container is in use, or in exclusive use");
        match uses.0.get_mut(&id) {
            Some(held) if held.exclusive || exclusive => return Err(busy()),
            Some(held) => held.handles += 1,
            None => {
                if !self.control.use_container(id, Some(mode))? {
                    return Err(busy());
                }
                uses.0.insert(id, Use { handles: 1, exclusive });
            }
        }
        Ok(())
    }

    pub(super) fn end_use(&self, uses: &mut Uses, id: ContainerId) -> Result<()> {
        let Some(held) = uses.0.get_mut(&id) else { return Ok(()) };
        held.handles -= 1;
        if held.handles == 0 {
            uses.0.remove(&id);
            self.control.use_container(id, None)?;
        }
        Ok(())
    }

    /// Handles of this process, plus one where others have any.
    pub(super) fn handles(&self, uses: &Uses, id: ContainerId) -> u32 {
        let mine = uses.0.get(&id).map_or(0, |held| held.handles);
        mine + u32::from(self.control.container_used_by_other(id))
    }

    /// Ends one use of a container.
    pub fn close_container(&self, id: ContainerId) -> Result<()> {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        self.end_use(&mut uses, id)
    }
}
