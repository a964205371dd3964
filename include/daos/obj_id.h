/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_OBJ_ID_H
#define ESKER_DAOS_OBJ_ID_H

/**
 * @file
 * The contents of an object's identifier: its type and its class.
 *
 * From the top bit of hi down: 8 bits of type, 8 of redundancy, 16 for the number of groups.
 * The lower 32 bits of hi and all of lo belong to the caller.
 */

#include <daos_obj_class.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The identifier that names no object. */
#ifdef __cplusplus
#define DAOS_OBJ_NIL (daos_obj_id_t{0, 0})
#else
#define DAOS_OBJ_NIL ((daos_obj_id_t){0, 0})
#endif

/** Bits of hi that the library leaves to the caller. */
#define OID_FMT_INTR_BITS   32

#define OID_FMT_TYPE_BITS   8
#define OID_FMT_TYPE_SHIFT  56
#define OID_FMT_TYPE_MAX    0xffULL
#define OID_FMT_TYPE_MASK   0xff00000000000000ULL

#define OID_FMT_CLASS_BITS  8
#define OID_FMT_CLASS_SHIFT 48
#define OID_FMT_CLASS_MAX   0xffULL
#define OID_FMT_CLASS_MASK  0x00ff000000000000ULL

#define OID_FMT_META_BITS   16
#define OID_FMT_META_SHIFT  32
#define OID_FMT_META_MAX    0xffffULL
#define OID_FMT_META_MASK   0x0000ffff00000000ULL

/**
 * Types of objects. They determine how dkeys and akeys are ordered and interpreted: hashed (any
 * bytes, no order), lexical (any bytes, in order) or as native 8-byte integers.
 */
enum daos_otype_t {
	/** Hashed dkeys and akeys. */
	DAOS_OT_MULTI_HASHED  = 0,
	/** A table of object identifiers; created by the library. */
	DAOS_OT_OIT           = 1,
	/** Integer dkeys, hashed akeys. */
	DAOS_OT_DKEY_UINT64   = 2,
	/** Hashed dkeys, integer akeys. */
	DAOS_OT_AKEY_UINT64   = 3,
	/** Integer dkeys and akeys. */
	DAOS_OT_MULTI_UINT64  = 4,
	/** Lexical dkeys, hashed akeys. */
	DAOS_OT_DKEY_LEXICAL  = 5,
	/** Hashed dkeys, lexical akeys. */
	DAOS_OT_AKEY_LEXICAL  = 6,
	/** Lexical dkeys and akeys. */
	DAOS_OT_MULTI_LEXICAL = 7,
	/** A KV object, see daos_kv.h, with hashed keys. */
	DAOS_OT_KV_HASHED     = 8,
	/** A KV object with integer keys. */
	DAOS_OT_KV_UINT64     = 9,
	/** A KV object with lexical keys. */
	DAOS_OT_KV_LEXICAL    = 10,
	/** An array that stores its cell and chunk sizes, see daos_array.h. */
	DAOS_OT_ARRAY         = 11,
	/** An array whose user keeps its cell and chunk sizes. */
	DAOS_OT_ARRAY_ATTR    = 12,
	/** An array of bytes that behaves like a file: holes are zeros, and reads can be short. */
	DAOS_OT_ARRAY_BYTE    = 13,
	/** A table of object identifiers, in a later form. */
	DAOS_OT_OIT_V2        = 14,
	/** The largest type. */
	DAOS_OT_MAX           = 14
};

static inline bool
daos_otype_t_is_valid(enum daos_otype_t type)
{
	return (unsigned int)type <= (unsigned int)DAOS_OT_MAX;
}

static inline bool
daos_is_dkey_lexical_type(enum daos_otype_t type)
{
	return type == DAOS_OT_DKEY_LEXICAL || type == DAOS_OT_MULTI_LEXICAL ||
	       type == DAOS_OT_KV_LEXICAL;
}

static inline bool
daos_is_akey_lexical_type(enum daos_otype_t type)
{
	return type == DAOS_OT_AKEY_LEXICAL || type == DAOS_OT_MULTI_LEXICAL;
}

static inline bool
daos_is_array_type(enum daos_otype_t type)
{
	return type >= DAOS_OT_ARRAY && type <= DAOS_OT_ARRAY_BYTE;
}

static inline bool
daos_is_kv_type(enum daos_otype_t type)
{
	return type >= DAOS_OT_KV_HASHED && type <= DAOS_OT_KV_LEXICAL;
}

static inline bool
daos_is_dkey_uint64_type(enum daos_otype_t type)
{
	return type == DAOS_OT_DKEY_UINT64 || type == DAOS_OT_MULTI_UINT64 ||
	       type == DAOS_OT_KV_UINT64 || daos_is_array_type(type);
}

static inline bool
daos_is_akey_uint64_type(enum daos_otype_t type)
{
	return type == DAOS_OT_AKEY_UINT64 || type == DAOS_OT_MULTI_UINT64;
}

/** The type of an object. */
static inline enum daos_otype_t
daos_obj_id2type(daos_obj_id_t oid)
{
	return (enum daos_otype_t)(oid.hi >> OID_FMT_TYPE_SHIFT);
}

/** The redundancy of an object. */
static inline enum daos_obj_redun
daos_obj_id2ord(daos_obj_id_t oid)
{
	return (enum daos_obj_redun)((oid.hi >> OID_FMT_CLASS_SHIFT) & OID_FMT_CLASS_MAX);
}

/** The number of groups of an object. */
static inline uint32_t
daos_obj_id2grp_nr(daos_obj_id_t oid)
{
	return (uint32_t)((oid.hi >> OID_FMT_META_SHIFT) & OID_FMT_META_MAX);
}

/** The class of an object. A class with X groups has been resolved to a number. */
static inline daos_oclass_id_t
daos_obj_id2class(daos_obj_id_t oid)
{
	return OBJ_CLASS_DEF((uint32_t)daos_obj_id2ord(oid), daos_obj_id2grp_nr(oid));
}

static inline bool
daos_obj_id_is_nil(daos_obj_id_t oid)
{
	return (oid.lo | oid.hi) == 0;
}

static inline bool
daos_is_dkey_lexical(daos_obj_id_t oid)
{
	return daos_is_dkey_lexical_type(daos_obj_id2type(oid));
}

static inline bool
daos_is_akey_lexical(daos_obj_id_t oid)
{
	return daos_is_akey_lexical_type(daos_obj_id2type(oid));
}

static inline bool
daos_is_dkey_uint64(daos_obj_id_t oid)
{
	return daos_is_dkey_uint64_type(daos_obj_id2type(oid));
}

static inline bool
daos_is_akey_uint64(daos_obj_id_t oid)
{
	return daos_is_akey_uint64_type(daos_obj_id2type(oid));
}

static inline bool
daos_is_array(daos_obj_id_t oid)
{
	return daos_is_array_type(daos_obj_id2type(oid));
}

static inline bool
daos_is_kv(daos_obj_id_t oid)
{
	return daos_is_kv_type(daos_obj_id2type(oid));
}

/** Hints: which redundancy, in bits 0 to 3, and how many groups, in bits 4 to 9. */
#define DAOS_OCH_RDD_BITS    4
#define DAOS_OCH_RDD_SHIFT   0
#define DAOS_OCH_RDD_MAX_VAL 0x0fULL
#define DAOS_OCH_RDD_MASK    0x00fULL

#define DAOS_OCH_SHD_BITS    6
#define DAOS_OCH_SHD_SHIFT   4
#define DAOS_OCH_SHD_MAX_VAL 0x3fULL
#define DAOS_OCH_SHD_MASK    0x3f0ULL

enum {
	/** Redundancy: what the container asks for. */
	DAOS_OCH_RDD_DEF  = 0x1,
	/** None. */
	DAOS_OCH_RDD_NO   = 0x2,
	/** Copies. */
	DAOS_OCH_RDD_RP   = 0x4,
	/** Erasure code. */
	DAOS_OCH_RDD_EC   = 0x8,

	/** Groups: the default number. */
	DAOS_OCH_SHD_DEF  = 0x10,
	/** One. */
	DAOS_OCH_SHD_TINY = 0x20,
	/** A quarter of the targets or 128, whichever is more. */
	DAOS_OCH_SHD_REG  = 0x40,
	/** Half of the targets or 256. */
	DAOS_OCH_SHD_HI   = 0x80,
	/** Seven tenths of the targets or 1024. */
	DAOS_OCH_SHD_EXT  = 0x100,
	/** All targets. */
	DAOS_OCH_SHD_MAX  = 0x200
};

/**
 * The next of a sequence of upper words, for callers that use lo for one thing and hi to spread
 * objects. Call it before daos_obj_generate_oid: it clears the upper 32 bits of hi.
 */
static inline void
daos_obj_oid_cycle(daos_obj_id_t *oid)
{
	oid->hi = (oid->hi + 999999937) & 0xffffffffU;
}

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_OBJ_ID_H */
