#!/usr/bin/env bash
# sqlite3: journals, byte-range locks between processes, and integrity afterwards.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
need sqlite3

numbers() {
    echo "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < $1)"
}

# talk_to DATABASE FILE: a background process that takes commands on descriptor 7.
talk_to() {
    mkfifo "$outside/fifo" 2>/dev/null || [ -p "$outside/fifo" ]
    sqlite3 "$1" <"$outside/fifo" >"$2" &
    exec 7>"$outside/fifo"
}

test_a_database() {
    sqlite3 db "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
        $(numbers 20000) INSERT INTO t SELECT x, 'value ' || x FROM n; CREATE INDEX i ON t(b);"
    is "$(sqlite3 db 'SELECT count(*), sum(a) FROM t')" "20000|200010000"
    is "$(sqlite3 db "SELECT a FROM t WHERE b = 'value 777'")" 777
    sqlite3 db "BEGIN; DELETE FROM t WHERE a % 2; ROLLBACK;"
    sqlite3 db "DELETE FROM t WHERE a % 2; UPDATE t SET b = 'x' WHERE a % 10 = 0; VACUUM;"
    is "$(sqlite3 db 'PRAGMA integrity_check; SELECT count(*) FROM t')" "$(printf 'ok\n10000')"
    sqlite3 db ".backup copy"
    sqlite3 db .dump | sqlite3 restored
    is "$(sqlite3 copy 'SELECT count(*) FROM t')" 10000
    is "$(sqlite3 restored .dump | cksum)" "$(sqlite3 db .dump | cksum)"
    is "$(ls)" "$(printf 'copy\ndb\nrestored')"
}

test_journals() {
    for mode in delete truncate persist memory off; do
        sqlite3 $mode "PRAGMA journal_mode=$mode; CREATE TABLE t(a); $(numbers 5000) INSERT INTO t SELECT x FROM n;
            BEGIN; UPDATE t SET a = a + 1; COMMIT;" >said
        is "$(cat said)" $mode
        is "$(sqlite3 $mode 'PRAGMA integrity_check; SELECT sum(a) FROM t')" "$(printf 'ok\n12507500')"
    done
}

test_a_killed_writer() {
    sqlite3 db "CREATE TABLE t(a); $(numbers 5000) INSERT INTO t SELECT x FROM n;"
    talk_to db said
    printf 'PRAGMA cache_size=5;\nBEGIN;\nUPDATE t SET a = 0;\n.system touch reached\n' >&7
    until [ -e reached ]; do sleep 0.01; done
    [ -s db-journal ]
    kill -9 $!
    exec 7>&-
    wait $! || true
    is "$(sqlite3 -cmd '.timeout 5000' db 'PRAGMA integrity_check; SELECT sum(a) FROM t')" "$(printf 'ok\n12502500')"
}

test_locks_between_processes() {
    sqlite3 db "CREATE TABLE t(n); INSERT INTO t VALUES(0);"
    for _ in 1 2 3 4; do
        (for _ in $(seq 25); do
            echo "BEGIN IMMEDIATE; UPDATE t SET n = n + 1; COMMIT;"
        done | sqlite3 -bail -cmd '.timeout 60000' db) &
    done
    wait
    is "$(sqlite3 db 'SELECT n FROM t')" 100
    talk_to db held
    printf "BEGIN EXCLUSIVE;\nSELECT 'locked';\n" >&7
    while [ ! -s held ]; do sleep 0.01; done
    fails sqlite3 db "UPDATE t SET n = 0"
    echo "ROLLBACK;" >&7
    exec 7>&-
    wait
    sqlite3 db "UPDATE t SET n = 1"
    is "$(sqlite3 db 'SELECT n FROM t')" 1
}

# With its index in the memory of one process, a write-ahead log needs no shared mapping.
test_write_ahead_log_of_one() {
    sqlite3 db "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; CREATE TABLE t(a);
        $(numbers 5000) INSERT INTO t SELECT x FROM n;" >said
    is "$(tail -n 1 said)" wal
    is "$(sqlite3 db 'PRAGMA locking_mode=EXCLUSIVE; PRAGMA integrity_check; SELECT count(*) FROM t' | tail -n 2 | tr '\n' ' ')" "ok 5000 "
}

# Otherwise it needs memory that processes share.
log_of() {
    is "$(sqlite3 "$1" "PRAGMA journal_mode=WAL; CREATE TABLE t(a, b UNIQUE); $(numbers 100) INSERT INTO t SELECT 0, x FROM n;")" wal
}

test_write_ahead_log() {
    log_of db
    talk_to db said
    printf 'BEGIN;\nSELECT count(*) FROM t;\n' >&7
    until [ -s said ]; do sleep 0.01; done
    for i in 1 2 3; do
        (for n in $(seq 50); do echo "INSERT INTO t VALUES($i, '$i.$n');"; done | sqlite3 -bail -cmd '.timeout 60000' db) &
    done
    # Not the reader, which waits for commands.
    # shellcheck disable=SC2046 # numbers
    wait $(jobs -p | tail -n 3)
    is "$(sqlite3 db 'SELECT count(*) FROM t')" 250
    printf 'SELECT count(*) FROM t;\nCOMMIT;\nSELECT count(*) FROM t;\n' >&7
    exec 7>&-
    wait
    is "$(tr '\n' ' ' <said)" "100 100 250 "
    is "$(sqlite3 db 'PRAGMA integrity_check; SELECT count(*) FROM t')" "$(printf 'ok\n250')"
    is "$(ls)" "$(printf 'db\nsaid')"
}

# Large enough for several parts of the index in shared memory.
test_a_long_write_ahead_log() {
    log_of db
    talk_to db said
    printf '%s\n' "PRAGMA wal_autocheckpoint=0; $(numbers 40) INSERT INTO t SELECT 1, zeroblob(1000000 + x) FROM n;" \
        '.system touch written' >&7
    until [ -e written ]; do sleep 0.01; done
    is "$(sqlite3 db 'PRAGMA integrity_check; SELECT count(*), sum(length(b)) FROM t WHERE a = 1')" "$(printf 'ok\n40|40000820')"
    exec 7>&-
    wait
    is "$(sqlite3 db 'PRAGMA integrity_check; SELECT count(*) FROM t')" "$(printf 'ok\n140')"
}

# kill_one NAME: kills a writer after its first transactions.
kill_one() {
    rm -f "begun.$1"
    (echo "INSERT INTO t VALUES(-1, '$1');"
        echo ".system touch begun.$1"
        for n in $(seq 2000); do echo "BEGIN; INSERT INTO t VALUES(1, '$1.$n.a'); INSERT INTO t VALUES(-1, '$1.$n.b'); COMMIT;"; done) |
        exec sqlite3 -bail -cmd '.timeout 60000' db &
    local writer=$!
    until [ -e "begun.$1" ]; do sleep 0.01; done
    kill -9 "$writer"
    wait "$writer" || true
}

# Transactions are atomic, whether or not another process has the log open when one is killed.
test_killed_writers_of_a_write_ahead_log() {
    log_of db
    for round in 1 2 3 4 5 6; do
        if [ "$round" = 4 ]; then
            talk_to db said
            echo 'SELECT 1 FROM t LIMIT 1;' >&7
        fi
        kill_one "$round.a" &
        kill_one "$round.b" &
        # shellcheck disable=SC2046 # numbers
        wait $(jobs -p | tail -n 2)
        is "$(sqlite3 -cmd '.timeout 60000' db 'PRAGMA integrity_check; SELECT sum(a) FROM t')" "$(printf 'ok\n-%d' $((2 * round)))"
    done
    exec 7>&-
    wait
    is "$(sqlite3 db 'PRAGMA integrity_check; SELECT sum(a) FROM t')" "$(printf 'ok\n-12')"
}

run_tests
