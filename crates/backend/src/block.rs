//! Blocks of numbers for object ids, which a process claims and then allocates from locally.

/// Size of a block, unless more numbers are requested at once.
pub const BLOCK: u64 = 1024;

/// The remaining numbers of the block that this process claimed last.
#[derive(Default)]
pub struct Block {
    /// Fork generation of the process that claimed the block: a forked child must not use its parent's block. Zero
    /// before the first claim.
    generation: u64,
    /// First number that is not allocated yet.
    next: u64,
    /// The number after the block.
    end: u64,
}

impl Block {
    /// The block `first..end`, which this process has just claimed. Its first `taken` numbers are allocated already.
    pub fn claimed(first: u64, end: u64, taken: u64) -> Self {
        Self { generation: esker_os::generation(), next: first + taken, end }
    }

    /// Allocates `count` consecutive numbers of this block, and returns the first. `None` if fewer are left, or if the
    /// block was claimed before a fork.
    pub fn take(&mut self, count: u64) -> Option<u64> {
        let first = self.next;
        let fits = self.is_ours() && count <= self.end - first;
        fits.then(|| {
            self.next += count;
            first
        })
    }

    /// The number after this block, unless the block was claimed before a fork.
    pub fn end(&self) -> Option<u64> {
        (self.is_ours() && self.end > 0).then_some(self.end)
    }

    /// False if the block was claimed before this process was forked.
    fn is_ours(&self) -> bool {
        self.generation == esker_os::generation()
    }
}

/// The end of a claim of `count` numbers from `first` on: a full block, or more if `count` is larger.
pub fn end_of_claim(first: u64, count: u64) -> Option<u64> {
    let least = first.checked_add(count)?;
    Some(first.saturating_add(BLOCK).max(least))
}
