/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_ESKER_H
#define ESKER_ESKER_H

/**
 * @file
 * The stores of Esker that DAOS does not have: fields by key, and tensors.
 *
 * The functions are in libdaos, next to those of DAOS, and share its handles, events and codes. A
 * program opens a pool and a container with daos_*, and a store in the container with this file.
 *
 * Functions with result int return 0 or a negated code of daos_errno.h. esker_error_text() has the
 * text of the failure, which names the thing, the cause and the remedy.
 *
 * Nearly every call takes an event as its last argument, as in daos_event.h. With NULL, it blocks.
 * With an event, strings, pairs, shapes and slabs may be freed when the call returns, but data,
 * buffers and results must stay valid until the event completes. If it completes with an error,
 * esker_event_error_text() has its text.
 *
 * A NULL pointer for an argument that is needed, an unknown flag and a size that does not suit are
 * refused with -DER_INVAL, a handle that is not open or of another kind with -DER_NO_HDL. Texts are
 * UTF-8. A call that fails opens no handle.
 *
 * Libraries of other makers do not have these functions. esker_libdaos_version() tells them apart.
 */

#include <daos_errno.h>
#include <daos_event.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Version of Esker, such as "0.2.0". */
const char *
esker_libdaos_version(void);

/**
 * Text of the last failure of a call of this file on this thread, empty before the first.
 * Valid until the next one.
 */
const char *
esker_error_text(void);

/**
 * Text of the failure that a completed event ended with, empty if it succeeded. Valid until the
 * thread asks again. Start the event again only after asking. The texts of the latest 1024 failures
 * are kept; an older one has the description of its code.
 */
const char *
esker_event_error_text(daos_event_t *ev);

/** Flag of opening: make an empty container a store. */
#define ESKER_CREATE   0x1U
/** Flag of esker_field_store_close: discard fields that wait for a flush. */
#define ESKER_DISCARD  0x2U
/** Flag of wipes, purges and collections: remove, instead of only counting. */
#define ESKER_DOIT     0x4U
/** Flag of esker_field_watch: the existing fields come first. */
#define ESKER_EXISTING 0x8U
/** Flag of esker_field_axes: a name that some of the fields lack has the empty value, too. */
#define ESKER_EMPTY    0x10U
/** Flag of esker_field_view: fail instead of making a copy. */
#define ESKER_IN_PLACE 0x20U

/* ---- fields ---- */

/** Bytes of the longest key as text, with its NUL. */
#define ESKER_FIELD_KEY_SIZE   1001
/** Bytes of the longest name in a key, with its NUL. */
#define ESKER_FIELD_NAME_SIZE  65
/** Bytes of the longest value in a key, with its NUL. */
#define ESKER_FIELD_VALUE_SIZE 256
/** Bytes of the longest path of an adopted file, with its NUL. */
#define ESKER_FIELD_PATH_SIZE  4097

/** A name and a value of a key; in a request, the value may be a list: "0/6/12", "0/to/24/by/6". */
typedef struct {
	const char *name;
	const char *value;
} esker_pair_t;

/** Fields that a wipe or purge removed, or would remove. */
typedef struct {
	/** Fields that readers saw; 0 for a purge. */
	uint64_t fields;
	/** Fields that newer ones with the same key masked. */
	uint64_t masked;
	/** Fields that dead writers never flushed, and rests of removals; 0 for a wipe. */
	uint64_t leftovers;
	/** Bytes of all of them. */
	uint64_t bytes;
} esker_field_removed_t;

/**
 * Open the field store of a container.
 *
 * Archiving calls on one handle take turns; threads that archive at a time open one each.
 *
 * @param coh     the container, open for writing unless the store is only read.
 * @param schema  a schema in FDB's language, or NULL for that of the store. A new store without one
 *                gets the schema that comes with Esker, for keys of the MARS language.
 * @param flags   0, or ESKER_CREATE to make an empty container a store, which several processes may
 *                do at a time.
 * @param fsh     set to the handle.
 * @return 0; -DER_INVAL if the container is not a field store, or the schema is not valid;
 *         -DER_MISMATCH if the store has another schema.
 */
int
esker_field_store_open(daos_handle_t coh, const char *schema, unsigned int flags,
		       daos_handle_t *fsh, daos_event_t *ev);

/**
 * Close a field store. Close it before its container. The last daos_fini closes all stores, and
 * discards fields that were not flushed.
 *
 * @param flags 0, or ESKER_DISCARD to discard archived fields that were not flushed.
 * @return 0; -DER_BUSY if fields wait for a flush: the store stays open.
 */
int
esker_field_store_close(daos_handle_t fsh, unsigned int flags, daos_event_t *ev);

/**
 * Copy the text of the schema of a store, without a NUL.
 *
 * @param buf   receives the text; NULL to query only the size.
 * @param size  in: bytes of buf; out: bytes of the text.
 * @return 0; -DER_REC2BIG if buf is too small.
 */
int
esker_field_schema(daos_handle_t fsh, char *buf, daos_size_t *size);

/**
 * Archive a field. Its bytes are stored when the call returns, and become visible at the flush.
 *
 * @param key    the pairs of the key, in any order that the schema allows.
 * @param pairs  entries in key.
 * @param data   the bytes of the field.
 * @param size   their number, at least 1.
 * @return 0; -DER_INVAL if the key does not fit the schema.
 */
int
esker_field_archive(daos_handle_t fsh, const esker_pair_t *key, uint32_t pairs, const void *data,
		    daos_size_t size, daos_event_t *ev);

/**
 * Adopt a field: its bytes stay in a file, which the store does not own. If the file changes or
 * vanishes, so does the field. It becomes visible at the flush.
 *
 * @param key     as in esker_field_archive.
 * @param path    absolute path of the file, below ESKER_FIELD_PATH_SIZE bytes.
 * @param offset  first byte of the field in the file.
 * @param size    bytes of the field, at least 1.
 * @return 0; -DER_NONEXIST if there is no such file; -DER_INVAL if the path is relative, or the
 *         file does not have these bytes.
 */
int
esker_field_adopt(daos_handle_t fsh, const esker_pair_t *key, uint32_t pairs, const char *path,
		  uint64_t offset, daos_size_t size, daos_event_t *ev);

/** Count the archived fields that wait for a flush, and their bytes. NULL skips a result. */
int
esker_field_pending(daos_handle_t fsh, uint64_t *count, uint64_t *bytes);

/**
 * Make all fields visible that were archived with this handle, at one moment. They mask existing
 * fields with the same keys. If it fails, all are visible or none, and it can be repeated. After
 * -DER_DATA_LOSS, nothing is pending any more, and the fields can be archived again.
 */
int
esker_field_flush(daos_handle_t fsh, daos_event_t *ev);

/**
 * Read the field with exactly this key.
 *
 * @param buf   receives the bytes; NULL to query only the size.
 * @param size  in: bytes of buf; out: bytes of the field.
 * @return 0; -DER_NONEXIST; -DER_REC2BIG if buf is too small: *size is set, nothing is read.
 */
int
esker_field_retrieve(daos_handle_t fsh, const esker_pair_t *key, uint32_t pairs, void *buf,
		     daos_size_t *size, daos_event_t *ev);

/**
 * Find all fields of a request, in its order; its last name varies fastest.
 *
 * @param request  names, each with a value or a list of values. The pair "expect", "any" allows
 *                 fields to be missing.
 * @param sel      set to a handle of the selection.
 * @param count    set to the number of fields; may be NULL.
 * @return 0; -DER_NONEXIST if a field is missing.
 */
int
esker_field_select(daos_handle_t fsh, const esker_pair_t *request, uint32_t pairs,
		   daos_handle_t *sel, uint64_t *count, daos_event_t *ev);

/**
 * Find the existing fields that a request matches, possibly none. Each flush is visible
 * completely or not at all. Without pairs, all fields match. Parameters as in esker_field_select.
 */
int
esker_field_list(daos_handle_t fsh, const esker_pair_t *request, uint32_t pairs,
		 daos_handle_t *sel, uint64_t *count, daos_event_t *ev);

/**
 * Get the key and the size of a field of a selection.
 *
 * @param index     number of the field, from 0.
 * @param key       receives the key as text, "class=od,step=0", with a NUL; may be NULL.
 * @param key_size  bytes of key; ESKER_FIELD_KEY_SIZE is always enough.
 * @param size      set to the bytes of the field; may be NULL.
 * @return 0; -DER_OVERFLOW if key is too small.
 */
int
esker_field_entry(daos_handle_t sel, uint64_t index, char *key, daos_size_t key_size,
		  daos_size_t *size);

/**
 * Read fields of a selection, one after another.
 *
 * @param first  number of the first field.
 * @param count  number of fields.
 * @param buf    receives the bytes; NULL to query only their number.
 * @param size   in: bytes of buf; out: bytes of all these fields.
 * @return 0; -DER_REC2BIG if buf is too small: nothing is read; -DER_NONEXIST if a field was wiped.
 */
int
esker_field_read(daos_handle_t sel, uint64_t first, uint64_t count, void *buf, daos_size_t *size,
		 daos_event_t *ev);

/**
 * Read a part of a field of a selection.
 *
 * @param index   number of the field, from 0.
 * @param offset  first byte of the part.
 * @param buf     receives the bytes.
 * @param size    their number.
 * @return 0; -DER_INVAL if the field ends before them; -DER_NONEXIST if it was wiped.
 */
int
esker_field_read_at(daos_handle_t sel, uint64_t index, uint64_t offset, void *buf, daos_size_t size,
		    daos_event_t *ev);

/**
 * View the bytes of a field of a selection: in a pool in memory, the stored bytes themselves, if
 * the field has over 1024 bytes and at most 4 MiB; otherwise a copy. They are valid and unchanged
 * until the view is closed, also if the field is wiped or the selection closed. Views prevent the
 * reuse of space, so close them soon; a process has at most 4096 in place.
 *
 * @param index  number of the field, from 0.
 * @param flags  0, or ESKER_IN_PLACE to fail if a copy is necessary.
 * @param view   set to a handle of the view.
 * @param data   set to the address of the bytes, which must not be written to.
 * @param size   set to their number; may be NULL.
 * @return 0; -DER_NOTSUPPORTED if ESKER_IN_PLACE is set and a copy is necessary; -DER_OVERFLOW if
 *         the process has too many views; -DER_NONEXIST if the field was wiped.
 */
int
esker_field_view(daos_handle_t sel, uint64_t index, unsigned int flags, daos_handle_t *view,
		 const void **data, daos_size_t *size, daos_event_t *ev);

/** Close a view. Its bytes must not be read any more. */
int
esker_field_view_close(daos_handle_t view, daos_event_t *ev);

/**
 * Get when a field of a selection was archived, and the file that has the bytes of an adopted one.
 *
 * @param index        number of the field, from 0.
 * @param archived_ms  set to the time, in milliseconds since 1970; may be NULL.
 * @param path         receives the path of the file, with a NUL; empty if the store has the bytes.
 *                     May be NULL.
 * @param path_size    bytes of path; ESKER_FIELD_PATH_SIZE is always enough.
 * @param offset       set to the first byte of the field in the file; may be NULL.
 * @return 0; -DER_OVERFLOW if path is too small.
 */
int
esker_field_location(daos_handle_t sel, uint64_t index, uint64_t *archived_ms, char *path,
		     daos_size_t path_size, uint64_t *offset);

/** Close a selection. */
int
esker_field_select_close(daos_handle_t sel, daos_event_t *ev);

/**
 * Find the values that each name has in the existing fields of a request. Without pairs, all fields
 * match.
 *
 * @param flags  0, or ESKER_EMPTY: a name that some of the fields lack has the empty value, too.
 * @param axes   set to a handle of the axes: the names, sorted, each with its values.
 * @param count  set to the number of names, 0 if no field matches; may be NULL.
 */
int
esker_field_axes(daos_handle_t fsh, const esker_pair_t *request, uint32_t pairs,
		 unsigned int flags, daos_handle_t *axes, uint32_t *count, daos_event_t *ev);

/**
 * Get the name of an axis and the number of its values.
 *
 * @param index      number of the axis, from 0.
 * @param name       receives the name, with a NUL; may be NULL.
 * @param name_size  bytes of name; ESKER_FIELD_NAME_SIZE is always enough.
 * @param values     set to the number of values; may be NULL.
 * @return 0; -DER_OVERFLOW if name is too small.
 */
int
esker_field_axis(daos_handle_t axes, uint32_t index, char *name, daos_size_t name_size,
		 uint64_t *values);

/**
 * Get a value of an axis. They have the order of the type of the name: steps and levels by size.
 *
 * @param index       number of the axis, from 0.
 * @param number      number of the value, from 0.
 * @param value       receives the value, with a NUL.
 * @param value_size  bytes of value; ESKER_FIELD_VALUE_SIZE is always enough.
 * @return 0; -DER_OVERFLOW if value is too small.
 */
int
esker_field_axis_value(daos_handle_t axes, uint32_t index, uint64_t number, char *value,
		       daos_size_t value_size);

/** Close axes. */
int
esker_field_axes_close(daos_handle_t axes, daos_event_t *ev);

/**
 * Watch the fields of a request: esker_field_watch_next yields each once it is flushed by any
 * process, and again whenever it is archived again. Without pairs, all fields match. The watch
 * remembers each field that it has yielded.
 *
 * @param flags  0, or ESKER_EXISTING: the existing fields come first.
 * @param watch  set to a handle of the watch.
 */
int
esker_field_watch(daos_handle_t fsh, const esker_pair_t *request, uint32_t pairs,
		  unsigned int flags, daos_handle_t *watch, daos_event_t *ev);

/**
 * Wait for the next fields of a watch. Like daos_eq_poll, it has no event.
 *
 * Several threads may wait on one watch: each field is yielded to one of them. If a thread closes
 * the watch, the others end with -DER_NO_HDL within a second.
 *
 * @param timeout  microseconds to wait; DAOS_EQ_NOWAIT or DAOS_EQ_WAIT.
 * @param sel      set to a handle of a selection with all fields that have arrived, in the order in
 *                 which they were archived.
 * @param count    set to their number, at least 1; may be NULL.
 * @return 0; -DER_TIMEDOUT if none has arrived.
 */
int
esker_field_watch_next(daos_handle_t watch, int64_t timeout, daos_handle_t *sel, uint64_t *count);

/** Close a watch. */
int
esker_field_watch_close(daos_handle_t watch, daos_event_t *ev);

/**
 * Remove all fields of a request, masked ones too.
 *
 * @param flags   ESKER_DOIT; with 0, the fields are only counted.
 * @param counts  set to the number of fields and bytes; may be NULL.
 * @return 0; -DER_INVAL unless the request gives every name of a database that it matches.
 */
int
esker_field_wipe(daos_handle_t fsh, const esker_pair_t *request, uint32_t pairs, unsigned int flags,
		 esker_field_removed_t *counts, daos_event_t *ev);

/**
 * Free masked fields that a request matches, and what dead writers have left. Without pairs, all
 * masked fields match.
 *
 * @param flags   ESKER_DOIT; with 0, they are only counted.
 * @param counts  set to the number of fields and bytes; may be NULL.
 */
int
esker_field_purge(daos_handle_t fsh, const esker_pair_t *request, uint32_t pairs,
		  unsigned int flags, esker_field_removed_t *counts, daos_event_t *ev);

/* ---- tensors ---- */

/** Most dimensions of a tensor. */
#define ESKER_DIMENSIONS_MAX 32
/** Bytes of a UUID as text, with its NUL. */
#define ESKER_UUID_SIZE      37

/** Indexes of one dimension: count indexes from start on, each step after the one before. */
typedef struct {
	uint64_t start;
	/** At least 1. */
	uint64_t step;
	uint64_t count;
} esker_slab_t;

/** Type of an attribute: one byte, 0 or 1. */
#define ESKER_ATTR_FLAG    1
/** Type of an attribute: an int64_t. */
#define ESKER_ATTR_INTEGER 2
/** Type of an attribute: a double. */
#define ESKER_ATTR_REAL    3
/** Type of an attribute: a text, without a NUL. */
#define ESKER_ATTR_TEXT    4
/** Type of an attribute: bytes. */
#define ESKER_ATTR_BYTES   5
/**
 * Added to one of the first four types: a list of such values, one after another, each text with a
 * NUL. An empty list is read as ESKER_ATTR_LIST alone.
 */
#define ESKER_ATTR_LIST    0x100

/** An attribute of a new tensor. */
typedef struct {
	const char *name;
	const void *value;
	/** Bytes of value. */
	daos_size_t size;
	/** ESKER_ATTR_*. */
	uint32_t    type;
	/** 0. */
	uint32_t    padding;
} esker_attr_t;

/** Description of a tensor. */
typedef struct {
	/** UUID as text. */
	char     uuid[40];
	/** Type of the elements in the form of numpy's dtype.str, such as "<f8". */
	char     dtype[64];
	/** Name; empty if it has none. */
	char     name[1008];
	/** Bytes of an element. */
	uint64_t item;
	/** Bytes of all elements. */
	uint64_t bytes;
	/** When it became visible, in milliseconds since 1970. */
	uint64_t committed_ms;
	/** Number of attributes; 0 in lists. */
	uint32_t attributes;
	/** Members of a structured type, which Python and Rust show; 0 for other types. */
	uint32_t members;
	/** Number of dimensions. */
	uint32_t ndim;
	uint32_t padding;
	/** Length of each dimension. */
	uint64_t shape[ESKER_DIMENSIONS_MAX];
	/** Shape of a chunk; zeros in lists. */
	uint64_t chunks[ESKER_DIMENSIONS_MAX];
} esker_tensor_info_t;

/** PUTs, tensors and objects that a collection freed, or would free. */
typedef struct {
	/** PUTs that were never committed. */
	uint64_t puts;
	/** Tensors that were removed or replaced. */
	uint64_t removed;
	/** Objects that belong to no tensor. */
	uint64_t objects;
	/** PUTs and removed tensors that stay: they are too young, or a process reads them. */
	uint64_t kept;
} esker_tensor_collected_t;

/**
 * Open the tensor store of a container.
 *
 * @param flags  0, or ESKER_CREATE to make an empty container a store, which several processes may
 *               do at a time.
 * @return 0; -DER_INVAL if the container is not a tensor store.
 */
int
esker_tensor_store_open(daos_handle_t coh, unsigned int flags, daos_handle_t *tsh,
			daos_event_t *ev);

/**
 * Open a tensor store in the state of a snapshot of its container, for reading. Changes of it are
 * refused with -DER_NO_PERM.
 *
 * @param epoch     the epoch of the snapshot, from daos_cont_create_snap or daos_cont_list_snap.
 * @param snapshot  set to a handle of the store, which esker_tensor_store_close closes.
 * @return 0; -DER_NONEXIST if the container has no snapshot at epoch.
 */
int
esker_tensor_store_at(daos_handle_t tsh, daos_epoch_t epoch, daos_handle_t *snapshot,
		      daos_event_t *ev);

/** Close a tensor store. Close it before its container. */
int
esker_tensor_store_close(daos_handle_t tsh, daos_event_t *ev);

/**
 * Begin a tensor that any processes write in parts. Nobody sees it before its commit.
 *
 * @param dtype       type of the elements in the form of numpy's dtype.str, such as "<f8".
 * @param ndim        number of dimensions; 0 for one element.
 * @param shape       length of each; the last one varies fastest.
 * @param chunks      shape of a chunk, or NULL for complete rows of up to 4 MiB.
 * @param attrs       attributes, or NULL.
 * @param attr_count  entries in attrs.
 * @param put         set to a handle of the PUT.
 */
int
esker_tensor_begin(daos_handle_t tsh, const char *dtype, uint32_t ndim, const uint64_t *shape,
		   const uint64_t *chunks, const esker_attr_t *attrs, uint32_t attr_count,
		   daos_handle_t *put, daos_event_t *ev);

/** Copy the token of a PUT, ESKER_UUID_SIZE bytes, by which other processes join it. */
int
esker_tensor_token(daos_handle_t put, char *token);

/**
 * Join a PUT that another process has begun.
 * @return 0; -DER_NONEXIST if it was aborted; -DER_ALREADY if it was committed.
 */
int
esker_tensor_join(daos_handle_t tsh, const char *token, daos_handle_t *put, daos_event_t *ev);

/**
 * Describe the tensor of a PUT, as for a process that joined it. It has no name, no time and no
 * attributes yet: these members are empty or 0.
 */
int
esker_tensor_put_query(daos_handle_t put, esker_tensor_info_t *info);

/**
 * Write a part of a tensor. Parts must not overlap.
 *
 * @param ndim   number of dimensions of the tensor.
 * @param start  first index of the part in each.
 * @param count  length of the part in each.
 * @param data   its elements, the last dimension varying fastest.
 * @param size   their bytes.
 * @return 0; -DER_INVAL if the part does not fit, or size is not that of count.
 */
int
esker_tensor_write(daos_handle_t put, uint32_t ndim, const uint64_t *start, const uint64_t *count,
		   const void *data, daos_size_t size, daos_event_t *ev);

/**
 * Make a tensor visible, once all of its writers have finished. It replaces a tensor with its name.
 *
 * @param name  its name, or NULL if only its UUID identifies it.
 * @param uuid  receives its UUID, ESKER_UUID_SIZE bytes; may be NULL.
 * @return 0; -DER_INVAL if parts overlap or are missing: the text names them, and the PUT goes on.
 */
int
esker_tensor_commit(daos_handle_t put, const char *name, char *uuid, daos_event_t *ev);

/** Abort a PUT and free its elements. @return 0; -DER_ALREADY if it was committed. */
int
esker_tensor_abort(daos_handle_t put, daos_event_t *ev);

/** Close the handle of a PUT. The PUT itself goes on until it is committed or aborted. */
int
esker_tensor_put_close(daos_handle_t put, daos_event_t *ev);

/**
 * Store a complete tensor. Parameters as in esker_tensor_begin, esker_tensor_write and
 * esker_tensor_commit.
 */
int
esker_tensor_put(daos_handle_t tsh, const char *dtype, uint32_t ndim, const uint64_t *shape,
		 const void *data, daos_size_t size, const char *name, char *uuid,
		 daos_event_t *ev);

/**
 * Open a tensor by its name or UUID. It does not change while it is open, even if it is replaced.
 * @return 0; -DER_NONEXIST.
 */
int
esker_tensor_open(daos_handle_t tsh, const char *name, daos_handle_t *th, daos_event_t *ev);

/** Close a tensor. */
int
esker_tensor_close(daos_handle_t th, daos_event_t *ev);

/** Describe an open tensor. @return 0; -DER_OVERFLOW if info has no room for its type. */
int
esker_tensor_query(daos_handle_t th, esker_tensor_info_t *info);

/**
 * Read a tensor or a selection of its elements; the last dimension varies fastest.
 *
 * @param slabs  the indexes of each dimension; NULL, with an ndim of 0, for the whole tensor.
 * @param ndim   entries in slabs.
 * @param buf    receives the elements; NULL to query only their bytes.
 * @param size   in: bytes of buf; out: bytes of the elements.
 * @return 0; -DER_REC2BIG if buf is too small: nothing is read; -DER_INVAL if slabs do not fit.
 */
int
esker_tensor_get(daos_handle_t th, const esker_slab_t *slabs, uint32_t ndim, void *buf,
		 daos_size_t *size, daos_event_t *ev);

/**
 * Read an attribute.
 *
 * @param type  set to ESKER_ATTR_*; may be NULL.
 * @param buf   receives the value; NULL to query only type and size.
 * @param size  in: bytes of buf; out: bytes of the value.
 * @return 0; -DER_NONEXIST; -DER_REC2BIG if buf is too small; -DER_NOTSUPPORTED for a list of
 *         lists, of bytes or of values of several types.
 */
int
esker_tensor_attribute(daos_handle_t th, const char *name, uint32_t *type, void *buf,
		       daos_size_t *size);

/** Copy the name of attribute index, from 0, with a NUL. @return 0; -DER_OVERFLOW if too long. */
int
esker_tensor_attribute_name(daos_handle_t th, uint32_t index, char *name, daos_size_t name_size);

/**
 * List the visible tensors, those with names first. Damaged ones are left out: `esker tensor list` names them.
 * @param count  set to their number, or NULL.
 */
int
esker_tensor_list(daos_handle_t tsh, daos_handle_t *list, uint64_t *count, daos_event_t *ev);

/** Describe tensor index, from 0, of a list. */
int
esker_tensor_entry(daos_handle_t list, uint64_t index, esker_tensor_info_t *info);

/** Close a list. */
int
esker_tensor_list_close(daos_handle_t list, daos_event_t *ev);

/** Remove a tensor by its name or UUID. Processes that have it open can still read it. */
int
esker_tensor_remove(daos_handle_t tsh, const char *name, daos_event_t *ev);

/** Give a tensor another name, or its first. It replaces a tensor that has the name. */
int
esker_tensor_rename(daos_handle_t tsh, const char *from, const char *to, daos_event_t *ev);

/**
 * Free PUTs that were never committed, and removed or replaced tensors that no process reads.
 *
 * @param age_s   seconds since a PUT began; younger ones stay. On pools that do not show which
 *                tensors other processes read (posix:, rados:), also the seconds since a removal.
 * @param flags   ESKER_DOIT; with 0, they are only counted.
 * @param counts  set to their numbers; may be NULL.
 */
int
esker_tensor_collect(daos_handle_t tsh, uint64_t age_s, unsigned int flags,
		     esker_tensor_collected_t *counts, daos_event_t *ev);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_ESKER_H */
