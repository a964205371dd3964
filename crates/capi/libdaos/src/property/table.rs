//! All properties: number, name, kind of the value, time at which it may be set, and default.

/// The sort of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Number,
    Text,
    /// `struct daos_acl`.
    Acl,
    /// `struct daos_prop_co_roots`.
    Roots,
    /// `d_rank_list_t`.
    Ranks,
}

/// Time at which users may set a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// At any time.
    Always,
    /// At the creation of the container.
    AtCreation,
    /// Never.
    Never,
}

/// One property.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Property {
    /// DAOS's number of the property.
    pub(crate) id: u32,
    /// Name in text, and name of the metadata that stores it.
    pub(crate) name: &'static str,
    pub(crate) sort: Sort,
    pub(crate) change: Change,
    /// Default, for numbers.
    pub(crate) default: u64,
    /// Largest value, for numbers.
    pub(crate) max: u64,
}

impl Property {
    /// A property whose value is not a number.
    const fn new(id: u32, name: &'static str, sort: Sort, change: Change) -> Self {
        Self { id, name, sort, change, default: 0, max: u64::MAX }
    }

    /// A property whose value is a number from 0 to `max`.
    const fn number(id: u32, name: &'static str, change: Change, default: u64, max: u64) -> Self {
        Self { id, name, sort: Sort::Number, change, default, max }
    }
}

pub(crate) const PO_LABEL: u32 = 1;
pub(crate) const PO_ACL: u32 = 2;
pub(crate) const PO_OWNER: u32 = 6;
pub(crate) const PO_OWNER_GROUP: u32 = 7;
pub(crate) const PO_SVC_LIST: u32 = 8;
pub(crate) const CO_LABEL: u32 = 0x1001;
pub(crate) const CO_LAYOUT_TYPE: u32 = 0x1002;
pub(crate) const CO_CSUM: u32 = 0x1004;
pub(crate) const CO_REDUN_FAC: u32 = 0x1007;
pub(crate) const CO_SNAPSHOT_MAX: u32 = 0x1009;
pub(crate) const CO_ACL: u32 = 0x100a;
pub(crate) const CO_COMPRESS: u32 = 0x100b;
pub(crate) const CO_ENCRYPT: u32 = 0x100c;
pub(crate) const CO_OWNER: u32 = 0x100d;
pub(crate) const CO_OWNER_GROUP: u32 = 0x100e;
pub(crate) const CO_DEDUP: u32 = 0x100f;
pub(crate) const CO_ROOTS: u32 = 0x1011;
pub(crate) const CO_STATUS: u32 = 0x1012;
pub(crate) const CO_ALLOCED_OID: u32 = 0x1013;

const ANY: u64 = u64::MAX;
const PERFORMANCE_DOMAIN_ROOT: u64 = 255;
const EC_CELL_BYTES: u64 = 64 << 10;
const CHECKSUM_CHUNK_BYTES: u64 = 32 << 10;
const ALL_DOMAINS: u64 = u32::MAX as u64;
/// Version of the format of pools and containers that DAOS 2.8 reads and writes.
const GLOBAL_VERSION: u64 = 4;

/// Properties of containers.
pub(crate) const CONTAINER: [Property; 26] = {
    use Change::{Always, AtCreation, Never};
    use Sort::{Acl, Roots, Text};
    [
        Property::new(CO_LABEL, "label", Text, Always),
        Property::number(CO_LAYOUT_TYPE, "layout_type", AtCreation, 0, 0xffff),
        Property::number(0x1003, "layout_ver", AtCreation, 1, ANY),
        Property::number(CO_CSUM, "cksum", AtCreation, 0, 7),
        Property::number(0x1005, "cksum_size", AtCreation, CHECKSUM_CHUNK_BYTES, ANY),
        Property::number(0x1006, "srv_cksum", AtCreation, 0, 1),
        Property::number(CO_REDUN_FAC, "rd_fac", AtCreation, 0, 4),
        Property::number(0x1008, "rd_lvl", AtCreation, 2, 254),
        Property::number(CO_SNAPSHOT_MAX, "max_snapshot", Always, 0, ANY),
        Property::new(CO_ACL, "acl", Acl, Always),
        Property::number(CO_COMPRESS, "compression", AtCreation, 0, 6),
        Property::number(CO_ENCRYPT, "encryption", AtCreation, 0, 7),
        Property::new(CO_OWNER, "owner", Text, Always),
        Property::new(CO_OWNER_GROUP, "group", Text, Always),
        Property::number(CO_DEDUP, "dedup", AtCreation, 0, 2),
        Property::number(0x1010, "dedup_threshold", AtCreation, 4096, ANY),
        Property::new(CO_ROOTS, "roots", Roots, AtCreation),
        Property::number(CO_STATUS, "status", Always, 0, ANY),
        Property::number(CO_ALLOCED_OID, "alloc_oid", AtCreation, 0, ANY),
        Property::number(0x1014, "ec_cell_sz", AtCreation, EC_CELL_BYTES, 1 << 30),
        Property::number(0x1015, "ec_pda", AtCreation, 1, ALL_DOMAINS),
        Property::number(0x1016, "rp_pda", AtCreation, ALL_DOMAINS, ALL_DOMAINS),
        Property::number(0x1017, "global_version", Never, GLOBAL_VERSION, ANY),
        Property::number(0x1018, "scrubber_disabled", Always, 0, 1),
        Property::number(0x1019, "obj_version", Never, 1, ANY),
        Property::number(0x101a, "perf_domain", AtCreation, PERFORMANCE_DOMAIN_ROOT, 255),
    ]
};

/// Properties of pools, which the command that makes a pool sets, and no C function changes.
pub(crate) const POOL: [Property; 27] = {
    use Change::Never;
    use Sort::{Acl, Ranks, Text};
    [
        Property::new(PO_LABEL, "label", Text, Never),
        Property::new(PO_ACL, "acl", Acl, Never),
        Property::number(3, "space_rb", Never, 0, 100),
        Property::number(4, "self_heal", Never, 0x3, ANY),
        Property::number(5, "reclaim", Never, 1, 4),
        Property::new(PO_OWNER, "owner", Text, Never),
        Property::new(PO_OWNER_GROUP, "group", Text, Never),
        Property::new(PO_SVC_LIST, "svc_list", Ranks, Never),
        Property::number(9, "ec_cell_sz", Never, EC_CELL_BYTES, 1 << 30),
        Property::number(10, "data_thresh", Never, 4096, ANY),
        Property::number(11, "rd_fac", Never, 0, 4),
        Property::number(12, "ec_pda", Never, 1, ALL_DOMAINS),
        Property::number(13, "rp_pda", Never, ALL_DOMAINS, ALL_DOMAINS),
        Property::number(14, "global_version", Never, GLOBAL_VERSION, ANY),
        Property::number(15, "upgrade_status", Never, 0, 3),
        Property::number(16, "scrub", Never, 0, 3),
        Property::number(17, "scrub_freq", Never, 604_800, ANY),
        Property::number(18, "scrub_thresh", Never, 0, ANY),
        Property::number(19, "svc_rf", Never, 0, 4),
        Property::number(20, "obj_version", Never, 1, ANY),
        Property::number(21, "perf_domain", Never, PERFORMANCE_DOMAIN_ROOT, 255),
        Property::number(22, "checkpoint", Never, 0, 2),
        Property::number(23, "checkpoint_freq", Never, 5, 1 << 20),
        Property::number(24, "checkpoint_thresh", Never, 50, 75),
        Property::number(25, "reintegration", Never, 0, 2),
        Property::number(26, "svc_ops_enabled", Never, 0, 1),
        Property::number(27, "svc_ops_entry_age", Never, 300, 600),
    ]
};

/// Returns the property of a pool or container with DAOS's number `id`.
pub(crate) fn by_id(id: u32) -> Option<&'static Property> {
    POOL.iter().chain(&CONTAINER).find(|property| property.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_match_the_header() {
        assert!(POOL.iter().map(|property| property.id).eq(1..28));
        assert!(CONTAINER.iter().map(|property| property.id).eq(0x1001..0x101b));
    }
}
