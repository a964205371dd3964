//! Random sequences of file operations, in the words that `tests/posix/replay.c` explains.
use esker_testing::Random;

/// Operations of one sequence; the last shows the whole tree.
pub(crate) type Sequence = Vec<String>;

/// Names that are used again and again, so that operations meet: the first ones mostly for directories, the others
/// mostly for files and links.
const OUTER: [&str; 3] = ["a", "b", "c"];
const INNER: [&str; 4] = ["f", "g", "l", "a"];
/// Open files and open directories at a time.
const FILES: u64 = 4;
const DIRECTORIES: u64 = 2;
/// Sizes next to which mistakes hide: pages, and the chunks of the files that tests make.
const EDGES: [u64; 3] = [4096, 8192, 65536];
/// Offset of the start of a long hole.
const FAR: u64 = 1 << 40;
/// Paths at which an entry often exists.
const LIKELY: [&str; 11] = ["f", "g", "a/f", "a/g", "a/b/f", "l/f", "c/g", "a", "a/b", "c", "l"];
/// Operations that create the first entries.
const START: [&str; 8] = [
    "mkdir a 755",
    "mkdir a/b 755",
    "mkdir c 755",
    "open 0 a/f rw+creat 644",
    "open 1 g rw+creat 640",
    "open 2 a/b/f rw+creat+append 600",
    "opendir 0 a",
    "symlink a/b l",
];

/// A sequence that follows from a seed.
pub(crate) fn random(seed: u64, len: usize) -> Sequence {
    let mut maker = Maker { random: Random::new(seed, 0) };
    let start = START.map(str::to_owned);
    let steps = (0..len).map(|_| maker.step());
    start.into_iter().chain(steps).chain(["tree".to_owned()]).collect()
}

/// Makes random operations.
struct Maker {
    random: Random,
}

impl Maker {
    /// One random operation, more often of the kinds with many variants.
    fn step(&mut self) -> String {
        match self.random.below(20) {
            0..=3 => self.on_descriptor(),
            4..=9 => self.on_data(),
            10..=13 => self.on_names(),
            14 => self.on_links(),
            15..=16 => self.on_attributes(),
            17 => self.on_xattrs(),
            18 => self.on_directories(),
            _ => self.on_file_state(),
        }
    }

    /// One of the choices.
    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.random.below(choices.len() as u64) as usize]
    }

    /// The number of a descriptor.
    fn file(&mut self) -> u64 {
        self.random.below(FILES)
    }

    /// The number of an open directory.
    fn directory(&mut self) -> u64 {
        self.random.below(DIRECTORIES)
    }

    /// An operation that opens, closes, duplicates or syncs a descriptor.
    fn on_descriptor(&mut self) -> String {
        let (file, other) = (self.file(), self.file());
        match self.random.below(20) {
            0..=13 => self.open(file),
            14 => format!("open {file} {} r+dir 0", self.path()),
            15 => format!("close {file}"),
            16 => format!("dup {file} {other}"),
            17 => format!("fsync {file}"),
            18 => format!("fdatasync {file}"),
            _ => self.seek(file),
        }
    }

    /// `open` with random access and flags, under the number `file`.
    fn open(&mut self, file: u64) -> String {
        let access = self.pick(&["r", "w", "rw", "rw"]);
        let mut flags = access.to_owned();
        let mut add = |random: &mut Random, times, flag| {
            if random.one_in(times) {
                flags.push_str(flag);
            }
        };
        let creates = !self.random.one_in(4);
        if creates {
            add(&mut self.random, 1, "+creat");
            add(&mut self.random, 8, "+excl");
        }
        if access != "r" {
            add(&mut self.random, 6, "+trunc");
            add(&mut self.random, 5, "+append");
        }
        add(&mut self.random, 8, "+nofollow");
        format!("open {file} {} {flags} {}", self.path(), self.mode(0o600))
    }

    /// A mode with which the owner can still use the entry, even if the test does not run as root.
    fn mode(&mut self, owner: u64) -> String {
        format!("{:o}", owner | self.random.below(0o1000))
    }

    /// `seek`, sometimes to a negative offset.
    fn seek(&mut self, file: u64) -> String {
        let whence = self.pick(&["set", "cur", "end", "data", "hole"]);
        let back = self.random.one_in(4);
        let offset = self.offset();
        format!("seek {file} {whence} {}{offset}", if back { "-" } else { "" })
    }

    /// An operation that reads or writes data.
    fn on_data(&mut self) -> String {
        let (file, seed) = (self.file(), self.random.below(256));
        match self.random.below(12) {
            0..=1 => format!("read {file} {}", self.len()),
            2 => format!("readv {file} {}", self.lens()),
            3 => format!("pread {file} {} {}", self.signed_offset(), self.len()),
            4 => format!("preadv {file} {} {}", self.offset(), self.lens()),
            5..=7 => format!("write {file} {} {seed}", self.len()),
            8 => format!("writev {file} {} {seed}", self.lens()),
            9..=10 => format!("pwrite {file} {} {} {seed}", self.signed_offset(), self.len()),
            _ => format!("pwritev {file} {} {} {seed}", self.offset(), self.lens()),
        }
    }

    /// An operation on the size or the holes of a file.
    fn on_file_state(&mut self) -> String {
        let file = self.file();
        match self.random.below(12) {
            0..=3 => format!("ftruncate {file} {}", self.signed_offset()),
            4..=5 => format!("truncate {} {}", self.path(), self.signed_offset()),
            6..=7 => {
                format!("fallocate {file} punch {} {}", self.signed_offset(), self.len())
            }
            8 => {
                let how = self.pick(&["alloc", "keep"]);
                format!("fallocate {file} {how} {} {}", self.random.below(100_000), self.len())
            }
            9..=10 => format!("fstat {file}"),
            _ => self.seek(file),
        }
    }

    /// Lengths of data: mostly short, some over several chunks, some none at all.
    fn len(&mut self) -> u64 {
        match self.random.below(10) {
            0 => 0,
            1..=4 => self.random.below(200),
            5..=7 => self.random.below(6000),
            8 => self.edge(),
            _ => self.random.below(100_000),
        }
    }

    /// A size at a multiple of an edge, or one byte after it.
    fn edge(&mut self) -> u64 {
        let edge = EDGES[self.random.below(EDGES.len() as u64) as usize];
        edge * self.random.below(3) + self.random.below(3).max(1) - 1
    }

    /// One to four lengths, for a vectored operation.
    fn lens(&mut self) -> String {
        let count = 1 + self.random.below(4);
        let lens: Vec<_> = (0..count).map(|_| self.len().to_string()).collect();
        lens.join(",")
    }

    /// An offset in a file: often 0, sometimes at an edge, rarely far away.
    fn offset(&mut self) -> u64 {
        match self.random.below(12) {
            0..=2 => 0,
            3..=5 => self.random.below(5000),
            6..=7 => self.edge(),
            8..=10 => self.random.below(150_000),
            _ => FAR + self.random.below(10_000),
        }
    }

    /// An offset, rarely -1.
    fn signed_offset(&mut self) -> String {
        if self.random.one_in(30) { "-1".to_owned() } else { self.offset().to_string() }
    }

    /// An operation that creates, removes or renames entries.
    fn on_names(&mut self) -> String {
        match self.random.below(12) {
            0..=2 => format!("mkdir {} {}", self.path_or_at(), self.mode(0o700)),
            3..=4 => format!("rmdir {}", self.path_or_at()),
            5..=6 => format!("unlink {}", self.path_or_at()),
            7..=9 => format!("rename {} {} replace", self.path(), self.path()),
            10 => format!("rename {} {} noreplace", self.path(), self.path()),
            _ => format!("rename {} {} exchange", self.path(), self.path()),
        }
    }

    /// An operation that creates or reads a symbolic link.
    fn on_links(&mut self) -> String {
        match self.random.below(3) {
            0..=1 => format!("symlink {} {}", self.target(), self.path_or_at()),
            _ => format!("readlink {}", self.path_or_at()),
        }
    }

    /// An operation that reads or sets attributes.
    fn on_attributes(&mut self) -> String {
        let file = self.file();
        match self.random.below(12) {
            0..=2 => format!("stat {}", self.path()),
            3..=4 => format!("lstat {}", self.path_or_at()),
            5 => format!("access {}", self.path()),
            6..=7 => format!("chmod {} {}", self.path(), self.mode(0o700)),
            8 => format!("fchmod {file} {}", self.mode(0o700)),
            9..=10 => {
                let how = self.pick(&["follow", "nofollow"]);
                format!("utimens {} {} {how}", self.path(), self.time())
            }
            _ => format!("futimens {file} {}", self.time()),
        }
    }

    /// A time to set, or `now` or `omit`.
    fn time(&mut self) -> String {
        match self.random.below(8) {
            0 => "now".to_owned(),
            1 => "omit".to_owned(),
            _ => {
                format!("{}.{}", self.random.below(1_500_000_000), self.random.below(1_000_000_000))
            }
        }
    }

    /// An operation on an extended attribute.
    fn on_xattrs(&mut self) -> String {
        let path = self.path();
        let name = self.pick(&["user.a", "user.a", "user.longer-name"]);
        match self.random.below(7) {
            0..=2 => {
                let how = self.pick(&["any", "any", "create", "replace"]);
                let (len, seed) = (self.random.below(600), self.random.below(256));
                format!("setxattr {path} {name} {len} {seed} {how}")
            }
            3..=4 => format!("getxattr {path} {name} {}", self.pick(&["0", "1", "600", "9000"])),
            5 => format!("listxattr {path}"),
            _ => format!("removexattr {path} {name}"),
        }
    }

    /// An operation on an open directory, or `statfs`.
    fn on_directories(&mut self) -> String {
        let directory = self.directory();
        match self.random.below(10) {
            0..=3 => format!("opendir {directory} {}", self.path()),
            4..=7 => format!("list {directory} {}", self.random.below(4)),
            8 => format!("closedir {directory}"),
            _ => format!("statfs {}", self.path()),
        }
    }

    /// A name, rarely one with odd bytes, of the longest length, or longer.
    fn name(&mut self) -> String {
        match self.random.below(120) {
            0..=4 => ".".to_owned(),
            5 => "%ff%0a%7f".to_owned(),
            6 => "n".repeat(255),
            7 => "n".repeat(256),
            number => self.pick(if number % 3 == 0 { &OUTER } else { &INNER }).to_owned(),
        }
    }

    /// A name that is mostly one of a directory.
    fn outer_name(&mut self) -> String {
        if self.random.one_in(6) { self.name() } else { self.pick(&OUTER).to_owned() }
    }

    /// A path of one to three names; now and then it climbs, ends in a slash, or is absolute.
    fn path(&mut self) -> String {
        if self.random.one_in(250) {
            return "%".to_owned();
        }
        if self.random.one_in(2) {
            return self.pick(&LIKELY).to_owned();
        }
        let depth = [1, 1, 1, 2, 2, 2, 3][self.random.below(7) as usize];
        let mut names: Vec<_> = (1..depth).map(|_| self.outer_name()).collect();
        names.push(self.name());
        if self.random.one_in(15) {
            names.insert(self.random.below(depth) as usize, "..".to_owned());
        }
        if self.random.one_in(60) {
            names.push("..".to_owned());
        }
        let start = if self.random.one_in(25) { "~/" } else { "" };
        let end = if self.random.one_in(25) { "/" } else { "" };
        let between = if self.random.one_in(40) { "//" } else { "/" };
        format!("{start}{}{end}", names.join(between))
    }

    /// A path, or now and then a name in an open directory. For operations that follow no link there: where
    /// `..` leads from a directory that moved while it is open is relaxed.
    fn path_or_at(&mut self) -> String {
        match self.random.one_in(10) {
            true => format!("@{}:{}", self.directory(), self.pick(&INNER)),
            false => self.path(),
        }
    }

    /// The target of a symbolic link.
    fn target(&mut self) -> String {
        match self.random.below(10) {
            0 => "nowhere".to_owned(),
            1 => "..".to_owned(),
            2 => format!("../{}", self.pick(&INNER)),
            _ => self.path(),
        }
    }
}
