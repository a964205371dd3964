//! A process that makes one change, and is stopped at each store into the files of its pools.
use super::mappings::Mappings;
use super::stores::{self, Code, INSTRUCTION_LEN_MAX};
use crate::common::Worker;
use esker_torture::wait_for;
use libc::{pid_t, user_regs_struct};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Exit status of a process that may not be traced.
pub(super) const NOT_TRACEABLE: i32 = 77;

/// A signal by which the writer marks the beginning and the end of its change.
const MARK: i32 = libc::SIGUSR1;
/// A signal by which it says that a step of its change is acknowledged.
const ACKNOWLEDGED: i32 = libc::SIGUSR2;

/// Keeps `memcpy` of the writer from copying byte by byte, which takes a stop each.
const TUNABLES: &str =
    "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000";

/// Lets the parent trace this thread, and stops until it does.
pub(super) fn let_parent_trace() {
    // SAFETY: asks for being traced; there are no pointers.
    let result = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
    if result != 0 {
        std::process::exit(NOT_TRACEABLE);
    }
    raise(MARK);
}

/// Marks the beginning or the end of the change.
pub(super) fn mark() {
    raise(MARK);
}

/// Says that a step of the change is acknowledged.
pub(super) fn acknowledge() {
    raise(ACKNOWLEDGED);
}

fn raise(signal: i32) {
    // SAFETY: the tracer receives the signal and does not pass it on.
    unsafe { libc::raise(signal) };
}

/// The moment before something becomes visible to others.
pub(super) enum Event {
    /// A store, or a system call on the pool.
    Stop,
    /// A step of the change was acknowledged.
    Acknowledged,
    /// The change is done.
    Done,
}

/// A traced writer. It is killed when dropped.
pub(super) struct Writer {
    worker: Worker,
    /// Number of the traced thread.
    thread: pid_t,
    memory: File,
    mappings: Mappings,
    code: HashMap<u64, Code>,
    registers: user_regs_struct,
    /// Instructions executed since the change began.
    pub(super) instructions: u64,
}

impl Writer {
    /// Starts a process that prepares a change of the pools in `home`, and stops it at the beginning of the change.
    /// `None` if it may not be traced.
    pub(super) fn start(arguments: &str, home: &Path) -> Option<Self> {
        let set = |command: &mut Command| {
            command.env("GLIBC_TUNABLES", TUNABLES);
        };
        let mut worker = Worker::start_with("explore-write", arguments, set);
        let pid = worker.0.id() as pid_t;
        let thread = await_traced(&mut worker)?;
        assert_eq!(wait(thread), Wait::Stopped(MARK), "the writer is traced");
        // SAFETY: sets an option of the stopped thread; there are no pointers.
        unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, thread, 0, libc::PTRACE_O_EXITKILL) };
        let memory = File::open(format!("/proc/{pid}/mem")).expect("the memory of the writer");
        let (mappings, code) = (Mappings::new(pid, home), HashMap::new());
        let registers = read_registers(thread);
        let mut writer = Self { worker, thread, memory, mappings, code, registers, instructions: 0 };
        resume(thread, libc::PTRACE_CONT);
        assert_eq!(wait(thread), Wait::Stopped(MARK), "the writer prepares its change");
        writer.mappings.refresh();
        Some(writer)
    }

    /// Goes on to the next event. The store of the last stop is executed first.
    pub(super) fn proceed(&mut self) -> Event {
        loop {
            resume(self.thread, libc::PTRACE_SINGLESTEP);
            match wait(self.thread) {
                Wait::Stopped(libc::SIGTRAP) => {}
                Wait::Stopped(ACKNOWLEDGED) => return Event::Acknowledged,
                Wait::Stopped(MARK) => return Event::Done,
                other => panic!("the writer ended in its change: {other:?}"),
            }
            self.instructions += 1;
            self.registers = read_registers(self.thread);
            if self.is_at_store() {
                return Event::Stop;
            }
        }
    }

    /// Lets it go on to its end, which must be successful.
    pub(super) fn finish(mut self) {
        resume(self.thread, libc::PTRACE_DETACH);
        self.worker.finish_soon();
    }

    /// Kills it where it stands.
    pub(super) fn kill(mut self) {
        self.worker.expect_alive();
    }

    fn is_at_store(&mut self) -> bool {
        let code = match self.code.entry(self.registers.rip) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let mut bytes = [0; INSTRUCTION_LEN_MAX];
                let len = self.memory.read_at(&mut bytes, self.registers.rip).unwrap_or(0);
                new.insert(Code::decode(&bytes[..len], self.registers.rip))
            }
        };
        match code {
            Code::Private => false,
            Code::Call => self.is_call_on_pool(),
            Code::Store(operands) => {
                let mut addresses =
                    operands.iter().filter_map(|it| stores::address_of(it, &self.registers));
                addresses.any(|address| self.mappings.place_of(address).is_some())
            }
        }
    }

    /// True before a system call that changes a file of the pool or a lock on it, or wakes others.
    fn is_call_on_pool(&mut self) -> bool {
        let argument = self.registers.rdi;
        match self.registers.rax as libc::c_long {
            libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_pwritev2
            | libc::SYS_writev | libc::SYS_fallocate | libc::SYS_ftruncate | libc::SYS_fcntl
            | libc::SYS_close => self.mappings.file_of(argument).is_some(),
            libc::SYS_futex | libc::SYS_msync | libc::SYS_madvise => {
                self.mappings.place_of(argument).is_some()
            }
            _ => {
                // Few calls remain, and some of them change the mappings.
                self.mappings.refresh();
                false
            }
        }
    }

    /// The place to which it is about to write, and the code that does.
    pub(super) fn describe(&self) -> String {
        let at = match self.code.get(&self.registers.rip) {
            Some(Code::Call) => format!("system call {}", self.registers.rax),
            Some(Code::Store(operands)) => {
                let operand = operands.iter().find_map(|it| {
                    let address = stores::address_of(it, &self.registers)?;
                    self.mappings.place_of(address)
                });
                operand.map_or_else(String::new, |(file, at)| format!("store to {file}+{at:#x}"))
            }
            _ => "the end".to_owned(),
        };
        format!("{at} by {}", self.symbol())
    }

    /// Function and line of the instruction, if `addr2line` is installed.
    fn symbol(&self) -> String {
        let Some((file, offset)) = self.mappings.code_at(self.registers.rip) else {
            return format!("{:#x}", self.registers.rip);
        };
        let place = format!("{file}+{offset:#x}");
        let address = format!("{:#x}", self.registers.rip - self.base_of(file));
        let mut tool = Command::new("addr2line");
        let said = tool.args(["-Cfpse", file, &address]).output();
        let said = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        said.map_or(place.clone(), |said| format!("{said} ({place})"))
    }

    fn base_of(&self, file: &str) -> u64 {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.worker.0.id())).unwrap_or_default();
        let first = maps.lines().find(|line| line.ends_with(file)).unwrap_or_default();
        let begin = first.split('-').next().unwrap_or_default();
        u64::from_str_radix(begin, 16).unwrap_or(0)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.worker.0.kill();
        // The process has not ended before its tracer knows the end of the thread.
        while let Some(Wait::Stopped(_)) = next_state(self.thread) {}
        let _ = self.worker.0.wait();
    }
}

/// Waits until a thread of a worker is traced; `None` if it may not be.
fn await_traced(worker: &mut Worker) -> Option<pid_t> {
    let mut traced = None;
    let mut ended = None;
    wait_for("the writer is traced", || {
        traced = traced_thread(worker.0.id());
        ended = worker.0.try_wait().expect("polling the writer");
        traced.is_some() || ended.is_some()
    });
    let code = ended.and_then(|status| status.code());
    assert!(traced.is_some() || code == Some(NOT_TRACEABLE), "the writer failed: {ended:?}");
    traced
}

/// The stopped thread of a process that is traced.
fn traced_thread(pid: u32) -> Option<pid_t> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut numbers = threads.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
    numbers.find(|number: &pid_t| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/task/{number}/status"));
        status.is_ok_and(|status| status.contains("State:\tt"))
    })
}

/// A change of the state of a thread.
#[derive(Debug, PartialEq, Eq)]
enum Wait {
    Stopped(i32),
    Ended(i32),
    Killed(i32),
}

fn wait(thread: pid_t) -> Wait {
    next_state(thread).unwrap_or_else(|| panic!("waiting for the writer: {}", last_error()))
}

/// Waits until the state of a thread changes; `None` if it is not traced.
fn next_state(thread: pid_t) -> Option<Wait> {
    let mut status = 0;
    // SAFETY: `status` is a valid local variable.
    let found = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
    (found == thread).then(|| {
        if libc::WIFSTOPPED(status) {
            Wait::Stopped(libc::WSTOPSIG(status))
        } else if libc::WIFEXITED(status) {
            Wait::Ended(libc::WEXITSTATUS(status))
        } else {
            Wait::Killed(libc::WTERMSIG(status))
        }
    })
}

fn last_error() -> std::io::Error {
    std::io::Error::last_os_error()
}

fn resume(thread: pid_t, how: libc::c_uint) {
    // SAFETY: lets a stopped child of this thread go on; there are no pointers.
    let result = unsafe { libc::ptrace(how, thread, 0, 0) };
    assert_eq!(result, 0, "the writer goes on: {}", last_error());
}

fn read_registers(thread: pid_t) -> user_regs_struct {
    // SAFETY: the registers are plain numbers, for which zeros are valid.
    let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: `registers` is a valid local variable of the type that the request fills.
    let result = unsafe { libc::ptrace(libc::PTRACE_GETREGS, thread, 0, &raw mut registers) };
    assert_eq!(result, 0, "the registers: {}", last_error());
    registers
}
