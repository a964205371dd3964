#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compiles each header alone, and the assertions about the headers, as C and as C++.
#
# environment: CC and CXX, the compilers; LIBDAOS, a library to link symbols.c with and run it;
#              LAYOUTS, a file of known layouts for check_layouts.py.
# The last line gives the number of passed and failed tests.

set -u

here=$(cd "$(dirname "$0")" && pwd)
include=$here/../../include
CC=${CC:-cc}
CXX=${CXX:-c++}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

passed=0
failed=0
skipped=0

# test_that NAME COMMAND...: run the command, count it, and show its output if it fails.
test_that() {
	name=$1
	shift
	if "$@" >"$work/output" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $name"
		sed 's/^/    /' "$work/output"
	fi
}

flags="-Wall -Wextra -Wpedantic -Werror -I$include"

c_compiles() {
	# shellcheck disable=SC2086
	"$CC" -x c -std="$1" $flags -fsyntax-only "$2"
}

cxx_compiles() {
	# shellcheck disable=SC2086
	"$CXX" -x c++ -std="$1" $flags -fsyntax-only "$2"
}

# Includes each header twice, to test its include guard.
for header in $(cd "$include" && find . -name '*.h' | sed 's|^\./||' | sort); do
	printf '#include <%s>\n#include <%s>\nextern int not_empty;\n' "$header" "$header" \
		>"$work/alone.c"
	for std in c99 c11 gnu11 c17; do
		test_that "$header alone, $std" c_compiles "$std" "$work/alone.c"
	done
	for std in c++11 c++17; do
		test_that "$header alone, $std" cxx_compiles "$std" "$work/alone.c"
	done
done

for source in "$here"/*.c; do
	for std in c11 gnu11 c17; do
		test_that "$(basename "$source"), $std" c_compiles "$std" "$source"
	done
	for std in c++11 c++17; do
		test_that "$(basename "$source"), $std" cxx_compiles "$std" "$source"
	done
done

# shellcheck disable=SC2086
test_that "inline.c builds" "$CC" -std=c99 $flags -o "$work/inline" "$here/inline.c"
test_that "inline.c runs" "$work/inline"

test_that "check_symbols.py" python3 -B "$here/check_symbols.py"
test_that "check_layouts.py" python3 -B "$here/check_layouts.py" ${LAYOUTS:+"$LAYOUTS"}

if [ -n "${LIBDAOS:-}" ]; then
	# shellcheck disable=SC2086
	test_that "symbols.c links" "$CC" $flags -o "$work/symbols" "$here/symbols.c" "$LIBDAOS" \
		"-Wl,-rpath,$(dirname "$LIBDAOS")"
	test_that "symbols.c runs" "$work/symbols"
else
	skipped=2
	echo "skipped: linking symbols.c, because LIBDAOS is not set"
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
