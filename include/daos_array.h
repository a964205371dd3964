/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_ARRAY_H
#define ESKER_DAOS_ARRAY_H

/**
 * @file
 * One-dimensional arrays of cells of equal size, stored in chunks that are spread over targets.
 *
 * An array's type (see daos_otype_t) determines who keeps its cell and chunk sizes. DAOS_OT_ARRAY
 * stores them: create it once, then open it. For DAOS_OT_ARRAY_ATTR and DAOS_OT_ARRAY_BYTE the
 * user passes them to daos_array_open_with_attr. Any other type returns -DER_INVAL.
 *
 * Positions and lengths are in cells. A handle that is not open returns -DER_NO_HDL.
 */

#include <daos_obj.h>
#include <daos_obj_class.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Largest number of ranges in one call if all have DAOS_ARRAY_RG_LEN_THD cells or fewer. */
#define DAOS_ARRAY_LIST_IO_LIMIT 16384
#define DAOS_ARRAY_RG_LEN_THD    16

/** A range of cells: rg_len cells starting at rg_idx. */
typedef struct {
	daos_off_t  rg_idx;
	daos_size_t rg_len;
} daos_range_t;

/** Which cells to read or write. */
typedef struct {
	/** Entries in arr_rgs. */
	daos_size_t   arr_nr;
	/** Ranges; empty ones are skipped. */
	daos_range_t *arr_rgs;
	/** Set by a read of a DAOS_OT_ARRAY_BYTE: bytes requested past the end. */
	daos_size_t   arr_nr_short_read;
	/** Set by a read of a DAOS_OT_ARRAY_BYTE: bytes read. */
	daos_size_t   arr_nr_read;
} daos_array_iod_t;

/** Information that daos_array_stat returns. */
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
 * @return 0; -DER_EXIST if it already exists; -DER_INVAL.
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
 * @return 0; -DER_NONEXIST if it was not created or was destroyed; -DER_INVAL for other types;
 *         -DER_NO_PERM if its stored sizes are invalid.
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
 * Serialize an open array so that other processes can open it.
 *
 * @param glob  if iov_buf is NULL, iov_buf_len is set to the bytes needed; otherwise filled.
 * @return 0, or -DER_TRUNC if the buffer is too small; iov_buf_len is then the bytes needed.
 */
int
daos_array_local2global(daos_handle_t oh, d_iov_t *glob);

/**
 * Open an array from the bytes that daos_array_local2global produced.
 * @param mode  DAOS_OO_*, or 0 for the mode of the other handle.
 * @return 0, or -DER_INVAL if glob is incomplete.
 */
int
daos_array_global2local(daos_handle_t coh, d_iov_t glob, unsigned int mode, daos_handle_t *oh);

/** Close an array. */
int
daos_array_close(daos_handle_t oh, daos_event_t *ev);

/**
 * Read ranges of an array consecutively into buffers.
 *
 * Bytes of holes and past the end leave the buffer unchanged, except that a
 * DAOS_OT_ARRAY_BYTE reads holes as zeros and sets arr_nr_read and arr_nr_short_read.
 *
 * @return 0; -DER_INVAL if iod or sgl is NULL or their sizes differ; -DER_NOTSUPPORTED for
 *         more than DAOS_ARRAY_LIST_IO_LIMIT short ranges.
 */
int
daos_array_read(daos_handle_t oh, daos_handle_t th, daos_array_iod_t *iod, d_sg_list_t *sgl,
		daos_event_t *ev);

/**
 * Write buffers consecutively into ranges of an array. The array grows as needed.
 * @return as daos_array_read; also -DER_NO_PERM on a read-only handle, -DER_NOSPACE.
 */
int
daos_array_write(daos_handle_t oh, daos_handle_t th, daos_array_iod_t *iod, d_sg_list_t *sgl,
		 daos_event_t *ev);

/** The size of an array in cells: the index of its last cell plus one, or 0 if it has none. */
int
daos_array_get_size(daos_handle_t oh, daos_handle_t th, daos_size_t *size, daos_event_t *ev);

/** The size of an array, and when it last changed. */
int
daos_array_stat(daos_handle_t oh, daos_handle_t th, daos_array_stbuf_t *stbuf,
		daos_event_t *ev);

/** Truncate or extend an array to a size in cells. */
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

/** Change the cells per chunk that this handle assumes; nothing is stored. */
int
daos_array_update_chunk_size(daos_handle_t oh, daos_size_t chunk_size);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_ARRAY_H */
