//! The table for people, and the page with its plot.
use super::super::outcome::Outcome;
use super::Tabled;
use super::rows::{BASE, Row};
use crate::figures::Figure;
use crate::page::{self, Page};
use crate::plot::{Axis, Chart, LIMIT, Mark, Palette, Panel, Point, Series};
use crate::results::Results;
use crate::table::Table;
use crate::units::Bytes;
use esker_types::Result;
use std::fmt;

const ABOUT: &str = "\
Ratios are to tmpfs, medians of the iterations' ratios; of one process the median time of an operation. A \
goal that is missed is marked with !.";

impl fmt::Display for Tabled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.outcomes.first() else { return Ok(()) };
        let host = &first.host;
        let memory = Bytes(host.memory_bytes);
        writeln!(f, "{} x {}, {memory}, Linux {}", host.cpus, host.cpu, host.kernel)?;
        first.sites.iter().try_for_each(|site| writeln!(f, "{:<8}{}", site.name, site.about))?;
        first.missing.iter().try_for_each(|missing| writeln!(f, "        {missing}"))?;
        writeln!(f, "{} processes\n", first.procs)?;
        let (headings, rows) = self.cells();
        let mut table = Table::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
        rows.into_iter().for_each(|row| table.row(row));
        write!(f, "{table}\n{ABOUT}")
    }
}

impl Tabled {
    /// The sites besides the base, in their order.
    fn sites(&self) -> Vec<&str> {
        let sites = self.outcomes.first().map_or(&[][..], |outcome| &outcome.sites);
        sites.iter().map(|site| site.name.as_str()).filter(|name| *name != BASE).collect()
    }

    /// Headings and cells of the table.
    fn cells(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let mut headings: Vec<String> = ["work", ">tmpfs", "unit"].map(str::to_owned).to_vec();
        for site in self.sites() {
            headings.push(format!(">{site}"));
            headings.extend(self.has_goal(site).then(|| ">goal".to_owned()));
        }
        let row = |row: &Row| {
            let places = if row.base < 100.0 { 2 } else { 0 };
            let mut cells =
                vec![row.work.clone(), format!("{:.places$}", row.base), row.unit.clone()];
            for site in self.sites() {
                cells.push(row.cell(site));
                let goal = row.goals.get(site).map_or(String::new(), |goal| format!("{goal}"));
                cells.extend(self.has_goal(site).then_some(goal));
            }
            cells
        };
        (headings, self.rows.iter().map(row).collect())
    }

    fn has_goal(&self, site: &str) -> bool {
        self.rows.iter().any(|row| row.goals.contains_key(site))
    }

    /// The page: a plot of the ratios beside the goals, the table, the machine.
    ///
    /// # Errors
    /// None that is known: the report is one that can be read.
    pub fn page(&self) -> Result<Page> {
        let mut html = page::begin("Files on this machine");
        html.leaf("p", &[("class", "note")], ABOUT);
        let figure = self.figure();
        page::draw(&mut html, &figure);
        let (headings, rows) = self.cells();
        let headings: Vec<_> = headings.iter().map(String::as_str).collect();
        html.table("Every work beside tmpfs", &headings, &rows);
        let files = [Results::of("esker bench posix", self.report())?];
        page::machine::blocks(&mut html, &files);
        Ok(Page { html: page::end(html), figures: vec![figure] })
    }

    fn figure(&self) -> Figure {
        let rows: Vec<_> = self.rows.iter().filter(|row| row.is_rate()).collect();
        let mut palette = Palette::default();
        let points = |of: &dyn Fn(&Row) -> Option<f64>| -> Vec<Point> {
            let numbered = rows.iter().enumerate();
            let point = |(x, row): (usize, &&Row)| {
                of(row).map(|y| Point { x: x as f64, y, low: y, high: y })
            };
            numbered.filter_map(point).collect()
        };
        let mut series: Vec<Series> = Vec::new();
        for site in self.sites() {
            let points = points(&|row| row.sites.get(site).copied());
            series.push(Series { label: site.to_owned(), style: palette.style(site), points });
        }
        let goals = points(&|row| row.goals.get("DFS").copied());
        series.push(Series { label: "goal of DFS".to_owned(), style: LIMIT, points: goals });
        let title = "Work on files as a multiple of tmpfs".to_owned();
        let chart = Chart {
            id: "fig01-files".to_owned(),
            title: title.clone(),
            x_label: "work".to_owned(),
            y_label: "times tmpfs".to_owned(),
            x: Axis::Categories(rows.iter().map(|row| row.short()).collect()),
            mark: Mark::Bars,
            panels: vec![Panel { title: String::new(), series }],
        };
        let processes = self.outcomes.first().map_or(0, |outcome: &Outcome| outcome.procs);
        Figure {
            id: chart.id.clone(),
            title,
            svg: chart.svg(),
            sentence: format!(
                "{processes} processes at once; each bar is the median of the iterations."
            ),
        }
    }
}

impl Row {
    /// A ratio to the rate of the base.
    fn is_rate(&self) -> bool {
        !self.below && self.unit != "ratio"
    }

    /// What stands below a bar.
    fn short(&self) -> String {
        self.work.replace(", own file", "").replace(", one directory", "").replace(" file", "")
    }

    fn cell(&self, site: &str) -> String {
        let Some(value) = self.sites.get(site) else { return "-".to_owned() };
        let missed = self.goals.get(site).is_some_and(|goal| match self.below {
            true => value > goal,
            false => value < goal,
        });
        format!("{value:.2}{}", if missed { "!" } else { "" })
    }
}
