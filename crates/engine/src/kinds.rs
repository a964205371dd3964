//! Kinds of requests, for metrics and messages.
use esker_wire::message::{ContainerRequest, PoolRequest, Request};

/// Subject of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// The pool itself.
    Pool,
    /// Containers: creating, opening, closing, renaming, destroying, listing.
    Container,
    /// Named values.
    Metadata,
    /// Allocation of object ids.
    Oids,
    /// Writes to objects.
    Write,
    /// Reads of objects.
    Fetch,
    /// Listings of objects, keys and extents.
    List,
    /// Smallest and largest keys, and epochs of objects.
    Query,
    /// Snapshots.
    Snapshot,
    /// Leases of open objects.
    Lease,
    /// Leases on reads.
    LeaseReads,
    /// Commits over several nodes.
    Commit,
    /// Requests that could not be decoded.
    Malformed,
}

impl RequestKind {
    /// Every kind, in the order of their numbers, with its name.
    pub(crate) const ALL: [(Self, &'static str); 13] = [
        (Self::Pool, "pool"),
        (Self::Container, "container"),
        (Self::Metadata, "metadata"),
        (Self::Oids, "oids"),
        (Self::Write, "write"),
        (Self::Fetch, "fetch"),
        (Self::List, "list"),
        (Self::Query, "query"),
        (Self::Snapshot, "snapshot"),
        (Self::Lease, "lease"),
        (Self::LeaseReads, "lease_reads"),
        (Self::Commit, "commit"),
        (Self::Malformed, "malformed"),
    ];

    /// The name of the kind in metrics and messages.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The kind of a request.
    pub(crate) fn of_request(request: &Request<'_>) -> Self {
        match request {
            Request::Pool(request) => Self::of_pool(request),
            Request::Container(_, request) => Self::of_container(request),
        }
    }

    /// Kind of a request about the pool, for the metrics.
    fn of_pool(request: &PoolRequest<'_>) -> Self {
        match request {
            PoolRequest::Capabilities
            | PoolRequest::Info
            | PoolRequest::ShutDown { .. }
            | PoolRequest::Check
            | PoolRequest::Maintain(..)
            | PoolRequest::Requests => Self::Pool,
            PoolRequest::Metadata(_) => Self::Metadata,
            PoolRequest::Create { .. }
            | PoolRequest::Open(..)
            | PoolRequest::Destroy(..)
            | PoolRequest::List => Self::Container,
            PoolRequest::Commit(..)
            | PoolRequest::Abort(_)
            | PoolRequest::Outcome(..)
            | PoolRequest::Prepared
            | PoolRequest::Forget(_)
            | PoolRequest::Decisions(_)
            | PoolRequest::Sweep(_) => Self::Commit,
        }
    }

    /// Kind of a request about a container, for the metrics.
    fn of_container(request: &ContainerRequest<'_>) -> Self {
        use ContainerRequest as Of;
        match request {
            Of::Metadata(_) => Self::Metadata,
            Of::Close | Of::Rename(_) => Self::Container,
            Of::AllocateOids(_) | Of::NextOid => Self::Oids,
            Of::Write(_)
            | Of::WriteProved(_)
            | Of::Take(_)
            | Of::TakeWithArray(..)
            | Of::TakeProved(..) => Self::Write,
            Of::Fetch(..) => Self::Fetch,
            Of::ListKeys(..) | Of::ListExtents(..) | Of::ListObjects(..) => Self::List,
            Of::Query(..) | Of::QueryEach(..) | Of::LastEpoch(..) => Self::Query,
            Of::CreateSnapshot(_) | Of::ListSnapshots | Of::DestroySnapshot(_) => Self::Snapshot,
            Of::Lease(_)
            | Of::LeaseEach(_)
            | Of::Release(_)
            | Of::ReleaseEach(_)
            | Of::UnlinkOnLastClose(_)
            | Of::RemoveUnused(_)
            | Of::RemoveUnusedEach(_) => Self::Lease,
            Of::LeaseReads(_) => Self::LeaseReads,
            Of::PrepareChange(..) | Of::PrepareSnapshot(..) => Self::Commit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_listed_in_the_order_of_their_numbers() {
        for (number, (kind, _)) in RequestKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }
}
