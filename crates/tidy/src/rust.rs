//! Rust source as rules use it: tokens with their lines, functions, and the lines that belong to tests.
use crate::Tree;
use crate::tree::{File, Finding};
use proc_macro2::{TokenStream, TokenTree};
use std::ops::RangeInclusive;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Directories of tests, benchmarks and examples, and the files of out-of-line unit tests and loom models.
const TEST_PLACES: [&str; 6] = ["tests", "benches", "examples", "fuzz", "tests.rs", "models.rs"];

/// A parsed Rust file.
pub(crate) struct Source<'a> {
    pub(crate) file: &'a File,
    pub(crate) tokens: Vec<Token>,
    functions: Vec<Function>,
    test_lines: Vec<RangeInclusive<usize>>,
}

/// A token, brackets included, and its first line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// A function, and the lines from its signature to its closing brace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) line_count: usize,
}

/// Every Rust file of the tree that parses, and a finding for each of the others.
pub(crate) fn sources(tree: &Tree) -> (Vec<Source<'_>>, Vec<Finding>) {
    let (mut sources, mut findings) = (Vec::new(), Vec::new());
    for file in tree.files().filter(|file| file.extension() == "rs") {
        match Source::parse(file) {
            Ok(source) => sources.push(source),
            Err(error) => findings.push(file.finding(error.span().start().line, error.to_string())),
        }
    }
    (sources, findings)
}

/// Reports `message` for each token of a test that is `wanted`, except in the file `but`.
pub(crate) fn find_in_tests(
    tree: &Tree,
    but: &str,
    wanted: impl Fn(&str) -> bool,
    message: &str,
) -> Vec<Finding> {
    let (sources, _) = sources(tree);
    let others = sources.iter().filter(|source| source.file.path != but);
    let found = others.flat_map(|source| {
        let of_tests = source.tokens.iter().filter(|token| source.is_test(token.line));
        let found = of_tests.filter(|token| wanted(&token.text));
        found.map(|token| source.file.finding(token.line, message))
    });
    found.collect()
}

impl<'a> Source<'a> {
    fn parse(file: &'a File) -> syn::Result<Self> {
        let syntax = syn::parse_file(&file.text)?;
        let mut outline = Outline::default();
        outline.visit_file(&syntax);
        let mut tokens = Vec::new();
        flatten(syn::parse_str(&file.text)?, &mut tokens);
        Ok(Self { file, tokens, functions: outline.functions, test_lines: outline.test_lines })
    }

    /// The functions that are part of the product.
    pub(crate) fn product_functions(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().filter(|function| !self.is_test(function.line))
    }

    /// True for code that only tests run, to which fewer rules apply.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.is_test_file() || covers(&self.test_lines, line)
    }

    fn is_test_file(&self) -> bool {
        self.file.path.split('/').any(|part| TEST_PLACES.contains(&part))
    }
}

fn covers(ranges: &[RangeInclusive<usize>], line: usize) -> bool {
    ranges.iter().any(|range| range.contains(&line))
}

/// Appends the tokens of a stream and of all groups in it, in the order of the source. The content of macros, which the
/// syntax tree does not parse, is included.
fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        let TokenTree::Group(group) = &tree else {
            tokens.push(Token { text: tree.to_string(), line });
            continue;
        };
        let (open, close) = brackets(group.delimiter());
        tokens.push(Token { text: open.to_owned(), line });
        flatten(group.stream(), tokens);
        tokens.push(Token { text: close.to_owned(), line: group.span_close().start().line });
    }
}

fn brackets(delimiter: proc_macro2::Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        proc_macro2::Delimiter::Parenthesis => ("(", ")"),
        proc_macro2::Delimiter::Brace => ("{", "}"),
        proc_macro2::Delimiter::Bracket => ("[", "]"),
        proc_macro2::Delimiter::None => ("", ""),
    }
}

/// Collects functions and the lines of tests while walking over a file.
#[derive(Default)]
struct Outline {
    functions: Vec<Function>,
    test_lines: Vec<RangeInclusive<usize>>,
}

impl Outline {
    /// Records the lines of an item, if its attributes make it a test.
    fn note_test(&mut self, attributes: &[syn::Attribute], item: &impl Spanned) {
        if attributes.iter().any(is_test_attribute) {
            let span = item.span();
            self.test_lines.push(span.start().line..=span.end().line);
        }
    }

    /// Records a function.
    fn note_function(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let line = signature.span().start().line;
        let line_count = body.span().end().line + 1 - line;
        self.functions.push(Function { name: signature.ident.to_string(), line, line_count });
    }
}

impl<'ast> Visit<'ast> for Outline {
    fn visit_file(&mut self, file: &'ast syn::File) {
        self.note_test(&file.attrs, file);
        visit::visit_file(self, file);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.note_test(&item.attrs, item);
        visit::visit_item_mod(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.note_test(&item.attrs, item);
        visit::visit_item_impl(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note_test(&item.attrs, item);
        self.note_function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note_test(&item.attrs, item);
        self.note_function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        item.default.iter().for_each(|body| self.note_function(&item.sig, body));
        visit::visit_trait_item_fn(self, item);
    }
}

/// `#[test]`, `#[some::test]`, and `#[cfg(..)]` that needs `test`.
fn is_test_attribute(attribute: &syn::Attribute) -> bool {
    let path = attribute.path();
    if !path.is_ident("cfg") {
        return path.segments.last().is_some_and(|segment| segment.ident == "test");
    }
    let mut tokens = Vec::new();
    let condition = attribute.meta.require_list().map(|list| list.tokens.clone());
    flatten(condition.unwrap_or_default(), &mut tokens);
    let has = |word| tokens.iter().any(|token| token.text == word);
    has("test") && !has("not")
}
