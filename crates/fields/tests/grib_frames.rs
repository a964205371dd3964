//! Messages in streams are read intact, with other bytes and damaged messages between them.
use esker_fields::grib::{Message, Messages, Scan, Skipped};
use esker_testing::Random;
use esker_types::Result;
use std::io::{self, Read};

/// A message of edition 2 with one section of `bytes` random octets.
fn second(random: &mut Random, bytes: u64) -> Vec<u8> {
    let body = random.bytes(bytes as usize);
    let length = 16 + 5 + bytes + 4;
    let section = (bytes as u32 + 5).to_be_bytes();
    [b"GRIB\0\0\0\x02", &length.to_be_bytes()[..], &section, &[1], &body, b"7777"].concat()
}

/// A message of edition 1 with sections 1 and 4, which has `bytes` random octets at its end.
fn first(random: &mut Random, bytes: u64) -> Vec<u8> {
    let length = 8 + 28 + 11 + bytes + 4;
    let mut message = b"GRIB".to_vec();
    message.extend(&(length as u32).to_be_bytes()[1..]);
    message.extend([1, 0, 0, 28, 0, 0, 0, 0, 0]);
    message.extend(random.bytes(28 - 8));
    message.extend(&(11 + bytes as u32).to_be_bytes()[1..]);
    message.extend(random.bytes(8 + bytes as usize));
    message.extend(b"7777");
    message
}

/// Reads in pieces of random length.
struct Trickle<'a>(&'a [u8], Random);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = (1 + self.1.below(5000) as usize).min(buffer.len());
        self.0.read(&mut buffer[..len])
    }
}

/// A message, or the text of the error.
type Item = std::result::Result<Message<Vec<u8>>, String>;

/// An item with a copy of the bytes, so that both readers give the same type.
fn owned(found: Result<Message<impl AsRef<[u8]>>>) -> Item {
    let message = found.map_err(|error| error.message().to_owned())?;
    let bytes = message.bytes.as_ref().to_vec();
    Ok(Message { number: message.number, offset: message.offset, bytes })
}

/// The messages and errors in `bytes`. Both readers must find the same.
fn found(bytes: &[u8], random: &mut Random) -> (Vec<Item>, Skipped) {
    let mut scan = Scan::new(bytes);
    let in_memory: Vec<_> = scan.by_ref().map(owned).collect();
    let mut read = Messages::new(Trickle(bytes, Random::new(random.draw(), 0)));
    let from_stream: Vec<_> = read.by_ref().map(owned).collect();
    assert_eq!(in_memory, from_stream);
    assert_eq!(scan.skipped(), read.skipped());
    (in_memory, scan.skipped())
}

#[test]
fn messages_are_found_whatever_is_between_them() {
    let seed = esker_testing::seed();
    println!("{}={seed}", esker_testing::SEED_VARIABLE);
    let mut random = Random::new(seed, 0);
    for _ in 0..50 {
        let (mut stream, mut messages, mut between) = (Vec::new(), Vec::new(), Skipped::default());
        for _ in 0..random.below(20) {
            let bytes = random.below(10) * random.below(10) * random.below(4000);
            let message = if random.one_in(2) {
                first(&mut random, bytes)
            } else {
                second(&mut random, bytes)
            };
            let (padding, junk) = (random.below(300), random.below(3) * random.below(1000));
            stream.resize(stream.len() + padding as usize, 0);
            stream.resize(stream.len() + junk as usize, b'G');
            between.padding += padding;
            between.junk += junk;
            messages.push((stream.len() as u64, message.clone()));
            stream.extend(message);
        }
        stream.extend(b"GRI");
        between.junk += 3;
        let (found, skipped) = found(&stream, &mut random);
        let found: Vec<_> = found.into_iter().map(|message| message.unwrap()).collect();
        assert_eq!(found.len(), messages.len());
        for (index, (message, (offset, bytes))) in found.iter().zip(&messages).enumerate() {
            assert_eq!((message.number, message.offset), (index as u64 + 1, *offset));
            assert!(message.bytes == *bytes);
        }
        assert_eq!(skipped, between);
    }
}

#[test]
fn intact_messages_beside_damaged_ones_are_found() {
    let seed = esker_testing::seed();
    println!("{}={seed}", esker_testing::SEED_VARIABLE);
    let mut random = Random::new(seed, 0);
    let good: Vec<_> = (0..3).map(|_| second(&mut random, 5000)).collect();
    let length = good[1].len();
    type Damage<'a> = (&'a str, &'a dyn Fn(&mut Vec<u8>));
    let damages: [Damage<'_>; 5] = [
        ("7777 is not at their end", &|m| m.truncate(length - 1)),
        ("7777 is not at their end", &|m| m[15] ^= 0x40),
        ("edition is 7", &|m| m[7] = 7),
        ("the limit is", &|m| m[8] = 1),
        ("sections do not fill", &|m| m[19] ^= 1),
    ];
    for (what, damage) in damages {
        let mut broken = good[1].clone();
        damage(&mut broken);
        let stream = [&good[0][..], &broken, &good[2]].concat();
        let (found, skipped) = found(&stream, &mut random);
        assert_eq!(found.len(), 3, "{what}: {found:?}");
        assert_eq!(found[0].as_ref().unwrap().bytes, good[0]);
        let error = found[1].as_ref().unwrap_err();
        assert!(
            error.contains(&format!("message 2 at byte {length}: ")) && error.contains(what),
            "{error}"
        );
        let last = found[2].as_ref().unwrap();
        assert_eq!((last.number, &last.bytes), (3, &good[2]));
        assert_eq!(skipped, Skipped { damaged: broken.len() as u64, ..Skipped::default() });
    }
}

#[test]
fn a_stream_that_ends_too_early_says_where() {
    let mut random = Random::new(1, 0);
    let whole = [first(&mut random, 600), first(&mut random, 600)].concat();
    let cut = &whole[..whole.len() - 10];
    let (found, _) = found(cut, &mut random);
    let error = found[1].as_ref().unwrap_err();
    assert!(error.contains("message 2 at byte 651: it ends after 641 of 651 bytes"), "{error}");
}

#[test]
fn failed_read_ends_the_iteration() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let message = first(&mut Random::new(2, 0), 100);
    let mut messages = Messages::new(message.chain(Failing));
    let all: Vec<_> = messages.by_ref().collect();
    assert!(all.last().unwrap().as_ref().unwrap_err().message().contains("the disk is gone"));
    assert!(messages.next().is_none());
}

#[test]
fn random_bytes_never_stop_the_iteration() {
    let seed = esker_testing::seed();
    println!("{}={seed}", esker_testing::SEED_VARIABLE);
    let mut random = Random::new(seed, 0);
    for _ in 0..300 {
        let mut bytes = Vec::new();
        while bytes.len() < 20_000 {
            let len = random.below(60);
            let next = match random.below(4) {
                0 => b"GRIB\0\0\0\x02".to_vec(),
                1 => [b"GRIB", &random.bytes(3)[..], &[1]].concat(),
                2 => first(&mut random, len),
                _ => random.bytes(len as usize),
            };
            bytes.extend(next);
        }
        let (found, skipped) = found(&bytes, &mut random);
        let whole: usize = found.iter().flatten().map(|message| message.bytes.len()).sum();
        let rest = skipped.padding + skipped.junk + skipped.damaged;
        assert_eq!(whole as u64 + rest, bytes.len() as u64);
    }
}
