//! The limit of the medium: the same blocks by pwrite, pread and memcpy.
use crate::buffer::Buffer;
use crate::errors::Doing;
use crate::job::Slot;
use crate::measure::{Measured, Until, measure};
use crate::payload::Payload;
use esker_types::Result;
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Size of a process's file for the limit: much larger than caches, so that memory is measured.
pub(crate) const LIMIT_FILE_BYTES: u64 = 512 << 20;

/// A file of this process. Every page of it has been written once. It has no name, so that it disappears with the
/// process.
pub struct Limit {
    file: File,
    /// Buffer of the same kind of memory that workers write to the store.
    payload: Payload,
    block_bytes: u64,
    blocks: u64,
}

impl Limit {
    /// A file of `blocks` blocks in `folder`.
    pub fn new(folder: &Path, block_bytes: u64, blocks: u64) -> Result<Self> {
        let file = nameless_file(folder)?;
        let payload = Payload::new(0, block_bytes)?;
        let limit = Self { file, payload, block_bytes, blocks: blocks.max(1) };
        (0..limit.blocks).try_for_each(|index| limit.write(index))?;
        limit.sync()?;
        Ok(limit)
    }

    /// Writes the blocks of the file in order, repeatedly.
    pub fn pwrite(&self, until: Until) -> Result<Measured> {
        self.measure(until, |index| self.write(index))
    }

    /// [`Limit::pwrite`] with fdatasync after each block.
    pub fn pwrite_sync(&self, until: Until) -> Result<Measured> {
        self.measure(until, |index| {
            self.write(index)?;
            self.sync()
        })
    }

    /// Reads the blocks of the file in order, repeatedly.
    pub fn pread(&self, until: Until) -> Result<Measured> {
        let mut buffer = Buffer::new(self.block_bytes)?;
        self.measure(until, |index| {
            let read = self.file.read_exact_at(&mut buffer, self.offset(index));
            read.doing(|| "pread of the file that measures the medium's limit")
        })
    }

    /// Copies blocks to memory of the size of the file, in order, repeatedly.
    pub fn memcpy(&self, until: Until) -> Result<Measured> {
        let mut memory = Buffer::new(self.blocks.saturating_mul(self.block_bytes))?;
        self.measure(until, |index| {
            let (at, block) = (self.offset(index) as usize, self.block(index));
            // The compiler would otherwise remove a copy that nothing reads.
            black_box(&mut memory[at..at + block.len()]).copy_from_slice(block);
            Ok(())
        })
    }

    fn measure(&self, until: Until, op: impl FnMut(u64) -> Result<()>) -> Result<Measured> {
        measure(until, self.block_bytes, op)
    }

    fn offset(&self, index: u64) -> u64 {
        (index % self.blocks) * self.block_bytes
    }

    fn block(&self, index: u64) -> &[u8] {
        self.payload.block(Slot { rank: 0, round: 0, op: index })
    }

    fn write(&self, index: u64) -> Result<()> {
        let written = self.file.write_all_at(self.block(index), self.offset(index));
        written.doing(|| "pwrite of the file that measures the medium's limit")
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().doing(|| "sync of the file that measures the medium's limit")
    }
}

/// Number of the next file of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A new file whose name is already removed, so that its space is freed when it is closed. Skips a name left by a
/// process that died between creation and removal.
pub(crate) fn nameless_file(folder: &Path) -> Result<File> {
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".esker-limit-{}-{number}", std::process::id()));
        let doing = || format!("creating {}", path.display());
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            file => {
                let file = file.doing(doing)?;
                return std::fs::remove_file(&path).map(|()| file).doing(doing);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::ErrorKind;

    #[test]
    fn limit_phases_transfer_reported_bytes_and_leave_no_file() {
        let folder = std::env::temp_dir().join(format!("esker-limit-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let limit = Limit::new(&folder, 4096, 3).unwrap();
        type Phase = fn(&Limit, Until) -> Result<Measured>;
        let phases: [Phase; 4] = [Limit::pwrite, Limit::pwrite_sync, Limit::pread, Limit::memcpy];
        for phase in phases {
            let measured = phase(&limit, Until::ops(7)).unwrap();
            assert_eq!((measured.ops, measured.bytes), (7, 7 * 4096));
        }
        assert!(limit.pread(Until::limits(u64::MAX, Some(0.001))).unwrap().ops > 0);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn error_names_missing_folder() {
        let error = Limit::new(Path::new("/nowhere/at/all"), 1, 1).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.message().contains("/nowhere/at/all"));
    }
}
