//! The error codes of DAOS with their causes and remedies, from DAOS's source: `include/daos_errno.h` (codes),
//! `mgmt/cli_mgmt.c` (answers of the agent), `container/srv_container.c` (access control lists), `vos/vos_io.c` and
//! `vos/vos_tree.c` (rules for writes to objects).
use crate::binding::failure::Request;
use esker_types::ErrorKind;
use std::ffi::c_int;

/// A code of DAOS with its kind of error. A code whose kind depends on the request has several rows.
pub(crate) struct Row {
    pub(crate) code: c_int,
    pub(crate) name: &'static str,
    pub(crate) kind: ErrorKind,
    pub(crate) causes: &'static [Cause],
}

/// The requests that return the code, with the cause and the remedy.
pub(crate) type Cause = (&'static [Request], &'static str);

/// All requests.
const ANY: &[Request] = &[];

/// Requests in an open container. The error must not look as if the container had no such object or key.
const IN_USE: &[Request] = {
    use Request::{Commit, List, Object, Punch, Query, Read, Set, Write};
    &[Commit, List, Object, Punch, Query, Read, Set, Write]
};

const fn row(code: c_int, name: &'static str, kind: ErrorKind, causes: &'static [Cause]) -> Row {
    Row { code, name, kind, causes }
}

const NO_AGENT: &str = "no agent of DAOS answers on this machine: start daos_agent, or name the directory of its socket in \
                        DAOS_AGENT_DRPC_DIR";
const SILENT: &str = "an engine does not answer: `dmg system query` shows engines that are down, and the network \
                      interface of this machine (D_INTERFACE) must reach them";
const OTHER_RELEASE: &str = "libdaos, the agent and the servers are of releases that do not fit: `daos version`, \
                             `daos_agent version` and `dmg version` show them";
const CERTIFICATE: &str =
    "the agent has no valid certificate: see transport_config in daos_agent.yml";
const LATER: &str = "the system is busy or elects a new leader: try again";
const DEVICE: &str = "a device of an engine failed: `dmg storage query list-devices` shows which";

/// The first row with the code and the request is used.
pub(crate) static TABLE: &[Row] = {
    use ErrorKind as K;
    use Request::{
        Commit, Connect, Create, Destroy, List, Object, Open, Pool, Punch, Query, Read, Set, Start,
        Write,
    };
    &[
        row(
            -1001,
            "DER_NO_PERM",
            K::NoPermission,
            &[
                (
                    &[Start],
                    "this user may not write to the socket of the agent (daos_agent.sock in /var/run/daos_agent, or in \
                     DAOS_AGENT_DRPC_DIR): ask the administrator",
                ),
                (
                    &[Connect],
                    "the access control list of the pool does not let this user connect so: `daos pool get-acl` shows \
                     who may, `dmg pool update-acl` changes it",
                ),
                (
                    &[Pool],
                    "the pool is open for reading only, or its access control list does not allow it: `daos pool \
                     get-acl` shows who may do what",
                ),
                (
                    &[Create],
                    "the pool is open for reading only, or its access control list does not let this user create \
                     containers (c): `daos pool get-acl` shows who may",
                ),
                (
                    &[Open],
                    "the access control list of the container does not let this user open it so, or the pool is open \
                     for reading only: `daos container get-acl` shows who may do what, `daos container update-acl` \
                     changes it",
                ),
                (
                    &[Destroy],
                    "the pool is open for reading only, or neither its access control list nor that of the container \
                     lets this user delete it (d): `daos pool get-acl` and `daos container get-acl` show who may",
                ),
                (
                    &[Query],
                    "the access control list of the container does not let this user read that (t for properties, r for \
                     attributes): `daos container get-acl` shows who may",
                ),
                (
                    &[Set],
                    "the container is open for reading only, its access control list does not let this user change that \
                     (T for properties, w for attributes and snapshots), or DAOS fixes the property when a container is \
                     created: `daos container get-acl` shows who may do what",
                ),
                (
                    &[Write, Punch],
                    "the container is open for reading only; or the akey holds, or held before it was removed, a single \
                     value and an array was written, or the reverse; or one update had several akeys of a Key-Value or an Array, which has one",
                ),
                (
                    &[Commit],
                    "the transaction has ended or only reads, or an akey that it writes holds the other kind of value, \
                     or held it before it was removed: begin another",
                ),
                (
                    ANY,
                    "the container was opened without the right to do it: `daos container get-acl` shows who may do what",
                ),
            ],
        ),
        row(
            -1002,
            "DER_NO_HDL",
            K::NoHandle,
            &[(ANY, "the container was destroyed or its handle evicted: open it again")],
        ),
        row(
            -1003,
            "DER_INVAL",
            K::Invalid,
            &[
                (
                    &[Start],
                    "the network settings of the agent and of the environment (D_PROVIDER, D_INTERFACE, D_DOMAIN, \
                     FI_OFI_RXM_USE_SRX) do not fit: unset them, and see `daos_agent net-scan`",
                ),
                (
                    &[Connect],
                    "the agent of this machine does not serve the system that `sys=` in the URL names: leave it out, or \
                     give the name in daos_agent.yml",
                ),
                (
                    &[Create],
                    "a property of the new container is invalid: its label, its checksum, or a redundancy that the pool \
                     does not have",
                ),
                (
                    &[Open, Destroy],
                    "the name is not a label or UUID of a container, or the pool has an older format, which `dmg pool \
                     upgrade` renews",
                ),
                (
                    &[Object],
                    "the class of the object asks for more targets or more redundancy than the pool has: use another \
                     class (`--class S1` fits every pool)",
                ),
                (
                    &[List],
                    "the listing has room for more than 128 extents, or is of the akeys of a Key-Value or an Array in a \
                     transaction",
                ),
                (&[Punch], "an akey of a Key-Value or an Array is removed with its dkey only"),
                (
                    &[Read, Write],
                    "the key, the record size, the extents or the condition is invalid; record numbers end at 2^63, and \
                     an integer dkey has 8 bytes",
                ),
                (
                    &[Query, Set],
                    "the name or the value of a property or attribute, or the epoch of a snapshot, is invalid",
                ),
                (ANY, "an argument is invalid"),
            ],
        ),
        row(
            -1004,
            "DER_EXIST",
            K::Exists,
            &[
                (&[Create, Set], "the pool has a container with this label: choose another label"),
                (ANY, "it exists already"),
            ],
        ),
        row(-1005, "DER_NONEXIST", K::TimedOut, &[(&[Start], NO_AGENT)]),
        row(
            -1005,
            "DER_NONEXIST",
            K::NotFound,
            &[
                (
                    &[Connect],
                    "the system has no such pool: `daos pool list` lists those that this user may connect to",
                ),
                (
                    &[Open, Destroy],
                    "the pool has no such container: `esker cont list POOL` lists those that it has",
                ),
                (ANY, "there is no such key or attribute, or the container was destroyed"),
            ],
        ),
        row(-1006, "DER_UNREACH", K::TimedOut, &[(ANY, SILENT)]),
        row(
            -1007,
            "DER_NOSPACE",
            K::NoSpace,
            &[(
                ANY,
                "the DAOS pool is full, or the target that holds the key: `daos pool query` shows it; delete something, \
                 or extend the pool (`dmg pool extend`)",
            )],
        ),
        row(-1008, "DER_ALREADY", K::Already, &[(ANY, "it is done already")]),
        row(
            -1009,
            "DER_NOMEM",
            K::NoMemory,
            &[(
                ANY,
                "this process or an engine has no memory left: use smaller or fewer operations at a time",
            )],
        ),
        row(-1010, "DER_NOSYS", K::NotImplemented, &[(ANY, OTHER_RELEASE)]),
        row(-1011, "DER_TIMEDOUT", K::TimedOut, &[(ANY, SILENT)]),
        row(
            -1012,
            "DER_BUSY",
            K::Busy,
            &[
                (
                    &[Connect, Open],
                    "another client has it open, and one of the two wants exclusive use: wait until it is closed",
                ),
                (&[Destroy], "a client has it open: close it, or destroy it with --force"),
                (ANY, "a client has it open: try again when it is closed"),
            ],
        ),
        row(-1013, "DER_AGAIN", K::Again, &[(ANY, LATER)]),
        row(-1014, "DER_PROTO", K::Incompatible, &[(ANY, OTHER_RELEASE)]),
        row(
            -1015,
            "DER_UNINIT",
            K::Uninitialised,
            &[(
                ANY,
                "libdaos was ended, since the process ends or another part of it called daos_fini: do this earlier",
            )],
        ),
        row(-1016, "DER_TRUNC", K::Truncated, &[(ANY, "a buffer is too short")]),
        row(-1017, "DER_OVERFLOW", K::Overflow, &[(ANY, "a number or a message is too large")]),
        row(-1018, "DER_CANCELED", K::Canceled, &[(ANY, SILENT)]),
        row(-1019, "DER_OOG", K::TimedOut, &[(ANY, SILENT)]),
        row(-1020, "DER_HG", K::TimedOut, &[(ANY, SILENT)]),
        row(-1021, "DER_UNREG", K::Incompatible, &[(ANY, OTHER_RELEASE)]),
        row(-1025, "DER_MISC", K::TimedOut, &[(&[Start, Connect], NO_AGENT)]),
        row(
            -1026,
            "DER_BADPATH",
            K::BadPath,
            &[(ANY, "the path of the agent's socket is invalid: see DAOS_AGENT_DRPC_DIR")],
        ),
        row(-1030, "DER_NOTATTACH", K::TimedOut, &[(ANY, SILENT)]),
        row(-1031, "DER_MISMATCH", K::Incompatible, &[(ANY, OTHER_RELEASE)]),
        row(
            -1032,
            "DER_EXCLUDED",
            K::TimedOut,
            &[(
                ANY,
                "an engine was excluded: `dmg system query` shows it, `dmg pool reintegrate` takes it in again",
            )],
        ),
        row(-1033, "DER_NOREPLY", K::TimedOut, &[(ANY, SILENT)]),
        row(-1034, "DER_DOS", K::Again, &[(ANY, LATER)]),
        row(-1036, "DER_GRPVER", K::Again, &[(ANY, LATER)]),
        row(
            -1045,
            "DER_HG_FATAL",
            K::TimedOut,
            &[(
                ANY,
                "the network of DAOS cannot be used from here: provider, interface and domain must be those of the \
                 servers (D_PROVIDER, D_INTERFACE, D_DOMAIN; `daos_agent net-scan`)",
            )],
        ),
        row(
            -1046,
            "DER_QUOTA_LIMIT",
            K::Again,
            &[(
                ANY,
                "this process has as many requests or buffers under way as D_QUOTA_RPCS and D_QUOTA_BULKS allow: try \
                 again, or raise them",
            )],
        ),
        row(-2001, "DER_IO", K::Io, &[(ANY, DEVICE)]),
        row(-2003, "DER_ENOENT", K::NotFound, &[(ANY, "there is no such entry")]),
        row(-2007, "DER_STALE", K::Again, &[(ANY, LATER)]),
        row(-2008, "DER_NOTLEADER", K::Again, &[(ANY, LATER)]),
        row(
            -2010,
            "DER_EP_RO",
            K::NoPermission,
            &[(ANY, "the epoch can only be read: write to the latest state")],
        ),
        row(
            -2011,
            "DER_EP_OLD",
            K::NotFound,
            &[(
                ANY,
                "DAOS does not keep this epoch any more, since no snapshot holds it: read the latest state or a \
                 snapshot",
            )],
        ),
        row(
            -2012,
            "DER_KEY2BIG",
            K::KeyTooBig,
            &[(
                ANY,
                "DAOS sorts keys of at most 100 bytes: use shorter ones, or an object with hashed keys",
            )],
        ),
        row(-2013, "DER_REC2BIG", K::RecordTooBig, &[(ANY, "a value is longer than its buffer")]),
        row(
            -2014,
            "DER_IO_INVAL",
            K::Invalid,
            &[(ANY, "the record size or the length of the data does not fit what is stored")],
        ),
        row(-2017, "DER_SHUTDOWN", K::TimedOut, &[(ANY, SILENT)]),
        row(-2018, "DER_INPROGRESS", K::Again, &[(ANY, LATER)]),
        row(-2020, "DER_NOTREPLICA", K::Again, &[(ANY, LATER)]),
        row(
            -2021,
            "DER_CSUM",
            K::Checksum,
            &[(
                ANY,
                "bytes do not match their checksum, and no replica had others: restore them from a copy",
            )],
        ),
        row(
            -2022,
            "DER_DF_INVAL",
            K::Corrupt,
            &[(ANY, "stored structures are damaged: see `dmg check`")],
        ),
        row(
            -2023,
            "DER_DF_INCOMPT",
            K::Incompatible,
            &[(
                ANY,
                "the pool or container has a format of another release: `dmg pool upgrade` renews it",
            )],
        ),
        row(
            -2024,
            "DER_REC_SIZE",
            K::RecordSize,
            &[(ANY, "the array has records of another size: give the stored record size")],
        ),
        row(
            -2025,
            "DER_TX_RESTART",
            K::TxRestart,
            &[(ANY, "others have changed what the transaction has read: restart it")],
        ),
        row(
            -2026,
            "DER_DATA_LOSS",
            K::DataLoss,
            &[(
                ANY,
                "all copies were on engines that are lost: `dmg pool query` shows them; restore the data from a copy",
            )],
        ),
        row(-2027, "DER_OP_CANCELED", K::Canceled, &[(ANY, "the operation was cancelled")]),
        row(
            -2028,
            "DER_TX_BUSY",
            K::InDoubt,
            &[(ANY, "a commit of another client is not decided yet: try again")],
        ),
        row(-2029, "DER_AGENT_INCOMPAT", K::Incompatible, &[(ANY, OTHER_RELEASE)]),
        row(
            -2031,
            "DER_RF",
            K::DataLoss,
            &[(
                ANY,
                "more engines failed than the redundancy of the container covers: reintegrate them (`dmg pool \
                 reintegrate`), then `daos container set-prop` with status:healthy",
            )],
        ),
        row(
            -2033,
            "DER_TX_UNCERTAIN",
            K::TxUncertain,
            &[(ANY, "the commit may have happened: read the data before it is repeated")],
        ),
        row(-2034, "DER_AGENT_COMM", K::TimedOut, &[(ANY, NO_AGENT)]),
        row(
            -2037,
            "DER_NOTSUPPORTED",
            K::NotSupported,
            &[(ANY, "this release of DAOS does not support it")],
        ),
        row(-2038, "DER_CONTROL_INCOMPAT", K::Incompatible, &[(ANY, OTHER_RELEASE)]),
        row(
            -2039,
            "DER_NO_SERVICE",
            K::TimedOut,
            &[(
                ANY,
                "the service of the pool has no majority of its replicas: `dmg system query` shows engines that are down",
            )],
        ),
        row(-2041, "DER_UPDATE_AGAIN", K::Again, &[(ANY, LATER)]),
        row(-2042, "DER_NVME_IO", K::Io, &[(ANY, DEVICE)]),
        row(-2043, "DER_NO_CERT", K::NoPermission, &[(ANY, CERTIFICATE)]),
        row(-2044, "DER_BAD_CERT", K::NoPermission, &[(ANY, CERTIFICATE)]),
        row(-2046, "DER_CHKPT_BUSY", K::Again, &[(ANY, LATER)]),
        row(-2048, "DER_OVERLOAD_RETRY", K::Again, &[(ANY, LATER)]),
        row(
            -2050,
            "DER_CONT_NONEXIST",
            K::NoHandle,
            &[(
                IN_USE,
                "the container was destroyed: `esker cont list POOL` lists those that the pool has",
            )],
        ),
        row(
            -2050,
            "DER_CONT_NONEXIST",
            K::NotFound,
            &[(
                ANY,
                "the container does not exist any more: `esker cont list POOL` lists those that the pool has",
            )],
        ),
        row(
            -2051,
            "DER_CONT_DESTROYING",
            K::NoHandle,
            &[(IN_USE, "the container is being destroyed")],
        ),
        row(
            -2051,
            "DER_CONT_DESTROYING",
            K::NotFound,
            &[(ANY, "the container is being destroyed")],
        ),
    ]
};
