/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_OBJECT_H
#define ESKER_DAOS_OBJECT_H

/**
 * @file
 * Where an object's shards are, of which pydaos looks up the function.
 */

#include <daos_obj.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The layout of an object. Its groups of shards follow it. */
struct daos_obj_layout;

/** Not offered. @return -DER_NOSYS: the store does not reveal which targets have an object. */
int
daos_obj_layout_get(daos_handle_t coh, daos_obj_id_t oid, struct daos_obj_layout **layout);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_OBJECT_H */
