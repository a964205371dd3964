//! Figures and pages from whole reports.
use super::*;
use crate::plots::chart::{Axis, Chart, Point};
use crate::plots::page::Page;
use crate::plots::results::tests::results;
use crate::plots::style::LIMIT;
use roxmltree::{Document, ParsingOptions};
use serde_json::{Value, json};
use std::path::PathBuf;

fn run(mode: &str, pattern: &str, phase: &str, procs: u32, mib_s: f64) -> Value {
    json!({
        "run": 1, "mode": mode, "pattern": pattern, "contention": "low", "phase": phase, "procs": procs,
        "global_timing_bandwidth_mib_s": mib_s, "limit_mib_s": 4000.0, "class_array": "S1",
        "class_kv": "SX", "total_wall_clock_s": 2.0, "off_0": 0.01, "off_f": 0.5,
        "repeat": {"count": 2, "global_timing_bandwidth_mib_s":
                   {"mean": mib_s, "min": mib_s * 0.8, "max": mib_s * 1.2, "stddev": 1.0}},
    })
}

fn figures(runs: &[Value]) -> Vec<Figure> {
    Figures::default().draw_all(&[results(runs)]).unwrap()
}

/// Texts of an SVG that parses.
fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    document
        .descendants()
        .filter_map(|node| node.text().map(|text| text.trim().to_owned()))
        .collect()
}

fn has(svg: &str, text: &str) -> bool {
    texts(svg).iter().any(|found| found == text)
}

/// `x`, `y`, width and height of each element with this name and colour.
fn elements(svg: &str, name: &str, colour: &str) -> Vec<[f64; 4]> {
    let document = Document::parse(svg).unwrap();
    let number = |node: &roxmltree::Node<'_, '_>, name| {
        node.attribute(name).map_or(0.0, |text| text.parse().unwrap())
    };
    let is_coloured = |node: &roxmltree::Node<'_, '_>| node.attribute("fill") == Some(colour);
    let found =
        document.descendants().filter(|node| node.tag_name().name() == name && is_coloured(node));
    found.map(|node| ["x", "y", "width", "height"].map(|name| number(&node, name))).collect()
}

/// Identifiers of the figures without their numbers.
fn stems(figures: &[Figure]) -> Vec<&str> {
    figures.iter().map(|figure| figure.id.split_once('-').unwrap().1).collect()
}

/// A chart of two points and a limit, whose texts have characters that XML reserves.
fn chart(axis: Axis) -> Chart {
    let mut chart = Chart::new("A & B", ("processes", axis), "GiB/s");
    for (x, name, y) in [(0.0, "S1", 10.0), (1.0, "SX", 20.0)] {
        chart.tick(x, name);
        chart.add("write", "full <&\">", Point { x, y, low: y * 0.9, high: y * 1.1 });
        chart.add_styled("write", "limit", LIMIT, Point::single(x, 30.0));
    }
    chart
}

/// Colour of the first series of these charts.
const FIRST: &str = "#1A1A1B";

#[test]
fn lines_are_drawn_with_markers_names_and_limit() {
    let svg = chart(Axis::Linear).svg().unwrap();
    for text in ["A & B", "processes", "GiB/s", "write", "full <&\">", "limit", "S1", "SX"] {
        assert!(has(&svg, text), "{text}: {:?}", texts(&svg));
    }
    let (markers, in_legend) = (2, 1);
    assert_eq!(elements(&svg, "polygon", FIRST).len(), markers + in_legend);
    assert!(svg.matches("stroke=\"#6B6B6B\"").count() > 10, "the limit is dashed");
}

#[test]
fn no_limit_crosses_the_number_of_a_bar() {
    // Pixels between the bar and its number.
    let rise = |limit: f64| {
        let mut chart = Chart::new("A", ("processes", Axis::Categories), "GiB/s");
        chart.tick(0.0, "S1");
        chart.add("write", "full", Point::single(0.0, 21.3));
        chart.add_styled("write", "limit", LIMIT, Point::single(0.0, limit));
        let svg = chart.svg().unwrap();
        let document = Document::parse(&svg).unwrap();
        let number = document.descendants().filter(|node| node.has_tag_name("text"));
        let mut number =
            number.filter(|node| node.text().is_some_and(|text| text.trim() == "21.3"));
        let bottom = number.next().and_then(|node| node.attribute("y")?.parse::<f64>().ok());
        let bar = elements(&svg, "rect", FIRST)[1];
        bar[1] - bottom.unwrap()
    };
    let (below, just_above, in_number, above) = (rise(20.3), rise(21.5), rise(21.9), rise(25.0));
    assert!(below == above, "{below} {above}");
    assert!(below < just_above && just_above < in_number, "{below} {just_above} {in_number}");
}

#[test]
fn bars_stand_on_zero_and_are_as_high_as_their_values() {
    let svg = chart(Axis::Categories).svg().unwrap();
    // The first rectangle of this colour is in the legend.
    let bars = &elements(&svg, "rect", FIRST)[1..];
    let [low, high] = bars else { panic!("{bars:?}") };
    assert_eq!(low[1] + low[3], high[1] + high[3]);
    assert!((high[3] - 2.0 * low[3]).abs() <= 2.0, "{bars:?}");
    assert!(has(&svg, "10") && has(&svg, "20"));
}

#[test]
fn equal_ratios_are_equally_far_apart_on_a_log_axis() {
    let mut log = chart(Axis::Log);
    log.ticks = [1.0, 2.0, 4.0].map(|x| (x, format!("at {x}"))).to_vec();
    let svg = log.svg().unwrap();
    let document = Document::parse(&svg).unwrap();
    let place = |wanted: &str| {
        let mut nodes = document
            .descendants()
            .filter(|node| node.text().is_some_and(|text| text.trim() == wanted));
        nodes.find_map(|node| node.attribute("x")).unwrap().parse::<f64>().unwrap()
    };
    assert!((place("at 2") - place("at 1") - (place("at 4") - place("at 2"))).abs() <= 2.0);
}

#[test]
fn chart_without_values_has_its_title_and_axes() {
    for axis in [Axis::Linear, Axis::Log, Axis::Categories] {
        let mut empty = chart(axis);
        empty.series.clear();
        assert!(has(&empty.svg().unwrap(), "A & B"));
        empty.ticks.clear();
        assert!(has(&empty.svg().unwrap(), "GiB/s"));
    }
}

#[test]
fn a_measured_point_never_lies_at_zero_of_the_axis() {
    for axis in [Axis::Linear, Axis::Categories] {
        let mut far = chart(axis);
        far.series[0].points[0] = Point::single(0.0, 0.001);
        let svg = far.svg().unwrap();
        assert!(has(&svg, "0.001") && has(&svg, "10"), "{:?}", texts(&svg));
        assert!(!texts(&svg).iter().any(|text| text == "0"), "{:?}", texts(&svg));
        let tag = if axis == Axis::Categories { "rect" } else { "polygon" };
        assert!(!elements(&svg, tag, FIRST).is_empty());
        assert!(elements(&svg, "rect", FIRST).iter().all(|[_, _, _, height]| *height >= 5.0));
    }
}

#[test]
fn all_series_of_a_system_have_its_colour() {
    let colour = |system: &str| chart(Axis::Linear).style(system, system).colour;
    let colours = ["esker", "posix", "tmpfs", "ext4", "HDF5, contiguous", "anything"].map(colour);
    let [esker, posix, tmpfs, ..] = colours;
    for (index, colour) in colours.iter().enumerate() {
        assert!(!colours[index + 1..].contains(colour));
    }
    assert_eq!((colour("DFS"), colour("posix on tmpfs, full")), (esker, posix));
    assert_eq!(colour("times tmpfs"), tmpfs);
}

#[test]
fn labels_keep_their_style_and_labels_that_would_overlap_are_left_out() {
    let mut crowded = chart(Axis::Linear);
    let mut style = |index: u32| crowded.style("", &index.to_string());
    let styles: Vec<_> = (0..14).map(&mut style).collect();
    assert_eq!(style(3), styles[3]);
    crowded.ticks = (0..200).map(|x| (f64::from(x), format!("label {x}"))).collect();
    let shown =
        texts(&crowded.svg().unwrap()).iter().filter(|text| text.starts_with("label")).count();
    assert!((5..25).contains(&shown), "{shown}");
}

#[test]
fn varied_setting_makes_a_chart() {
    let runs = [
        run("full", "A", "write", 1, 1000.0),
        run("full", "A", "write", 2, 1900.0),
        run("full", "A", "read", 1, 1500.0),
        run("full", "A", "read", 2, 3000.0),
    ];
    let figures = figures(&runs);
    assert_eq!(stems(&figures), ["processes", "offsets"]);
    for text in
        ["write", "read", "esker, full", "processes", "bandwidth (GiB/s)", "limit of the medium"]
    {
        assert!(has(&figures[0].svg, text), "{text}: {:?}", texts(&figures[0].svg));
    }
    let sentence = &figures[0].sentence;
    assert!(
        sentence.contains("Write: highest 1.86 GiB/s (esker, full, 2 processes)"),
        "{sentence}"
    );
    assert!(sentence.contains("1.90 times as much at 2 processes as at 1 process."), "{sentence}");
    assert!(sentence.contains("whiskers"), "{sentence}");
}

#[test]
fn modes_are_compared_and_pattern_b_has_a_sum() {
    let mut runs = Vec::new();
    for mode in ["full", "no-index"] {
        for procs in [2, 4] {
            runs.push(run(mode, "B", "write", procs, 100.0));
            let mut read = run(mode, "B", "read", procs, 150.0);
            read["run"] = json!(2);
            runs.push(read);
        }
    }
    let figures = figures(&runs);
    assert_eq!(stems(&figures), ["modes", "modes", "processes", "offsets"]);
    assert!(figures[0].title.contains("2 processes"), "{}", figures[0].title);
    let processes = &figures[2];
    assert!(
        processes.sentence.contains("Write + read: highest 250 MiB/s"),
        "{}",
        processes.sentence
    );
    assert!(has(&processes.svg, "no-index"));
}

#[test]
fn stores_sizes_and_classes_make_charts_of_their_own() {
    let base = run("full", "A", "write", 2, 100.0);
    let with = |name: &str, value: Value| {
        let mut other = base.clone();
        other[name] = value;
        other
    };
    let first = |other: Value| figures(&[base.clone(), other]).remove(0).id;
    assert_eq!(first(with("store", json!("posix"))), "fig01-stores");
    assert_eq!(first(with("size_bytes", json!(8 << 20))), "fig01-size");
    assert_eq!(first(with("class_array", json!("SX"))), "fig01-class");
    let mut nodes = with("nodes", json!(2));
    nodes["procs"] = json!(4);
    assert_eq!(first(nodes), "fig01-nodes");
}

#[test]
fn pools_over_more_nodes_are_compared_by_their_best_number_of_processes() {
    let of = |phase: &str, number: u32, nodes: u32, procs: u32, mib_s: f64| {
        let mut run = run("full", "B", phase, procs, mib_s);
        (run["run"], run["server_nodes"]) = (json!(number), json!(nodes));
        (run["store"], run["limit_mib_s"]) = (json!("nodes"), json!(1e6));
        run
    };
    let runs = [
        of("write", 0, 1, 2, 512.0),
        of("read", 1, 1, 2, 512.0),
        of("write", 2, 2, 2, 768.0),
        of("write", 3, 2, 4, 1024.0),
    ];
    let figures = figures(&runs);
    let figure = figures.iter().find(|figure| figure.id.ends_with("scaling")).unwrap();
    assert!(figure.title.starts_with("Bandwidth against nodes of the pool: "), "{}", figure.title);
    let sentence = &figure.sentence;
    for text in [
        "Write: highest 1 GiB/s (nodes, full, 2 nodes of the pool)",
        "2.00 times as much at 2 nodes of the pool",
        "Write + read: highest 1 GiB/s (nodes, full, 1 node of the pool)",
    ] {
        assert!(sentence.contains(text), "{text}: {sentence}");
    }
    // Else the measured points would lie at zero of the axis.
    assert!(!has(&figure.svg, "limit of the medium"));
}

#[test]
fn equal_runs_get_an_overview_without_the_limit_of_the_medium() {
    let medium = json!({"store": "medium", "workload": "array", "phase": "pwrite"});
    let figures = figures(&[json!({"workload": "array"}), medium]);
    assert_eq!(stems(&figures), ["overview"]);
    assert!(!has(&figures[0].svg, "pwrite"));
}

#[test]
fn long_names_are_replaced_by_numbers_that_the_sentence_explains() {
    let figures = figures(&["a", "b", "c"].map(|name| json!({"workload": name.repeat(40)})));
    assert!(has(&figures[0].svg, "3") && !figures[0].svg.contains("aaaa"));
    assert!(figures[0].sentence.contains("; 3 ccc"), "{}", figures[0].sentence);
}

#[test]
fn rate_of_small_values_is_in_operations_per_second() {
    let small =
        |procs: u32| json!({"workload": "kv", "size_bytes": 64, "procs": procs, "ops_per_s": 5e4});
    let figures = figures(&[small(1), small(2)]);
    assert!(has(&figures[0].svg, "thousand operations/s"));
    assert!(figures[0].sentence.contains("50 k/s"), "{}", figures[0].sentence);
}

#[test]
fn phases_that_move_no_bytes_are_drawn_apart_in_operations() {
    let phase = |phase: &str, procs: u32, mib_s: f64| {
        let ops_per_s = f64::from(procs) * 1e4;
        json!({"workload": "fields", "phase": phase, "procs": procs, "ops_per_s": ops_per_s, "bandwidth_mib_s": mib_s})
    };
    let runs = [
        phase("archive", 1, 100.0),
        phase("list", 1, 0.0),
        phase("archive", 2, 150.0),
        phase("list", 2, 0.0),
    ];
    let figures = figures(&runs);
    assert_eq!(stems(&figures), ["processes"; 2]);
    let [bytes, rates] = &figures[..] else { panic!("{figures:?}") };
    assert!(bytes.sentence.contains("highest 150 MiB/s"), "{}", bytes.sentence);
    assert!(!has(&bytes.svg, "list") && has(&rates.svg, "list"));
    assert!(rates.sentence.contains("highest 20 k/s"), "{}", rates.sentence);
}

/// Two writers of two operations, then two readers.
fn trace_lines(read_from_ns: u64) -> String {
    let mut lines =
        "# esker traces 1\nrun,repeat,phase,node,process,pid,cpu,iteration,event,time_ns\n"
            .to_owned();
    for (phase, start) in [("write", 0), ("read", read_from_ns)] {
        let run = if phase == "write" { 1 } else { 2 };
        for process in 0..2 {
            for iteration in 0..2 {
                let at = start + 1000 * iteration + 100 * process;
                for (event, time) in [("io_start", at), ("io_end", at + 900)] {
                    lines +=
                        &format!("{run},1,{phase},n0,{process},9,,{iteration},{event},{time}\n");
                }
            }
        }
    }
    lines
}

/// Timelines of a phase of writes and one of reads, with these lines as the file of traces. `name` is part of the name
/// of that file.
fn timelines(name: &str, lines: &str) -> Result<Vec<Figure>> {
    let path = std::env::temp_dir().join(format!("esker-{name}-{}.csv", std::process::id()));
    std::fs::write(&path, lines).unwrap();
    let mut read = run("full", "A", "read", 2, 1.0);
    read["run"] = json!(2);
    let traces = Some::<PathBuf>(path.clone());
    let file = Results { traces, ..results(&[run("full", "A", "write", 2, 1.0), read]) };
    let figures = Figures::default().timelines(&file);
    std::fs::remove_file(path).unwrap();
    figures
}

#[test]
fn phases_that_follow_each_other_have_timelines_of_their_own() {
    let figures = timelines("apart", &trace_lines(5000)).unwrap();
    let titles: Vec<_> = figures.iter().map(|figure| figure.title.as_str()).collect();
    assert!(
        titles[0].ends_with("(write phase)") && titles[1].ends_with("(read phase)"),
        "{titles:?}"
    );
    assert!(figures[0].sentence.contains("4 operations of 2 processes"), "{}", figures[0].sentence);
    for text in ["read 0", "read 1", "off_0 read", "off_f read"] {
        assert!(has(&figures[1].svg, text), "{text}: {:?}", texts(&figures[1].svg));
    }
    assert!(texts(&figures[1].svg).iter().any(|text| text.contains("(ms)")));
    let (boxes, in_legend) = (4, 1);
    assert_eq!(elements(&figures[0].svg, "rect", FIRST).len(), boxes + in_legend);
}

#[test]
fn phases_at_the_same_time_share_a_timeline() {
    let figures = timelines("together", &trace_lines(500)).unwrap();
    assert_eq!(figures.len(), 1);
    assert!(has(&figures[0].svg, "write 1") && has(&figures[0].svg, "read 0"));
}

#[test]
fn invalid_traces_are_refused_by_name_and_line() {
    let message =
        |name: &str, lines: &str| timelines(name, lines).unwrap_err().message().to_owned();
    let odd = message("odd", "a,b\n1,2\n");
    assert!(odd.contains("esker-odd") && odd.contains("line 2, is not a trace"), "{odd}");
    let broken = message("broken", &(trace_lines(500) + "1,1,write,n0\n"));
    assert!(broken.contains("line 19, is not a trace"), "{broken}");
    let endless = message("endless", &(trace_lines(500) + "1,1,write,n0,0,9,,2,io_end,inf\n"));
    assert!(endless.contains("line 19, is not a trace"), "{endless}");
}

fn page() -> Page {
    let runs = [1, 2].map(|procs| {
        json!({"mode": "<b>&amp;</b>", "procs": procs, "off_0": 0.001, "off_f": 0.002, "total_wall_clock_s": 1.0})
    });
    Page::from_results("Results of \"A\" & <B>", &[results(&runs)]).unwrap()
}

fn parsed(html: &str) -> Document<'_> {
    Document::parse_with_options(html, ParsingOptions { allow_dtd: true, ..Default::default() })
        .unwrap()
}

#[test]
fn page_is_well_formed_and_refers_to_no_other_file() {
    let html = page().html().unwrap();
    for node in parsed(&html).descendants() {
        for attribute in node.attributes().filter(|one| ["href", "src"].contains(&one.name())) {
            assert!(attribute.value().starts_with('#'), "{attribute:?}");
        }
        assert!(!["link", "img", "iframe"].contains(&node.tag_name().name()));
    }
    let foreign = html.replace("http://www.w3.org/", "");
    assert_eq!(foreign.matches("://").count(), 0);
}

#[test]
fn page_has_every_figure_with_its_sentence_and_buttons() {
    let page = page();
    assert_eq!(page.figures().count(), 2);
    let html = page.html().unwrap();
    let document = parsed(&html);
    let nodes = document.descendants().filter(|node| node.tag_name().name() == "figure");
    for (node, figure) in nodes.zip(page.figures()) {
        assert_eq!(node.attribute("id"), Some(figure.id.as_str()));
        let of =
            |name: &str| node.descendants().filter(|one| one.tag_name().name() == name).count();
        assert_eq!((of("svg"), of("figcaption"), of("button")), (1, 1, 2));
        assert!(html.contains(&format!("href=\"#{}\"", figure.id)));
    }
    let mut ids: Vec<_> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn text_of_result_files_is_escaped() {
    let html = page().html().unwrap();
    assert!(!html.contains("<b>") && !html.contains("<9>"));
    assert!(html.contains("&lt;b&gt;&amp;amp;&lt;"));
    assert!(html.contains("abacus &lt;9&gt; &amp; co"));
    assert!(html.contains("<h1>Results of &quot;A&quot; &amp; &lt;B&gt;</h1>"));
}

#[test]
fn page_has_all_numbers_and_settings() {
    let html = page().html().unwrap();
    for text in [
        "<td class=\"n\">100</td>",
        "<dt>seed</dt>",
        "<dd>S1</dd>",
        "1970-01-01T00:00:05Z",
        "1 GiB",
    ] {
        assert!(html.contains(text), "{text}");
    }
}
