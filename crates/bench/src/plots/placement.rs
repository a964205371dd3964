//! Charts of `esker bench placement`: how full the fullest target and node are, beside an ideal hash.
use crate::names::Named;
use crate::placement::{Evenness, Kind, Placed};
use crate::plots::chart::{Axis, Chart, LIMIT, Panel, Point, Series};
use crate::plots::page::Table;
use crate::plots::results::Results;
use crate::plots::sweep::grouped_by;
use crate::plots::words::{capital, short};
use crate::plots::{Figure, Figures, distinct, ticks_at};
use esker_types::Result;

/// Label of the range of ideal hashes.
const IDEAL: &str = "an ideal hash, 1% and 99%";

/// Targets or nodes.
type Bins = fn(&Placed) -> (u32, &Evenness);

const BINS: [(&str, Bins); 2] = [
    ("targets", |placed| (placed.targets, &placed.over_targets)),
    ("nodes", |placed| (placed.nodes, &placed.over_nodes)),
];

/// The number above 1 as a percentage.
fn excess(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

impl Figures {
    /// One chart for each kind and class of objects; none if nothing was placed.
    ///
    /// # Errors
    /// If a chart cannot be drawn.
    pub fn placements(&mut self, file: &Results) -> Result<Vec<Figure>> {
        let key = |placed: &Placed| (placed.kind, placed.class.clone());
        let groups = grouped_by(&file.placements, key);
        groups.iter().map(|(_, group)| self.placement(group)).collect()
    }

    fn placement(&mut self, group: &[&Placed]) -> Result<Figure> {
        let first = group[0];
        let (objects, dkeys) = (short(first.objects as f64), short(f64::from(first.dkeys)));
        let what = match first.kind {
            Kind::Kv => format!("{objects} Key-Values of {dkeys} keys"),
            Kind::Array => format!("{objects} Arrays of {dkeys} chunks"),
        };
        let chart = Chart {
            title: format!("Fullest target and node: class {}, {what}", first.class),
            x_label: "number of them".to_owned(),
            y_label: "above the mean (%)".to_owned(),
            axis: Axis::Log,
            ticks: ticks_at(group.iter().flat_map(|placed| [placed.nodes, placed.targets])),
            panels: BINS.map(|(title, bins)| self.bins(title, group, bins)).to_vec(),
        };
        let stem = format!("placement-{}", first.class.to_lowercase());
        self.figure(&stem, chart, sentence(group))
    }

    fn bins(&mut self, title: &str, group: &[&Placed], bins: Bins) -> Panel {
        let names = distinct(group.iter().map(|placed| placed.ids.name()));
        let of_name = |name: &String| {
            let of_ids = group.iter().filter(|placed| placed.ids.name() == *name);
            let points = of_ids.map(|placed| {
                let (count, evenness) = bins(placed);
                Point::single(f64::from(count), excess(evenness.max_over_mean))
            });
            let label = format!("{name} ids");
            Series { style: self.palette.style(&label), points: points.collect(), label }
        };
        let mut series: Vec<_> = names.iter().map(of_name).collect();
        let of_first =
            || group.iter().filter(|placed| placed.ids.name() == names[0]).map(|one| bins(one));
        series.extend([0, 1].map(|side| {
            Series {
                label: IDEAL.to_owned(),
                style: LIMIT,
                points: of_first()
                    .map(|(count, evenness)| {
                        let ratio = evenness.ideal_max_over_mean[side];
                        Point::single(f64::from(count), excess(ratio))
                    })
                    .collect(),
            }
        }));
        Panel { title: capital(title), series }
    }
}

fn sentence(group: &[&Placed]) -> String {
    let fullest = |placed: &&&Placed| placed.over_targets.max_over_mean;
    let worst = group.iter().max_by(|one, other| fullest(one).total_cmp(&fullest(other)));
    let said = worst.map_or(String::new(), |placed| {
        let [low, high] = placed.over_targets.ideal_max_over_mean.map(excess);
        format!(
            "Furthest above the mean: {}%, with {} ids on {} targets, where an ideal hash gives {}% to {}%.",
            short(excess(placed.over_targets.max_over_mean)),
            placed.ids.name(),
            short(f64::from(placed.targets)),
            short(low),
            short(high),
        )
    });
    format!("{said} A simulation: nothing was stored.")
}

/// Headings of the table.
const HEADINGS: [&str; 13] = [
    "kind",
    "class",
    "ids",
    ">nodes",
    ">targets",
    ">mean of a target",
    ">std. dev.",
    ">ideal",
    ">fullest (%)",
    "ideal (%)",
    ">fullest node (%)",
    "ideal (%)",
    ">apart (%)",
];

/// All numbers of a file.
pub(crate) fn table(file: &Results) -> Table {
    let band = |of: &Evenness| of.ideal_max_over_mean.map(excess).map(short).join(" to ");
    let row = |placed: &Placed| {
        let (targets, nodes) = (&placed.over_targets, &placed.over_nodes);
        vec![
            placed.kind.name(),
            placed.class.clone(),
            placed.ids.name(),
            placed.nodes.to_string(),
            placed.targets.to_string(),
            short(targets.mean),
            short(targets.stddev),
            short(targets.ideal_stddev),
            short(excess(targets.max_over_mean)),
            band(targets),
            short(excess(nodes.max_over_mean)),
            band(nodes),
            short(placed.apart * 100.0),
        ]
    };
    let rows: Vec<_> = file.placements.iter().map(row).collect();
    Table::new(&format!("{}: simulated placement", file.name), &HEADINGS, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::page::Page;
    use crate::plots::results::tests::document;
    use serde_json::{Value, json};

    fn evenness(ratio: f64) -> Value {
        json!({"mean": 100.0, "min": 90, "max": 110, "max_over_mean": ratio, "perfect_max_over_mean": [1.05, 1.2],
               "stddev": 5.0, "perfect_stddev": 5.1, "score": 0.1, "counts": null})
    }

    fn placed(ids: &str, nodes: u32, ratio: f64) -> Value {
        json!({"kind": "array", "class": "S1", "ids": ids, "nodes": nodes, "targets": nodes * 8, "objects": 1000,
               "dkeys": 8, "ns": 9.5, "over_targets": evenness(ratio), "over_nodes": evenness(1.0),
               "apart": 1.0, "examined": 10})
    }

    fn results() -> Results {
        let mut report = document(&[]);
        report["placements"] = json!([
            placed("random", 1, 1.1),
            placed("random", 64, 1.123),
            placed("ranks", 64, 1.1)
        ]);
        Results::from_json("placement.json", report).unwrap()
    }

    #[test]
    fn fullest_target_is_compared_with_a_random_hash() {
        let figures = Figures::default().placements(&results()).unwrap();
        assert_eq!(figures.len(), 1);
        let figure = &figures[0];
        assert_eq!(figure.title, "Fullest target and node: class S1, 1,000 Arrays of 8 chunks");
        assert!(figure.sentence.starts_with(
            "Furthest above the mean: 12.3%, with random ids on 512 targets, where an ideal hash gives 5% to 20%."
        ));
        for label in ["random ids", "ranks ids", IDEAL, "512"] {
            assert!(figure.svg.contains(label), "{label}");
        }
    }

    #[test]
    fn a_page_has_the_numbers() {
        let page = Page::from_results("Placement", &[results()]).unwrap();
        assert!(page.about[0].starts_with("1 figure from 3 simulated placements in 1 result file"));
        let html = page.html().unwrap();
        assert!(html.contains("placement.json: simulated placement") && html.contains("12.3"));
    }
}
