//! The file system of the interception library, in a library of its own: programs that never access the mount point
//! need not load it. It exports [`esker_preload_table`].
//!
//! Each function of the table calls the method of the same name in `esker-dfs`, and turns a panic into an error.
#![allow(unsafe_code)]
use dfs::{MountOptions, Parent, Resolved};
use esker::Wait;
use esker::types::{Error, ErrorKind, Result};
use esker_preload_interface::{
    Dfs, DfsFunctions, DirStream, Entry, File, FileFunctions, Handle, Mount, NextEntry, Node,
    NodeFunctions, Table, fingerprint,
};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

static TABLE: Table = Table {
    mount: |wanted| guarded(|| mount(wanted)),
    record_clean_exit: || {
        guarded(|| {
            esker::record_clean_exit();
            Ok(())
        })
    },
    clone: |node| handle(of_node(node).clone()),
    read: |stream| guarded(|| read(stream)),
    seek: |stream, position| {
        guarded(|| {
            of_stream(stream).seek(position);
            Ok(())
        })
    },
    dfs: DFS,
    node: NODE,
    file: FILE,
};

const DFS: DfsFunctions = DfsFunctions {
    root: |fs| guarded(|| Ok(node(of_dfs(fs).root()))),
    resolve: |fs, base, path, follow| {
        guarded(|| of_dfs(fs).resolve(of_node(base), path, follow).map(node))
    },
    resolve_step: |fs, base, path, follow| {
        guarded(|| {
            let found = of_dfs(fs).resolve_step(of_node(base), path, follow)?;
            Ok(match found {
                Resolved::Node(found) => Resolved::Node(node(found)),
                Resolved::Outside(path) => Resolved::Outside(path),
            })
        })
    },
    attr_step: |fs, base, path, follow| {
        guarded(|| of_dfs(fs).attr_step(of_node(base), path, follow))
    },
    resolve_parent_step: |fs, base, path| guarded(|| parent_step(fs, base, path)),
    create_by_known_path: |fs, base, path, new| {
        guarded(|| {
            let attributes = |dir: &dfs::Node| new(&node(dir.clone()));
            let made = of_dfs(fs).create_by_known_path(of_node(base), path, attributes)?;
            Ok(made.map(node))
        })
    },
    unlink_by_known_path: |fs, base, path| {
        guarded(|| of_dfs(fs).unlink_by_known_path(of_node(base), path))
    },
    file_in_use: |fs, oid| guarded(|| of_dfs(fs).file_in_use(oid).map(node)),
    bury: |fs, oid| guarded(|| of_dfs(fs).bury(oid)),
    flush: |fs| guarded(|| of_dfs(fs).flush()),
    space: |fs| guarded(|| of_dfs(fs).space()),
    is_asynchronous: |fs| guarded(|| Ok(of_dfs(fs).container().capabilities().asynchronous)),
    note_lock_file: |fs, oid, made| {
        guarded(|| of_dfs(fs).container().object(oid).note_lock_file(made).wait())
    },
};

const NODE: NodeFunctions = NodeFunctions {
    parent: |dir| guarded(|| Ok(of_node(dir).parent().cloned().map(node))),
    path: |of| guarded(|| Ok(of_node(of).path())),
    name: |of| guarded(|| Ok(of_node(of).name().to_vec())),
    lookup: |dir, name| guarded(|| of_node(dir).lookup(name).map(node)),
    refresh: |of| guarded(|| of_node(of).refresh().map(node)),
    attr: |of| guarded(|| of_node(of).attr()),
    set_attr: |of, change| guarded(|| of_node(of).set_attr(change)),
    open: |of, mode| guarded(|| of_node(of).open(mode).map(file)),
    create: |dir, name, new| guarded(|| of_node(dir).create(name, new).map(node)),
    mkdir: |dir, name, new| guarded(|| of_node(dir).mkdir(name, new).map(node)),
    symlink: |dir, name, target, new| guarded(|| of_node(dir).symlink(name, target, new).map(node)),
    unlink: |dir, name| guarded(|| of_node(dir).unlink(name)),
    rmdir: |dir, name| guarded(|| of_node(dir).rmdir(name)),
    rename: |dir, name, to, new_name, mode| {
        guarded(|| of_node(dir).rename(name, of_node(to), new_name, mode))
    },
    read_link: |of| guarded(|| of_node(of).read_link()),
    get_xattr: |of, name| guarded(|| of_node(of).get_xattr(name)),
    set_xattr: |of, name, value, mode| guarded(|| of_node(of).set_xattr(name, value, mode)),
    remove_xattr: |of, name| guarded(|| of_node(of).remove_xattr(name)),
    list_xattrs: |of| guarded(|| of_node(of).list_xattrs()),
    entries: |dir| {
        guarded(|| {
            let stream = handle(of_node(dir).entries()?);
            Ok(DirStream::new(stream, dir.clone()))
        })
    },
};

const FILE: FileFunctions = FileFunctions {
    read_at: |of, offset, buffer| guarded(|| of_file(of).read_at(offset, buffer)),
    read_vectored_at: |of, offset, buffers| {
        guarded(|| of_file(of).read_vectored_at(offset, buffers))
    },
    write_at: |of, offset, data| guarded(|| of_file(of).write_at(offset, data)),
    write_some_at: |of, offset, data| guarded(|| of_file(of).write_some_at(offset, data)),
    append_some: |of, data| guarded(|| of_file(of).append_some(data)),
    size: |of| guarded(|| of_file(of).size()),
    attr: |of| guarded(|| of_file(of).attr()),
    set_attr: |of, change| guarded(|| of_file(of).set_attr(change)),
    sync: |of| guarded(|| of_file(of).sync()),
    inherit: |of| guarded(|| of_file(of).inherit()),
    set_len: |of, size| guarded(|| of_file(of).set_len(size)),
    punch: |of, offset, len| guarded(|| of_file(of).punch(offset, len)),
    zero: |of, offset, len, keep_size| guarded(|| of_file(of).zero(offset, len, keep_size)),
    allocate: |of, offset, len, keep_size| guarded(|| of_file(of).allocate(offset, len, keep_size)),
    seek_data: |of, offset| guarded(|| of_file(of).seek_data(offset)),
    seek_hole: |of, offset| guarded(|| of_file(of).seek_hole(offset)),
};

/// Runs `work` and returns its result. A panic becomes an error, because it must not unwind into the other library.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, "a call panicked; please report this")))
}

/// Opens the pool and the container of `wanted`, and mounts the file system in it.
fn mount(wanted: &Mount<'_>) -> Result<Dfs> {
    let options = MountOptions { read_only: wanted.read_only, ..MountOptions::default() };
    let fs = esker_tensors::filesystem::open(wanted.pool, wanted.container, options)?;
    fs.set_mount_point(wanted.path);
    Ok(Dfs::new(handle(fs)))
}

/// The next entry of a listing; `None` at the end.
fn read(stream: &mut DirStream) -> Result<NextEntry> {
    let stream = of_stream(stream);
    let entry = stream.read()?;
    Ok((entry, stream.tell()))
}

/// Resolves a path except for its last name; see `dfs::Dfs::resolve_parent_step`.
fn parent_step(fs: &Dfs, base: &Node, path: &[u8]) -> Result<Resolved<Entry>> {
    Ok(match of_dfs(fs).resolve_parent_step(of_node(base), path)? {
        Parent::Entry(dir, name) => Resolved::Node((node(dir), name)),
        Parent::Outside(path) => Resolved::Outside(path),
    })
}

/// Moves a value to the heap and returns a handle, which frees it in this library.
fn handle<T: Send + Sync>(value: T) -> Handle {
    Handle::new(&TABLE, value, free::<T>)
}

/// Drops the value of a handle.
fn free<T>(value: NonNull<c_void>) {
    let _ = guarded(|| {
        // SAFETY: `Handle::new` made it from a box of this type, and calls this once.
        drop(unsafe { Box::from_raw(value.cast::<T>().as_ptr()) });
        Ok(())
    });
}

/// Wraps a node for the other library.
fn node(node: dfs::Node) -> Node {
    let inode = *node.inode();
    Node::new(handle(node), inode)
}

/// Wraps an open file for the other library.
fn file(file: dfs::File) -> File {
    let (node, mode) = (node(file.node().clone()), file.mode());
    File::new(handle(file), node, mode)
}

fn of_dfs(fs: &Dfs) -> &dfs::Dfs {
    // SAFETY: only `mount` makes them, from this type.
    unsafe { fs.handle().value().cast().as_ref() }
}

fn of_node(node: &Node) -> &dfs::Node {
    // SAFETY: only `node` and `clone` of the table make them, from this type.
    unsafe { node.handle().value().cast().as_ref() }
}

fn of_file(file: &File) -> &dfs::File {
    // SAFETY: only `file` makes them, from this type.
    unsafe { file.handle().value().cast().as_ref() }
}

fn of_stream(stream: &mut DirStream) -> &mut dfs::DirStream {
    // SAFETY: only `entries` of the table makes them, from this type; the caller has the only reference.
    unsafe { stream.handle().value().cast().as_mut() }
}

/// The functions of this library, for a caller with the same [`fingerprint`] as `wanted`; null for others. The caller
/// has to record the end of the process by `record_clean_exit` of the table.
#[unsafe(no_mangle)]
pub extern "C" fn esker_preload_table(wanted: u64) -> *const c_void {
    if wanted != fingerprint() {
        return std::ptr::null();
    }
    esker::will_record_exit();
    (&raw const TABLE).cast()
}

/// The power function for tokio, its only user in this library: loading the system's mathematical library takes 0.1 ms.
/// No other library sees this symbol, because the loader keeps the symbols of this one to itself.
#[unsafe(no_mangle)]
pub extern "C" fn pow(base: f64, exponent: f64) -> f64 {
    libm::pow(base, exponent)
}
