//! Links between pages that lead somewhere, and an index that names every decision.
use crate::tree::File;
use crate::{Finding, Tree};

/// Relative links in Markdown that name no tracked file or folder.
pub fn broken(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files().filter(|file| file.extension() == "md");
    pages.flat_map(|page| broken_in(tree, page)).collect()
}

fn broken_in(tree: &Tree, page: &File) -> Vec<Finding> {
    let targets =
        prose(&page.text).flat_map(|(line, text)| targets(text).map(move |target| (line, target)));
    let broken =
        targets.filter(|(_, target)| is_relative(target) && !leads_somewhere(tree, page, target));
    broken.map(|(line, target)| page.finding(line, format!("nothing at `{target}`"))).collect()
}

/// The numbered lines outside fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((index + 1, line))
    })
}

/// What `[text](target "title")` points to, for every such link of a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.filter_map(|(inside, _)| inside.split_whitespace().next())
}

fn is_relative(target: &str) -> bool {
    !target.contains(':') && !target.starts_with('#')
}

fn leads_somewhere(tree: &Tree, page: &File, target: &str) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    resolve(folder, path).is_some_and(|path| tree.has(&path))
}

/// The path from the root of the repository; nothing where it leaves the repository.
fn resolve(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

const DECISIONS: &str = "docs/decisions/";

/// Decisions that the index beside them does not name.
pub fn unlisted_decisions(tree: &Tree) -> Vec<Finding> {
    let index = tree.file("docs/decisions/README.md").map_or("", |file| file.text.as_str());
    let decisions =
        tree.files().filter(|file| file.path.starts_with(DECISIONS) && file.name() != "README.md");
    let unlisted = decisions.filter(|file| !index.contains(file.name()));
    unlisted.map(|file| file.finding(1, format!("not listed in {DECISIONS}README.md"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn broken_links(page: &str) -> Vec<usize> {
        let tree =
            Tree::of_texts(&[("docs/page.md", page), ("docs/a/b.md", ""), ("README.md", "")]);
        broken(&tree).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn links_to_files_and_folders_resolve() {
        assert_eq!(
            broken_links(
                "[a](a/b.md#part) [b](../README.md) [c](a/) [d](./page.md \"Title\") [e](..)"
            ),
            NONE
        );
    }

    #[test]
    fn links_elsewhere_are_not_followed() {
        assert_eq!(
            broken_links("[a](https://host/x) [b](#part) `[c](`\n```\n[d](none)\n```\n"),
            NONE
        );
    }

    #[test]
    fn broken_links_are_found() {
        assert_eq!(broken_links("good\n[a](b.md)\n\n[c](../../out.md)"), [2, 4]);
    }

    #[test]
    fn decisions_are_listed() {
        let listed = ("docs/decisions/README.md", "[one](0001-one.md)");
        let tree = Tree::of_texts(&[
            listed,
            ("docs/decisions/0001-one.md", ""),
            ("docs/decisions/0002-two.md", ""),
        ]);
        assert_eq!(unlisted_decisions(&tree).len(), 1);
    }
}
