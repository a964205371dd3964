//! A model of engines and links, which predicts Field I/O on more nodes than are available.
//!
//! It is a closed network of queues, solved by mean value analysis (Reiser and Lavenberg, 1980). The customers are the
//! client processes, each with one field under way. A field visits one of the engines, one of the servers' links and
//! its client's link; all of a kind are equally likely, as placement of class S1 makes them. Between these visits it
//! waits for a time without queueing. The model assumes a network that sustains the bandwidth of all links.
use serde::{Deserialize, Serialize};

const MIB: f64 = (1u64 << 20) as f64;

/// Measured costs of one field.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Bandwidth of a link in MiB/s.
    pub link_mib_s: f64,
    /// Bandwidth of an engine's path to memory in MiB/s.
    pub engine_mib_s: f64,
    /// Time that an engine spends on the requests of a field, without its bytes, in microseconds.
    pub request_us: f64,
    /// Remaining time of a field, without queueing, in microseconds.
    pub wait_us: f64,
}

/// A system to predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct System {
    /// Nodes of the pool, each with an engine and a link.
    pub servers: u32,
    /// Nodes with client processes, each with a link.
    pub clients: u32,
    /// Processes on each of them.
    pub procs: u32,
}

/// Queues of one kind: their number, and for how long each serves a field.
struct Station {
    count: f64,
    seconds: f64,
    /// Fields in all of them.
    queued: f64,
}

impl Costs {
    /// Mean of both costs, for pattern B, in which half of the processes write and half read.
    #[must_use]
    pub fn mean(self, other: Self) -> Self {
        let mean = |of: fn(&Self) -> f64| f64::midpoint(of(&self), of(&other));
        // Times add up, bandwidths do not.
        let per_byte = |of: fn(&Self) -> f64| 2.0 / (1.0 / of(&self) + 1.0 / of(&other));
        Self {
            link_mib_s: per_byte(|costs| costs.link_mib_s),
            engine_mib_s: per_byte(|costs| costs.engine_mib_s),
            request_us: mean(|costs| costs.request_us),
            wait_us: mean(|costs| costs.wait_us),
        }
    }

    /// Bandwidth of all processes in MiB/s, with fields of `size` bytes.
    #[must_use]
    pub fn bandwidth(&self, system: System, size: u64) -> f64 {
        let mib = size as f64 / MIB;
        let (servers, clients) = (f64::from(system.servers), f64::from(system.clients));
        let station = |count, seconds| Station { count, seconds, queued: 0.0 };
        let link = mib / self.link_mib_s;
        let engine = mib / self.engine_mib_s + self.request_us / 1e6;
        let mut stations =
            [station(servers, engine), station(servers, link), station(clients, link)];
        let mut rate = 0.0;
        for fields in 1..=u64::from(system.clients) * u64::from(system.procs) {
            let times = stations.each_ref().map(Station::time);
            rate = fields as f64 / (times.iter().sum::<f64>() + self.wait_us / 1e6);
            stations.iter_mut().zip(times).for_each(|(one, time)| one.queued = rate * time);
        }
        rate * mib
    }
}

impl Station {
    /// Residence time of an arriving field, which finds the average number of fields in the queue.
    fn time(&self) -> f64 {
        self.seconds * (1.0 + self.queued / self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs =
        Costs { link_mib_s: 1000.0, engine_mib_s: 2000.0, request_us: 0.0, wait_us: 500.0 };

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 0.01, "{found}, expected {expected}");
    }

    #[test]
    fn one_process_waits_for_each_step() {
        // 0.5 ms in the engine, 1 ms in each link, 0.5 ms for nothing of these.
        let alone = System { servers: 1, clients: 1, procs: 1 };
        near(COSTS.bandwidth(alone, 1 << 20), 1000.0 / 3.0);
        let many = System { servers: 64, ..alone };
        near(COSTS.bandwidth(many, 1 << 20), 1000.0 / 3.0);
    }

    #[test]
    fn many_processes_saturate_slowest_resource() {
        let busy = System { servers: 1, clients: 8, procs: 100 };
        near(COSTS.bandwidth(busy, 1 << 20), 1000.0);
        let one_client = System { servers: 8, clients: 1, procs: 800 };
        near(COSTS.bandwidth(one_client, 1 << 20), 1000.0);
        let slow = Costs { request_us: 9500.0, ..COSTS };
        near(slow.bandwidth(busy, 1 << 20), 100.0);
    }

    #[test]
    fn bandwidth_grows_with_servers_but_not_beyond_them() {
        let of =
            |servers| COSTS.bandwidth(System { servers, clients: 2 * servers, procs: 36 }, 1 << 20);
        let rising: Vec<f64> = [1, 2, 4, 8, 16].map(of).to_vec();
        assert!(
            rising.is_sorted_by(|one, next| next > one && *next < 2.0 * one + 1.0),
            "{rising:?}"
        );
        assert!(rising[4] < 16_000.0 && rising[4] > 14_000.0, "{rising:?}");
    }

    #[test]
    fn mean_of_equal_costs_is_unchanged() {
        assert_eq!(COSTS.mean(COSTS), COSTS);
    }
}
