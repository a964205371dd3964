/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets with a path: they work, or are refused, and are never made anywhere else. */
#include "check.h"
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

static struct sockaddr_un
address_of(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	CHECK(strlen(path) < sizeof(address.sun_path));
	strcpy(address.sun_path, path);
	return address;
}

static int
connect_to(const char *path, int kind)
{
	struct sockaddr_un address = address_of(path);
	int                fd = socket(AF_UNIX, kind, 0);
	int                result = connect(fd, (struct sockaddr *)&address, sizeof(address)), before = errno;

	OK(close(fd));
	errno = before;
	return result;
}

static void
bound(const char *path)
{
	struct sockaddr_un address = address_of(path);
	int                fd = socket(AF_UNIX, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
		OK(listen(fd, 1));
		OK(connect_to(path, SOCK_STREAM));
		OK(unlink(path));
	} else {
		GIVES(EPERM, errno);
		FAILS(ENOENT, access(path, F_OK));
		FAILS(ENOENT, connect_to(path, SOCK_STREAM));
		FAILS(EPERM, syscall(SYS_bind, fd, &address, sizeof(address)));
	}
	OK(close(fd));
}

static void
names_in_the_directory(void)
{
	char here[4096], path[8192];

	CHECK(getcwd(here, sizeof(here)) != NULL);
	snprintf(path, sizeof(path), "%s/socket", here);
	bound("socket");
	bound(path);
	put("file", "text");
	FAILS(ECONNREFUSED, connect_to("file", SOCK_STREAM));
	FAILS(ENOENT, connect_to("none", SOCK_DGRAM));
}

static void
names_in_use(void)
{
	struct sockaddr_un address = address_of("file");
	int                fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	put("file", "text");
	FAILS(EADDRINUSE, bind(fd, (struct sockaddr *)&address, sizeof(address)));
	FAILS(ECONNREFUSED, sendto(fd, "x", 1, 0, (struct sockaddr *)&address, sizeof(address)));
	holds("file", "text");
	OK(close(fd));
}

/** Sockets elsewhere, by their path, by a link that leads there, and those without a path. */
static void
names_elsewhere(void)
{
	char               path[4096];
	struct sockaddr_un address;
	struct msghdr      message = {.msg_name = &address, .msg_namelen = sizeof(address)};
	struct iovec       part = {"x", 1};
	int                fd = socket(AF_UNIX, SOCK_DGRAM, 0), sender = socket(AF_UNIX, SOCK_DGRAM, 0);
	char               back[4];

	snprintf(path, sizeof(path), "/tmp/esker-socket.%d", getpid());
	address = address_of(path);
	OK(bind(fd, (struct sockaddr *)&address, sizeof(address)));
	OK(symlink(path, "link"));
	OK(connect_to("link", SOCK_DGRAM));
	message.msg_iov = &part;
	message.msg_iovlen = 1;
	GIVES(1, sendmsg(sender, &message, 0));
	address = address_of("link");
	GIVES(1, sendmsg(sender, &message, 0));
	GIVES(1, recv(fd, back, 4, 0));
	GIVES(1, recv(fd, back, 4, 0));
	OK(unlink(path));
	OK(close(sender));
	sender = socket(AF_UNIX, SOCK_DGRAM, 0);
	memcpy(address.sun_path, "\0name", 5);
	address.sun_path[5] = (char)getpid();
	OK(bind(sender, (struct sockaddr *)&address, sizeof(sa_family_t) + 6));
}

int
main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(names_in_the_directory), TEST(names_in_use), TEST(names_elsewhere),
	};

	return RUN(argc, argv, tests);
}
