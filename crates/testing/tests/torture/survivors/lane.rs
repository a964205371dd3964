//! A lane: the objects of a writer's container in one pool, and how numbers are stored in them.
use super::board::{BLOCKS, KEYS, OBJECTS, Register, TRANSIENTS};
use esker::backend::NewContainer;
use esker::{Access, Array, Container, Kv, Pool, Wait};
use esker_testing::Random;
use esker_types::info::OpenMode;
use esker_types::ops::{Anchor, Cond, ListLimit, Sink, Source};
use esker_types::{ArrayAttributes, ErrorKind, Extent, ObjectClass, ObjectType, Result};
use std::collections::BTreeSet;

/// Bytes of a block of the array, which is a chunk.
const BLOCK: u64 = 4096;

/// The open container of a slot in one pool.
pub(super) struct Lane {
    pub(super) container: Container,
    objects: Vec<Kv>,
    keys: Kv,
    blocks: Array,
}

fn label(slot: usize) -> String {
    format!("slot-{slot}")
}

/// Creates the container of a slot.
pub(super) fn create(pool: &Pool, slot: usize) -> Result<()> {
    pool.create_container(&NewContainer::named(&label(slot))).wait().map(drop)
}

impl Lane {
    pub(super) fn open(pool: &Pool, slot: usize) -> Result<Self> {
        let container = pool.open_container(&label(slot), OpenMode::ReadWrite).wait()?;
        let kv = |number: u64, class| {
            let oid = container.generate_oid(0, number, ObjectType::KvHashed, Some(class), 0)?;
            container.kv(oid)
        };
        let objects = (0..OBJECTS as u64).map(|object| kv(100 + object, ObjectClass::S1));
        let (objects, keys) = (objects.collect::<Result<_>>()?, kv(1, ObjectClass::SX)?);
        let class = Some(ObjectClass::SX);
        let oid = container.generate_oid(0, 2, ObjectType::ArrayAttr, class, 0)?;
        let shape = ArrayAttributes { cell_size: 1, chunk_size: BLOCK };
        let blocks = container.open_array_with_attributes(oid, shape)?;
        Ok(Self { container, objects, keys, blocks })
    }

    /// Writes a number into a register.
    pub(super) fn write(&self, register: Register, number: u64, access: Access<'_>) -> Result<()> {
        let bytes = encode(register, number);
        match self.locate(register) {
            Location::Key(kv, key) => kv.put(key.as_bytes(), &bytes, Cond::NONE, access).wait(),
            Location::Cells(extent) => {
                self.blocks.write(&[extent], Source::One(&bytes), access).wait()
            }
        }
    }

    /// Reads the number of a register; 0 if it has none.
    pub(super) fn read(&self, register: Register, access: Access<'_>) -> Result<u64> {
        let bytes = match self.locate(register) {
            Location::Key(kv, key) => kv.get(key.as_bytes(), access).wait()?.unwrap_or_default(),
            Location::Cells(extent) => {
                let mut bytes = vec![0; extent.count as usize];
                self.blocks.read_or_zero(&[extent], Sink::One(&mut bytes), access).wait()?;
                bytes
            }
        };
        Ok(decode(register, &bytes))
    }

    /// The location of a register.
    fn locate(&self, register: Register) -> Location<'_> {
        match register {
            Register::Committed(object) => {
                Location::Key(&self.objects[object], "committed".to_owned())
            }
            Register::Mixed(object) => Location::Key(&self.objects[object], "mixed".to_owned()),
            Register::Key(key) => Location::Key(&self.keys, key_name(key)),
            Register::Block(block) => Location::Cells(extent_of(block)),
        }
    }

    /// Puts or removes a transient key.
    pub(super) fn set_transient(&self, key: usize, present: bool) -> Result<()> {
        let name = transient_name(key);
        match present {
            true => self.keys.put(name.as_bytes(), b"here", Cond::NONE, Access::Latest).wait(),
            false => self.keys.remove(name.as_bytes(), Cond::NONE, Access::Latest).wait(),
        }
    }

    pub(super) fn has_transient(&self, key: usize) -> Result<bool> {
        let found = self.keys.get(transient_name(key).as_bytes(), Access::Latest).wait()?;
        Ok(found.is_some())
    }

    /// The names of all keys that are listed, in batches of `batch`. Fails the test if a name is listed twice or was
    /// never written.
    pub(super) fn list(&self, batch: usize) -> Result<BTreeSet<String>> {
        let (mut names, mut anchor) = (BTreeSet::new(), Anchor::Start);
        while !anchor.is_end() {
            let found = self.keys.list(&mut anchor, ListLimit::entries(batch), Access::Latest);
            for key in found.wait()?.iter() {
                let name = String::from_utf8_lossy(key).into_owned();
                assert!(is_known(&name), "the list has a key that was never written: {name}");
                assert!(names.insert(name), "the list has a key twice");
            }
        }
        Ok(names)
    }

    /// Writes the same number into all registers of the transaction, at once.
    pub(super) fn commit(&self, number: u64) -> Result<()> {
        let transaction = self.container.transaction()?;
        for register in Register::of_transaction() {
            self.write(register, number, Access::Tx(&transaction))?;
        }
        transaction.commit().wait()
    }

    /// The numbers of all registers of the transaction; `None` if they changed in between.
    pub(super) fn read_together(&self) -> Result<Option<Vec<u64>>> {
        let transaction = self.container.transaction_read_only()?;
        let access = Access::Tx(&transaction);
        let numbers = Register::of_transaction().map(|register| self.read(register, access));
        let numbers = numbers.collect::<Result<Vec<_>>>()?;
        match transaction.commit().wait() {
            Err(error) if error.kind() == ErrorKind::TxRestart => Ok(None),
            done => done.map(|()| Some(numbers)),
        }
    }
}

/// Location of a register.
enum Location<'a> {
    Key(&'a Kv, String),
    Cells(Extent),
}

pub(super) fn key_name(key: usize) -> String {
    format!("key-{key}")
}

pub(super) fn transient_name(key: usize) -> String {
    format!("transient-{key}")
}

fn is_known(name: &str) -> bool {
    (0..KEYS).any(|key| key_name(key) == name)
        || (0..TRANSIENTS).any(|key| transient_name(key) == name)
}

/// Cells of a block: complete blocks and small pieces, which the store keeps in different ways.
fn extent_of(block: usize) -> Extent {
    let count = if block < BLOCKS / 2 { BLOCK } else { 100 };
    Extent::new(block as u64 * BLOCK, count)
}

/// Bytes of a number in a register. Values are stored inline or in segments, depending on their length.
fn length(register: Register, number: u64) -> usize {
    let spread = Random::new(number, register.index() as u64).draw();
    let len = match register {
        Register::Committed(_) => 8,
        Register::Mixed(_) => 8 + spread % 200,
        Register::Key(key) if key < KEYS / 2 => 16 + spread % 900,
        Register::Key(key) if key < KEYS - 2 => 1000 + spread % 1200,
        Register::Key(_) => 2000 + spread % 9000,
        Register::Block(block) => extent_of(block).count,
    };
    len as usize
}

/// Encodes the number, followed by bytes that are derived from it and from the register.
fn encode(register: Register, number: u64) -> Vec<u8> {
    let stream = register.index() as u64;
    let mut bytes = number.to_le_bytes().to_vec();
    let len = length(register, number);
    bytes.extend(Random::new(number, stream).bytes(len - bytes.len()));
    bytes
}

/// The number in these bytes, which must be those of one write.
fn decode(register: Register, bytes: &[u8]) -> u64 {
    let number = bytes.first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
    if number == 0 {
        assert!(bytes.iter().all(|byte| *byte == 0), "{register:?} has no number but bytes");
        return 0;
    }
    let (found, written) = (bytes.len(), encode(register, number));
    assert!(
        bytes == written,
        "{register:?} has number {number} with {found} bytes, not the {} that were written",
        written.len()
    );
    number
}
