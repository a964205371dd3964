//! One self-contained page: figures, tables, and what they were measured on.
//!
//! The page is XHTML, so that it can be parsed; it needs no network, and is legible without scripts.
mod html;
pub(crate) mod machine;
pub(crate) mod numbers;

pub use html::Html;

use crate::figures::{Figure, Figures};
use crate::results::Results;
use esker_types::Result;

const CSS: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page and the plots on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The whole document.
    pub html: String,
    /// Its plots.
    pub figures: Vec<Figure>,
}

/// The page of some result files.
///
/// # Errors
/// Where traces beside a file cannot be read.
pub fn report(title: &str, files: &[Results]) -> Result<Page> {
    let figures = Figures::default().of(files)?;
    let mut html = begin(title);
    html.leaf("p", &[("class", "note")], &summary(files, figures.len()));
    contents(&mut html, &figures);
    html.leaf("h2", &[], "Figures");
    figures.iter().for_each(|figure| draw(&mut html, figure));
    numbers::tables(&mut html, files);
    machine::blocks(&mut html, files);
    Ok(Page { html: end(html), figures })
}

fn summary(files: &[Results], figures: usize) -> String {
    let runs: usize = files.iter().map(|file| file.runs.len()).sum();
    let of =
        |count: usize, name: &str| format!("{count} {name}{}", if count == 1 { "" } else { "s" });
    let esker = env!("CARGO_PKG_VERSION");
    format!(
        "{} from {} in {}, by Esker {esker}.",
        of(figures, "figure"),
        of(runs, "measured phase"),
        of(files.len(), "result file")
    )
}

/// Head and title of a page.
pub(crate) fn begin(title: &str) -> Html {
    let mut html = Html::document(title);
    html.style(&format!(
        "{CSS}@media screen and (prefers-color-scheme: dark) {{\n{}}}\n",
        crate::plot::css("svg")
    ));
    html.body();
    html.leaf("h1", &[], title);
    html
}

/// The page as text, with the script behind everything else.
pub(crate) fn end(mut html: Html) -> String {
    html.script(SCRIPT);
    html.finish()
}

fn contents(html: &mut Html, figures: &[Figure]) {
    html.open("nav", &[]);
    html.open("ol", &[]);
    for figure in figures {
        html.open("li", &[]);
        html.leaf("a", &[("href", &format!("#{}", figure.id))], &figure.title);
        html.close();
    }
    html.close();
    html.close();
}

/// A plot with what it shows, and buttons to save it.
pub(crate) fn draw(html: &mut Html, figure: &Figure) {
    html.open("figure", &[("id", &figure.id)]);
    html.raw(&figure.svg);
    html.leaf("figcaption", &[], &figure.sentence);
    html.open("div", &[("class", "save"), ("hidden", "hidden")]);
    for (sort, label) in [("svg", "Save as SVG"), ("png", "Save as PNG")] {
        html.leaf("button", &[("type", "button"), ("data-save", sort)], label);
    }
    html.close();
    html.close();
}

#[cfg(test)]
mod tests;
