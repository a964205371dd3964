//! A process that makes one change, and is stopped at each store into the files of its pools.
use super::mappings::Mappings;
use super::stores::{self, Code, INSTRUCTION_LEN_MAX};
use crate::common::Worker;
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

/// Lets the parent trace this process, and stops until it does.
pub(super) fn let_parent_trace() {
    // SAFETY: asks for being traced; there are no pointers.
    let result = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
    if result != 0 {
        std::process::exit(NOT_TRACEABLE);
    }
    // SAFETY: plain numbers. The tracer knows this process by one number.
    assert_eq!(unsafe { libc::gettid() }, unsafe { libc::getpid() }, "a task runs in its own thread");
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
    pid: pid_t,
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
        let worker = Worker::start_with("explore-write", arguments, set);
        let pid = worker.0.id() as pid_t;
        match wait(pid) {
            Wait::Stopped(MARK) => {}
            Wait::Ended(NOT_TRACEABLE) => {
                // It has been waited for: its number may be that of another process by now.
                std::mem::forget(worker);
                return None;
            }
            other => panic!("the writer failed: {other:?}"),
        }
        // SAFETY: sets an option of the stopped child; there are no pointers.
        unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, libc::PTRACE_O_EXITKILL) };
        resume(pid, libc::PTRACE_CONT);
        assert_eq!(wait(pid), Wait::Stopped(MARK), "the writer prepares its change");
        let memory = File::open(format!("/proc/{pid}/mem")).expect("the memory of the writer");
        let (mappings, code) = (Mappings::new(pid, home), HashMap::new());
        let registers = read_registers(pid);
        Some(Self { worker, pid, memory, mappings, code, registers, instructions: 0 })
    }

    /// Goes on to the next event. The store of the last stop is executed first.
    pub(super) fn proceed(&mut self) -> Event {
        loop {
            resume(self.pid, libc::PTRACE_SINGLESTEP);
            match wait(self.pid) {
                Wait::Stopped(libc::SIGTRAP) => {}
                Wait::Stopped(ACKNOWLEDGED) => return Event::Acknowledged,
                Wait::Stopped(MARK) => return Event::Done,
                other => panic!("the writer ended in its change: {other:?}"),
            }
            self.instructions += 1;
            self.registers = read_registers(self.pid);
            if self.is_at_store() {
                return Event::Stop;
            }
        }
    }

    /// Lets it go on to its end, which must be successful.
    pub(super) fn finish(mut self) {
        resume(self.pid, libc::PTRACE_DETACH);
        self.worker.finish_soon();
    }

    /// Kills it where it stands.
    pub(super) fn kill(mut self) {
        self.worker.kill();
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
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        let first = maps.lines().find(|line| line.ends_with(file)).unwrap_or_default();
        let begin = first.split('-').next().unwrap_or_default();
        u64::from_str_radix(begin, 16).unwrap_or(0)
    }
}

/// A change of the state of a process.
#[derive(Debug, PartialEq, Eq)]
enum Wait {
    Stopped(i32),
    Ended(i32),
    Killed(i32),
}

fn wait(pid: pid_t) -> Wait {
    let mut status = 0;
    // SAFETY: `status` is a valid local variable.
    let found = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
    assert_eq!(found, pid, "waiting for the writer: {}", std::io::Error::last_os_error());
    if libc::WIFSTOPPED(status) {
        Wait::Stopped(libc::WSTOPSIG(status))
    } else if libc::WIFEXITED(status) {
        Wait::Ended(libc::WEXITSTATUS(status))
    } else {
        Wait::Killed(libc::WTERMSIG(status))
    }
}

fn resume(pid: pid_t, how: libc::c_uint) {
    // SAFETY: lets a stopped child of this thread go on; there are no pointers.
    let result = unsafe { libc::ptrace(how, pid, 0, 0) };
    assert_eq!(result, 0, "the writer goes on: {}", std::io::Error::last_os_error());
}

fn read_registers(pid: pid_t) -> user_regs_struct {
    // SAFETY: the registers are plain numbers, for which zeros are valid.
    let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: `registers` is a valid local variable of the type that the request fills.
    let result = unsafe { libc::ptrace(libc::PTRACE_GETREGS, pid, 0, &raw mut registers) };
    assert_eq!(result, 0, "the registers: {}", std::io::Error::last_os_error());
    registers
}
