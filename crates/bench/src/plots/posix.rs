//! The page of `esker bench posix`: work on files as a multiple of the rate of tmpfs.
use crate::plan::posix::{Row, cells};
use crate::plots::chart::{Axis, Chart, LIMIT, Palette, Panel, Point, Series};
use crate::plots::page::{Page, Section, Table};
use crate::plots::results::Results;
use crate::plots::{Figure, Figures, distinct, ticks_of};
use esker_types::{Error, ErrorKind, Result};
use serde_json::Value;

/// Name of the report on the page.
const NAME: &str = "esker bench posix";

const ABOUT: &str = "Ratios are to tmpfs: medians of the ratios of the iterations. For one process, values are median times of an operation. A goal that is missed is marked with !.";

impl Row {
    /// True for a ratio to the rate of tmpfs.
    fn is_rate(&self) -> bool {
        !self.below && self.unit != "ratio"
    }
}

/// The page: a chart of the ratios beside the goals, the table, the machine.
///
/// # Errors
/// If this is not a report of `esker bench posix`, or the chart cannot be drawn.
pub fn page(report: &Value) -> Result<Page> {
    let rows: Vec<Row> = serde_json::from_value(report["table"].clone()).map_err(|error| {
        Error::new(
            ErrorKind::Invalid,
            format!("the report has no table of `{NAME}` ({error}): measure again"),
        )
    })?;
    let systems = rows.iter().flat_map(|row| row.systems.keys().map(String::as_str));
    let systems = distinct(systems);
    let (headings, cells) = cells(&rows, &systems);
    let processes = report["settings"]["procs"].as_u64().unwrap_or(0);
    let page = Page {
        title: "Files on this machine".to_owned(),
        about: vec![ABOUT.to_owned()],
        sections: vec![Section {
            figures: vec![figure(&rows, &systems, processes)?],
            ..Section::default()
        }],
        summary: vec![Table::new("All work beside tmpfs", &headings, &cells)],
        ..Page::default()
    };
    Ok(page.with_machines(&[Results::from_json(NAME, report.clone())?]))
}

fn figure(rows: &[Row], systems: &[&str], processes: u64) -> Result<Figure> {
    let rows: Vec<_> = rows.iter().filter(|row| row.is_rate()).collect();
    let points = |of: &dyn Fn(&Row) -> Option<f64>| -> Vec<Point> {
        let numbered = rows.iter().enumerate();
        numbered.filter_map(|(x, row)| Some(Point::single(x as f64, of(row)?))).collect()
    };
    let mut palette = Palette::default();
    let of_system = |system: &&str| Series {
        label: (*system).to_owned(),
        style: palette.style(system),
        points: points(&|row| row.systems.get(*system).copied()),
    };
    let mut series: Vec<_> = systems.iter().map(of_system).collect();
    let goals = points(&|row| row.goals.get("DFS").copied());
    series.push(Series { label: "goal of DFS".to_owned(), style: LIMIT, points: goals });
    let short = |work: &str| {
        work.replace(" write, shared file", " shared")
            .replace(", own file", "")
            .replace(", one directory", "")
            .replace(" file", "")
    };
    let chart = Chart {
        title: "Work on files as a multiple of tmpfs".to_owned(),
        x_label: "work".to_owned(),
        y_label: "times tmpfs".to_owned(),
        axis: Axis::Categories,
        ticks: ticks_of(rows.iter().map(|row| short(&row.work))),
        panels: vec![Panel { title: String::new(), series }],
    };
    let sentence =
        format!("{processes} processes at once; each bar is the median of the iterations.");
    Figures::default().figure("files", chart, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::results::tests::document;
    use serde_json::json;

    fn report() -> Value {
        let mut report = document(&[json!({})]);
        report["settings"]["procs"] = json!(2);
        report["table"] = json!([
            {"work": "stat", "unit": "/s", "base": 1000.0, "sites": {"DFS": 0.4, "ext4": 1.0},
             "goals": {"DFS": 0.5}, "below": false},
            {"work": "stat, 1 process", "unit": "us", "base": 1.5, "sites": {"DFS": 2.0}, "goals": {"DFS": 10.0},
             "below": true},
        ]);
        report
    }

    #[test]
    fn goals_that_are_missed_are_marked_and_rates_are_drawn() {
        let page = page(&report()).unwrap();
        let html = page.html().unwrap();
        for text in [
            "<td class=\"n\">0.40!</td>",
            "<td class=\"n\">2.00</td>",
            "goal of DFS",
            "2 processes at once",
        ] {
            assert!(html.contains(text), "{text}");
        }
        assert!(page.figures().all(|figure| !figure.svg.contains("1 process")));
    }

    #[test]
    fn another_report_is_refused() {
        assert!(
            page(&document(&[])).unwrap_err().message().contains("no table of `esker bench posix`")
        );
    }
}
