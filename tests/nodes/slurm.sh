#!/usr/bin/env bash
# A Slurm of hosts that are network namespaces of this machine (hosts.sh). Sourced after hosts.sh.
# Needs root: Slurm's daemons start the processes of a job as its user.

# has_slurm: Slurm and munge are installed.
has_slurm() {
    local program
    for program in slurmctld slurmd munged sbatch srun scontrol setpriv; do
        PATH=$PATH:/usr/sbin command -v $program >/dev/null || return
    done
}

# slurm_up N: munged and slurmctld on the host of this shell, and slurmd on the hosts h1 ... hN, in files of their own.
slurm_up() {
    local number
    slurm=$ESKER_HOSTS/slurm
    export PATH=$PATH:/usr/sbin SLURM_CONF=$slurm/slurm.conf
    mkdir -m 755 "$slurm" "$slurm/state" "$slurm/run"
    echo "10.77.0.254 $(hostname -s)" >>"$ESKER_HOSTS/hosts"
    munge_up
    slurm_conf "$1" >"$SLURM_CONF"
    echo "CgroupPlugin=cgroup/v1" >"$slurm/cgroup.conf"
    slurmctld -D &>"$slurm/slurmctld.out" &
    echo $! >"$slurm/control.pids"
    for number in $(seq "$1"); do
        ON_TIMEOUT=0 on "h$number" slurmd -D -N "h$number" &>"$slurm/h$number.out" &
    done
    in_time are_idle "$1" || { cat "$slurm"/*.out && return 1; }
}

# are_idle N: this many hosts are free.
are_idle() {
    [ "$(sinfo --noheader --format=%D --states=idle 2>/dev/null)" = "$1" ]
}

# Munge proves to Slurm's daemons which user a process belongs to.
munge_up() {
    local file=$slurm/munge
    (umask 077 && head -c 128 /dev/urandom >"$file.key")
    munged --foreground --force --key-file="$file.key" --socket="$slurm/run/munge" --pid-file="$file.pid" \
        --seed-file="$file.seed" --log-file="$file.log" &>"$file.out" &
    echo $! >"$slurm/munge.pids"
    in_time [ -S "$slurm/run/munge" ] || { cat "$file.out" && return 1; }
}

# slurm_conf N: the configuration, without cgroups, which a namespace may not have, and without accounting.
slurm_conf() {
    cat <<END
ClusterName=esker
SlurmctldHost=$(hostname -s)(10.77.0.254)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm/run/munge
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool.%n
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/%n.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
DefMemPerCPU=100
NodeName=h[1-$1] CPUs=4 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
}

# slurm_down: ends the daemons on this shell's host; hosts_down ends all others.
slurm_down() {
    # shellcheck disable=SC2046 # Two numbers.
    kill -9 $(cat "$slurm"/*.pids)
} 2>/dev/null
