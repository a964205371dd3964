//! Cycles in a directed graph whose edges have a kind.
use std::collections::VecDeque;

/// A directed graph of numbered nodes.
pub(super) struct Graph<E> {
    edges: Vec<Vec<(usize, E)>>,
}

/// The nodes of a cycle, each with the kind of the edge to the next.
pub(super) type Cycle<E> = Vec<(usize, E)>;

impl<E: Copy> Graph<E> {
    pub(super) fn new(nodes: usize) -> Self {
        Self { edges: (0..nodes).map(|_| Vec::new()).collect() }
    }

    /// Adds an edge, unless it leads from a node to itself.
    pub(super) fn add(&mut self, from: usize, to: usize, kind: E) {
        if from != to {
            self.edges[from].push((to, kind));
        }
    }

    /// A cycle with the fewest edges; `None` if the graph has no cycles.
    pub(super) fn shortest_cycle(&self) -> Option<Cycle<E>> {
        let rest = self.nodes_behind_cycles();
        let starts = (0..self.edges.len()).filter(|node| rest[*node]);
        starts.filter_map(|start| self.cycle_through(start, &rest)).min_by_key(Vec::len)
    }

    /// Nodes that remain after repeated removal of all nodes without an incoming edge: those of cycles, and those
    /// reachable from cycles.
    fn nodes_behind_cycles(&self) -> Vec<bool> {
        let mut incoming = vec![0_usize; self.edges.len()];
        self.edges.iter().flatten().for_each(|(to, _)| incoming[*to] += 1);
        let mut rest = vec![true; self.edges.len()];
        let mut free: Vec<_> = (0..incoming.len()).filter(|node| incoming[*node] == 0).collect();
        while let Some(node) = free.pop() {
            rest[node] = false;
            for (to, _) in &self.edges[node] {
                incoming[*to] -= 1;
                if incoming[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        rest
    }

    /// The shortest cycle through a node, by a breadth-first search.
    fn cycle_through(&self, start: usize, allowed: &[bool]) -> Option<Cycle<E>> {
        let mut reached_by: Vec<Option<(usize, E)>> = vec![None; self.edges.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for (to, kind) in self.edges[node].iter().filter(|(to, _)| allowed[*to]) {
                if reached_by[*to].is_none() {
                    reached_by[*to] = Some((node, *kind));
                    queue.push_back(*to);
                }
                if *to == start {
                    return Some(path_back(start, &reached_by));
                }
            }
        }
        None
    }
}

/// The path from a node to itself, followed backwards. `reached_by` has, for each node, the node and the edge from
/// which the search reached it.
fn path_back<E: Copy>(start: usize, reached_by: &[Option<(usize, E)>]) -> Cycle<E> {
    let (mut cycle, mut at) = (Vec::new(), start);
    while let Some((from, kind)) = reached_by[at] {
        cycle.push((from, kind));
        at = from;
        if at == start {
            break;
        }
    }
    cycle.reverse();
    cycle
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(usize, usize)]) -> Graph<char> {
        let mut graph = Graph::new(10);
        edges.iter().for_each(|(from, to)| graph.add(*from, *to, 'e'));
        graph
    }

    #[test]
    fn a_graph_without_a_cycle_has_none() {
        assert_eq!(graph(&[(0, 1), (1, 2), (0, 2), (3, 3)]).shortest_cycle(), None);
    }

    #[test]
    fn the_shortest_of_several_cycles_is_found() {
        let long = [(0, 1), (1, 2), (2, 3), (3, 0)];
        let both = [&long[..], &[(5, 6), (6, 7), (7, 5), (3, 5)]].concat();
        assert_eq!(graph(&long).shortest_cycle().map(|cycle| cycle.len()), Some(4));
        assert_eq!(graph(&both).shortest_cycle(), Some(vec![(5, 'e'), (6, 'e'), (7, 'e')]));
    }
}
