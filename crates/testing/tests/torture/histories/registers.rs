//! Clients that work on registers: keys and cells of an array. Each operation concerns one register, except pairs,
//! which are transactions that put the same value into two.
use super::client::{Client, Outcome};
use super::journal::Entry;
use esker::{Access, Array, Container, Kv, Wait};
use esker_testing::linear::{self, Action, Operation};
use esker_types::ops::{Cond, Sink, Source};
use esker_types::{ArrayAttributes, ErrorKind, Extent, ObjectClass, ObjectType, Result};
use std::collections::BTreeMap;

/// Number of registers that are keys, two in each object, and of registers that are cells.
const KEYS: u64 = 6;
const CELLS: u64 = 2;
const REGISTERS: u64 = KEYS + CELLS;

/// Bytes of a cell.
const CELL: u64 = 8;

/// The objects with the registers.
pub(super) struct Registers {
    container: Container,
    objects: Vec<Kv>,
    cells: Array,
}

/// A request for a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Get,
    Put(u64),
    Insert(u64),
    Update(u64),
    Remove,
    Delete,
    /// Writes a value in a transaction that reads the register.
    Swap(u64),
    /// Writes a value into this register and into another, in a transaction.
    Pair(u64, u64),
}

impl Request {
    /// True for the error of a condition that does not hold.
    fn is_refusal(self, error: ErrorKind) -> bool {
        match self {
            Self::Insert(_) => error == ErrorKind::Exists,
            Self::Update(_) | Self::Delete => error == ErrorKind::NotFound,
            _ => false,
        }
    }
}

impl Registers {
    pub(super) fn open(container: Container) -> Result<Self> {
        let object = |number| {
            let (otype, class) = (ObjectType::KvHashed, Some(ObjectClass::S1));
            container.kv(container.generate_oid(0, number, otype, class, 0)?)
        };
        let objects = (10..10 + KEYS / 2).map(object).collect::<Result<_>>()?;
        let class = Some(ObjectClass::SX);
        let oid = container.generate_oid(0, 1, ObjectType::ArrayAttr, class, 0)?;
        let shape = ArrayAttributes { cell_size: CELL, chunk_size: 1 };
        let cells = container.open_array_with_attributes(oid, shape)?;
        Ok(Self { container, objects, cells })
    }

    /// The object and the key of a register.
    fn kv(&self, register: u64) -> (&Kv, [u8; 1]) {
        (&self.objects[register as usize / 2], [b'a' + register as u8])
    }

    fn get(&self, register: u64, access: Access<'_>) -> Result<Option<u64>> {
        if register < KEYS {
            let (kv, key) = self.kv(register);
            return Ok(kv.get(&key, access).wait()?.map(|bytes| value_of(&bytes)));
        }
        let mut bytes = [0; CELL as usize];
        let cell = [Extent::new(register - KEYS, 1)];
        self.cells.read_or_zero(&cell, Sink::One(&mut bytes), access).wait()?;
        Ok(Some(u64::from_le_bytes(bytes)).filter(|value| *value > 0))
    }

    fn put(&self, register: u64, value: u64, cond: Cond, access: Access<'_>) -> Result<()> {
        if register < KEYS {
            let (kv, key) = self.kv(register);
            return kv.put(&key, &bytes_of(value), cond, access).wait();
        }
        let cell = [Extent::new(register - KEYS, 1)];
        self.cells.write(&cell, Source::One(&value.to_le_bytes()), access).wait()
    }

    fn remove(&self, register: u64, cond: Cond) -> Result<()> {
        if register < KEYS {
            let (kv, key) = self.kv(register);
            return kv.remove(&key, cond, Access::Latest).wait();
        }
        self.cells.punch(&[Extent::new(register - KEYS, 1)], Access::Latest).wait()
    }

    /// Performs one operation that is drawn.
    pub(super) fn work(&self, client: &mut Client<'_>) {
        let (register, value) = (client.random.below(REGISTERS), client.next_value());
        let is_key = register < KEYS;
        let request = match client.random.below(100) {
            0..25 => Request::Get,
            25..45 => Request::Put(value),
            45..55 if is_key => Request::Insert(value),
            55..63 if is_key => Request::Update(value),
            63..70 => Request::Remove,
            70..77 if is_key => Request::Delete,
            77..90 => Request::Swap(value),
            _ => Request::Pair(value, (register + client.random.within(1..REGISTERS)) % REGISTERS),
        };
        self.perform(client, register, request);
    }

    /// Reads every register once.
    pub(super) fn read_all(&self, client: &mut Client<'_>) {
        (0..REGISTERS).for_each(|register| self.perform(client, register, Request::Get));
    }

    /// Performs a request, and notes it with its answer in the journal.
    fn perform(&self, client: &mut Client<'_>, register: u64, request: Request) {
        let begin = client.journal.begin();
        if let Request::Swap(value) = request {
            return self.swap(client, begin, register, value);
        }
        client.journal.note_request(begin, &text_of(register, request));
        let done = match request {
            Request::Get => self.get(register, Access::Latest).map(Some),
            request => self.write(register, request).map(|()| None),
        };
        if done.as_ref().is_err_and(|error| request.is_refusal(error.kind())) {
            return client.journal.note_answer("refused");
        }
        match client.classify(done) {
            Outcome::Done(Some(seen)) => client.journal.note_answer(&word(seen)),
            Outcome::Done(None) => client.journal.note_answer("ok"),
            Outcome::Aborted => client.journal.note_answer("aborted"),
            Outcome::Unknown => {}
        }
    }

    /// Performs a request that writes.
    fn write(&self, register: u64, request: Request) -> Result<()> {
        let now = Access::Latest;
        match request {
            Request::Put(value) => self.put(register, value, Cond::NONE, now),
            Request::Insert(value) => self.put(register, value, Kv::INSERT, now),
            Request::Update(value) => self.put(register, value, Kv::UPDATE, now),
            Request::Remove => self.remove(register, Cond::NONE),
            Request::Delete => self.remove(register, Kv::REMOVE),
            Request::Pair(value, other) => {
                let transaction = self.container.transaction()?;
                let access = Access::Tx(&transaction);
                self.put(register, value, Cond::NONE, access)?;
                self.put(other, value, Cond::NONE, access)?;
                transaction.commit().wait()
            }
            Request::Get | Request::Swap(_) => Ok(()),
        }
    }

    /// Swaps a value. The request is noted after the read, with its result.
    fn swap(&self, client: &mut Client<'_>, begin: u64, register: u64, value: u64) {
        let transaction = self.container.transaction().expect("a transaction");
        let access = Access::Tx(&transaction);
        let read = self.get(register, access).map(Some);
        let Outcome::Done(Some(seen)) = client.classify(read) else { return };
        client.hesitate(4);
        let text = format!("{} {}", text_of(register, Request::Swap(value)), word(seen));
        client.journal.note_request(begin, &text);
        let put = self.put(register, value, Cond::NONE, access);
        match client.classify(put.and_then(|()| transaction.commit().wait())) {
            Outcome::Done(_) => client.journal.note_answer("ok"),
            Outcome::Aborted => client.journal.note_answer("aborted"),
            Outcome::Unknown => {}
        }
    }
}

/// Bytes of a value, which repeat it. They are stored inline or in segments, depending on the value.
fn bytes_of(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(1 + (value % 4 * 60) as usize)
}

/// The value in these bytes, which must be those of one write.
fn value_of(bytes: &[u8]) -> u64 {
    let value = bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
    assert!(bytes == bytes_of(value), "a torn value: {value} in {} bytes", bytes.len());
    value
}

fn word(value: Option<u64>) -> String {
    value.map_or("none".to_owned(), |value| value.to_string())
}

fn text_of(register: u64, request: Request) -> String {
    match request {
        Request::Get => format!("get {register}"),
        Request::Put(value) => format!("put {register} {value}"),
        Request::Insert(value) => format!("insert {register} {value}"),
        Request::Update(value) => format!("update {register} {value}"),
        Request::Remove => format!("remove {register}"),
        Request::Delete => format!("delete {register}"),
        Request::Swap(value) => format!("swap {register} {value}"),
        Request::Pair(value, other) => format!("pair {register} {value} {other}"),
    }
}

/// The operations of an entry, each with its register. A pair is a put into each of two registers.
fn operations_of(entry: &Entry) -> Vec<(u64, Operation)> {
    let words: Vec<_> = entry.request.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().ok();
    let answer = entry.answer.as_ref().map(|(_, answer)| answer.as_str());
    if answer == Some("aborted") || (words[0] == "get" && answer.is_none()) {
        return Vec::new();
    }
    let (value, done) = (|| number(2).expect("a value"), answer != Some("refused"));
    let action = match words[0] {
        "get" => Action::Get(answer.and_then(|answer| answer.parse().ok())),
        "put" | "pair" => Action::Put(value()),
        "insert" => Action::PutIf(value(), false, done),
        "update" => Action::PutIf(value(), true, done),
        "remove" => Action::Remove,
        "delete" => Action::RemoveIf(done),
        "swap" => Action::Swap(number(3), value()),
        other => panic!("an unknown request: {other}"),
    };
    let end = entry.answer.as_ref().map(|(end, _)| *end);
    let operation = Operation { client: entry.client, action, begin: entry.begin, end };
    let other = if words[0] == "pair" { number(3) } else { None };
    number(1).into_iter().chain(other).map(|register| (register, operation)).collect()
}

/// Checks the history of each register. Returns the number of operations, and of those with an unknown result.
pub(super) fn check(entries: &[Entry]) -> std::result::Result<(u64, u64), String> {
    let mut registers: BTreeMap<u64, Vec<Operation>> = BTreeMap::new();
    for (register, operation) in entries.iter().flat_map(operations_of) {
        registers.entry(register).or_default().push(operation);
    }
    for (register, operations) in &registers {
        if !linear::is_linearizable(operations) {
            let minimal = linear::minimize(operations);
            let lines: Vec<_> =
                minimal.iter().map(|operation| format!("  {operation}\n")).collect();
            return Err(format!("no order explains register {register}:\n{}", lines.concat()));
        }
    }
    let all = || registers.values().flatten();
    let unknown = all().filter(|operation| operation.end.is_none());
    Ok((all().count() as u64, unknown.count() as u64))
}
