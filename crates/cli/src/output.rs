//! How commands answer: text, tables and progress bars for people, or one JSON document for programs.
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, presets};
use esker::types::{Error, ErrorKind, Result};
use esker_os::start_thread;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a bar is redrawn.
const TICK: Duration = Duration::from_millis(100);

/// Columns of a terminal that does not report its width.
const COLUMNS: u16 = 80;

/// True if only results and errors are printed: no confirmations, notes and progress.
static QUIET: AtomicBool = AtomicBool::new(false);

/// True if no progress is shown.
static NO_PROGRESS: AtomicBool = AtomicBool::new(false);

/// True if standard output may have colors.
static COLORED: AtomicBool = AtomicBool::new(false);

/// True once the reader of standard output has closed its end.
static READER_IS_GONE: AtomicBool = AtomicBool::new(false);

/// Condition under which output has colors: `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorArg {
    /// On terminals, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Sets what this process prints besides results and errors, and whether it uses colors.
pub fn configure(quiet: bool, progress: bool, color: ColorArg) {
    QUIET.store(quiet, Ordering::Relaxed);
    NO_PROGRESS.store(quiet || !progress, Ordering::Relaxed);
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    COLORED.store(has_colors(color, std::io::stdout().is_terminal(), plain), Ordering::Relaxed);
}

/// Whether output has colours: by default only on a terminal that is not plain.
fn has_colors(color: ColorArg, is_terminal: bool, plain: bool) -> bool {
    match color {
        ColorArg::Auto => is_terminal && !plain,
        ColorArg::Always => true,
        ColorArg::Never => false,
    }
}

/// True if only results and errors are printed.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// A color of text.
#[derive(Clone, Copy)]
pub(crate) enum Color {
    Red,
    Green,
    Yellow,
    Blue,
}

/// The text in a color, if standard output may have colors.
pub(crate) fn colored(text: &str, color: Color) -> String {
    let number = match color {
        Color::Red => 31,
        Color::Green => 32,
        Color::Yellow => 33,
        Color::Blue => 34,
    };
    match COLORED.load(Ordering::Relaxed) {
        true => format!("\x1b[{number}m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

/// The outcome of a command that did its work.
pub struct Answer {
    response: Value,
    text: Vec<u8>,
    /// True if the text only confirms that the work is done.
    is_confirmation: bool,
    /// Line on standard error, for people.
    note: Option<String>,
    trouble: Option<Error>,
    /// The exit status of another program that did the work and printed the answer.
    ended: Option<ExitCode>,
}

impl Answer {
    /// An answer with its JSON for programs and its lines for people.
    pub fn new(response: Value, text: impl Into<String>) -> Self {
        let mut text: String = text.into();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        Self::bytes(response, text.into_bytes())
    }

    /// An answer whose bytes go to standard output as they are, unless JSON is requested.
    pub fn bytes(response: Value, bytes: Vec<u8>) -> Self {
        let (is_confirmation, note) = (false, None);
        Self { response, text: bytes, is_confirmation, note, trouble: None, ended: None }
    }

    /// The exit status of another program that did the work and printed the answer.
    pub fn ended(code: ExitCode) -> Self {
        Self { ended: Some(code), ..Self::bytes(Value::Null, Vec::new()) }
    }

    /// An answer whose text only confirms that the work is done: `--quiet` leaves it out.
    pub fn confirmation(response: Value, text: impl Into<String>) -> Self {
        Self { is_confirmation: true, ..Self::new(response, text) }
    }

    /// An answer that is a table. If it has no rows, the note that `none` returns is printed in its place.
    pub fn listing(response: Value, table: Table, none: impl FnOnce() -> String) -> Self {
        let text = table.text();
        let note = text.is_empty().then(none);
        Self { note, ..Self::new(response, text) }
    }

    /// Fails if there is an error, after the answer is printed: the work was done, and it found a problem.
    pub fn with_trouble(self, trouble: Option<Error>) -> Self {
        Self { trouble, ..self }
    }
}

/// Records that the reader of standard output has closed its end, so that the error of writing to it is not one of the
/// command.
pub(crate) fn set_reader_gone() {
    READER_IS_GONE.store(true, Ordering::Relaxed);
}

/// Prints an outcome, and returns the exit status: success unless there is an error. A reader of standard output that
/// closes its end early, such as `head`, is not an error.
pub fn show(outcome: Result<Answer>, json: bool) -> ExitCode {
    if outcome.is_err() && READER_IS_GONE.load(Ordering::Relaxed) {
        return ExitCode::SUCCESS;
    }
    if let Ok(Answer { ended: Some(code), .. }) = outcome {
        return code;
    }
    let (answer, error) = match outcome {
        Ok(mut answer) => {
            let trouble = answer.trouble.take();
            (Some(answer), trouble)
        }
        Err(error) => (None, Some(error)),
    };
    let printed = match (json, answer) {
        (true, answer) => print(&envelope(answer.map(|answer| answer.response), error.as_ref())),
        (false, Some(answer)) => print_text(&answer),
        (false, None) => Ok(()),
    };
    if let (false, Some(error)) = (json, &error) {
        say(error);
    }
    match (printed, error) {
        (Ok(()), None) => ExitCode::SUCCESS,
        (Err(cause), _) => {
            say(format_args!("writing to standard output: {cause}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::FAILURE,
    }
}

/// Prints an answer for people.
fn print_text(answer: &Answer) -> std::io::Result<()> {
    if let Some(note) = answer.note.as_ref().filter(|_| !is_quiet()) {
        say(note);
    }
    match answer.is_confirmation && is_quiet() {
        true => Ok(()),
        false => print(&answer.text),
    }
}

/// JSON of an answer in the form of the `daos` command.
fn envelope(response: Option<Value>, error: Option<&Error>) -> Vec<u8> {
    let shown =
        error.map(|error| json!({"kind": kind_name(error.kind()), "message": error.message()}));
    let envelope = json!({
        "response": response,
        "error": shown,
        "status": error.map_or(0, Error::der),
    });
    format!("{envelope:#}\n").into_bytes()
}

/// The kind as JSON has it: `not_found` for [`ErrorKind::NotFound`].
fn kind_name(kind: ErrorKind) -> String {
    let mut name = String::new();
    for letter in format!("{kind:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Prints a line on standard error. If that is closed, the line is dropped and the command continues.
pub fn say(message: impl Display) {
    let _ = writeln!(std::io::stderr(), "esker: {message}");
}

/// Prints a line on standard output at once. False if the reader has closed its end.
///
/// # Errors
/// The errors of writing.
pub(crate) fn print_line(line: &str) -> Result<bool> {
    match writeln!(std::io::stdout(), "{line}") {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::io("writing to standard output", &error)),
    }
}

/// Writes to standard output. A reader that closes its end early, such as `head`, is not an error.
fn print(bytes: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// A table without lines: headings and rows, two spaces between columns.
///
/// On a terminal that is too narrow, the cells of the last column are wrapped. Elsewhere nothing is ever cut or
/// wrapped, so that a line of output is a row.
pub struct Table(comfy_table::Table);

impl Table {
    /// A table with these headings. Columns whose heading begins with `>` are aligned right.
    pub fn new(headings: &[&str]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(headings.iter().map(|heading| heading.trim_start_matches('>')));
        for (column, heading) in table.column_iter_mut().zip(headings) {
            column.set_padding((0, 2));
            if heading.starts_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Self(table)
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.add_row(cells.into_iter().collect::<Vec<_>>());
    }

    /// The text of the table; none of a table without rows.
    pub fn text(self) -> String {
        let columns = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0);
        let is_terminal = std::io::stdout().is_terminal();
        self.text_within(is_terminal.then(|| columns.unwrap_or(COLUMNS)))
    }

    /// The text, wrapped to `columns` columns if given.
    fn text_within(mut self, columns: Option<u16>) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        self.0.set_content_arrangement(ContentArrangement::Disabled);
        if let Some(columns) = columns {
            self.0.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
            // Only the last column is wrapped.
            let last = self.0.column_count().saturating_sub(1);
            self.0.column_iter_mut().take(last).for_each(|column| {
                column.set_constraint(ColumnConstraint::ContentWidth);
            });
        }
        self.0.trim_fmt()
    }
}

/// A progress bar on standard error. It is shown on terminals only, unless `--no-progress` is given, and removed when
/// dropped.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar over bytes.
    pub fn bytes(what: &'static str) -> Self {
        Self::new(what, "{msg} {bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
    }

    /// A bar over anything else that is counted.
    pub fn steps(what: &'static str) -> Self {
        Self::new(what, "{msg} {bar:40} {pos}/{len}")
    }

    /// A bar that is not shown.
    pub fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// A spinner with a message.
    pub fn spinner() -> Self {
        let bar = Self::new("", "{spinner} {msg}");
        // A thread of the library turns the spinner. The library panics if the system cannot start that thread.
        if shows_progress() && start_thread(|| ()).is_ok() {
            bar.0.enable_steady_tick(TICK);
        }
        bar
    }

    fn new(what: impl Into<Cow<'static, str>>, template: &str) -> Self {
        if !shows_progress() {
            return Self::hidden();
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what);
        Self(bar)
    }

    /// Shows how much is done.
    pub fn update(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
    }

    /// Shows a message.
    pub fn say(&self, message: &str) {
        self.0.set_message(message.to_owned());
    }
}

/// False if `--quiet` or `--no-progress` is given, or if the configuration says so.
fn shows_progress() -> bool {
    !NO_PROGRESS.load(Ordering::Relaxed)
}

/// Does `work`, which shows on a spinner what it is doing.
pub fn with_spinner<T>(work: impl FnOnce(&mut dyn FnMut(&str)) -> T) -> T {
    let bar = Bar::spinner();
    work(&mut |what| bar.say(what))
}

/// Runs `work` and returns its result. On a terminal, another thread meanwhile calls `show` at intervals, with the
/// progress bar that `make` creates.
pub fn watched<T>(
    make: impl FnOnce() -> Bar + Send,
    show: impl Fn(&Bar) + Sync,
    work: impl FnOnce() -> T,
) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if shows_progress() && std::io::stderr().is_terminal() {
            // Without another thread, the work is not shown.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || {
                let bar = make();
                while !done.load(Ordering::Relaxed) {
                    show(&bar);
                    std::thread::sleep(TICK);
                }
            });
        }
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_is_the_documented_one() {
        let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        let fine = read(&envelope(Some(json!({"a": 1})), None));
        assert_eq!(fine, json!({"response": {"a": 1}, "error": null, "status": 0}));
        let error = Error::new(ErrorKind::NotFound, "no pool");
        let failed = read(&envelope(None, Some(&error)));
        let shown = json!({"kind": "not_found", "message": "no pool"});
        assert_eq!(failed, json!({"response": null, "error": shown, "status": -1005}));
    }

    #[test]
    fn colors_follow_the_option_and_the_terminal() {
        assert!(
            has_colors(ColorArg::Auto, true, false) && has_colors(ColorArg::Always, false, true)
        );
        for plain in [
            (ColorArg::Auto, false, false),
            (ColorArg::Auto, true, true),
            (ColorArg::Never, true, false),
        ] {
            assert!(!has_colors(plain.0, plain.1, plain.2), "{plain:?}");
        }
    }

    #[test]
    fn lines_end() {
        assert_eq!(Answer::new(Value::Null, "a").text, b"a\n");
        assert_eq!(Answer::new(Value::Null, "a\n").text, b"a\n");
        assert_eq!(Answer::new(Value::Null, "").text, b"");
    }

    fn table() -> Table {
        let mut table = Table::new(&["name", ">size", "path"]);
        table.row(["a".to_owned(), "10".to_owned(), "/some/long/path".to_owned()]);
        table.row(["longer".to_owned(), "1000000".to_owned(), "/short".to_owned()]);
        table
    }

    #[test]
    fn columns_line_up() {
        let wide =
            "name       size  path\na            10  /some/long/path\nlonger  1000000  /short";
        assert_eq!(table().text_within(None), wide);
        assert_eq!(table().text_within(Some(80)), wide);
        assert_eq!(Table::new(&["name"]).text_within(None), "");
    }

    #[test]
    fn a_narrow_terminal_wraps_the_last_column() {
        let text = table().text_within(Some(30));
        assert!(text.lines().all(|line| line.len() <= 30), "{text}");
        let joined = text.split_whitespace().collect::<String>();
        assert!(text.lines().count() > 3 && joined.contains("longer1000000/short"), "{text}");
    }
}
