/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_OIT_H
#define ESKER_DAOS_OIT_H

/**
 * @file
 * The object identifier table: the objects that a snapshot contains.
 *
 * The table is created with a snapshot (DAOS_SNAP_OPT_OIT, or daos_cont_snap_oit_create).
 */

#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Largest marker in bytes. */
#define DAOS_OIT_MARKER_MAX_LEN (32)

/** Open the table of the snapshot at epoch. */
int
daos_oit_open(daos_handle_t coh, daos_epoch_t epoch, daos_handle_t *oh, daos_event_t *ev);

/** Close a table. */
int
daos_oit_close(daos_handle_t oh, daos_event_t *ev);

/**
 * List the identifiers of a table.
 *
 * @param oids_nr  in: entries in oids; out: identifiers set.
 * @param anchor   zeroed to begin; daos_anchor_is_eof at the end.
 */
int
daos_oit_list(daos_handle_t oh, daos_obj_id_t *oids, uint32_t *oids_nr, daos_anchor_t *anchor,
	      daos_event_t *ev);

/**
 * Mark an identifier in a table.
 *
 * @param marker  up to DAOS_OIT_MARKER_MAX_LEN bytes, else -DER_INVAL; NULL removes the mark.
 * @return 0, or -DER_NONEXIST if the identifier is not in the table.
 */
int
daos_oit_mark(daos_handle_t oh, daos_obj_id_t oid, d_iov_t *marker, daos_event_t *ev);

/** Like daos_oit_list, for identifiers without a mark. */
int
daos_oit_list_unmarked(daos_handle_t oh, daos_obj_id_t *oids, uint32_t *oids_nr,
		       daos_anchor_t *anchor, daos_event_t *ev);

/** Whether to list an identifier: positive for yes, 0 for no, negative to end with that error. */
typedef int(daos_oit_filter_cb)(daos_obj_id_t oid, d_iov_t *marker);

/** Like daos_oit_list, for identifiers that a filter accepts. */
int
daos_oit_list_filter(daos_handle_t oh, daos_obj_id_t *oids, uint32_t *oids_nr,
		     daos_anchor_t *anchor, daos_oit_filter_cb filter, daos_event_t *ev);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_OIT_H */
