/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_TYPES_H
#define ESKER_DAOS_TYPES_H

/**
 * @file
 * Types used by every part of the interface: sizes, handles, epochs, keys, anchors, events.
 */

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <uuid/uuid.h>

#include <daos_errno.h>
#include <gurt/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Longest system name, without its NUL. */
#define DAOS_SYS_NAME_MAX        15
/** Longest string in a daos_sys_info, without its NUL. */
#define DAOS_SYS_INFO_STRING_MAX 63
/** Longest name of a pool or container attribute, without its NUL. */
#define DAOS_ATTR_NAME_MAX       511
/** Bytes of a UUID as text, with its NUL. */
#define DAOS_UUID_STR_SIZE       37

/** A number of bytes or of cells. */
typedef uint64_t daos_size_t;
/** A position in bytes or in cells. */
typedef uint64_t daos_off_t;

/**
 * A reference to an open pool, container, object, array, KV, transaction or event
 * queue. The cookie is meaningless outside the process that obtained it; 0 is never a handle.
 */
typedef struct {
	uint64_t cookie;
} daos_handle_t;

/** No handle. */
#ifdef __cplusplus
#define DAOS_HDL_INVAL (daos_handle_t{0})
#else
#define DAOS_HDL_INVAL ((daos_handle_t){0})
#endif

/** No transaction: the operation is independent and sees the latest committed data. */
#define DAOS_TX_NONE DAOS_HDL_INVAL

static inline bool
daos_handle_is_valid(daos_handle_t hdl)
{
	return hdl.cookie != 0;
}

static inline bool
daos_handle_is_inval(daos_handle_t hdl)
{
	return hdl.cookie == 0;
}

/** Kinds of handles. */
enum {
	DAOS_HTYPE_EQ    = 1,
	DAOS_HTYPE_POOL  = 3,
	DAOS_HTYPE_CO    = 5,
	DAOS_HTYPE_OBJ   = 7,
	DAOS_HTYPE_ARRAY = 9,
	DAOS_HTYPE_TX    = 11,
	DAOS_HTYPE_KV    = 13
};

/** Modes of daos_pool_connect. */
/** Read only. */
#define DAOS_PC_RO    0x1U
/** Read and write. */
#define DAOS_PC_RW    0x2U
/** Read and write, with exclusive access. */
#define DAOS_PC_EX    0x4U
#define DAOS_PC_NBITS 3
#define DAOS_PC_MASK  0x7U

/** A point in the history of a container: a hybrid logical clock value, see daos_hlc2timespec. */
typedef uint64_t daos_epoch_t;

/** The epochs epr_lo to epr_hi, both included. */
typedef struct {
	daos_epoch_t epr_lo;
	daos_epoch_t epr_hi;
} daos_epoch_range_t;

/** Later than every epoch. */
#define DAOS_EPOCH_MAX (~0ULL)

/** An object's identifier. Let daos_obj_generate_oid set the upper 32 bits of hi. */
typedef struct {
	uint64_t lo;
	uint64_t hi;
} daos_obj_id_t;

/** A dkey or akey: any bytes, or a native 8-byte integer for object types with integer keys. */
typedef d_iov_t daos_key_t;

/** Whether a key has no bytes. */
static inline bool
daos_key_is_null(daos_key_t key)
{
	return key.iov_buf == NULL || key.iov_buf_len == 0;
}

/** Values of an anchor's da_type. */
typedef enum {
	/** At the beginning. */
	DAOS_ANCHOR_TYPE_ZERO = 0,
	/** At a hashed key. */
	DAOS_ANCHOR_TYPE_HKEY = 1,
	/** At a key. */
	DAOS_ANCHOR_TYPE_KEY  = 2,
	/** At the end. */
	DAOS_ANCHOR_TYPE_EOF  = 3
} daos_anchor_type_t;

#define DAOS_HKEY_MAX       32
#define DAOS_ANCHOR_BUF_MAX 104

/**
 * The position of a listing. Zero it to begin, pass it unchanged from call to call, and stop
 * when daos_anchor_is_eof returns true.
 */
typedef struct {
	/** daos_anchor_type_t. */
	uint16_t da_type;
	/** The rest is private to the library. */
	uint16_t da_shard;
	uint32_t da_flags;
	uint64_t da_sub_anchors;
	uint8_t  da_buf[DAOS_ANCHOR_BUF_MAX];
} daos_anchor_t;

/** Value of an anchor at the beginning. */
#define DAOS_ANCHOR_INIT {DAOS_ANCHOR_TYPE_ZERO, 0, 0, 0, {0}}

/** Information about an open container. */
typedef struct {
	uuid_t       ci_uuid;
	/** Epoch of the latest snapshot, or 0. */
	daos_epoch_t ci_lsnapshot;
	/** Number of open handles of all clients. */
	uint32_t     ci_nhandles;
	/** Number of snapshots. */
	uint32_t     ci_nsnapshots;
	/** When it was last opened, as a hybrid logical clock value. */
	uint64_t     ci_md_otime;
	/** When its metadata last changed, as a hybrid logical clock value. */
	uint64_t     ci_md_mtime;
} daos_cont_info_t;

/**
 * The completion of one call. With an event, a call returns at once; its result is in
 * ev_error once the event has completed. See daos_event.h.
 */
typedef struct daos_event {
	/** Result: 0 or a negated error code. */
	int ev_error;
	/** Private to the library. */
	struct {
		uint64_t space[20];
	} ev_private;
	/** Private to the library. */
	uint64_t ev_debug;
} daos_event_t;

struct daos_eq;

/** Timeouts in microseconds: wait forever, and do not wait. */
#define DAOS_EQ_WAIT   -1
#define DAOS_EQ_NOWAIT 0

/** The events that daos_eq_query counts. */
typedef enum {
	/** Completed but not yet polled. */
	DAOS_EQR_COMPLETED = 0x1,
	/** Running. */
	DAOS_EQR_WAITING   = 0x2,
	DAOS_EQR_ALL       = 0x3
} daos_eq_query_t;

/** States of an event. */
typedef enum {
	DAOS_EVS_READY,
	DAOS_EVS_RUNNING,
	DAOS_EVS_COMPLETED,
	DAOS_EVS_ABORTED
} daos_ev_status_t;

/** Targets: entry i is target tl_tgts[i] of rank tl_ranks[i]. */
struct d_tgt_list {
	d_rank_t *tl_ranks;
	int32_t  *tl_tgts;
	/** Number of entries in each of the two arrays. */
	uint32_t  tl_nr;
};

/** The address at which a rank listens. */
struct daos_rank_uri {
	uint32_t dru_rank;
	char    *dru_uri;
};

/** Information about a system, as daos_mgmt_get_sys_info returns it. */
struct daos_sys_info {
	char                  dsi_system_name[DAOS_SYS_INFO_STRING_MAX + 1];
	char                  dsi_fabric_provider[DAOS_SYS_INFO_STRING_MAX + 1];
	char                  dsi_agent_path[4096];
	/** Entries in dsi_ranks. */
	uint32_t              dsi_nr_ranks;
	struct daos_rank_uri *dsi_ranks;
	/** Entries in dsi_ms_ranks. */
	uint32_t              dsi_nr_ms_ranks;
	/** Ranks that run the management service. */
	uint32_t             *dsi_ms_ranks;
};

/** Letter case that daos_is_valid_uuid_string requires. */
#define UUID_SST_UPPER 1
#define UUID_SST_LOWER -1
#define UUID_SST_NONE  0

/** Whether a string begins with a UUID written as 8-4-4-4-12 hexadecimal digits. */
static inline bool
daos_is_valid_uuid_string(const char *uuid, int letter_case)
{
	int i;

	for (i = 0; i < DAOS_UUID_STR_SIZE - 1; i++) {
		int  c       = (unsigned char)uuid[i];
		bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (is_dash ? c != '-' : !isxdigit(c))
			return false;
		if ((letter_case > 0 && islower(c)) || (letter_case < 0 && isupper(c)))
			return false;
	}
	return true;
}

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_TYPES_H */
