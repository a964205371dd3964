//! Limits on the length of functions. The length of files is not limited.
use crate::rust::{self, Function, Source};
use crate::{Finding, Tree};
use std::fmt;

const FUNCTION_LINES_MAX: usize = 60;
const NINE_IN_TEN_LINES_MAX: usize = 40;
const MEDIAN_LINES_MAX: usize = 12;

/// Functions outside tests that exceed the limit, and files that do not parse.
pub fn long_functions(tree: &Tree) -> Vec<Finding> {
    let (sources, mut findings) = rust::sources(tree);
    findings.extend(sources.iter().flat_map(long_functions_of));
    findings
}

fn long_functions_of(source: &Source<'_>) -> Vec<Finding> {
    let long =
        source.product_functions().filter(|function| function.line_count > FUNCTION_LINES_MAX);
    let message = |function: &Function| {
        format!(
            "`{}` is {} lines long, over {FUNCTION_LINES_MAX}",
            function.name, function.line_count
        )
    };
    long.map(|function| source.file.finding(function.line, message(function))).collect()
}

/// Distribution of the length of functions outside tests.
#[derive(Debug, PartialEq, Eq)]
pub struct Distribution {
    count: usize,
    median: usize,
    nine_in_ten: usize,
    longest: usize,
}

impl Distribution {
    /// Measures every function of the product, without tests, benchmarks and examples.
    pub fn measure(tree: &Tree) -> Self {
        let (sources, _) = rust::sources(tree);
        Self::of_lengths(
            sources.iter().flat_map(Source::product_functions).map(|function| function.line_count),
        )
    }

    fn of_lengths(lengths: impl Iterator<Item = usize>) -> Self {
        let mut lengths: Vec<_> = lengths.collect();
        lengths.sort_unstable();
        let at_percent = |percent: usize| {
            let rank = (lengths.len() * percent).div_ceil(100);
            lengths.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        };
        Self {
            count: lengths.len(),
            median: at_percent(50),
            nine_in_ten: at_percent(90),
            longest: at_percent(100),
        }
    }

    /// True if half of the functions are short and 90 % are not long.
    pub fn is_within_limits(&self) -> bool {
        self.median <= MEDIAN_LINES_MAX && self.nine_in_ten <= NINE_IN_TEN_LINES_MAX
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "lines per function, {} functions:", self.count)?;
        writeln!(f, "  half of them   at most {:3} (limit {MEDIAN_LINES_MAX})", self.median)?;
        writeln!(
            f,
            "  nine in ten    at most {:3} (limit {NINE_IN_TEN_LINES_MAX})",
            self.nine_in_ten
        )?;
        write!(f, "  all of them    at most {:3} (limit {FUNCTION_LINES_MAX})", self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_function_is_found_outside_tests_only() {
        let long = format!("fn long() {{{}}}", "\n".repeat(FUNCTION_LINES_MAX));
        let in_module = format!("#[cfg(test)]\nmod tests {{\n{long}\n}}");
        let tree = Tree::of_texts(&[("product.rs", &long), ("unit.rs", &in_module)]);
        let found: Vec<_> = long_functions(&tree).iter().map(Finding::to_string).collect();
        assert_eq!(found, ["product.rs:1: `long` is 61 lines long, over 60"]);
    }

    #[test]
    fn a_file_that_does_not_parse_is_found() {
        assert_eq!(long_functions(&Tree::of_texts(&[("a.rs", "fn fn")])).len(), 1);
    }

    #[test]
    fn the_distribution_counts_from_signature_to_brace() {
        let tree = Tree::of_texts(&[("a.rs", "/// Doc.\nfn a() {\n}\nimpl A { fn b() {} }\n")]);
        let expected = Distribution { count: 2, median: 1, nine_in_ten: 2, longest: 2 };
        assert_eq!(Distribution::measure(&tree), expected);
    }

    #[test]
    fn an_empty_tree_is_within_limits() {
        assert!(Distribution::measure(&Tree::default()).is_within_limits());
    }
}
