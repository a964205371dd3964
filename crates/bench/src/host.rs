//! The machine that a benchmark ran on.
use esker_cli::mounts::Mount;
use esker_cli::units::Bytes;
use esker_types::Result;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// The properties of a machine that figures depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Model of the processor.
    pub cpu: String,
    /// Processors this process may use.
    pub cpus: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// `memory`, `block` or `network`.
    pub medium: String,
    /// Type of the file system that was measured.
    pub file_system: String,
}

impl Host {
    /// This machine, and the medium of `folder`.
    ///
    /// # Errors
    /// If the directory does not exist.
    pub fn for_folder(folder: &Path) -> Result<Self> {
        let mount = Mount::for_path(folder)?;
        Ok(Self {
            cpu: cpu_in(&read("/proc/cpuinfo")),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory_bytes: memory_in(&read("/proc/meminfo"), "MemTotal"),
            medium: mount.media().name().to_owned(),
            file_system: mount.fs_type,
        })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = Bytes(self.memory_bytes);
        write!(f, "{} x {}, {memory}, Linux {}", self.cpus, self.cpu, self.kernel)
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Model name of the processor in the text of `/proc/cpuinfo`. If there is none, as on some architectures, the name of
/// the architecture.
fn cpu_in(text: &str) -> String {
    let name = text.lines().find_map(|line| value_of(line, "model name"));
    name.unwrap_or(std::env::consts::ARCH).to_owned()
}

/// Bytes of memory that programs can still allocate (`MemAvailable` of the kernel); 0 if unknown.
pub(crate) fn available_memory_bytes() -> u64 {
    memory_in(&read("/proc/meminfo"), "MemAvailable")
}

/// Bytes that the line `name` of a table in `/proc` gives in KiB; 0 if there is no such line.
pub(crate) fn memory_in(text: &str, name: &str) -> u64 {
    let size = text.lines().find_map(|line| value_of(line, name));
    let kib = size.and_then(|size| size.split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The value of a line `name: value`.
fn value_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (found, value) = line.split_once(':')?;
    (found.trim() == name).then_some(value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_tables_are_parsed() {
        assert_eq!(cpu_in("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n"), "Some CPU @ 2 GHz");
        assert_eq!(cpu_in("processor\t: 0\n"), std::env::consts::ARCH);
        assert_eq!(memory_in("MemFree: 1 kB\nMemTotal:       2048 kB\n", "MemTotal"), 2 << 20);
        assert_eq!(memory_in("", "MemTotal"), 0);
    }
}
