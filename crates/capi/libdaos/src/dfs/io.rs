//! Reading and writing files.
use super::file::{opened, opened_to_change};
use crate::abi::{Dfs, DfsIod, DfsObj, Event, ObjId, Ptr, Sgl};
use crate::convert::{self, Data, Extents};
use crate::errno::{self, Result};
use crate::handles;
use ::dfs::File;
use esker::{ArrayAttributes, Wait};
use std::ffi::c_int;

/// `DFS_MAX_FSIZE`.
const TO_THE_END: u64 = u64::MAX;

/// Reads at an offset.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_read(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    sgl: Ptr<Sgl>,
    offset: u64,
    read_size: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    errno::drive(ev, || {
        let open = opened(dfs, obj)?;
        Ok(async move {
            let room = convert::room(sgl, |iov| iov.len)?;
            let read = open.readable()?.read_into(offset, room).await?;
            read_size.needed()?.set(read as u64);
            Ok(convert::set_filled(sgl, read as u64, |iov| iov.len)?)
        })
    })
}

/// Reads several ranges.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_readx(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    iod: Ptr<DfsIod>,
    sgl: Ptr<Sgl>,
    read_size: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    errno::drive(ev, || {
        let open = opened(dfs, obj)?;
        Ok(async move {
            let file = open.readable()?;
            let ranges = ranges(iod)?;
            let room = convert::room(sgl, |iov| iov.len)?;
            let read = file.read_ranges(ranges.as_slice(), room).await?;
            read_size.needed()?.set(read.bytes);
            Ok(())
        })
    })
}

fn ranges(iod: Ptr<DfsIod>) -> Result<Extents> {
    let iod = iod.get()?;
    Ok(Extents::new(iod.rgs, iod.nr)?)
}

/// Writes at an offset.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_write(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    sgl: Ptr<Sgl>,
    offset: u64,
    ev: Ptr<Event>,
) -> c_int {
    errno::drive(ev, || {
        let open = opened(dfs, obj)?;
        Ok(async move {
            let data = Data::all(sgl)?;
            open.writable()?.write_from(offset, data.source()).await?;
            Ok(())
        })
    })
}

/// Writes several ranges.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_writex(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    iod: Ptr<DfsIod>,
    sgl: Ptr<Sgl>,
    ev: Ptr<Event>,
) -> c_int {
    errno::drive(ev, || {
        let open = opened(dfs, obj)?;
        Ok(async move {
            let file = open.writable()?;
            let (ranges, data) = (ranges(iod)?, Data::all(sgl)?);
            Ok(file.write_ranges(ranges.as_slice(), data.source()).await?)
        })
    })
}

/// The size of a file in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_get_size(dfs: Ptr<Dfs>, obj: Ptr<DfsObj>, size: Ptr<u64>) -> c_int {
    errno::now(|| {
        let open = opened(dfs, obj)?;
        size.needed()?.set(open.file()?.size()?);
        Ok(())
    })
}

/// The size in bytes of the file with an object id.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_get_size_by_oid(
    dfs: Ptr<Dfs>,
    oid: ObjId,
    chunk_size: u64,
    size: Ptr<u64>,
) -> c_int {
    errno::now(|| {
        let mount = handles::mount(dfs)?;
        size.needed()?;
        let chunk_size = match chunk_size {
            0 => mount.fs.superblock().chunk_size,
            given => given,
        };
        let attributes = ArrayAttributes { cell_size: 1, chunk_size };
        let array = mount.fs.container().open_array_with_attributes(oid.into(), attributes)?;
        size.set(array.size(mount.fs.view()).wait()?);
        Ok(())
    })
}

/// Punches a hole, or truncates or extends a file.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_punch(dfs: Ptr<Dfs>, obj: Ptr<DfsObj>, offset: u64, len: u64) -> c_int {
    errno::now(|| {
        let open = opened_to_change(dfs, obj)?;
        punch(open.writable()?, offset, len)
    })
}

/// Punches a hole. One that reaches the end of the file truncates it, as in DAOS. A `len` of [`TO_THE_END`] sets the
/// size to `offset`, even if that is beyond the end.
pub(crate) fn punch(file: &File, offset: u64, len: u64) -> Result<()> {
    let end = offset.saturating_add(len);
    let size = if len == TO_THE_END { 0 } else { file.size()? };
    match () {
        () if len == TO_THE_END => file.set_len(offset)?,
        () if len == 0 || size <= offset => {}
        () if size <= end => file.set_len(offset)?,
        () => file.punch(offset, len)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::file::dfs_release;
    use super::super::intercepted::{Mounted, at, iov, sgl};
    use super::*;
    use crate::abi::Range;

    #[test]
    fn ranges_of_a_chunk_are_written_at_once() {
        const RANGES: usize = 100;
        let fs = Mounted::new("ranges-at-once");
        let file = fs.create(c"f", libc::S_IFREG | 0o600);
        let mut ranges: Vec<_> =
            (0..RANGES as u64).map(|index| Range { idx: 100 * index, len: 20 }).collect();
        let mut iod = DfsIod { nr: RANGES as u64, rgs: at(&mut ranges[0]) };
        let mut data = vec![7; 20 * RANGES];
        let mut iov = iov(&mut data);
        fs.calls.take_writes();
        let written = dfs_writex(fs.dfs, file, at(&mut iod), at(&mut sgl(&mut iov)), Ptr::null());
        assert_eq!((written, fs.calls.take_writes()), (0, 1));
        assert_eq!(dfs_release(file), 0);
    }
}
