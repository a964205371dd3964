#!/usr/bin/env bash
# Adds the site of build/site to the sites of other versions, which the branch gh-pages keeps:
#
#   main    the newest commit of main
#   vX.Y    the newest patch of this release
#   the top directory: a copy of the newest release, or of main while nothing is released
#
# Each landing page lists all versions. The branch has one commit, so that it does not grow with each change of main. All
# versions are left in build/pages. Without the branch, the script begins a new one.
# usage: publish-site.sh NAME [REMOTE]
#   NAME    main, or the tag of a release (v0.2.0)
#   REMOTE  where the branch is; default: origin
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1 remote=${2:-origin}
branch=refs/heads/gh-pages site=build/site pages=build/pages
case $name in
main) folder=main ;;
v[0-9]*.[0-9]*.[0-9]*) folder=${name%.*} ;;
*) echo "publish-site.sh: $name is not main or the tag of a release, such as v0.2.0" >&2 && exit 2 ;;
esac
[ -s $site/index.html ] || { echo "publish-site.sh: no site in $site: make site builds it" >&2 && exit 1; }

# Extracts the branch, and sets `old` to its commit. A remote that does not answer is an error; a missing branch is not.
fetch_pages() {
    local lines
    rm -rf $pages
    mkdir -p $pages
    lines=$(git ls-remote "$remote" $branch)
    old=${lines%%[[:space:]]*}
    [ -n "$old" ] || return 0
    git fetch --quiet --depth 1 "$remote" $branch
    git archive "$old" | tar -x -C $pages
}

# Names of the folders with releases, newest first.
releases() {
    find $pages -mindepth 1 -maxdepth 1 -type d -name 'v*' -printf '%f\n' | sort -rV
}

# Names of the folders with sites, newest first.
folders() {
    releases
    [ ! -e $pages/main ] || echo main
}

# Name of the folder with the newest release, or main.
newest() {
    folders | sed -n 1p
}

copy_newest_to_top() {
    find $pages -mindepth 1 -maxdepth 1 ! -name main ! -name 'v*' -exec rm -r {} +
    cp -r "$pages/$(newest)/." $pages
}

# versions CURRENT TOP: links to all versions but the current one. TOP is the path of the top directory.
versions() {
    local version note=" (newest release)" list=
    while read -r version; do
        [ "$version" != main ] || note=" (development)"
        if [ "$version" = "$1" ]; then
            list+=" <b>$version$note</b>"
        else
            list+=" <a href=\"$2$version/index.html\">$version$note</a>"
        fi
        note=
    done < <(folders)
    echo "Versions:$list"
}

# list_versions PAGE CURRENT TOP
list_versions() {
    sed -i "s|^<nav>.*</nav>\$|<nav>$(versions "$2" "$3")</nav>|" "$1"
}

list_versions_everywhere() {
    local folder
    for folder in $(folders); do list_versions "$pages/$folder/index.html" "$folder" ../; done
    list_versions $pages/index.html "$(newest)" ""
}

# Commits build/pages without a parent, and prints the commit.
commit_pages() {
    local index=$PWD/build/pages.index git tree
    git=$(git rev-parse --absolute-git-dir)
    rm -f "$index"
    GIT_INDEX_FILE=$index git -C $pages --git-dir="$git" --work-tree=. add --all --force .
    tree=$(GIT_INDEX_FILE=$index git write-tree)
    git -c user.name=site -c user.email=site@localhost commit-tree "$tree" -m "Publish $name"
}

# The push fails if another one has changed the branch since it was fetched.
for attempt in 1 2 3; do
    fetch_pages
    rm -rf "${pages:?}/$folder"
    cp -r $site "$pages/$folder"
    copy_newest_to_top
    list_versions_everywhere
    commit=$(commit_pages)
    ! git push --quiet --force-with-lease="$branch:$old" "$remote" "$commit:$branch" || break
    [ "$attempt" != 3 ] || { echo "publish-site.sh: $branch cannot be changed" >&2 && exit 1; }
done
echo "publish-site.sh: $name is in $folder of gh-pages"
