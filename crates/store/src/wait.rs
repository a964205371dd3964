//! Waiting for others who will be done in a moment.
use esker_types::Result;
use std::time::Duration;

/// Until the next look.
pub(crate) const MOMENT: Duration = Duration::from_millis(1);
/// Looks: two seconds in all, for a thousand processes may take turns on a processor.
const LOOKS: u32 = 2000;

/// What `look` finds sooner or later; `None` where it never does. Never asleep on a lock: who has it may wait for
/// what this thread holds.
pub(crate) fn patiently<T>(mut look: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    for _ in 0..LOOKS {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        std::thread::sleep(MOMENT);
    }
    Ok(None)
}
