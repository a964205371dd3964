//! Tensors as files of HDF5 on a mount.
use super::mount_point::{MountPoint, is};
use crate::support::wait_for;
use esker::Pool;
use esker::types::info::OpenMode;
use esker_tensors::{DataType, NewTensor, Strided, TensorStore};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// A file of numpy.save with 40 x 30 elements of two bytes, which `salt` changes.
fn npy(salt: u8) -> Vec<u8> {
    let mut header = String::from("{'descr': '<u2', 'fortran_order': False, 'shape': (40, 30), }");
    header.push_str(&" ".repeat(118 - 1 - header.len()));
    header.push('\n');
    let elements: Vec<u8> = (0..2400).map(|at: u32| (at ^ at >> 8) as u8 ^ salt).collect();
    [b"\x93NUMPY\x01\0v\0", header.as_bytes(), &elements].concat()
}

fn put(point: &MountPoint, name: &str, salt: u8, options: &[&str]) {
    let put = [&["tensor", "put", "tank/t", "-", "--name", name][..], options].concat();
    point.site.feed(&put, &npy(salt));
}

/// Output of an export of a tensor.
fn exported(point: &MountPoint, name: &str) -> Vec<u8> {
    point.site.run(&["tensor", "export", "tank/t", name, "-"]).stdout
}

fn names(point: &MountPoint, path: &str) -> Vec<String> {
    let entries = fs::read_dir(point.at(path)).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn tensors_are_files_with_the_bytes_of_an_export() {
    let Some(point) = MountPoint::new() else { return };
    put(&point, "rows", 1, &["--attr", "units=K"]);
    put(&point, "run/1/boxes", 2, &["--chunks", "16,7"]);
    point.mount_container("tank/t", &[]);
    assert_eq!(
        (names(&point, ""), names(&point, "run")),
        (vec!["rows.h5".into(), "run".into()], vec!["1".into()])
    );
    for (name, path) in [("rows", "rows.h5"), ("run/1/boxes", "run/1/boxes.h5")] {
        let file = fs::read(point.at(path)).unwrap();
        assert!(file == exported(&point, name) && file.starts_with(b"\x89HDF"), "{name}");
        assert_eq!(fs::metadata(point.at(path)).unwrap().len(), file.len() as u64);
    }
    is(fs::metadata(point.at("other.h5")).map(drop), Errno::NOENT);
    is(fs::write(point.at("rows.h5"), "x"), Errno::ROFS);
    is(fs::remove_file(point.at("rows.h5")), Errno::ROFS);
    point.umount();
}

#[test]
fn a_file_that_is_open_stays_as_it_is() {
    let Some(point) = MountPoint::new() else { return };
    put(&point, "a", 1, &[]);
    let old = exported(&point, "a");
    point.mount_container("tank/t", &[]);
    let open = File::open(point.at("a.h5")).unwrap();
    put(&point, "a", 2, &[]);
    let new = exported(&point, "a");
    let mut read = vec![0; old.len()];
    open.read_exact_at(&mut read, 0).unwrap();
    assert!(old != new && read == old);
    // The kernel looks the name up again within a second or two.
    wait_for("the new tensor", || fs::read(point.at("a.h5")).is_ok_and(|bytes| bytes == new));
    drop(open);
    point.umount();
}

/// A name that always exists is never missing, whatever it names at the moment. The kernel tries twice, and may then
/// say that the file is stale.
#[test]
fn a_tensor_that_is_replaced_all_the_time_is_never_missing() {
    let Some(point) = MountPoint::new() else { return };
    put(&point, "a", 0, &[]);
    point.mount_container("tank/t", &[]);
    let pool = Pool::connect(&point.pool(), OpenMode::ReadWrite).unwrap();
    let store = TensorStore::open(&pool, "t", OpenMode::ReadWrite).unwrap();
    std::thread::scope(|scope| {
        let replacing = scope.spawn(|| {
            for salt in 0..2000_u16 {
                let new = NewTensor::new(DataType::parse("<u2").unwrap(), &[1]);
                let element = salt.to_le_bytes();
                let elements = Strided::contiguous(&element, &[1], 2).unwrap();
                store.put(&new, &elements, Some("a")).unwrap();
            }
        });
        let mut found = 0;
        while !replacing.is_finished() {
            match statx(CWD, point.at("a.h5"), AtFlags::STATX_FORCE_SYNC, StatxFlags::ALL) {
                Ok(stat) => {
                    assert!(stat.stx_size > 500);
                    found += 1;
                }
                Err(error) => assert_eq!(error, Errno::STALE),
            }
        }
        assert!(found > 0);
        replacing.join().unwrap();
    });
    point.umount();
}
