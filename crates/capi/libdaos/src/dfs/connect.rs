//! Mounting by the names of a pool and a container.
use super::create;
use super::mount::{self, How, are_users, give};
use crate::abi::{Dfs, DfsAttr, Event, Ptr, Str};
use crate::code::Code;
use crate::container::access;
use crate::errno::{self, Errno, Result};
use crate::event;
use crate::handles::{self, Entry, OpenPool, kind};
use esker::types::info::OpenMode;
use esker::{Pool, Wait};
use std::ffi::c_int;

/// The names of a container and of its pool.
#[derive(Clone, Copy)]
pub(crate) struct ContainerName<'a> {
    pub(crate) pool: &'a str,
    pub(crate) container: &'a str,
}

impl<'a> ContainerName<'a> {
    fn read(pool: Str, container: Str) -> Result<Self> {
        Ok(Self { pool: pool.text()?, container: container.text()? })
    }

    /// Connects to the pool, opens the container and mounts it. If the container is missing, `make` may create it or
    /// return an error.
    pub(crate) fn mount(
        &self,
        how: How,
        make: impl FnOnce(&Pool) -> Result<()>,
    ) -> Result<Ptr<Dfs>> {
        let pool = OpenPool::new(Pool::connect(self.pool, mount::mode(how.flags))?, self.pool);
        let open = || access::open(&pool, self.container, mount::mode(how.flags)).wait();
        let open = match open() {
            Err(Code::NONEXIST) => {
                make(&pool.pool)?;
                open()?
            }
            result => result?,
        };
        open.rights.require_read()?;
        let container = open.container.clone();
        let poh = handles::open(Entry::Pool(pool))?;
        let coh = handles::open(Entry::Container(open));
        let dfs = coh.map_err(Errno::from).and_then(|coh| give(container, (poh, coh), how, true));
        if dfs.is_err() {
            drop(coh.map(|coh| handles::close(coh.cookie, &[kind::CONTAINER])));
            drop(handles::close(poh.cookie, &[kind::POOL]));
        }
        dfs
    }
}

/// Connects to a pool, opens a container, and stores its mount in `dfs`. With `O_CREAT`, a missing container is created
/// as `attr` describes it.
pub(crate) fn connect(
    (pool, cont): (Str, Str),
    how: How,
    attr: Ptr<DfsAttr>,
    dfs: Ptr<Ptr<Dfs>>,
) -> Result<()> {
    if !are_users() {
        return Err(Errno::ACCES);
    }
    dfs.needed()?;
    let name = ContainerName::read(pool, cont)?;
    let make = |pool: &Pool| match how.flags & libc::O_CREAT {
        0 => Err(Errno::NOENT),
        _ => match create::make(pool, Some(name.container), attr) {
            // Another process has created it meanwhile.
            Err(Errno::EXIST) => Ok(()),
            made => made.map(drop),
        },
    };
    dfs.set(name.mount(how, make)?);
    Ok(())
}

/// Connects, opens and mounts.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_connect(
    pool: Str,
    _sys: Str,
    cont: Str,
    flags: c_int,
    attr: Ptr<DfsAttr>,
    dfs: Ptr<Ptr<Dfs>>,
) -> c_int {
    errno::always(|| connect((pool, cont), How { flags, snapshot: 0 }, attr, dfs))
}

/// Connects, opens and mounts a snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_connect_snap(
    pool: Str,
    _sys: Str,
    cont: Str,
    _flags: c_int,
    epoch: u64,
    name: Str,
    dfs: Ptr<Ptr<Dfs>>,
) -> c_int {
    errno::always(|| {
        let how = How { flags: libc::O_RDONLY, snapshot: mount::snapshot(epoch, name)? };
        connect((pool, cont), how, Ptr::null(), dfs)
    })
}

/// Destroys a container. With an event, a thread for blocking work opens and closes the pool.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_destroy(
    pool: Str,
    _sys: Str,
    cont: Str,
    force: c_int,
    ev: Ptr<Event>,
) -> c_int {
    errno::drive(ev, || {
        Ok(async move {
            let name = ContainerName::read(pool, cont)?;
            let connect = move || Ok(Pool::connect(name.pool, OpenMode::ReadWrite));
            let pool = event::blocking(connect).await??;
            let destroyed = pool.destroy_container(name.container, force != 0).await;
            event::drop_blocking(pool).await?;
            Ok(destroyed?)
        })
    })
}
