//! Checks, before anything is copied, whether a pool can hold the content of a container.
use super::Options;
use super::marks::is_stripe_mark;
use super::progress::Summary;
use super::stride::OBJECTS;
use crate::access::Access;
use crate::array::ATTRIBUTES_DKEY;
use crate::container::Container;
use crate::object::Object;
use crate::pool::Pool;
use esker_backend::Capabilities;
use esker_os::executor::Wait;
use esker_types::ops::{AkeyRef, Anchor, ListLimit};
use esker_types::{Error, ErrorKind, FLAT_AKEY, ObjectId, ObjectType, Result};

/// Keys or extents to list at a time.
const ENTRIES: usize = 1024;

/// Scans a container without copying, and counts its objects and dkeys.
///
/// # Errors
/// The errors that [`super::copy`] reports before it copies anything.
pub fn survey(from: &Container, pool: &Pool, options: &Options) -> Result<Summary> {
    let access = super::access(options.snapshot);
    let mut keys = 0;
    let objects = each_object(from, access, |oid| {
        keys += each_dkey(&from.object(oid), access, |_| Ok(()))?;
        Ok(())
    })?;
    can_hold(from, pool, options, access)?;
    Ok(Summary { objects, keys, epoch: options.snapshot, ..Summary::default() })
}

/// Rejects content at `access` that the destination cannot hold. If it can hold everything that the source can, only
/// object ids are checked.
pub(super) fn can_hold(
    from: &Container,
    pool: &Pool,
    options: &Options,
    access: Access<'_>,
) -> Result<()> {
    let able = pool.capabilities();
    let checked =
        each_object(from, access, |oid| check_object(&from.object(oid), able, access, options));
    checked.map(drop).map_err(|error| match error.kind() {
        ErrorKind::NotSupported => {
            Error::new(error.kind(), format!("{}; nothing was copied", error.message()))
        }
        _ => error,
    })
}

/// Rejects an object that the destination cannot hold.
pub(super) fn check_object(
    object: &Object,
    able: Capabilities,
    access: Access<'_>,
    options: &Options,
) -> Result<()> {
    Survey { object, access, able, zeros: options.zeros }.check()
}

/// Calls `visit` for each object. Returns their number.
fn each_object(
    from: &Container,
    access: Access<'_>,
    mut visit: impl FnMut(ObjectId) -> Result<()>,
) -> Result<u64> {
    let (mut anchor, mut count) = (Anchor::Start, 0);
    while !anchor.is_end() {
        for oid in from.list_objects(&mut anchor, OBJECTS, access).wait()? {
            visit(oid)?;
            count += 1;
        }
    }
    Ok(count)
}

/// Calls `visit` for each dkey. Returns their number.
fn each_dkey(
    object: &Object,
    access: Access<'_>,
    mut visit: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let (mut anchor, mut count) = (Anchor::Start, 0);
    while !anchor.is_end() {
        let limit = ListLimit::entries(ENTRIES);
        let dkeys = object.list_dkeys(&mut anchor, limit, access).wait()?;
        dkeys.iter().try_for_each(&mut visit)?;
        count += dkeys.len() as u64;
    }
    Ok(count)
}

/// An object, and what the destination can store.
struct Survey<'a> {
    object: &'a Object,
    access: Access<'a>,
    able: Capabilities,
    /// Holes may become zeros in the destination.
    zeros: bool,
}

impl Survey<'_> {
    /// Checks that the destination can store the object: its class, its akeys, and its holes.
    fn check(&self) -> Result<()> {
        self.check_class()?;
        let source = self.object.container().capabilities();
        let Some(otype) = self.object.oid().object_type() else { return Ok(()) };
        let akeys = source.any_akeys && !self.able.any_akeys && otype.is_flat();
        let holes = source.holes && !self.able.holes && !self.zeros;
        // Readers of byte arrays get zeros for holes on any backend.
        let holes = holes && otype.is_array() && otype != ObjectType::ArrayByte;
        if !akeys && !holes {
            return Ok(());
        }
        let check_dkey = |dkey: &[u8]| {
            if akeys {
                self.check_akeys(dkey)?;
            }
            if holes { self.check_holes(dkey) } else { Ok(()) }
        };
        each_dkey(self.object, self.access, check_dkey).map(drop)
    }

    /// Refuses an object whose class the destination's pool does not support: DAOS may not know the class, or the pool
    /// has too few targets or fault domains for it.
    fn check_class(&self) -> Result<()> {
        let class = self.object.oid().class();
        let (targets, domains) = (self.able.targets, self.able.domains);
        if self.able.fitting_classes && !class.opens_in_daos(targets, domains) {
            return Err(self.refuse(&format!(
                "is of class {class}, which a pool of DAOS with {targets} targets cannot open: copy to a larger pool, \
                 or to one that is not of DAOS"
            )));
        }
        match class.redundancy().map(|redundancy| redundancy.group_size()) {
            Some(size) if size > self.able.domains.max(1) => Err(self.refuse(&format!(
                "is of class {class}, and the destination has {} fault domains",
                self.able.domains
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses an Array or flat Key-Value that has an akey besides the one of its type.
    fn check_akeys(&self, dkey: &[u8]) -> Result<()> {
        let mut anchor = Anchor::Start;
        while !anchor.is_end() {
            let limit = ListLimit::entries(ENTRIES);
            let akeys = self.object.list_akeys(dkey, &mut anchor, limit, self.access).wait()?;
            let oid = self.object.oid();
            if akeys.iter().any(|akey| akey != FLAT_AKEY && !is_stripe_mark(oid, akey)) {
                return Err(self.refuse(
                    "has akeys besides the one of a Key-Value or an Array, which the destination does not support",
                ));
            }
        }
        Ok(())
    }

    /// Refuses a chunk with a hole: its records must be contiguous from the first.
    fn check_holes(&self, dkey: &[u8]) -> Result<()> {
        if dkey == ATTRIBUTES_DKEY {
            return Ok(());
        }
        let (mut anchor, mut next) = (Anchor::Start, 0);
        while !anchor.is_end() {
            let key = AkeyRef { dkey, akey: FLAT_AKEY };
            let found = self.object.list_extents(key, &mut anchor, ENTRIES, self.access).wait()?;
            for stored in found {
                if stored.extent.start > next {
                    return Err(self.refuse(
                        "has holes, which the destination does not support: allow zeros in their place (--zeros)",
                    ));
                }
                next = stored.extent.end();
            }
        }
        Ok(())
    }

    /// The error for an object that the destination cannot hold. `why` follows the id of the object in the message.
    #[cold]
    fn refuse(&self, why: &str) -> Error {
        let text = format!("object {} {why}", self.object.oid());
        Error::new(ErrorKind::NotSupported, text)
    }
}
