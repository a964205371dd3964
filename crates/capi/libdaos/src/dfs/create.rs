//! Creating file systems, and querying their properties.
use super::mount::{self, How};
use super::open::class_of;
use crate::abi::{Dfs, DfsAttr, Handle, Ptr, Str, UuidBytes, text_bytes, text_of};
use crate::acl::{accounts, principal};
use crate::container::access::daos_cont_set_owner_no_check;
use crate::container::properties::Wanted;
use crate::errno::{self, Errno, Result};
use crate::handles::{self, Entry};
use ::dfs::{NewDfs, SetAttr};
use esker::types::info::{ContainerInfo, OpenMode};
use esker::types::{ObjectClass, ObjectType, Uuid};
use esker::{Pool, Wait};
use std::ffi::c_int;

/// Hints that there are object classes for.
const SINGLE: &str = "single";
const MAX: &str = "max";

/// Parses the word for a class in a hint. `None` for an empty word, which means the default.
fn class_for(word: &str) -> Result<Option<ObjectClass>> {
    match word {
        "" => Ok(None),
        SINGLE => Ok(Some(ObjectClass::S1)),
        MAX => Ok(Some(ObjectClass::SX)),
        _ => Err(Errno::INVAL),
    }
}

/// Classes of directories and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Hinted {
    dir: Option<ObjectClass>,
    file: Option<ObjectClass>,
}

impl Hinted {
    /// Reads hints such as `file:max,dir:single`, which choose a class for files and one for directories.
    fn read(hints: &str) -> Result<Self> {
        let mut hinted = Self::default();
        for hint in hints.split(',').filter(|hint| !hint.is_empty()) {
            let (kind, word) = hint.split_once(':').ok_or(Errno::INVAL)?;
            match kind {
                "file" => hinted.file = class_for(word)?,
                "dir" | "directory" => hinted.dir = class_for(word)?,
                _ => return Err(Errno::INVAL),
            }
        }
        Ok(hinted)
    }
}

/// Stores the code of the class that a hint names in `class`, or 0 for the default.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_suggest_oclass(dfs: Ptr<Dfs>, hint: Str, class: Ptr<u32>) -> c_int {
    errno::now(|| {
        handles::mount(dfs)?;
        let (hint, class) = (hint.text()?, class.needed()?);
        let suggested = match hint.contains(':') {
            true => Hinted::read(hint).map(|hinted| hinted.file.or(hinted.dir))?,
            false => class_for(hint)?,
        };
        class.set(suggested.map_or(0, ObjectClass::code));
        Ok(())
    })
}

/// Options of a new file system, from DAOS's attributes.
fn described(attr: &DfsAttr) -> Result<NewDfs> {
    let hints = String::from_utf8(text_bytes(&attr.hints)).map_err(|_| Errno::INVAL)?;
    let hinted = Hinted::read(&hints)?;
    let standard = NewDfs::default();
    Ok(NewDfs {
        chunk_size: if attr.chunk_size == 0 { standard.chunk_size } else { attr.chunk_size },
        class: class_of(attr.oclass),
        dir_class: class_of(attr.dir_oclass).or(hinted.dir),
        file_class: class_of(attr.file_oclass).or(hinted.file),
        consistency: attr.mode & mount::BALANCED as u32,
        hints,
        ..standard
    })
}

/// Creates a container with a file system that `attr` describes; a null pointer means the defaults.
pub(crate) fn make(pool: &Pool, label: Option<&str>, attr: Ptr<DfsAttr>) -> Result<ContainerInfo> {
    let attr = if attr.is_null() { None } else { Some(attr.get()?) };
    let new = attr.as_ref().map_or_else(|| Ok(NewDfs::default()), described)?;
    let wanted = Wanted::read(attr.map_or(Ptr::null(), |attr| attr.props))?;
    let metadata = wanted.metadata();
    Ok(::dfs::Dfs::create_container(pool, &wanted.describe(label, &metadata), &new)?)
}

/// Output pointers of `dfs_cont_create` and similar functions; null pointers are skipped.
#[derive(Clone, Copy)]
struct CreateOutputs {
    uuid: Ptr<UuidBytes>,
    coh: Ptr<Handle>,
    dfs: Ptr<Ptr<Dfs>>,
}

impl CreateOutputs {
    /// Creates a container with a file system. The caller may ask for its handle, and with that also for the mount.
    fn create(self, poh: Handle, label: Option<&str>, attr: Ptr<DfsAttr>) -> Result<()> {
        if self.coh.is_null() && !self.dfs.is_null() {
            return Err(Errno::INVAL);
        }
        let info = make(&handles::pool(poh)?.pool, label, attr)?;
        self.uuid.set(info.uuid.0);
        if self.coh.is_null() {
            return Ok(());
        }
        let coh = open(poh, info.uuid)?;
        self.coh.set(coh);
        if !self.dfs.is_null() {
            let flags = libc::O_RDWR | mount::BALANCED;
            self.dfs.set(mount::mount(poh, coh, How { flags, snapshot: 0 })?);
        }
        Ok(())
    }
}

/// Opens the new container.
fn open(poh: Handle, uuid: Uuid) -> Result<Handle> {
    let pool = handles::pool(poh)?;
    let container = pool.pool.open_container(&uuid.to_string(), OpenMode::ReadWrite).wait()?;
    Ok(handles::open(Entry::Container(pool.with(container)))?)
}

/// Creates a container with a file system.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_cont_create(
    poh: Handle,
    uuid: Ptr<UuidBytes>,
    attr: Ptr<DfsAttr>,
    coh: Ptr<Handle>,
    dfs: Ptr<Ptr<Dfs>>,
) -> c_int {
    errno::now(|| CreateOutputs { uuid: uuid.needed()?, coh, dfs }.create(poh, None, attr))
}

/// Creates a container with a label and a file system.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_cont_create_with_label(
    poh: Handle,
    label: Str,
    attr: Ptr<DfsAttr>,
    uuid: Ptr<UuidBytes>,
    coh: Ptr<Handle>,
    dfs: Ptr<Ptr<Dfs>>,
) -> c_int {
    errno::now(|| CreateOutputs { uuid, coh, dfs }.create(poh, Some(label.text()?), attr))
}

/// The properties that a file system was created with.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_query(dfs: Ptr<Dfs>, attr: Ptr<DfsAttr>) -> c_int {
    errno::now(|| {
        let mount = handles::mount(dfs)?;
        let superblock = mount.fs.superblock();
        attr.needed()?.set(DfsAttr {
            id: 0,
            chunk_size: superblock.chunk_size,
            oclass: superblock.class,
            props: Ptr::null(),
            mode: superblock.consistency,
            dir_oclass: effective_class(&mount.fs, superblock.dir_class, ObjectType::MultiHashed)?,
            file_oclass: effective_class(&mount.fs, superblock.file_class, ObjectType::ArrayByte)?,
            hints: text_of(superblock.hints.as_bytes()),
        });
        Ok(())
    })
}

/// The class of new objects of a type: the given one, else that of the file system, else the default of the type. 0
/// stands for none.
fn effective_class(fs: &::dfs::Dfs, given: u32, kind: ObjectType) -> Result<u32> {
    match [given, fs.superblock().class].into_iter().find(|class| *class != 0) {
        Some(class) => Ok(class),
        None => Ok(fs.container().generate_oid(0, 0, kind, None, 0)?.class().code()),
    }
}

/// No numeric ID: the owner stays, or its ID on this host is looked up by name.
const NO_ID: u32 = u32::MAX;

/// Changes the owner of a container and its root directory.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_cont_set_owner(
    coh: Handle,
    user: Str,
    uid: libc::uid_t,
    group: Str,
    gid: libc::gid_t,
) -> c_int {
    errno::now(|| {
        let container = handles::container(coh)?.container.clone();
        let given = |id: u32| (id != NO_ID).then_some(id);
        // Number for the root directory: unchanged without a name, else the given one, else that of the local account.
        let own = |name: Str, id: u32, known: fn(&str) -> crate::code::Result<u32>| match (
            name.is_null(),
            given(id),
        ) {
            (true, _) => Ok(None),
            (false, Some(id)) => Ok(Some(id)),
            (false, None) => known(principal::local(name)?).map(Some),
        };
        let uid = own(user, uid, accounts::uid_of)?;
        let gid = own(group, gid, accounts::gid_of)?;
        // Fails before anything is changed if the container has no file system, or the user may not change it.
        let fs = ::dfs::Dfs::mount(container, ::dfs::MountOptions::default())?;
        if fs.is_read_only() {
            return Err(Errno::PERM);
        }
        errno::code(daos_cont_set_owner_no_check(coh, user, group, Ptr::null()))?;
        fs.root().set_attr(&SetAttr { uid, gid, ..SetAttr::default() })?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_choose_classes() {
        let (single, max) = (Some(ObjectClass::S1), Some(ObjectClass::SX));
        assert_eq!(Hinted::read("").unwrap(), Hinted::default());
        assert_eq!(Hinted::read("file:max,dir:single").unwrap(), Hinted { dir: single, file: max });
        assert_eq!(Hinted::read("directory:max").unwrap(), Hinted { dir: max, file: None });
        for wrong in ["max", "link:max", "file:many"] {
            assert!(Hinted::read(wrong).is_err(), "{wrong}");
        }
    }
}
