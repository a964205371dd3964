/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_EVENT_H
#define ESKER_DAOS_EVENT_H

/**
 * @file
 * Events and event queues: how calls run without being waited for.
 *
 * Nearly every call takes an event as its last argument. With NULL it blocks and returns its
 * result. With an event it returns 0 once submitted; the result, argument errors included, may
 * come in ev_error. Buffers and other arguments must stay in place until then.
 *
 * An event is ready, runs from the call on, is completed, and is ready again when it was polled
 * or tested; it can then be used anew without daos_event_init. Using one that is not ready gives
 * -DER_NO_PERM.
 *
 * A parent event groups children: launch calls with the children, then launch the parent with
 * daos_event_parent_barrier. It completes when all of its children have.
 */

#include <daos_errno.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flag of daos_eq_destroy: drop events that are left. */
#define DAOS_EQ_DESTROY_FORCE 1

/** Make an event queue. @return 0, -DER_UNINIT before daos_init, -DER_INVAL, -DER_NOMEM. */
int
daos_eq_create(daos_handle_t *eqh);

/**
 * Free an event queue.
 *
 * @param flags 0 or DAOS_EQ_DESTROY_FORCE.
 * @return 0; -DER_NONEXIST if there is no such queue; -DER_BUSY if events are in it and it is
 *         not forced.
 */
int
daos_eq_destroy(daos_handle_t eqh, int flags);

/**
 * Take completed events out of a queue, waiting for the first if there is none.
 *
 * Children are never returned, only their parents.
 *
 * @param wait_running  non-zero: return 0 at once when nothing runs.
 * @param timeout       microseconds to wait; DAOS_EQ_NOWAIT or DAOS_EQ_WAIT.
 * @param nevents       entries in events.
 * @param events        set to the completed events.
 * @return the number of events set, 0 when the time ran out; -DER_INVAL when nevents is 0 or
 *         events is NULL; -DER_NONEXIST if there is no such queue.
 */
int
daos_eq_poll(daos_handle_t eqh, int wait_running, int64_t timeout, unsigned int nevents,
	     daos_event_t **events);

/**
 * Count the events of a queue, and look at them without taking them out.
 *
 * @param query    which events.
 * @param nevents  entries in events; 0 to count only.
 * @param events   set to as many events as fit; may be NULL when nevents is 0.
 * @return the number of events, or -DER_NONEXIST if there is no such queue.
 */
int
daos_eq_query(daos_handle_t eqh, daos_eq_query_t query, unsigned int nevents,
	      daos_event_t **events);

/**
 * Make an event ready.
 *
 * @param eqh     the queue it goes to, or DAOS_HDL_INVAL for an event that is only tested.
 * @param parent  its parent, or NULL.
 * @return 0; -DER_UNINIT before daos_init; -DER_NONEXIST if there is no such queue; -DER_INVAL
 *         when the parent runs already; -DER_NO_PERM when the parent is itself a child.
 */
int
daos_event_init(daos_event_t *ev, daos_handle_t eqh, daos_event_t *parent);

/** Let go of an event. @return 0, or -DER_BUSY while it or a child runs. */
int
daos_event_fini(daos_event_t *ev);

/** The child of parent after child, or the first one for NULL. NULL when there is no more. */
daos_event_t *
daos_event_next(daos_event_t *parent, daos_event_t *child);

/**
 * Wait for one event; if it completed, take it out of its queue.
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
 * Have cb called when the event completes. Register before the event is used.
 * @return 0, -DER_NO_PERM when the event is not ready, -DER_NOMEM.
 */
int
daos_event_register_comp_cb(struct daos_event *ev, daos_event_comp_cb_t cb, void *arg);

/**
 * Launch a parent event: it completes with the last of its children.
 * @return 0, or -DER_INVAL when it has no child.
 */
int
daos_event_parent_barrier(struct daos_event *ev);

/**
 * Ask for a running event to end early. The call it stands for may complete all the same.
 * @return 0, or -DER_NO_PERM when it does not run.
 */
int
daos_event_abort(daos_event_t *ev);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_EVENT_H */
