//! Random reads, and their answers in a form in which the answers of two containers can be compared.
use super::space::{Space, akeys, dkey, extent, is_usually_array, pick};
use crate::topics::joined;
use esker_backend::OpenContainer;
use esker_testing::Random;
use esker_types::ops::{
    AkeyRef, Anchor, Cond, DkeyFetch, Edge, Fetch, KeyQuery, KeyScope, ListLimit, ReadAt, Sink,
    Wanted,
};
use esker_types::{Checksum, ErrorKind, Extent, ObjectId, Result};

/// Fills buffers before they are read into.
const UNTOUCHED: u8 = 0xee;

/// A read for both sides. `step` is the number of entries that each call of a listing asks for.
#[derive(Debug)]
pub(super) enum Read {
    Fetch {
        oid: ObjectId,
        dkey: Vec<u8>,
        cond: Cond,
        wants: Vec<Want>,
    },
    Dkeys {
        oid: ObjectId,
        step: usize,
    },
    Akeys {
        oid: ObjectId,
        dkey: Vec<u8>,
        step: usize,
    },
    Extents {
        oid: ObjectId,
        dkey: Vec<u8>,
        akey: Vec<u8>,
        step: usize,
    },
    Objects {
        step: usize,
    },
    Query {
        oid: ObjectId,
        edge: Edge,
        dkey: Option<Vec<u8>>,
        after: Option<Vec<u8>>,
        akey: Option<Vec<u8>>,
        /// Whether the query asks for the akey, and whether it asks for the extent.
        wants: (bool, bool),
    },
    HasEpoch {
        oid: ObjectId,
        dkey: Option<Vec<u8>>,
    },
}

/// One akey of a fetch.
#[derive(Debug)]
pub(super) struct Want {
    akey: Vec<u8>,
    /// `None` for a single value.
    extents: Option<Vec<Extent>>,
    /// The expected record size in bytes, 0 if unknown.
    size: u64,
    /// Size of the sink in bytes; `None` asks for the size only.
    room: Option<usize>,
    cond: Cond,
}

/// The answer of one side, without what a backend may decide freely (splitting of extents, order of keys).
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Fetched(Vec<Fetched>),
    Keys(Vec<Vec<u8>>),
    /// Extents without gaps between them are joined. The record size follows.
    Extents(Vec<Extent>, Option<u64>),
    Objects(Vec<ObjectId>),
    /// Dkey, akey, and the outer end of the extent.
    Found(Option<(Vec<u8>, Vec<u8>, Option<u64>)>),
    HasEpoch(bool),
    Refused(ErrorKind),
    /// One of several errors applies; which one is reported is unspecified.
    RefusedSomehow,
}

/// The result of a fetch, with a checksum of its bytes.
#[derive(Debug, PartialEq)]
pub(super) struct Fetched {
    size: u64,
    filled_bytes: u64,
    filled: Vec<Extent>,
    buffer: u64,
}

impl Read {
    pub(super) fn random(random: &mut Random, space: &Space) -> Self {
        let oid = space.oid(random);
        let step = 1 + random.below(6) as usize;
        match random.below(12) {
            0 => Self::Dkeys { oid, step },
            1 => Self::Akeys { oid, dkey: dkey(random, oid), step },
            2 => {
                let akey = akeys(random, oid).swap_remove(0);
                Self::Extents { oid, dkey: dkey(random, oid), akey, step }
            }
            3 => Self::Objects { step },
            4 | 5 => Self::query(random, oid),
            6 => Self::HasEpoch {
                oid,
                dkey: Some(dkey(random, oid)).filter(|_| random.below(2) == 0),
            },
            _ => Self::fetch(random, space, oid),
        }
    }

    /// A read that transactions support: they cannot list objects.
    pub(super) fn random_in_transaction(random: &mut Random, space: &Space) -> Self {
        loop {
            match Self::random(random, space) {
                Self::Objects { .. } => {}
                read => return read,
            }
        }
    }

    fn query(random: &mut Random, oid: ObjectId) -> Self {
        let edge = *pick(random, &[Edge::Min, Edge::Max]);
        let dkey = random.one_in(2).then(|| dkey(random, oid));
        let after = random.one_in(3).then(|| self::dkey(random, oid));
        let akey = random.one_in(2).then(|| akeys(random, oid).swap_remove(0));
        let want_akey = akey.is_none() && random.one_in(2);
        let want_extent = (akey.is_some() || want_akey) && random.one_in(2);
        Self::Query { oid, edge, dkey, after, akey, wants: (want_akey, want_extent) }
    }

    /// A random fetch of some akeys of one dkey. `lasting_kinds` limits which akeys it may require to exist
    /// ([`Want::random`]).
    fn fetch(random: &mut Random, space: &Space, oid: ObjectId) -> Self {
        let (akeys, lasts) = (akeys(random, oid), space.lasting_kinds);
        let wants = akeys.into_iter().map(|akey| Want::random(random, akey, lasts)).collect();
        let cond = if random.one_in(8) { Cond::DKEY_FETCH } else { Cond::NONE };
        Self::Fetch { oid, dkey: dkey(random, oid), cond, wants }
    }

    /// A read of the whole value of an akey.
    pub(super) fn whole(oid: ObjectId, dkey: &[u8], akey: &[u8], is_array: bool) -> Self {
        let extents = is_array.then(|| vec![Extent::new(0, 6100)]);
        let room = if is_array { 6100 * 100 } else { 150_000 };
        let akey = akey.to_vec();
        let want = Want { akey, extents, size: 0, room: Some(room), cond: Cond::NONE };
        Self::Fetch { oid, dkey: dkey.to_vec(), cond: Cond::NONE, wants: vec![want] }
    }

    /// Answer of a container to this read, in the state `at`. An error becomes an answer, so that two containers can be
    /// compared.
    pub(super) fn ask(&self, container: &dyn OpenContainer, at: ReadAt<'_>) -> Answer {
        let answer = match self {
            Self::Fetch { oid, dkey, cond, wants } => {
                let result = fetch(container, (*oid, dkey, *cond), wants, at);
                return result.unwrap_or_else(|error| match wants.len() {
                    1 => Answer::Refused(error.kind()),
                    _ => Answer::RefusedSomehow,
                });
            }
            Self::Dkeys { oid, step } => keys(container, *oid, KeyScope::Dkeys, *step, at),
            Self::Akeys { oid, dkey, step } => {
                keys(container, *oid, KeyScope::Akeys(dkey), *step, at)
            }
            Self::Extents { oid, dkey, akey, step } => {
                extents(container, *oid, AkeyRef { dkey, akey }, *step, at)
            }
            Self::Objects { step } => objects(container, *step, at),
            Self::Query { .. } => self.ask_query(container, at),
            Self::HasEpoch { oid, dkey } => {
                let epoch = container.last_epoch(*oid, dkey.as_deref(), at).wait();
                epoch.map(|epoch| Answer::HasEpoch(epoch.0 > 0))
            }
        };
        answer.unwrap_or_else(|error| Answer::Refused(error.kind()))
    }

    /// The answer to a query. For another kind of read, finds nothing.
    fn ask_query(&self, container: &dyn OpenContainer, at: ReadAt<'_>) -> Result<Answer> {
        let Self::Query { oid, edge, dkey, after, akey, wants } = self else {
            return Ok(Answer::Found(None));
        };
        let query = KeyQuery {
            edge: *edge,
            dkey: dkey.as_deref(),
            after: after.as_deref(),
            akey: akey.as_deref(),
            want_akey: wants.0,
            want_extent: wants.1,
        };
        let found = container.query_key(*oid, query, at).wait()?;
        let outer = |extent: Extent| match edge {
            Edge::Min => extent.start,
            Edge::Max => extent.end(),
        };
        Ok(Answer::Found(found.map(|f| (f.dkey, f.akey, f.extent.map(outer)))))
    }
}

impl Want {
    /// A random fetch of one akey: extents or a single value, with a random size and room for data. With `lasts`
    /// ([`Space::lasting_kinds`]), only a fetch of the akey's usual kind may require that the akey exists. For the
    /// other kind, such a backend finds no akey, whereas other backends may find one.
    fn random(random: &mut Random, akey: Vec<u8>, lasts: bool) -> Self {
        let extents = random.one_in(2).then(|| {
            let count = if random.one_in(3) { 3 } else { 1 };
            (0..count).map(|_| extent(random)).collect::<Vec<_>>()
        });
        let records = extents.iter().flatten().map(|extent| extent.count).sum::<u64>();
        let size = if random.one_in(4) { *pick(random, &[1, 8, 100]) } else { 0 };
        let room = match (random.below(6), &extents) {
            (0, _) => None,
            (1, _) => Some(random.below(200) as usize),
            (_, Some(_)) => Some((records * size.max(8)) as usize),
            (_, None) => Some(150_000),
        };
        let is_of_kind = !lasts || extents.is_some() == is_usually_array(&akey);
        let demands = random.one_in(6) && is_of_kind;
        let cond = if demands { Cond::AKEY_FETCH } else { Cond::NONE };
        Self { akey, extents, size, room, cond }
    }

    /// The fetch of this akey into `buffer`. If the size of the sink is odd, the sink has two parts.
    fn fetch<'a>(&'a self, buffer: &'a mut [u8]) -> Fetch<'a> {
        let sink = match self.room {
            None => Sink::None,
            Some(room) if room % 2 == 0 => Sink::One(buffer),
            Some(room) => {
                let (head, tail) = buffer.split_at_mut(room / 3);
                Sink::Many(vec![head, tail])
            }
        };
        let mut fetch = match &self.extents {
            Some(extents) => Fetch::array(&self.akey, self.size, extents, sink),
            None => Fetch::single(&self.akey, sink),
        };
        (fetch.request.want_filled, fetch.request.cond) = (self.extents.is_some(), self.cond);
        fetch
    }
}

fn fetch(
    container: &dyn OpenContainer,
    (oid, dkey, cond): (ObjectId, &[u8], Cond),
    wants: &[Want],
    at: ReadAt<'_>,
) -> Result<Answer> {
    let buffer = |want: &Want| vec![UNTOUCHED; want.room.unwrap_or(0)];
    let mut buffers: Vec<_> = wants.iter().map(buffer).collect();
    let mut fetches: Vec<_> = wants.iter().zip(&mut buffers).map(|(w, b)| w.fetch(b)).collect();
    container.fetch(oid, &mut [DkeyFetch { dkey, cond, akeys: &mut fetches }], at).wait()?;
    let brought = fetches.into_iter().map(|fetch| {
        let is_array = matches!(fetch.request.wanted, Wanted::Array(_));
        // If only sizes are requested, the remaining information about records is unspecified.
        let sized = matches!(fetch.reply.sink, Sink::None);
        let filled = if is_array && !sized { joined(fetch.reply.filled) } else { Vec::new() };
        (fetch.reply.size, if sized { 0 } else { fetch.reply.filled_bytes }, filled)
    });
    let brought: Vec<_> = brought.collect();
    let all = brought.into_iter().zip(&buffers);
    let all = all.map(|((size, filled_bytes, filled), buffer)| Fetched {
        size,
        filled_bytes,
        filled,
        buffer: Checksum::Crc64.sum(buffer),
    });
    Ok(Answer::Fetched(all.collect()))
}

fn keys(
    container: &dyn OpenContainer,
    oid: ObjectId,
    scope: KeyScope<'_>,
    step: usize,
    at: ReadAt<'_>,
) -> Result<Answer> {
    let (mut all, mut anchor) = (Vec::new(), Anchor::Start);
    while !anchor.is_end() {
        let limit = ListLimit::entries(step);
        let batch = container.list_keys(oid, scope, &mut anchor, limit, at).wait()?;
        all.extend(batch.iter().map(<[u8]>::to_vec));
    }
    all.sort();
    Ok(Answer::Keys(all))
}

fn extents(
    container: &dyn OpenContainer,
    oid: ObjectId,
    key: AkeyRef<'_>,
    step: usize,
    at: ReadAt<'_>,
) -> Result<Answer> {
    let (mut all, mut anchor) = (Vec::new(), Anchor::Start);
    while !anchor.is_end() {
        all.extend(container.list_extents(oid, key, &mut anchor, step, at).wait()?);
    }
    let record_size = all.first().map(|stored| stored.record_size);
    Ok(Answer::Extents(joined(all.iter().map(|stored| stored.extent)), record_size))
}

fn objects(container: &dyn OpenContainer, step: usize, at: ReadAt<'_>) -> Result<Answer> {
    let (mut all, mut anchor) = (Vec::new(), Anchor::Start);
    while !anchor.is_end() {
        all.extend(container.list_objects(&mut anchor, step, at).wait()?);
    }
    all.sort_unstable();
    Ok(Answer::Objects(all))
}
