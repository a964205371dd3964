//! Charts of bandwidth against the nodes of a pool: what was measured, as markers, and a model of more, as dashed lines.
use crate::plots::chart::{Axis, Chart, Panel, Point, Series};
use crate::plots::page::Table;
use crate::plots::results::Results;
use crate::plots::words::short;
use crate::plots::{Figure, Figures};
use crate::report::Run;
use crate::scaling::{Line, Model};
use esker_cli::units::Bytes;
use esker_types::Result;

/// MiB in a GiB.
const GIB: f64 = 1024.0;
/// Phase of the sum of the phases of pattern B.
const BOTH: &str = "write + read";

/// Settings of one chart, apart from the mode and the phase.
#[derive(Clone, PartialEq)]
struct Setting {
    pattern: String,
    contention: Option<String>,
    class_array: Option<String>,
    class_kv: Option<String>,
    size_bytes: u64,
}

/// One value of a chart: mode, phase, nodes and GiB/s.
#[derive(Clone)]
struct Value {
    mode: String,
    phase: String,
    nodes: u32,
    gib_s: f64,
}

impl Setting {
    fn of_run(run: &Run) -> Option<Self> {
        run.server_nodes().filter(|_| !run.is_limit())?;
        let own = |text: Option<&str>| text.map(str::to_owned);
        Some(Self {
            pattern: run.pattern()?.to_owned(),
            contention: own(run.contention()),
            class_array: own(run.class_array()),
            class_kv: own(run.class_kv()),
            size_bytes: run.size_bytes,
        })
    }

    fn of_line(line: &Line) -> Self {
        Self {
            pattern: line.pattern.clone(),
            contention: line.contention.clone(),
            class_array: Some(line.class_array.clone()),
            class_kv: line.class_kv.clone(),
            size_bytes: line.size_bytes,
        }
    }

    fn title(&self) -> String {
        let contention = self.contention.as_ref().map(|name| format!("{name} contention"));
        let class = self.class_array.as_ref().map(|name| format!("class {name}"));
        let parts = [
            Some(format!("pattern {}", self.pattern)),
            contention,
            class,
            Some(Bytes(self.size_bytes).to_string()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl Figures {
    /// A chart for each pattern, contention, class and size that was measured on pools over nodes, if their number varies
    /// or there is a model.
    ///
    /// # Errors
    /// If a chart cannot be drawn.
    pub fn scaling(&mut self, file: &Results) -> Result<Vec<Figure>> {
        let mut settings: Vec<Setting> = Vec::new();
        for setting in file.runs.iter().filter_map(Setting::of_run) {
            if !settings.contains(&setting) {
                settings.push(setting);
            }
        }
        let charts = settings.iter().filter_map(|setting| self.scaled(file, setting).transpose());
        charts.collect()
    }

    fn scaled(&mut self, file: &Results, setting: &Setting) -> Result<Option<Figure>> {
        let measured = with_sums(measured(file, setting), &setting.pattern);
        let modelled = with_sums(modelled(file, setting), &setting.pattern);
        let nodes = nodes_of(measured.iter().chain(&modelled));
        if nodes.len() < 2 {
            return Ok(None);
        }
        let mut phases: Vec<&str> = Vec::new();
        for value in &measured {
            if !phases.contains(&value.phase.as_str()) {
                phases.push(&value.phase);
            }
        }
        let what = if modelled.is_empty() { "measured" } else { "measured, and a model" };
        let chart = Chart {
            title: format!("Bandwidth against nodes of the pool, {what}: {}", setting.title()),
            x_label: "nodes of the pool".to_owned(),
            y_label: "bandwidth (GiB/s)".to_owned(),
            axis: Axis::Log,
            ticks: nodes.iter().map(|nodes| (f64::from(*nodes), nodes.to_string())).collect(),
            panels: phases.iter().map(|phase| self.phase(phase, &measured, &modelled)).collect(),
        };
        let sentence = sentence(file.model.as_ref().filter(|_| !modelled.is_empty()));
        Ok(Some(Figure {
            id: self.next_id("scaling"),
            svg: chart.svg()?,
            title: chart.title,
            sentence,
        }))
    }

    fn phase(&mut self, phase: &str, measured: &[Value], modelled: &[Value]) -> Panel {
        let mut series = Vec::new();
        for (values, is_model) in [(measured, false), (modelled, true)] {
            let of_phase: Vec<_> = values.iter().filter(|value| value.phase == phase).collect();
            for mode in modes(&of_phase) {
                let style = self.palette.style(mode);
                let points = of_phase.iter().filter(|value| value.mode == mode);
                let mut points: Vec<_> = points
                    .map(|value| Point::single(f64::from(value.nodes), value.gib_s))
                    .collect();
                points.sort_by(|one, other| one.x.total_cmp(&other.x));
                series.push(match is_model {
                    true => {
                        Series { label: format!("model: {mode}"), style: style.of_model(), points }
                    }
                    false => {
                        let label = format!("measured: {mode}");
                        Series { label, style: style.of_points(), points }
                    }
                });
            }
        }
        Panel { title: phase.to_owned(), series }
    }
}

fn modes<'v>(values: &[&'v Value]) -> Vec<&'v str> {
    let mut modes: Vec<&str> = Vec::new();
    for value in values {
        if !modes.contains(&value.mode.as_str()) {
            modes.push(&value.mode);
        }
    }
    modes
}

fn nodes_of<'v>(values: impl Iterator<Item = &'v Value>) -> Vec<u32> {
    let mut nodes: Vec<u32> = values.map(|value| value.nodes).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// The best number of processes on each pool, as in the papers.
fn measured(file: &Results, setting: &Setting) -> Vec<Value> {
    let mut best: Vec<Value> = Vec::new();
    for run in &file.runs {
        let (Some(nodes), Some(mode)) = (run.server_nodes(), run.mode()) else { continue };
        if Setting::of_run(run).as_ref() != Some(setting) {
            continue;
        }
        let (mode, phase) = (mode.to_owned(), run.phase.clone());
        let value = Value { mode, phase, nodes, gib_s: run.bandwidth() / GIB };
        let is_same = |known: &&mut Value| {
            (&known.mode, &known.phase, known.nodes) == (&value.mode, &value.phase, value.nodes)
        };
        match best.iter_mut().find(is_same) {
            Some(known) => known.gib_s = known.gib_s.max(value.gib_s),
            None => best.push(value),
        }
    }
    best
}

fn modelled(file: &Results, setting: &Setting) -> Vec<Value> {
    let lines = file.model.iter().flat_map(|model| &model.lines);
    let lines = lines.filter(|line| Setting::of_line(line) == *setting);
    let values = lines.flat_map(|line| {
        line.points.iter().map(|&(nodes, mib_s)| Value {
            mode: line.mode.clone(),
            phase: line.phase.clone(),
            nodes,
            gib_s: mib_s / GIB,
        })
    });
    values.collect()
}

/// In pattern B, writes and reads run at the same time: their sums are what the papers compare.
fn with_sums(values: Vec<Value>, pattern: &str) -> Vec<Value> {
    if pattern != "B" {
        return values;
    }
    let sum = |write: &Value| {
        let is_beside = |other: &&Value| {
            other.phase == "read" && (&other.mode, other.nodes) == (&write.mode, write.nodes)
        };
        let read = values.iter().find(is_beside)?;
        Some(Value { phase: BOTH.to_owned(), gib_s: write.gib_s + read.gib_s, ..write.clone() })
    };
    let sums: Vec<_> =
        values.iter().filter(|value| value.phase == "write").filter_map(sum).collect();
    [values, sums].concat()
}

fn sentence(model: Option<&Model>) -> String {
    let measured = "Markers were measured here, where all nodes and clients may share one machine.";
    let Some(model) = model else { return measured.to_owned() };
    let link = match model.link.as_str() {
        "given" => "a given bandwidth",
        _ => "the bandwidth of a TCP stream inside this machine",
    };
    let count = |count: u32, one: &str, many: &str| {
        format!("{count} {}", if count == 1 { one } else { many })
    };
    format!(
        "{measured} Dashed lines without markers are a model and were not measured: for each node of the pool {} with {} \
         each, and links of {} GiB/s ({link}). Its table has the costs that it starts from.",
        count(model.clients_per_server, "client node", "client nodes"),
        count(model.procs_per_client, "process", "processes"),
        short(model.link_mib_s / GIB),
    )
}

/// Headings of the table.
const HEADINGS: [&str; 12] = [
    "mode",
    "pattern",
    "contention",
    "class",
    "phase",
    ">size",
    ">link MiB/s",
    ">engine MiB/s",
    ">requests us",
    ">wait us",
    ">measured MiB/s",
    ">the same by the model",
];

/// Table of the inputs of the model, and its deviation from the measurements.
pub(crate) fn table(file: &Results) -> Table {
    let lines = file.model.iter().flat_map(|model| &model.lines);
    let row = |line: &Line| {
        let costs = &line.costs;
        vec![
            line.mode.clone(),
            line.pattern.clone(),
            line.contention.clone().unwrap_or_default(),
            line.class_array.clone(),
            line.phase.clone(),
            Bytes(line.size_bytes).to_string(),
            short(costs.link_mib_s),
            short(costs.engine_mib_s),
            short(costs.request_us),
            short(costs.wait_us),
            short(line.measured_mib_s),
            short(line.modelled_mib_s),
        ]
    };
    let rows: Vec<_> = lines.map(row).collect();
    Table::new(&format!("{}: the model, on the smallest pool", file.name), &HEADINGS, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::page::Page;
    use crate::plots::results::tests::document;
    use serde_json::{Value as Json, json};

    fn run(phase: &str, nodes: u32, procs: u32, mib_s: f64) -> Json {
        json!({"run": nodes, "store": "nodes", "mode": "full", "pattern": "B", "contention": "low", "phase": phase,
               "procs": procs, "class_array": "S1", "class_kv": "SX", "nodes": 1, "server_nodes": nodes,
               "global_timing_bandwidth_mib_s": mib_s})
    }

    fn line(phase: &str) -> Json {
        json!({"mode": "full", "pattern": "B", "contention": "low", "class_array": "S1", "class_kv": "SX",
               "phase": phase, "size_bytes": 1 << 20, "measured_mib_s": 900.0, "modelled_mib_s": 1000.0,
               "costs": {"link_mib_s": 2048.0, "engine_mib_s": 4000.0, "request_us": 40.0, "wait_us": 60.0},
               "points": [[1, 1024.0], [8, 8192.0]]})
    }

    fn results(with_model: bool) -> Results {
        let runs = [
            ("write", 1, 2, 512.0),
            ("read", 1, 2, 512.0),
            ("write", 2, 2, 768.0),
            ("write", 2, 4, 1024.0),
        ];
        let mut report =
            document(&runs.map(|(phase, nodes, procs, mib_s)| run(phase, nodes, procs, mib_s)));
        if with_model {
            report["model"] = json!({"link": "loopback", "link_mib_s": 2048.0, "clients_per_server": 2,
                                     "procs_per_client": 36, "lines": [line("write"), line("read")]});
        }
        Results::from_json("nodes.json", report).unwrap()
    }

    #[test]
    fn models_are_named_as_such_and_look_different() {
        let figures = Figures::default().scaling(&results(true)).unwrap();
        assert_eq!(figures.len(), 1);
        let figure = &figures[0];
        assert!(
            figure
                .title
                .contains("measured, and a model: pattern B, low contention, class S1, 1 MiB")
        );
        for text in ["measured: full", "model: full", BOTH] {
            assert!(figure.svg.contains(text), "{text}");
        }
        for text in [
            "are a model and were not measured",
            "2 client nodes with 36 processes",
            "links of 2 GiB/s",
        ] {
            assert!(figure.sentence.contains(text), "{text}: {}", figure.sentence);
        }
        let bare = Figures::default().scaling(&results(false)).unwrap();
        assert!(!bare[0].svg.contains("model") && !bare[0].sentence.contains("model"));
    }

    #[test]
    fn the_best_number_of_processes_counts_and_pattern_b_has_a_sum() {
        let file = results(true);
        let setting = Setting::of_run(&file.runs[0]).unwrap();
        let found = with_sums(measured(&file, &setting), "B");
        let of = |phase: &str, nodes| {
            let is = |value: &&Value| value.phase == phase && value.nodes == nodes;
            found.iter().find(is).map(|value| value.gib_s)
        };
        assert_eq!((of("write", 2), of(BOTH, 1), of(BOTH, 2)), (Some(1.0), Some(1.0), None));
        let model = with_sums(modelled(&file, &setting), "B");
        assert!(
            model
                .iter()
                .any(|value| value.phase == BOTH && value.nodes == 8 && value.gib_s == 16.0)
        );
    }

    #[test]
    fn page_lists_the_inputs_of_the_model() {
        let html = Page::from_results("Nodes", &[results(true)]).unwrap().html().unwrap();
        assert!(
            html.contains("nodes.json: the model, on the smallest pool")
                && html.contains("the same by the model")
        );
    }
}
