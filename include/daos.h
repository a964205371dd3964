/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_H
#define ESKER_DAOS_H

/**
 * @file
 * The whole interface of libdaos.
 *
 * A program calls daos_init, connects to a pool, opens a container, opens objects, and then does
 * the reverse, ending with daos_fini. Functions with result int return 0 or a negated code of
 * daos_errno.h unless their comment says otherwise. Sizes are in bytes, timeouts in microseconds.
 */

#include <daos_version.h>

#include <daos_api.h>
#include <daos_array.h>
#include <daos_cont.h>
#include <daos_event.h>
#include <daos_kv.h>
#include <daos_mgmt.h>
#include <daos_obj.h>
#include <daos_pool.h>
#include <daos_prop.h>
#include <daos_security.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Initialize the library in this process. Calls are counted: each needs its own daos_fini.
 * @return 0; -DER_BUSY in the callback of an event for which the last daos_fini waits; or another
 *         negated code.
 */
int
daos_init(void);

/** Undo one daos_init; the last call closes what is open. @return 0, or -DER_UNINIT without one. */
int
daos_fini(void);

/** Make the library usable in a child after fork(); handles of the parent stay invalid. */
int
daos_reinit(void);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_H */
