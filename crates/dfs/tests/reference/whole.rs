//! Prints a complete tree as one line.
use crate::words;
use dfs::limits::LIST_BATCH;
use dfs::{Anchor, Dfs, Follow, Kind, Node, Open};
use esker::types::{ErrorKind, Result};

/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// All entries below the directory `name` of the root, as one line. Targets of links that begin with `base` are
/// shortened.
pub(crate) fn show(fs: &Dfs, name: &[u8], base: &[u8]) -> Result<String> {
    let mut shown = String::new();
    show_below(&fs.resolve(&fs.root(), name, Follow::All)?, b"", base, &mut shown)?;
    Ok(shown.trim_start().to_owned())
}

/// Appends the entries below a directory, which has the path `path`, to `shown`.
fn show_below(dir: &Node, path: &[u8], base: &[u8], shown: &mut String) -> Result<()> {
    for name in sorted(dir)? {
        let node = dir.lookup(&name)?;
        let path = [path, &name].concat();
        *shown += &format!(" | {} {}", words::encode(&path), words::attr(&node.attr()?));
        match node.kind() {
            Kind::Symlink => {
                *shown += &format!(" {}", words::target(&node.read_link()?, base));
                continue;
            }
            Kind::File => *shown += &format!(" {:016x}", content(&node)?),
            Kind::Directory => {}
        }
        show_attributes(&node, shown)?;
        if node.kind() == Kind::Directory {
            show_below(&node, &[&path, b"/".as_slice()].concat(), base, shown)?;
        }
    }
    Ok(())
}

/// The names in a directory, sorted.
fn sorted(dir: &Node) -> Result<Vec<Vec<u8>>> {
    let (mut anchor, mut names) = (Anchor::Start, Vec::new());
    while !anchor.is_end() {
        let batch = dir.read_names(&mut anchor, LIST_BATCH)?;
        names.extend(batch.iter().map(<[u8]>::to_vec));
    }
    names.sort_unstable();
    Ok(names)
}

/// Appends the extended attributes of a node to `shown`: first all names, then the values.
fn show_attributes(node: &Node, shown: &mut String) -> Result<()> {
    let names = node.list_xattrs()?;
    let words: Vec<_> = names.iter().map(|name| words::encode(name)).collect();
    if !words.is_empty() {
        *shown += &format!(" {}", words.join(","));
    }
    for name in names {
        *shown += &format!(" ok {}", words::bytes(&node.get_xattr(&name)?));
    }
    Ok(())
}

/// A checksum of the data outside holes.
fn content(node: &Node) -> Result<u64> {
    let file = node.open(Open::READ)?;
    let (mut at, mut sum) = (0, 0_u64);
    loop {
        at = match file.seek_data(at) {
            Err(error) if error.kind() == ErrorKind::PastEnd => return Ok(sum),
            found => found?,
        };
        let end = file.seek_hole(at)?;
        while at < end {
            let mut data = vec![0; (end - at).min(PIECE) as usize];
            let got = file.read_at(at, &mut data)?;
            assert!(got > 0, "nothing to read at {at}, before {end}");
            sum = sum.wrapping_add(words::sum(at, &data[..got]));
            at += got as u64;
        }
    }
}
