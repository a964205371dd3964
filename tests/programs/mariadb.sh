#!/usr/bin/env bash
# A MariaDB server on the directory: transactions, and a restart after the server was killed.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
need mariadbd mariadb mariadb-install-db
server=

start() {
    mariadbd --no-defaults --user=root --datadir="$PWD/data" --socket="$outside/socket" --skip-networking \
        --innodb-buffer-pool-size=16M --pid-file="$outside/pid" >>"$outside/log" 2>&1 &
    server=$!
    until sql 'SELECT 1' >/dev/null 2>&1; do
        kill -0 $server || { cat "$outside/log" && return 1; }
        sleep 0.1
    done
}

sql() {
    mariadb --no-defaults --socket="$outside/socket" --batch --skip-column-names --execute="$1"
}

test_a_killed_server() {
    mkdir data
    trap '[ -z "$server" ] || kill -9 "$server"' EXIT
    mariadb-install-db --no-defaults --user=root --datadir="$PWD/data" --auth-root-authentication-method=normal \
        --skip-test-db >"$outside/log" 2>&1
    start
    sql "CREATE DATABASE d; CREATE TABLE d.t(i INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(99), KEY(s)) ENGINE=InnoDB"
    sql "USE d; INSERT INTO t(s) SELECT seq FROM seq_1_to_2000; START TRANSACTION; DELETE FROM t; ROLLBACK"
    sql "INSERT INTO d.t(s) VALUES('last')"
    kill -9 $server
    wait $server || true
    start
    is "$(sql "SELECT COUNT(*), MAX(i) FROM d.t WHERE s = 'last'" | cut -f 1)" 1
    is "$(sql 'SELECT COUNT(*) FROM d.t')" 2001
    is "$(sql 'CHECK TABLE d.t' | cut -f 4)" OK
    sql "ALTER TABLE d.t ADD c INT; TRUNCATE d.t; DROP DATABASE d; SHUTDOWN"
    wait $server
    server=
}

run_tests
