//! `esker fs ls`, `cat`, `stat`, `du` and `df`: reading what is in a file system.
use super::each::Failures;
use super::long_help;
use super::path::{FsPath, Mounts, NAMING, at, inside};
use super::show::{self, Lines};
use crate::commands::files::Sink;
use crate::output::{Answer, Table};
use crate::units::Bytes;
use clap::Args;
use dfs::transfer::BUFFER_BYTES;
use dfs::{Attr, File, Follow, Kind, Node, Open, Visit};
use esker::types::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::path::PathBuf;

/// List directories
///
/// Entries are not sorted. Names are printed as they are, but on a terminal, control characters are escaped as in C.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fs ls tank/home:
  esker fs ls -lh tank/home:/data

{NAMING}"), disable_help_flag = true, arg = long_help())]
pub(crate) struct Ls {
    /// Directories to list, or files to show
    #[arg(value_name = "PATH", required = true, value_parser = inside())]
    paths: Vec<FsPath>,
    /// Show mode, owner, group, size and time of modification too
    #[arg(long, short)]
    long: bool,
    /// Show names that begin with a dot too
    #[arg(long, short)]
    all: bool,
    /// List subdirectories recursively
    #[arg(long, short = 'R')]
    recursive: bool,
    /// Print sizes with units
    #[arg(long, short)]
    human_readable: bool,
    /// Show directories themselves, not their entries
    #[arg(long, short)]
    directory: bool,
}

impl Ls {
    pub(super) fn run(self, json: bool) -> Result<Answer> {
        let (mut mounts, mut found) = (Mounts::reading(), Vec::new());
        let (mut lines, mut failures) = (Lines::new(b'\n'), Failures::default());
        for path in &self.paths {
            let node = mounts.node(path, Follow::All)?;
            let top = node.path();
            let with_titles = self.recursive || self.paths.len() > 1;
            let mut walk = node.walk(self.depth_max(&node));
            while let Some(visit) = failures.next(path, &mut walk) {
                if visit.depth > 0 && !self.all && visit.node.name().starts_with(b".") {
                    walk.skip(&visit);
                    continue;
                }
                match json {
                    true => {
                        let value = failures.check(path, &visit, self.value(&visit));
                        found.extend(value.flatten());
                    }
                    false if self.is_shown(&visit) || with_titles => {
                        let line = self.line(path, &top, &visit);
                        let line = failures.check(path, &visit, line).flatten();
                        if let Some((before, name)) = line
                            && !lines.line(&before, &name)?
                        {
                            return Ok(Answer::new(Value::Null, ""));
                        }
                    }
                    false => {}
                }
            }
        }
        lines.finish()?;
        Ok(Answer::new(json!(found), "").with_trouble(failures.trouble()))
    }

    /// Levels to list below a node: none of a file, one of a directory, all with `-R`.
    fn depth_max(&self, node: &Node) -> usize {
        match (self.directory || node.kind() != Kind::Directory, self.recursive) {
            (true, _) => 0,
            (false, true) => usize::MAX,
            (false, false) => 1,
        }
    }

    /// True for the entries of a directory that is listed, but not for the directory itself.
    fn is_shown(&self, visit: &Visit) -> bool {
        visit.depth > 0 || self.depth_max(&visit.node) == 0
    }

    /// The attributes of an entry as JSON; `None` for the listed directory itself.
    fn value(&self, visit: &Visit) -> Result<Option<Value>> {
        let shown = self.is_shown(visit);
        shown.then(|| Ok(show::attr(&visit.node.path(), &visit.node.attr()?))).transpose()
    }

    /// The line of an entry, or the title of a listed directory: the text before the name, and the name. With -R, names are
    /// relative to that directory, and there is no title.
    fn line(&self, path: &FsPath, top: &[u8], visit: &Visit) -> Result<Option<(String, Vec<u8>)>> {
        if !self.is_shown(visit) {
            let title = [&path.shown(&path.path)[..], b":"].concat();
            return Ok((!self.recursive).then(|| (String::new(), title)));
        }
        let own = visit.node.path();
        let name = match visit.depth {
            0 => path.shown(&path.path),
            _ => own[top.len()..].strip_prefix(b"/").unwrap_or(&own[top.len()..]).to_vec(),
        };
        if !self.long {
            return Ok(Some((String::new(), name)));
        }
        let arrow = match visit.node.kind() {
            Kind::Symlink => [b" -> ", &visit.node.read_link()?[..]].concat(),
            _ => Vec::new(),
        };
        Ok(Some((self.details(&visit.node.attr()?), [name, arrow].concat())))
    }

    /// Columns before the name in a long listing.
    fn details(&self, attr: &Attr) -> String {
        format!(
            "{} {:>6} {:>6} {:>12} {} ",
            show::mode(attr.kind, attr.mode),
            attr.uid,
            attr.gid,
            show::size(attr.size, self.human_readable),
            show::short_time(attr.mtime),
        )
    }
}

/// Write files to standard output
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fs cat tank/home:/notes.txt
  esker fs cat --offset 1M --length 4K tank/home:/data/big | xxd
  esker fs cat tank/home:/part-1 tank/home:/part-2 -o whole

{NAMING}"))]
pub(crate) struct Cat {
    /// Files
    #[arg(value_name = "PATH", required = true, value_parser = inside())]
    paths: Vec<FsPath>,
    /// Start at this offset in each file
    #[arg(long, value_name = "SIZE", default_value = "0")]
    offset: Bytes,
    /// Write at most this much of each file
    #[arg(long, value_name = "SIZE")]
    length: Option<Bytes>,
    /// File, or - for standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

impl Cat {
    pub(super) fn run(self, json: bool) -> Result<Answer> {
        if json {
            let message =
                "cat has no JSON output: leave out --json, or copy the file with `esker fs cp`";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let (mut mounts, mut buffer) = (Mounts::reading(), vec![0; BUFFER_BYTES]);
        let mut out = Sink::create(&self.output)?;
        for path in &self.paths {
            let file = mounts.node(path, Follow::All)?.open(Open::READ);
            let file = file.map_err(|error| at(path, &error))?;
            self.write(&file, &mut buffer, &mut out)?;
        }
        out.finish()?;
        Ok(Answer::new(Value::Null, ""))
    }

    /// Writes the wanted range of a file to the output.
    fn write(&self, file: &File, buffer: &mut [u8], out: &mut Sink) -> Result<()> {
        let mut offset = self.offset.0;
        let end = offset.saturating_add(self.length.map_or(u64::MAX, |length| length.0));
        while offset < end {
            let wanted = (end - offset).min(buffer.len() as u64) as usize;
            let count = file.read_at(offset, &mut buffer[..wanted])?;
            if count == 0 {
                break;
            }
            out.write(&buffer[..count])?;
            offset += count as u64;
        }
        Ok(())
    }
}

/// Show all attributes of files, directories and symbolic links
///
/// A symbolic link is not followed: its own attributes are shown.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fs stat tank/home:/data

{NAMING}"))]
pub(crate) struct Stat {
    /// Files, directories or symbolic links
    #[arg(value_name = "PATH", required = true, value_parser = inside())]
    paths: Vec<FsPath>,
    /// Follow symbolic links
    #[arg(long, short = 'L')]
    dereference: bool,
}

impl Stat {
    pub(super) fn run(self) -> Result<Answer> {
        let (mut mounts, mut values, mut text) = (Mounts::reading(), Vec::new(), String::new());
        let follow = if self.dereference { Follow::All } else { Follow::AllButLast };
        for path in &self.paths {
            let node = mounts.node(path, follow)?;
            let attr = node.attr()?;
            let mut value = show::attr(&node.path(), &attr);
            if node.kind() == Kind::Symlink {
                value["target"] = crate::shapes::bytes(&node.read_link()?);
            }
            value["class"] = json!(attr.oid.class().name());
            value["xattrs"] = json!(xattrs(&node)?);
            text.push_str(&described(&value));
            values.push(value);
        }
        Ok(Answer::new(json!(values), text))
    }
}

/// Names and values of extended attributes.
fn xattrs(node: &Node) -> Result<Vec<Value>> {
    let shown = |name: Vec<u8>| {
        let value = node.get_xattr(&name)?;
        Ok(json!({"name": crate::shapes::bytes(&name), "value": crate::shapes::bytes(&value)}))
    };
    node.list_xattrs()?.into_iter().map(shown).collect()
}

/// The attributes of a node as text, one a line.
fn described(value: &Value) -> String {
    let members = value.as_object().into_iter().flatten();
    let plain = |value: &Value| match value.get("text").or(value.get("hex")).unwrap_or(value) {
        Value::String(text) => text.escape_debug().to_string(),
        other => other.to_string(),
    };
    let lines = members.map(|(name, value)| match value.as_array() {
        Some(list) => list
            .iter()
            .map(|item| {
                format!("xattr             {}={}\n", plain(&item["name"]), plain(&item["value"]))
            })
            .collect(),
        None => format!("{name:<16}  {}\n", plain(value)),
    });
    lines.collect::<String>() + "\n"
}

/// Show the total size of files by directory
///
/// Sizes are those that `ls` shows: holes count. A total ends at 2^64 - 1 bytes.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fs du -h tank/home:
  esker fs du -s tank/home:/data

{NAMING}"), disable_help_flag = true, arg = long_help())]
pub(crate) struct Du {
    /// Directories or files
    #[arg(value_name = "PATH", required = true, value_parser = inside())]
    paths: Vec<FsPath>,
    /// Print only the total of each PATH
    #[arg(long, short)]
    summarize: bool,
    /// Print a line for each file too
    #[arg(long, short, conflicts_with = "summarize")]
    all: bool,
    /// Print only entries that are at most this many levels below PATH
    #[arg(long, short = 'd', value_name = "N", conflicts_with = "summarize")]
    max_depth: Option<usize>,
    /// Print sizes with units
    #[arg(long, short)]
    human_readable: bool,
}

/// The total of a directory; at most [`u64::MAX`] bytes.
struct Sum {
    path: Vec<u8>,
    bytes: u64,
    files: u64,
}

impl Sum {
    fn add(&mut self, bytes: u64, files: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.files += files;
    }
}

impl Du {
    pub(super) fn run(self, json: bool) -> Result<Answer> {
        let (mut mounts, mut found) = (Mounts::reading(), Vec::new());
        let (mut lines, mut failures) = (Lines::new(b'\n'), Failures::default());
        for path in &self.paths {
            let top = mounts.node(path, Follow::AllButLast)?;
            // True means that the output still has a reader.
            self.sum((path, &top), &mut failures, |sum, depth| {
                match (self.is_shown(depth), json) {
                    (false, _) => Ok(true),
                    (true, true) => {
                        // In JSON, a path is text, or hexadecimal digits if it is not UTF-8.
                        found.push(json!({"path": crate::shapes::bytes(&sum.path),
                        "size_bytes": sum.bytes, "files": sum.files}));
                        Ok(true)
                    }
                    (true, false) => {
                        let size = format!("{:<11} ", show::size(sum.bytes, self.human_readable));
                        lines.line(&size, &path.shown(&sum.path))
                    }
                }
            })?;
        }
        lines.finish()?;
        Ok(Answer::new(json!(found), "").with_trouble(failures.trouble()))
    }

    fn is_shown(&self, depth: usize) -> bool {
        let max = if self.summarize { 0 } else { self.max_depth.unwrap_or(usize::MAX) };
        depth <= max
    }

    /// Calls `tell` with the total of each directory, and with its depth, once all of it was visited. The stack `open`
    /// holds the directories that are not complete yet.
    fn sum(
        &self,
        (path, top): (&FsPath, &Node),
        failures: &mut Failures,
        mut tell: impl FnMut(&Sum, usize) -> Result<bool>,
    ) -> Result<()> {
        let mut walk = top.walk(usize::MAX);
        let mut open: Vec<Sum> = Vec::new();
        while let Some(visit) = failures.next(path, &mut walk) {
            let Some(bytes) = failures.check(path, &visit, size(&visit.node)) else { continue };
            let Visit { node, depth } = visit;
            while open.len() > depth {
                close(&mut open, &mut tell)?;
            }
            let files = u64::from(node.kind() == Kind::File);
            let is_line = node.kind() == Kind::Directory || self.all || depth == 0;
            match (is_line, open.last_mut()) {
                (false, Some(sum)) => sum.add(bytes, files),
                _ => open.push(Sum { path: node.path(), bytes, files }),
            }
        }
        while !open.is_empty() {
            close(&mut open, &mut tell)?;
        }
        Ok(())
    }
}

/// Bytes of a file; 0 for anything else.
fn size(node: &Node) -> Result<u64> {
    if node.kind() == Kind::File { node.attr().map(|attr| attr.size) } else { Ok(0) }
}

/// Ends a directory: reports its sum, and adds it to that of the directory above.
fn close(open: &mut Vec<Sum>, tell: &mut impl FnMut(&Sum, usize) -> Result<bool>) -> Result<()> {
    let Some(done) = open.pop() else { return Ok(()) };
    // `tell` returns false once the output has no reader any more. The walk continues all the same.
    tell(&done, open.len())?;
    if let Some(above) = open.last_mut() {
        above.add(done.bytes, done.files);
    }
    Ok(())
}

/// Show free and used space
///
/// The space is that of the pool, which all its containers share.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fs df -h tank/home

{NAMING}"), disable_help_flag = true, arg = long_help())]
pub(crate) struct Df {
    /// Containers, or paths in them
    #[arg(value_name = "PATH", required = true, value_parser = inside())]
    paths: Vec<FsPath>,
    /// Print sizes with units
    #[arg(long, short)]
    human_readable: bool,
}

impl Df {
    pub(super) fn run(self) -> Result<Answer> {
        let (mut mounts, mut values) = (Mounts::reading(), Vec::new());
        let mut table = Table::new(&["container", ">bytes", ">used", ">free", ">files free"]);
        for path in &self.paths {
            let space = mounts.fs(path)?.space()?;
            let name = format!("{}/{}", path.pool, path.container);
            let size = |bytes| show::size(bytes, self.human_readable);
            let used = space.total.saturating_sub(space.free);
            let files = space.files_free.to_string();
            table.row([name.clone(), size(space.total), size(used), size(space.free), files]);
            values.push(json!({
                "container": name,
                "total_bytes": space.total,
                "free_bytes": space.free,
                "files": space.files,
                "files_free": space.files_free,
            }));
        }
        Ok(Answer::new(json!(values), table.text()))
    }
}
