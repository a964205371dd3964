/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_SECURITY_H
#define ESKER_DAOS_SECURITY_H

/**
 * @file
 * Access control lists of pools and containers.
 *
 * An entry says what one principal may do. As text it is types:flags:principal:permissions, for
 * example "A::OWNER@:rwdtTaAo" or "A:G:readers@:rt". Of the entries that apply to a user, the
 * most specific one counts: owner, user, then the groups together, then everyone.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <daos_prop.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DAOS_ACL_VERSION               (1)

/** Longest name of a principal, without its NUL and with it. */
#define DAOS_ACL_MAX_PRINCIPAL_LEN     (255)
#define DAOS_ACL_MAX_PRINCIPAL_BUF_LEN (256)
/** Maximum total bytes of the entries of a list. */
#define DAOS_ACL_MAX_ACE_LEN           (65536)
/** Buffer size for any entry as text. */
#define DAOS_ACL_MAX_ACE_STR_LEN       (319)

/** Principals that every pool and container has. */
#define DAOS_ACL_PRINCIPAL_OWNER       "OWNER@"
#define DAOS_ACL_PRINCIPAL_OWNER_GRP   "GROUP@"
#define DAOS_ACL_PRINCIPAL_EVERYONE    "EVERYONE@"

/** An access control list: a header followed by contiguous entries. */
struct daos_acl {
	/** DAOS_ACL_VERSION. */
	uint16_t dal_ver;
	uint16_t dal_reserv;
	/** Bytes of the entries. */
	uint32_t dal_len;
	__extension__ uint8_t dal_ace[];
};

/** Kinds of principal. */
enum daos_acl_principal_type {
	DAOS_ACL_OWNER       = 0,
	/** A named user. */
	DAOS_ACL_USER        = 1,
	DAOS_ACL_OWNER_GROUP = 2,
	/** A named group. */
	DAOS_ACL_GROUP       = 3,
	DAOS_ACL_EVERYONE    = 4,
	NUM_DAOS_ACL_TYPES   = 5
};

/** Effect of an entry; bits. */
enum daos_acl_access_type {
	DAOS_ACL_ACCESS_ALLOW = 0x1,
	DAOS_ACL_ACCESS_AUDIT = 0x2,
	DAOS_ACL_ACCESS_ALARM = 0x4
};
#define DAOS_ACL_ACCESS_ALL 0x7

/** Flags of an entry; bits. */
enum daos_acl_flags {
	/** The principal is a group. */
	DAOS_ACL_FLAG_GROUP          = 0x1,
	/** Containers of the pool inherit it. */
	DAOS_ACL_FLAG_POOL_INHERIT   = 0x2,
	/** Audit or alarm when access is denied. */
	DAOS_ACL_FLAG_ACCESS_FAIL    = 0x4,
	/** Audit or alarm when access is granted. */
	DAOS_ACL_FLAG_ACCESS_SUCCESS = 0x8
};
#define DAOS_ACL_FLAG_ALL 0xf

/** Permissions; bits, with their letter as text. */
enum daos_acl_perm {
	/** r. */
	DAOS_ACL_PERM_READ        = 0x001,
	/** w. */
	DAOS_ACL_PERM_WRITE       = 0x002,
	/** c. */
	DAOS_ACL_PERM_CREATE_CONT = 0x004,
	/** d. */
	DAOS_ACL_PERM_DEL_CONT    = 0x008,
	/** t. */
	DAOS_ACL_PERM_GET_PROP    = 0x010,
	/** T. */
	DAOS_ACL_PERM_SET_PROP    = 0x020,
	/** a. */
	DAOS_ACL_PERM_GET_ACL     = 0x040,
	/** A. */
	DAOS_ACL_PERM_SET_ACL     = 0x080,
	/** o. */
	DAOS_ACL_PERM_SET_OWNER   = 0x100
};

/** Permissions that apply to a pool: rwcdt. */
#define DAOS_ACL_PERM_POOL_ALL 0x01f
/** Permissions that apply to a container: rwdtTaAo. */
#define DAOS_ACL_PERM_CONT_ALL 0x1fb
/** All permissions. */
#define DAOS_ACL_PERM_ALL      0x1ff

/** One entry of a list. */
struct daos_ace {
	/** daos_acl_access_type. */
	uint8_t  dae_access_types;
	/** daos_acl_principal_type. */
	uint8_t  dae_principal_type;
	/** Bytes of dae_principal: a multiple of 8, or 0 for a principal without a name. */
	uint16_t dae_principal_len;
	/** daos_acl_flags. */
	uint16_t dae_access_flags;
	uint16_t dae_reserv;
	/** daos_acl_perm, for each type of access. */
	uint64_t dae_allow_perms;
	uint64_t dae_audit_perms;
	uint64_t dae_alarm_perms;
	__extension__ char dae_principal[];
};

/** A list with copies of num_aces entries, in canonical order; NULL if one is invalid. */
struct daos_acl *
daos_acl_create(struct daos_ace *aces[], uint16_t num_aces);

/** A copy of a list, or NULL. */
struct daos_acl *
daos_acl_dup(struct daos_acl *acl);

/** Free a list; NULL is allowed. */
void
daos_acl_free(struct daos_acl *acl);

/** Bytes of a list with its header, or -DER_INVAL. */
ssize_t
daos_acl_get_size(struct daos_acl *acl);

/** The entry after current_ace, or the first for NULL. NULL at the end. */
struct daos_ace *
daos_acl_get_next_ace(struct daos_acl *acl, struct daos_ace *current_ace);

/** Find the entry of a principal. @return 0, -DER_NONEXIST, -DER_INVAL. */
int
daos_acl_get_ace_for_principal(struct daos_acl *acl, enum daos_acl_principal_type type,
			       const char *principal, struct daos_ace **ace);

/**
 * Add an entry, or replace that of its principal. *acl is reallocated.
 * @return 0, -DER_INVAL or -DER_NOMEM.
 */
int
daos_acl_add_ace(struct daos_acl **acl, struct daos_ace *new_ace);

/**
 * Remove the entry of a principal. *acl is reallocated.
 * @return 0, -DER_NONEXIST, -DER_INVAL or -DER_NOMEM.
 */
int
daos_acl_remove_ace(struct daos_acl **acl, enum daos_acl_principal_type type,
		    const char *principal_name);

/** Print a list, field by field. */
void
daos_acl_dump(struct daos_acl *acl);

/** Check a list and its entries. @return 0 or -DER_INVAL. */
int
daos_acl_validate(struct daos_acl *acl);

/** An entry without permissions, or NULL. The name is used for DAOS_ACL_USER and DAOS_ACL_GROUP. */
struct daos_ace *
daos_ace_create(enum daos_acl_principal_type type, const char *principal_name);

/** Free an entry that is not in a list; NULL is allowed. */
void
daos_ace_free(struct daos_ace *ace);

/** Bytes of an entry with its principal, or -DER_INVAL. */
ssize_t
daos_ace_get_size(struct daos_ace *ace);

/** Print an entry, field by field, indented by the given number of tabs. */
void
daos_ace_dump(struct daos_ace *ace, uint32_t tabs);

/** Whether the fields of an entry are consistent. */
bool
daos_ace_is_valid(struct daos_ace *ace);

/** Whether a string can be the name of a principal. */
bool
daos_acl_principal_is_valid(const char *name);

/** The principal of a user, user@, as a string to free. @return 0, -DER_NONEXIST, -DER_NOMEM. */
int
daos_acl_uid_to_principal(uid_t uid, char **name);

/** The principal of a group, group@, as a string to free. @return 0, -DER_NONEXIST, -DER_NOMEM. */
int
daos_acl_gid_to_principal(gid_t gid, char **name);

/** The user of a principal. @return 0, -DER_NONEXIST, -DER_INVAL. */
int
daos_acl_principal_to_uid(const char *principal, uid_t *uid);

/** The group of a principal. @return 0, -DER_NONEXIST, -DER_INVAL. */
int
daos_acl_principal_to_gid(const char *principal, gid_t *gid);

/** The name of the principal of an entry; it belongs to the entry or is static. */
const char *
daos_ace_get_principal_str(struct daos_ace *ace);

/** Parse an entry from text. Free it with daos_ace_free. @return 0, -DER_INVAL, -DER_NOMEM. */
int
daos_ace_from_str(const char *str, struct daos_ace **ace);

/** Write an entry as text. @return 0; -DER_TRUNC if truncated; -DER_INVAL. */
int
daos_ace_to_str(struct daos_ace *ace, char *buf, size_t buf_len);

/** Describe an entry, given as text, in words. @return 0; -DER_TRUNC if truncated; -DER_INVAL. */
int
daos_ace_str_get_verbose(const char *ace_str, char *buf, size_t buf_len);

/** Parse a list from the texts of its entries. Free it with daos_acl_free. */
int
daos_acl_from_strs(const char **ace_strs, size_t ace_nr, struct daos_acl **acl);

/** Write a list as an array of texts; the caller frees each and the array. */
int
daos_acl_to_strs(struct daos_acl *acl, char ***ace_strs, size_t *ace_nr);

/** Parse a principal with its kind from text: u:name@, g:name@, OWNER@ and so on. Free *name. */
int
daos_acl_principal_from_str(const char *principal_str, enum daos_acl_principal_type *type,
			    char **name);

/** Print a list as text; verbose adds it in words. */
int
daos_acl_to_stream(FILE *stream, struct daos_acl *acl, bool verbose);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_SECURITY_H */
