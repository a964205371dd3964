//! `esker fs ls`, `du` and `stat`: what there is.
use super::long_help;
use super::place::{FsPath, Mounts, NAMING, inside};
use super::show::{self, Lines};
use crate::output::Answer;
use clap::Args;
use dfs::{Attr, Follow, Kind, Node, Visit};
use esker::types::Result;
use serde_json::{Value, json};

/// List directories
///
/// Entries come in the order of the store. Names are written as they are; on a terminal what is not plain
/// text is escaped as in C.
#[derive(Args)]
#[command(after_long_help = NAMING, disable_help_flag = true, arg = long_help())]
pub(crate) struct Ls {
    /// Directories, or other things to show
    #[arg(value_name = "PATH", required = true, value_parser = inside())]
    paths: Vec<FsPath>,
    /// Also show mode, owner, group, size and time of change
    #[arg(long, short)]
    long: bool,
    /// Also names that begin with a dot
    #[arg(long, short)]
    all: bool,
    /// Also what is in directories below
    #[arg(long, short = 'R')]
    recursive: bool,
    /// Sizes with units
    #[arg(long, short)]
    human_readable: bool,
    /// Directories themselves, not what is in them
    #[arg(long, short)]
    directory: bool,
}

impl Ls {
    pub(super) fn run(self, json: bool) -> Result<Answer> {
        let (mut mounts, mut found) = (Mounts::reading(), Vec::new());
        let mut lines = Lines::new(b'\n');
        for path in &self.paths {
            let node = mounts.node(path, Follow::All)?;
            let top = node.path();
            let with_titles = self.recursive || self.paths.len() > 1;
            let mut walk = node.walk(self.depth_max(&node));
            while let Some(visit) = walk.visit()? {
                if visit.depth > 0 && !self.all && visit.node.name().starts_with(b".") {
                    walk.skip(&visit);
                    continue;
                }
                match json {
                    true => found.extend(self.value(&visit)?),
                    false if self.is_shown(&visit) || with_titles => {
                        if !self.print(&mut lines, path, &top, &visit)? {
                            return Ok(Answer::new(Value::Null, ""));
                        }
                    }
                    false => {}
                }
            }
        }
        lines.finish()?;
        Ok(Answer::new(json!(found), ""))
    }

    fn depth_max(&self, node: &Node) -> usize {
        match (self.directory || node.kind() != Kind::Directory, self.recursive) {
            (true, _) => 0,
            (false, true) => usize::MAX,
            (false, false) => 1,
        }
    }

    /// A directory that is listed is none of its own entries.
    fn is_shown(&self, visit: &Visit) -> bool {
        visit.depth > 0 || self.depth_max(&visit.node) == 0
    }

    fn value(&self, visit: &Visit) -> Result<Option<Value>> {
        let shown = self.is_shown(visit);
        shown.then(|| Ok(show::attr(&visit.node.path(), &visit.node.attr()?))).transpose()
    }

    /// With -R the names are those from the directory that was asked for.
    fn print(&self, lines: &mut Lines, path: &FsPath, top: &[u8], visit: &Visit) -> Result<bool> {
        if !self.is_shown(visit) {
            return match self.recursive {
                true => Ok(true),
                false => lines.line("", &[&path.shown(&path.path)[..], b":"].concat()),
            };
        }
        let own = visit.node.path();
        let name = match visit.depth {
            0 => path.shown(&path.path),
            _ => own[top.len()..].strip_prefix(b"/").unwrap_or(&own[top.len()..]).to_vec(),
        };
        match self.long {
            false => lines.line("", &name),
            true => {
                let arrow = match visit.node.kind() {
                    Kind::Symlink => [b" -> ", &visit.node.read_link()?[..]].concat(),
                    _ => Vec::new(),
                };
                let before = self.details(&visit.node.attr()?);
                lines.line(&before, &[&name[..], &arrow].concat())
            }
        }
    }

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

/// Show all that is known of files, directories and symbolic links
///
/// A symbolic link itself is shown.
#[derive(Args)]
#[command(after_long_help = NAMING)]
pub(crate) struct Stat {
    /// What to show
    #[arg(value_name = "PATH", required = true, value_parser = inside())]
    paths: Vec<FsPath>,
    /// Show what a symbolic link leads to
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

/// A line for each member.
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

/// Show how much files hold, by directory
///
/// Counted are the bytes of files as `ls` shows them, holes too.
#[derive(Args)]
#[command(after_long_help = NAMING, disable_help_flag = true, arg = long_help())]
pub(crate) struct Du {
    /// Directories or files
    #[arg(value_name = "PATH", required = true, value_parser = inside())]
    paths: Vec<FsPath>,
    /// Only the sum for each PATH
    #[arg(long, short)]
    summarize: bool,
    /// A line for each file, too
    #[arg(long, short, conflicts_with = "summarize")]
    all: bool,
    /// Lines only for what is at most so many levels below PATH
    #[arg(long, short = 'd', value_name = "N", conflicts_with = "summarize")]
    max_depth: Option<usize>,
    /// Sizes with units
    #[arg(long, short)]
    human_readable: bool,
}

/// A directory that is being summed up.
struct Sum {
    path: Vec<u8>,
    bytes: u64,
    files: u64,
}

impl Du {
    pub(super) fn run(self, json: bool) -> Result<Answer> {
        let (mut mounts, mut found) = (Mounts::reading(), Vec::new());
        let mut lines = Lines::new(b'\n');
        for path in &self.paths {
            let top = mounts.node(path, Follow::AllButLast)?;
            self.sum(&top, |sum, depth| match (self.is_shown(depth), json) {
                (false, _) => Ok(true),
                (true, true) => {
                    found.push(json!({"path": crate::shapes::bytes(&sum.path),
                        "size_bytes": sum.bytes, "files": sum.files}));
                    Ok(true)
                }
                (true, false) => {
                    let size = format!("{:<11} ", show::size(sum.bytes, self.human_readable));
                    lines.line(&size, &path.shown(&sum.path))
                }
            })?;
        }
        lines.finish()?;
        Ok(Answer::new(json!(found), ""))
    }

    fn is_shown(&self, depth: usize) -> bool {
        let max = if self.summarize { 0 } else { self.max_depth.unwrap_or(usize::MAX) };
        depth <= max
    }

    /// Tells each directory's sum once all of it was seen. Levels that are open are on the stack.
    fn sum(&self, top: &Node, mut tell: impl FnMut(&Sum, usize) -> Result<bool>) -> Result<()> {
        let mut walk = top.walk(usize::MAX);
        let mut open: Vec<Sum> = Vec::new();
        while let Some(Visit { node, depth }) = walk.visit()? {
            while open.len() > depth {
                close(&mut open, &mut tell)?;
            }
            let bytes = if node.kind() == Kind::File { node.attr()?.size } else { 0 };
            let files = u64::from(node.kind() == Kind::File);
            let is_line = node.kind() == Kind::Directory || self.all || depth == 0;
            match (is_line, open.last_mut()) {
                (false, Some(sum)) => {
                    (sum.bytes, sum.files) = (sum.bytes + bytes, sum.files + files)
                }
                _ => open.push(Sum { path: node.path(), bytes, files }),
            }
        }
        while !open.is_empty() {
            close(&mut open, &mut tell)?;
        }
        Ok(())
    }
}

fn close(open: &mut Vec<Sum>, tell: &mut impl FnMut(&Sum, usize) -> Result<bool>) -> Result<()> {
    let Some(done) = open.pop() else { return Ok(()) };
    tell(&done, open.len())?;
    if let Some(above) = open.last_mut() {
        above.bytes += done.bytes;
        above.files += done.files;
    }
    Ok(())
}
