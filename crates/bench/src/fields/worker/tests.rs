use super::*;
use esker::Wait;
use esker_fields::Schema;
use esker_store::PoolSpec;

const SHAPE: Shape = Shape { steps: 3, levels: 2, params: 2, members: 2, size_bytes: 5000 };

/// A pool with the store of round 1. Dropping this value removes the pool.
struct Folder {
    folder: PathBuf,
    pool: Pool,
}

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("esker-fields-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        esker_store::Pool::create(&folder, &PoolSpec::new("p", 96 << 20), &mut |_, _| {}).unwrap();
        let pool = Pool::connect(&url(&folder), OpenMode::ReadWrite).unwrap();
        FieldStore::create(&pool, &label("c", 1), &Schema::default_mars().unwrap()).unwrap();
        std::fs::create_dir(folder.join(label("c", 1))).unwrap();
        Self { folder, pool }
    }

    fn worker(&self, rank: u32) -> Worker {
        let job = Job {
            member: Member { rank, procs: 2, cpu: None, seed: 5 },
            pool: url(&self.folder),
            container: "c".to_owned(),
            files: self.folder.clone(),
            durable: false,
            shape: SHAPE,
            grib: None,
            verify: true,
        };
        Worker::begin(job).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn url(folder: &std::path::Path) -> String {
    format!("esker:{}", folder.join("p").display())
}

fn take(worker: &mut Worker, phase: Phase) -> Result<Done> {
    let step = FieldsStep { phase, round: 1 };
    worker.prepare(&step)?;
    worker.take(step)
}

#[test]
fn each_phase_does_the_operations_it_counts() {
    let place = Folder::new("phases");
    let mut workers = [place.worker(0), place.worker(1)];
    let phases = [
        (Phase::Pwrite, 24, 24 * 5000),
        (Phase::Pread, 24, 24 * 5000),
        (Phase::FileWrite, 24, 24 * 5000),
        (Phase::FileRead, 24, 24 * 5000),
        (Phase::Archive, 24, 24 * 5000),
        (Phase::List, 48, 0),
        (Phase::Axes, 48, 0),
        (Phase::Retrieve, 24, 24 * 5000),
        (Phase::Request, 24, 24 * 5000),
        (Phase::InOrder, 24, 24 * 5000),
        (Phase::Scattered, 24, 24 * 5000),
        (Phase::Verify, 24, 24 * 5000),
    ];
    for (phase, ops, bytes) in phases {
        let done = workers.each_mut().map(|worker| take(worker, phase));
        for done in done {
            let measured = done.unwrap().measured;
            assert_eq!((measured.ops, measured.bytes), (ops, bytes), "{phase:?}");
        }
    }
    // There are 2 processes: the one of rank 2 is a watcher.
    let seen = take(&mut place.worker(2), Phase::Watch).unwrap();
    assert_eq!((seen.measured.ops, seen.event_times.len()), (48, 48));
}

#[test]
fn damaged_and_missing_fields_are_reported() {
    let place = Folder::new("damage");
    let mut workers = [place.worker(0), place.worker(1)];
    for worker in &mut workers {
        take(worker, Phase::Archive).unwrap();
    }
    let store = FieldStore::open(&place.pool, &label("c", 1), OpenMode::ReadWrite).unwrap();
    let key = SHAPE.key(Field { owner: 1, index: 7 }).unwrap();
    let mut bytes = store.field(&key).unwrap().read().unwrap();
    bytes[4711] ^= 4;
    let mut writer = store.writer();
    writer.archive(&key, &bytes).unwrap();
    writer.flush().unwrap();
    let error = take(&mut workers[0], Phase::Verify).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains(key.as_str()), "{error}");
    take(&mut workers[1], Phase::Verify).unwrap();
    take(&mut workers[0], Phase::Retrieve).unwrap();
    assert_eq!(take(&mut place.worker(2), Phase::Watch).unwrap_err().kind(), ErrorKind::Corrupt);
    // Afterwards all fields are missing: a new, empty store has the name of the old one.
    place.pool.destroy_container(&label("c", 1), true).wait().unwrap();
    FieldStore::create(&place.pool, &label("c", 1), store.schema()).unwrap();
    let mut late = place.worker(0);
    for phase in [Phase::List, Phase::Axes, Phase::Retrieve, Phase::Request] {
        assert!(take(&mut late, phase).is_err(), "{phase:?}");
    }
}

#[test]
fn axes_reveal_one_missing_member() {
    let place = Folder::new("members");
    // The first process archives both of its members, the second one only the first of its two.
    take(&mut place.worker(0), Phase::Archive).unwrap();
    let mut writer =
        FieldStore::open(&place.pool, &label("c", 1), OpenMode::ReadWrite).unwrap().writer();
    let fields =
        (0..SHAPE.fields()).filter(|index| index % SHAPE.per_step() < SHAPE.per_step() / 2);
    for index in fields {
        writer.archive(&SHAPE.key(Field { owner: 1, index }).unwrap(), b"field").unwrap();
    }
    writer.flush().unwrap();
    let error = take(&mut place.worker(0), Phase::Axes).unwrap_err();
    assert!(error.message().contains("36 of 48"), "{error}");
}
