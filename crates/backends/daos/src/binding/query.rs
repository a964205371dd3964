//! Queries of objects: the first and last of integer dkeys with an extent, the epoch of the last change.
use crate::binding::failure::Request;
use crate::binding::layout::{RawIov, RawRecx};
use crate::binding::library::{Ev, Functions};
use crate::binding::object::Object;
use crate::binding::transaction::{Tx, handle_of};
use esker_types::ops::Edge;
use esker_types::{Extent, Result};

/// `DAOS_GET_*`.
const MAX: u64 = 1;
const MIN: u64 = 2;
const DKEY: u64 = 4;
const EXTENT: u64 = 0x10;

/// The outermost extent of an array under an integer dkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outermost {
    /// The dkey.
    pub dkey: [u8; 8],
    /// The extent.
    pub extent: Extent,
}

/// The arguments of a query.
struct Asking {
    dkey: [u8; 8],
    akey: Vec<u8>,
    iovs: [RawIov; 2],
    recx: RawRecx,
    _keep: (Object, Option<Tx>),
}

// SAFETY: the pointers lead to what the arguments own.
unsafe impl Send for Asking {}

type Number = (u64, Object, Option<Tx>);

impl Object {
    /// The first or last extent of `akey`: that of the first or last dkey that has an extent. Dkeys must be integers.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub async fn outermost(
        &self,
        tx: Option<&Tx>,
        edge: Edge,
        akey: &[u8],
    ) -> Result<Option<Outermost>> {
        let (handle, th) = (self.0.handle, handle_of(tx));
        let flags = DKEY | EXTENT | if edge == Edge::Max { MAX } else { MIN };
        let mut owned = Asking {
            dkey: [0; 8],
            akey: akey.to_vec(),
            iovs: [RawIov::NULL; 2],
            recx: RawRecx::default(),
            _keep: (self.clone(), tx.cloned()),
        };
        owned.iovs[1] = RawIov::input(&owned.akey);
        // SAFETY: the arguments live until the call is done, where they are now.
        let launch = |functions: &Functions, it: &mut Asking, event: Ev| unsafe {
            it.iovs[0] = RawIov::room(&mut it.dkey);
            let [dkey, akey] = &mut it.iovs;
            (functions.daos_obj_query_key)(handle, th, flags, dkey, akey, &raw mut it.recx, event)
        };
        let found = self
            .0
            .calls
            .run_checked(Request::Read.doing("querying a DAOS object"), owned, launch)
            .await?;
        let (dkey, extent) = (found.dkey, Extent::from(found.recx));
        Ok((!extent.is_empty()).then_some(Outermost { dkey, extent }))
    }

    /// The epoch of the last change; 0 if there was none.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub async fn max_epoch(&self, tx: Option<&Tx>) -> Result<u64> {
        let (handle, th) = (self.0.handle, handle_of(tx));
        // SAFETY: the epoch lives until the call is done, which sets it.
        let launch = |functions: &Functions, it: &mut Number, event: Ev| unsafe {
            (functions.daos_obj_query_max_epoch)(handle, th, &raw mut it.0, event)
        };
        let owned = (0, self.clone(), tx.cloned());
        Ok(self
            .0
            .calls
            .run_checked(
                Request::Read.doing("asking for the last change of a DAOS object"),
                owned,
                launch,
            )
            .await?
            .0)
    }
}
