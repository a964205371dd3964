//! Starting programs, in the mount point and outside, and the environment they inherit.
use crate::answer::{Answer, Fail, refuse, to_c};
use crate::edge::{Text, Texts, export, real};
use crate::limits::{LINKS_MAX, PATH_MAX};
use crate::paths::{self, MountPath, shown};
use crate::serve::serve;
use crate::{config, copies, descriptors, internal, needed, process, raw, threads, unreached};
use dfs::{Follow, Open};
use esker_preload_interface::{File, Node};
use std::arch::naked_asm;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes of a script's first line that the kernel reads (Linux: `BINPRM_BUF_SIZE`).
const FIRST_LINE_MAX: usize = 256;

/// Interpreter of scripts that do not name one.
const SHELL: &CStr = c"/bin/sh";

/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;

/// A program to start, its arguments and its environment, in a form that the kernel can run.
pub(crate) struct Program {
    pub(crate) path: CString,
    pub(crate) arguments: Vec<CString>,
    pub(crate) environment: Vec<CString>,
    /// Descriptor of a copy in memory, or -1.
    copy: c_int,
}

impl Program {
    /// Copies the arguments of an `exec` call, and adds the variables of this library to the environment.
    pub(crate) fn new(path: &CStr, arguments: Texts, environment: Texts) -> Self {
        let own = |list: Texts| list.list().into_iter().map(CStr::to_owned).collect();
        let environment = with_our_variables(own(environment));
        Self { path: path.to_owned(), arguments: own(arguments), environment, copy: -1 }
    }

    /// Replaces a path in the mount point by a program that the kernel can run: a script's interpreter, or a copy in
    /// memory (`memfd`). For a program outside, copies the libraries in the mount point that it needs.
    pub(crate) fn reach(&mut self) -> Answer<()> {
        for _ in 0..LINKS_MAX {
            let path = self.path.to_bytes();
            if !paths::is_ours(libc::AT_FDCWD, path) {
                if self.reach_interpreter()? {
                    continue;
                }
                unreached::warn(&self.path);
                self.reach_libraries();
                return Ok(());
            }
            let found = MountPath::new(libc::AT_FDCWD, path)
                .and_then(|path| path.with_node(Follow::All, |node| open_program(&node)));
            match found {
                Ok(file) => self.reach_file(&file)?,
                Err(Fail::Outside(host)) => {
                    self.path = CString::new(host).or_else(|_| refuse(libc::ENOENT))?;
                }
                Err(error) => return Err(error),
            }
        }
        refuse(libc::ELOOP)
    }

    /// Makes the kernel run `file` of the mount point: a script by its interpreter, any other program by a copy in
    /// memory.
    fn reach_file(&mut self, file: &File) -> Answer<()> {
        let node = file.node();
        let mut first = [0; FIRST_LINE_MAX];
        let length = file.read_at(0, &mut first)?;
        match interpreter(&first[..length]) {
            Some((interpreter, argument)) => {
                self.run_by(interpreter, argument, self.script(node)?)?;
            }
            None => {
                self.copy = internal::keep(copy(file, &node.name()?)?);
                let path = format!("/proc/self/fd/{}", self.copy);
                // A program without a name has no directory to search.
                let known = node.path().map_or_else(|_| Vec::new(), |path| shown(&path));
                needed::add(Path::new(&path), &known, &mut self.environment);
                self.path = c_string(path.into_bytes())?;
            }
        }
        Ok(())
    }

    /// Replaces a script outside of the mount point by its interpreter, if that is in the mount point: the kernel would
    /// not find it. False for any other program.
    fn reach_interpreter(&mut self) -> Answer<bool> {
        let mut first = [0; FIRST_LINE_MAX];
        match interpreter(first_bytes(&self.path, &mut first)) {
            Some((interpreter, argument))
                if paths::is_ours(libc::AT_FDCWD, interpreter) && may_run(self.path.to_bytes()) =>
            {
                self.run_by(interpreter, argument, self.path.clone())?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Replaces a script by its interpreter, as the kernel does: `script` is the argument that names the script.
    fn run_by(
        &mut self,
        interpreter: &[u8],
        argument: Option<&[u8]>,
        script: CString,
    ) -> Answer<()> {
        let rest = self.arguments.split_off(self.arguments.len().min(1));
        let mut arguments = vec![c_string(interpreter.to_vec())?];
        arguments.extend(argument.map(|text| c_string(text.to_vec())).transpose()?);
        arguments.push(script);
        arguments.extend(rest);
        (self.path, self.arguments) = (arguments[0].clone(), arguments);
        Ok(())
    }

    /// Replaces the path of a copy in memory by `/proc/PID/fd/N` of this process. The path `/proc/self/fd/N` would fail in
    /// a child of `posix_spawn` whose file actions close or replace descriptor N.
    pub(crate) fn reach_from_child(&mut self) -> Answer<()> {
        if self.copy >= 0 {
            let mut room = [0; 32];
            let own = raw::read_link(c"/proc/self", &mut room)?;
            let path = [b"/proc/", own, format!("/fd/{}", self.copy).as_bytes()].concat();
            self.path = c_string(path)?;
        }
        Ok(())
    }

    /// Copies the libraries in the mount point that a program outside of it needs, and lets the loader find the copies
    /// through the environment. Does nothing for a copy in memory, whose libraries were copied with it.
    fn reach_libraries(&mut self) {
        if self.copy < 0 {
            let path = self.path.to_bytes();
            needed::add(Path::new(OsStr::from_bytes(path)), path, &mut self.environment);
        }
    }

    /// Returns the argument by which the interpreter finds the script: the path as the program passed it, as in the
    /// kernel.
    fn script(&self, node: &Node) -> Answer<CString> {
        match self.path.is_empty() {
            true => c_string(shown(&node.path()?)),
            false => Ok(self.path.clone()),
        }
    }

    /// Closes the copy in memory, which stays open in the process that runs it.
    pub(crate) fn close_copy(&self) {
        if self.copy >= 0 {
            internal::forget(self.copy);
            raw::close(self.copy);
        }
    }

    /// Calls `work` with the path, the arguments and the environment in the form of C.
    pub(crate) fn with<T>(&self, work: impl FnOnce(Text, Texts, Texts) -> T) -> T {
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        work(
            Text::from_c_str(&self.path),
            Texts::from_pointers(&arguments),
            Texts::from_pointers(&environment),
        )
    }
}

/// Reads the first bytes of a file outside of the mount point; none if it cannot be read.
fn first_bytes<'a>(path: &CStr, room: &'a mut [u8]) -> &'a [u8] {
    // A fifo is not opened by a program, so the open must not wait for one.
    let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let Ok(fd) = raw::open(path, flags, 0) else { return &[] };
    let length = raw::read_at(fd, room, 0);
    raw::close(fd);
    &room[..length.unwrap_or(0)]
}

/// Fails with `EACCES` unless the node is a regular file with an execute permission.
fn check_program(node: &Node) -> Answer<()> {
    // Like Linux for root: one execute permission, of any user, is enough.
    match node.kind() == dfs::Kind::File && node.attr()?.allows(0, &[], dfs::EXECUTE) {
        true => Ok(()),
        false => refuse(libc::EACCES),
    }
}

/// Opens a file that exec is to run, for reading. `EACCES` if it is not executable.
fn open_program(node: &Node) -> Answer<File> {
    check_program(node)?;
    Ok(node.open(Open::READ)?)
}

fn c_string(bytes: Vec<u8>) -> Answer<CString> {
    CString::new(bytes).or_else(|_| refuse(libc::EINVAL))
}

/// Pointers to C strings, followed by the null pointer that ends a list such as `argv`.
pub(crate) fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// The interpreter of a script and its optional argument; `None` if the first line does not begin with `#!`.
fn interpreter(first: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let line = first.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let argument = Some(line[end..].trim_ascii()).filter(|argument| !argument.is_empty());
    Some((&line[..end], argument))
}

/// Copies a program to an anonymous file in memory, which exec can run, and returns its descriptor.
fn copy(file: &File, name: &[u8]) -> Answer<c_int> {
    // A name of `memfd_create` may have 249 bytes.
    let name = c_string(name[..name.len().min(200)].to_vec())?;
    let fd = raw::anonymous(&name, libc::MFD_CLOEXEC)?;
    let (mut room, mut offset) = (vec![0; CHUNK], 0);
    loop {
        let length = file.read_at(offset, &mut room)?;
        let mut part = &room[..length];
        while !part.is_empty() {
            part = &part[raw::write(fd, part)?..];
        }
        offset += length as u64;
        if length < room.len() {
            return Ok(fd);
        }
    }
}

/// Adds the variables of `esker run` to an environment. Variables that the program changed stay; only `LD_PRELOAD` gets
/// this library appended if it lacks it.
pub(crate) fn with_our_variables(mut environment: Vec<CString>) -> Vec<CString> {
    for ours in &config::get().variables {
        let ours_bytes = ours.to_bytes();
        let name_end = ours_bytes.iter().position(|byte| *byte == b'=').map_or(0, |at| at + 1);
        let (name, value) = ours_bytes.split_at(name_end);
        let found = environment.iter_mut().find(|text| text.to_bytes().starts_with(name));
        match found {
            None => environment.push(ours.clone()),
            Some(text) if name == b"LD_PRELOAD=" && !contains(text.to_bytes(), value) => {
                let both = [text.to_bytes(), b":", value].concat();
                *text = CString::new(both).unwrap_or_else(|_| ours.clone());
            }
            Some(_) => {}
        }
    }
    environment
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len().max(1)).any(|window| window == part)
}

mod c {
    use super::{Text, Texts, c_int, real};

    real! {
        fn execve(path: Text, arguments: Texts, environment: Texts) -> c_int;
        fn execvpe(file: Text, arguments: Texts, environment: Texts) -> c_int;
    }
}

/// Serves `execve`, for a program in the mount point or outside. Returns -1 if that fails.
pub(crate) fn run(path: &CStr, arguments: Texts, environment: Texts) -> c_int {
    let program = serve_program(|| {
        let mut program = Program::new(path, arguments, environment);
        program.reach()?;
        Ok(program)
    });
    execute(program, c::execve)
}

/// Executes a prepared program by `exec`, a function of the C library. Returns -1 if that fails.
fn execute(program: Answer<Program>, exec: impl FnOnce(Text, Texts, Texts) -> c_int) -> c_int {
    match program {
        Ok(program) => {
            process::before_exec();
            let result = program.with(exec);
            program.close_copy();
            result
        }
        Err(error) => to_c(Err(error)),
    }
}

/// Runs `work`, which prepares a program, inside the store. The report does not count it as a served call.
pub(crate) fn serve_program<T>(work: impl FnOnce() -> Answer<T>) -> Answer<T> {
    crate::threads::inside(work)
}

/// Serves `execvp` and `execvpe`: searches `PATH` for a program, as a shell does. The C library searches, unless the
/// first directory that has the program is ours.
pub(crate) fn search(file: Text, arguments: Texts, environment: Texts) -> c_int {
    let Some(name) = file.c_str() else { return to_c(refuse(libc::EFAULT)) };
    if name.to_bytes().contains(&b'/') {
        return run_or_interpret(name, arguments, environment);
    }
    if let Ok(path) = serve_program(|| in_our_folders(name.to_bytes())) {
        return run_or_interpret(&path, arguments, environment);
    }
    execute(serve_program(|| found_by_name(name, arguments, environment)), c::execvpe)
}

/// A program for which the C library searches the directories of `PATH`, after none of ours had it. Its environment
/// names copies of the libraries in the mount point that it needs. A script whose interpreter is in the mount point
/// becomes that interpreter.
pub(crate) fn found_by_name(name: &CStr, arguments: Texts, environment: Texts) -> Answer<Program> {
    let Some(path) = unreached::warn_found(name) else {
        return Ok(Program::new(name, arguments, environment));
    };
    let mut script = Program::new(&copies::c_string(&path)?, arguments, environment);
    if script.reach_interpreter()? {
        script.reach()?;
        return Ok(script);
    }
    let mut program = Program::new(name, arguments, environment);
    needed::add(&path, path.as_os_str().as_bytes(), &mut program.environment);
    Ok(program)
}

/// Runs a program. Like other functions that search `PATH`, runs a file that the kernel refuses (`ENOEXEC`) as a script
/// of the shell.
fn run_or_interpret(path: &CStr, arguments: Texts, environment: Texts) -> c_int {
    let result = run(path, arguments, environment);
    if threads::errno() != libc::ENOEXEC {
        return result;
    }
    let rest = arguments.list().into_iter().skip(1);
    let with_shell: Vec<_> = [SHELL, path].into_iter().chain(rest).map(CStr::as_ptr).collect();
    let with_shell = [&with_shell[..], &[std::ptr::null()]].concat();
    run(SHELL, Texts::from_pointers(&with_shell), environment)
}

/// Path of the program of this name, if the first directory of `PATH` that has it is ours. `ENOENT` otherwise: then the
/// C library has to search.
pub(crate) fn in_our_folders(name: &[u8]) -> Answer<CString> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders = folders.as_bytes();
    let paths = || folders.split(|byte| *byte == b':').map(|folder| in_folder(folder, name));
    let is_ours = |path: &[u8]| paths::is_ours(libc::AT_FDCWD, path);
    if !paths().any(|path| is_ours(&path)) {
        return refuse(libc::ENOENT);
    }
    for path in paths().filter(|path| path.len() < PATH_MAX) {
        if !is_ours(&path) {
            if may_run(&path) {
                return refuse(libc::ENOENT);
            }
        } else if may_run_ours(&path) {
            return c_string(path);
        }
    }
    refuse(libc::ENOENT)
}

/// The path of a program in a directory of `PATH`. An empty directory name means the working directory.
fn in_folder(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

/// True if the user may execute the file at `path`, which is outside the mount point.
fn may_run(path: &[u8]) -> bool {
    // SAFETY: the path ends with a zero byte.
    c_string(path.to_vec())
        .is_ok_and(|path| unsafe { libc::access(path.as_ptr(), libc::X_OK) } == 0)
}

/// True if a path in the mount point, or the outside target of a link there, can be run.
fn may_run_ours(path: &[u8]) -> bool {
    let found = MountPath::new(libc::AT_FDCWD, path)
        .and_then(|path| path.with_node(Follow::All, |node| check_program(&node)));
    match found {
        Err(Fail::Outside(host)) => may_run(&host),
        found => found.is_ok(),
    }
}

/// The environment of this process.
pub(crate) fn environment() -> Texts {
    // SAFETY: the C library has this variable, of this type.
    unsafe extern "C" {
        static environ: Texts;
    }
    // SAFETY: it is the C library's variable. POSIX forbids programs to change it while another thread calls exec.
    unsafe { environ }
}

/// Serves `fexecve` and `execveat` for a program in the mount point, which `open` opens.
fn run_found(open: impl FnOnce() -> Answer<File>, arguments: Texts, environment: Texts) -> c_int {
    let program = serve(|| {
        let mut program = Program::new(c"", arguments, environment);
        program.reach_file(&open()?)?;
        // The interpreter of a script may be in the mount point, too.
        program.reach()?;
        Ok(program)
    });
    execute(program, c::execve)
}

export! {
    fn execve(path: Text, arguments: Texts, environment: Texts) -> c_int | next {
        match path.c_str() {
            Some(path) => run(path, arguments, environment),
            None => next(path, arguments, environment),
        }
    }

    fn execv(path: Text, arguments: Texts) -> c_int | next {
        match path.c_str() {
            Some(path) => run(path, arguments, environment()),
            None => next(path, arguments),
        }
    }

    fn execvp(file: Text, arguments: Texts) -> c_int | _next {
        search(file, arguments, environment())
    }

    fn execvpe(file: Text, arguments: Texts, environment: Texts) -> c_int | _next {
        search(file, arguments, environment)
    }

    fn fexecve(fd: c_int, arguments: Texts, environment: Texts) -> c_int | next {
        match descriptors::is_ours(fd) {
            true => run_found(|| open_program(&descriptors::get(fd)?.node()?), arguments, environment),
            false => {
                process::before_exec();
                let program = Program::new(c"", arguments, environment);
                program.with(|_, arguments, environment| next(fd, arguments, environment))
            }
        }
    }

    fn execveat(
        dir: c_int, path: Text, arguments: Texts, environment: Texts, flags: c_int,
    ) -> c_int | next {
        let Some(name) = path.c_str() else { return to_c(refuse(libc::EFAULT)) };
        let names_itself = name.is_empty() && flags & libc::AT_EMPTY_PATH != 0;
        match () {
            () if names_itself && descriptors::is_ours(dir) => {
                run_found(|| open_program(&descriptors::get(dir)?.node()?), arguments, environment)
            }
            () if paths::is_ours(dir, name.to_bytes()) => {
                let follow = if flags & libc::AT_SYMLINK_NOFOLLOW != 0 { Follow::AllButLast } else { Follow::All };
                let find = || MountPath::new(dir, name.to_bytes())?.with_node(follow, |node| open_program(&node));
                run_found(find, arguments, environment)
            }
            () => {
                process::before_exec();
                let program = Program::new(name, arguments, environment);
                program.with(|path, arguments, environment| next(dir, path, arguments, environment, flags))
            }
        }
    }
}

/// Arguments after the path that are passed in registers.
#[cfg(target_arch = "x86_64")]
const IN_REGISTERS: usize = 5;
#[cfg(target_arch = "aarch64")]
const IN_REGISTERS: usize = 7;

/// Reads the arguments of `execl` and similar functions, up to and with their null pointer. Also returns the word after
/// it, which is the environment of `execle`. `registers` has the first arguments, `stack` the others.
///
/// # Safety
/// `registers` must point to [`IN_REGISTERS`] words, and a null pointer must end the arguments.
unsafe fn gather(
    registers: *const *const c_char,
    stack: *const *const c_char,
) -> (Vec<*const c_char>, *const c_char) {
    // SAFETY: the caller guarantees it.
    let argument = |at: usize| unsafe {
        match at.checked_sub(IN_REGISTERS) {
            None => *registers.add(at),
            Some(behind) => *stack.add(behind),
        }
    };
    let mut arguments = Vec::new();
    while arguments.last().is_none_or(|last: &*const c_char| !last.is_null()) {
        arguments.push(argument(arguments.len()));
    }
    let behind = argument(arguments.len());
    (arguments, behind)
}

/// Defines a function that calls `$answer` with the path and the positions of its arguments: the first ones are in
/// registers, the others on the stack.
macro_rules! listed {
    ($($name:ident $answer:ident;)*) => {$(
        /// # Safety
        /// The requirements of the function of this name in the C library.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                "sub rsp, 56", "mov [rsp], rsi", "mov [rsp + 8], rdx", "mov [rsp + 16], rcx",
                "mov [rsp + 24], r8", "mov [rsp + 32], r9", "mov rsi, rsp", "lea rdx, [rsp + 64]",
                "call {answer}", "add rsp, 56", "ret", answer = sym $answer,
            );
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                "stp x29, x30, [sp, #-80]!", "stp x1, x2, [sp, #16]", "stp x3, x4, [sp, #32]",
                "stp x5, x6, [sp, #48]", "str x7, [sp, #64]", "add x1, sp, #16", "add x2, sp, #80",
                "bl {answer}", "ldp x29, x30, [sp], #80", "ret", answer = sym $answer,
            );
        }
    )*};
}

listed! {
    execl run_listed;
    execlp search_listed;
    execle run_listed_with;
}

type ArgumentWords = *const *const c_char;

/// Runs the program of a call such as `execl`, whose arguments are in registers and on the stack.
extern "C" fn run_listed(path: Text, registers: ArgumentWords, stack: ArgumentWords) -> c_int {
    // SAFETY: one of the functions above passed them from C.
    let (arguments, _) = unsafe { gather(registers, stack) };
    match path.c_str() {
        Some(path) => run(path, Texts::from_pointers(&arguments), environment()),
        None => to_c(refuse(libc::EFAULT)),
    }
}

/// Serves `execlp`: like `run_listed`, but searches `PATH` for the program.
extern "C" fn search_listed(file: Text, registers: ArgumentWords, stack: ArgumentWords) -> c_int {
    // SAFETY: one of the functions above passed them from C.
    let (arguments, _) = unsafe { gather(registers, stack) };
    search(file, Texts::from_pointers(&arguments), environment())
}

/// Serves `execle`: like `run_listed`, but the environment follows the arguments.
extern "C" fn run_listed_with(path: Text, registers: ArgumentWords, stack: ArgumentWords) -> c_int {
    // SAFETY: one of the functions above passed them from C.
    let (arguments, environment) = unsafe { gather(registers, stack) };
    match path.c_str() {
        Some(path) => run(path, Texts::from_pointers(&arguments), Texts::at(environment)),
        None => to_c(refuse(libc::EFAULT)),
    }
}
