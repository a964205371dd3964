//! A model of the start of a pool over nodes: the time of the tree of starters, computed from the time of each step.
use esker_cli::nodes::bounds;
use std::time::Duration;

/// How long the steps of a start take.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// Creation of a process of this program. A starter creates one after the other.
    pub fork: Duration,
    /// From there until the starter on another node runs: connection, authentication, shell.
    pub connect: Duration,
    /// From there until the node is ready: its pool is created and its engine started.
    pub node: Duration,
    /// A message to another node and its reply.
    pub round_trip: Duration,
    /// From the time when all nodes are ready until one node has the map and is kept, without messages.
    pub publish: Duration,
}

/// Times that the model computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Depth of the tree of starters.
    pub depth: u32,
    /// Time until `esker pool create` knows that all nodes are ready.
    pub ready: Duration,
    /// Time until the command returns.
    pub total: Duration,
}

impl Steps {
    /// Models the start of `nodes` nodes, where each starter starts at most `fanout` others.
    pub fn start(&self, nodes: usize, fanout: usize) -> Outcome {
        let (depth, ready) = self.below(nodes, fanout);
        // All nodes receive the map and acknowledge it; then they are told to stay, and acknowledge that.
        let rounds = 2 * depth;
        let total = ready + self.publish + self.round_trip * rounds;
        Outcome { depth, ready, total }
    }

    /// Depth of the tree below a starter, and the time from its start until it knows that all nodes below are ready.
    fn below(&self, nodes: usize, fanout: usize) -> (u32, Duration) {
        let mut deepest = (0, Duration::ZERO);
        for (turn, range) in (1..).zip(bounds(nodes, fanout)) {
            if range.is_empty() {
                continue;
            }
            let (depth, others) = self.below(range.len() - 1, fanout);
            let begun = self.fork * turn + self.connect;
            let ready = begun + self.node.max(others) + self.round_trip / 2;
            deepest = (deepest.0.max(depth + 1), deepest.1.max(ready));
        }
        deepest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Steps {
        let ms = Duration::from_millis;
        Steps { fork: ms(1), connect: ms(100), node: ms(30), round_trip: ms(2), publish: ms(5) }
    }

    #[test]
    fn deepest_branch_determines_the_start_time() {
        let ms = Duration::from_millis;
        let one = steps().start(1, 8);
        assert_eq!(one, Outcome { depth: 1, ready: ms(132), total: ms(141) });
        assert_eq!(steps().start(8, 8).ready, ms(132 + 7));
        let nine = steps().start(9, 8);
        // The last branch, begun after 8 ms, has two nodes, one below the other.
        assert_eq!((nine.depth, nine.ready), (2, ms(8 + 100 + 132 + 1)));
        assert_eq!(steps().start(512, 8).depth, 3);
        assert!(steps().start(512, 512).ready > steps().start(512, 8).ready);
    }
}
