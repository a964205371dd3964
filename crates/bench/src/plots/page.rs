//! The page of benchmark results: figures, tables, and a description of the machines, in one file.
//!
//! The page is XHTML, so that tests can parse it. It can be read without a network and without scripts. `page.html` is
//! its template.
use crate::plots::finding::Finding;
use crate::plots::results::Results;
use crate::plots::words::short;
use crate::plots::{Figure, Figures};
use crate::report::{Run, build};
use esker_cli::units::Bytes;
use esker_cli::{count, time};
use esker_types::{Error, ErrorKind, Result};
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;
use serde_json::{Map, Value, json};

const TEMPLATE: &str = include_str!("page.html");

/// The contents of a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Page {
    /// Title.
    pub(crate) title: String,
    /// Warning below the title, which applies to the complete page.
    pub(crate) banner: Option<String>,
    /// Paragraphs below the title and the banner.
    pub(crate) about: Vec<String>,
    /// List of the findings of all sections, before the sections.
    glance: Vec<Glance>,
    /// Tables before the figures.
    pub(crate) summary: Vec<Table>,
    /// The figures, after a list of links to the sections, or to the figures if there is only one section.
    pub(crate) sections: Vec<Section>,
    /// Tables after the figures.
    tables: Vec<Table>,
    /// Machine and settings of each result file: the file's name, and names with values.
    machines: Vec<(String, Vec<(String, String)>)>,
}

/// Figures that belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Section {
    /// Heading.
    pub(crate) title: String,
    /// Lines of small print.
    pub(crate) notes: Vec<String>,
    /// Findings of the paper, which the measurements in the figures confirm or not.
    pub(crate) findings: Vec<Finding>,
    /// The figures.
    pub(crate) figures: Vec<Figure>,
}

impl Section {
    /// Removes the verdicts and replaces the sentences below the figures. For a quick run, whose values mean nothing.
    pub(crate) fn remove_verdicts(&mut self) {
        self.findings.iter_mut().for_each(Finding::remove_verdict);
        for figure in &mut self.figures {
            figure.sentence = "Quick run: these values mean nothing.".to_owned();
        }
    }
}

/// A row of the list of all findings.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Glance {
    /// Name of the figure in the paper.
    label: String,
    /// Number of the section, from 1.
    section: usize,
    finding: Finding,
}

/// The findings of these sections, each with the label of its section: the part of the title before `: `.
fn glance(sections: &[Section]) -> Vec<Glance> {
    let rows = (1..).zip(sections).flat_map(|(number, section)| {
        let label = section.title.split(": ").next().unwrap_or_default();
        section.findings.iter().map(move |finding| Glance {
            label: label.to_owned(),
            section: number,
            finding: finding.clone(),
        })
    });
    rows.collect()
}

/// A table. A heading that begins with `>` belongs to a column of numbers, which are aligned to the right.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Table {
    caption: String,
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without the columns that are empty in every row.
    pub(crate) fn new<H: AsRef<str>>(caption: &str, headings: &[H], rows: &[Vec<String>]) -> Self {
        let is_used = |column: &usize| {
            rows.iter().any(|row| row.get(*column).is_some_and(|cell| !cell.is_empty()))
        };
        let columns: Vec<_> = (0..headings.len()).filter(is_used).collect();
        let used = |row: &Vec<String>| {
            columns.iter().filter_map(|&column| row.get(column).cloned()).collect()
        };
        Self {
            caption: caption.to_owned(),
            headings: columns.iter().map(|&column| headings[column].as_ref().to_owned()).collect(),
            rows: rows.iter().map(used).collect(),
        }
    }
}

impl Page {
    /// A page of these sections, with a list of all their findings.
    pub(crate) fn new(title: &str, about: Vec<String>, sections: Vec<Section>) -> Self {
        Self {
            title: title.to_owned(),
            about,
            glance: glance(&sections),
            sections,
            ..Self::default()
        }
    }

    /// A page with all figures that some result files allow.
    ///
    /// # Errors
    /// If the traces beside a file cannot be read, or a figure cannot be drawn.
    pub fn from_results(title: &str, files: &[Results]) -> Result<Self> {
        let figures = Figures::default().draw_all(files)?;
        let runs: usize = files.iter().map(|file| file.runs.len()).sum();
        let about = format!(
            "{} from {} in {}, by Esker {}.",
            count(figures.len(), "figure"),
            count(runs, "measured phase"),
            count(files.len(), "result file"),
            build()
        );
        let section = Section { title: "Figures".to_owned(), figures, ..Section::default() };
        Ok(Self::new(title, vec![about], vec![section]).with_numbers(files))
    }

    /// Adds tables of all numbers of these files, and their machines.
    pub(crate) fn with_numbers(mut self, files: &[Results]) -> Self {
        self.tables.extend(files.iter().flat_map(tables));
        self.with_machines(files)
    }

    /// Adds the machines of these files.
    pub(crate) fn with_machines(mut self, files: &[Results]) -> Self {
        self.machines.extend(files.iter().map(|file| (file.name.clone(), members(file))));
        self
    }

    /// All figures of the page.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|section| &section.figures)
    }

    /// The document.
    ///
    /// # Errors
    /// If the template cannot be filled.
    pub fn html(&self) -> Result<String> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.render_str(TEMPLATE, Serde(self)).map(|html| legible(&html)).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("filling the page's template: {error:#}"))
        })
    }
}

/// Replaces the characters that XML forbids.
pub(crate) fn legible(text: &str) -> String {
    let is_forbidden =
        |c: char| (c.is_control() && !"\t\n\r".contains(c)) || "\u{fffe}\u{ffff}".contains(c);
    text.replace(is_forbidden, "\u{fffd}")
}

/// Columns of the tables with all numbers. For example, `latency_us.p50:>p50 us` is the member `p50` of the member
/// `latency_us` of a run, under the heading `>p50 us`. Without a colon, the heading is the name of the member.
const BANDWIDTHS: &str = "store|workload|phase|mode|pattern|contention|class_array:class|class_kv:Key-Values|nodes:>nodes|server_nodes:>server nodes|\
    procs:>procs|size_bytes:>size|ops:>ops|ops_per_s:>ops/s|mib_s:>MiB/s|limit_mib_s:>limit|ratio:>ratio";
const SPREADS: &str = "label:run|phase|repeat.count:>repeats|spread.mean:>mean MiB/s|spread.min:>min|spread.max:>max|\
    spread.stddev:>std. dev.|global_timing_bandwidth_mib_s:>global timing";
const TIMES: &str = "label:run|phase|latency_us.p50:>p50 us|latency_us.p99:>p99 us|latency_us.max:>max us|\
    wall_clock_s:>wall clock s|off_0:>off_0 ms|off_f:>off_f ms|po_0:>po_0 ms|po_f:>po_f ms";

/// Splits `member:heading|member:heading` into pairs. Without a colon, the member is also the heading.
fn columns(text: &'static str) -> Vec<(&'static str, &'static str)> {
    text.split('|').map(|column| column.split_once(':').unwrap_or((column, column))).collect()
}

/// Tables with all numbers of a file.
fn tables(file: &Results) -> Vec<Table> {
    let table_of = |name: &str, text, is_in: fn(&Run) -> bool| {
        let columns = columns(text);
        let headings: Vec<_> = columns.iter().map(|(_, heading)| *heading).collect();
        let runs = file.runs.iter().filter(|run| is_in(run));
        let rows: Vec<_> = runs.map(|run| row(run, &columns)).collect();
        Table::new(&format!("{}: {name}", file.name), &headings, &rows)
    };
    let tables = [
        table_of("bandwidth and rate", BANDWIDTHS, |_| true),
        table_of("repeats", SPREADS, |run| run.spread().is_some()),
        table_of("latency and offsets", TIMES, |_| true),
    ];
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// A row of the table of runs.
fn row(run: &Run, columns: &[(&str, &str)]) -> Vec<String> {
    let mut members = json!(run);
    members["label"] = json!(run.label());
    members["class_array"] = json!(run.class_array());
    members["mib_s"] = json!(run.bandwidth());
    members["spread"] = json!(run.spread());
    members["wall_clock_s"] = json!(run.wall_clock_s());
    let cell = |(member, heading): &(&str, &str)| {
        let value = member.split('.').fold(&members, |value, name| &value[name]);
        // The members below a heading in milliseconds are in seconds.
        match value.as_f64().filter(|_| heading.ends_with(" ms")) {
            Some(seconds) => short(seconds * 1e3),
            None => shown(member, value),
        }
    };
    columns.iter().map(cell).collect()
}

/// Members of the machine and of the settings.
fn members(file: &Results) -> Vec<(String, String)> {
    let known = |members: &Map<String, Value>| -> Vec<(String, String)> {
        let given = members.iter().filter(|(_, value)| !value.is_null());
        given
            .map(|(name, value)| {
                (name.trim_end_matches("_bytes").replace('_', " "), shown(name, value))
            })
            .collect()
    };
    [known(&file.host), known(&file.settings)].concat()
}

/// A member as text for readers: sizes with their unit, points in time as dates.
fn shown(name: &str, value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(value) => if *value { "yes" } else { "no" }.to_owned(),
        Value::Array(values) => {
            values.iter().map(|value| shown(name, value)).collect::<Vec<_>>().join(", ")
        }
        Value::Object(members) => {
            let members =
                members.iter().map(|(name, value)| format!("{name} {}", shown(name, value)));
            members.collect::<Vec<_>>().join(" ")
        }
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(count), _) if name.ends_with("_bytes") => Bytes(count).to_string(),
            (Some(seconds), _) if name == "unix_time_s" => {
                time(i64::try_from(seconds).unwrap_or(i64::MAX), 0, 0)
            }
            (Some(count), _) => count.to_string(),
            (_, Some(number)) => short(number),
            _ => number.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_are_empty_are_left_out() {
        let rows = [vec!["a".to_owned(), String::new()], vec!["b".to_owned(), String::new()]];
        let table = Table::new("t", &["one", ">two"], &rows);
        assert_eq!(
            (table.headings, table.rows),
            (vec!["one".to_owned()], vec![vec!["a".to_owned()], vec!["b".to_owned()]])
        );
    }

    #[test]
    fn characters_that_xml_forbids_are_replaced() {
        assert_eq!(legible("a\u{1}\t\u{ffff}"), "a\u{fffd}\t\u{fffd}");
    }
}
