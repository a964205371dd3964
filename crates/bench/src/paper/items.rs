//! The tables and figures of the papers, what they found, and how that is decided here.
use super::rules::{Bound, Phases, Pick, Rule};

/// One finding, in our words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) finding: &'static str,
    pub(super) rule: Rule,
}

/// One table or figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Year of the paper and name of the figure.
    pub(super) label: &'static str,
    /// What it shows.
    pub(super) title: &'static str,
    /// Steps whose results are drawn, and the sorts of charts.
    pub(super) steps: &'static [&'static str],
    pub(super) charts: &'static [&'static str],
    /// Drawn with this contention only.
    pub(super) contention: Option<&'static str>,
    pub(super) claims: &'static [Claim],
}

const NODES: &str =
    "It is about servers, clients and the network between them; here is one node and no network.";

const fn modes(mode: &'static str, pattern: &'static str, contention: &'static str) -> Pick {
    Pick {
        step: "modes",
        mode: Some(mode),
        pattern: Some(pattern),
        contention: Some(contention),
        class: None,
        sizes_mib: &[],
        procs: None,
    }
}

const fn all(step: &'static str) -> Pick {
    Pick {
        step,
        mode: None,
        pattern: None,
        contention: None,
        class: None,
        sizes_mib: &[],
        procs: None,
    }
}

const fn posix(mode: &'static str, pattern: &'static str) -> Pick {
    Pick { mode: Some(mode), pattern: Some(pattern), ..all("modes-posix") }
}

const fn sizes(step: &'static str, class: Option<&'static str>, sizes_mib: &'static [u64]) -> Pick {
    Pick { class, sizes_mib, ..all(step) }
}

const fn ratio(first: Pick, second: Pick, phases: Phases, bound: Bound) -> Rule {
    Rule::Ratio { first, second, phases, bound }
}

const fn claim(finding: &'static str, rule: Rule) -> Claim {
    Claim { finding, rule }
}

/// All of them, in the order of the papers.
pub(super) const ITEMS: [Item; 12] = [
    Item {
        label: "2023, Table I",
        title: "segments on one server node",
        steps: &["segments"],
        charts: &["processes"],
        contention: None,
        claims: &[claim(
            "More client interfaces than server interfaces are needed to saturate reads of one server.",
            Rule::Cannot(NODES),
        )],
    },
    Item {
        label: "2023, Fig. 2",
        title: "operations of each process over time, and section VI-D3",
        steps: &["modes"],
        charts: &["timeline", "offsets"],
        contention: None,
        claims: &[
            claim(
                "Processes begin together: off_0 and po_0 are at most 2% of the wall-clock time (shares as 0 to 1).",
                Rule::Offset { step: "modes", of: start_offset, bound: Bound::AtMost(0.02) },
            ),
            claim(
                "Processes end apart: off_f is 10% to 90% of the wall-clock time in every run.",
                Rule::Offset { step: "modes", of: |run| run.off_f, bound: Bound::Within(0.1, 0.9) },
            ),
        ],
    },
    Item {
        label: "2023, Fig. 3",
        title: "segments against server nodes",
        steps: &[],
        charts: &[],
        contention: None,
        claims: &[claim(
            "Bandwidth of segments grows linearly with server nodes, best with twice as many client nodes.",
            Rule::Cannot(NODES),
        )],
    },
    Item {
        label: "2023, Fig. 4",
        title: "segments over TCP and over PSM2",
        steps: &[],
        charts: &[],
        contention: None,
        claims: &[claim("RDMA gives 10% to 25% more than TCP.", Rule::Cannot(NODES))],
    },
    Item {
        label: "2023, Fig. 5",
        title: "Field I/O against processes, pattern A",
        steps: &["processes"],
        charts: &["processes"],
        contention: None,
        claims: &[claim(
            "More processes give more bandwidth, up to a number beyond which little is won: here the best \
             number gives at least 1.2 times what one process does.",
            ratio(
                all("processes"),
                Pick { procs: Some(1), ..all("processes") },
                Phases::Each,
                Bound::AtLeast(1.2),
            ),
        )],
    },
    Item {
        label: "2023, Fig. 6",
        title: "the modes with high contention",
        steps: &["modes"],
        charts: &["modes", "processes"],
        contention: Some("high"),
        claims: &[
            claim(
                "With high contention containers cost little: full over no-containers, pattern A.",
                ratio(
                    modes("full", "A", "high"),
                    modes("no-containers", "A", "high"),
                    Phases::Each,
                    Bound::AtLeast(0.9),
                ),
            ),
            claim(
                "Without an index it is faster: no-index over full, pattern A.",
                ratio(
                    modes("no-index", "A", "high"),
                    modes("full", "A", "high"),
                    Phases::Each,
                    Bound::AtLeast(1.1),
                ),
            ),
            claim(
                "Writing and reading at once costs little: the sum of pattern B over the mean of pattern A, full.",
                ratio(
                    modes("full", "B", "high"),
                    modes("full", "A", "high"),
                    Phases::SumWithMean,
                    Bound::AtLeast(0.9),
                ),
            ),
        ],
    },
    Item {
        label: "2023, Fig. 7",
        title: "the modes with low contention",
        steps: &["modes"],
        charts: &["modes", "processes"],
        contention: Some("low"),
        claims: &[
            claim(
                "With low contention containers cost much: full over no-containers, pattern A.",
                ratio(
                    modes("full", "A", "low"),
                    modes("no-containers", "A", "low"),
                    Phases::Each,
                    Bound::AtMost(0.8),
                ),
            ),
            claim(
                "An index of each process costs little: no-containers over no-index, pattern A.",
                ratio(
                    modes("no-containers", "A", "low"),
                    modes("no-index", "A", "low"),
                    Phases::Each,
                    Bound::AtLeast(0.9),
                ),
            ),
            claim(
                "High contention costs: high over low, full, pattern A.",
                ratio(
                    modes("full", "A", "high"),
                    modes("full", "A", "low"),
                    Phases::Each,
                    Bound::AtMost(0.9),
                ),
            ),
        ],
    },
    Item {
        label: "2023, Fig. 8",
        title: "object size and class",
        steps: &["sizes"],
        charts: &["size", "class"],
        contention: None,
        claims: &[
            claim(
                "Objects of 5 or 10 MiB are read and written faster than of 1 MiB (S1).",
                ratio(
                    sizes("sizes", Some("S1"), &[5, 10]),
                    sizes("sizes", Some("S1"), &[1]),
                    Phases::Each,
                    Bound::AtLeast(1.2),
                ),
            ),
            claim(
                "Striping over all targets reads more slowly: SX over S1, 10 to 50 MiB.",
                ratio(
                    sizes("sizes", Some("SX"), &[10, 20, 50]),
                    sizes("sizes", Some("S1"), &[10, 20, 50]),
                    Phases::Read,
                    Bound::AtMost(0.95),
                ),
            ),
        ],
    },
    Item {
        label: "2022, Fig. 1",
        title: "segments on Lustre and on DAOS; here on files and on a native pool",
        steps: &["segments", "segments-posix"],
        charts: &["stores"],
        contention: None,
        claims: &[claim(
            "Large transfers are much alike on a file system and on the object store: posix over native.",
            ratio(all("segments-posix"), all("segments"), Phases::Each, Bound::Within(0.7, 1.43)),
        )],
    },
    Item {
        label: "2022, Fig. 2",
        title: "Field I/O in pattern A on Lustre and on DAOS; here on files and on a native pool",
        steps: &["modes", "modes-posix"],
        charts: &["stores"],
        contention: Some("low"),
        claims: &[
            claim(
                "On files no-containers writes poorly, for all are in one directory: no-containers over full.",
                ratio(
                    posix("no-containers", "A"),
                    posix("full", "A"),
                    Phases::Write,
                    Bound::AtMost(0.8),
                ),
            ),
            claim(
                "On files both modes read alike: no-containers over full.",
                ratio(
                    posix("no-containers", "A"),
                    posix("full", "A"),
                    Phases::Read,
                    Bound::Within(0.8, 1.25),
                ),
            ),
            claim(
                "The object store is faster at such loads: native over posix, no-containers.",
                ratio(
                    modes("no-containers", "A", "low"),
                    posix("no-containers", "A"),
                    Phases::Each,
                    Bound::AtLeast(1.2),
                ),
            ),
        ],
    },
    Item {
        label: "2022, Fig. 3",
        title: "Field I/O in pattern B on Lustre and on DAOS; here on files and on a native pool",
        steps: &["modes", "modes-posix"],
        charts: &["processes"],
        contention: Some("low"),
        claims: &[
            claim(
                "On the object store the sum of pattern B is above either phase of pattern A: no-containers.",
                ratio(
                    modes("no-containers", "B", "low"),
                    modes("no-containers", "A", "low"),
                    Phases::SumWithGreater,
                    Bound::AtLeast(1.0),
                ),
            ),
            claim(
                "The object store is well above the file system: sums, native over posix, no-containers.",
                ratio(
                    modes("no-containers", "B", "low"),
                    posix("no-containers", "B"),
                    Phases::Sums,
                    Bound::AtLeast(1.5),
                ),
            ),
        ],
    },
    Item {
        label: "2022, Fig. 4",
        title: "object size on files and on a native pool",
        steps: &["sizes", "sizes-posix"],
        charts: &["size"],
        contention: None,
        claims: &[
            claim(
                "On files, objects of 5 MiB are faster than of 1 MiB.",
                ratio(
                    sizes("sizes-posix", None, &[5]),
                    sizes("sizes-posix", None, &[1]),
                    Phases::Each,
                    Bound::AtLeast(1.2),
                ),
            ),
            claim(
                "At 1 MiB the object store is faster: native over posix.",
                ratio(
                    sizes("sizes", Some("S1"), &[1]),
                    sizes("sizes-posix", None, &[1]),
                    Phases::Each,
                    Bound::AtLeast(1.05),
                ),
            ),
        ],
    },
];

fn start_offset(run: &crate::results::Measurement) -> Option<f64> {
    Some(run.off_0?.max(run.po_0.unwrap_or(0.0)))
}
