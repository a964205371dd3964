//! The combinations of settings that are measured.
use super::{Fields, ParallelPlan, Subject};
use crate::field_io::segments::{Objects, Segments};
use crate::field_io::{Contention, Mode, Pattern};
use crate::names::Named;
use crate::rendezvous::Rank;

/// Payload of one process in one repeat if the number of operations is not given.
const DEFAULT_BYTES: u64 = 512 << 20;
const DEFAULT_OPS_MIN: u64 = 8;
/// Iterations of the papers.
const DEFAULT_OPS_MAX: u64 = 2000;
/// Maximum if every operation waits for the medium.
const DEFAULT_OPS_DURABLE: u64 = 200;

/// One combination of settings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    /// Mode of field-io; segments use the main container only.
    pub(super) mode: Mode,
    /// Objects of segments mode, and segments of a process; none for Field I/O.
    pub(super) objects: Option<(Objects, u32)>,
    pub(super) pattern: Pattern,
    pub(super) contention: Contention,
    pub(super) class_kv: String,
    pub(super) class_array: String,
    /// Bytes of a field or part.
    pub(super) size: u64,
    pub(super) procs_per_node: u32,
    pub(super) procs: u32,
    pub(super) ops: u32,
}

impl Case {
    /// Number of bytes that one operation transfers: one field or, in a case of several objects per operation, all of
    /// them.
    pub(super) fn io_bytes(&self) -> u64 {
        self.size * u64::from(self.objects.map_or(1, |(_, count)| count))
    }

    pub(super) fn segments(&self) -> Option<Segments> {
        let (objects, count) = self.objects?;
        Some(Segments { objects, count, part_bytes: self.size, procs: self.procs })
    }

    /// Name of the case in messages of progress: mode, pattern and contention.
    pub(super) fn name(&self) -> String {
        format!("{} {} {}", self.mode_name(), self.pattern.name(), self.contention.name())
    }

    pub(super) fn mode_name(&self) -> String {
        self.objects.map_or_else(|| self.mode.name(), |(objects, _)| objects.name())
    }

    /// Processes that write: in pattern B the first half.
    pub(super) fn writers(&self) -> u32 {
        if self.pattern == Pattern::B { self.procs / 2 } else { self.procs }
    }

    /// Writes of one process in the longest repeat. Pattern B writes each field once at first, then in the measured
    /// phase and, with `verify`, again in a phase that checks reads.
    pub(super) fn writes_max(&self, verify: bool) -> u32 {
        let again = u32::from(verify && self.pattern == Pattern::B) * self.ops;
        (1 + self.ops + again).max(self.warm_up_ops())
    }

    /// The warm-up does an eighth more operations, because the share of each target differs from repeat to repeat.
    pub(super) fn warm_up_ops(&self) -> u32 {
        self.ops + self.ops / 8
    }

    /// Payload in bytes and index entries of the longest repeat. A write has two entries, and one for each complete
    /// chunk.
    pub(super) fn needs(&self, verify: bool) -> (u64, u64) {
        let writes = u64::from(self.writers()) * u64::from(self.writes_max(verify));
        (
            writes * self.io_bytes(),
            writes * (2 + self.io_bytes() / crate::field_io::worker::CHUNK_BYTES),
        )
    }
}

impl ParallelPlan {
    /// All combinations. Those that differ only in mode are adjacent.
    pub(super) fn cases(&self, who: Rank, durable: bool) -> Vec<Case> {
        let mut cases = Vec::new();
        for &procs_per_node in &self.options.procs {
            for &size in &self.sizes {
                for class_array in &self.options.classes_array {
                    let case = Case {
                        mode: Mode::NoIndex,
                        objects: None,
                        pattern: Pattern::A,
                        contention: Contention::Low,
                        class_kv: "SX".to_owned(),
                        class_array: class_array.clone(),
                        size,
                        procs_per_node,
                        procs: procs_per_node * who.ranks,
                        ops: 0,
                    };
                    match &self.subject {
                        Subject::Segments { objects, count } => cases.extend(
                            objects
                                .iter()
                                .map(|&one| Case { objects: Some((one, *count)), ..case.clone() }),
                        ),
                        Subject::Fields(fields) => add_fields(&mut cases, fields, &case),
                    }
                }
            }
        }
        for case in &mut cases {
            case.ops = self.ops.unwrap_or_else(|| default_ops(case.io_bytes(), durable));
        }
        cases
    }
}

/// Adds a case for each combination of the options for fields.
fn add_fields(cases: &mut Vec<Case>, fields: &Fields, case: &Case) {
    for class_kv in &fields.classes_kv {
        for &pattern in &fields.patterns {
            for &contention in &fields.contentions {
                let case = Case { class_kv: class_kv.clone(), pattern, contention, ..case.clone() };
                cases.extend(fields.modes.iter().map(|&mode| Case { mode, ..case.clone() }));
            }
        }
    }
}

/// Operations of a process if the command does not say.
fn default_ops(io_bytes: u64, durable: bool) -> u32 {
    let most = if durable { DEFAULT_OPS_DURABLE } else { DEFAULT_OPS_MAX };
    let ops = (DEFAULT_BYTES / io_bytes.max(1)).clamp(DEFAULT_OPS_MIN, most);
    u32::try_from(ops).unwrap_or(u32::MAX)
}
