//! What measurements differ in.
use crate::results::Measurement;
use crate::units::Bytes;

/// Something a measurement can be told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Workload.
    Workload,
    /// Store.
    Store,
    /// Mode of Field I/O.
    Mode,
    /// Access pattern.
    Pattern,
    /// Contention on the index.
    Contention,
    /// Access pattern and contention together.
    Access,
    /// Class of Key-Values.
    ClassKv,
    /// Class of Arrays.
    ClassArray,
    /// Bytes of an object.
    Size,
    /// Processes of all nodes.
    Procs,
    /// Processes of one node.
    ProcsPerNode,
    /// Nodes.
    Nodes,
    /// What was done: mode, pattern and contention, or the workload where it has none.
    Case,
    /// Everything that tells runs apart, in one label.
    All,
}

/// Phase of the sum of a write and a read phase that ran at the same time.
pub(super) const BOTH: &str = "write + read";

/// One measured phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    run: Measurement,
    /// What was done.
    pub phase: String,
    /// MiB per second.
    pub mib_s: f64,
    /// The least and the greatest over repeats.
    pub range_mib_s: (f64, f64),
    /// What the medium gives, in MiB per second.
    pub limit_mib_s: Option<f64>,
    /// Operations per second.
    pub ops_per_s: f64,
}

impl Sample {
    /// Those of limits only where nothing but limits was measured.
    pub(super) fn of(run: &Measurement) -> Option<Self> {
        if run.is_limit() && run.workload != "limit" {
            return None;
        }
        let mib_s = run.bandwidth();
        let range_mib_s = run.spread().map_or((mib_s, mib_s), |spread| (spread.min, spread.max));
        Some(Self {
            phase: run.phase.clone(),
            mib_s,
            range_mib_s,
            limit_mib_s: run.limit_mib_s,
            ops_per_s: run.ops_per_s,
            run: run.clone(),
        })
    }

    /// The sum of this write phase and the read phase beside it, in pattern B.
    pub(super) fn sum(&self, samples: &[Self]) -> Option<Self> {
        if self.phase != "write" || self.run.pattern.as_deref() != Some("B") {
            return None;
        }
        let is_beside = |other: &&Self| {
            other.phase == "read"
                && other.run.run == self.run.run.map(|run| run + 1)
                && other.text(Dim::All) == self.text(Dim::All)
                && other.text(Dim::Procs) == self.text(Dim::Procs)
        };
        let read = samples.iter().find(is_beside)?;
        let both = |mine: Option<f64>, other: Option<f64>| Some(mine? + other?);
        let (mine, other) = (self.range_mib_s, read.range_mib_s);
        Some(Self {
            run: self.run.clone(),
            phase: BOTH.to_owned(),
            mib_s: self.mib_s + read.mib_s,
            range_mib_s: (mine.0 + other.0, mine.1 + other.1),
            limit_mib_s: both(self.limit_mib_s, read.limit_mib_s),
            ops_per_s: self.ops_per_s + read.ops_per_s,
        })
    }

    /// What it is in one respect; nothing where that does not apply.
    #[must_use]
    pub fn text(&self, dim: Dim) -> Option<String> {
        let run = &self.run;
        match dim {
            Dim::Workload => Some(run.workload.clone()),
            Dim::Store => Some(run.store.clone()),
            Dim::Mode => run.mode.clone(),
            Dim::Pattern => run.pattern.clone(),
            Dim::Contention => run.contention.clone(),
            Dim::ClassKv => run.class_kv.clone(),
            Dim::ClassArray => run.class_array.clone(),
            Dim::Size => Some(Bytes(run.size_bytes).to_string()),
            Dim::Access => self.joined(&[Dim::Pattern, Dim::Contention]),
            Dim::Case => {
                let case = self.joined(&[Dim::Mode, Dim::Access]);
                case.or_else(|| self.text(Dim::Workload))
            }
            Dim::All => self.joined(&ALL),
            Dim::Procs | Dim::ProcsPerNode | Dim::Nodes => self.number(dim).map(|n| n.to_string()),
        }
    }

    /// The same as a number, for what is one.
    #[must_use]
    pub fn number(&self, dim: Dim) -> Option<f64> {
        let nodes = self.run.nodes.unwrap_or(1).max(1);
        match dim {
            Dim::Size => Some(self.run.size_bytes as f64),
            Dim::Procs => Some(f64::from(self.run.procs)),
            Dim::Nodes => Some(f64::from(nodes)),
            Dim::ProcsPerNode => Some(f64::from(self.run.procs / nodes)),
            _ => None,
        }
    }

    /// How it is put in a title or label.
    pub(super) fn phrase(&self, dim: Dim) -> Option<String> {
        let text = self.text(dim)?;
        let count =
            |one: &str, many: &str| format!("{text} {}", if text == "1" { one } else { many });
        Some(match dim {
            Dim::Pattern => format!("pattern {text}"),
            Dim::Contention => format!("{text} contention"),
            Dim::ClassKv => format!("Key-Values {text}"),
            Dim::ClassArray => format!("class {text}"),
            Dim::Procs => count("process", "processes"),
            Dim::ProcsPerNode => count("process per node", "processes per node"),
            Dim::Nodes => count("node", "nodes"),
            _ => text,
        })
    }

    fn joined(&self, dims: &[Dim]) -> Option<String> {
        let texts: Vec<_> = dims.iter().filter_map(|&dim| self.text(dim)).collect();
        (!texts.is_empty()).then(|| texts.join(" "))
    }
}

const ALL: [Dim; 7] =
    [Dim::Workload, Dim::Store, Dim::Mode, Dim::Access, Dim::ClassArray, Dim::ClassKv, Dim::Size];
