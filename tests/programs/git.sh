#!/usr/bin/env bash
# git: locks by exclusive creation and rename, packs by mmap, objects without write permission.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
need git
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export HOME=$elsewhere GIT_CONFIG_COUNT=3
export GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' GIT_CONFIG_KEY_1=gc.auto GIT_CONFIG_VALUE_1=0
export GIT_CONFIG_KEY_2=init.defaultBranch GIT_CONFIG_VALUE_2=main

# repository DIR: creates one with a tree and three commits.
repository() {
    git init -q "$1"
    tree "$1/tree"
    git -C "$1" add .
    git -C "$1" commit -q -m one
    echo more >>"$1/tree/large"
    git -C "$1" commit -q -a -m two
    git -C "$1" mv tree/deep/small tree/renamed
    git -C "$1" commit -q -m three
}

test_commits() {
    repository r
    cd r
    is "$(git log --format=%s | tr '\n' ' ')" "three two one "
    is "$(git status --porcelain)" ""
    git fsck --strict --full
    is "$(git show HEAD~2:tree/deep/small)" "one line"
    echo edit >>tree/renamed
    is "$(git status --porcelain)" " M tree/renamed"
    git checkout -q -- .
    holds tree/renamed "one line"
    git reset -q --hard HEAD~2
    holds tree/deep/small "one line"
    is "$(git config core.bare)" false
    git config user.test 'a value'
    is "$(git config user.test)" "a value"
}

test_branches() {
    repository r
    cd r
    git checkout -q -b side HEAD~1
    echo side >side
    git add side
    git commit -q -m side
    git checkout -q main
    git merge -q -m merged side
    [ -f side ]
    [ -f tree/renamed ]
    git tag -a -m tag v1
    git checkout -q -b other v1~1
    echo change >>tree/renamed
    git stash -q
    git stash pop -q
    git commit -q -a -m changed
    git rebase -q main
    is "$(git log --format=%s | head -n 2 | tr '\n' ' ')" "changed merged "
    git branch -D side
    git fsck --strict
    is "$(git status --porcelain)" ""
}

test_packs() {
    repository r
    (cd r && git gc -q --aggressive --prune=now && git fsck --strict --full && git verify-pack .git/objects/pack/*.idx)
    is "$(find r/.git/objects -name '*.pack' | wc -l)" 1
    git clone -q --no-local r cloned
    git clone -q r local
    git clone -q --shared r shared
    for copy in cloned local shared; do
        cmp r/tree/large $copy/tree/large
        is "$(readlink $copy/tree/deep/link)" ../large
        is "$(git -C $copy status --porcelain)" ""
        git -C $copy fsck --strict --full
    done
    git init -q --bare bare.git
    git -C r push -q "$PWD/bare.git" main
    is "$(git -C bare.git rev-parse main)" "$(git -C r rev-parse main)"
    git -C r repack -q -a -d
    git -C r bundle create -q ../bundle main
    git clone -q -b main bundle unbundled
    is "$(git -C unbundled rev-parse HEAD)" "$(git -C r rev-parse HEAD)"
}

test_worktree_and_clean() {
    repository r
    cd r
    git worktree add -q ../w HEAD~1
    cmp ../w/tree/large tree/large
    [ -x ../w/tree/deep/er/script ]
    git worktree remove ../w
    echo junk >junk
    mkdir -p dir/sub
    touch dir/sub/file
    git clean -q -f -d -x
    [ ! -e junk ]
    [ ! -e dir ]
    git archive HEAD | tar t | grep -q '^tree/renamed$'
    git format-patch -q -o ../patches HEAD~2
    git reset -q --hard HEAD~2
    git am -q ../patches/*
    is "$(git log --format=%s | head -n 1)" three
}

test_many_files() {
    git init -q r
    cd r
    for i in $(seq 300); do echo "$i" >"file$i"; done
    git add .
    git commit -q -m many
    sed -i s/1/x/ file*
    git commit -q -a -m changed
    git checkout -q HEAD~1
    is "$(cat file123)" 123
    git grep -q '^299$'
    is "$(git diff --stat HEAD main | tail -n 1 | cut -d ' ' -f 2)" "$(seq 300 | grep -c 1)"
}

run_tests
