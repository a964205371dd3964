/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_KV_H
#define ESKER_DAOS_KV_H

/**
 * @file
 * KV objects map keys to values.
 *
 * A key is a string; its NUL is not part of it. A value is any bytes. The object's type must be
 * DAOS_OT_KV_HASHED, DAOS_OT_KV_UINT64 or DAOS_OT_KV_LEXICAL. A handle that is not open returns
 * -DER_NO_HDL, a NULL key -DER_INVAL.
 */

#include <daos_obj.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flag of put: the key must be new, else -DER_EXIST. */
#define DAOS_COND_KEY_INSERT DAOS_COND_DKEY_INSERT
/** Flag of put: the key must exist, else -DER_NONEXIST. */
#define DAOS_COND_KEY_UPDATE DAOS_COND_DKEY_UPDATE
/** Flag of get: the key must exist, else -DER_NONEXIST. */
#define DAOS_COND_KEY_GET    DAOS_COND_DKEY_FETCH
/** Flag of remove: the key must exist, else -DER_NONEXIST. */
#define DAOS_COND_KEY_REMOVE DAOS_COND_PUNCH

/** Open a KV object; it need not be created. @param mode DAOS_OO_*. @return 0 or -DER_INVAL. */
int
daos_kv_open(daos_handle_t coh, daos_obj_id_t oid, unsigned int mode, daos_handle_t *oh,
	     daos_event_t *ev);

/** Close a KV object. */
int
daos_kv_close(daos_handle_t oh, daos_event_t *ev);

/** Delete all keys of an object. The handle stays open; close it. */
int
daos_kv_destroy(daos_handle_t oh, daos_handle_t th, daos_event_t *ev);

/** Store a value of size bytes, which may be 0, under a key. */
int
daos_kv_put(daos_handle_t oh, daos_handle_t th, uint64_t flags, const char *key,
	    daos_size_t size, const void *buf, daos_event_t *ev);

/**
 * Read the value of a key.
 *
 * @param size  in: bytes of buf; out: bytes of the value, or 0 if the key is missing.
 *              Ignored on input if buf is NULL. size itself must not be NULL: -DER_INVAL.
 * @param buf   receives the value; NULL, or a *size of 0, to query only the size.
 * @return 0, even if the key is missing (see DAOS_COND_KEY_GET); -DER_REC2BIG if buf is
 *         too small; *size is then the size of the value.
 */
int
daos_kv_get(daos_handle_t oh, daos_handle_t th, uint64_t flags, const char *key,
	    daos_size_t *size, void *buf, daos_event_t *ev);

/** Delete a key. Without DAOS_COND_KEY_REMOVE it need not exist. */
int
daos_kv_remove(daos_handle_t oh, daos_handle_t th, uint64_t flags, const char *key,
	       daos_event_t *ev);

/** List the keys, like daos_obj_list_dkey. */
int
daos_kv_list(daos_handle_t oh, daos_handle_t th, uint32_t *nr, daos_key_desc_t *kds,
	     d_sg_list_t *sgl, daos_anchor_t *anchor, daos_event_t *ev);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_KV_H */
