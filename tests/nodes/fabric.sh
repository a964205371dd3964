# shellcheck shell=bash
# A pool over hosts that is reached over the fabric, by the provider of libfabric that every machine has. No other pool may
# be there. Sourced by run.sh.
: "${work:?a scratch directory}" "${dir:?that of pools}"

has_libfabric() {
    PATH=$PATH:/sbin ldconfig -p | grep -F libfabric.so.1 >/dev/null
}

create_fast() {
    esker_on h1 pool create fast --size 64M --targets 2 --hosts h1,h2,h3 --launcher ssh --dir "$dir" --transport fabric &&
        carry_map fast
}

# The map requires the fabric: a program without the library fails.
only_over_the_fabric() {
    says libfabric esker_on h4 cont list fast
}

# Short values on all hosts, and long ones.
values_cross_the_fabric() {
    local number
    esker_on h4 cont create fast values && head -c 8000000 /dev/urandom >"$work/crossing" || return
    for number in $(seq 12); do
        esker_on h4 kv put fast/values many "key $number" "$number" || return
    done
    for number in $(seq 12); do
        prints "$number" esker_on h2 kv get fast/values many "key $number" || return
    done
    esker_on h4 array put fast values long "$work/crossing" --class SX &&
        esker_on h2 array get fast values long -o "$work/crossed" && cmp "$work/crossing" "$work/crossed"
}

# Reads of keys on the host fail and name it, and other keys are readable. With its next engine, its keys are readable too.
an_engine_killed_on_the_fabric() {
    local number printed named=0 MAP=$dir/fast.map
    kill_engine h2 KILL || return
    for number in $(seq 12); do
        if printed=$(esker_on h4 kv get fast/values many "key $number" 2>&1); then
            [ "$printed" = "$number" ] || { echo "key $number: $printed" && return 1; }
        else
            [[ $printed == *"node h2"* ]] || { echo "it does not name h2: $printed" && return 1; }
            named=$((named + 1))
        fi
    done
    [[ $named -gt 0 && $named -lt 12 ]] || { echo "$named of 12 keys are stored on h2" && return 1; }
    restart_engine h2 || return
    for number in $(seq 12); do
        prints "$number" esker_on h4 kv get fast/values many "key $number" || return
    done
    esker_on h1 array get fast values long -o "$work/crossed" && cmp "$work/crossing" "$work/crossed"
}

fabric() {
    local -x FI_PROVIDER="tcp;ofi_rxm"
    if ! has_libfabric; then
        skip "a pool over the fabric" "libfabric is missing (scripts/setup.sh fabric)"
        return
    fi
    check "a pool over the fabric is created" create_fast
    check "what one host writes over the fabric, another reads" values_cross_the_fabric
    check "an engine on the fabric that is killed and started again" an_engine_killed_on_the_fabric
    # From here on libfabric cannot be loaded.
    local -x ESKER_LIBFABRIC=/none
    check "the fabric is not left out" only_over_the_fabric
    check "without libfabric, a pool over the fabric is queried" prints h3 esker_on h4 pool query fast
    check "without libfabric, a pool over the fabric is destroyed" destroyed fast
}
