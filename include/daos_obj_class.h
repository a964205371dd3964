/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_OBJ_CLASS_H
#define ESKER_DAOS_OBJ_CLASS_H

/**
 * @file
 * Object classes: how an object is spread over targets and protected.
 *
 * A class combines a redundancy (none, replicas or erasure code) with a number of groups over
 * which the dkeys of the object are spread. Its identifier is (redundancy << 24) | groups. X means
 * as many groups as there is room for.
 */

#include <inttypes.h>
#include <sys/types.h>

#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Buffer size for any class name, with its NUL. */
#define MAX_OBJ_CLASS_NAME_LEN 24

/** The number of groups that represents X. */
#define MAX_NUM_GROUPS         0xffff

#define OC_REDUN_SHIFT         24

/** The class of a redundancy and a number of groups. */
#define OBJ_CLASS_DEF(redun, grp_nr) (((redun) << OC_REDUN_SHIFT) | (grp_nr))

/* The classes OC_<name>1 to OC_<name>X of one redundancy. */
#define OC_FAMILY_(name, redun)                                                                    \
	OC_##name##1  = OBJ_CLASS_DEF(redun, 1),                                                   \
	OC_##name##2  = OBJ_CLASS_DEF(redun, 2),                                                   \
	OC_##name##4  = OBJ_CLASS_DEF(redun, 4),                                                   \
	OC_##name##6  = OBJ_CLASS_DEF(redun, 6),                                                   \
	OC_##name##8  = OBJ_CLASS_DEF(redun, 8),                                                   \
	OC_##name##12 = OBJ_CLASS_DEF(redun, 12),                                                  \
	OC_##name##16 = OBJ_CLASS_DEF(redun, 16),                                                  \
	OC_##name##32 = OBJ_CLASS_DEF(redun, 32),                                                  \
	OC_##name##X  = OBJ_CLASS_DEF(redun, MAX_NUM_GROUPS)

/** Redundancies (OR_), and the classes that have a name (OC_). */
enum daos_obj_redun {
	/** Class that lets the library choose one. */
	OC_UNKNOWN = 0,

	/** One copy. */
	OR_RP_1    = 1,

	/** That many copies. */
	OR_RP_2    = 8,
	OR_RP_3    = 9,
	OR_RP_4    = 10,
	OR_RP_5    = 11,
	OR_RP_6    = 12,
	OR_RP_8    = 13,
	OR_RP_12   = 14,
	OR_RP_16   = 15,
	OR_RP_24   = 16,
	OR_RP_32   = 17,
	OR_RP_48   = 18,
	OR_RP_64   = 19,
	OR_RP_128  = 20,

	/** Reed-Solomon code: number of data cells, P number of parity cells. */
	OR_RS_2P1  = 32,
	OR_RS_2P2  = 33,
	OR_RS_4P1  = 34,
	OR_RS_4P2  = 35,
	OR_RS_8P1  = 36,
	OR_RS_8P2  = 37,
	OR_RS_16P1 = 38,
	OR_RS_16P2 = 39,
	OR_RS_4P3  = 40,
	OR_RS_8P3  = 41,
	OR_RS_16P3 = 42,

	/** From here on, classes of the old numbering. */
	OC_BACK_COMPAT = 50,
	OC_TINY        = 51,
	OC_SMALL       = 52,
	OC_LARGE       = 53,
	OC_MAX         = 54,
	OC_RP_TINY     = 60,
	OC_RP_SMALL    = 61,
	OC_RP_LARGE    = 62,
	OC_RP_MAX      = 63,
	OC_RP_SF_TINY  = 70,
	OC_RP_SF_SMALL = 71,
	OC_RP_SF_LARGE = 72,
	OC_RP_SF_MAX   = 73,
	/** Maximum number of copies that fit. */
	OC_RP_XSF      = 80,
	OC_EC_TINY     = 100,
	OC_EC_SMALL    = 101,
	OC_EC_LARGE    = 102,
	OC_EC_MAX      = 103,

	/** One copy: OC_S1, OC_S2, OC_S4, OC_S6, OC_S8, OC_S12, OC_S16, OC_S32, OC_SX. */
	OC_FAMILY_(S, OR_RP_1),

	/** 2 to 6 copies: OC_RP_2G1 to OC_RP_2GX, and so on. */
	OC_FAMILY_(RP_2G, OR_RP_2),
	OC_FAMILY_(RP_3G, OR_RP_3),
	OC_FAMILY_(RP_4G, OR_RP_4),
	OC_FAMILY_(RP_5G, OR_RP_5),
	OC_FAMILY_(RP_6G, OR_RP_6),

	/** More copies, in one group. */
	OC_RP_12G1  = OBJ_CLASS_DEF(OR_RP_12, 1),
	OC_RP_16G1  = OBJ_CLASS_DEF(OR_RP_16, 1),
	OC_RP_24G1  = OBJ_CLASS_DEF(OR_RP_24, 1),
	OC_RP_32G1  = OBJ_CLASS_DEF(OR_RP_32, 1),
	OC_RP_48G1  = OBJ_CLASS_DEF(OR_RP_48, 1),
	OC_RP_64G1  = OBJ_CLASS_DEF(OR_RP_64, 1),
	OC_RP_128G1 = OBJ_CLASS_DEF(OR_RP_128, 1),

	/** Erasure code: OC_EC_2P1G1 to OC_EC_2P1GX, and so on. */
	OC_FAMILY_(EC_2P1G, OR_RS_2P1),
	OC_FAMILY_(EC_2P2G, OR_RS_2P2),
	OC_FAMILY_(EC_4P1G, OR_RS_4P1),
	OC_FAMILY_(EC_4P2G, OR_RS_4P2),
	OC_FAMILY_(EC_4P3G, OR_RS_4P3),
	OC_FAMILY_(EC_8P1G, OR_RS_8P1),
	OC_FAMILY_(EC_8P2G, OR_RS_8P2),
	OC_FAMILY_(EC_8P3G, OR_RS_8P3),
	OC_FAMILY_(EC_16P1G, OR_RS_16P1),
	OC_FAMILY_(EC_16P2G, OR_RS_16P2),
	OC_FAMILY_(EC_16P3G, OR_RS_16P3),

	/** Smaller values are classes of the store. */
	OC_RESERVED = 0x40000000
};

/** How an object is laid out. */
enum daos_obj_schema {
	/** On one target. */
	DAOS_OS_SINGLE,
	/** Over a fixed set of targets. */
	DAOS_OS_STRIPED,
	/** Over a set of targets that may grow. */
	DAOS_OS_DYN_STRIPED,
	/** In chunks that are placed individually. */
	DAOS_OS_DYN_CHUNKED
};

/** How an object is protected. */
enum daos_obj_resil {
	/** By erasure code. */
	DAOS_RES_EC,
	/** By copies. */
	DAOS_RES_REPL
};

/* C++ would scope types that are declared inside another structure to it. */

/** Attributes of a class that keeps copies. */
struct daos_rp_attr {
	/** Protocol. */
	unsigned int r_proto;
	/** Copies. */
	unsigned int r_num;
};

/** Attributes of a class that keeps an erasure code. */
struct daos_ec_attr {
	/** Data cells. */
	unsigned short e_k;
	/** Parity cells. */
	unsigned short e_p;
	/** Bytes of a cell. */
	unsigned int   e_len;
};

/** The attributes of a class. */
struct daos_oclass_attr {
	enum daos_obj_schema ca_schema;
	enum daos_obj_resil  ca_resil;
	/** The number of failures it tolerates. */
	unsigned int         ca_resil_degree;
	/** Groups. */
	unsigned int         ca_grp_nr;
	union {
		/** For DAOS_RES_REPL. */
		struct daos_rp_attr rp;
		/** For DAOS_RES_EC. */
		struct daos_ec_attr ec;
	} u;
};

/** A class: one of OC_*, or another value of the same form. */
typedef uint32_t daos_oclass_id_t;

/** Hints for choosing a class: DAOS_OCH_* of daos_obj.h, or 0. */
typedef uint16_t daos_oclass_hints_t;

/** Classes as daos_obj_list_class returns them. */
struct daos_oclass_list {
	/** Entries in the two arrays. */
	uint32_t                 cl_nr;
	/** Entries that were set. */
	uint32_t                 cl_nr_out;
	daos_oclass_id_t        *cl_cids;
	struct daos_oclass_attr *cl_cattrs;
};

/** The class of a name without OC_, such as "SX" or "RP_2G1". @return it, or 0 if unknown. */
int
daos_oclass_name2id(const char *name);

/**
 * The names of all classes, each followed by a comma and a space.
 *
 * @param size  bytes of str.
 * @return the bytes written, or a negated error code: -DER_INVAL, or -DER_OVERFLOW if str is
 *         too small.
 */
ssize_t
daos_oclass_names_list(size_t size, char *str);

/** The number of classes. opts is unused. */
int
daos_oclass_nr(int opts);

/**
 * The name of a class, without OC_.
 *
 * @param name  MAX_OBJ_CLASS_NAME_LEN bytes; "UNKNOWN" for an unknown class.
 * @return 0, or -1 for an unknown class.
 */
int
daos_oclass_id2name(daos_oclass_id_t oc_id, char *name);

/** Define a class for a container. Not implemented: -DER_NOSYS. */
int
daos_obj_register_class(daos_handle_t coh, daos_oclass_id_t cid, struct daos_oclass_attr *attr,
			daos_event_t *ev);

/** Query the meaning of a class. Not implemented: -DER_NOSYS. */
int
daos_obj_query_class(daos_handle_t coh, daos_oclass_id_t cid, struct daos_oclass_attr *attr,
		     daos_event_t *ev);

/** List the classes of a container. Not implemented: -DER_NOSYS. */
int
daos_obj_list_class(daos_handle_t coh, struct daos_oclass_list *list, daos_anchor_t *anchor,
		    daos_event_t *ev);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_OBJ_CLASS_H */
