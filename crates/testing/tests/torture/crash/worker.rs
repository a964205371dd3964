//! A process that works until it is killed, acknowledging every operation.
use super::ops::Op;
use super::world::World;
use crate::common;
use esker_testing::Random;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Arguments: pool, seed, round, directory for acknowledgements, and the slots to work on, one thread each.
pub(crate) fn run() {
    let arguments = common::arguments();
    let [pool, seed, round, folder, slots @ ..] = &arguments[..] else {
        panic!("arguments: {arguments:?}")
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let (seed, round) = (number(seed), number(round));
    let pool = common::open(Path::new(pool));
    std::thread::scope(|scope| {
        for slot in slots.iter().map(number) {
            let acks = ack_file(Path::new(folder), slot);
            let pool = &pool;
            scope.spawn(move || {
                work(&World::open(pool, slot).expect("opening"), stream(seed, round, slot), acks)
            });
        }
    });
}

/// The file to which a worker appends one byte per completed operation.
pub(crate) fn ack_path(folder: &Path, slot: u64) -> std::path::PathBuf {
    folder.join(format!("acks-{slot}"))
}

pub(super) fn ack_file(folder: &Path, slot: u64) -> File {
    File::options().append(true).open(ack_path(folder, slot)).expect("opening acknowledgements")
}

/// The random numbers that determine a worker's operations.
pub(crate) fn stream(seed: u64, round: u64, slot: u64) -> Random {
    Random::new(seed, round * 64 + slot + 1)
}

/// Performs operations and acknowledges each with a byte. Ends when the test, its parent process, is gone.
fn work(world: &World, mut random: Random, mut acks: File) {
    let parent = std::os::unix::process::parent_id();
    for index in 0.. {
        let op = Op::draw(&mut random, index);
        if let Err(error) = world.perform(&op) {
            eprintln!("operation {index} failed: {error}: {op:.200?}");
            std::process::exit(1);
        }
        acks.write_all(b".").expect("acknowledging");
        if std::os::unix::process::parent_id() != parent {
            std::process::exit(2);
        }
    }
}
