//! Pools with a damaged page or damaged data, salvaged into new pools: readable data is copied unchanged, and lost
//! data is reported.
mod content;

use crate::common::{self, Folder, PAGE, PoolKind, Shape, used_pages};
use content::{Content, about, all, expect_files, fill};
use esker::copy::{self, Progress};
use esker::{Pool, Wait};
use esker_store::{Losses, Salvage};
use esker_testing::{Random, SEED_VARIABLE, scaled, seed};
use esker_types::{ErrorKind, Uuid};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

fn shape(targets: u32) -> Shape {
    Shape { targets, segments: 16, segment_bytes: 512 << 10, index_bytes: 1 << 20 }
}

/// A pool with all kinds of content, its content, and the part of it on each target.
struct Sample {
    folder: Folder,
    shape: Shape,
    path: PathBuf,
    content: Content,
    on_target: Vec<Content>,
    /// Its containers: UUID and number.
    numbers: Vec<(Uuid, u32)>,
}

impl Sample {
    fn new(targets: u32) -> Self {
        let (folder, shape) = (Folder::new(PoolKind::Guarded), shape(targets));
        let path = common::make(&folder, "pool", PoolKind::Guarded, shape);
        let pool = common::open(&path);
        fill(&pool);
        let content = all(&pool, |info| info.id.0);
        let containers = pool.containers().wait().expect("listing");
        let numbers = containers.iter().map(|info| (info.uuid, info.id.0)).collect();
        drop(pool);
        let mut sample = Self { folder, shape, path, content, on_target: Vec::new(), numbers };
        sample.on_target = (0..targets).map(|number| sample.lost_without(number)).collect();
        let count: usize = sample.on_target.iter().map(Content::len).sum();
        assert_eq!(count, sample.content.len(), "each value is on one target");
        sample
    }

    fn index(&self, target: u32) -> PathBuf {
        self.path.join(format!("target-{target}/index/data.mdb"))
    }

    /// The content lost if the index of a target is gone.
    fn lost_without(&self, target: u32) -> Content {
        let (file, away) = (self.index(target), self.folder.path().join("away"));
        std::fs::rename(&file, &away).expect("moving away");
        let (found, losses) = self.salvage(|new| self.content_of(new));
        assert!(losses.count > 0, "target {target} is lost");
        std::fs::rename(&away, &file).expect("moving back");
        self.missing_in(&found)
    }

    /// The content of the original that `found` does not have.
    fn missing_in(&self, found: &Content) -> Content {
        let missing = self.content.iter().filter(|(position, _)| !found.contains_key(*position));
        missing.map(|(position, bytes)| (position.clone(), bytes.clone())).collect()
    }

    /// The content of a salvaged pool, with the numbers that the containers have in the original.
    fn content_of(&self, pool: &Pool) -> Content {
        all(pool, |info| {
            let known = self.numbers.iter().find(|(uuid, _)| *uuid == info.uuid);
            let lost = || info.label.strip_prefix("lost-").and_then(|number| number.parse().ok());
            known.map(|(_, number)| *number).or_else(lost).unwrap_or(u32::MAX)
        })
    }

    /// Salvages the pool into a new one, which must be undamaged. Returns the result of `look` at the new pool, and the
    /// reported losses.
    fn salvage<T>(&self, look: impl FnOnce(&Pool) -> T) -> (T, Losses) {
        let new = common::make(&self.folder, "new", PoolKind::Guarded, self.shape);
        let mut from = Salvage::open(&self.path).expect("opening for salvage");
        let to = common::open(&new);
        let mut heard = |_, _| expect_no_label(&to);
        copy::salvage(&mut from, &to, &Progress::default(), &mut heard).expect("salvaging");
        let seen = look(&to);
        drop(to);
        common::expect_sound(&new, false);
        esker_store::Pool::destroy(&new, false).expect("removing");
        (seen, from.losses().clone())
    }
}

/// A salvage killed at this point leaves nothing that could be mistaken for a complete pool.
fn expect_no_label(to: &Pool) {
    let containers = to.containers().wait().expect("listing");
    assert!(containers.iter().all(|info| info.label.is_empty()), "{containers:?}");
}

#[test]
fn an_undamaged_pool_is_salvaged_into_an_equal_one() {
    for targets in [1, 2, 8] {
        let sample = Sample::new(targets);
        let before = about(&common::open(&sample.path));
        let ((), losses) = sample.salvage(|new| {
            assert!(sample.content_of(new) == sample.content, "{targets} targets");
            assert_eq!(about(new), before);
            expect_files(new);
        });
        assert_eq!((losses.count, losses.lines), (0, Vec::new()), "{targets} targets");
    }
}

/// Damages a page that is in use, in one of several ways. Returns its number.
fn damage(file: &File, sound: &[u8], used: &[usize], random: &mut Random) -> usize {
    let page = used[random.below(used.len() as u64) as usize];
    let mut bytes = sound[page * PAGE..][..PAGE].to_vec();
    let at = |random: &mut Random| random.below(PAGE as u64) as usize;
    match random.below(5) {
        0 => bytes[at(random)] ^= 1 << random.below(8),
        1 => (0..random.within(2..20)).for_each(|_| bytes[at(random)] = random.draw() as u8),
        2 => {
            let from = at(random);
            bytes[from..].iter_mut().for_each(|byte| *byte = random.draw() as u8);
        }
        3 => bytes.fill(0),
        _ => {
            let other = used[random.below(used.len() as u64) as usize];
            bytes.copy_from_slice(&sound[other * PAGE..][..PAGE]);
        }
    }
    file.write_all_at(&bytes, (page * PAGE) as u64).expect("damaging");
    page
}

/// Damages one page of one index in each round. Salvaged values must be correct. Values may be lost on the damaged
/// target only, and a loss must be reported.
fn pages_damaged(targets: u32, rounds: u64) {
    let (sample, seed) = (Sample::new(targets), seed());
    let mut random = Random::new(seed, 60 + u64::from(targets));
    let (mut told, mut lossy) = (0, 0);
    for round in 0..scaled(rounds) {
        println!("{SEED_VARIABLE}={seed} {targets} targets, round {round}");
        let target = random.below(u64::from(targets)) as u32;
        let path = sample.index(target);
        let sound = std::fs::read(&path).expect("reading");
        let file = File::options().write(true).open(&path).expect("opening");
        let page = damage(&file, &sound, &used_pages(&sound), &mut random);
        let damaged = std::fs::read(&path).expect("reading");
        let (found, losses) = sample.salvage(|new| sample.content_of(new));
        assert!(
            std::fs::read(&path).expect("reading") == damaged,
            "the damaged pool is not changed"
        );
        file.write_all_at(&sound, 0).expect("mending");
        let wrong =
            found.iter().find(|(position, bytes)| sample.content.get(*position) != Some(*bytes));
        // Content without checksums, such as the names of containers, may be wrong, but never values.
        let renamed = wrong.is_some_and(|(position, _)| position.0 == u32::MAX && losses.count > 0);
        assert!(
            wrong.is_none() || renamed,
            "page {page}: wrong {:?} {losses:?}",
            wrong.map(|(position, _)| position)
        );
        let missing = sample.missing_in(&found);
        let elsewhere = missing
            .keys()
            .find(|position| !sample.on_target[target as usize].contains_key(*position));
        assert!(
            elsewhere.is_none() || renamed,
            "page {page}: lost from another target: {elsewhere:?}"
        );
        assert!(
            missing.is_empty() || losses.count > 0,
            "page {page}: {} lost and not reported",
            missing.len()
        );
        told += u64::from(losses.count > 0);
        lossy += u64::from(!missing.is_empty());
    }
    eprintln!("{targets} targets: values lost by {lossy} damaged pages, {told} reported");
    assert!(lossy > 0, "no damage had an effect");
}

#[test]
fn one_damaged_page_loses_only_its_content() {
    pages_damaged(1, 60);
}

#[test]
fn one_damaged_page_of_two_targets_loses_only_its_content() {
    pages_damaged(2, 40);
}

#[test]
fn one_damaged_page_of_eight_targets_loses_only_its_content() {
    pages_damaged(8, 20);
}

/// Entries below a damaged branch page are found without it.
#[test]
fn a_damaged_branch_page_loses_nothing() {
    let sample = Sample::new(1);
    let sound = std::fs::read(sample.index(0)).expect("reading");
    let is_branch = |page: &usize| {
        let bytes = &sound[page * PAGE..][..PAGE];
        bytes[..8] == (*page as u64).to_ne_bytes() && bytes[10..12] == [1, 0]
    };
    let branches: Vec<_> = used_pages(&sound).into_iter().filter(is_branch).collect();
    assert!(!branches.is_empty());
    let file = File::options().write(true).open(sample.index(0)).expect("opening");
    for page in branches {
        file.write_all_at(&[0xee; PAGE], (page * PAGE) as u64).expect("damaging");
        let (found, losses) = sample.salvage(|new| sample.content_of(new));
        assert!(found == sample.content, "page {page}: {:?}", losses.lines);
        assert_eq!(losses.count, 0, "page {page}: {:?}", losses.lines);
        file.write_all_at(&sound, 0).expect("mending");
    }
}

#[test]
fn damaged_data_does_not_affect_other_data() {
    let (sample, seed) = (Sample::new(2), seed());
    let mut random = Random::new(seed, 64);
    let mut lossy = 0;
    for round in 0..scaled(20) {
        println!("{SEED_VARIABLE}={seed} round {round}");
        let path = sample.path.join(format!("target-{}/data", random.below(2)));
        let sound = std::fs::read(&path).expect("reading");
        let used = sound.iter().rposition(|byte| *byte != 0).unwrap_or(0) as u64;
        let at = random.below(used);
        let file = File::options().write(true).open(&path).expect("opening");
        file.write_all_at(&[sound[at as usize] ^ 4], at).expect("damaging");
        let (found, losses) = sample.salvage(|new| sample.content_of(new));
        file.write_all_at(&sound, 0).expect("mending");
        let missing = sample.missing_in(&found);
        assert!(found.iter().all(|(position, bytes)| sample.content[position] == *bytes));
        let mut akeys: Vec<_> =
            missing.keys().map(|position| (position.1, &position.2, &position.3)).collect();
        akeys.dedup();
        assert_eq!(losses.count, akeys.len() as u64, "{:?}", losses.lines);
        for (oid, ..) in akeys {
            assert!(losses.lines[0].contains(&oid.to_string()), "{:?}", losses.lines);
            lossy += 1;
        }
    }
    assert!(lossy > 0, "no damage had an effect");
}

#[test]
fn a_pool_in_use_is_not_salvaged() {
    let folder = Folder::new(PoolKind::Memory);
    let path = common::make(&folder, "pool", PoolKind::Memory, shape(1));
    let pool = common::open(&path);
    let refused = Salvage::open(&path).map(drop).expect_err("in use");
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    drop(pool);
    Salvage::open(&path).map(drop).expect("opening for salvage");
}
