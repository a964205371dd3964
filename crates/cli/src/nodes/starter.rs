//! A starter: the process that starts its node and the starters below it while the pool is being created.
use super::order::{Down, Order, Own, Place, State, Up, read_order, to_line};
use super::start_node::{ForwardedSignals, StartedNode};
use super::tree::Tree;
use esker::types::{Error, ErrorKind, Result};
use esker_os::start_thread;
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Variables in which launchers tell a process its rank.
const RANKS: [&str; 4] = ["SLURM_PROCID", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"];

/// Variable in which Slurm tells a process the name of its node.
const SLURM_NODE: &str = "SLURMD_NODENAME";

/// Executes the messages on standard input, and reports on standard output.
pub(crate) fn run() -> Result<()> {
    // A launcher may wait until all processes have closed its files, but the engine stays.
    esker_os::keep_from_programs();
    let mut lines = std::io::stdin().lock().lines().map_while(std::io::Result::ok);
    let order = read_order(&lines.next().unwrap_or_default())?;
    let (reports, reported) = channel();
    let writer = start_thread(move || write_reports(&reported))?;
    let own = own_place(&order)?;
    let signals = match order.own {
        Own::First => None,
        Own::Ranked => Some(ForwardedSignals::new()?),
    };
    let others = if order.own == Own::First { order.places.get(1..) } else { None };
    let tree = Tree::grow(&order, others.unwrap_or_default(), &reports);
    let mut starter = Starter { own: Node::start(order, own, &reports), tree };
    let kept = starter.obey(lines.filter_map(|line| serde_json::from_str(&line).ok()));
    let Starter { own, tree } = starter;
    let raised = own.end(kept);
    tree.end();
    drop(reports);
    let _ = writer.join();
    if let Some(raised) = raised {
        raised.wait(signals);
    }
    Ok(())
}

/// Passes the reports of the nodes, one a line, to the starter above this one, by standard output.
fn write_reports(reported: &Receiver<Up>) {
    let mut out = std::io::stdout();
    for up in reported {
        // If the write fails, the starter above is gone: the end of the input tells this one to remove everything.
        let _ = out.write_all(to_line(&up).as_bytes()).and_then(|()| out.flush());
    }
}

/// The place of this starter's own node in the order.
fn own_place(order: &Order) -> Result<Place> {
    let variable = |name| std::env::var(name).ok();
    let by_name = || {
        let name = variable(SLURM_NODE)?;
        order.places.iter().find(|place| place.host == name)
    };
    let by_rank = || {
        let rank: usize = RANKS.iter().find_map(|name| variable(name))?.parse().ok()?;
        order.places.get(rank)
    };
    let own = match order.own {
        Own::First => order.places.first(),
        Own::Ranked => by_name().or_else(by_rank),
    };
    own.cloned().ok_or_else(|| {
        let message = "the launcher did not say which node this is: use --launcher ssh";
        Error::new(ErrorKind::NotSupported, message)
    })
}

struct Starter {
    own: Node,
    tree: Tree,
}

impl Starter {
    /// Executes messages until the last one. True if pools and engines are to stay.
    fn obey(&mut self, told: impl Iterator<Item = Down>) -> bool {
        for down in told {
            self.tree.tell(&down);
            match down {
                Down::Start(_) => {}
                Down::Publish(map) => self.own.publish(&map),
                Down::Keep => return true,
                Down::Abandon => return false,
            }
        }
        // The input ended before `Keep`: the process that started this starter is gone.
        self.tree.tell(&Down::Abandon);
        false
    }
}

/// The starter's own node. It starts in parallel with the nodes below it.
struct Node {
    place: Place,
    order: Order,
    starting: Option<JoinHandle<Option<StartedNode>>>,
    raised: Option<StartedNode>,
    reports: Sender<Up>,
}

impl Node {
    /// Starts the engine of this node on a thread of its own.
    fn start(order: Order, place: Place, reports: &Sender<Up>) -> Self {
        let (thread_order, node) = (order.clone(), place.clone());
        let to = reports.clone();
        let starting = start_thread(move || {
            let detach = thread_order.own == Own::First;
            let raised = StartedNode::start(&thread_order, &node, detach);
            let state = match &raised {
                Ok(StartedNode { ready, .. }) => {
                    State::Ready { address: ready.address.clone(), uuid: ready.uuid }
                }
                Err(error) => State::from_error(error),
            };
            let _ = to.send(Up { node: node.number, state });
            raised.ok()
        });
        let this = Self { place, order, starting: None, raised: None, reports: reports.clone() };
        match starting {
            Ok(starting) => Self { starting: Some(starting), ..this },
            Err(error) => {
                this.report(State::from_error(&error));
                this
            }
        }
    }

    fn report(&self, state: State) {
        let _ = self.reports.send(Up { node: self.place.number, state });
    }

    /// Waits until the node has started or failed.
    fn await_start(&mut self) {
        if let Some(starting) = self.starting.take() {
            self.raised = starting.join().ok().flatten();
        }
    }

    /// Writes the map beside the pool of this node. If that fails, the engine is ended.
    fn publish(&mut self, map: &esker_nodes::Map) {
        self.await_start();
        let Some(raised) = &mut self.raised else { return };
        match raised.publish(map, &self.order.pool.directory) {
            Ok(()) => self.report(State::Published),
            Err(error) => {
                let why = State::from_error(&error);
                // The error of writing the map is reported, not one of removing the pool after it.
                let _ = self.raised.take().map(StartedNode::abandon);
                self.report(why);
            }
        }
    }

    /// Keeps the node's pool and engine, or removes them. Returns an engine for which the starter must wait.
    fn end(mut self, keep: bool) -> Option<StartedNode> {
        self.await_start();
        let raised = self.raised.take()?;
        if keep {
            self.report(State::Kept);
            return (self.order.own == Own::Ranked).then_some(raised);
        }
        match raised.abandon() {
            Ok(()) => self.report(State::Removed),
            Err(error) => self.report(State::from_error(&error)),
        }
        None
    }
}
