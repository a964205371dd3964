//! Pages of a listing, from keys in their order.
use crate::fault::Outcome;
use crate::limits::{LIST_WINDOW, LIST_WINDOW_MIN};
use dfs::Time;
use std::cmp::Ordering;

/// Parameters of a page.
pub(crate) struct Wanted {
    /// Only keys that begin with this.
    pub(crate) prefix: String,
    /// Keys that contain this after the prefix are shown as one, up to it.
    pub(crate) delimiter: Option<String>,
    /// Only keys after this one. If it was shown as a common prefix, only keys after all keys with this prefix.
    pub(crate) after: String,
    /// Most lines.
    pub(crate) count: usize,
}

impl Wanted {
    /// Parameters from a request. An empty delimiter counts as none.
    pub(crate) fn new(
        prefix: Option<String>,
        delimiter: Option<String>,
        after: String,
        count: usize,
    ) -> Self {
        let delimiter = delimiter.filter(|delimiter| !delimiter.is_empty());
        Self { prefix: prefix.unwrap_or_default(), delimiter, after, count }
    }

    /// Compares a prefix of keys with the requested keys: `Less` and `Greater` if all keys with it precede or follow
    /// them, else `Equal`.
    pub(crate) fn side(&self, beginning: &str) -> Ordering {
        let (prefix, after) = (self.prefix.as_str(), self.after.as_str());
        let is_later = beginning > after || after.starts_with(beginning);
        match beginning.starts_with(prefix) || prefix.starts_with(beginning) {
            _ if !is_later => Ordering::Less,
            true => Ordering::Equal,
            false => beginning.cmp(prefix),
        }
    }
}

/// One line of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Object(Listed),
    /// All keys that begin with this.
    Prefix(String),
}

/// An object in a listing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) key: String,
    pub(crate) size: u64,
    pub(crate) mtime: Time,
    pub(crate) etag: String,
}

/// The lines of a page. It is truncated if more lines follow it.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) shown: Vec<Shown>,
    pub(crate) is_truncated: bool,
}

impl Shown {
    /// The key, or the common prefix of keys. The next page starts after it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Object(listed) => &listed.key,
            Self::Prefix(prefix) => prefix,
        }
    }
}

/// The lines of a page while it is made from keys in their order.
pub(crate) struct Lines<'a> {
    wanted: &'a Wanted,
    page: Page,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(wanted: &'a Wanted) -> Self {
        Self { wanted, page: Page::default() }
    }

    pub(crate) fn page(self) -> Page {
        self.page
    }

    /// True if all lines are used and at least one more entry exists: the page is truncated.
    pub(crate) fn is_full(&self) -> bool {
        self.page.is_truncated
    }

    /// Number of lines that still fit.
    fn lines_left(&self) -> usize {
        self.wanted.count.saturating_sub(self.page.shown.len())
    }

    /// Number of names to read next: the lines left, and one more to tell if the page is truncated.
    pub(crate) fn window(&self) -> usize {
        self.lines_left().saturating_add(1).clamp(LIST_WINDOW_MIN, LIST_WINDOW)
    }

    /// Adds a line to the page. If the page has no line left, marks it as truncated.
    pub(crate) fn show(&mut self, shown: Shown) {
        match self.lines_left() {
            0 => self.page.is_truncated = true,
            _ => self.page.shown.push(shown),
        }
    }

    /// Adds a key, or its common prefix unless the page has that already, if the page includes the key. `listed`
    /// returns the line of the key, or `None` if the object was removed.
    pub(crate) fn object(
        &mut self,
        key: &str,
        listed: impl FnOnce(&str) -> Outcome<Option<Listed>>,
    ) -> Outcome<()> {
        if key <= self.wanted.after.as_str() || !key.starts_with(&self.wanted.prefix) {
            return Ok(());
        }
        let begun = self.wanted.delimiter.as_deref().and_then(|delimiter| {
            let start = self.wanted.prefix.len();
            let at = key[start..].find(delimiter)?;
            Some(&key[..start + at + delimiter.len()])
        });
        match begun {
            None if self.lines_left() == 0 => self.page.is_truncated = true,
            None => self.page.shown.extend(listed(key)?.map(Shown::Object)),
            Some(begun) if begun == self.wanted.after => {}
            Some(begun) if self.page.shown.last().is_some_and(|last| last.name() == begun) => {}
            Some(begun) => self.show(Shown::Prefix(begun.to_owned())),
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The names in all pages of a listing, each of at most `count` lines.
    pub(crate) fn pages(
        list: impl Fn(&Wanted) -> Outcome<Page>,
        prefix: &str,
        delimiter: Option<&str>,
        count: usize,
    ) -> Vec<String> {
        let (mut lines, mut after) = (Vec::new(), String::new());
        loop {
            let delimiter = delimiter.map(str::to_owned);
            let wanted = Wanted { prefix: prefix.to_owned(), delimiter, after, count };
            let page = list(&wanted).unwrap_or_else(|_| panic!("a page"));
            lines.extend(page.shown.iter().map(|shown| shown.name().to_owned()));
            match page.shown.last().filter(|_| page.is_truncated) {
                Some(last) => after = last.name().to_owned(),
                None => return lines,
            }
        }
    }

    /// The names that [`pages`] should return, computed from all keys in their order.
    pub(crate) fn model(keys: &[String], prefix: &str, delimiter: Option<&str>) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for key in keys.iter().filter(|key| key.starts_with(prefix)) {
            let at = delimiter
                .and_then(|delimiter| Some(key[prefix.len()..].find(delimiter)? + delimiter.len()));
            let line = at.map_or(&key[..], |at| &key[..prefix.len() + at]);
            if lines.last().is_none_or(|last| last != line) {
                lines.push(line.to_owned());
            }
        }
        lines
    }
}
