/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_EVENT_H
#define ESKER_DAOS_EVENT_H

/**
 * @file
 * Events and event queues for asynchronous calls.
 *
 * Nearly every call takes an event as its last argument. With NULL, the call blocks and returns its
 * result. With an event, it returns 0 once submitted; the result, including argument errors, may
 * arrive in ev_error. Buffers and other arguments must stay valid until then.
 *
 * An event is ready, running from the call on, completed, and ready again once it was polled
 * or tested; it can then be reused without daos_event_init. Using one that is not ready returns
 * -DER_NO_PERM.
 *
 * A parent event groups children: launch calls with the children, then launch the parent with
 * daos_event_parent_barrier. It completes when all of its children have completed.
 */

#include <daos_errno.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flag of daos_eq_destroy: drop remaining events. */
#define DAOS_EQ_DESTROY_FORCE 1

/** Create an event queue. @return 0, -DER_UNINIT before daos_init, -DER_INVAL, -DER_NOMEM. */
int
daos_eq_create(daos_handle_t *eqh);

/**
 * Free an event queue.
 *
 * @param flags 0 or DAOS_EQ_DESTROY_FORCE.
 * @return 0; -DER_NONEXIST if the queue does not exist; -DER_BUSY if it contains events and is
 *         not forced.
 */
int
daos_eq_destroy(daos_handle_t eqh, int flags);

/**
 * Remove completed events from a queue, waiting for the first if there is none.
 *
 * Children are never returned, only their parents.
 *
 * @param wait_running  non-zero: return 0 at once if nothing is running.
 * @param timeout       microseconds to wait; DAOS_EQ_NOWAIT or DAOS_EQ_WAIT.
 * @param nevents       entries in events.
 * @param events        set to the completed events.
 * @return the number of events set, 0 on timeout; -DER_INVAL if nevents is 0 or
 *         events is NULL; -DER_NONEXIST if the queue does not exist, or another thread destroys
 *         it during the wait.
 */
int
daos_eq_poll(daos_handle_t eqh, int wait_running, int64_t timeout, unsigned int nevents,
	     daos_event_t **events);

/**
 * Count the events of a queue and return them without removing them.
 *
 * @param query    which events.
 * @param nevents  entries in events; 0 to count only.
 * @param events   set to as many events as fit; may be NULL if nevents is 0.
 * @return the number of events set, or of all events if nevents is 0 or events is NULL;
 *         -DER_NONEXIST if the queue does not exist.
 */
int
daos_eq_query(daos_handle_t eqh, daos_eq_query_t query, unsigned int nevents,
	      daos_event_t **events);

/**
 * Initialize an event.
 *
 * @param eqh     its queue, or DAOS_HDL_INVAL for an event that is only tested.
 * @param parent  its parent, or NULL.
 * @return 0; -DER_UNINIT before daos_init; -DER_NONEXIST if the queue does not exist; -DER_INVAL
 *         if the parent is already running; -DER_NO_PERM if the parent is itself a child.
 */
int
daos_event_init(daos_event_t *ev, daos_handle_t eqh, daos_event_t *parent);

/** Finalize an event. @return 0, or -DER_BUSY while it or a child is running. */
int
daos_event_fini(daos_event_t *ev);

/** The child of parent after child, or the first one for NULL. NULL at the end. */
daos_event_t *
daos_event_next(daos_event_t *parent, daos_event_t *child);

/**
 * Wait for one event; if it completed, remove it from its queue.
 *
 * @param timeout  microseconds; DAOS_EQ_NOWAIT or DAOS_EQ_WAIT.
 * @param flag     set to whether it completed.
 * @return 0, or -DER_NO_PERM for a child.
 */
int
daos_event_test(struct daos_event *ev, int64_t timeout, bool *flag);

/** Called with the caller's pointer, the event and its result. */
typedef int (*daos_event_comp_cb_t)(void *arg, daos_event_t *ev, int rc);

/**
 * Register cb to be called when the event completes. Register before using the event.
 * @return 0, -DER_NO_PERM if the event is not ready, -DER_NOMEM.
 */
int
daos_event_register_comp_cb(struct daos_event *ev, daos_event_comp_cb_t cb, void *arg);

/**
 * Launch a parent event: it completes with the last of its children.
 * @return 0, or -DER_INVAL if it has no child.
 */
int
daos_event_parent_barrier(struct daos_event *ev);

/**
 * Request cancellation of a running event. The call may complete nevertheless.
 * @return 0, or -DER_NO_PERM if it is not running.
 */
int
daos_event_abort(daos_event_t *ev);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_EVENT_H */
