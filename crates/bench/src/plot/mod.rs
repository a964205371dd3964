//! Plots as SVG: a few sorts, drawn so that they are legible in print, in the dark and for the
//! colour-blind.
//!
//! Every shape has its light colours as attributes, so a plot that is saved by itself looks as it does
//! in print; a page may give the classes other colours.
mod bars;
mod chart;
mod frame;
mod legend;
mod lines;
mod scale;
mod style;
mod svg;
mod timeline;

pub use chart::{Axis, Chart, Mark, Panel, Point, Series};
pub use scale::{Scale, nice_ticks, short};
pub use style::{LIMIT, Palette, Style, css};
pub use svg::{Svg, escape};
pub use timeline::{Lane, Span, SpanSort, Timeline};

/// Width of every plot, in its own units.
pub const WIDTH: f64 = 860.0;

#[cfg(test)]
mod tests;
