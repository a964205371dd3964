use super::*;

fn series(label: &str, style: Style, values: &[(f64, f64)]) -> Series {
    let points = values.iter().map(|&(x, y)| Point { x, y, low: y * 0.9, high: y * 1.1 });
    Series { label: label.to_owned(), style, points: points.collect() }
}

fn chart(mark: Mark, x: Axis) -> Chart {
    let mut palette = Palette::default();
    let full = series("full <&\">", palette.style("full"), &[(0.0, 10.0), (1.0, 20.0)]);
    let limit = series("limit", LIMIT, &[(0.0, 30.0), (1.0, 30.0)]);
    Chart {
        id: "c".to_owned(),
        title: "A & B".to_owned(),
        x_label: "processes".to_owned(),
        y_label: "GiB/s".to_owned(),
        x,
        mark,
        panels: vec![Panel { title: "write".to_owned(), series: vec![full, limit] }],
    }
}

fn values() -> Axis {
    Axis::Values { ticks: vec![(0.0, "0".to_owned()), (1.0, "1".to_owned())], log: false }
}

/// Texts of an SVG that parses.
fn texts(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let nodes = document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")));
    nodes.filter_map(|node| node.text().map(str::to_owned)).collect()
}

fn count(svg: &str, name: &str, class: &str) -> usize {
    let document = roxmltree::Document::parse(svg).unwrap();
    let nodes = document.descendants().filter(|node| node.tag_name().name() == name);
    nodes.filter(|node| node.attribute("class") == Some(class)).count()
}

#[test]
fn scales_map_ranges_to_places() {
    let scale = Scale::linear((0.0, 10.0), (100.0, 200.0));
    assert_eq!([0.0, 5.0, 10.0].map(|value| scale.place(value)), [100.0, 150.0, 200.0]);
    let turned = Scale::linear((0.0, 4.0), (300.0, 100.0));
    assert_eq!(turned.place(1.0), 250.0);
    let log = Scale::log((1.0, 16.0), (0.0, 4.0));
    for (value, place) in [(1.0, 0.0), (2.0, 1.0), (8.0, 3.0), (16.0, 4.0)] {
        assert!((log.place(value) - place).abs() < 1e-9, "{value}");
    }
    assert_eq!(Scale::linear((3.0, 3.0), (0.0, 10.0)).place(3.0), 5.0);
}

#[test]
fn ticks_are_round_and_reach_the_greatest_value() {
    assert_eq!(nice_ticks(10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(nice_ticks(0.0, 5), [0.0, 1.0]);
    assert_eq!(nice_ticks(f64::NAN, 5), [0.0, 1.0]);
    for max in [0.003, 0.7, 1.0, 9.9, 11.3, 99.0, 101.0, 12_345.0, 6.5e9] {
        let ticks = nice_ticks(max, 5);
        assert!((3..=8).contains(&ticks.len()), "{max}: {ticks:?}");
        assert!(*ticks.last().unwrap() >= max * 0.9999, "{max}: {ticks:?}");
    }
}

#[test]
fn numbers_on_axes_are_short() {
    let known = [
        (0.0, "0"),
        (0.05, "0.05"),
        (1.0, "1"),
        (2.345, "2.35"),
        (12.34, "12.3"),
        (999.6, "1,000"),
        (1000.0, "1,000"),
        (1_234_567.0, "1,234,567"),
        (-1500.0, "-1,500"),
    ];
    for (value, text) in known {
        assert_eq!(short(value), text);
    }
}

#[test]
fn paths_go_through_their_places() {
    let places = [(0.0, 1.0), (2.5, 3.0), (4.126, -0.001)];
    assert_eq!(lines::path(places.into_iter()), "M0 1L2.5 3L4.13 0");
    assert_eq!(lines::path([].into_iter()), "");
}

#[test]
fn lines_are_drawn_with_markers_whiskers_and_limit() {
    let svg = chart(Mark::Lines, values()).svg();
    let texts = texts(&svg);
    for text in ["A & B", "processes", "GiB/s", "write", "full <&\">", "limit"] {
        assert!(texts.iter().any(|found| found == text), "{text}: {texts:?}");
    }
    let (markers, in_legend) = (2, 1);
    assert_eq!(count(&svg, "path", "s0 mark"), markers + in_legend);
    assert_eq!(count(&svg, "path", "limit stroke"), 1);
    let (line, whiskers) = (1, 2);
    assert_eq!(count(&svg, "path", "s0 stroke"), line + whiskers);
}

#[test]
fn bars_stand_on_zero_and_refer_to_their_filling() {
    let names = ["S1".to_owned(), "SX".to_owned()].to_vec();
    let svg = chart(Mark::Bars, Axis::Categories(names)).svg();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let by = |attribute: &'static str| {
        let rects =
            document.descendants().filter(|node| node.attribute("fill") == Some("url(#c-fill0)"));
        let bars =
            rects.skip(1).map(move |bar| bar.attribute(attribute).unwrap().parse::<f64>().unwrap());
        bars.collect::<Vec<_>>()
    };
    let (tops, heights) = (by("y"), by("height"));
    assert_eq!(tops[0] + heights[0], tops[1] + heights[1]);
    assert!((heights[1] - 2.0 * heights[0]).abs() < 0.05, "{heights:?}");
    assert!(svg.contains("id=\"c-fill0\""));
    assert!(texts(&svg).contains(&"SX".to_owned()));
}

#[test]
fn a_chart_of_nothing_is_still_a_chart() {
    let mut empty = chart(Mark::Lines, values());
    empty.panels[0].series.clear();
    assert!(texts(&empty.svg()).contains(&"write".to_owned()));
}

#[test]
fn styles_differ_in_more_than_colour() {
    let mut palette = Palette::default();
    let styles: Vec<_> = (0..14).map(|index| palette.style(&index.to_string())).collect();
    assert_eq!(palette.style("3"), styles[3]);
    for (index, one) in styles.iter().enumerate() {
        for other in &styles[..index] {
            assert_ne!((one.colour(), one.dashes()), (other.colour(), other.dashes()));
        }
    }
    for (index, one) in styles[..7].iter().enumerate() {
        assert!(styles[..index].iter().all(|other| other.dashes() != one.dashes()));
    }
}

#[test]
fn markup_and_control_characters_are_escaped() {
    assert_eq!(escape("<a href='x'>&\"\u{1}\t"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\u{fffd}\t");
}

#[test]
fn narrow_operations_are_drawn_together_and_pauses_are_kept() {
    let scale = Scale::linear((0.0, 100.0), (0.0, 100.0));
    let span = |start_s, end_s| Span { sort: SpanSort::Write, start_s, end_s };
    let spans = [span(0.0, 10.0), span(10.0, 10.5), span(10.5, 11.0), span(50.0, 50.2)];
    let read = Span { sort: SpanSort::Read, ..span(50.2, 50.3) };
    let drawn = timeline::boxes(&scale, &[&spans[..], &[read]].concat());
    let ends: Vec<_> = drawn.iter().map(|(_, from, to)| (*from, *to)).collect();
    assert_eq!(ends, [(0.0, 10.0), (10.0, 11.0), (50.0, 50.2), (50.2, 50.3)]);
}

#[test]
fn a_timeline_has_a_line_for_each_process_and_names_its_offsets() {
    let span = Span { sort: SpanSort::Write, start_s: 0.0, end_s: 0.010 };
    let lane = |label: &str| Lane { label: label.to_owned(), spans: vec![span, span] };
    let timeline = Timeline {
        title: "run".to_owned(),
        lanes: vec![lane("node 0, 0"), lane("node 0, 1")],
        offsets: vec![("off_f".to_owned(), 0.004, 0.010)],
    };
    let svg = timeline.svg();
    let texts = texts(&svg);
    for text in ["node 0, 0", "node 0, 1", "off_f", "write", "read"] {
        assert!(texts.iter().any(|found| found == text), "{text}");
    }
    assert!(texts.iter().any(|text| text.contains("(ms)")));
    assert_eq!(count(&svg, "rect", "s0 mark gap"), 4 + 1);
}
