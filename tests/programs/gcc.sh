#!/usr/bin/env bash
# A small project in C and C++, built by make with gcc, ar and ld in the directory.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
need gcc make ar

project() {
    mkdir -p "$1/include" "$1/src"
    cat >"$1/include/sum.h" <<'END'
#pragma once
#ifdef __cplusplus
extern "C"
#endif
int sum(int a, int b);
END
    cat >"$1/src/sum.c" <<'END'
#include "sum.h"
int sum(int a, int b) { return a + b; }
END
    cat >"$1/src/main.c" <<'END'
#include <stdio.h>
#include "sum.h"
int main(void) { printf("%d\n", sum(40, 2)); return 0; }
END
    cat >"$1/Makefile" <<'END'
CFLAGS = -g -O1 -Iinclude -MMD
program: build/main.o build/libsum.a
	$(CC) -o $@ $^
build/libsum.a: build/sum.o
	$(AR) rcs $@ $^
build/%.o: src/%.c | build
	$(CC) $(CFLAGS) -c -o $@ $<
build:
	mkdir $@
clean:
	rm -rf build program
-include build/main.d build/sum.d
END
}

# runs PROGRAM: copies it to where it can be executed; it must print 42.
runs() {
    cp "$1" "$outside/program"
    is "$("$outside/program")" 42
}

test_make() {
    project p
    cd p
    make -s -j 2
    runs program
    is "$(make)" "make: 'program' is up to date."
    touch -d '+2 seconds' include/sum.h
    is "$(make -n | grep -c -- -c)" 2
    sed -i 's/a + b/b + a/' src/sum.c
    make -s
    runs program
    make -s clean
    is "$(find . -type f | wc -l)" 4
}

test_the_same_bytes_as_elsewhere() {
    project p
    rm -rf "$outside/p"
    cp -a p "$outside/p"
    make -s -C p CFLAGS="-O2 -Iinclude" LDFLAGS=
    make -s -C "$outside/p" CFLAGS="-O2 -Iinclude"
    cmp p/build/sum.o "$outside/p/build/sum.o"
    cmp p/program "$outside/p/program"
}

test_temporary_files_too() {
    project p
    mkdir tmp
    TMPDIR=$PWD/tmp gcc -pipe -Ip/include -o one p/src/*.c
    TMPDIR=$PWD/tmp gcc -save-temps=obj -Ip/include -o two p/src/*.c
    TMPDIR=$PWD/tmp gcc -flto -O2 -Ip/include -o three p/src/*.c
    for program in one two three; do runs $program; done
    is "$(ls tmp)" ""
}

test_shared_library_and_tools() {
    project p
    gcc -shared -fPIC -Ip/include -o libsum.so p/src/sum.c
    gcc -Ip/include -o program p/src/main.c -L. -lsum
    cp libsum.so "$outside"
    cp program "$outside/program"
    is "$(LD_LIBRARY_PATH=$outside "$outside/program")" 42
    is "$(nm -D libsum.so | grep -c ' T sum$')" 1
    objcopy --strip-all libsum.so stripped.so
    strip -o stripped program
    [ "$(stat -c %s stripped)" -lt "$(stat -c %s program)" ]
    cp libsum.so inplace.so
    strip inplace.so
    readelf -h inplace.so | grep -q 'DYN'
    objdump -d libsum.so | grep -q '<sum>'
}

test_cplusplus() {
    has g++ || return 0
    cat >main.cpp <<'END'
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>
namespace fs = std::filesystem;
#define CHECK(x) do { if (!(x)) { std::cerr << __LINE__ << ": failed: " #x "\n"; return 1; } } while (0)
int main(int, char **argv)
{
	fs::current_path(argv[1]);
	{ std::ofstream out("file"); for (int i = 0; i < 10000; i++) out << i << '\n'; CHECK(out.good()); }
	std::ifstream in("file"); long n, sum = 0; while (in >> n) sum += n;
	CHECK(sum == 49995000);
	in.clear(); in.seekg(10); std::string line; std::getline(in, line); CHECK(line == "5");
	{ std::fstream both("file", std::ios::in | std::ios::out | std::ios::binary);
	  both.seekp(4); both << "XY"; both.seekg(0); std::getline(both, line); CHECK(line == "0"); }
	CHECK(fs::file_size("file") == 48890);
	std::vector<char> big(1 << 20, 'x');
	{ std::ofstream out("big", std::ios::binary); out.write(big.data(), big.size()); }
	CHECK(fs::file_size("big") == big.size());
	fs::create_directories("a/b/c"); fs::copy_file("file", "a/b/copy"); fs::create_symlink("b", "a/link");
	fs::rename("a/b/copy", "a/b/c/moved"); fs::copy("a", "z", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
	int entries = 0; for (auto &e : fs::recursive_directory_iterator("z")) { (void)e; entries++; }
	CHECK(entries == 4); CHECK(fs::is_symlink("z/link")); CHECK(fs::read_symlink("z/link") == "b");
	CHECK(fs::equivalent("a/link/c/moved", "a/b/c/moved")); fs::resize_file("big", 10); CHECK(fs::file_size("big") == 10);
	fs::permissions("big", fs::perms::owner_read); CHECK(fs::status("big").permissions() == fs::perms::owner_read);
	fs::last_write_time("big", fs::file_time_type::clock::now() - std::chrono::hours(1));
	CHECK(fs::canonical("a/link/../b") == fs::current_path() / "a/b"); CHECK(fs::space(".").capacity > 0);
	CHECK(fs::remove_all("a") == 5); CHECK(!fs::exists("a"));
	std::cout << "42\n";
}
END
    g++ -std=c++17 -O1 -o program main.cpp
    cp program "$outside/program"
    mkdir d
    is "$("$outside/program" "$PWD/d")" 42
}

run_tests
