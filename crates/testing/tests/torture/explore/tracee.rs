//! A thread of another process that this process traces.
use super::stores::INSTRUCTION_LEN_MAX;
use crate::common::Worker;
use esker_testing::wait_for;
use libc::{pid_t, siginfo_t, user_regs_struct};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Exit status of a process that may not be traced.
const NOT_TRACEABLE: i32 = 77;

/// Bit in the signal of a stop at a system call.
const AT_CALL: i32 = 0x80;

/// Bytes of the system call instruction.
const CALL: [u8; 2] = [0x0f, 0x05];

/// Lets the parent trace this thread.
pub(super) fn let_parent_trace() {
    // SAFETY: requests to be traced; there are no pointers.
    let result = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
    if result != 0 {
        std::process::exit(NOT_TRACEABLE);
    }
}

/// The reason for which a thread has stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Signal(i32),
    /// Before or after a system call.
    Call,
    /// It has ended.
    End(i32),
}

/// A traced thread.
pub(super) struct Tracee {
    worker: Worker,
    thread: pid_t,
    memory: File,
    /// Address of an instruction for system calls.
    call_at: u64,
}

impl Tracee {
    /// The thread of a process that calls [`let_parent_trace`] and then raises `signal`. `None` if it may not be
    /// traced.
    pub(super) fn new(mut worker: Worker, signal: i32) -> Option<Self> {
        let thread = await_traced(&mut worker)?;
        let memory = File::open(format!("/proc/{}/mem", worker.0.id())).expect("its memory");
        let mut tracee = Self { worker, thread, memory, call_at: 0 };
        assert_eq!(tracee.wait(), Stop::Signal(signal), "the thread is traced");
        let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD;
        // SAFETY: sets options of the stopped thread; there are no pointers.
        unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, thread, 0, options) };
        // It has just raised the signal.
        tracee.call_at = tracee.registers().rip - CALL.len() as u64;
        assert_eq!(tracee.code_at(tracee.call_at)[..2], CALL, "a system call");
        Some(tracee)
    }

    /// Number of its process.
    pub(super) fn process(&self) -> u32 {
        self.worker.0.id()
    }

    /// Lets the thread continue until `how` or a signal stops it.
    pub(super) fn go_on(&self, how: libc::c_uint) -> Stop {
        // SAFETY: lets a stopped child of this thread continue; there are no pointers.
        let result = unsafe { libc::ptrace(how, self.thread, 0, 0) };
        assert_eq!(result, 0, "a traced thread goes on: {}", std::io::Error::last_os_error());
        self.wait()
    }

    /// Waits until the thread stops.
    fn wait(&self) -> Stop {
        let state = next_state(self.thread);
        state.unwrap_or_else(|| panic!("a traced thread: {}", std::io::Error::last_os_error()))
    }

    /// Executes one instruction.
    pub(super) fn step(&self) -> Stop {
        self.go_on(libc::PTRACE_SINGLESTEP)
    }

    pub(super) fn registers(&self) -> user_regs_struct {
        // SAFETY: the registers are plain numbers, for which zeros are valid.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: `registers` is a valid local variable of the type that the request fills.
        let result =
            unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.thread, 0, &raw mut registers) };
        assert_eq!(result, 0, "the registers: {}", std::io::Error::last_os_error());
        registers
    }

    fn set_registers(&self, registers: &user_regs_struct) {
        // SAFETY: `registers` is of the type that the request reads.
        let result =
            unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.thread, 0, &raw const *registers) };
        assert_eq!(result, 0, "the registers: {}", std::io::Error::last_os_error());
    }

    /// The bytes of the instruction at an address.
    pub(super) fn code_at(&self, address: u64) -> [u8; INSTRUCTION_LEN_MAX] {
        let mut bytes = [0; INSTRUCTION_LEN_MAX];
        let _ = self.memory.read_at(&mut bytes, address);
        bytes
    }

    /// Address of the memory access whose signal has stopped the thread.
    pub(super) fn faulty_address(&self) -> u64 {
        // SAFETY: the information is plain data, for which zeros are valid.
        let mut info: siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is a valid local variable of the type that the request fills.
        let result =
            unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, self.thread, 0, &raw mut info) };
        assert_eq!(result, 0, "the signal: {}", std::io::Error::last_os_error());
        // SAFETY: the signal is one of a memory access.
        unsafe { info.si_addr() as u64 }
    }

    /// Makes the thread, which has been stopped by a signal or after a system call, execute a system call.
    pub(super) fn call(&self, number: libc::c_long, arguments: [u64; 3]) {
        let saved = self.registers();
        let [rdi, rsi, rdx] = arguments;
        let (rax, rip, orig_rax) = (number as u64, self.call_at, u64::MAX);
        self.set_registers(&user_regs_struct { rax, rip, orig_rax, rdi, rsi, rdx, ..saved });
        assert_eq!(self.step(), Stop::Signal(libc::SIGTRAP), "system call {number}");
        let result = self.registers().rax.cast_signed();
        assert!(result >= 0, "system call {number} with {arguments:x?}: {result}");
        self.set_registers(&saved);
    }

    /// Cancels the system call before which the thread has stopped.
    pub(super) fn skip_call(&self) {
        let saved = self.registers();
        self.set_registers(&user_regs_struct { orig_rax: u64::MAX, ..saved });
        assert_eq!(self.go_on(libc::PTRACE_SYSCALL), Stop::Call, "after no system call");
    }

    /// Lets the thread continue untraced to its end, which must be successful.
    pub(super) fn finish(mut self) {
        // SAFETY: lets a stopped child of this thread continue; there are no pointers.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.thread, 0, 0) };
        self.worker.finish_soon();
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        let _ = self.worker.0.kill();
        // The process has not ended before its tracer has seen the end of the thread.
        while let Some(Stop::Signal(_) | Stop::Call) = next_state(self.thread) {}
        let _ = self.worker.0.wait();
    }
}

/// Waits until a thread of a worker is traced; `None` if it may not be.
fn await_traced(worker: &mut Worker) -> Option<pid_t> {
    let (mut traced, mut ended) = (None, None);
    wait_for("a thread is traced", || {
        traced = traced_thread(worker.0.id());
        ended = worker.0.try_wait().expect("polling a worker");
        traced.is_some() || ended.is_some()
    });
    let code = ended.and_then(|status| status.code());
    assert!(traced.is_some() || code == Some(NOT_TRACEABLE), "a worker failed: {ended:?}");
    traced
}

/// The thread of a process that a tracer has stopped.
fn traced_thread(pid: u32) -> Option<pid_t> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut numbers = threads.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
    numbers.find(|number: &pid_t| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/task/{number}/status"));
        status.is_ok_and(|status| status.contains("State:\tt"))
    })
}

/// Waits until the state of a thread changes; `None` if it is not traced.
fn next_state(thread: pid_t) -> Option<Stop> {
    let mut status = 0;
    // SAFETY: `status` is a valid local variable.
    let found = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
    (found == thread).then(|| match libc::WSTOPSIG(status) {
        _ if !libc::WIFSTOPPED(status) => Stop::End(status),
        signal if signal & AT_CALL != 0 => Stop::Call,
        signal => Stop::Signal(signal),
    })
}
