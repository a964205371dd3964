//! Pins the processes of a benchmark to processors.
use crate::errors::{Doing, ensure_valid};
use esker_types::Result;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeMap;

/// Assignment of processes to processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pin {
    /// Alternates between sockets, one core per process as long as there are free cores.
    Sockets,
    /// Fills the cores of the first socket before the next.
    Cores,
    /// Leaves the placement to the kernel.
    None,
}

impl Pin {
    /// The processors of the first, second, ... process. Further processes start again at the first.
    pub fn order(self) -> Result<Vec<u32>> {
        if self == Self::None {
            return Ok(Vec::new());
        }
        let allowed = sched_getaffinity(None).doing(|| "reading the processor affinity")?;
        let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        let cpus: Vec<_> = cpus.filter_map(|cpu| u32::try_from(cpu).ok()).collect();
        Ok(self.order_of(&cpus, socket_of))
    }

    /// Order in which processes are pinned to `cpus`: one socket after the other, or alternating. `socket_of` returns
    /// the socket of a processor.
    fn order_of(self, cpus: &[u32], socket_of: impl Fn(u32) -> u32) -> Vec<u32> {
        let mut sockets = BTreeMap::<u32, Vec<u32>>::new();
        for &cpu in cpus {
            sockets.entry(socket_of(cpu)).or_default().push(cpu);
        }
        match self {
            Self::Cores => sockets.into_values().flatten().collect(),
            _ => {
                let deepest = sockets.values().map(Vec::len).max().unwrap_or(0);
                let row = |index| sockets.values().filter_map(move |cpus| cpus.get(index).copied());
                (0..deepest).flat_map(row).collect()
            }
        }
    }
}

/// The processor of a process by the list of [`Pin::order`]; none if the list is empty.
pub fn cpu_of(cpus: &[u32], rank: u32) -> Option<u32> {
    cpus.get(rank as usize % cpus.len().max(1)).copied()
}

/// Pins this process to one processor.
pub fn to(cpu: u32) -> Result<()> {
    let number = cpu as usize;
    ensure_valid(number < CpuSet::MAX_CPU, || format!("there is no processor {cpu}"))?;
    let mut set = CpuSet::new();
    set.set(number);
    sched_setaffinity(None, &set).doing(|| format!("pinning to processor {cpu}"))
}

/// The socket of a processor; 0 if the system does not report it.
fn socket_of(cpu: u32) -> u32 {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::ErrorKind;

    #[test]
    fn processes_alternate_between_sockets_or_fill_them() {
        let socket_of = |cpu| cpu / 4;
        let cpus = [0, 1, 2, 4, 5];
        assert_eq!(Pin::Sockets.order_of(&cpus, socket_of), [0, 4, 1, 5, 2]);
        assert_eq!(Pin::Cores.order_of(&cpus, socket_of), [0, 1, 2, 4, 5]);
        assert_eq!(Pin::None.order().unwrap(), [0; 0]);
    }

    #[test]
    fn process_can_be_pinned_to_allowed_processor() {
        let first = Pin::Sockets.order().unwrap()[0];
        std::thread::spawn(move || {
            to(first).unwrap();
            assert_eq!(Pin::Cores.order().unwrap(), [first]);
        })
        .join()
        .unwrap();
        assert_eq!(to(1 << 20).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
