//! Learned identities equal those of their teacher, for teachers of many kinds.
#[path = "../../client/tests/child/mod.rs"]
mod child;

use esker_fields::Key;
use esker_fields::grib::{Fields, Identify, Learned, Scan};
use esker_testing::Random;
use esker_types::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Octets of a hand-made message of edition 2: where the quantities are.
const YEAR: usize = 28;
const HOUR: usize = 32;
const GRID: usize = 37;
const PRODUCT: usize = 51;
const STEP: usize = PRODUCT + 18;
const LEVEL: usize = PRODUCT + 24;
const NUMBER: usize = PRODUCT + 35;

/// The number in big-endian octets.
fn be(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A message of one member of ECMWF's ensemble at a level of pressure, with random data.
fn message(random: &mut Random, grid: &[u8]) -> Vec<u8> {
    let mut first = [0; 21];
    first[3] = 21;
    first[4] = 1;
    first[6] = 98;
    let mut product = [0; 37];
    (product[3], product[4], product[8]) = (37, 4, 1);
    (product[9], product[17], product[22], product[28]) = (random.below(3) as u8, 1, 100, 255);
    let grid_len = (grid.len() as u32 + 5).to_be_bytes();
    let data = random.bytes(9);
    let parts: [&[u8]; 6] =
        [&first, &grid_len, &[3], grid, &product, &[0, 0, 0, 5, 5, 0, 0, 0, 14, 7]];
    let body = [&parts.concat()[..], &data].concat();
    let mut message =
        [b"GRIB\0\0\0\x02", &(body.len() as u64 + 20).to_be_bytes()[..], &body, b"7777"].concat();
    let product = grid.len() + 5 + GRID - PRODUCT;
    let mut set = |at: usize, value: u64, len: usize| {
        message[at..at + len].copy_from_slice(&value.to_be_bytes()[8 - len..]);
    };
    set(YEAR, 1990 + random.below(50), 2);
    set(YEAR + 2, (1 + random.below(12)) << 8 | (1 + random.below(31)), 2);
    set(HOUR, random.below(24) << 8, 2);
    set(product + STEP, random.below(100), 4);
    set(product + LEVEL, random.below(1001) * 100, 4);
    set(product + NUMBER, random.below(51), 1);
    message
}

/// A message with a grid of nine octets.
fn small(random: &mut Random) -> Vec<u8> {
    message(random, &[7; 9])
}

/// The names and values that the message spells.
fn key(message: &[u8]) -> [(&'static str, String); 6] {
    let get = |at: usize, len: usize| be(&message[at..at + len]);
    [
        ("param", get(PRODUCT + 9, 1).to_string()),
        ("date", (get(YEAR, 2) * 10_000 + get(YEAR + 2, 1) * 100 + get(YEAR + 3, 1)).to_string()),
        ("time", format!("{:04}", get(HOUR, 1) * 100 + get(HOUR + 1, 1))),
        ("step", get(STEP, 4).to_string()),
        ("levelist", (get(LEVEL, 4) / 100).to_string()),
        ("number", get(NUMBER, 1).to_string()),
    ]
}

/// A teacher that is a function.
struct By<F>(F);

impl<F: Fn(&[u8]) -> Result<Key>> Identify for By<F> {
    fn identify(&self, message: &[u8]) -> Result<Key> {
        (self.0)(message)
    }
}

type Teacher = fn(&[u8]) -> Result<Key>;

/// A teacher by which each value follows one quantity, or stays the same.
fn plain(message: &[u8]) -> Result<Key> {
    Key::from_pairs(key(message))
}

/// The parameter depends on the level.
fn by_level(message: &[u8]) -> Result<Key> {
    let mut key = plain(message)?;
    let level = be(&message[LEVEL..LEVEL + 4]) / 100;
    key.set("param", if level < 400 { "1" } else { "2" })?;
    Ok(key)
}

/// A control forecast has no number, although it has an octet for it, and late steps are in days.
fn by_value(message: &[u8]) -> Result<Key> {
    let mut key = plain(message)?;
    let step = be(&message[STEP..STEP + 4]);
    if step > 60 {
        key.set("days", &(step / 24).to_string())?;
    }
    Ok(key)
}

/// A hindcast: the date is that of the reference, the date of the message has another name.
fn hindcast(message: &[u8]) -> Result<Key> {
    let [param, (_, date), time, step, level, number] = key(message);
    Key::from_pairs([
        ("date", "20200101".to_owned()),
        ("hdate", date),
        time,
        step,
        level,
        number,
        param,
    ])
}

/// Many messages are not understood.
fn moody(message: &[u8]) -> Result<Key> {
    match be(&message[STEP..STEP + 4]) % 3 {
        0 => Err(Error::new(ErrorKind::Invalid, "not today")),
        _ => plain(message),
    }
}

#[test]
fn learned_keys_equal_those_of_the_teacher() {
    let seed = esker_testing::seed();
    println!("{}={seed}", esker_testing::SEED_VARIABLE);
    let teachers: [(&str, Teacher); 5] = [
        ("plain", plain),
        ("level", by_level),
        ("value", by_value),
        ("hindcast", hindcast),
        ("moody", moody),
    ];
    for (name, teacher) in teachers {
        let learned = Learned::new(By(teacher));
        let mut random = Random::new(seed, 0);
        for _ in 0..3000 {
            let message = small(&mut random);
            let (found, said) = (learned.identify(&message).ok(), teacher(&message).ok());
            assert_eq!(found, said, "{name}: {message:x?}");
        }
        println!("{name}: asked {} times", learned.asked());
        let few = matches!(name, "plain" | "hindcast");
        assert!(!few || learned.asked() < 200, "{name}: {}", learned.asked());
    }
}

#[test]
fn keys_learned_by_several_threads_equal_those_of_the_teacher() {
    let seed = esker_testing::seed();
    println!("{}={seed}", esker_testing::SEED_VARIABLE);
    let learned = &Learned::new(By(hindcast));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let mut random = Random::new(seed + thread, 0);
                for _ in 0..2000 {
                    let message = small(&mut random);
                    assert_eq!(learned.identify(&message).unwrap(), hindcast(&message).unwrap());
                }
            });
        }
    });
}

/// A thread of the parent may hold the lock of the cache when it forks.
#[test]
fn forked_children_learn_keys_while_threads_of_their_parent_do() {
    let (learned, ended) = (Learned::new(By(plain)), AtomicBool::new(false));
    let message = small(&mut Random::new(1, 0));
    let learn = || assert_eq!(learned.identify(&message).unwrap(), plain(&message).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    learn();
                }
            });
        }
        let forked = catch_unwind(AssertUnwindSafe(|| {
            (0..40).for_each(|_| child::in_a_child(60, || (0..5).for_each(|_| learn())));
        }));
        ended.store(true, Ordering::Relaxed);
        forked.unwrap();
    });
}

#[test]
fn least_recently_used_kinds_are_dropped() {
    let constant = |_: &[u8]| Key::parse("class=od");
    let learned = Learned::new(By(constant));
    let mut random = Random::new(1, 0);
    // Nearly a megabyte of header each, in two entries: more than is kept.
    let large = |byte: u8, random: &mut Random| message(random, &vec![byte; (1 << 20) - 200]);
    let first = large(0, &mut random);
    learned.identify(&first).unwrap();
    learned.identify(&first).unwrap();
    assert_eq!(learned.asked(), 1);
    for byte in 1..100 {
        learned.identify(&large(byte, &mut random)).unwrap();
    }
    assert_eq!(learned.asked(), 100);
    learned.identify(&first).unwrap();
    assert_eq!(learned.asked(), 101);
    // Longer ones are not kept at all.
    let longer = message(&mut random, &vec![0; 1 << 20]);
    for asked in [102, 103] {
        learned.identify(&longer).unwrap();
        assert_eq!(learned.asked(), asked);
    }
}

#[test]
fn damaged_messages_are_left_to_the_teacher() {
    let seed = esker_testing::seed();
    println!("{}={seed}", esker_testing::SEED_VARIABLE);
    let mut random = Random::new(seed, 0);
    let said = |message: &[u8]| Key::from_pairs([("len", message.len().to_string())]);
    for _ in 0..20_000 {
        let learned = Learned::new(By(said));
        let mut message = small(&mut random);
        for _ in 0..1 + random.below(8) {
            let at = random.below(message.len() as u64) as usize;
            message[at] = random.draw() as u8;
        }
        if random.one_in(3) {
            message.truncate(random.below(message.len() as u64 + 1) as usize);
        }
        for _ in 0..3 {
            assert_eq!(learned.identify(&message).unwrap(), said(&message).unwrap());
        }
        let fields = Fields::split(&message).filter_map(Result::ok);
        assert!(fields.map(|field| field.len()).sum::<usize>() <= 2 * message.len());
        let _ = Scan::new(&message).count();
    }
}
