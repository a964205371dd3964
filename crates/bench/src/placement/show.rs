//! The report as text: for each class and number of nodes, the ids that are spread least evenly.
use super::{Evenness, Placed, PlacementReport};
use crate::names::Named;
use crate::table::new_table;
use std::fmt;

const HEADINGS: &str =
    "kind|class|>nodes|>targets|ids|>max/mean|ideal|>stddev|>ideal|>node max/mean|ideal|>apart|>ns";

impl fmt::Display for PlacementReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.host)?;
        writeln!(
            f,
            "ids: those of each row that are spread least evenly; ideal: result of an ideal hash, 1% to 99%"
        )?;
        writeln!(f)?;
        let mut table = new_table(HEADINGS);
        let alike = self.placements.chunk_by(|one, next| one.is_like(next));
        alike.filter_map(worst).for_each(|placed| table.row(row(placed)));
        writeln!(f, "{}", table.text())?;
        writeln!(f)?;
        let uneven: Vec<_> = self.placements.iter().filter(|placed| placed.is_uneven()).collect();
        if uneven.is_empty() {
            return write!(
                f,
                "{} placements: all as even as by an ideal hash",
                self.placements.len()
            );
        }
        write!(
            f,
            "{} of {} placements are less even than by an ideal hash:",
            uneven.len(),
            self.placements.len()
        )?;
        uneven.iter().try_for_each(|placed| write!(f, "\n  {placed}"))
    }
}

impl fmt::Display for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ids, targets, nodes) = (self.ids.name(), &self.over_targets, &self.over_nodes);
        write!(
            f,
            "{} {} {ids} on {} nodes: stddev over targets {:.1} in place of {:.1}, over nodes {:.1} in place of {:.1}",
            self.kind.name(),
            self.class,
            self.nodes,
            targets.stddev,
            targets.ideal_stddev,
            nodes.stddev,
            nodes.ideal_stddev
        )
    }
}

impl Placed {
    /// True if only ids differ.
    fn is_like(&self, other: &Self) -> bool {
        (self.kind, &self.class, self.nodes) == (other.kind, &other.class, other.nodes)
    }
}

fn worst(alike: &[Placed]) -> Option<&Placed> {
    let fullest = |placed: &Placed| placed.over_targets.max_over_mean;
    alike.iter().max_by(|one, other| fullest(one).total_cmp(&fullest(other)))
}

fn row(placed: &Placed) -> [String; 13] {
    let (targets, nodes) = (&placed.over_targets, &placed.over_nodes);
    let ratio = |of: &Evenness| format!("{:.4}", of.max_over_mean);
    let band = |of: &Evenness| {
        let [low, high] = of.ideal_max_over_mean;
        format!("{low:.4} to {high:.4}")
    };
    [
        placed.kind.name(),
        placed.class.clone(),
        placed.nodes.to_string(),
        placed.targets.to_string(),
        placed.ids.name(),
        ratio(targets),
        band(targets),
        format!("{:.1}", targets.stddev),
        format!("{:.1}", targets.ideal_stddev),
        ratio(nodes),
        band(nodes),
        format!("{:.0}%", placed.apart * 100.0),
        format!("{:.1}", placed.ns),
    ]
}
