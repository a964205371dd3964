//! Files that lost their name while somebody had them open.
//!
//! Their inodes stand in an object of their own, under their ids, until the last who has one open
//! closes it; it frees the content. What a killed process leaves is swept up by the next mount.
use crate::attr;
use crate::entry;
use crate::inode::Inode;
use crate::limits::LIST_BATCH;
use crate::mount::Dfs;
use crate::node::Node;
use crate::place::Place;
use esker::types::ops::{Anchor, Cond, ListLimit};
use esker::types::{Error, ErrorKind, ObjectClass, ObjectId, ObjectType, Result};
use esker::{Access, Container, Object, Wait};

/// The upper word of the object's id; the lower one is 0.
const HI: u64 = 2;

/// The object in which orphans stand.
pub(crate) fn object(container: &Container) -> Result<Object> {
    let class = Some(ObjectClass::S1);
    Ok(container.object(container.generate_oid(HI, 0, ObjectType::MultiHashed, class, 0)?))
}

/// A file has no name any more: frees its content, or leaves that to who has it open.
pub(crate) fn abandon(fs: &Dfs, inode: &Inode) -> Result<()> {
    let content = fs.container().object(inode.oid);
    if !content.doom().wait()? {
        return free(fs, inode);
    }
    let orphans = object(fs.container())?;
    entry::put(&orphans, &name(inode.oid), inode)?;
    // Who had it open may have closed it in the meantime, and found no orphan.
    match content.doom().wait()? {
        true => Ok(()),
        false => bury(fs, inode),
    }
}

/// Frees the content of an orphan that nobody has open any more.
pub(crate) fn bury(fs: &Dfs, inode: &Inode) -> Result<()> {
    free(fs, inode)?;
    object(fs.container())?.punch_dkey(&name(inode.oid), Cond::NONE, Access::Latest).wait()
}

impl Dfs {
    /// A file that lost its name and is in use somewhere, for who knows its id: a program that was
    /// started with it open. Its name is none that stands anywhere.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where no such file is in use.
    pub fn orphan(&self, oid: ObjectId) -> Result<Node> {
        let inode = entry::fetch(&object(self.container())?, &name(oid), self.view())?;
        let gone = || Error::new(ErrorKind::NotFound, format!("no removed file {oid} is in use"));
        self.root().child(&name(oid), inode.ok_or_else(gone)?)
    }
}

/// Where the inode of a file stands once it is an orphan.
pub(crate) fn place(container: &Container, oid: ObjectId) -> Result<Place> {
    Ok(Place { dir: object(container)?.oid(), name: name(oid).into() })
}

/// Frees what killed processes had open.
pub(crate) fn sweep(fs: &Dfs) -> Result<()> {
    let (orphans, mut anchor) = (object(fs.container())?, Anchor::Start);
    while !anchor.is_end() {
        let limit = ListLimit::entries(LIST_BATCH);
        for name in orphans.list_dkeys(&mut anchor, limit, Access::Latest).wait()?.iter() {
            let Some(inode) = entry::fetch(&orphans, name, Access::Latest)? else { continue };
            if !fs.container().object(inode.oid).doom().wait()? {
                bury(fs, &inode)?;
            }
        }
    }
    Ok(())
}

/// Most files that go are empty or small, and to look is cheaper than to write.
fn free(fs: &Dfs, inode: &Inode) -> Result<()> {
    let content = attr::content(fs, inode)?;
    match content.size(Access::Latest).wait()? {
        0 => Ok(()),
        _ => content.destroy(Access::Latest).wait(),
    }
}

fn name(oid: ObjectId) -> Vec<u8> {
    oid.to_string().into_bytes()
}
