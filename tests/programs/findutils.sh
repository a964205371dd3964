#!/usr/bin/env bash
# find and xargs: traversal with directory descriptors, selection by all kinds of attributes.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
need find xargs

test_walks() {
    tree t
    is "$(find t | sort | tr '\n' ' ')" "t t/dangling t/deep t/deep/er t/deep/er/script t/deep/er/still \
t/deep/link t/deep/nothing t/deep/small t/empty t/large "
    is "$(find t -type l | wc -l)" 2
    is "$(find t -type d -empty | sort | tr '\n' ' ')" "t/deep/er/still t/empty "
    is "$(find t -size +100k)" t/large
    is "$(find t -type f -size 0)" t/deep/nothing
    is "$(find t -perm 755 -type f)" t/deep/er/script
    is "$(find t -perm -u+x -type f -printf %f)" script
    is "$(find t -name 's*' | sort | tr '\n' ' ')" "t/deep/er/script t/deep/er/still t/deep/small "
    is "$(find t -newermt 2021-01-01 ! -newermt 2021-12-31 -type f | sort | tr '\n' ' ')" "t/deep/small t/large "
    is "$(find t -maxdepth 1 -mindepth 1 | wc -l)" 4
    is "$(find -L t -type f | wc -l)" 5
    is "$(find t -samefile t/large)" t/large
    is "$(find t/deep -lname '*large')" t/deep/link
}

test_actions() {
    tree t
    find t -type f -exec cp {} "$outside" \;
    cmp t/large "$outside/large"
    (cd t && find . -name small -execdir mv {} renamed \;)
    holds t/deep/renamed "one line"
    is "$(find t -type f -print0 | xargs -0 cat | wc -c)" "$(find t -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')"
    is "$(find t -type f -print0 | xargs -0 -n 1 -P 4 cksum | sort | md5sum)" "$(find t -type f -exec cksum {} + | sort | md5sum)"
    find t ! -path '*/deep/*' -type f -delete
    [ ! -e t/large ]
    [ -e t/deep/nothing ]
    find t -delete
    [ ! -e t ]
}

test_a_wide_and_deep_tree() {
    mkdir wide
    (cd wide && seq 500 | xargs mkdir && for i in $(seq 1 25 500); do seq "$i" >"$i/file"; done)
    is "$(find wide -type f | wc -l)" 20
    is "$(find wide -type d | wc -l)" 501
    path=deep/$(seq -s / 60)
    mkdir -p "$path"
    echo end >"$path/file"
    is "$(find deep -type f)" "$path/file"
    is "$(find deep -depth -type d | head -n 1)" "$path"
    rm -r wide deep
    is "$(ls -A)" ""
}

run_tests
