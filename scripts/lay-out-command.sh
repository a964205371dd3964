#!/usr/bin/env bash
# Copies the command with its files into a directory: esker-bench and the interception libraries where the command looks
# for them, manual pages, completions, licences. esker-bench must be beside ESKER, and libesker_preload_store.so beside
# PRELOAD. The licences of third parties are taken from beside ESKER, where they are written if they are missing.
# usage: lay-out-command.sh ESKER PRELOAD FOLDER
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."
esker=$1 preload=$2 folder=$3
notices=$(dirname "$esker")/THIRD-PARTY

# Defaults in help texts are those of Esker, not of this user.
export ESKER_CONFIG=

completion() {
    mkdir -p "$folder/share/$(dirname "$2")"
    "$esker" completions "$1" >"$folder/share/$2"
}

install -D -m 755 "$esker" "$folder/bin/esker"
install -D -m 755 "$(dirname "$esker")/esker-bench" "$folder/bin/esker-bench"
install -D -m 755 "$preload" "$folder/lib/esker/libesker_preload.so"
install -D -m 755 "${preload%.so}_store.so" "$folder/lib/esker/libesker_preload_store.so"
[ -s "$notices" ] || { scripts/third-party.sh >"$notices.new" && mv "$notices.new" "$notices"; }
install -D -m 644 LICENSE "$folder/share/doc/esker/LICENSE"
install -D -m 644 "$notices" "$folder/share/doc/esker/THIRD-PARTY"
mkdir -p "$folder"/share/man/man{1,7}
"$esker" man --out "$folder/share/man/man1"
mv "$folder/share/man/man1/esker-environment.7" "$folder/share/man/man7/"
completion bash bash-completion/completions/esker
completion zsh zsh/site-functions/_esker
completion fish fish/vendor_completions.d/esker.fish
