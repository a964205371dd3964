/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_ERRNO_H
#define ESKER_DAOS_ERRNO_H

/**
 * @file
 * Error codes.
 *
 * The constants below are positive. Functions that return an int return 0 for success and the
 * NEGATED constant for failure, for example -DER_NONEXIST.
 *
 * The two lists are X-macros so that a caller can build its own tables from them:
 * X(NAME, text), where text is free of commas and unquoted. The order is the numbering.
 */

/** Codes 1001 and up: general conditions. */
#define D_FOREACH_GURT_ERR(X)                                                                      \
	X(DER_NO_PERM, The caller has no permission for this)                                      \
	X(DER_NO_HDL, The handle is not valid)                                                     \
	X(DER_INVAL, An argument is not valid)                                                     \
	X(DER_EXIST, The entity exists already)                                                    \
	X(DER_NONEXIST, The entity does not exist)                                                 \
	X(DER_UNREACH, The node cannot be reached)                                                 \
	X(DER_NOSPACE, No space left on the target)                                                \
	X(DER_ALREADY, This has been done before)                                                  \
	X(DER_NOMEM, Out of memory)                                                                \
	X(DER_NOSYS, This function is not implemented)                                             \
	X(DER_TIMEDOUT, The time limit was exceeded)                                               \
	X(DER_BUSY, The resource is in use)                                                        \
	X(DER_AGAIN, Temporarily unavailable - try again)                                          \
	X(DER_PROTO, The two sides speak different protocols)                                      \
	X(DER_UNINIT, The library is not initialised)                                              \
	X(DER_TRUNC, The buffer is too small and the result was cut)                               \
	X(DER_OVERFLOW, The value does not fit its type or buffer)                                 \
	X(DER_CANCELED, The request was cancelled)                                                 \
	X(DER_OOG, Not a member of the group)                                                      \
	X(DER_HG, The transport failed)                                                            \
	X(DER_UNREG, The message type is not registered)                                           \
	X(DER_ADDRSTR_GEN, No address string could be made)                                        \
	X(DER_PMIX, The process manager failed)                                                    \
	X(DER_IVCB_FORWARD, The variable is stored elsewhere and must be forwarded)                \
	X(DER_MISC, A failure without a code of its own)                                           \
	X(DER_BADPATH, The path is malformed)                                                      \
	X(DER_NOTDIR, A path component is not a directory)                                         \
	X(DER_CORPC_INCOMPLETE, A collective call did not reach everyone)                          \
	X(DER_NO_RAS_RANK, No rank receives events)                                                \
	X(DER_NOTATTACH, Not attached to the service group)                                        \
	X(DER_MISMATCH, The versions do not match)                                                 \
	X(DER_EXCLUDED, The rank is excluded from the system)                                      \
	X(DER_NOREPLY, The handler ended without a reply)                                          \
	X(DER_DOS, Service was denied)                                                             \
	X(DER_BAD_TARGET, The message went to the wrong target)                                    \
	X(DER_GRPVER, The group versions differ)                                                   \
	X(DER_HLC_SYNC, The clocks are too far apart)                                              \
	X(DER_NO_SHMEM, Shared memory exhausted)                                                   \
	X(DER_ADD_METRIC_FAILED, The metric could not be added)                                    \
	X(DER_DURATION_MISMATCH, A duration was ended that had not been started)                   \
	X(DER_OP_NOT_PERMITTED, This kind of metric does not allow it)                             \
	X(DER_EXCEEDS_PATH_LEN, The path is too long)                                              \
	X(DER_METRIC_NOT_FOUND, The metric does not exist)                                         \
	X(DER_SHMEM_PERMS, Shared memory belongs to another user or group)                         \
	X(DER_HG_FATAL, The transport failed and cannot recover)                                   \
	X(DER_QUOTA_LIMIT, The quota is used up)

/** Codes 2001 and up: conditions of the store. */
#define D_FOREACH_DAOS_ERR(X)                                                                      \
	X(DER_IO, Reading or writing the medium failed)                                            \
	X(DER_FREE_MEM, Memory could not be released)                                              \
	X(DER_ENOENT, The entry was not found)                                                     \
	X(DER_NOTYPE, The object type is unknown)                                                  \
	X(DER_NOSCHEMA, The object schema is unknown)                                              \
	X(DER_NOLOCAL, The object is not stored here)                                              \
	X(DER_STALE, The pool map is out of date)                                                  \
	X(DER_NOTLEADER, This replica is not the leader)                                           \
	X(DER_TGT_CREATE, The target could not be created)                                         \
	X(DER_EP_RO, The epoch is read-only)                                                       \
	X(DER_EP_OLD, The data of the epoch has been reclaimed)                                    \
	X(DER_KEY2BIG, The key is larger than the space for it)                                    \
	X(DER_REC2BIG, The record is larger than the space for it)                                 \
	X(DER_IO_INVAL, The buffers do not fit the extents)                                        \
	X(DER_EQ_BUSY, The event queue is in use)                                                  \
	X(DER_DOMAIN, The fault domains do not match)                                              \
	X(DER_SHUTDOWN, The service is shutting down)                                              \
	X(DER_INPROGRESS, The operation is still in progress)                                      \
	X(DER_NOTAPPLICABLE, This does not apply here)                                             \
	X(DER_NOTREPLICA, The service has no replica here)                                         \
	X(DER_CSUM, The checksum does not match)                                                   \
	X(DER_DF_INVAL, The durable format is not valid)                                           \
	X(DER_DF_INCOMPT, The durable format is of another version)                                \
	X(DER_REC_SIZE, The record has another size)                                               \
	X(DER_TX_RESTART, The transaction conflicted with another and must be restarted)           \
	X(DER_DATA_LOSS, Data was lost and cannot be rebuilt)                                      \
	X(DER_OP_CANCELED, The operation was cancelled)                                            \
	X(DER_TX_BUSY, The transaction is not committed yet)                                       \
	X(DER_AGENT_INCOMPAT, The agent is not compatible with this library)                       \
	X(DER_NEED_TX, This needs a transaction)                                                   \
	X(DER_RF, More components failed than the redundancy factor allows)                        \
	X(DER_FETCH_AGAIN, Fetch once more)                                                        \
	X(DER_TX_UNCERTAIN, It is not known whether the transaction committed)                     \
	X(DER_AGENT_COMM, The agent does not respond)                                              \
	X(DER_ID_MISMATCH, The identifiers differ)                                                 \
	X(DER_TGT_RETRY, Try another target)                                                       \
	X(DER_NOTSUPPORTED, This is not supported)                                                 \
	X(DER_CONTROL_INCOMPAT, Components of the control plane are not compatible)                \
	X(DER_NO_SERVICE, No service is available)                                                 \
	X(DER_TX_ID_REUSED, The transaction identifier may have been used before)                  \
	X(DER_UPDATE_AGAIN, Update once more)                                                      \
	X(DER_NVME_IO, The NVMe device reported an error)                                          \
	X(DER_NO_CERT, A certificate could not be read)                                            \
	X(DER_BAD_CERT, A certificate is not valid)                                                \
	X(DER_VOS_PARTIAL_UPDATE, An array value may not be overwritten in part in one epoch)      \
	X(DER_CHKPT_BUSY, The page is read-only while a checkpoint runs)                           \
	X(DER_DIV_BY_ZERO, Division by zero is undefined)                                          \
	X(DER_OVERLOAD_RETRY, The service is overloaded - try later)                               \
	X(DER_NOT_RESUME, The earlier check cannot be resumed)                                     \
	X(DER_CONT_NONEXIST, The container does not exist)                                         \
	X(DER_CONT_DESTROYING, The container is being destroyed)                                   \
	X(DER_IGNORE, Skip this item)

/** The ranges above: X(LIST, base); the first code of a list is base + 1. */
#define D_FOREACH_ERR_RANGE(X) X(GURT, 1000) X(DAOS, 2000)

#define D_DEFINE_ERRNO(name, text)   name,
#define D_DEFINE_ERRSTR(name, text)  #name,
#define D_DEFINE_ERRDESC(name, text) #text,
#define D_DEFINE_RANGE_ERRNO(list, base)                                                           \
	DER_ERR_##list##_BASE = (base), D_FOREACH_##list##_ERR(D_DEFINE_ERRNO)

#ifdef __cplusplus
extern "C" {
#endif

/** Every error code, as a positive number. */
enum daos_errno {
	DER_SUCCESS = 0,
	D_FOREACH_ERR_RANGE(D_DEFINE_RANGE_ERRNO)
	/** One past the largest code. */
	DER_LAST_VALID,
	/** The code for numbers outside the ranges. */
	DER_UNKNOWN = (DER_ERR_GURT_BASE + 500000)
};

/** An older name of DER_EXCLUDED. */
#define DER_EVICTED DER_EXCLUDED

/**
 * The name of an error, such as "DER_NONEXIST".
 *
 * @param errnum a return value: 0 or a negated code.
 * @return a static string: "DER_SUCCESS" for 0 and "DER_UNKNOWN" for a number that is not a code.
 */
const char *
d_errstr(int errnum);

/**
 * A one-sentence, human-readable description of an error.
 *
 * @param errnum a return value: 0 or a negated code.
 * @return a static string, never NULL.
 */
const char *
d_errdesc(int errnum);

/** printf format and arguments for a return value: printf(DF_RC, DP_RC(rc)). */
#ifndef DF_RC
#define DF_RC     "%s(%d): '%s'"
#define DP_RC(rc) d_errstr(rc), rc, d_errdesc(rc)
#endif

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_ERRNO_H */
