/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_COMMON_H
#define ESKER_DAOS_COMMON_H

/**
 * @file
 * What programs that include DAOS's header of this name use of it: the helpers around basic types, and errno values.
 */

#include <daos_types.h>
#include <gurt/common.h>
#include <gurt/debug.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The errno value for a return value: 0 for success, EINVAL for a positive number, EIO if there is no other. */
static inline int
daos_der2errno(int rc)
{
	if (rc > 0)
		return EINVAL;
	switch (-rc) {
	case DER_SUCCESS:
		return 0;
	case DER_NO_PERM:
	case DER_EP_RO:
	case DER_EP_OLD:
	case DER_CONT_DESTROYING:
		return EPERM;
	case DER_ENOENT:
	case DER_NONEXIST:
		return ENOENT;
	case DER_INVAL:
	case DER_NOTYPE:
	case DER_NOSCHEMA:
	case DER_NOLOCAL:
	case DER_NO_HDL:
	case DER_IO_INVAL:
		return EINVAL;
	case DER_KEY2BIG:
	case DER_REC2BIG:
		return E2BIG;
	case DER_EXIST:
		return EEXIST;
	case DER_UNREACH:
		return EHOSTUNREACH;
	case DER_NOSPACE:
		return ENOSPC;
	case DER_ALREADY:
		return EALREADY;
	case DER_DOS:
	case DER_NOMEM:
		return ENOMEM;
	case DER_TIMEDOUT:
		return ETIMEDOUT;
	case DER_BUSY:
	case DER_EQ_BUSY:
		return EBUSY;
	case DER_AGAIN:
		return EAGAIN;
	case DER_PROTO:
		return EPROTO;
	case DER_CANCELED:
		return ECANCELED;
	case DER_OVERFLOW:
		return EOVERFLOW;
	case DER_BADPATH:
	case DER_NOTDIR:
		return ENOTDIR;
	case DER_STALE:
		return ESTALE;
	case DER_TX_RESTART:
		return ERESTART;
	case DER_NOTSUPPORTED:
		return ENOTSUP;
	default:
		return EIO;
	}
}

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_COMMON_H */
