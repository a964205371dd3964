/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_TSE_H
#define ESKER_DAOS_TSE_H

/**
 * @file
 * Tasks and schedulers: calls that depend on one another.
 *
 * A task has a body, callbacks around it, and tasks that must complete before it starts. It
 * runs when its scheduler makes progress, which the caller drives with daos_progress or
 * tse_sched_progress. The library allocates tasks and counts references to them; a scheduler
 * drops its own reference when a task is complete.
 */

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>

#include <gurt/list.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Maximum bytes of a task's embedded buffer. */
#define TSE_TASK_ARG_LEN 880
#define TSE_PRIV_SIZE    1016
#define TSE_TASK_SIZE    1024

/** A task. */
typedef struct tse_task {
	/** Its result: 0 or a negated error code. Set before callbacks on completion run. */
	int dt_result;
	int dt_pad32;
	/** Private to the library. */
	struct {
		char dt_space[TSE_PRIV_SIZE];
	} dt_private;
} tse_task_t;

/** A scheduler, in memory owned by the caller. */
typedef struct {
	/** The first error of its tasks, or 0. */
	int   ds_result;
	/** The caller's pointer. */
	void *ds_udata;
	/** Private to the library. */
	struct {
		uint64_t ds_space[48];
	} ds_private;
} tse_sched_t;

/** Called when a scheduler is complete. */
typedef int (*tse_sched_comp_cb_t)(void *args, int rc);

/** The body of a task. It ends when tse_task_complete is called, there or later. */
typedef int (*tse_task_func_t)(tse_task_t *task);

/** Called before the body of a task, or when it is complete. */
typedef int (*tse_task_cb_t)(tse_task_t *task, void *arg);

/** Create a scheduler. @param comp_cb may be NULL. @return 0 or -DER_NOMEM. */
int
tse_sched_init(tse_sched_t *sched, tse_sched_comp_cb_t comp_cb, void *udata);

/** Finalize a scheduler; its tasks must be complete. */
void
tse_sched_fini(tse_sched_t *sched);

/** Take a reference on a scheduler. */
void
tse_sched_addref(tse_sched_t *sched);

/** Drop a reference on a scheduler. */
void
tse_sched_decref(tse_sched_t *sched);

/**
 * Finish a scheduler: with cancel, drop its tasks without their callbacks, else run them
 * first. ret becomes its result. Drops a reference like tse_sched_decref.
 */
void
tse_sched_complete(tse_sched_t *sched, int ret, bool cancel);

/** Register cb to be called when a scheduler is complete. @return 0 or -DER_NOMEM. */
int
tse_sched_register_comp_cb(tse_sched_t *sched, tse_sched_comp_cb_t comp_cb, void *arg);

/** Run the tasks that can be run now. */
void
tse_sched_progress(tse_sched_t *sched);

/** Whether a scheduler has no task left. */
bool
tse_sched_check_complete(tse_sched_t *sched);

/**
 * Create a task of a scheduler. It does not run before tse_task_schedule.
 *
 * @param task_func  its body, or NULL: then the task, once started, runs until tse_task_complete
 *                   or until the tasks that it was made to wait for meanwhile are complete.
 * @param priv       see tse_task_get_priv.
 * @return 0 or -DER_NOMEM.
 */
int
tse_task_create(tse_task_func_t task_func, tse_sched_t *sched, void *priv, tse_task_t **taskp);

/** Schedule a task; with instant, run its body in this call if it waits for nothing. */
int
tse_task_schedule(tse_task_t *task, bool instant);

/** Like tse_task_schedule, but run the body no earlier than delay microseconds from now. */
int
tse_task_schedule_with_delay(tse_task_t *task, bool instant, uint64_t delay);

/**
 * Register comp_cb to be called when a task is complete; last registered, first called.
 *
 * @param arg  arg_size bytes that are copied; with arg_size 0 the pointer itself is passed.
 * @return 0 or -DER_NOMEM.
 */
int
tse_task_register_comp_cb(tse_task_t *task, tse_task_cb_t comp_cb, void *arg, size_t arg_size);

/** tse_task_register_comp_cb and tse_task_reinit_with_delay: both or neither. */
int
tse_task_register_comp_cb_and_reinit(tse_task_t *task, tse_task_cb_t comp_cb, void *arg,
				     size_t arg_size, uint64_t delay);

/** End a task with a result. The callbacks run, and tasks that wait for it may start. */
void
tse_task_complete(tse_task_t *task, int ret);

/** The buffer for arguments inside a task; NULL when it has fewer than size bytes. */
void *
tse_task_buf_embedded(tse_task_t *task, int size);

/** The caller's pointer of a task. */
void *
tse_task_get_priv(tse_task_t *task);

/** Set the caller's pointer of a task. @return the previous one. */
void *
tse_task_set_priv(tse_task_t *task, void *priv);

/** Arguments of a task: its embedded buffer. */
void *
tse_task2arg(tse_task_t *task);

/** The scheduler of a task. */
tse_sched_t *
tse_task2sched(tse_task_t *task);

/**
 * Make a task wait for others. One that is running, or in its completion callbacks, completes with
 * the last of them.
 *
 * @return 0, or -DER_NO_PERM if the task is complete, -DER_NOMEM.
 */
int
tse_task_register_deps(tse_task_t *task, int num_deps, tse_task_t *dep_tasks[]);

/** Register callbacks to run before a task's body and on its completion. Either may be NULL. */
int
tse_task_register_cbs(tse_task_t *task, tse_task_cb_t prep_cb, void *prep_data,
		      size_t prep_data_size, tse_task_cb_t comp_cb, void *comp_data,
		      size_t comp_data_size);

/**
 * Run a task again: one that is running, in its completion callbacks, or complete.
 * Callbacks that were called are removed; those that were not are kept.
 *
 * @return 0, -DER_NO_PERM for another task, -DER_INVAL for a task without a body.
 */
int
tse_task_reinit(tse_task_t *task);

/** Like tse_task_reinit, but no earlier than delay microseconds from now. */
int
tse_task_reinit_with_delay(tse_task_t *task, uint64_t delay);

/** Reuse a task that is complete and in no list. @return 0 or -DER_NO_PERM. */
int
tse_task_reset(tse_task_t *task, tse_task_func_t task_func, void *priv);

/** Take a reference on a task. */
void
tse_task_addref(tse_task_t *task);

/** Drop a reference on a task; the last one frees it. */
void
tse_task_decref(tse_task_t *task);

/** Append a task to a list. @return 0, or -DER_NO_PERM if it is already in one. */
int
tse_task_list_add(tse_task_t *task, d_list_t *head);

/** Remove a task from its list. */
void
tse_task_list_del(tse_task_t *task);

/** The first task of a list, or NULL. */
tse_task_t *
tse_task_list_first(d_list_t *head);

/** Call tse_task_schedule for every task of a list. */
void
tse_task_list_sched(d_list_t *head, bool instant);

/** Remove every task from a list and complete it with rc. */
void
tse_task_list_abort(d_list_t *head, int rc);

/** Make every task of a list wait for a task. */
int
tse_task_list_depend(d_list_t *head, tse_task_t *task);

/** Make a task wait for every task of a list. */
int
tse_task_depend_list(tse_task_t *task, d_list_t *head);

/** Call cb for every task of a list; it may remove that task. @return its last error, or 0. */
int
tse_task_list_traverse(d_list_t *head, tse_task_cb_t cb, void *arg);

/** Like tse_task_list_traverse, but cb may also free the last task or the list. */
int
tse_task_list_traverse_adv(d_list_t *head, tse_task_cb_t cb, void *arg);

/** Do not propagate errors to a task from the tasks it waits for. */
void
tse_disable_propagate(tse_task_t *task);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_TSE_H */
