#!/usr/bin/env bash
# Publishes sites of several versions into a repository in a directory, as the workflow does on GitHub.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. tests/checks.sh

# Its scripts find the repository from where they are.
make_repositories() {
    git init --quiet --bare "$work/remote" && git init --quiet "$work/local" &&
        git -C "$work/local" remote add origin "$work/remote" &&
        mkdir "$work/local/scripts" && cp scripts/publish-site.sh "$work/local/scripts/"
}

# publish NAME TEXT: a site whose landing page and book have this text.
publish() {
    local site=$work/local/build/site
    rm -rf "$work/local/build" && mkdir -p "$site/book" &&
        sed "s|<!-- version -->|$2|" docs/site/index.html >"$site/index.html" &&
        echo "$2" >"$site/book/page.html" && echo "$2" >"$site/book/only-in-$2.html" &&
        "$work/local/scripts/publish-site.sh" "$1"
}

# page PATH: its text in the branch; "." is the top.
page() {
    git -C "$work/remote" show "gh-pages:${1#./}"
}

# has PATH TEXT
has() {
    [ "$(page "$1/book/page.html")" = "$2" ] && page "$1/index.html" | grep -q "Version $2\."
}

# lists PATH VERSION...: the versions that its landing page links to, in this order.
lists() {
    local found
    found=$(page "$1" | sed -n 's|^<nav>\(.*\)</nav>$|\1|p' | grep -o 'href="[^"]*"' | cut -d '"' -f 2 | tr '\n' ' ')
    shift
    [ "$found" = "$* " ] || { echo "$found" && return 1; }
}

top_has_files_of_one_version_only() {
    ! page ./book/only-in-early.html && page ./book/only-in-patched.html
}

has_one_commit() {
    [ "$(git -C "$work/remote" rev-list --count gh-pages)" = 1 ]
}

refuses() {
    ! publish "$1" text
}

refuses_without_remote() {
    mv "$work/remote" "$work/away"
    ! publish main text
    local status=$?
    mv "$work/away" "$work/remote"
    return $status
}

that "there are repositories" make_repositories
that "the first site is that of main" publish main early
that "it is at the top, too" has . early
that "it is in its folder" has main early
that "a release is published" publish v0.9.0 older
that "a newer one is published" publish v0.10.0 newer
that "the newest release is at the top" has . newer
that "the older release is kept" has v0.9 older
that "main is kept" has main early
that "the top lists the others" lists index.html v0.9/index.html main/index.html
that "an older release lists the others" lists v0.9/index.html ../v0.10/index.html ../main/index.html
that "main lists the others" lists main/index.html ../v0.10/index.html ../v0.9/index.html
that "a patch replaces its release" publish v0.10.1 patched
that "it is at the top" has . patched
that "pages of an earlier site are not left at the top" top_has_files_of_one_version_only
that "main is published again" publish main late
that "it is in its folder again" has main late
that "the release stays at the top" has . patched
that "a patch of an older release is published" publish v0.9.1 older-patched
that "it does not get to the top" has . patched
that "the branch has one commit" has_one_commit
that "names that are not versions are refused" refuses topic/site
that "a remote that does not answer is an error" refuses_without_remote
that "nothing was lost" has v0.9 older-patched
summary
