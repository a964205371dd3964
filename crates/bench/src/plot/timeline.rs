//! What each process did when: one line per process, one box per operation.
use super::WIDTH;
use super::scale::{Scale, nice_ticks, short};
use super::style::Style;
use super::svg::{Svg, number};

/// What an operation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpanSort {
    /// Wrote.
    Write,
    /// Read.
    Read,
}

impl SpanSort {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
        }
    }

    fn style(self) -> Style {
        Style::of(match self {
            Self::Write => 0,
            Self::Read => 1,
        })
    }
}

/// One operation, in seconds from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// What it did.
    pub sort: SpanSort,
    /// When it began.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
}

/// One process.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// What it is called.
    pub label: String,
    /// Its operations as they began.
    pub spans: Vec<Span>,
}

/// Lines of processes over the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// What it is called.
    pub title: String,
    /// From top to bottom.
    pub lanes: Vec<Lane>,
    /// Times that are pointed out: name, start and end in seconds.
    pub offsets: Vec<(String, f64, f64)>,
}

const LEFT: f64 = 110.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 62.0;
const LANE: f64 = 20.0;
const BOX: f64 = 13.0;
const OFFSET_ROW: f64 = 18.0;
const BELOW: f64 = 48.0;
/// Operations narrower than this on paper are drawn together with the next.
const NARROW: f64 = 1.2;

impl Timeline {
    /// The timeline as SVG.
    #[must_use]
    pub fn svg(&self) -> String {
        let lanes = self.lanes.len() as f64 * LANE;
        let bottom = TOP + self.offsets.len() as f64 * OFFSET_ROW + lanes;
        let mut svg = Svg::new(WIDTH, bottom + BELOW, &self.title);
        svg.heading(WIDTH, &self.title);
        key(&mut svg, SpanSort::Write, 12.0);
        key(&mut svg, SpanSort::Read, 110.0);
        let scale = self.draw_axis(&mut svg, bottom);
        for (index, (name, start, end)) in self.offsets.iter().enumerate() {
            let y = TOP + index as f64 * OFFSET_ROW;
            draw_offset(&mut svg, name, (scale.place(*start), scale.place(*end)), (y, bottom));
        }
        for (index, lane) in self.lanes.iter().enumerate() {
            draw_lane(&mut svg, &scale, lane, bottom - lanes + index as f64 * LANE);
        }
        svg.finish()
    }

    fn length_s(&self) -> f64 {
        let spans = self.lanes.iter().flat_map(|lane| &lane.spans);
        spans.map(|span| span.end_s).fold(0.0, f64::max)
    }

    fn draw_axis(&self, svg: &mut Svg, bottom: f64) -> Scale {
        let length = self.length_s();
        let (unit, factor) = if length < 1.0 { ("ms", 1e3) } else { ("s", 1.0) };
        let ticks = nice_ticks(length * factor, 8);
        let greatest = ticks.last().copied().unwrap_or(1.0) / factor;
        let scale = Scale::linear((0.0, greatest), (LEFT, WIDTH - RIGHT));
        for tick in ticks {
            let place = scale.place(tick / factor);
            svg.line("grid", (place, TOP - 6.0), (place, bottom));
            svg.words(place, bottom + 17.0, "middle", &short(tick));
        }
        svg.line("axis", (LEFT, bottom), (WIDTH - RIGHT, bottom));
        let label = format!("time since the first operation began ({unit})");
        svg.words((LEFT + WIDTH - RIGHT) / 2.0, bottom + 36.0, "middle", &label);
        scale
    }
}

fn key(svg: &mut Svg, sort: SpanSort, x: f64) {
    draw_box(svg, sort, (x, x + 26.0), 33.0);
    svg.words(x + 34.0, 44.0, "start", sort.name());
}

/// A span with its name to the left, and thin lines down to the axis.
fn draw_offset(svg: &mut Svg, name: &str, (start, end): (f64, f64), (y, bottom): (f64, f64)) {
    let middle = y + OFFSET_ROW / 2.0;
    let end = end.max(start + 1.5);
    svg.words_with(LEFT - 8.0, middle + 4.0, "end", name, &[("font-style", &"italic")]);
    svg.element(
        "rect",
        &[
            ("class", &"limit mark"),
            ("x", &number(start)),
            ("y", &number(middle - 3.0)),
            ("width", &number(end - start)),
            ("height", &"6"),
            ("fill", &"#6b6b6b"),
        ],
    );
    svg.element(
        "path",
        &[
            ("class", &"limit stroke"),
            ("stroke", &"#6b6b6b"),
            ("stroke-dasharray", &"2 3"),
            (
                "d",
                &format!(
                    "M{0} {2}L{0} {3}M{1} {2}L{1} {3}",
                    number(start),
                    number(end),
                    number(middle),
                    number(bottom)
                ),
            ),
        ],
    );
}

fn draw_lane(svg: &mut Svg, scale: &Scale, lane: &Lane, y: f64) {
    svg.words(LEFT - 8.0, y + LANE / 2.0 + 4.0, "end", &lane.label);
    for (sort, from, to) in boxes(scale, &lane.spans) {
        draw_box(svg, sort, (from, to), y + (LANE - BOX) / 2.0);
    }
}

/// Where boxes begin and end on paper. Operations that are too narrow to be seen by themselves make
/// one box with their neighbours; a pause between them that can be seen ends it.
pub(super) fn boxes(scale: &Scale, spans: &[Span]) -> Vec<(SpanSort, f64, f64)> {
    let mut boxes: Vec<(SpanSort, f64, f64)> = Vec::new();
    for span in spans {
        let (from, to) = (scale.place(span.start_s), scale.place(span.end_s));
        match boxes.last_mut() {
            Some(last)
                if last.0 == span.sort && last.2 - last.1 < NARROW && from - last.2 < NARROW =>
            {
                last.2 = to.max(last.2);
            }
            _ => boxes.push((span.sort, from, to)),
        }
    }
    boxes
}

/// Reads are lower boxes, so they can be told apart without colour.
fn draw_box(svg: &mut Svg, sort: SpanSort, (from, to): (f64, f64), y: f64) {
    let (shift, height) = match sort {
        SpanSort::Write => (0.0, BOX),
        SpanSort::Read => (BOX / 4.0, BOX / 2.0),
    };
    let style = sort.style();
    svg.element(
        "rect",
        &[
            ("class", &format!("{} mark gap", style.class())),
            ("x", &number(from)),
            ("y", &number(y + shift)),
            ("width", &number((to - from).max(0.6))),
            ("height", &number(height)),
            ("fill", &style.colour()),
            ("stroke", &"#ffffff"),
            ("stroke-width", &"0.4"),
        ],
    );
}
