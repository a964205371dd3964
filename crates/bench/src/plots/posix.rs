//! The page of `esker bench posix`: work on files as a multiple of the rate of tmpfs.
use crate::plan::posix::{Row, cells};
use crate::plots::chart::{Axis, Chart, Point};
use crate::plots::page::{Page, Section, Table};
use crate::plots::results::Results;
use crate::plots::style::LIMIT;
use crate::plots::{Figure, Figures, distinct};
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
    let figures = figure(&rows, processes)?.into_iter().collect();
    let section = Section { figures, ..Section::default() };
    let mut page = Page::new("Files on this machine", vec![ABOUT.to_owned()], vec![section]);
    page.summary.push(Table::new("All work beside tmpfs", &headings, &cells));
    Ok(page.with_machines(&[Results::from_json(NAME, report.clone())?]))
}

fn figure(rows: &[Row], processes: u64) -> Result<Option<Figure>> {
    let title = "Work on files as a multiple of tmpfs";
    let mut chart = Chart::new(title, ("work", Axis::Categories), "times tmpfs");
    for row in rows.iter().filter(|row| row.is_rate()) {
        let x = chart.category(&short(&row.work));
        for (system, ratio) in &row.systems {
            chart.add("", system, Point::single(x, *ratio));
        }
        if let Some(goal) = row.goals.get("DFS") {
            chart.add_styled("", "goal of DFS", LIMIT, Point::single(x, *goal));
        }
    }
    let sentence =
        format!("{processes} processes at once; each bar is the median of the iterations.");
    Figures::default().figure("files", chart, sentence)
}

/// Name of work below the axis.
fn short(work: &str) -> String {
    let name = work.replace(" write, shared file", " shared").replace(", own file", "");
    name.replace(", one directory", "").replace(" file", "")
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
}
