#!/usr/bin/env bash
# Shared libraries in the directory, which a program loads (dlopen) together with the libraries that they need.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
need cc
# shellcheck disable=SC2016 # the loader expands $ORIGIN
origin='$ORIGIN'

# Loads the libraries that are its arguments, and prints what `value` of each returns. Before a path, + stays loaded and
# makes its symbols global, = expects that it is loaded, and - expects that it cannot be loaded.
cc -x c -D_GNU_SOURCE -o "$elsewhere/load" - -ldl <<'END'
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int load(const char *path, char how)
{
    int flags = how == '+' ? RTLD_NOW | RTLD_GLOBAL : how == '=' ? RTLD_LAZY | RTLD_NOLOAD : RTLD_LAZY;
    void *library = dlopen(path, flags);
    int (*value)(void);
    Dl_info info;
    if (!library && how == '=')
        return 0;
    rmdir("nothing"); /* the message outlives calls of other functions */
    if (!library)
        return printf("%s\n", dlerror()), how == '-';
    *(void **)&value = dlsym(library, "value");
    if (!value || !dladdr((void *)value, &info))
        return printf("%s\n", dlerror()), 0;
    printf("%d %s\n", value(), info.dli_fname);
    return how != '-' && (how == '+' || dlclose(library) == 0);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int status, prefix = strchr("+=-", *argv[i]) != NULL;
        if (strcmp(argv[i], "fork") == 0) {
            fflush(stdout);
            if (fork() == 0)
                continue;
            return wait(&status) < 0 || status != 0;
        }
        if (strcmp(argv[i], "pause") == 0) {
            fflush(stdout);
            getchar();
            continue;
        }
        if (!load(argv[i] + prefix, prefix ? *argv[i] : ' '))
            return 1;
    }
    return 0;
}
END
load=$elsewhere/load

# library FILE BODY [OPTION...]: a library whose function `value` has this body.
library() {
    local file=$1 body=$2
    shift 2
    echo "#include <stdio.h>
        #include <dlfcn.h>
        extern int needed(void), other(void);
        int value(void) { $body }" | cc -shared -fPIC -D_GNU_SOURCE -o "$file" -x c - -x none "$@"
}

# needed FILE NUMBER: a library that has the function `needed`.
needed() {
    echo "int needed(void) { return $2; }" | cc -shared -fPIC -Wl,-soname,"$(basename "$1")" -o "$1" -x c -
}

test_by_path() {
    library one.so 'return 1;'
    is "$("$load" "$PWD/one.so")" "1 $PWD/one.so"
    is "$("$load" ./one.so)" "1 $PWD/one.so" || is "$("$load" ./one.so)" "1 ./one.so"
    mkdir deep
    is "$("$load" "$PWD/deep/.././one.so" | cut -d ' ' -f 1)" 1
    is "$("$load" +"$PWD/one.so" ="$PWD/one.so" fork ="$PWD/one.so" "$PWD/one.so" | sort -u)" "1 $PWD/one.so"
    is "$("$load" fork "$PWD/one.so")" "1 $PWD/one.so"
}

test_under_other_names() {
    library one.so 'static int n; return ++n;'
    mkdir sub
    ln -s one.so link.so
    ln -s "$PWD" sub/here
    is "$("$load" +"$PWD/one.so" "$PWD/link.so" ="$PWD/sub/here/one.so" | cut -d ' ' -f 1 | tr '\n' ' ')" "1 2 3 "
    library "$outside/two.so" 'return 2;'
    ln -s "$outside/two.so" two.so
    is "$("$load" "$PWD/two.so" | cut -d ' ' -f 1)" 2
}

test_what_cannot_be_loaded() {
    echo 'no library' >text.so
    is "$("$load" -"$PWD/missing.so")" "$PWD/missing.so: cannot open shared object file: No such file or directory"
    is "$("$load" -"$PWD/text.so")" "$PWD/text.so: invalid ELF header" || is "$("$load" -"$PWD/text.so")" "$PWD/text.so: file too short"
    library bad.so 'return needed();' -Wl,-z,now
    is "$("$load" -"$PWD/bad.so")" "$PWD/bad.so: undefined symbol: needed"
    library one.so 'return 1;'
    fails "$load" ="$PWD/one.so"
    fails "$load" one.so
}

test_needed_beside_it() {
    mkdir -p lib/deep package.libs
    needed package.libs/libneeded.so.1 7
    library lib/deep/uses.so 'return needed();' package.libs/libneeded.so.1 -Wl,-rpath,"$origin/../../package.libs"
    is "$("$load" "$PWD/lib/deep/uses.so" | cut -d ' ' -f 1)" 7
    mv package.libs moved
    is "$("$load" -"$PWD/lib/deep/uses.so" | grep -c 'libneeded.so.1: cannot open')" 1
    ln -s moved package.libs
    is "$("$load" "$PWD/lib/deep/uses.so" | cut -d ' ' -f 1)" 7
    library old.so 'return needed();' moved/libneeded.so.1 -Wl,--disable-new-dtags,-rpath,"${origin/ORIGIN/{ORIGIN\}}/moved"
    is "$("$load" "$PWD/old.so" | cut -d ' ' -f 1)" 7
}

test_needed_by_what_it_needs() {
    mkdir lib
    needed lib/liblast.so 9
    echo 'int needed(void); int other(void) { return needed() + 1; }' |
        cc -shared -fPIC -Wl,-soname,libother.so,-rpath,"$origin" -o lib/libother.so -x c - -x none lib/liblast.so
    library uses.so 'return other();' lib/libother.so -Wl,-rpath,"$PWD/lib"
    is "$("$load" "$PWD/uses.so" | cut -d ' ' -f 1)" 10
}

test_found_by_an_absolute_path() {
    mkdir lib "$outside/lib"
    needed lib/libneeded.so 5
    library uses.so 'return needed();' lib/libneeded.so -Wl,-rpath,"/nowhere:$PWD/lib"
    is "$("$load" "$PWD/uses.so" | cut -d ' ' -f 1)" 5
    needed "$outside/lib/libneeded.so" 6
    library uses.so 'return needed();' lib/libneeded.so -Wl,-rpath,"$outside/lib:$PWD/lib"
    is "$("$load" "$PWD/uses.so" | cut -d ' ' -f 1)" 6
}

test_found_by_the_environment() {
    mkdir lib
    needed lib/libneeded.so 3
    library uses.so 'return needed();' lib/libneeded.so
    fails "$load" "$PWD/uses.so"
    is "$(LD_LIBRARY_PATH=$PWD/lib "$load" "$PWD/uses.so" | cut -d ' ' -f 1)" 3
    library lib/libvalue.so 'return 4;'
    is "$(LD_LIBRARY_PATH=/nowhere:$PWD/lib "$load" libvalue.so | cut -d ' ' -f 1)" 4
}

# The directories are those of the library that calls dlopen.
test_found_by_the_caller() {
    mkdir lib
    needed lib/libplugin.so 8
    library calls.so 'void *plugin = dlopen("libplugin.so", RTLD_LAZY);
        int (*get)(void) = plugin ? (int (*)(void))dlsym(plugin, "needed") : NULL;
        if (!plugin) puts(dlerror());
        return get ? get() : -1;' -Wl,-rpath,"$origin/lib" -ldl
    is "$("$load" "$PWD/calls.so" | cut -d ' ' -f 1)" 8
    is "$("$load" -libplugin.so | grep -c 'cannot open shared object file')" 1
}

test_code_that_runs_when_it_is_loaded() {
    echo content >data
    mkdir lib
    echo '#include <stdio.h>
        int needed(void) { return 0; }
        __attribute__((constructor)) static void start(void) { rename("data", "found"); }' |
        cc -shared -fPIC -Wl,-soname,libneeded.so -o lib/libneeded.so -x c -
    library uses.so 'return needed();' lib/libneeded.so -Wl,-rpath,"$PWD/lib"
    "$load" "$PWD/uses.so"
    holds found content
}

# program FILE OPTION...: a program that prints what `needed` returns, and runs its arguments.
program() {
    local file=$1
    shift
    cc -D_GNU_SOURCE -o "$file" -x c - -x none "$@" <<'END'
#include <stdio.h>
#include <unistd.h>
int needed(void);

int main(int argc, char **argv)
{
    printf("%d\n", needed());
    fflush(stdout);
    return argc > 1 ? execvp(argv[1], argv + 1) : 0;
}
END
}

# A build tree, whose programs need libraries beside them, or in directories with absolute paths.
test_needed_at_the_start() {
    mkdir lib bin
    needed lib/libneeded.so 7
    program bin/absolute lib/libneeded.so -Wl,-rpath,"$PWD/lib"
    is "$(bin/absolute)" 7
    is "$(cd bin && ./absolute)" 7
    is "$(PATH=$PWD/bin:$PATH env absolute)" 7
    program bin/beside lib/libneeded.so -Wl,-rpath,"$origin/../lib"
    is "$(bin/beside)" 7
    program bin/old lib/libneeded.so -Wl,--disable-new-dtags,-rpath,"$origin/../lib"
    is "$(bin/old)" 7
    program bin/nowhere lib/libneeded.so
    fails bin/nowhere
    is "$(LD_LIBRARY_PATH=$PWD/lib bin/nowhere)" 7
    is "$(LD_LIBRARY_PATH=$PWD/lib python3 -c 'import subprocess; subprocess.run(["bin/nowhere"])')" 7
    needed lib/libneeded.so 8
    is "$(bin/absolute)" 8
}

# The program is outside of the directory.
test_needed_at_the_start_by_others() {
    mkdir lib
    needed lib/libneeded.so 6
    program "$outside/linked" lib/libneeded.so -Wl,-rpath,"$PWD/lib"
    is "$("$outside/linked")" 6
    is "$(PATH=$outside:$PATH env linked)" 6
    program "$outside/plain" lib/libneeded.so
    is "$(LD_LIBRARY_PATH=$PWD/lib "$outside/plain")" 6
    fails "$outside/plain"
}

test_needed_at_the_start_by_what_is_needed() {
    mkdir lib more
    echo 'int last(void) { return 4; }' | cc -shared -fPIC -Wl,-soname,liblast.so -o more/liblast.so -x c -
    echo 'int last(void); int needed(void) { return last() + 1; }' |
        cc -shared -fPIC -Wl,-soname,libneeded.so,-rpath,"$PWD/more" -o lib/libneeded.so -x c - -x none more/liblast.so
    program uses lib/libneeded.so -Wl,-rpath,"$PWD/lib" -Wl,-rpath-link,more
    is "$(./uses)" 5
}

# Programs that such a program starts do not load its libraries.
test_started_by_a_program_with_libraries() {
    mkdir lib
    needed lib/libneeded.so 1
    program starts lib/libneeded.so -Wl,-rpath,"$PWD/lib"
    ./starts grep -c libneeded /proc/self/maps >found || true
    is "$(tail -n 1 found)" 0
    # shellcheck disable=SC2016 # the inner shell expands it
    is "$(./starts sh -c 'echo "${LD_PRELOAD:-}"' | tail -n 1 | grep -c needed)" 0
}

test_a_changed_library() {
    library one.so 'return 1;'
    mkfifo "$outside/go"
    "$load" "$PWD/one.so" pause "$PWD/one.so" <"$outside/go" >said &
    exec 7>"$outside/go"
    until [ -s said ]; do sleep 0.01; done
    library new.so 'return 2;'
    mv new.so one.so
    echo >&7
    exec 7>&-
    wait $!
    is "$(cut -d ' ' -f 1 said | tr '\n' ' ')" "1 2 "
}

test_many_at_once() {
    mkdir lib
    needed lib/libneeded.so 5
    library uses.so 'return needed();' lib/libneeded.so -Wl,-rpath,"$origin/lib"
    for _ in $(seq 8); do "$load" "$PWD/uses.so" >>said & done
    wait
    is "$(grep -c "^5 $PWD/uses.so" said)" 8
}

run_tests
