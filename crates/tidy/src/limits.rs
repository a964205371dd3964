//! Compares the limits in the documentation with the constants in the source.
use crate::tree::File;
use crate::{Finding, Tree};
use std::collections::BTreeMap;
use syn::{BinOp, Expr, Item, Lit};

/// The page: a table under each heading, preceded by a link to the source of its limits.
const PAGE: &str = "docs/limits.md";

/// A limit is one number, or a minimum and a maximum.
type Value = Vec<u128>;

/// Limits that are missing on the page, have an unknown name, or differ from the source.
pub fn stale(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(PAGE) else {
        return Vec::new();
    };
    tables(page).iter().flat_map(|table| table.compare(tree, page)).collect()
}

/// The rows below a link to a `limits.rs`.
struct Table {
    source: String,
    line: usize,
    rows: Vec<Row>,
}

struct Row {
    line: usize,
    name: String,
    value: String,
}

fn tables(page: &File) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for (text, line) in page.text.lines().zip(1..) {
        if let Some(source) = linked_source(text) {
            tables.push(Table { source, line, rows: Vec::new() });
        } else if let (Some(table), Some(row)) = (tables.last_mut(), Row::parse(text, line)) {
            table.rows.push(row);
        }
    }
    tables
}

/// The path from the root of the repository, if a line links to a file of limits.
fn linked_source(text: &str) -> Option<String> {
    let (_, target) = text.split_once("](../")?;
    let (path, _) = target.split_once(')')?;
    path.ends_with("/limits.rs").then(|| path.to_owned())
}

impl Row {
    fn parse(text: &str, line: usize) -> Option<Self> {
        let mut cells = text.strip_prefix("| `")?.split('|');
        let name = cells.next()?.trim().strip_suffix('`')?.to_owned();
        Some(Self { line, name, value: cells.next()?.trim().to_owned() })
    }
}

impl Table {
    fn compare(&self, tree: &Tree, page: &File) -> Vec<Finding> {
        let Some(source) = tree.file(&self.source) else {
            return vec![page.finding(self.line, format!("no such file: {}", self.source))];
        };
        let constants = constants(&source.text);
        let wrong = self.rows.iter().filter_map(|row| row.finding(&constants, page, &self.source));
        let missing = constants.keys().filter(|name| !self.rows.iter().any(|r| r.name == **name));
        let missing = missing
            .map(|name| page.finding(self.line, format!("`{name}` of {} is missing", self.source)));
        wrong.chain(missing).collect()
    }
}

impl Row {
    fn finding(&self, all: &BTreeMap<String, Value>, page: &File, from: &str) -> Option<Finding> {
        let Some(wanted) = all.get(&self.name) else {
            return Some(page.finding(self.line, format!("`{}` is not in {from}", self.name)));
        };
        let written = written_value(&self.value);
        (written.as_ref() != Some(wanted)).then(|| {
            let said = format!("`{}` is {wanted:?} in {from}, here `{}`", self.name, self.value);
            page.finding(self.line, said)
        })
    }
}

/// Parses a cell of the page: `512 KiB`, `65,536`, `2^32 - 2`, `1 B to 1 GiB`.
fn written_value(text: &str) -> Option<Value> {
    text.split(" to ").map(written_number).collect()
}

/// Parses a number of a page, such as `512 KiB`, `65,536` or `2^32 - 2`.
pub(crate) fn written_number(text: &str) -> Option<u128> {
    let mut words = text.split_whitespace();
    let mut number = written_power(words.next()?)?;
    while let Some(word) = words.next() {
        number = match word {
            "B" | "s" => number,
            "KiB" => number << 10,
            "MiB" => number << 20,
            "GiB" => number << 30,
            "TiB" => number << 40,
            "-" => number.checked_sub(words.next()?.parse().ok()?)?,
            _ => return None,
        };
    }
    Some(number)
}

fn written_power(text: &str) -> Option<u128> {
    let plain = text.replace(',', "");
    match plain.split_once('^') {
        Some((base, power)) => base.parse::<u128>().ok()?.checked_pow(power.parse().ok()?),
        None => plain.parse().ok(),
    }
}

/// The public constants of a file that are integers, or ranges of integers.
fn constants(source: &str) -> BTreeMap<String, Value> {
    let items = syn::parse_file(source).map(|file| file.items).unwrap_or_default();
    let mut found = BTreeMap::new();
    for item in items {
        if let Item::Const(item) = item
            && matches!(item.vis, syn::Visibility::Public(_))
            && let Some(value) = value(&item.expr, &found)
        {
            found.insert(item.ident.to_string(), value);
        }
    }
    found
}

fn value(expression: &Expr, known: &BTreeMap<String, Value>) -> Option<Value> {
    let Expr::Range(range) = expression else {
        return Some(vec![number(expression, known)?]);
    };
    let ends = [range.start.as_deref()?, range.end.as_deref()?];
    ends.iter().map(|end| number(end, known)).collect()
}

/// The value of a constant expression of integers.
pub(crate) fn number(expression: &Expr, known: &BTreeMap<String, Value>) -> Option<u128> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(digits) => digits.base10_parse().ok(),
            _ => None,
        },
        Expr::Paren(inner) => number(&inner.expr, known),
        Expr::Cast(cast) => number(&cast.expr, known),
        Expr::Binary(sum) => {
            combine(&sum.op, number(&sum.left, known)?, number(&sum.right, known)?)
        }
        Expr::Path(path) => named(&path.path, known),
        _ => None,
    }
}

fn combine(operator: &BinOp, left: u128, right: u128) -> Option<u128> {
    match operator {
        BinOp::Shl(_) => left.checked_shl(u32::try_from(right).ok()?),
        BinOp::Mul(_) => left.checked_mul(right),
        BinOp::Add(_) => left.checked_add(right),
        BinOp::Sub(_) => left.checked_sub(right),
        _ => None,
    }
}

fn named(path: &syn::Path, known: &BTreeMap<String, Value>) -> Option<u128> {
    let parts: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
    match parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["u32", "MAX"] => Some(u32::MAX.into()),
        ["i64", "MAX"] => Some(i64::MAX as u128),
        ["u64", "MAX"] => Some(u64::MAX.into()),
        [name] => known.get(*name)?.first().copied(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "pub const KEY_MAX: usize = 512 << 10;
        pub const VALUE_MAX: u64 = KEY_MAX as u64;
        pub const COUNT_MAX: u32 = u32::MAX - 1;
        pub const CHUNK: std::ops::RangeInclusive<u64> = 1..=1 << 30;
        pub const WAIT: Duration = Duration::from_secs(1);
        const PRIVATE: usize = 7;";

    fn findings(rows: &str) -> Vec<String> {
        let page = format!("# Limits\nFrom [it](../crates/a/src/limits.rs):\n\n{rows}");
        let tree = Tree::of_texts(&[(PAGE, &page), ("crates/a/src/limits.rs", SOURCE)]);
        stale(&tree).iter().map(Finding::to_string).collect()
    }

    const GOOD: &str = "| `KEY_MAX` | 512 KiB | a key |\n| `VALUE_MAX` | 524,288 B | a value |
| `COUNT_MAX` | 2^32 - 2 | a count |\n| `CHUNK` | 1 B to 1 GiB | a chunk |\n";

    #[test]
    fn a_correct_page_has_no_findings() {
        assert_eq!(findings(GOOD), Vec::<String>::new());
    }

    #[test]
    fn wrong_values_are_found() {
        for (right, wrong) in [("512 KiB", "512 MiB"), ("2^32 - 2", "2^32 - 1"), ("1 GiB", "many")]
        {
            assert_eq!(findings(&GOOD.replace(right, wrong)).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn missing_and_unknown_names_are_found() {
        assert_eq!(findings(&GOOD.replace("KEY_MAX", "KEY_MIN")).len(), 2);
        assert_eq!(findings(&format!("{GOOD}| `PRIVATE` | 7 | not public |\n")).len(), 1);
    }

    #[test]
    fn a_missing_source_is_found() {
        let page = "[it](../crates/b/src/limits.rs)";
        assert_eq!(stale(&Tree::of_texts(&[(PAGE, page)])).len(), 1);
    }
}
