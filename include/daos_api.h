/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_API_H
#define ESKER_DAOS_API_H

/**
 * @file
 * Transactions, anchors and epochs.
 *
 * A transaction is opened on a container, passed as th to reads and writes, and committed: all
 * of its writes appear at once and at one epoch, or none does. A transaction does not see its
 * own writes before it commits. When commit or an operation returns -DER_TX_RESTART, call
 * daos_tx_restart and repeat all the operations.
 *
 * Calls on a handle that is not open return -DER_NO_HDL.
 */

#include <time.h>

#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct timespec;

/** Flags of daos_tx_open. */
enum {
	/** Read-only; a write returns -DER_NO_PERM. */
	DAOS_TF_RDONLY    = 0x1,
	/** The caller keeps its buffers unchanged until the commit, so they need not be copied. */
	DAOS_TF_ZERO_COPY = 0x2
};

/**
 * Parse ranks from text, such as "0:1:2" with sep ":".
 * @return a list to free with d_rank_list_free, or NULL.
 */
d_rank_list_t *
daos_rank_list_parse(const char *str, const char *sep);

/** Open a transaction on a container. flags are DAOS_TF_*. */
int
daos_tx_open(daos_handle_t coh, daos_handle_t *th, uint64_t flags, daos_event_t *ev);

/**
 * Make the writes of a transaction durable and visible. An empty transaction commits too.
 * @return 0; -DER_TX_RESTART if it conflicted; -DER_ALREADY if it is already committed;
 *         -DER_NO_PERM after an abort.
 */
int
daos_tx_commit(daos_handle_t th, daos_event_t *ev);

/** Open a read-only transaction that sees the container as it was at a snapshot's epoch. */
int
daos_tx_open_snap(daos_handle_t coh, daos_epoch_t epoch, daos_handle_t *th, daos_event_t *ev);

/** Drop a transaction's writes. @return 0; -DER_ALREADY if aborted; -DER_NO_PERM if committed. */
int
daos_tx_abort(daos_handle_t th, daos_event_t *ev);

/** Close a transaction; uncommitted writes are dropped. */
int
daos_tx_close(daos_handle_t th, daos_event_t *ev);

/**
 * Reset a transaction that failed with -DER_TX_RESTART so that it can be retried.
 * @return 0, or -DER_NO_PERM if it did not fail with that code.
 */
int
daos_tx_restart(daos_handle_t th, daos_event_t *ev);

/** The epoch at which a transaction reads; -DER_UNINIT if it has none yet. */
int
daos_tx_hdl2epoch(daos_handle_t th, daos_epoch_t *epoch);

/** Set an anchor to the beginning. opts is unused. @return 0. */
static inline int
daos_anchor_init(daos_anchor_t *anchor, unsigned int opts)
{
	static const daos_anchor_t beginning = DAOS_ANCHOR_INIT;

	(void)opts;
	*anchor = beginning;
	return 0;
}

/** Release an anchor; there is nothing to free. */
static inline void
daos_anchor_fini(daos_anchor_t *anchor)
{
	(void)anchor;
}

/** Whether the listing is complete. */
static inline bool
daos_anchor_is_eof(daos_anchor_t *anchor)
{
	return anchor->da_type == DAOS_ANCHOR_TYPE_EOF;
}

/** Wall-clock time of a hybrid logical clock value such as an epoch. @return 0 or -DER_INVAL. */
int
daos_hlc2timespec(uint64_t hlc, struct timespec *ts);

/** Like daos_hlc2timespec, in whole seconds since 1970. */
int
daos_hlc2timestamp(uint64_t hlc, time_t *ts);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_API_H */
