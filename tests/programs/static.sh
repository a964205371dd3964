#!/usr/bin/env bash
# Programs into which no library can be loaded write with relative paths, and read inherited files. Successful writes must
# be in the directory, and successful reads must return the content.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
need cc
writer=$elsewhere/writer
cc -static -x c -o "$writer" - 2>/dev/null <<'END' || { echo "static programs cannot be built"; exit 77; }
#include <fcntl.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int fd = argc > 1 ? open(argv[1], O_WRONLY | O_CREAT, 0644) : -1;
    return fd < 0 || write(fd, "text\n", 5) != 5 || close(fd) != 0;
}
END

reader=$elsewhere/reader
cc -static -x c -o "$reader" - <<'END'
#include <stdio.h>
#include <unistd.h>
int main(void) {
    char text[64];
    ssize_t length = read(0, text, sizeof(text));
    return length < 0 || fwrite(text, 1, (size_t)length, stdout) != (size_t)length;
}
END

# wrote PATH COMMAND...: if the command succeeds, the file exists.
wrote() {
    local path=$1
    shift
    if "$@"; then holds "$path" text; else fails test -e "$path"; fi
}

test_here() { wrote file "$writer" file; }

test_deep() {
    mkdir -p one/two
    cd one/two
    wrote file "$writer" file
    wrote ../file "$writer" ../file
    wrote ../../one/file "$writer" ../../one/file
}

test_started_there() {
    mkdir -p other
    has python3 || return 0
    wrote other/file python3 -c 'import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:], cwd="other"))' "$writer" file
}

test_started_by_another() { wrote file env "$writer" file; }

# A read that the library does not reach fails or returns the content. It does not report the end of the file.
test_inherited() {
    echo text >file
    if "$reader" <file >"$outside/read"; then holds "$outside/read" text; fi
}

run_tests
