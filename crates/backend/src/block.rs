//! Blocks of numbers for object ids, which a process claims and then allocates from locally.

/// Size of a block, unless more numbers are requested at once.
pub const BLOCK: u64 = 1024;

/// The remaining numbers of the block that this process claimed last.
#[derive(Default)]
pub struct Block {
    /// Fork generation of the process that claimed it: a forked child must not use its parent's block. Zero before the
    /// first claim.
    generation: u64,
    next: u64,
    end: u64,
}

impl Block {
    /// A block that this process has just claimed, without its first `taken` numbers.
    pub fn claimed(first: u64, end: u64, taken: u64) -> Self {
        Self { generation: esker_os::generation(), next: first + taken, end }
    }

    /// The first of `count` numbers of this block, if it has enough.
    pub fn take(&mut self, count: u64) -> Option<u64> {
        let first = self.next;
        let fits = self.is_ours() && count <= self.end - first;
        fits.then(|| {
            self.next += count;
            first
        })
    }

    /// The next number of this block, if it has any left.
    pub fn next(&self) -> Option<u64> {
        (self.is_ours() && self.next < self.end).then_some(self.next)
    }

    fn is_ours(&self) -> bool {
        self.generation == esker_os::generation()
    }
}

/// The end of a claim of `count` numbers from `first` on: a full block, or more if `count` is larger.
pub fn end_of_claim(first: u64, count: u64) -> Option<u64> {
    let least = first.checked_add(count)?;
    Some(first.saturating_add(BLOCK).max(least))
}
