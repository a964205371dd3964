#!/usr/bin/env bash
# Runs a command where it can do no harm: below a root directory of its own, in memory, which no process can write to, in
# a mount namespace of its own, as a user that owns nothing, and with at most 4 GiB of memory. Programs and libraries of
# the machine are there for reading. Without the rights of root, it uses a user namespace.
#
# usage: confined.sh [--show PATH AS]... [--lend PATH AS]... [--] COMMAND...
#   --show PATH AS   shows a directory of the machine as AS, for reading
#   --lend PATH AS   the same for writing, and makes the user of the command its owner
#
# /plain, /other, /out-0, /out-1, /dev/shm and /tmp are directories in memory that the command may write to. It ends with
# status 77 if the machine forbids this.
set -euo pipefail
readonly user=54321 memory=$((4 << 30))

if [ "${ESKER_CONFINED:-}" != inside ]; then
    export ESKER_CONFINED=inside
    how=(unshare --mount --propagation private --pid --fork --mount-proc)
    [ "$(id -u)" = 0 ] || how+=(--user --map-root-user)
    "${how[@]}" true 2>/dev/null || { echo "confined.sh: namespaces are not allowed here" >&2 && exit 77; }
    exec "${how[@]}" "$0" "$@"
fi
unset ESKER_CONFINED

as=(--userspec="$user:$user") owner=$user
# A user namespace of its own has one user only.
read -r _ _ users </proc/self/uid_map
[ "$users" != 1 ] || as=() owner=0

# Only this namespace sees what is mounted here.
root=/mnt
mount -t tmpfs -o mode=755,size=1M confined "$root"
touch "$root/confined"

# show PATH AS OPTION: a directory of the machine.
show() {
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    mount -o "remount,bind,nosuid,$3" "$root$2"
}

for place in /usr /bin /lib /lib64 /etc/ld.so.cache; do
    if [ -L "$place" ]; then
        cp -P "$place" "$root$place"
    elif [ -d "$place" ]; then
        show "$place" "$place" ro
    fi
done
while [ "${1:-}" = --show ] || [ "${1:-}" = --lend ]; do
    access=ro
    [ "$1" = --show ] || { access=rw && chown "$owner:$owner" "$2"; }
    show "$2" "$3" "$access"
    shift 3
done
[ "${1:-}" != -- ] || shift
for place in /plain /other /out-0 /out-1 /dev/shm /tmp; do
    mkdir -p "$root$place"
    mount -t tmpfs -o mode=1777,size=1G confined "$root$place"
    chown "$owner:$owner" "$root$place"
done
for place in null zero urandom; do
    touch "$root/dev/$place"
    mount --bind "/dev/$place" "$root/dev/$place"
done
# `esker run` shows its files at a directory that need not be there.
mkdir -p "$root/proc" "$root/esker"
mount -t proc proc "$root/proc"
mount -o remount,bind,ro "$root"
cd "$root"
exec prlimit --as="$memory" -- chroot "${as[@]}" "$root" /usr/bin/env -C / "$@"
