//! Pipelines: conditions on records, and aggregations of them.
use crate::common::*;
use daos::abi::{
    Handle, IOD_ARRAY, IOD_SINGLE, Iod, Iov, KeyDesc, Pipeline, PipelineFilter, PipelinePart,
    PipelineStats, Ptr, Recx,
};
use daos::object::{daos_obj_open, daos_obj_update};
use daos::pipeline::*;

const DIV_BY_ZERO: i32 = -2047;

/// A part of a filter, as the tests write it.
#[derive(Clone, Copy)]
enum Is<'a> {
    /// A function and its number of operands.
    Func(&'a str, u32),
    /// The type.
    Dkey(&'a str),
    /// The type, the name, the offset and the number of bytes or records; 0 for all.
    Akey(&'a str, &'a str, usize, usize),
    /// The type, and the values.
    Const(&'a str, &'a [&'a [u8]]),
}
use Is::{Akey, Const, Dkey, Func};

/// A filter and all that it points to.
struct Filter {
    filter: Box<PipelineFilter>,
    parts: Vec<PipelinePart>,
    _texts: Vec<String>,
    _constants: Vec<Vec<Iov>>,
}

impl Filter {
    fn new(kind: &str, parts: &[Is<'_>]) -> Self {
        let none = || Iov { buf: Ptr::null(), buf_len: 0, len: 0 };
        let (mut texts, mut constants, mut made) = (vec![kind.to_owned()], Vec::new(), Vec::new());
        let filter_type = iov(texts[0].as_bytes());
        let mut filter = Box::new(PipelineFilter { filter_type, num_parts: 9, parts: Ptr::null() });
        daos_filter_init(at(&mut filter));
        filter.filter_type = filter_type;
        for part in parts {
            let mut name = |text: String| {
                texts.push(text);
                texts.last().map_or_else(none, |text| iov(text.as_bytes()))
            };
            let (part_type, num_operands) = match part {
                Func(function, operands) => {
                    (name(format!("DAOS_FILTER_FUNC_{function}")), *operands)
                }
                Dkey(_) => (name("DAOS_FILTER_DKEY".into()), 0),
                Akey(..) => (name("DAOS_FILTER_AKEY".into()), 0),
                Const(..) => (name("DAOS_FILTER_CONST".into()), 0),
            };
            let data_type = match part {
                Func(..) => none(),
                Dkey(kind) | Akey(kind, ..) | Const(kind, _) => {
                    name(format!("DAOS_FILTER_TYPE_{kind}"))
                }
            };
            let (akey, data_offset, data_len) = match part {
                Akey(_, name, offset, len) => (iov(name.as_bytes()), *offset, *len),
                _ => (none(), 0, 0),
            };
            let values = if let Const(_, values) = part { *values } else { &[] };
            let mut values: Vec<_> = values.iter().map(|value| iov(value)).collect();
            let (num_constants, constant) = (values.len(), list(&mut values));
            constants.push(values);
            made.push(PipelinePart {
                part_type,
                data_type,
                num_operands,
                akey,
                num_constants,
                constant,
                data_offset,
                data_len,
            });
        }
        for part in &mut made {
            assert_eq!(daos_filter_add(at(&mut filter), at(part)), 0);
        }
        Self { filter, parts: made, _texts: texts, _constants: constants }
    }
}

/// A pipeline of conditions and aggregations.
struct Pipe {
    pipeline: Box<Pipeline>,
    filters: Vec<Filter>,
}

impl Pipe {
    fn new(conditions: &[&[Is<'_>]], aggregations: &[&[Is<'_>]]) -> Self {
        let null = Ptr::null();
        let mut pipeline = Box::new(Pipeline {
            version: 9,
            num_filters: 9,
            filters: null,
            num_aggr_filters: 9,
            aggr_filters: null,
        });
        daos_pipeline_init(at(&mut pipeline));
        let conditions = conditions.iter().map(|parts| Filter::new("DAOS_FILTER_CONDITION", parts));
        let aggregations =
            aggregations.iter().map(|parts| Filter::new("DAOS_FILTER_AGGREGATION", parts));
        let mut filters: Vec<_> = conditions.chain(aggregations).collect();
        for filter in &mut filters {
            assert_eq!(daos_pipeline_add(at(&mut pipeline), at(&mut filter.filter)), 0);
        }
        Self { pipeline, filters }
    }

    fn check(&mut self) -> i32 {
        daos_pipeline_check(at(&mut self.pipeline))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        assert_eq!(daos_pipeline_free(at(&mut self.pipeline)), 0);
        assert_eq!((self.pipeline.num_filters, self.pipeline.version), (0, 1));
        assert!(self.filters.iter().all(|filter| filter.filter.num_parts == 0));
        assert!(self.pipeline.filters.is_null() && self.pipeline.aggr_filters.is_null());
    }
}

/// An object with the records of pets.
struct Pets {
    _store: Store,
    coh: Handle,
    oh: Handle,
}

/// Name, species and age of each pet.
const PETS: [(&str, &str, Option<u64>); 5] = [
    ("Buffy", "dog", Some(10)),
    ("Chirpy", "bird", Some(2)),
    ("Claws", "cat", Some(15)),
    ("Fang", "dog", Some(27)),
    ("Slim", "snake", None),
];

impl Pets {
    fn new() -> Self {
        let store = Store::new();
        let (mut oh, oid) = (NONE, store.oid(MULTI_HASHED, SX));
        assert_eq!(daos_obj_open(store.coh, oid, OBJ_RW, at(&mut oh), WAIT), 0);
        let pets = Self { coh: store.coh, _store: store, oh };
        for (name, species, age) in PETS {
            pets.put(name, "Species", species.as_bytes());
            if let Some(age) = age {
                pets.put(name, "Age", &age.to_ne_bytes());
            }
        }
        pets
    }

    fn put(&self, dkey: &str, akey: &str, value: &[u8]) {
        let name = iov(akey.as_bytes());
        let (size, recxs) = (value.len() as u64, Ptr::null());
        let mut iod = Iod { name, kind: IOD_SINGLE, size, flags: 0, nr: 1, recxs };
        let mut iovs = [iov(value)];
        let (mut dkey, mut sgl) = (iov(dkey.as_bytes()), sgl(&mut iovs));
        let (iod, sgl) = (at(&mut iod), at(&mut sgl));
        assert_eq!(daos_obj_update(self.oh, NONE, 0, at(&mut dkey), 1, iod, sgl, WAIT), 0);
    }

    /// Runs a pipeline to its end, with room for `room` records; returns the names found, and the results.
    fn run(&self, pipe: &mut Pipe, room: usize) -> Result<(Vec<String>, Vec<f64>), i32> {
        let none = Ptr::null();
        let iod = |name: &'static str, size| Iod {
            name: iov(name.as_bytes()),
            kind: IOD_SINGLE,
            size,
            flags: 0,
            nr: 1,
            recxs: none,
        };
        let mut iods = [iod("Species", 16), iod("Age", 8)];
        let aggregates = pipe.pipeline.num_aggr_filters as usize;
        let (mut results, mut anchor) = (vec![[0; 8]; aggregates], start());
        let (mut names, mut stats) = (Vec::new(), PipelineStats { nr_dkeys: 77, ..<_>::default() });
        while anchor.kind != 3 {
            let (mut kds, mut sizes) = (vec![KeyDesc::default(); room], vec![99; 2 * room]);
            let (mut keys, mut values) = (vec![0; 16 * room], vec![0; 24 * room]);
            let (mut keys_iov, mut values_iov) = ([iov_room(&mut keys)], [iov_room(&mut values)]);
            let (mut sgl_keys, mut sgl_values) = (sgl(&mut keys_iov), sgl(&mut values_iov));
            let mut result_iovs: Vec<_> =
                results.iter_mut().map(|result| iov_room(result)).collect();
            let mut sgl_results = sgl(&mut result_iovs);
            let (mut nr_iods, mut nr_kds) = (2, room as u32);
            let done = daos_pipeline_run(
                self.coh,
                self.oh,
                at(&mut pipe.pipeline),
                NONE,
                0,
                Ptr::null(),
                at(&mut nr_iods),
                list(&mut iods),
                at(&mut anchor),
                at(&mut nr_kds),
                list(&mut kds),
                at(&mut sgl_keys),
                at(&mut sgl_values),
                list(&mut sizes),
                at(&mut sgl_results),
                at(&mut stats),
                WAIT,
            );
            if done != 0 {
                return Err(done);
            }
            let (mut key_at, mut value_at) = (0, 0);
            for (index, kd) in kds[..nr_kds as usize].iter().enumerate() {
                let name = &keys[key_at..key_at + kd.key_len as usize];
                let name = String::from_utf8(name.to_vec()).unwrap();
                let (_, species, age) = PETS.into_iter().find(|pet| pet.0 == name).unwrap();
                let (species_len, age_len) = (sizes[2 * index], sizes[2 * index + 1]);
                let value = &values[value_at..value_at + species_len as usize];
                assert_eq!(value, species.as_bytes());
                assert_eq!(age_len, if age.is_some() { 8 } else { 0 });
                key_at += name.len();
                value_at += (species_len + age_len) as usize;
                names.push(name);
            }
        }
        assert_eq!((stats.nr_objs, stats.nr_dkeys, stats.nr_akeys), (0, 5, 0));
        names.sort();
        Ok((names, results.into_iter().map(f64::from_ne_bytes).collect()))
    }

    /// The names of the pets that meet a condition. Checks that pages of one record return the same.
    fn names(&self, condition: &[Is<'_>]) -> Result<Vec<String>, i32> {
        let found = self.run(&mut Pipe::new(&[condition], &[]), 64)?.0;
        assert_eq!(self.run(&mut Pipe::new(&[condition], &[]), 1)?.0, found, "in pages of one");
        Ok(found)
    }
}

const SPECIES: Is<'static> = Akey("BINARY", "Species", 0, 0);
const AGE: Is<'static> = Akey("UINTEGER8", "Age", 0, 0);

#[test]
fn records_that_meet_conditions_are_returned() {
    let pets = Pets::new();
    let (dog, ten) = (Const("BINARY", &[b"dog"]), 10u64.to_ne_bytes());
    let ten: &[&[u8]] = &[&ten];
    let ten = Const("UINTEGER8", ten);
    assert_eq!(pets.run(&mut Pipe::new(&[], &[]), 64).unwrap().0.len(), 5);
    let is_dog = [Func("EQ", 2), SPECIES, dog];
    assert_eq!(pets.names(&is_dog).unwrap(), ["Buffy", "Fang"]);
    let not_dog = [Func("NOT", 1), Func("EQ", 2), SPECIES, dog];
    assert_eq!(pets.names(&not_dog).unwrap(), ["Chirpy", "Claws", "Slim"]);
    let some = Const("BINARY", &[b"cat", b"snake"]);
    assert_eq!(pets.names(&[Func("IN", 2), SPECIES, some]).unwrap(), ["Claws", "Slim"]);
    assert_eq!(pets.names(&[Func("LT", 2), AGE, ten]).unwrap(), ["Chirpy"]);
    assert_eq!(pets.names(&[Func("LE", 2), AGE, ten]).unwrap(), ["Buffy", "Chirpy"]);
    assert_eq!(pets.names(&[Func("GT", 2), AGE, ten]).unwrap(), ["Claws", "Fang"]);
    assert_eq!(pets.names(&[Func("GE", 2), AGE, ten]).unwrap(), ["Buffy", "Claws", "Fang"]);
    assert_eq!(pets.names(&[Func("NE", 2), AGE, ten]).unwrap(), ["Chirpy", "Claws", "Fang"]);
    assert_eq!(pets.names(&[Func("ISNULL", 1), AGE]).unwrap(), ["Slim"]);
    assert_eq!(pets.names(&[Func("ISNOTNULL", 1), AGE]).unwrap().len(), 4);
    let like = [Func("LIKE", 2), Dkey("BINARY"), Const("CSTRING", &[b"C%\0"])];
    assert_eq!(pets.names(&like).unwrap(), ["Chirpy", "Claws"]);
    let both = [Func("AND", 2), Func("EQ", 2), SPECIES, dog, Func("GT", 2), AGE, ten];
    assert_eq!(pets.names(&both).unwrap(), ["Fang"]);
    let either = [Func("OR", 2), Func("EQ", 2), SPECIES, dog, Func("GT", 2), AGE, ten];
    assert_eq!(pets.names(&either).unwrap(), ["Buffy", "Claws", "Fang"]);
    let mut two = Pipe::new(&[&is_dog, &[Func("GT", 2), AGE, ten]], &[]);
    assert_eq!(pets.run(&mut two, 64).unwrap().0, ["Fang"], "all conditions must be met");
}

#[test]
fn conditions_compute_with_numbers() {
    let pets = Pets::new();
    let (one, zero, ten) = (1u64.to_ne_bytes(), 0u64.to_ne_bytes(), 10u64.to_ne_bytes());
    let numbers: [&[&[u8]]; 3] = [&[&one], &[&zero], &[&ten]];
    let [one, zero, ten] = numbers.map(|number| Const("UINTEGER8", number));
    let odd = [Func("EQ", 2), Func("BITAND", 2), AGE, one, one];
    assert_eq!(pets.names(&odd).unwrap(), ["Claws", "Fang"]);
    let after = [Func("EQ", 2), Func("SUB", 2), Func("ADD", 2), AGE, one, one, ten];
    assert_eq!(pets.names(&after).unwrap(), ["Buffy"]);
    let quotient = [Func("EQ", 2), Func("DIV", 2), Func("MUL", 2), AGE, ten, ten, ten];
    assert_eq!(pets.names(&quotient).unwrap(), ["Buffy"]);
    assert_eq!(pets.names(&[Func("EQ", 2), Func("DIV", 2), AGE, zero, one]), Err(DIV_BY_ZERO));
    let low = Akey("UINTEGER1", "Age", 0, 1);
    assert_eq!(
        pets.names(&[Func("EQ", 2), low, Const("UINTEGER8", numbers[2])]).unwrap(),
        ["Buffy"]
    );
    let high = Akey("UINTEGER4", "Age", 5, 0);
    assert!(pets.names(&[Func("EQ", 2), high, zero]).unwrap().is_empty(), "3 bytes are not 4");
}

#[test]
fn records_are_aggregated() {
    let pets = Pets::new();
    let functions = ["SUM", "MIN", "MAX", "AVG"];
    let filters = functions.map(|function| [Func(function, 1), AGE]);
    let aggregations: Vec<&[Is<'_>]> = filters.iter().map(|filter| &filter[..]).collect();
    let dogs = [Func("EQ", 2), SPECIES, Const("BINARY", &[b"dog"])];
    let (names, results) = pets.run(&mut Pipe::new(&[&dogs], &aggregations), 4).unwrap();
    assert_eq!(results, [37.0, 10.0, 27.0, 18.5]);
    assert_eq!(names.len(), 1, "one record is returned");
    let (names, results) = pets.run(&mut Pipe::new(&[&dogs], &aggregations), 0).unwrap();
    assert_eq!((names.len(), results), (0, vec![37.0, 10.0, 27.0, 18.5]));
    let fish = [Func("EQ", 2), SPECIES, Const("BINARY", &[b"fish"])];
    let (_, results) = pets.run(&mut Pipe::new(&[&fish], &aggregations), 4).unwrap();
    assert_eq!(results, [0.0, f64::INFINITY, f64::NEG_INFINITY, 0.0]);
}

#[test]
fn records_of_arrays_are_compared() {
    let pets = Pets::new();
    let mut oh = NONE;
    let oid = pets._store.oid(MULTI_HASHED, SX);
    assert_eq!(daos_obj_open(pets.coh, oid, OBJ_RW, at(&mut oh), WAIT), 0);
    let mut recxs = [Recx { idx: 0, nr: 4 }, Recx { idx: 100, nr: 4 }];
    let iod = |recxs: &mut [Recx]| Iod {
        name: iov(b"a"),
        kind: IOD_ARRAY,
        size: 2,
        flags: 0,
        nr: recxs.len() as u32,
        recxs: list(recxs),
    };
    for (dkey, values) in [(b"1", [1u16, 2, 3, 4, 5, 6, 7, 8]), (b"2", [1, 2, 3, 4, 5, 7, 7, 8])] {
        let data: Vec<_> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let (mut dkey, mut iovs) = (iov(dkey), [iov(&data)]);
        let (mut sgl, mut iod) = (sgl(&mut iovs), iod(&mut recxs));
        let (iod, sgl) = (at(&mut iod), at(&mut sgl));
        assert_eq!(daos_obj_update(oh, NONE, 0, at(&mut dkey), 1, iod, sgl, WAIT), 0);
    }
    let six: &[&[u8]] = &[&6u16.to_ne_bytes()];
    let condition = [Func("EQ", 2), Akey("UINTEGER2", "a", 101, 1), Const("UINTEGER2", six)];
    let mut pipe = Pipe::new(&[&condition], &[]);
    let (mut iod, mut nr_iods, mut nr_kds) = (iod(&mut recxs), 1, 4);
    let (mut kds, mut anchor) = ([KeyDesc::default(); 4], start());
    let (mut keys, mut values) = ([0; 8], [0; 64]);
    let (mut keys_iov, mut values_iov) = ([iov_room(&mut keys)], [iov_room(&mut values)]);
    let (mut sgl_keys, mut sgl_values) = (sgl(&mut keys_iov), sgl(&mut values_iov));
    let done = daos_pipeline_run(
        pets.coh,
        oh,
        at(&mut pipe.pipeline),
        NONE,
        0,
        Ptr::null(),
        at(&mut nr_iods),
        at(&mut iod),
        at(&mut anchor),
        at(&mut nr_kds),
        list(&mut kds),
        at(&mut sgl_keys),
        at(&mut sgl_values),
        Ptr::null(),
        Ptr::null(),
        Ptr::null(),
        WAIT,
    );
    assert_eq!((done, nr_kds, keys[0], values_iov[0].len), (0, 1, b'1', 16));
}

#[test]
fn bad_pipelines_are_refused() {
    let check = |parts: &[Is<'_>]| Pipe::new(&[parts], &[]).check();
    let text = Const("BINARY", &[b"x"]);
    let number: &[&[u8]] = &[&1u64.to_ne_bytes()];
    let number = Const("UINTEGER8", number);
    assert_eq!(daos_pipeline_check(Ptr::null()), INVAL);
    assert_eq!(check(&[Func("EQ", 2), SPECIES, text]), 0);
    for (parts, code) in [
        (&[Func("XOR", 2), SPECIES, text][..], NOSYS),
        (&[Func("SUM", 1), AGE], NOSYS),
        (&[Func("EQ", 2), SPECIES, Const("BINARIES", &[b"x"])], NOSYS),
        (&[Func("EQ", 3), SPECIES, text, text], INVAL),
        (&[Func("EQ", 2), SPECIES], INVAL),
        (&[Func("EQ", 2), SPECIES, text, text], INVAL),
        (&[Func("EQ", 2), SPECIES, number], INVAL),
        (&[Func("EQ", 2), text, Const("BINARY", &[])], INVAL),
        (&[Func("EQ", 2), Const("BINARY", &[b"x", b"y"]), SPECIES], INVAL),
        (&[Func("EQ", 2), AGE, Const("UINTEGER8", &[b"short"])], INVAL),
        (&[Func("EQ", 2), SPECIES, Const("CSTRING", &[b"no end"])], INVAL),
        (&[Func("EQ", 2), SPECIES, Const("STRING", &[b"\x09\0\0\0\0\0\0\0short"])], INVAL),
        (&[Func("ADD", 2), AGE, number], INVAL),
        (&[Func("EQ", 2), Func("ADD", 2), SPECIES, text, text], INVAL),
        (&[Func("ISNULL", 1), Dkey("BINARY")], INVAL),
        (&[Func("NOT", 1), Func("ISNULL", 1), AGE], INVAL),
        (&[Func("NOT", 1), AGE], INVAL),
        (&[Func("LIKE", 2), SPECIES, Const("BINARY", &[b"x\\"])], INVAL),
        (&[], INVAL),
    ] {
        assert_eq!(check(parts), code);
    }
    let deep: Vec<_> = std::iter::repeat_n(Func("NOT", 1), 1000).collect();
    assert_eq!(check(&[&deep[..], &[Func("EQ", 2), SPECIES, text]].concat()), INVAL);
    assert_eq!(Pipe::new(&[], &[&[Func("SUM", 1), SPECIES]]).check(), INVAL);
    assert_eq!(Pipe::new(&[], &[&[AGE]]).check(), INVAL);
    let mut pipe = Pipe::new(&[&[Func("EQ", 2), SPECIES, text]], &[]);
    pipe.filters[0].parts[1].data_type.len = 0;
    assert_eq!(pipe.check(), INVAL, "a key needs a type");
    pipe.pipeline.version = 2;
    pipe.filters[0].parts[1].data_type.len = "DAOS_FILTER_TYPE_BINARY".len();
    assert_eq!(pipe.check(), MISMATCH);
    let mut filter = Filter::new("DAOS_FILTER_UNKNOWN", &[]);
    assert_eq!(daos_pipeline_add(at(&mut pipe.pipeline), at(&mut filter.filter)), INVAL);
    assert_eq!(daos_pipeline_add(at(&mut pipe.pipeline), Ptr::null()), INVAL);
    assert_eq!(daos_pipeline_free(Ptr::null()), INVAL);
}

#[test]
fn bad_runs_are_refused() {
    let pets = Pets::new();
    let mut pipe = Pipe::new(&[], &[&[Func("SUM", 1), AGE]]);
    let pipeline = at(&mut *pipe.pipeline);
    let run = |oh, flags, dkey, nr_iods: u32, nr_kds: u32, result: usize| {
        let (name, recxs) = (iov(b"Age"), Ptr::null());
        let mut iod = Iod { name, kind: IOD_SINGLE, size: 8, flags: 0, nr: 1, recxs };
        let (mut nr_iods, mut nr_kds, mut anchor) = (nr_iods, nr_kds, start());
        let (mut kd, mut sum) = (KeyDesc::default(), vec![0; result]);
        let mut sums = [iov_room(&mut sum)];
        let mut sgl = sgl(&mut sums);
        let none = Ptr::null();
        let (kds, iods, sums) = (at(&mut kd), at(&mut iod), at(&mut sgl));
        let (nr_iods, nr_kds, anchor) = (at(&mut nr_iods), at(&mut nr_kds), at(&mut anchor));
        daos_pipeline_run(
            pets.coh,
            oh,
            pipeline,
            NONE,
            flags,
            dkey,
            nr_iods,
            iods,
            anchor,
            nr_kds,
            kds,
            none,
            none,
            Ptr::null(),
            sums,
            Ptr::null(),
            WAIT,
        )
    };
    let none = Ptr::null();
    assert_eq!(run(pets.oh, 0, none, 1, 0, 8), 0);
    assert_eq!(run(pets.oh, 0, none, 1, 1, 8), REC2BIG, "there is no room for the record");
    assert_eq!(run(pets.oh, 0, none, 0, 0, 8), INVAL, "no akeys");
    assert_eq!(run(pets.oh, 0, none, 1, 0, 4), INVAL, "no room for the result");
    assert_eq!(run(pets.oh, 1, none, 1, 0, 8), NOTSUPPORTED);
    assert_eq!(run(pets.oh, 0, at(&mut iov(b"Buffy")), 1, 0, 8), NOTSUPPORTED);
    assert_eq!(run(NONE, 0, none, 1, 0, 8), NO_HDL);
}
