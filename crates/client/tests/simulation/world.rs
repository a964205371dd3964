//! One simulation: clients that read and write registers, and the faults that they meet.
use crate::accounts::{self, ACCOUNTS, Ledger};
use crate::clock::pass;
use crate::network::{Network, Wires};
use esker::backend::memory::Memory;
use esker_backend::{NewContainer, OpenContainer, Pool};
use esker_conformance::faulty::{Fault, Faulty};
use esker_nodes::{Map, Node, ShardedPool, Timeouts};
use esker_testing::Random;
use esker_testing::linear::{Action, Operation};
use esker_types::info::{ContainerRef, OpenMode, Part};
use esker_types::limits::DECISIONS_MAX;
use esker_types::ops::{
    Change, Cond, DkeyFetch, FIRST_CHUNK, Fetch, ReadAt, ReadTokens, Sink, Source, Take, Update,
    Value, Write, WriteOp,
};
use esker_types::{Error, ErrorKind, Extent, ObjectClass, ObjectId, ObjectType, Result, Uuid};
use esker_wire::handshake::Secret;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Clients at a time.
const CLIENTS: u64 = 6;

/// Operations of each.
const OPERATIONS: u64 = 60;

/// Single values, pieces of an array, and entries that are removed if they have an expected content.
const VALUES: u64 = 8;
const PIECES: u64 = 4;
const ENTRIES: u64 = 3;
const REGISTERS: u64 = VALUES + PIECES + ENTRIES;

/// Records of a piece or an entry, one byte each.
const PIECE: usize = 8;

/// Longest value in bytes.
const VALUE_MAX: usize = 20_000;

/// Longer than any simulation takes on its own clock.
const HANG: Duration = Duration::from_secs(24 * 3600);

/// All operations on one register, which is empty at first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Register {
    pub(crate) name: String,
    pub(crate) operations: Vec<Operation>,
}

/// Parameters of a simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) engines: usize,
    pub(crate) fault: Fault,
    /// Commit decisions that a node stores.
    pub(crate) decisions_max: usize,
}

/// Result of a simulation.
pub(crate) struct SimulationResult {
    pub(crate) registers: Vec<Register>,
    pub(crate) troubles: u64,
    pub(crate) ledger: Ledger,
    /// Decisions that were swept.
    pub(crate) swept: u64,
    /// Commits whose outcome was unknown.
    pub(crate) uncertain: u64,
    /// An unexplained error, or lists that no transactions can have made.
    pub(crate) wrong: Option<String>,
}

impl SimulationResult {
    /// Operations whose result is known, or not known.
    pub(crate) fn count(&self, known: bool) -> u64 {
        let all = self.registers.iter().flat_map(|register| &register.operations);
        all.filter(|operation| operation.end.is_some() == known).count() as u64
    }
}

/// Operations of the clients, with their results.
#[derive(Default)]
struct History {
    moment: u64,
    registers: Vec<Register>,
    ledger: Ledger,
    uncertain: u64,
    wrong: Option<String>,
}

/// State that clients share.
struct World {
    plan: Plan,
    parts: Vec<Memory>,
    map: Map,
    network: Arc<Network>,
    history: Mutex<History>,
}

/// Simulates a plan. The same plan gives the same outcome.
///
/// # Panics
/// If a client hangs.
pub(crate) fn simulate(plan: Plan) -> SimulationResult {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
    let (troubles, swept, history) = runtime.block_on(async {
        let world = Arc::new(World::new(plan));
        let lived = tokio::time::timeout(HANG, live(&world, plan.seed)).await;
        let troubles = lived.expect("a simulation that ends");
        let swept = world.parts.iter().map(Memory::swept_decisions).sum();
        (troubles, swept, std::mem::take(&mut *world.history()))
    });
    let History { registers, ledger, uncertain, wrong, .. } = history;
    SimulationResult { registers, troubles, ledger, swept, uncertain, wrong }
}

/// Lets clients work during faults, then reads all data. Returns the number of faults.
async fn live(world: &Arc<World>, seed: u64) -> u64 {
    world.create().await.expect("the container");
    let mut random = Random::new(seed, 2);
    let mut clients: Vec<_> = (0..CLIENTS).map(|client| world.spawn(client, seed)).collect();
    let (mut last, mut troubles) = (CLIENTS, 0);
    while clients.iter().any(|client| !client.is_finished()) {
        pass(Duration::from_millis(random.within(20..800))).await;
        troubles += 1;
        if random.one_in(8) {
            let client = &mut clients[random.below(CLIENTS) as usize];
            if !client.is_finished() {
                client.abort();
                *client = world.spawn(last, seed);
                last += 1;
            }
        } else {
            trouble(&world.network, &mut random, world.map.nodes.len() as u64).await;
        }
    }
    let reader = world.client(last, Random::new(seed, 3)).await;
    for register in 0..REGISTERS {
        reader.read(register).await;
    }
    let lists = accounts::audit(&*reader.container).await.expect("the lists");
    let mut history = world.history();
    let wrong = history.ledger.wrong(&lists);
    history.wrong = history.wrong.take().or(wrong);
    drop(history);
    troubles
}

/// A fault that clients must survive. It is over when this returns.
async fn trouble(network: &Network, random: &mut Random, nodes: u64) {
    let node = random.below(nodes) as usize;
    let time = Duration::from_millis(random.within(10..5000));
    match random.below(8) {
        0 => {
            network.kill(node);
            pass(time).await;
            network.start(node);
        }
        1 => {
            network.drain(node).await;
            network.start(node);
        }
        2 => {
            network.part(node, true);
            // At times for longer than a request may take.
            pass(time * if random.one_in(3) { 10 } else { 1 }).await;
            network.part(node, false);
        }
        _ => network.cut(node),
    }
}

impl World {
    /// Nodes with a pool in memory each, the network between them, and an empty history.
    fn new(plan: Plan) -> Self {
        let secret = Secret::new([1; 32]);
        let uuid = |node: usize| Uuid([node as u8 + 1; 16]);
        let part = |node| {
            let part = Part { node: node as u32, nodes: plan.engines as u32 };
            Memory::part(2, part).with_decisions_max(plan.decisions_max)
        };
        let parts: Vec<Memory> = (0..plan.engines).map(part).collect();
        let pool = |(node, memory): (usize, &Memory)| {
            let memory: Arc<dyn Pool> = Arc::new(memory.clone());
            (Arc::new(Faulty::on(memory, plan.fault)) as Arc<dyn Pool>, uuid(node))
        };
        let pools = parts.iter().enumerate().map(pool).collect();
        let network = Network::new(Random::new(plan.seed, 1), secret.clone(), pools);
        let node = |node: usize| Node {
            name: format!("n{node}"),
            address: node.to_string(),
            uuid: uuid(node),
            directory: "/".into(),
        };
        let nodes = (0..plan.engines).map(node).collect();
        let map = Map::new("pool", Uuid([9; 16]), secret, 2, nodes);
        let named = |register: u64| Register {
            name: Kind::from_register(register).name(),
            ..Register::default()
        };
        let registers = (0..REGISTERS).map(named).collect();
        let history = Mutex::new(History { registers, ..History::default() });
        Self { plan, parts, map, network: Arc::new(network), history }
    }

    /// Locks the history.
    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().expect("no panic")
    }

    /// Opens the pool as a client.
    async fn pool(&self) -> Result<ShardedPool> {
        let dial = Arc::new(Wires(Arc::clone(&self.network)));
        let path = Path::new("/pool.map");
        ShardedPool::open_by(&self.map, path, Vec::new(), Timeouts::default(), dial).await
    }

    /// Creates the container.
    async fn create(&self) -> Result<()> {
        self.pool().await?.create_container(&NewContainer::named("c")).await.map(drop)
    }

    /// A new client with the container open, however long that takes.
    async fn client(self: &Arc<Self>, number: u64, random: Random) -> Client {
        loop {
            let opened = async {
                let pool = self.pool().await?;
                pool.open_container(ContainerRef::Label("c"), OpenMode::ReadWrite).await
            };
            match opened.await {
                Ok(container) => {
                    return Client { world: Arc::clone(self), number, container, random, made: 0 };
                }
                Err(error) => self.note(&error),
            }
            pass(Duration::from_secs(1)).await;
        }
    }

    /// Starts a client that performs a number of operations.
    fn spawn(self: &Arc<Self>, number: u64, seed: u64) -> JoinHandle<()> {
        let world = Arc::clone(self);
        tokio::spawn(async move {
            let mut client = world.client(number, Random::new(seed, 100 + number)).await;
            for _ in 0..OPERATIONS {
                client.work().await;
            }
        })
    }

    /// Errors other than those of lost connections are defects.
    fn note(&self, error: &Error) {
        let lost = [ErrorKind::Io, ErrorKind::TimedOut, ErrorKind::InDoubt];
        let swept = [ErrorKind::TxUncertain, ErrorKind::NoSpace];
        self.history().uncertain += u64::from(error.kind() == ErrorKind::TxUncertain);
        let expected = lost.contains(&error.kind())
            || self.plan.decisions_max < DECISIONS_MAX && swept.contains(&error.kind());
        if !expected {
            self.history().wrong.get_or_insert_with(|| format!("{:?}: {error}", error.kind()));
        }
    }

    /// Records the begin of an operation without a result. Returns its index in the history.
    fn begin(&self, client: u64, register: u64, action: Action) -> usize {
        let mut history = self.history();
        history.moment += 1;
        let operation = Operation { client, action, begin: history.moment, end: None };
        let operations = &mut history.registers[register as usize].operations;
        operations.push(operation);
        operations.len() - 1
    }

    /// An operation has ended with a result.
    fn end(&self, register: u64, place: usize, action: Action) {
        let mut history = self.history();
        history.moment += 1;
        let end = Some(history.moment);
        let operation = &mut history.registers[register as usize].operations[place];
        (operation.action, operation.end) = (action, end);
    }
}

/// The form in which a register is stored, with its number among the registers of that form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Value(u64),
    Piece(u64),
    Entry(u64),
}

impl Kind {
    /// The form of a register, by its number.
    fn from_register(register: u64) -> Self {
        match register {
            ..VALUES => Self::Value(register),
            VALUES..FIRST_ENTRY => Self::Piece(register - VALUES),
            _ => Self::Entry(register - FIRST_ENTRY),
        }
    }

    fn is_value(self) -> bool {
        matches!(self, Self::Value(_))
    }

    fn is_piece(self) -> bool {
        matches!(self, Self::Piece(_))
    }

    fn name(self) -> String {
        match self {
            Self::Value(number) => format!("value {number}"),
            Self::Piece(number) => format!("piece {number}"),
            Self::Entry(number) => format!("entry {number}"),
        }
    }

    /// The object of a register. Objects are on different nodes.
    fn oid(self) -> ObjectId {
        let number = match self {
            Self::Value(number) => number / 2,
            Self::Piece(_) => VALUES,
            Self::Entry(number) => VALUES + 1 + number,
        };
        ObjectId::generate(0, number, ObjectType::MultiHashed, ObjectClass::S1)
    }

    /// The dkey of a register.
    fn dkey(self) -> Vec<u8> {
        match self {
            Self::Value(number) => vec![b'k', number as u8],
            Self::Piece(_) => b"array".to_vec(),
            Self::Entry(number) => vec![b'e', number as u8],
        }
    }

    /// The records of a piece or an entry.
    fn extent(self) -> Extent {
        let number = if let Self::Piece(number) = self { number } else { 0 };
        Extent::new(number * PIECE as u64, PIECE as u64)
    }
}

const FIRST_ENTRY: u64 = VALUES + PIECES;

/// A client with the container open.
struct Client {
    world: Arc<World>,
    number: u64,
    container: Box<dyn OpenContainer>,
    random: Random,
    /// Operations begun so far.
    made: u64,
}

impl Client {
    /// Pauses, then runs an operation.
    async fn work(&mut self) {
        pass(Duration::from_millis(self.random.below(300))).await;
        let register = self.random.below(REGISTERS);
        self.made += 1;
        let value = self.number << 32 | self.made;
        match self.random.below(11) {
            _ if register >= FIRST_ENTRY && self.random.one_in(3) => {
                self.remove_seen(register).await
            }
            8 => self.audit().await,
            9.. => self.transfer(value).await,
            0..3 => self.change(register, Action::Put(value)).await,
            3 if register < VALUES => {
                self.change(register, Action::PutIf(value, false, true)).await
            }
            4 => self.change(register, Action::Remove).await,
            _ => self.read(register).await,
        }
    }

    /// Adds `number` to two random lists in a transaction, and records the result.
    async fn transfer(&mut self, number: u64) {
        let first = self.random.below(ACCOUNTS);
        let second = (first + self.random.within(1..ACCOUNTS)) % ACCOUNTS;
        let done = accounts::transfer(&*self.container, number, [first, second]).await;
        let mut history = self.world.history();
        match done {
            Ok(()) => {
                history.ledger.done.insert(number);
            }
            Err(error) if error.kind() == ErrorKind::TxRestart => {
                history.ledger.undone.insert(number);
            }
            Err(error) => {
                drop(history);
                self.world.note(&error);
            }
        }
    }

    /// Reads all lists at one moment, and checks them.
    async fn audit(&self) {
        match accounts::audit(&*self.container).await {
            Ok(lists) => {
                let mut history = self.world.history();
                history.ledger.audits += 1;
                let wrong = accounts::wrong(&lists);
                history.wrong = history.wrong.take().or(wrong);
            }
            Err(error) if error.kind() == ErrorKind::TxRestart => {}
            Err(error) => self.world.note(&error),
        }
    }

    /// Writes to a register, and records the operation in the history.
    async fn change(&self, register: u64, action: Action) {
        let place = self.world.begin(self.number, register, action);
        match (self.write(register, action).await, action) {
            (Ok(()), _) => self.world.end(register, place, action),
            (Err(error), Action::PutIf(value, ..)) if error.kind() == ErrorKind::Exists => {
                self.world.end(register, place, Action::PutIf(value, false, false));
            }
            (Err(error), _) => self.world.note(&error),
        }
    }

    /// Stores or removes the value of a register.
    async fn write(&self, register: u64, action: Action) -> Result<()> {
        let kind = Kind::from_register(register);
        let (mut bytes, extents) = (Vec::new(), [kind.extent()]);
        if let Action::Put(value) | Action::PutIf(value, ..) = action {
            let copies = if kind.is_value() { 1 + value % 3 * 1000 } else { 1 };
            bytes = value.to_le_bytes().repeat(copies as usize);
        }
        let data = Source::One(&bytes);
        let is_removal = action == Action::Remove;
        let value = match (kind.is_value(), is_removal) {
            (true, _) => Value::Single(data),
            (false, true) => Value::PunchExtents(&extents),
            (false, false) => Value::Array { record_size: 1, extents: &extents, data },
        };
        let (dkey, updates) = (kind.dkey(), [Update { akey: b"a", value, cond: Cond::NONE }]);
        let insert = matches!(action, Action::PutIf(..));
        let cond = if insert { Cond::DKEY_INSERT } else { Cond::NONE };
        let op = match is_removal && !kind.is_piece() {
            true => WriteOp::PunchDkey { dkey: &dkey, cond },
            false => WriteOp::Update { dkey: &dkey, cond, updates: &updates },
        };
        let writes = [Write { oid: kind.oid(), op }];
        self.container.write(Change::from_writes(&writes)).await.map(drop)
    }

    /// Reads an entry, and removes it if it still has the same content, with an array that does not exist. At times the
    /// read must still hold.
    async fn remove_seen(&mut self, register: u64) {
        let (kind, tokens) = (Kind::from_register(register), ReadTokens::default());
        let at = ReadAt { tokens: Some(&tokens), ..ReadAt::LATEST };
        let Ok(Some(value)) = self.fetch(register, at).await else { return };
        let reads = self.random.one_in(2).then_some(&tokens);
        let (oid, dkey, bytes) = (kind.oid(), kind.dkey(), value.to_le_bytes());
        let (akey, extent, expected) = (b"a", kind.extent(), &bytes);
        let take = Take { oid, dkey: &dkey, akey, extent, at: 0, expected };
        let place = self.world.begin(self.number, register, Action::RemoveValue(value, None));
        let taken = self.container.take_with_array(take, self.array_beside(kind), reads).await;
        let done = match taken {
            Ok(taken) => Some(taken.is_some()),
            // It is gone, or was changed.
            Err(error) if error.kind() == ErrorKind::TxUncertain => None,
            // The read does not hold any more. A late copy of the request may still find that it does.
            Err(error) if error.kind() == ErrorKind::TxRestart => return,
            Err(error) => return self.world.note(&error),
        };
        self.world.end(register, place, Action::RemoveValue(value, done));
    }

    /// An array on the node of an entry.
    fn array_beside(&self, kind: Kind) -> ObjectId {
        let node = self.container.node_of(kind.oid(), &kind.dkey());
        let arrays = (1 << 20..)
            .map(|number| ObjectId::generate(0, number, ObjectType::ArrayByte, ObjectClass::S1));
        let is_there = |oid: &ObjectId| self.container.node_of(*oid, &FIRST_CHUNK) == node;
        arrays.into_iter().find(is_there).expect("an array on the node")
    }

    /// Reads a register. A read without a result proves nothing, and is left out of the history.
    async fn read(&self, register: u64) {
        let begin = {
            let mut history = self.world.history();
            history.moment += 1;
            history.moment
        };
        match self.fetch(register, ReadAt::LATEST).await {
            Ok(seen) => {
                let mut history = self.world.history();
                history.moment += 1;
                let (client, action, end) = (self.number, Action::Get(seen), Some(history.moment));
                let operation = Operation { client, action, begin, end };
                history.registers[register as usize].operations.push(operation);
            }
            Err(error) => self.world.note(&error),
        }
    }

    /// The value of a register in a view; `None` if it has none.
    async fn fetch(&self, register: u64, at: ReadAt<'_>) -> Result<Option<u64>> {
        let (kind, mut buffer) = (Kind::from_register(register), vec![0; VALUE_MAX]);
        let (dkey, extents) = (kind.dkey(), [kind.extent()]);
        let mut akeys = [match kind.is_value() {
            true => Fetch::single(b"a", Sink::One(&mut buffer)),
            false => Fetch::array(b"a", 1, &extents, Sink::One(&mut buffer[..PIECE])),
        }];
        let mut dkeys = [DkeyFetch { dkey: &dkey, cond: Cond::NONE, akeys: &mut akeys }];
        self.container.fetch(kind.oid(), &mut dkeys, at).await?;
        let filled = akeys[0].reply.filled_bytes as usize;
        number(&buffer[..filled])
    }
}

/// The number of which these bytes are copies; `None` for no bytes.
fn number(bytes: &[u8]) -> Result<Option<u64>> {
    let mut copies = bytes.chunks(PIECE);
    let Some(first) = copies.next() else { return Ok(None) };
    let torn = || Error::new(ErrorKind::Corrupt, "a torn value");
    let number = u64::from_le_bytes(first.try_into().map_err(|_| torn())?);
    match copies.all(|copy| copy == first) {
        true => Ok(Some(number)),
        false => Err(torn()),
    }
}
