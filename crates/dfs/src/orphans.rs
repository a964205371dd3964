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
/// Behind the name of one whose content is being freed.
const GOING: &[u8] = b".going";

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
    entry::put(&orphans, &name(inode.oid), inode, Access::Latest)?;
    // Who had it open may have closed it in the meantime, and found no orphan.
    match content.doom().wait()? {
        true => Ok(()),
        false => bury(fs, inode),
    }
}

/// Frees the content of an orphan that nobody has open any more.
///
/// Only who takes its entry away does. Who looks for the file from now on does not find it, and who did
/// before holds it.
pub(crate) fn bury(fs: &Dfs, inode: &Inode) -> Result<()> {
    let (orphan, going) = (name(inode.oid), going(inode.oid));
    let content = fs.container().object(inode.oid);
    while rename(fs, &orphan, &going)? {
        if !content.doom().wait()? {
            return end(fs, inode);
        }
        if !rename(fs, &going, &orphan)? || content.doom().wait()? {
            break;
        }
    }
    Ok(())
}

/// Frees the content of an orphan that is going.
fn end(fs: &Dfs, inode: &Inode) -> Result<()> {
    free(fs, inode)?;
    object(fs.container())?.punch_dkey(&going(inode.oid), Cond::NONE, Access::Latest).wait()
}

/// Gives an entry among the orphans another name. False where there is none.
fn rename(fs: &Dfs, from: &[u8], to: &[u8]) -> Result<bool> {
    let orphans = object(fs.container())?;
    fs.transact(|access| {
        let Some(inode) = entry::fetch(&orphans, from, access)? else { return Ok(false) };
        orphans.punch_dkey(from, Cond::NONE, access).wait()?;
        entry::put(&orphans, to, &inode, access)?;
        Ok(true)
    })
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
            if fs.container().object(inode.oid).doom().wait()? {
                continue;
            }
            match name.ends_with(GOING) {
                true => end(fs, &inode)?,
                false => bury(fs, &inode)?,
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

fn going(oid: ObjectId) -> Vec<u8> {
    [&name(oid), GOING].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Create, File, MountOptions, NewDfs, Open};
    use esker::Pool;
    use esker::backend::NewContainer;
    use esker::types::info::OpenMode;

    const NAME: &[u8] = b"file";

    fn mounted(pool: &str) -> Dfs {
        let url = format!("memory:{pool}");
        let pool = Pool::connect(&url, OpenMode::ReadWrite).unwrap();
        let label = NewContainer { label: Some("fs"), ..Default::default() };
        Dfs::create_container(&pool, &label, &NewDfs::default()).unwrap();
        Dfs::open(&url, "fs", MountOptions::default()).unwrap()
    }

    /// A file with content that lost its name while open.
    fn orphan(fs: &Dfs) -> File {
        let new = Create { exclusive: true, ..Create::with_mode(0o644) };
        let file = fs.root().create(NAME, &new).unwrap().open(Open::BOTH).unwrap();
        file.write_at(0, b"content").unwrap();
        fs.root().unlink(NAME).unwrap();
        file
    }

    fn left(fs: &Dfs) -> Vec<Vec<u8>> {
        let (mut anchor, limit) = (Anchor::Start, ListLimit::entries(LIST_BATCH));
        let orphans = object(fs.container()).unwrap();
        let names = orphans.list_dkeys(&mut anchor, limit, Access::Latest).wait().unwrap();
        names.iter().map(<[u8]>::to_vec).collect()
    }

    /// Its last user was told to free it just before this one opened it.
    #[test]
    fn what_was_opened_before_its_burial_stays_until_it_is_closed() {
        let fs = mounted("opened-before-burial");
        let file = orphan(&fs);
        bury(&fs, file.node().inode()).unwrap();
        assert_eq!(left(&fs), [name(file.node().oid())]);
        let mut bytes = [0; 7];
        assert_eq!(file.read_at(0, &mut bytes).unwrap(), 7);
        assert_eq!(&bytes, b"content");
        file.close().unwrap();
        assert_eq!(left(&fs), [[0; 0]; 0]);
    }

    #[test]
    fn what_is_being_freed_is_not_opened() {
        let fs = mounted("being-freed");
        let file = orphan(&fs);
        let (orphan, going) = (name(file.node().oid()), going(file.node().oid()));
        assert!(rename(&fs, &orphan, &going).unwrap());
        assert_eq!(file.node().open(Open::READ).err().unwrap().kind(), ErrorKind::NotFound);
        assert_eq!(fs.orphan(file.node().oid()).err().unwrap().kind(), ErrorKind::NotFound);
        bury(&fs, file.node().inode()).unwrap();
        assert_eq!(left(&fs), std::slice::from_ref(&going), "another frees it");
        let content = file.array().clone();
        file.close().unwrap();
        assert_eq!(left(&fs), [going], "who was killed at it");
        sweep(&fs).unwrap();
        assert_eq!(left(&fs), [[0; 0]; 0]);
        assert_eq!(content.size(Access::Latest).wait().unwrap(), 0);
    }
}
