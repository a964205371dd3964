/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_ARRAY_H
#define ESKER_DAOS_ARRAY_H

/**
 * @file
 * Arrays: one-dimensional, of cells of one size, stored in chunks that are spread over targets.
 *
 * An array's type (see daos_otype_t) decides who knows its cell and chunk sizes. DAOS_OT_ARRAY
 * stores them: create it once, then open it. For DAOS_OT_ARRAY_ATTR and DAOS_OT_ARRAY_BYTE the
 * user gives them to daos_array_open_with_attr. Any other type gives -DER_INVAL.
 *
 * Positions and lengths are in cells. A handle that is not open gives -DER_NO_HDL.
 */

#include <daos_obj.h>
#include <daos_obj_class.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Largest number of ranges in one call when all are of DAOS_ARRAY_RG_LEN_THD cells or fewer. */
#define DAOS_ARRAY_LIST_IO_LIMIT 16384
#define DAOS_ARRAY_RG_LEN_THD    16

/** A range of cells: rg_len of them from rg_idx on. */
typedef struct {
	daos_off_t  rg_idx;
	daos_size_t rg_len;
} daos_range_t;

/** Which cells to read or write. */
typedef struct {
	/** Entries in arr_rgs. */
	daos_size_t   arr_nr;
	/** Ranges; those of no length are skipped. */
	daos_range_t *arr_rgs;
	/** Set by a read of a DAOS_OT_ARRAY_BYTE: bytes asked for past the end. */
	daos_size_t   arr_nr_short_read;
	/** Set by a read of a DAOS_OT_ARRAY_BYTE: bytes read. */
	daos_size_t   arr_nr_read;
} daos_array_iod_t;

/** What daos_array_stat tells. */
typedef struct {
	/** Size in cells. */
	daos_size_t  st_size;
	/** Epoch of the latest change. */
	daos_epoch_t st_max_epoch;
} daos_array_stbuf_t;

/**
 * daos_obj_generate_oid for an array.
 * @param add_attr  DAOS_OT_ARRAY, which stores its cell and chunk sizes; else DAOS_OT_ARRAY_ATTR.
 */
static inline int
daos_array_generate_oid(daos_handle_t coh, daos_obj_id_t *oid, bool add_attr,
			daos_oclass_id_t cid, daos_oclass_hints_t hints, uint32_t args)
{
	return daos_obj_generate_oid2(coh, oid, add_attr ? DAOS_OT_ARRAY : DAOS_OT_ARRAY_ATTR,
				      cid, hints, args);
}

/**
 * Create an array, storing its cell and chunk sizes, and open it for reading and writing.
 *
 * @param cell_size   bytes of a cell.
 * @param chunk_size  cells of a chunk.
 * @return 0; -DER_EXIST when it has been created; -DER_INVAL.
 */
int
daos_array_create(daos_handle_t coh, daos_obj_id_t oid, daos_handle_t th, daos_size_t cell_size,
		  daos_size_t chunk_size, daos_handle_t *oh, daos_event_t *ev);

/**
 * Open an array of type DAOS_OT_ARRAY.
 *
 * @param mode        DAOS_OO_*.
 * @param cell_size   set to the bytes of a cell.
 * @param chunk_size  set to the cells of a chunk.
 * @return 0; -DER_NONEXIST when it was not created or is destroyed; -DER_INVAL for other types;
 *         -DER_NO_PERM when its stored sizes are not valid.
 */
int
daos_array_open(daos_handle_t coh, daos_obj_id_t oid, daos_handle_t th, unsigned int mode,
		daos_size_t *cell_size, daos_size_t *chunk_size, daos_handle_t *oh,
		daos_event_t *ev);

/**
 * Open an array of type DAOS_OT_ARRAY_ATTR or DAOS_OT_ARRAY_BYTE with sizes that the caller
 * knows. Nothing is read or written.
 * @return 0, or -DER_INVAL for other types and for sizes of 0.
 */
int
daos_array_open_with_attr(daos_handle_t coh, daos_obj_id_t oid, daos_handle_t th,
			  unsigned int mode, daos_size_t cell_size, daos_size_t chunk_size,
			  daos_handle_t *oh, daos_event_t *ev);

/**
 * Make an open array known to other processes.
 *
 * @param glob  with iov_buf NULL, iov_buf_len is set to the bytes needed; otherwise filled.
 * @return 0, or -DER_TRUNC when the buffer is too small; iov_buf_len is then the bytes needed.
 */
int
daos_array_local2global(daos_handle_t oh, d_iov_t *glob);

/**
 * Open an array from what daos_array_local2global made.
 * @param mode  DAOS_OO_*, or 0 for the mode of the other handle.
 * @return 0, or -DER_INVAL when glob is not whole.
 */
int
daos_array_global2local(daos_handle_t coh, d_iov_t glob, unsigned int mode, daos_handle_t *oh);

/** Close an array. */
int
daos_array_close(daos_handle_t oh, daos_event_t *ev);

/**
 * Read ranges of an array into buffers, one after another.
 *
 * The bytes of holes and past the end are left as they are in the buffer, except that a
 * DAOS_OT_ARRAY_BYTE gives zeros for holes and sets arr_nr_read and arr_nr_short_read.
 *
 * @return 0; -DER_INVAL when iod or sgl is NULL or they differ in bytes; -DER_NOTSUPPORTED for
 *         more than DAOS_ARRAY_LIST_IO_LIMIT short ranges.
 */
int
daos_array_read(daos_handle_t oh, daos_handle_t th, daos_array_iod_t *iod, d_sg_list_t *sgl,
		daos_event_t *ev);

/**
 * Write buffers, one after another, into ranges of an array. The array grows as needed.
 * @return as daos_array_read; also -DER_NO_PERM on a handle that may not write, -DER_NOSPACE.
 */
int
daos_array_write(daos_handle_t oh, daos_handle_t th, daos_array_iod_t *iod, d_sg_list_t *sgl,
		 daos_event_t *ev);

/** The size of an array in cells: one more than its last cell, 0 when it has none. */
int
daos_array_get_size(daos_handle_t oh, daos_handle_t th, daos_size_t *size, daos_event_t *ev);

/** The size of an array, and when it last changed. */
int
daos_array_stat(daos_handle_t oh, daos_handle_t th, daos_array_stbuf_t *stbuf,
		daos_event_t *ev);

/** Cut an array to a size in cells, or let it grow to it. */
int
daos_array_set_size(daos_handle_t oh, daos_handle_t th, daos_size_t size, daos_event_t *ev);

/** Delete an array and its stored sizes. The handle stays open; close it. */
int
daos_array_destroy(daos_handle_t oh, daos_handle_t th, daos_event_t *ev);

/** Delete ranges of an array, leaving holes. */
int
daos_array_punch(daos_handle_t oh, daos_handle_t th, daos_array_iod_t *iod, daos_event_t *ev);

/** The cells of a chunk and the bytes of a cell. Note the order. */
int
daos_array_get_attr(daos_handle_t oh, daos_size_t *chunk_size, daos_size_t *cell_size);

/** Change the cells of a chunk that this handle reckons with; nothing is stored. */
int
daos_array_update_chunk_size(daos_handle_t oh, daos_size_t chunk_size);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_ARRAY_H */
