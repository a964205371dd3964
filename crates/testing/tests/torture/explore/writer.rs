//! A process that makes one change, and is stopped before each store into the files of its pools.
use super::mappings::Mappings;
use super::stores::{Code, address_of};
use super::tracee::{self, Stop, Tracee};
use crate::common::Worker;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::path::Path;

/// A signal by which the writer marks the beginning and the end of its change.
const MARK: i32 = libc::SIGUSR1;
/// A signal by which the writer reports that a step of its change is acknowledged.
const ACKNOWLEDGED: i32 = libc::SIGUSR2;

/// Prevents that `memcpy` of the writer copies byte by byte, with a stop for each.
const TUNABLES: &str =
    "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000";

/// Lets the parent trace this thread, and stops until it does.
pub(super) fn let_parent_trace() {
    tracee::let_parent_trace();
    raise(MARK);
}

/// Marks the beginning or the end of the change.
pub(super) fn mark() {
    raise(MARK);
}

/// Reports that a step of the change is acknowledged.
pub(super) fn acknowledge() {
    raise(ACKNOWLEDGED);
}

fn raise(signal: i32) {
    // SAFETY: the tracer receives the signal and does not pass it on.
    unsafe { libc::raise(signal) };
}

/// Method of finding stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// The files are mapped read-only, so that each store is a fault.
    Faults,
    /// Each instruction is decoded and then executed alone. It takes a hundred times as long.
    Steps,
}

/// An event of a writer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It is about to store, or to make a system call on the pool.
    Stop,
    /// A step of the change was acknowledged.
    Acknowledged,
    /// The change is done.
    Done,
}

/// Position at which the writer has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Between two instructions that are not relevant.
    Between,
    /// Before a store to an address.
    Store(u64),
    /// Before a system call.
    Call(u64),
}

/// A traced writer. It is killed when dropped.
pub(super) struct Writer {
    tracee: Tracee,
    method: Method,
    mappings: Mappings,
    /// Mappings that have been made read-only.
    protected: Vec<Range<u64>>,
    position: Position,
    /// Instructions by their address.
    code: HashMap<u64, Code>,
}

impl Writer {
    /// Starts a process that prepares a change of the pools in `home`, and stops it at the beginning of the change.
    /// `None` if it may not be traced.
    pub(super) fn start(arguments: &str, home: &Path, method: Method) -> Option<Self> {
        let worker = Worker::start_with("explore-write", arguments, |command| {
            command.env("GLIBC_TUNABLES", TUNABLES);
        });
        let tracee = Tracee::new(worker, MARK)?;
        let stop = tracee.go_on(libc::PTRACE_CONT);
        assert_eq!(stop, Stop::Signal(MARK), "the writer prepares its change");
        let (mappings, code) = (Mappings::new(tracee.process(), home), HashMap::new());
        let (protected, position) = (Vec::new(), Position::Between);
        let mut writer = Self { tracee, method, mappings, protected, position, code };
        writer.protect();
        Some(writer)
    }

    /// Continues to the next event. The store of the last stop is executed first.
    pub(super) fn proceed(&mut self) -> Event {
        loop {
            let stop = match (self.method, self.position) {
                (Method::Faults, Position::Store(address)) => self.store(address),
                (Method::Faults, _) => self.tracee.go_on(libc::PTRACE_SYSCALL),
                (Method::Steps, _) => self.tracee.step(),
            };
            let position = std::mem::replace(&mut self.position, Position::Between);
            match stop {
                Stop::Signal(ACKNOWLEDGED) => return Event::Acknowledged,
                Stop::Signal(MARK) => return Event::Done,
                Stop::Signal(libc::SIGSEGV) => self.position = self.position_of_fault(),
                Stop::Signal(libc::SIGTRAP) if self.method == Method::Faults => {}
                Stop::Signal(libc::SIGTRAP) => {
                    if matches!(position, Position::Call(_)) {
                        self.protect();
                    }
                    self.position = self.decode();
                }
                Stop::Call if matches!(position, Position::Call(_)) => self.protect(),
                Stop::Call => self.position = Position::Call(self.tracee.registers().orig_rax),
                other => panic!("the writer ended in its change: {other:?}"),
            }
            if self.is_at_stop() {
                return Event::Stop;
            }
        }
    }

    /// The position before a store to a mapping that has been made read-only.
    fn position_of_fault(&self) -> Position {
        let address = self.tracee.faulty_address();
        let is_shared = self.mappings.location_of(address).is_some();
        assert!(is_shared, "the writer accesses {address:#x}: {}", self.describe());
        Position::Store(address)
    }

    /// True before a store, or before a system call that changes a file of the pool or a lock on it, or wakes others.
    fn is_at_stop(&mut self) -> bool {
        let Position::Call(number) = self.position else {
            return matches!(self.position, Position::Store(_));
        };
        let argument = self.tracee.registers().rdi;
        match number as libc::c_long {
            libc::SYS_write
            | libc::SYS_pwrite64
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
            | libc::SYS_writev
            | libc::SYS_fallocate
            | libc::SYS_ftruncate
            | libc::SYS_fcntl
            | libc::SYS_close => self.mappings.file_of(argument).is_some(),
            libc::SYS_futex | libc::SYS_msync => self.mappings.location_of(argument).is_some(),
            _ => false,
        }
    }

    /// Executes the store before which the writer has stopped.
    fn store(&self, address: u64) -> Stop {
        let mut pages = vec![page_of(address)];
        loop {
            self.set_protection(
                *pages.last().unwrap_or(&0),
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
            );
            match self.tracee.step() {
                // The store extends over two pages.
                Stop::Signal(libc::SIGSEGV) if pages.len() == 1 => {
                    pages.push(page_of(self.tracee.faulty_address()));
                }
                stop => {
                    pages.iter().for_each(|page| self.set_protection(*page, PAGE, libc::PROT_READ));
                    return stop;
                }
            }
        }
    }

    /// Makes the writer's mappings of the pool's files read-only.
    fn protect(&mut self) {
        self.mappings.refresh();
        if self.method == Method::Faults {
            for addresses in self.mappings.writable() {
                let len = addresses.end - addresses.start;
                self.set_protection(addresses.start, len, libc::PROT_READ);
                self.protected.push(addresses);
            }
        }
    }

    /// Makes the writer change the protection of its pages by a system call.
    fn set_protection(&self, begin: u64, len: u64, protection: i32) {
        self.tracee.call(libc::SYS_mprotect, [begin, len, protection as u64]);
    }

    /// Lets the writer store without stops from now on.
    fn unprotect(&mut self) {
        if self.method == Method::Faults && matches!(self.position, Position::Call(_)) {
            self.tracee.skip_call();
        }
        for addresses in std::mem::take(&mut self.protected) {
            // The mapping may have been unmapped.
            if self.mappings.location_of(addresses.start).is_some() {
                let len = addresses.end - addresses.start;
                self.set_protection(addresses.start, len, libc::PROT_READ | libc::PROT_WRITE);
            }
        }
    }

    /// Lets the writer continue to its end, which must be successful. The change must be complete.
    pub(super) fn finish(mut self) {
        self.unprotect();
        self.tracee.finish();
    }

    /// Kills the writer at its position. The kernel marks the locks that it held, for which it writes to the pool.
    pub(super) fn kill(mut self) {
        self.unprotect();
    }

    /// The position before the next instruction.
    fn decode(&mut self) -> Position {
        let registers = self.tracee.registers();
        let code = match self.code.entry(registers.rip) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                new.insert(Code::decode(&self.tracee.code_at(registers.rip), registers.rip))
            }
        };
        match code {
            Code::Private => Position::Between,
            Code::Call => Position::Call(registers.rax),
            Code::Store(operands) => {
                let mut addresses = operands.iter().filter_map(|it| address_of(it, &registers));
                let shared =
                    addresses.find(|address| self.mappings.location_of(*address).is_some());
                shared.map_or(Position::Between, Position::Store)
            }
        }
    }

    /// The location to which the writer is about to write, and the code that writes.
    pub(super) fn describe(&self) -> String {
        let symbol = self.mappings.symbol_at(self.tracee.registers().rip);
        format!("{} by {symbol}", self.location())
    }

    /// The location to which the writer is about to write.
    pub(super) fn location(&self) -> String {
        match self.position {
            Position::Between => "the end".to_owned(),
            Position::Call(number) => format!("system call {number}"),
            Position::Store(address) => {
                let (file, offset) = self.mappings.location_of(address).unwrap_or(("", address));
                format!("a store to {file}+{offset:#x}")
            }
        }
    }
}

/// Bytes of a page.
const PAGE: u64 = crate::common::PAGE as u64;

fn page_of(address: u64) -> u64 {
    address / PAGE * PAGE
}
