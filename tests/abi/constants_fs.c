/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Constants of daos_fs.h, daos_fs_sys.h and daos_uns.h, as compiled into programs that were built
 * against other headers of this interface. Compiling this file is the test.
 */

#include "layout.h"

#include <daos_fs_sys.h>
#include <daos_uns.h>

#define VALUE(name, value) ASSERT((long long)(name) == (long long)(value), #name)
#define TEXT(name, value)  ASSERT(sizeof(name) == sizeof(value), #name)

VALUE(DFS_BALANCED, 4);
VALUE(DFS_RELAXED, 0);
VALUE(DFS_RDONLY, 0);
VALUE(DFS_RDWR, 2);
VALUE(DFS_MAX_NAME, 255);
VALUE(DFS_MAX_PATH, 4096);
VALUE(DFS_MAX_FSIZE, -1);
VALUE(DFS_MAX_XATTR_NAME, 255);
VALUE(DFS_MAX_XATTR_LEN, 65536);
VALUE(DFS_DEFAULT_CHUNK_SIZE, 1048576);
VALUE(DAOS_SUPER_MAGIC, 0xda05ad10);
VALUE(DFS_SET_ATTR_MODE, 1);
VALUE(DFS_SET_ATTR_ATIME, 2);
VALUE(DFS_SET_ATTR_MTIME, 4);
VALUE(DFS_SET_ATTR_SIZE, 8);
VALUE(DFS_SET_ATTR_UID, 16);
VALUE(DFS_SET_ATTR_GID, 32);
VALUE(DFS_CHECK_PRINT, 1);
VALUE(DFS_CHECK_REMOVE, 2);
VALUE(DFS_CHECK_RELINK, 4);
VALUE(DFS_CHECK_VERIFY, 8);
VALUE(DFS_CHECK_EVICT_ALL, 16);
VALUE(DFS_FILTER_NAME, 2);
VALUE(DFS_FILTER_NEWER, 4);
VALUE(DFS_FILTER_INCLUDE_DIRS, 8);
VALUE(DFS_SYS_NO_CACHE, 1);
VALUE(DFS_SYS_NO_LOCK, 2);
VALUE(DUNS_NO_PREFIX, 1);
VALUE(DUNS_NO_REVERSE_LOOKUP, 2);
VALUE(DUNS_NO_CHECK_PATH, 4);
VALUE(DUNS_MAX_XATTR_LEN, 170);
TEXT(DUNS_XATTR_NAME, "user.daos");
TEXT(DUNS_XATTR_FMT, "DAOS.%s://%36s/%36s");
TEXT(DUNS_LUSTRE_XATTR_FMT, "%36s/%36s");
