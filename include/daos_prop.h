/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_PROP_H
#define ESKER_DAOS_PROP_H

/**
 * @file
 * Lists of properties.
 *
 * To set properties, make a list with daos_prop_alloc, write a type and a value into every
 * entry, pass the list, and free it with daos_prop_free, which also frees strings and pointers.
 * To query, omit the values: the call allocates them. See daos/prop_values.h.
 */

#include <ctype.h>

#include <daos/prop_values.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flags of an entry. */
enum {
	/** The property has no value. */
	DAOS_PROP_ENTRY_NOT_SET = 0x1
};

/** One property. */
struct daos_prop_entry {
	/** daos_pool_props or daos_cont_props. */
	uint32_t dpe_type;
	/** DAOS_PROP_ENTRY_*. */
	uint16_t dpe_flags;
	uint16_t dpe_reserv;
	__extension__ union {
		uint64_t   dpe_val;
		d_string_t dpe_str;
		void      *dpe_val_ptr;
	};
};

/** Maximum number of entries of a list. */
#define DAOS_PROP_ENTRIES_MAX_NR    (128)

/** Longest label, without its NUL and with it. */
#define DAOS_PROP_LABEL_MAX_LEN     (127)
#define DAOS_PROP_MAX_LABEL_BUF_LEN (128)

/** Not a label. A container without a label reports the empty string. */
#define DAOS_PROP_PO_LABEL_DEFAULT  "pool_label_not_set"
#define DAOS_PROP_CO_LABEL_DEFAULT  "container_label_not_set"
#define DAOS_PROP_NO_PO_LABEL       DAOS_PROP_PO_LABEL_DEFAULT
#define DEFAULT_CONT_LABEL          DAOS_PROP_CO_LABEL_DEFAULT
#define DAOS_PROP_NO_CO_LABEL       DAOS_PROP_CO_LABEL_DEFAULT

/** A list of properties. */
typedef struct {
	/** Entries in dpp_entries. */
	uint32_t                dpp_nr;
	uint32_t                dpp_reserv;
	struct daos_prop_entry *dpp_entries;
} daos_prop_t;

/** A value of arbitrary bytes, for entries that point to one. */
struct daos_prop_byteval {
	void  *dpb_data;
	/** Bytes of dpb_data. */
	size_t dpb_len;
};

/** Value of DAOS_PROP_CO_ROOTS: objects where the layout of a container starts. */
struct daos_prop_co_roots {
	daos_obj_id_t cr_oids[4];
};

/** The parts of a DAOS_PROP_CO_STATUS value. */
struct daos_co_status {
	/** DAOS_PROP_CO_HEALTHY or DAOS_PROP_CO_UNCLEAN. */
	uint16_t dcs_status;
	/** DAOS_PROP_CO_CLEAR or 0. */
	uint16_t dcs_flags;
	/** Version of the pool map to which it applies. */
	uint32_t dcs_pm_ver;
};

/** The three parts of a status in one number: 16 bits of flag, 16 of status, 32 of version. */
#define DAOS_PROP_CO_STATUS_VAL(status, flag, pm_ver)                                              \
	((uint64_t)(flag) << 48 | ((uint64_t)(status) & 0xffff) << 32 | (uint64_t)(pm_ver))

static inline uint64_t
daos_prop_co_status_2_val(struct daos_co_status *status)
{
	return DAOS_PROP_CO_STATUS_VAL(status->dcs_status, status->dcs_flags,
				       status->dcs_pm_ver);
}

static inline void
daos_prop_val_2_co_status(uint64_t val, struct daos_co_status *status)
{
	status->dcs_pm_ver = (uint32_t)val;
	status->dcs_status = (uint16_t)(val >> 32);
	status->dcs_flags  = (uint16_t)(val >> 48);
}

/**
 * Whether a string can be the label of a pool or container: 1 to 127 letters, digits and
 * characters of "._:-" that do not form a UUID.
 */
static inline bool
daos_label_is_valid(const char *label)
{
	size_t len;

	if (label == NULL || label[0] == '\0')
		return false;
	for (len = 0; label[len] != '\0'; len++) {
		if (len == DAOS_PROP_LABEL_MAX_LEN)
			return false;
		if (!isalnum((unsigned char)label[len]) && strchr("._:-", label[len]) == NULL)
			return false;
	}
	return !daos_is_valid_uuid_string(label, UUID_SST_NONE);
}

/** Whether a string can name a performance domain. */
static inline bool
daos_perf_domain_is_valid(const char *perf_domain)
{
	return daos_label_is_valid(perf_domain);
}

/** Whether an entry has a value. */
static inline bool
daos_prop_is_set(struct daos_prop_entry *entry)
{
	return (entry->dpe_flags & DAOS_PROP_ENTRY_NOT_SET) == 0;
}

/** A zeroed list of up to DAOS_PROP_ENTRIES_MAX_NR entries, or NULL. */
daos_prop_t *
daos_prop_alloc(uint32_t entries_nr);

/** Free the entries of a list with their values, but not the list. */
void
daos_prop_fini(daos_prop_t *prop);

/** Free a list; NULL is allowed. */
void
daos_prop_free(daos_prop_t *prop);

/**
 * Parse properties from text such as "label:name;cksum:crc32".
 *
 * @param len   bytes of str.
 * @param prop  set to a list to free with daos_prop_free.
 * @return 0, -DER_INVAL or -DER_NOMEM.
 */
int
daos_prop_from_str(const char *str, daos_size_t len, daos_prop_t **prop);

/** Merge two lists; new_prop takes precedence. Either may be NULL. @return 0 or -DER_*. */
int
daos_prop_merge2(daos_prop_t *old_prop, daos_prop_t *new_prop, daos_prop_t **out_prop);

/** Like daos_prop_merge2, returning NULL on error. */
daos_prop_t *
daos_prop_merge(daos_prop_t *old_prop, daos_prop_t *new_prop);

/** The entry of a type in a list, or NULL. */
struct daos_prop_entry *
daos_prop_entry_get(daos_prop_t *prop, uint32_t type);

/**
 * Set the entry of a type to a copy of a string of len bytes, freeing the previous one.
 * @return 0, -DER_NONEXIST if the entry does not exist, -DER_INVAL or -DER_NOMEM.
 */
int
daos_prop_set_str(daos_prop_t *prop, uint32_t type, const char *str, daos_size_t len);

/** Like daos_prop_set_str, for a given entry. @return 0, -DER_INVAL or -DER_NOMEM. */
int
daos_prop_entry_set_str(struct daos_prop_entry *entry, const char *str, daos_size_t len);

/**
 * Set the entry of a type to a copy of size bytes, freeing the previous value.
 * @return as daos_prop_set_str.
 */
int
daos_prop_set_ptr(daos_prop_t *prop, uint32_t type, const void *ptr, daos_size_t size);

/** Like daos_prop_set_ptr, for a given entry. @return 0, -DER_INVAL or -DER_NOMEM. */
int
daos_prop_entry_set_ptr(struct daos_prop_entry *entry, const void *ptr, daos_size_t size);

/** Set an entry to a copy of the len bytes that another points to. */
int
daos_prop_entry_dup_ptr(struct daos_prop_entry *entry_dst, struct daos_prop_entry *entry_src,
			size_t len);

/** Set the entry of a type to a struct daos_prop_byteval with a copy of len bytes. */
int
daos_prop_set_byteval(daos_prop_t *prop, uint32_t type, const void *data, size_t len);

/** Set an entry to a struct daos_prop_byteval with a copy of len bytes. */
int
daos_prop_entry_set_byteval(struct daos_prop_entry *entry, const void *data, size_t len);

/** Set an entry to a copy of the struct daos_prop_byteval of another. */
int
daos_prop_entry_dup_byteval(struct daos_prop_entry *entry_dst,
			    struct daos_prop_entry *entry_src);

/** Compare the access control lists of two entries. @return 0 if equal, else -DER_MISMATCH. */
int
daos_prop_entry_cmp_acl(struct daos_prop_entry *entry1, struct daos_prop_entry *entry2);

/** Set an entry to a copy of the struct daos_prop_co_roots of another. */
int
daos_prop_entry_dup_co_roots(struct daos_prop_entry *dst, struct daos_prop_entry *src);

/** Whether the value of an entry of this type is a string. */
bool
daos_prop_has_str(struct daos_prop_entry *entry);

/** Whether the value of an entry of this type is a pointer. */
bool
daos_prop_has_ptr(struct daos_prop_entry *entry);

/** Whether the value of an entry of this type is a struct daos_prop_byteval. */
bool
daos_prop_has_byteval(struct daos_prop_entry *entry);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_PROP_H */
