//! Time stamps of every event of `field-io` and `segments`, and their file.
//!
//! The file is CSV: comment lines that begin with `# `, one line of column names ([`COLUMNS`]), and one line per event.
//! It is written under a temporary name and renamed when it is complete.
use crate::metrics::{Io, Phase};
use esker_os::whole::WholeFile;
use esker_types::Result;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::Path;

/// Names of the columns.
pub const COLUMNS: &str = "run,repeat,phase,node,process,pid,cpu,iteration,event,time_ns";

/// Version of the format, which the first line contains.
pub const TRACES_VERSION: u32 = 1;

/// The kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Writes.
    Write,
    /// Reads.
    Read,
}

impl Kind {
    /// Name in reports and traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

/// Number of events of one operation.
pub const EVENTS: usize = 8;

/// One operation: the times of its events in nanoseconds since the common start. The events are I/O
/// start, object open start and end, transfer start and end, object close start and end, I/O end.
pub type Stamps = [u64; EVENTS];

/// Names of the events of an operation.
const fn events_of(kind: Kind) -> [&'static str; EVENTS] {
    let (start, end) = match kind {
        Kind::Write => ("write_start", "write_end"),
        Kind::Read => ("read_start", "read_end"),
    };
    ["io_start", "open_start", "open_end", start, end, "close_start", "close_end", "io_end"]
}

/// Operations of one process in one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Name of the node.
    pub node: String,
    /// Number of the process, over all nodes.
    pub process: u32,
    /// Its process id.
    pub pid: u32,
    /// The processor it was pinned to.
    pub cpu: Option<u32>,
    /// Payload of one operation.
    pub bytes: u64,
    /// Time at which it was ready to begin, in nanoseconds since the common start.
    pub execution_start_ns: u64,
    /// Time at which it had ended.
    pub execution_end_ns: u64,
    /// Its operations.
    pub ios: Vec<Stamps>,
}

/// The operations of all processes as metrics see them.
pub fn phase_of(traces: &[Trace]) -> Phase {
    let io = |trace: &Trace, iteration: usize, stamps: &Stamps| Io {
        process: trace.process,
        iteration: u32::try_from(iteration).unwrap_or(u32::MAX),
        bytes: trace.bytes,
        start_ns: stamps[0],
        end_ns: stamps[EVENTS - 1],
    };
    let ios = traces.iter().flat_map(|trace| {
        trace.ios.iter().enumerate().map(move |(iteration, stamps)| io(trace, iteration, stamps))
    });
    Phase::new(ios.collect())
}

/// The run and repeat of a report to which traces belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOrigin {
    /// Number of the run.
    pub run: u32,
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// The kind of access.
    pub kind: Kind,
    /// Wall clock at time 0, in nanoseconds since 1970.
    pub start_unix_ns: u64,
}

/// The file of traces. It is written after each repeat, so that memory holds one repeat.
pub struct Writer(WholeFile);

impl Writer {
    /// Creates a file. `facts` are members of the report, by name, as JSON.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path, facts: &[(&str, String)]) -> Result<Self> {
        let mut text = format!("# esker traces {TRACES_VERSION}\n");
        for (name, value) in facts {
            let _ = writeln!(text, "# {name}: {value}");
        }
        let mut file = WholeFile::create(path)?;
        file.write(format!("{text}{COLUMNS}\n").as_bytes())?;
        Ok(Self(file))
    }

    /// Adds the traces of one phase of one repeat.
    ///
    /// # Errors
    /// If the medium is full or fails.
    pub fn add(&mut self, origin: TraceOrigin, traces: &[Trace]) -> Result<()> {
        traces.iter().try_for_each(|trace| self.0.write(lines_of(origin, trace).as_bytes()))
    }

    /// Completes the file and renames it to its final name.
    ///
    /// # Errors
    /// If the medium is full or fails.
    pub fn finish(self) -> Result<()> {
        self.0.finish()
    }
}

/// Lines of the trace of a process.
fn lines_of(origin: TraceOrigin, trace: &Trace) -> String {
    let cpu = trace.cpu.map(|cpu| cpu.to_string()).unwrap_or_default();
    let head = format!(
        "{},{},{},{},{},{},{cpu}",
        origin.run,
        origin.repeat,
        origin.kind.name(),
        trace.node,
        trace.process,
        trace.pid,
    );
    let mut lines = format!("{head},,execution_start,{}\n", trace.execution_start_ns);
    for (iteration, stamps) in trace.ios.iter().enumerate() {
        for (event, time_ns) in events_of(origin.kind).iter().zip(stamps) {
            let _ = writeln!(lines, "{head},{iteration},{event},{time_ns}");
        }
    }
    let _ = writeln!(lines, "{head},,execution_end,{}", trace.execution_end_ns);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace() -> Trace {
        Trace {
            node: "n1".to_owned(),
            process: 3,
            pid: 77,
            cpu: Some(1),
            bytes: 10,
            execution_start_ns: 5,
            execution_end_ns: 500,
            ios: vec![[10, 11, 12, 13, 94, 95, 96, 100], [110, 111, 112, 113, 194, 195, 196, 200]],
        }
    }

    #[test]
    fn every_event_is_a_line() {
        let origin = TraceOrigin { run: 2, repeat: 1, kind: Kind::Write, start_unix_ns: 9 };
        let text = lines_of(origin, &trace());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 2 * EVENTS);
        assert_eq!(lines[0], "2,1,write,n1,3,77,1,,execution_start,5");
        assert_eq!(lines[1], "2,1,write,n1,3,77,1,0,io_start,10");
        assert_eq!(lines[5], "2,1,write,n1,3,77,1,0,write_end,94");
        assert_eq!(lines[16], "2,1,write,n1,3,77,1,1,io_end,200");
        assert_eq!(lines[17], "2,1,write,n1,3,77,1,,execution_end,500");
        let columns = COLUMNS.split(',').count();
        assert!(lines.iter().all(|line| line.split(',').count() == columns));
    }

    #[test]
    fn unpinned_process_has_no_processor() {
        let origin = TraceOrigin { run: 0, repeat: 1, kind: Kind::Read, start_unix_ns: 9 };
        let text = lines_of(origin, &Trace { cpu: None, ..trace() });
        assert!(text.contains("0,1,read,n1,3,77,,1,read_start,113\n"), "{text}");
    }

    #[test]
    fn traces_convert_to_metrics() {
        let phase = phase_of(&[trace()]);
        assert_eq!((phase.total_wall_clock_ns(), phase.bytes()), (190, 20));
        assert_eq!(phase.ios()[1].iteration, 1);
    }
}
