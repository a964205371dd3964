//! Tokens of reads, tagged with their node.
use esker_types::ops::{ReadAt, ReadTokens};
use esker_types::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Collects the tokens of one node's read.
pub(crate) struct Tagged<'t> {
    node: u16,
    /// Tokens as the node returns them.
    from_node: ReadTokens,
    /// Tokens of the transaction, if it collects them.
    all: Option<&'t ReadTokens>,
}

impl<'t> Tagged<'t> {
    /// Collects for `at`, which is read on `node`. When this is dropped, the tokens are added to those of `at`.
    pub(crate) fn new(node: usize, at: ReadAt<'t>) -> Self {
        Self { node: node as u16, from_node: ReadTokens::default(), all: at.tokens }
    }

    /// Read options for the node, which collect its tokens here.
    pub(crate) fn at<'s>(&'s self, at: ReadAt<'_>) -> ReadAt<'s> {
        ReadAt { view: at.view, tokens: self.all.map(|_| &self.from_node) }
    }
}

impl Drop for Tagged<'_> {
    /// A read that failed has tokens too: they cover missing data.
    fn drop(&mut self) {
        if let Some(all) = self.all {
            add_tagged(self.node, &self.from_node, all);
        }
    }
}

/// Adds the tokens that a node returned to `all`, each with the number of the node in front of it.
pub(crate) fn add_tagged(node: u16, from_node: &ReadTokens, all: &ReadTokens) {
    let node = node.to_le_bytes();
    from_node.map(|token| all.add(&[&node, token].concat()));
}

/// Sorts tokens by the node that made them, whose number is in front of each. `nodes` is the number of nodes.
///
/// # Errors
/// `Invalid` for tokens that none of the nodes gave.
pub(crate) fn by_node(tokens: &ReadTokens, nodes: usize) -> Result<BTreeMap<usize, ReadTokens>> {
    let mut all: BTreeMap<usize, ReadTokens> = BTreeMap::new();
    let mut add = |token: &[u8]| {
        let (node, token) = token.split_first_chunk().ok_or_else(foreign)?;
        let node = usize::from(u16::from_le_bytes(*node));
        if node >= nodes {
            return Err(foreign());
        }
        all.entry(node).or_default().add(token);
        Ok(())
    };
    tokens.map(&mut add).into_iter().collect::<Result<()>>()?;
    Ok(all)
}

#[cold]
fn foreign() -> Error {
    Error::new(ErrorKind::Invalid, "a token of a transaction belongs to another pool")
}
