/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_OBJ_H
#define ESKER_DAOS_OBJ_H

/**
 * @file
 * Objects: two levels of keys, and values under them.
 *
 * A dkey (distribution key) determines where data is placed. Below it, an akey (attribute key)
 * names a value, which is either one record of any size or an array of records of one size.
 *
 * Every call takes a transaction th (DAOS_TX_NONE for none) and an event ev (NULL to block).
 * A handle that is not open returns -DER_NO_HDL.
 */

#include <daos/obj_id.h>
#include <daos_event.h>
#include <daos_obj_class.h>
#include <daos_prop.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Number of bits that the conditions below occupy. */
#define IO_FLAGS_COND_BITS 8

/** Flags: conditions under which a call takes effect. */
enum {
	/** Punch only what exists, else -DER_NONEXIST. */
	DAOS_COND_PUNCH       = 0x1,
	/** The dkey must be new, else -DER_EXIST. */
	DAOS_COND_DKEY_INSERT = 0x2,
	/** The dkey must exist, else -DER_NONEXIST. */
	DAOS_COND_DKEY_UPDATE = 0x4,
	/** Like DAOS_COND_DKEY_UPDATE, for a fetch. */
	DAOS_COND_DKEY_FETCH  = 0x8,
	/** All akeys must be new, else -DER_EXIST. */
	DAOS_COND_AKEY_INSERT = 0x10,
	/** All akeys must exist, else -DER_NONEXIST. */
	DAOS_COND_AKEY_UPDATE = 0x20,
	/** Like DAOS_COND_AKEY_UPDATE, for a fetch. */
	DAOS_COND_AKEY_FETCH  = 0x40,
	/** The conditions on akeys are those in the iod_flags of each. */
	DAOS_COND_PER_AKEY    = 0x80,
	DAOS_COND_MASK        = 0xff
};

/** Modes of daos_obj_open. */
enum {
	/** Read only. */
	DAOS_OO_RO      = 0x2,
	/** Read and write. */
	DAOS_OO_RW      = 0x4,
	/** Read and write, with exclusive access. */
	DAOS_OO_EXCL    = 0x8,
	/** A hint: access is random. */
	DAOS_OO_IO_RAND = 0x10,
	/** A hint: access is sequential. */
	DAOS_OO_IO_SEQ  = 0x20
};

/** The location of an object, for daos_obj_query. */
struct daos_obj_attr {
	/** The rank of its first shard. */
	d_rank_t                 oa_rank;
	/** Its class. */
	struct daos_oclass_attr *oa_oa;
};

/** A range of records: rx_nr records starting at rx_idx. */
typedef struct {
	uint64_t rx_idx;
	uint64_t rx_nr;
} daos_recx_t;

/** Kinds of value. */
typedef enum {
	DAOS_IOD_NONE   = 0,
	/** One record, read and written as a whole. */
	DAOS_IOD_SINGLE = 1,
	/** An array of records of one size. */
	DAOS_IOD_ARRAY  = 2
} daos_iod_type_t;

enum {
	/** Value of iod_size for any size; the call returns the size. */
	DAOS_REC_ANY = 0
};

/** Data to read or write under one akey. */
typedef struct {
	/** The akey. */
	daos_key_t      iod_name;
	daos_iod_type_t iod_type;
	/**
	 * Bytes of a record. A fetch sets it, to 0 if the value is missing. An update with 0
	 * punches the ranges of an array, or stores a single value that is empty.
	 */
	daos_size_t     iod_size;
	/** Conditions on this akey, with DAOS_COND_PER_AKEY. */
	uint64_t        iod_flags;
	/** Entries in iod_recxs; 1 for a single value. */
	uint32_t        iod_nr;
	/** Ranges of an array; NULL for a single value. */
	daos_recx_t    *iod_recxs;
} daos_iod_t;

/** In iom_flags: return every range, not only the lowest and the highest. */
#define DAOS_IOMF_DETAIL (0x1U)

/** Result of a fetch: the requested ranges that have data. */
typedef struct {
	daos_iod_type_t iom_type;
	/** Entries in iom_recxs. */
	uint32_t        iom_nr;
	/** Ranges found; may exceed iom_nr. */
	uint32_t        iom_nr_out;
	/** DAOS_IOMF_DETAIL or 0. */
	uint32_t        iom_flags;
	/** Bytes of a record. */
	daos_size_t     iom_size;
	/** The first range found. */
	daos_recx_t     iom_recx_lo;
	/** The last range found. */
	daos_recx_t     iom_recx_hi;
	/** The ranges. NULL with iom_nr 0: the library allocates them, the caller frees them. */
	daos_recx_t    *iom_recxs;
} daos_iom_t;

/** Keys that daos_obj_query_key searches. */
enum {
	/** The largest; excludes DAOS_GET_MIN. */
	DAOS_GET_MAX  = 0x1,
	/** The smallest. */
	DAOS_GET_MIN  = 0x2,
	/** Among dkeys. */
	DAOS_GET_DKEY = 0x4,
	/** Among akeys. */
	DAOS_GET_AKEY = 0x8,
	/** Among ranges of an array. */
	DAOS_GET_RECX = 0x10
};

/** One key of a listing. */
typedef struct {
	/** Bytes of the key. */
	daos_size_t kd_key_len;
	/** Kind of value. */
	uint32_t    kd_val_type;
} daos_key_desc_t;

/** Whether copies can be separated at this level of fault domains. */
static inline bool
daos_pa_domain_is_valid(uint32_t pa_domain)
{
	return pa_domain == DAOS_PROP_CO_REDUN_RANK || pa_domain == DAOS_PROP_CO_REDUN_NODE;
}

/**
 * Complete an object's identifier: write type and class into the upper 32 bits of hi, overwriting
 * them. The lower bits of hi, and lo, must be unique in the container; see daos_cont_alloc_oids.
 *
 * @param cid    class; OC_UNKNOWN chooses one from the container, type and hints.
 * @param hints  DAOS_OCH_*, or 0; only used if the class is chosen.
 * @param args   reserved, 0.
 * @return 0; -DER_INVAL for a type or class that is unknown or unsuitable for the pool;
 *         -DER_NO_HDL.
 */
int
daos_obj_generate_oid2(daos_handle_t coh, daos_obj_id_t *oid, enum daos_otype_t type,
		       daos_oclass_id_t cid, daos_oclass_hints_t hints, uint32_t args);
#define daos_obj_generate_oid daos_obj_generate_oid2

/**
 * Open an object. Objects need not be created: one that was never written can be opened.
 * @param mode  DAOS_OO_*. Writing requires a container opened for writing, else -DER_NO_PERM.
 */
int
daos_obj_open(daos_handle_t coh, daos_obj_id_t oid, unsigned int mode, daos_handle_t *oh,
	      daos_event_t *ev);

/** Close an object. It also closes handles of daos_kv_open and daos_array_open. */
int
daos_obj_close(daos_handle_t oh, daos_event_t *ev);

/** Delete everything in an object. flags: DAOS_COND_PUNCH or 0. */
int
daos_obj_punch(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_event_t *ev);

/** Delete a dkey and everything below it. @param nr must be 1, else -DER_INVAL. */
int
daos_obj_punch_dkeys(daos_handle_t oh, daos_handle_t th, uint64_t flags, unsigned int nr,
		     daos_key_t *dkeys, daos_event_t *ev);

/** Delete akeys of one dkey, with their values. */
int
daos_obj_punch_akeys(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t *dkey,
		     unsigned int nr, daos_key_t *akeys, daos_event_t *ev);

/** Query where an object is. Not implemented: -DER_NOSYS. */
int
daos_obj_query(daos_handle_t oh, struct daos_obj_attr *oa, d_rank_list_t *ranks,
	       daos_event_t *ev);

/**
 * Read values below one dkey.
 *
 * Without a condition, a missing value is not an error: iod_size and sg_nr_out become 0, and
 * buffers stay unchanged; so do the bytes of holes in an array.
 *
 * @param flags  DAOS_COND_*_FETCH, or 0.
 * @param nr     entries in iods, sgls and ioms.
 * @param sgls   buffers for the data; NULL to query only the sizes.
 * @param ioms   what was found; may be NULL.
 * @return 0; -DER_REC2BIG if a record is larger than its buffer or than iod_size, which then
 *         holds its size; -DER_NONEXIST if a condition fails; -DER_INVAL. After any error but
 *         -DER_REC2BIG, the descriptors and lists are as before.
 */
int
daos_obj_fetch(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t *dkey,
	       unsigned int nr, daos_iod_t *iods, d_sg_list_t *sgls, daos_iom_t *ioms,
	       daos_event_t *ev);

/**
 * Write values below one dkey: all of them or, if any condition fails, none.
 *
 * @param flags  DAOS_COND_*_INSERT and DAOS_COND_*_UPDATE, or 0.
 * @param nr     entries in iods and sgls.
 * @return 0; -DER_EXIST or -DER_NONEXIST if a condition fails; -DER_NO_PERM on a read-only
 *         handle; -DER_NOSPACE; -DER_INVAL.
 */
int
daos_obj_update(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t *dkey,
		unsigned int nr, daos_iod_t *iods, d_sg_list_t *sgls, daos_event_t *ev);

/**
 * List dkeys. Types with lexical dkeys list them in order.
 *
 * @param nr      in: entries in kds; out: keys returned. 0 does not mean the end, see anchor.
 * @param kds     set to the sizes of the keys.
 * @param sgl     filled with the keys, contiguously.
 * @param anchor  zeroed to begin; daos_anchor_is_eof at the end.
 * @return 0; -DER_KEY2BIG if not even one key fits: kds[0].kd_key_len is the space it needs.
 */
int
daos_obj_list_dkey(daos_handle_t oh, daos_handle_t th, uint32_t *nr, daos_key_desc_t *kds,
		   d_sg_list_t *sgl, daos_anchor_t *anchor, daos_event_t *ev);

/** List the akeys of a dkey, like daos_obj_list_dkey. */
int
daos_obj_list_akey(daos_handle_t oh, daos_handle_t th, daos_key_t *dkey, uint32_t *nr,
		   daos_key_desc_t *kds, d_sg_list_t *sgl, daos_anchor_t *anchor,
		   daos_event_t *ev);

/**
 * List the ranges of an array value.
 *
 * @param size        set to the bytes of a record.
 * @param nr          in: entries in recxs and eprs; out: ranges returned.
 * @param eprs        set to the epochs of the ranges; may be NULL.
 * @param incr_order  ascending if true, else descending.
 */
int
daos_obj_list_recx(daos_handle_t oh, daos_handle_t th, daos_key_t *dkey, daos_key_t *akey,
		   daos_size_t *size, uint32_t *nr, daos_recx_t *recxs, daos_epoch_range_t *eprs,
		   daos_anchor_t *anchor, bool incr_order, daos_event_t *ev);

/**
 * Find the largest or smallest dkey, akey or range.
 *
 * @param flags  one of DAOS_GET_MAX and DAOS_GET_MIN, with one or more of DAOS_GET_DKEY,
 *               DAOS_GET_AKEY and DAOS_GET_RECX. The caller supplies the keys that are not requested.
 * @param dkey   integer keys only, if requested.
 * @return 0, even if nothing is found: the arguments are then unchanged; -DER_INVAL.
 */
int
daos_obj_query_key(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t *dkey,
		   daos_key_t *akey, daos_recx_t *recx, daos_event_t *ev);

/** The epoch of the latest change to an object; 0 if it was never changed. */
int
daos_obj_query_max_epoch(daos_handle_t oh, daos_handle_t th, daos_epoch_t *epoch,
			 daos_event_t *ev);

/** Compare the copies of an object as of an epoch. @return 0, or -DER_MISMATCH. */
int
daos_obj_verify(daos_handle_t coh, daos_obj_id_t oid, daos_epoch_t epoch);

/**
 * Split the listing of dkeys into parts that can run concurrently.
 *
 * @param nr       in: entries in anchors, or 0 to query the number of parts; out: parts.
 * @param anchors  set to the beginnings of the parts; may be NULL if *nr is 0.
 */
int
daos_obj_anchor_split(daos_handle_t oh, uint32_t *nr, daos_anchor_t *anchors);

/** Set an anchor to the beginning of one of the parts of daos_obj_anchor_split. */
int
daos_obj_anchor_set(daos_handle_t oh, uint32_t index, daos_anchor_t *anchor);

/** An anchor from which a listing continues at a dkey or, if akey is not NULL, at that akey. */
int
daos_obj_key2anchor(daos_handle_t oh, daos_handle_t th, daos_key_t *dkey, daos_key_t *akey,
		    daos_anchor_t *anchor, daos_event_t *ev);

#ifdef __cplusplus
}
#endif

#include <daos/oit.h>

#endif /* ESKER_DAOS_OBJ_H */
