//! The global heap: texts of attributes, and the sources of virtual datasets.
use std::mem;

/// Smallest collection that the library reads.
const COLLECTION_BYTES_MIN: usize = 4096;

/// Bytes before the objects of a collection, and before the bytes of an object.
const HEAD_BYTES: usize = 16;

/// Most objects of a collection. Their numbers have two bytes and start at 1.
const OBJECTS_MAX: u16 = u16::MAX;

/// Collections of objects, one after the other in the file.
pub(super) struct Heap {
    /// Address of the first collection.
    start: u64,
    finished: Vec<u8>,
    current: Vec<u8>,
    count: u16,
}

/// Reference to an object: the address of its collection, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectReference {
    pub(super) collection: u64,
    pub(super) number: u32,
}

impl Heap {
    /// A heap that starts at the address `start` of the file.
    pub(super) fn new(start: u64) -> Self {
        Self { start, finished: Vec::new(), current: Vec::new(), count: 0 }
    }

    /// Adds an object to the heap, and begins a new collection if the current one has no number left. Returns the
    /// reference to the object.
    pub(super) fn push(&mut self, bytes: &[u8]) -> ObjectReference {
        if self.count == OBJECTS_MAX {
            self.close();
        }
        self.count += 1;
        self.current.extend(self.count.to_le_bytes());
        // The object has one reference.
        self.current.extend([1, 0, 0, 0, 0, 0]);
        self.current.extend((bytes.len() as u64).to_le_bytes());
        self.current.extend(bytes);
        self.current.resize(self.current.len().next_multiple_of(8), 0);
        let collection = self.start + self.finished.len() as u64;
        ObjectReference { collection, number: self.count.into() }
    }

    /// Finishes a collection. Its free space is object 0.
    fn close(&mut self) {
        let objects = mem::take(&mut self.current);
        if mem::take(&mut self.count) == 0 {
            return;
        }
        let size = (HEAD_BYTES + objects.len() + HEAD_BYTES).max(COLLECTION_BYTES_MIN);
        let free = size - HEAD_BYTES - objects.len();
        let end = self.finished.len() + size;
        self.finished.extend(b"GCOL\x01\0\0\0");
        self.finished.extend((size as u64).to_le_bytes());
        self.finished.extend(objects);
        self.finished.extend([0; 8]);
        self.finished.extend((free as u64).to_le_bytes());
        self.finished.resize(end, 0);
    }

    /// All collections of the global heap as they are stored in the file. The last one is completed first.
    pub(super) fn bytes(mut self) -> Vec<u8> {
        self.close();
        self.finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_numbered_and_collections_follow_each_other() {
        let mut heap = Heap::new(48);
        assert_eq!(heap.push(b"abc"), ObjectReference { collection: 48, number: 1 });
        for _ in 1..OBJECTS_MAX {
            heap.push(b"");
        }
        let next = heap.push(b"x");
        assert_eq!((next.number, next.collection % 8), (1, 0));
        let bytes = heap.bytes();
        assert_eq!(bytes[..8], *b"GCOL\x01\0\0\0");
        let size = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
        assert_eq!(next.collection, 48 + size);
        assert_eq!(bytes.len() as u64, size + COLLECTION_BYTES_MIN as u64);
        assert_eq!(bytes[size as usize..][..4], *b"GCOL");
        assert!(Heap::new(0).bytes().is_empty());
    }
}
