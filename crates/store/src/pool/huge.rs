//! Huge pages of a pool in memory: counts the data in huge pages, and moves other data into them.
use super::Progress;
use crate::io::huge::HUGE;
use crate::shard::open_pool::OpenPool;
use esker_types::info::Medium;
use esker_types::{Error, ErrorKind, Result};

/// Error message for pools on a disk.
pub(crate) const IN_MEMORY: &str = "huge pages are for pools in memory (tmpfs)";

/// Data of a pool in huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HugePages {
    /// Bytes in huge pages.
    pub bytes: u64,
    /// Bytes that could be in huge pages: all data except the remainder of each target and the segments that the index
    /// uses.
    pub total: u64,
}

impl OpenPool {
    /// Counts the data in huge pages; zero if the pool is not in memory. Maps the data files once more.
    ///
    /// # Errors
    /// `Io` if a data file cannot be mapped.
    pub fn huge_pages(&self) -> Result<HugePages> {
        let mut sum = HugePages::default();
        if self.superblock.medium != Medium::Memory {
            return Ok(sum);
        }
        for target in &self.targets {
            let (bytes, total) = target.huge_bytes()?;
            sum.bytes += bytes;
            sum.total += total;
        }
        Ok(sum)
    }

    /// Moves data into huge pages, if the kernel can create them. Calls `progress` with the number of finished bytes
    /// and the total. The pool can be used meanwhile. An access to a page that is being moved waits for some tenths of
    /// a millisecond.
    ///
    /// # Errors
    /// `Invalid` if the pool is not in memory; errors of reading an index.
    pub fn gather_pages(&self, progress: Progress<'_>) -> Result<()> {
        if self.superblock.medium != Medium::Memory {
            return Err(Error::new(ErrorKind::Invalid, IN_MEMORY));
        }
        let total = self.targets.iter().map(|target| target.huge_end()).sum();
        let mut done = 0;
        for target in &self.targets {
            for place in target.huge_page_offsets() {
                target.collapse_huge_page(place)?;
                done += HUGE;
                progress(done, total);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sys;
    use crate::tests::Scratch;
    use std::fs::File;
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::path::Path;

    const MEMORY: &str = "/dev/shm";

    /// A pool of one target with its data in huge pages; `None` if this kernel does not create them.
    fn pool() -> Option<Scratch> {
        if !crate::has_huge_pages(Path::new(MEMORY)).unwrap() {
            esker_testing::skip("this kernel makes no huge pages of files in memory");
            return None;
        }
        Some(Scratch::new(64 << 20, |spec| {
            spec.targets = Some(1);
            spec.segment_bytes = Some(3 << 20);
            spec.huge_pages = true;
        }))
    }

    fn data_file(pool: &Scratch) -> File {
        let path = pool.path().join("target-0/data");
        File::options().read(true).write(true).open(path).unwrap()
    }

    fn bytes_on_medium(pool: &Scratch) -> u64 {
        data_file(pool).metadata().unwrap().blocks() * 512
    }

    /// Moves the data file into small pages, and returns its content.
    fn make_small(pool: &Scratch) -> Vec<u8> {
        let file = data_file(pool);
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        sys::punch(&file, 0, bytes.len() as u64).unwrap();
        sys::reserve(&file, 0, bytes.len() as u64).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn pool_can_be_created_in_huge_pages() {
        let Some(pool) = pool() else { return };
        let pages = pool.opened().huge_pages().unwrap();
        assert!(pages.total > 50 << 20, "{pages:?}");
        assert_eq!(pages.bytes, pages.total);
        assert_eq!(bytes_on_medium(&pool), data_file(&pool).metadata().unwrap().len());
    }

    #[test]
    fn small_pages_are_collapsed_without_change_of_data() {
        let Some(pool) = pool() else { return };
        data_file(&pool).write_all_at(&[7; 5000], 5_000_000).unwrap();
        let before = make_small(&pool);
        assert_eq!(pool.opened().huge_pages().unwrap().bytes, 0);
        let mut reports = Vec::new();
        pool.opened().gather_pages(&mut |done, all| reports.push((done, all))).unwrap();
        let pages = pool.opened().huge_pages().unwrap();
        assert_eq!((pages.bytes, reports.last()), (pages.total, Some(&(pages.total, pages.total))));
        let mut after = vec![0; before.len()];
        data_file(&pool).read_exact_at(&mut after, 0).unwrap();
        assert!(after == before);
    }

    /// Segments of 3 MiB share huge pages with their neighbours.
    #[test]
    fn index_segments_stay_holes_and_return_in_huge_pages() {
        let Some(pool) = pool() else { return };
        let state = pool.opened();
        let target = &state.targets[0];
        let whole = bytes_on_medium(&pool);
        while target.index_segment_count() < 5 {
            assert!(target.grow_index(1, false).unwrap());
        }
        let lent = bytes_on_medium(&pool);
        assert!(lent <= whole - 5 * (3 << 20), "{lent} of {whole} bytes are left");
        state.gather_pages(&mut |_, _| {}).unwrap();
        assert_eq!(bytes_on_medium(&pool), lent, "holes were filled");
        let pages = state.huge_pages().unwrap();
        assert!(pages.bytes <= pages.total && pages.total < whole - 5 * (3 << 20));
        assert_eq!(bytes_on_medium(&pool), lent, "counting filled holes");
        while target.return_segment(true).unwrap() {
            assert_eq!(
                bytes_on_medium(&pool),
                whole - u64::from(target.index_segment_count()) * (3 << 20)
            );
        }
        assert!(target.index_segment_count() < 5, "nothing came back");
        state.gather_pages(&mut |_, _| {}).unwrap();
        let pages = state.huge_pages().unwrap();
        assert_eq!(pages.bytes, pages.total);
    }

    #[test]
    fn pools_on_disks_have_no_huge_pages() {
        let pool = Scratch::on(Path::new("/var/tmp"), 64 << 20, |_| {});
        assert_eq!(pool.opened().huge_pages().unwrap(), HugePages::default());
        let refused = pool.opened().gather_pages(&mut |_, _| {});
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
        let mut spec = crate::PoolSpec::new("huge", 64 << 20);
        spec.huge_pages = true;
        let refused = crate::Pool::create(Path::new("/var/tmp"), &spec, &mut |_, _| {});
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    }
}
