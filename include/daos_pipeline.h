/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_PIPELINE_H
#define ESKER_DAOS_PIPELINE_H

/**
 * @file
 * Pipelines read the records of an object, each a dkey with some akeys, and return those that meet conditions, or
 * aggregations of them.
 *
 * A pipeline has filters. A filter is an expression in parts: each function is followed by its operands. For example, the
 * parts FUNC_AND, FUNC_EQ, AKEY, CONST, FUNC_GT, DKEY, CONST are the condition akey == constant && dkey > constant. Names of
 * types are strings, without their NUL.
 */

#include <daos_obj.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A part of a filter. */
typedef struct {
	/**
	 * DAOS_FILTER_DKEY, DAOS_FILTER_AKEY, DAOS_FILTER_CONST, or DAOS_FILTER_FUNC_ and
	 * - of two values: EQ, NE, LT, LE, GE, GT, IN, which hold if one of several constants compares so;
	 * - of two texts: LIKE, with % for any bytes, _ for one, and a backslash before those that mean themselves;
	 * - of an akey: ISNULL, ISNOTNULL;
	 * - of conditions: NOT, and AND and OR of two or more;
	 * - of two numbers of one type: ADD, SUB, MUL, DIV, BITAND;
	 * - of a number, over all records: SUM, MIN, MAX, AVG.
	 */
	d_iov_t    part_type;
	/**
	 * Types of keys and constants: DAOS_FILTER_TYPE_ and UINTEGER or INTEGER with 1, 2, 4 or 8 bytes, REAL with 4 or 8, BINARY,
	 * STRING, which begins with its length of 8 bytes, or CSTRING, which ends before a NUL.
	 */
	d_iov_t    data_type;
	/** Operands that follow. */
	uint32_t   num_operands;
	/** The akey of DAOS_FILTER_AKEY, which must be one of those that daos_pipeline_run fetches. */
	daos_key_t akey;
	/** Length of constant. */
	size_t     num_constants;
	/** Constants: several as the last operand of a comparison. */
	d_iov_t   *constant;
	/** First byte of the data, or first record if the akey is an array. */
	size_t     data_offset;
	/** Bytes of the data, or records; 0 for all that is stored. */
	size_t     data_len;
} daos_filter_part_t;

/** A filter. */
typedef struct {
	/** DAOS_FILTER_CONDITION or DAOS_FILTER_AGGREGATION. */
	d_iov_t              filter_type;
	/** Length of parts. */
	uint32_t             num_parts;
	/** The parts, in order. */
	daos_filter_part_t **parts;
} daos_filter_t;

/** A pipeline. */
typedef struct {
	/** 1. */
	uint64_t        version;
	/** Length of filters. */
	uint32_t        num_filters;
	/** Conditions, which a record must meet all. */
	daos_filter_t **filters;
	/** Length of aggr_filters. */
	uint32_t        num_aggr_filters;
	/** Aggregations of the records that meet them. */
	daos_filter_t **aggr_filters;
} daos_pipeline_t;

/** Amounts that runs have read. */
typedef struct {
	/** Always 0. */
	uint64_t nr_objs;
	/** Dkeys. */
	uint64_t nr_dkeys;
	/** Always 0. */
	uint64_t nr_akeys;
} daos_pipeline_stats_t;

/** Make an empty pipeline. */
void
daos_pipeline_init(daos_pipeline_t *pipeline);

/** Make an empty filter. */
void
daos_filter_init(daos_filter_t *filter);

/** Add a filter, which must have its type and stay where it is. @return 0, -DER_INVAL or -DER_NOMEM. */
int
daos_pipeline_add(daos_pipeline_t *pipeline, daos_filter_t *filter);

/** Add a part, which must stay where it is. @return 0, -DER_INVAL or -DER_NOMEM. */
int
daos_filter_add(daos_filter_t *filter, daos_filter_part_t *part);

/**
 * Check a pipeline.
 * @return 0; -DER_NOSYS for an unknown type of a part or of data; -DER_INVAL for a wrong number or type of operands, a
 *         constant that is not of its type, and whatever else is wrong; -DER_MISMATCH for another version.
 */
int
daos_pipeline_check(daos_pipeline_t *pipeline);

/** Free the lists of a pipeline and of its filters, but neither filters nor parts. @return 0 or -DER_INVAL. */
int
daos_pipeline_free(daos_pipeline_t *pipeline);

/**
 * Run a pipeline over the dkeys of an object. Call it again with the same anchor until that is at its end.
 *
 * With aggregations, one call reads all dkeys and returns at most the first record.
 *
 * @param flags      0, else -DER_NOTSUPPORTED.
 * @param dkey       NULL, else -DER_NOTSUPPORTED.
 * @param nr_iods    number of iods, at least 1.
 * @param iods       akeys to fetch of each dkey; iod_size is the largest size of a value.
 * @param anchor     zero for the first call.
 * @param nr_kds     in: most records to return, which may be 0 with aggregations; out: records returned.
 * @param kds        receives the lengths of the dkeys.
 * @param sgl_keys   receives the dkeys one after the other; none spans two buffers.
 * @param sgl_recx   receives the values of the akeys, as sgl_keys.
 * @param recx_size  receives the size of each value, or of a record of an array, 0 if the akey does not exist; or NULL.
 * @param sgl_agg    a buffer of 8 bytes for each aggregation, which receives a double.
 * @param stats      or NULL; the first call sets it, others add to it.
 * @return 0; what daos_pipeline_check returns; -DER_REC2BIG if a dkey or value does not fit; -DER_DIV_BY_ZERO.
 */
int
daos_pipeline_run(daos_handle_t coh, daos_handle_t oh, daos_pipeline_t *pipeline, daos_handle_t th,
		  uint64_t flags, daos_key_t *dkey, uint32_t *nr_iods, daos_iod_t *iods,
		  daos_anchor_t *anchor, uint32_t *nr_kds, daos_key_desc_t *kds,
		  d_sg_list_t *sgl_keys, d_sg_list_t *sgl_recx, daos_size_t *recx_size,
		  d_sg_list_t *sgl_agg, daos_pipeline_stats_t *stats, daos_event_t *ev);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_PIPELINE_H */
