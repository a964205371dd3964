#!/usr/bin/env bash
# Programs that change files in place: sed, perl, awk, ed, vi.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

test_sed() {
    seq 1000 >file
    chmod 640 file
    sed -i 's/^5$/five/' file
    is "$(sed -n 5p file)" five
    is "$(stat -c %a file)" 640
    sed -i.bak '1d; $a end' file
    is "$(head -n 1 file.bak)" 1
    is "$(head -n 1 file)" 2
    is "$(tail -n 1 file)" end
    sed -n -e '/9$/w nines' -e '/0$/w tens' file.bak
    is "$(wc -l <nines)$(wc -l <tens)" 100100
    ln -s file link
    sed -i --follow-symlinks s/end/END/ link
    [ -L link ]
    is "$(tail -n 1 file)" END
    is "$(find . | wc -l)" 6
}

test_perl() {
    has perl || return 0
    seq 1000 >file
    perl -pi -e 's/^7$/seven/' file
    perl -pi.orig -e '$_ = "" if $. > 10' file
    is "$(tr '\n' ' ' <file)" "1 2 3 4 5 6 seven 8 9 10 "
    is "$(wc -l <file.orig)" 1000
    perl -e '
        use strict; use Fcntl qw(:flock :seek);
        open(my $f, "+<", "file") or die $!;
        flock($f, LOCK_EX) or die $!;
        seek($f, 0, SEEK_END) or die; print $f "more\n";
        seek($f, 0, SEEK_SET) or die; my @lines = <$f>; @lines == 11 or die scalar @lines;
        truncate($f, 4) or die $!; close($f) or die;
        -s "file" == 4 or die; (stat "file")[7] == 4 or die;
        mkdir "d" or die; opendir(my $d, ".") or die; my @n = sort grep { !/^\./ } readdir($d);
        "@n" eq "d file file.orig" or die "@n"; rewinddir($d); closedir($d);
        rename("file", "d/moved") or die $!; symlink("moved", "d/link") or die $!;
        readlink("d/link") eq "moved" or die; utime(1, 1234567, "d/moved") or die;
        (stat "d/link")[9] == 1234567 or die; chmod(0600, "d/moved") or die;
        unlink("d/link", "d/moved") == 2 or die; rmdir("d") or die; -e "d" and die;
    '
}

test_awk() {
    seq 300 >file
    awk '{ print > ("part" $1 % 3); print >> "all" } END { close("all"); while ((getline x < "all") > 0) n++; print n > "count" }' file
    holds count 300
    is "$(sort -n part0 part1 part2 | md5sum)" "$(md5sum <file)"
}

test_ed() {
    has ed || return 0
    seq 10 >file
    printf '3d\n5s/6/six/\n$a\nlast\n.\n1,2w top\nw\nq\n' | ed -s file
    is "$(tr '\n' ' ' <file)" "1 2 4 5 six 7 8 9 10 last "
    is "$(tr '\n' ' ' <top)" "1 2 "
}

test_vi() {
    editor=$(command -v vim || command -v vim.tiny) || { skip "vim is not installed"; return 0; }
    seq 10 >file
    chmod 600 file
    "$editor" -es -u NONE -i NONE -c 'set backup swapfile backupskip=' -c '2d' -c '%s/7/seven/' -c 'w' -c 'w other' -c 'q!' file </dev/null
    is "$(tr '\n' ' ' <file)" "1 3 4 5 6 seven 8 9 10 "
    cmp file other
    cmp file~ <(seq 10)
    is "$(stat -c %a file)" 600
    is "$(find . -name '*.sw?')" ""
}

run_tests
