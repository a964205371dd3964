#!/usr/bin/env bash
# Jobs of Slurm on three hosts, which are network namespaces of this machine, submitted by an ordinary user: the job
# scripts of the documentation, and jobs that fail, are canceled or share hosts. None may leave anything on a host.
#
# environment: ESKER, the command, with the interception libraries beside it or in ../lib/esker
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
: "${ESKER:?names the command}"
# shellcheck source-path=SCRIPTDIR source=hosts.sh
source "$here/hosts.sh"
# shellcheck source-path=SCRIPTDIR source=slurm.sh
source "$here/slurm.sh"
# shellcheck source-path=SCRIPTDIR source=../checks.sh
source "$here/../checks.sh"
if [ -z "${ESKER_HOSTS:-}" ]; then
    [ "$(id -u)" = 0 ] || { skip "jobs of Slurm need root" && summary && exit; }
    has_slurm || { skip "Slurm is missing (scripts/setup.sh slurm)" && summary && exit; }
    (as_root_of_hosts bash "$0" "$@")
    status=$?
    [ $status = 77 ] || exit $status
    skip "jobs of Slurm need network namespaces" && summary
    exit
fi
trap 'slurm_down; hosts_down' EXIT
user=nobody
work=$ESKER_HOSTS/work home=$ESKER_HOSTS/home
docs=$here/../../docs
mkdir "$work"
export ESKER_CONFIG=
unset ESKER_POOLS

# The environment of a user: the command, a home, and a directory for results that all nodes share.
prepare() {
    local library
    chmod 755 "$ESKER_HOSTS"
    mkdir "$ESKER_HOSTS/bin"
    for library in "$(dirname "$ESKER")"/{.,../lib/esker}/libesker_preload{,_store}.so; do
        [ ! -f "$library" ] || cp "$library" "$ESKER_HOSTS/bin/"
    done
    cp "$ESKER" "$ESKER_HOSTS/bin/esker"
    install -d -o "$user" "$home" "$home/scratch" "$home/scratch/input"
    echo "some input" >"$home/scratch/input/a"
}

# as_user COMMAND...: on the host where jobs are submitted.
as_user() {
    (cd "$home" && setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups env -i HOME="$home" USER="$user" \
        SCRATCH="$home/scratch" SLURM_CONF="$SLURM_CONF" PATH="$ESKER_HOSTS/bin:$PATH" "$@")
}

# page_script PAGE: the job script that a page shows, with a pool that is small enough for this machine.
page_script() {
    awk '/needs: a job of Slurm/ { armed = 1 } /^```$/ && on { exit } on { print } /^```sh$/ && armed { on = 1 }' \
        "$docs/$1" | sed 's/--size 8G/--size 32M/'
}

# write NAME: a script in the home of the user, from standard input.
write() {
    cat >"$home/$1"
    chmod 755 "$home/$1"
}

# submit ARGUMENT...: sets `job` to the number of a new job.
submit() {
    rm -rf "$home/scratch/results" "$home/scratch"/*.begun
    job=$(as_user sbatch --parsable --output="$home/%A.out" "$@")
}

# field NAME: a field of the job.
field() {
    scontrol show job "$job" --oneliner | grep -o " $1=[^ ]*" | head -n 1 | cut -d = -f 2-
}

# ended STATE [CODE]: waits for the end of the job, and checks its state and exit code, as in COMPLETED 0:0.
ended() {
    local state code
    in_time is_over || return
    state=$(field JobState) code=$(field ExitCode)
    [ "$state $code" = "$1 ${2:-$code}" ] && return
    echo "the job has ended as $state $code" && cat "$home/$job".out && return 1
}

is_over() {
    [[ ! $(field JobState) =~ ^(PENDING|CONFIGURING|RUNNING|COMPLETING)$ ]]
}

# begun COUNT: waits until this many tasks of the job's program have begun.
begun() {
    in_time have_begun_or_is_over "$1"
    have_begun "$1" || { cat "$home/$job".out && return 1; }
}

have_begun() {
    [ "$(find "$home/scratch" -name '*.begun' | wc -l)" -ge "$1" ]
}

have_begun_or_is_over() {
    have_begun "$1" || is_over
}

# left: processes and files of jobs on the hosts. An empty directory of a run may stay, which the next run removes, and the
# locks of the user's runs.
left() {
    local host pid
    for host in h1 h2 h3; do
        for pid in $(processes_of $host); do
            [ "$pid" = "$(<"$ESKER_HOSTS/$host.pid")" ] || ps -o pid=,args= -p "$pid" | grep -v 'slurmd -D'
        done
        on $host find /dev/shm -mindepth 1 -not \( -name 'esker-run-*' -empty \) -not -path '/dev/shm/esker-locks-*'
    done
}

# nothing_is_left: waits until the hosts are free again.
nothing_is_left() {
    { in_time are_idle 3 && in_time has_nothing_left; } || { sinfo; left; return 1; }
}

has_nothing_left() {
    [ -z "$(left)" ]
}

# holds FILE TEXT: the content of a result.
holds() {
    [ "$(cat "$home/scratch/results/$1")" = "$2" ]
}

starts() {
    hosts_up 3 && slurm_up 3 && prepare && [ "$(as_user srun --nodes=3 --ntasks=3 id -un | sort -u)" = "$user" ]
}

# shellcheck disable=SC2016 # The shells of the programs expand them.
programs() {
    page_script tutorials/batch-job.md | write one.sh
    page_script howto/nodes.md | write all.sh
    # A program of a single task, one of a task on each node, one that does not end, and one that fails.
    write copies <<<'#!/bin/sh
mkdir -p /esker/out && cat /esker/input/a >/esker/out/copy.$SLURM_PROCID'
    write waits <<<'#!/bin/sh
mkdir -p /esker/out && echo unfinished >/esker/out/copy.$SLURM_PROCID
touch $SCRATCH/$SLURM_JOB_ID.$SLURM_PROCID.begun
exec sleep infinity'
    write fails <<<'#!/bin/sh
mkdir -p /esker/out
exit 7'
}

# model NAME: the program of the next jobs.
model() {
    ln -sfn "$1" "$home/model"
}

job_on_one_node() {
    model copies && submit one.sh && ended COMPLETED 0:0 && holds copy.0 "some input"
}

failing_model() {
    model fails && submit one.sh && ended FAILED 7:0
}

# `--signal=B:TERM@120` has Slurm send this signal before the time is over.
time_is_nearly_over() {
    model waits && submit one.sh && begun 1 && as_user scancel --batch --signal=TERM "$job" &&
        ended FAILED 143:0 && holds copy.0 unfinished
}

# The model does not start on a part of the input.
input_larger_than_the_pool() {
    local ok
    head -c 200000000 /dev/urandom >"$home/scratch/input/large"
    model waits && submit "$@" && ended FAILED 1:0 && ! have_begun 1
    ok=$?
    rm "$home/scratch/input/large"
    return $ok
}

array_on_one_node() {
    model copies && submit --array=1-2 --nodelist=h1 one.sh && ended COMPLETED 0:0
}

job_on_all_nodes() {
    model copies && submit --nodes=3 all.sh && ended COMPLETED 0:0 && holds copy.0 "some input" && holds copy.2 "some input"
}

# Five tasks on two of the nodes, which the job gets by an incomplete range.
tasks_on_some_nodes() {
    model copies && submit --nodelist=h[1,3] --nodes=2 --ntasks=5 all.sh && ended COMPLETED 0:0 && holds copy.4 "some input"
}

time_is_nearly_over_on_all_nodes() {
    model waits && submit --nodes=3 all.sh && begun 3 && as_user scancel --batch --signal=TERM "$job" &&
        ended FAILED 143:0 && holds copy.2 unfinished
}

failing_model_on_all_nodes() {
    model fails && submit --nodes=3 all.sh && ended FAILED 7:0
}

starts_and_programs() {
    starts && programs
}

canceled_job_on_all_nodes() {
    model waits && submit --nodes=3 all.sh && begun 3 && as_user scancel "$job" && ended CANCELLED
}

that "Slurm starts jobs of an ordinary user" starts_and_programs
[ "$failed" = 0 ] || { summary; exit 1; }
that "the job script of the tutorial" job_on_one_node
that "it leaves nothing" nothing_is_left
that "the exit code of a model that fails" failing_model
that "a failed model leaves nothing" nothing_is_left
that "results are saved before the time is over" time_is_nearly_over
that "a job that is ended leaves nothing" nothing_is_left
that "a job whose input does not fit into its pool fails" input_larger_than_the_pool one.sh
that "it leaves nothing" nothing_is_left
that "two jobs of an array on one node" array_on_one_node
that "an array leaves nothing" nothing_is_left
that "the job script of a pool over nodes" job_on_all_nodes
that "a pool over nodes leaves nothing" nothing_is_left
that "more tasks than nodes" tasks_on_some_nodes
that "the exit code of a model on all nodes that fails" failing_model_on_all_nodes
that "results over nodes are saved before the time is over" time_is_nearly_over_on_all_nodes
that "a job on all nodes whose input does not fit fails" input_larger_than_the_pool --nodes=3 all.sh
that "these jobs leave nothing" nothing_is_left
that "a job over nodes is canceled" canceled_job_on_all_nodes
that "a canceled job leaves nothing" nothing_is_left
summary
