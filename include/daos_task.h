/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_TASK_H
#define ESKER_DAOS_TASK_H

/**
 * @file
 * Calls of the interface in the form of tasks.
 *
 * A call has an opcode and a structure of arguments, named after it: DAOS_OPC_CONT_OPEN takes a
 * daos_cont_open_t. Create a task with daos_task_create, write its arguments through
 * daos_task_get_args, schedule it, and drive its scheduler with daos_progress.
 */

#include <daos/task_args_obj.h>
#include <daos/task_args_pool.h>
#include <daos/tse.h>
#include <daos_array.h>
#include <daos_cont.h>
#include <daos_errno.h>
#include <daos_kv.h>
#include <daos_mgmt.h>
#include <daos_obj.h>
#include <daos_pool.h>
#include <daos_prop.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Opcodes. */
typedef enum {
	DAOS_OPC_INVALID               = -1,

	DAOS_OPC_MGMT_LIST_POOLS       = 2,
	DAOS_OPC_SET_PARAMS            = 3,
	DAOS_OPC_MGMT_GET_BS_STATE     = 4,

	DAOS_OPC_POOL_CONNECT          = 5,
	DAOS_OPC_POOL_DISCONNECT       = 6,
	DAOS_OPC_POOL_EXCLUDE          = 7,
	DAOS_OPC_POOL_EXCLUDE_OUT      = 8,
	DAOS_OPC_POOL_ADD              = 9,
	DAOS_OPC_POOL_QUERY            = 10,
	DAOS_OPC_POOL_QUERY_INFO       = 11,
	DAOS_OPC_POOL_LIST_ATTR        = 12,
	DAOS_OPC_POOL_GET_ATTR         = 13,
	DAOS_OPC_POOL_SET_ATTR         = 14,
	DAOS_OPC_POOL_DEL_ATTR         = 15,
	DAOS_OPC_POOL_STOP_SVC         = 16,
	DAOS_OPC_POOL_LIST_CONT        = 17,

	DAOS_OPC_CONT_CREATE           = 18,
	DAOS_OPC_CONT_OPEN             = 19,
	DAOS_OPC_CONT_CLOSE            = 20,
	DAOS_OPC_CONT_DESTROY          = 21,
	DAOS_OPC_CONT_QUERY            = 22,
	DAOS_OPC_CONT_SET_PROP         = 23,
	DAOS_OPC_CONT_UPDATE_ACL       = 24,
	DAOS_OPC_CONT_DELETE_ACL       = 25,
	DAOS_OPC_CONT_AGGREGATE        = 26,
	DAOS_OPC_CONT_ROLLBACK         = 27,
	DAOS_OPC_CONT_SUBSCRIBE        = 28,
	DAOS_OPC_CONT_LIST_ATTR        = 29,
	DAOS_OPC_CONT_GET_ATTR         = 30,
	DAOS_OPC_CONT_SET_ATTR         = 31,
	DAOS_OPC_CONT_DEL_ATTR         = 32,
	DAOS_OPC_CONT_ALLOC_OIDS       = 33,
	DAOS_OPC_CONT_LIST_SNAP        = 34,
	DAOS_OPC_CONT_CREATE_SNAP      = 35,
	DAOS_OPC_CONT_DESTROY_SNAP     = 36,

	DAOS_OPC_TX_OPEN               = 37,
	DAOS_OPC_TX_COMMIT             = 38,
	DAOS_OPC_TX_ABORT              = 39,
	DAOS_OPC_TX_OPEN_SNAP          = 40,
	DAOS_OPC_TX_CLOSE              = 41,
	DAOS_OPC_TX_RESTART            = 42,

	DAOS_OPC_OBJ_QUERY_CLASS       = 44,
	DAOS_OPC_OBJ_LIST_CLASS        = 45,
	DAOS_OPC_OBJ_OPEN              = 46,
	DAOS_OPC_OBJ_CLOSE             = 47,
	DAOS_OPC_OBJ_PUNCH             = 48,
	DAOS_OPC_OBJ_PUNCH_DKEYS       = 49,
	DAOS_OPC_OBJ_PUNCH_AKEYS       = 50,
	DAOS_OPC_OBJ_QUERY             = 51,
	DAOS_OPC_OBJ_QUERY_KEY         = 52,
	DAOS_OPC_OBJ_SYNC              = 53,
	DAOS_OPC_OBJ_FETCH             = 54,
	DAOS_OPC_OBJ_UPDATE            = 55,
	DAOS_OPC_OBJ_LIST_DKEY         = 56,
	DAOS_OPC_OBJ_LIST_AKEY         = 57,
	DAOS_OPC_OBJ_LIST_RECX         = 58,
	DAOS_OPC_OBJ_LIST_OBJ          = 59,

	DAOS_OPC_ARRAY_CREATE          = 60,
	DAOS_OPC_ARRAY_OPEN            = 61,
	DAOS_OPC_ARRAY_CLOSE           = 62,
	DAOS_OPC_ARRAY_DESTROY         = 63,
	DAOS_OPC_ARRAY_READ            = 64,
	DAOS_OPC_ARRAY_WRITE           = 65,
	DAOS_OPC_ARRAY_PUNCH           = 66,
	DAOS_OPC_ARRAY_GET_SIZE        = 67,
	DAOS_OPC_ARRAY_SET_SIZE        = 68,
	DAOS_OPC_ARRAY_STAT            = 69,

	DAOS_OPC_KV_OPEN               = 70,
	DAOS_OPC_KV_CLOSE              = 71,
	DAOS_OPC_KV_DESTROY            = 72,
	DAOS_OPC_KV_GET                = 73,
	DAOS_OPC_KV_PUT                = 74,
	DAOS_OPC_KV_REMOVE             = 75,
	DAOS_OPC_KV_LIST               = 76,

	DAOS_OPC_POOL_FILTER_CONT      = 77,
	DAOS_OPC_OBJ_KEY2ANCHOR        = 78,
	DAOS_OPC_CONT_SNAP_OIT_CREATE  = 79,
	DAOS_OPC_CONT_SNAP_OIT_DESTROY = 80,
	DAOS_OPC_PIPELINE_RUN          = 81,
	DAOS_OPC_MAX                   = 82
} daos_opc_t;

/**
 * Create the task of a call.
 *
 * @param sched      its scheduler.
 * @param num_deps   number of entries in dep_tasks, for which it waits.
 * @param dep_tasks  may be NULL.
 * @return 0; -DER_NOSYS for an unsupported opcode; -DER_NOMEM.
 */
int
daos_task_create(daos_opc_t opc, tse_sched_t *sched, unsigned int num_deps,
		 tse_task_t *dep_tasks[], tse_task_t **taskp);

/** Reuse a task for another call. @return 0, -DER_NOSYS, -DER_NO_PERM. */
int
daos_task_reset(tse_task_t *task, daos_opc_t opc);

/** The arguments of a task, zeroed at first. */
void *
daos_task_get_args(tse_task_t *task);

/** The caller's pointer of a task. */
void *
daos_task_get_priv(tse_task_t *task);

/** Set the caller's pointer of a task. @return the previous one. */
void *
daos_task_set_priv(tse_task_t *task, void *priv);

/**
 * Run the tasks of a scheduler.
 *
 * @param timeout   microseconds to wait; DAOS_EQ_NOWAIT or DAOS_EQ_WAIT.
 * @param is_empty  set to whether no task is left.
 * @return 0, or -DER_TIMEDOUT on timeout.
 */
int
daos_progress(tse_sched_t *sched, int64_t timeout, bool *is_empty);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_TASK_H */
