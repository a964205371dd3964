use super::*;
use crate::io::index::{Index, Mode};
use esker_types::ErrorKind;
use std::path::PathBuf;

const BYTES: u64 = 4 << 20;

/// A random index in a directory that goes with it.
struct Sample(PathBuf);

impl Sample {
    fn new(name: &str, mode: Mode, keys: u64) -> Self {
        let path = std::env::temp_dir().join(format!("esker-pages-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let sample = Self(path);
        sample.grow(mode, keys);
        sample
    }

    fn grow(&self, mode: Mode, keys: u64) {
        let folder = Folder::open(&self.0).unwrap();
        let _ = folder.create(DATA, 0o600);
        let index = Index::open(&folder, BYTES, mode, 0o600).unwrap();
        File::options().write(true).open(self.file()).unwrap().set_len(BYTES).unwrap();
        for step in 0..20 {
            let mut txn = index.write().unwrap();
            for key in (0..keys).filter(|key| key % 20 == step) {
                let name = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                let len = (key % 7 * 100 + u64::from(key % 50 == 0) * 9000) as usize;
                txn.put(&name[..1 + key as usize % 8], &vec![7; len]).unwrap();
                if key % 3 == 0 {
                    txn.delete(&name).unwrap();
                }
            }
            txn.commit().unwrap();
        }
    }

    fn file(&self) -> PathBuf {
        self.0.join("data.mdb")
    }

    fn problems(&self) -> Vec<String> {
        check(&File::open(self.file()).unwrap(), BYTES, false).pages
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn sound_indexes_are_sound() {
    for (name, mode) in [("m", Mode::Mapped), ("g", Mode::Guarded), ("s", Mode::Synced)] {
        for keys in [0, 1, 10, 2000] {
            let sample = Sample::new(&format!("sound-{name}-{keys}"), mode, keys);
            assert_eq!(sample.problems(), [""; 0], "{mode:?}, {keys} keys");
            sample.grow(mode, keys / 2);
            assert_eq!(sample.problems(), [""; 0], "{mode:?}, {keys} keys, again");
        }
    }
}

#[test]
fn damage_is_found_or_harmless() {
    let sample = Sample::new("damage", Mode::Guarded, 2000);
    let sound = std::fs::read(sample.file()).unwrap();
    let meta = newest_meta(&File::open(sample.file()).unwrap()).unwrap();
    let root = meta.main.root.unwrap() as usize * PAGE;
    // The header of the root page and its list of offsets, byte by byte: each says where to look.
    for at in (root..root + 30).filter(|at| !(root + 8..root + 10).contains(at)) {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x41;
        std::fs::write(sample.file(), &bytes).unwrap();
        let found = sample.problems();
        // What flags mean in memory only does not matter in the file.
        let passing = (root + 10..root + 12).contains(&at) && found.is_empty();
        assert!(!found.is_empty() || passing, "byte {} of the root page unnoticed", at - root);
    }
}

#[test]
fn random_files_end_in_problems_not_in_panics() {
    let sample = Sample::new("random", Mode::Guarded, 2000);
    let sound = std::fs::read(sample.file()).unwrap();
    let mut word = 0x1234_5678_9abc_def1_u64;
    let mut draw = |below: usize| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        (word % below as u64) as usize
    };
    let used = newest_meta(&File::open(sample.file()).unwrap()).unwrap().last_page as usize * PAGE;
    for _ in 0..300 {
        let mut bytes = sound.clone();
        for _ in 0..1 + draw(64) {
            let at = draw(used);
            bytes[at] = draw(256) as u8;
        }
        let (from, len) = (draw(used), draw(5000));
        bytes[from..from + len].fill(draw(256) as u8);
        std::fs::write(sample.file(), &bytes).unwrap();
        sample.problems();
    }
    std::fs::write(sample.file(), &sound[..PAGE]).unwrap();
    assert_eq!(sample.problems().len(), 1);
    std::fs::write(sample.file(), vec![0xff; 9 * PAGE]).unwrap();
    assert_eq!(sample.problems().len(), 1);
}

/// LMDB believes what a node says of its length.
#[test]
fn lengths_that_leave_a_page_are_refused() {
    for mode in [Mode::Mapped, Mode::Guarded] {
        let sample = Sample::new(&format!("lengths-{mode:?}"), mode, 0);
        let index = Index::open(&Folder::open(&sample.0).unwrap(), BYTES, mode, 0o600).unwrap();
        let mut txn = index.write().unwrap();
        txn.put(b"short", &[7; 100]).unwrap();
        txn.put(b"long", &[8; 9000]).unwrap();
        txn.commit().unwrap();
        let read = |key: &[u8]| index.read().unwrap().get(key).map(|value| value.map(<[u8]>::len));
        assert_eq!((read(b"short"), read(b"long")), (Ok(Some(100)), Ok(Some(9000))));
        let bytes = std::fs::read(sample.file()).unwrap();
        for (key, most) in [(&b"short"[..], PAGE), (b"long", 3 * PAGE - 16)] {
            // The last copy of the node is the one in use.
            let found = bytes.windows(key.len()).rposition(|bytes| bytes == key).unwrap();
            let file = File::options().write(true).open(sample.file()).unwrap();
            let claim = |len: usize| {
                let (low, high) = ((len as u16).to_ne_bytes(), ((len >> 16) as u16).to_ne_bytes());
                file.write_all_at(&[low, high].concat(), found as u64 - 8).unwrap();
                read(key)
            };
            if key == b"long" {
                assert_eq!(claim(most), Ok(Some(most)), "it has three pages");
            }
            for len in [most + 1, 1 << 20, BYTES as usize] {
                assert_eq!(
                    claim(len).map_err(|error| error.kind()),
                    Err(ErrorKind::Corrupt),
                    "{len}"
                );
            }
        }
    }
}
