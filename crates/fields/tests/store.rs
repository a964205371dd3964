//! The field store: visibility, order of results, and removal.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

use esker::backend::NewContainer;
use esker::{Access, ArrayAttributes, Pool, Wait};
use esker_conformance::place::Place;
use esker_fields::request::{Request, Selection};
use esker_fields::{Date, FieldStore, Holder, Key, Schema};
use esker_testing::HANG;
use esker_types::info::OpenMode;
use esker_types::limits::ATTR_VALUE_MAX;
use esker_types::{ErrorKind, Extent};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

/// The URLs of a pool on Ceph and of a pool of a DAOS system, for tests on them.
const RADOS: &str = "ESKER_TEST_RADOS";
const DAOS: &str = "ESKER_TEST_DAOS";

thread_local! {
    /// The variable with the URL of the pool that this thread tests on.
    static SYSTEM: Cell<Option<&'static str>> = const { Cell::new(None) };
    /// The URL of the pool of files that this thread tests on.
    static FILES: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A new store with the default schema.
fn store() -> FieldStore {
    let (pool, label) = new_place();
    create(&pool, &label)
}

/// Creates a store with the default schema.
fn create(pool: &Pool, label: &str) -> FieldStore {
    FieldStore::create(pool, label, &Schema::default_mars().unwrap()).unwrap()
}

/// A pool, and the label of a container that it does not have yet.
fn new_place() -> (Pool, String) {
    let place = Place::new("fields");
    if let Some(url) = FILES.with_borrow(Clone::clone) {
        return (Pool::connect(&url, OpenMode::ReadWrite).unwrap(), place.label);
    }
    let Some(variable) = SYSTEM.get() else { return (place.pool(), place.label) };
    let (url, process) = (std::env::var(variable).unwrap(), std::process::id());
    let label = format!("fields-{process}-{}", place.label);
    let url = if variable == RADOS { format!("{url}&namespace={label}") } else { url };
    (Pool::connect(&url, OpenMode::ReadWrite).unwrap(), label)
}

/// The key of a field.
fn key(step: u32, param: &str) -> Key {
    let text = format!(
        "class=od,expver=0001,stream=oper,date=20240610,time=0000,type=fc,levtype=sfc,step={step},param={param}"
    );
    Key::parse(&text).unwrap()
}

/// The fields that a request selects.
fn select(store: &FieldStore, request: &str) -> Selection {
    let today = Date::new(2024, 6, 15).unwrap();
    Request::parse(request).unwrap().expand(store.schema(), today).unwrap()
}

/// Archives fields, given as step, parameter and bytes, and flushes them.
fn archive(store: &FieldStore, fields: &[(u32, &str, &str)]) {
    let mut writer = store.writer();
    for (step, param, data) in fields {
        writer.archive(&key(*step, param), data.as_bytes()).unwrap();
    }
    writer.flush().unwrap();
}

/// The bytes of the fields of a request, in its order.
fn text(store: &FieldStore, request: &str) -> Vec<String> {
    let fields = store.retrieve(&select(store, request)).unwrap();
    fields.iter().map(|field| String::from_utf8(field.read().unwrap()).unwrap()).collect()
}

/// Number of fields.
fn list(store: &FieldStore) -> usize {
    store.list(&Selection::everything(store.schema())).unwrap().len()
}

#[test]
fn flush_makes_all_fields_visible_atomically() {
    let store = store();
    let mut writer = store.writer();
    for step in [0, 6, 12] {
        writer.archive(&key(step, "167"), format!("{step}").as_bytes()).unwrap();
    }
    assert_eq!((list(&store), writer.pending()), (0, (3, 4)));
    writer.flush().unwrap();
    assert_eq!((list(&store), writer.pending()), (3, (0, 0)));
    let again = store.field(&key(6, "167")).unwrap();
    assert_eq!((again.bytes(), again.read().unwrap()), (1, b"6".to_vec()));
    writer.flush().unwrap();
}

#[test]
fn unflushed_fields_never_appear_and_are_purged() {
    let store = store();
    let mut writer = store.writer();
    writer.archive(&key(0, "167"), b"lost").unwrap();
    let everything = Selection::everything(store.schema());
    assert_eq!(
        store.purge(&everything, true, |_| Ok(())).unwrap().unflushed,
        0,
        "it is being written"
    );
    drop(writer);
    assert_eq!(list(&store), 0);
    if !store.container().capabilities().shared_leases {
        // The purge cannot know that the writer has ended.
        assert_eq!(store.purge(&everything, true, |_| Ok(())).unwrap(), Default::default());
        return;
    }
    let dry = store.purge(&everything, false, |_| Ok(())).unwrap();
    assert_eq!((dry.unflushed, dry.bytes), (1, 4));
    assert_eq!(store.purge(&everything, true, |_| Ok(())).unwrap(), dry);
    assert_eq!(store.purge(&everything, true, |_| Ok(())).unwrap().unflushed, 0);
}

/// A property of the container stores the schema.
#[test]
fn schema_too_long_to_be_stored_is_refused_before_anything_is_stored() {
    let (pool, label) = new_place();
    let text = format!("# {}\n[class [date [step]]]", "x".repeat(ATTR_VALUE_MAX));
    let schema = Schema::parse(&text, "test").unwrap();
    let refused = FieldStore::create(&pool, &label, &schema).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Overflow, "{refused}");
    pool.create_container(&NewContainer::named(&label)).wait().unwrap();
    let refused = FieldStore::open_or_create(&pool, &label, &schema).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Overflow, "{refused}");
    FieldStore::open_or_create(&pool, &label, &Schema::default_mars().unwrap()).unwrap();
}

#[test]
fn fields_come_in_the_order_of_the_request() {
    let store = store();
    archive(&store, &[(0, "167", "0t"), (6, "167", "6t"), (0, "151", "0p"), (6, "151", "6p")]);
    assert_eq!(text(&store, "class=od,step=6/0,param=151/167"), ["6p", "6t", "0p", "0t"]);
    assert_eq!(text(&store, "param=167/151,step=0/to/6/by/6"), ["0t", "6t", "0p", "6p"]);
    let whole =
        "class=od,expver=1,stream=oper,date=-5,time=0,type=fc,levtype=sfc,step=6/0,param=167";
    assert_eq!(text(&store, whole), ["6t", "0t"]);
}

#[test]
fn retrieve_names_missing_fields() {
    let store = store();
    archive(&store, &[(0, "167", "0t")]);
    let failed = |request: &str| match store.retrieve(&select(&store, request)) {
        Err(error) => (error.kind(), error.to_string()),
        Ok(found) => panic!("found {}", found.len()),
    };
    let whole =
        "class=od,expver=1,stream=oper,date=20240610,time=0,type=fc,levtype=sfc,step=0/6,param=167";
    let (kind, message) = failed(whole);
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(message.contains("1 of 2") && message.contains("step=6"), "{message}");
    let (kind, message) = failed("param=151");
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(message.contains("param=151") && message.contains("167"), "{message}");
    let found = store.find(&select(&store, whole)).unwrap();
    assert_eq!((found.fields.len(), found.missing_count), (1, 1));
    assert_eq!(store.field(&key(9, "167")).err().map(|e| e.kind()), Some(ErrorKind::NotFound));
}

/// FDB retrieves in the same way; its listings, too, show only the steps of the request.
#[test]
fn a_step_also_selects_the_range_up_to_it() {
    let store = store();
    let spans = ["24", "0-24", "0-48", "12-36", "36", "0"];
    let mut writer = store.writer();
    for span in spans {
        let mut key = key(0, "228");
        key.set("step", span).unwrap();
        writer.archive(&key, span.as_bytes()).unwrap();
    }
    writer.flush().unwrap();
    let whole = "class=od,expver=1,stream=oper,date=20240610,time=0,type=fc,levtype=sfc,param=228";
    for (step, expected) in [
        ("24", &["24", "0-24"][..]),
        ("48/24/0", &["0-48", "24", "0-24", "0"]),
        ("24/0-24", &["24", "0-24"]),
        ("0-24/24", &["0-24", "24"]),
        ("36", &["36"]),
        ("12-36", &["12-36"]),
    ] {
        assert_eq!(text(&store, &format!("{whole},step={step}")), expected, "by key: {step}");
        assert_eq!(text(&store, &format!("param=228,step={step}")), expected, "by listing: {step}");
    }
    let found = store.find(&select(&store, &format!("{whole},step=12/24/96"))).unwrap();
    assert_eq!((found.fields.len(), found.missing_count), (2, 2));
    let missing: Vec<_> = found.missing.iter().map(|key| key.get("step").unwrap()).collect();
    assert_eq!(missing, ["12", "96"]);
    let listed = store.list(&select(&store, "step=24/48")).unwrap();
    assert_eq!(listed.iter().map(|one| one.key.get("step").unwrap()).collect::<Vec<_>>(), ["24"]);
    let first = store.find(&select(&store, "step=0-6"));
    assert!(first.unwrap().fields.is_empty(), "a step never selects a range that begins with it");
}

#[test]
fn archiving_again_masks_and_purging_removes() {
    let store = store();
    archive(&store, &[(0, "167", "first"), (6, "167", "other")]);
    archive(&store, &[(0, "167", "second")]);
    let mut writer = store.writer();
    writer.archive(&key(0, "167"), b"third").unwrap();
    writer.archive(&key(0, "167"), b"fourth").unwrap();
    writer.flush().unwrap();
    assert_eq!(text(&store, "step=0"), ["fourth"]);
    let everything = Selection::everything(store.schema());
    let stats = store.stats(&everything).unwrap();
    assert_eq!((stats.fields, stats.masked, stats.masked_bytes), (2, 3, 5 + 6 + 5));
    assert_eq!((stats.databases, stats.indexes, stats.bytes), (1, 1, 11));
    let purged = store.purge(&everything, true, |_| Ok(())).unwrap();
    assert_eq!((purged.masked, purged.bytes), (3, 16));
    assert_eq!(store.stats(&everything).unwrap().masked, 0);
    assert_eq!(text(&store, "step=0/6"), ["fourth", "other"]);
}

#[test]
fn a_wipe_needs_the_whole_database_and_doit() {
    let store = store();
    archive(&store, &[(0, "167", "a"), (6, "167", "b")]);
    archive(&store, &[(0, "167", "c")]);
    let wipe = |request: &str, doit| store.wipe(&select(&store, request), doit, |_| Ok(()));
    let refused = wipe("step=0", true).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("class=od"), "{refused}");
    let database = "class=od,expver=1,stream=oper,date=20240610,time=0";
    let dry = wipe(database, false).unwrap();
    assert_eq!((dry.fields, dry.masked, dry.bytes, dry.databases.len()), (2, 1, 3, 1));
    let part = wipe(&format!("{database},step=6"), true).unwrap();
    assert_eq!((part.fields, part.masked), (1, 0));
    let rest = wipe(database, true).unwrap();
    assert_eq!((rest.fields, rest.masked), (1, 1));
    assert_eq!(list(&store), 0);
    archive(&store, &[(0, "167", "again")]);
    assert_eq!(text(&store, "step=0"), ["again"]);
}

#[test]
fn reading_a_wiped_field_fails_with_its_cause() {
    let store = store();
    archive(&store, &[(0, "167", "a")]);
    let field = store.field(&key(0, "167")).unwrap();
    let database = "class=od,expver=1,stream=oper,date=20240610,time=0";
    store.wipe(&select(&store, database), true, |_| Ok(())).unwrap();
    assert_eq!(field.read().unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn bad_input_is_refused_before_anything_is_stored() {
    let store = store();
    let mut writer = store.writer();
    let bad = Key::parse("class=od,date=notadate").unwrap();
    assert_eq!(writer.archive(&bad, b"x").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(writer.archive(&key(0, "167"), b"").unwrap_err().kind(), ErrorKind::Invalid);
    let relative = writer.adopt(&key(0, "167"), "data.grib".as_ref(), 0, 1);
    assert_eq!(relative.unwrap_err().kind(), ErrorKind::Invalid);
    writer.flush().unwrap();
    assert_eq!(list(&store), 0);
}

#[test]
fn adopted_fields_are_read_from_their_file() {
    let store = store();
    let path = std::env::temp_dir().join(format!("esker-adopted-{}", std::process::id()));
    std::fs::write(&path, b"..field..").unwrap();
    let mut writer = store.writer();
    writer.adopt(&key(0, "167"), &path, 2, 5).unwrap();
    writer.flush().unwrap();
    assert_eq!(text(&store, "step=0"), ["field"]);
    let mut part = [0; 2];
    store.field(&key(0, "167")).unwrap().read_at(3, &mut part).unwrap();
    assert_eq!(&part, b"ld");
    std::fs::remove_file(&path).unwrap();
    let gone = store.field(&key(0, "167")).unwrap().read().unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    assert!(gone.to_string().contains("esker-adopted"), "{gone}");
}

/// A part of a field is read across chunks, and a read past its end fails.
#[test]
fn reads_of_parts_and_past_the_end_of_a_field() {
    let store = store();
    let data: Vec<u8> = (0..9_000_000u32).map(|n| (n % 251) as u8).collect();
    let mut writer = store.writer();
    writer.archive(&key(0, "167"), &data).unwrap();
    writer.flush().unwrap();
    let field = store.field(&key(0, "167")).unwrap();
    assert_eq!(field.read().unwrap(), data);
    let mut part = vec![0; 3_000_000];
    field.read_at(4_000_000, &mut part).unwrap();
    assert_eq!(part, data[4_000_000..7_000_000]);
    assert_eq!(field.read_at(8_999_999, &mut [0; 2]).unwrap_err().kind(), ErrorKind::Invalid);
}

/// The nodes of a pool remove the chunks of a field independently, so a later chunk may outlive an earlier one.
#[test]
fn field_without_one_of_its_chunks_is_not_read_as_zeros() {
    let store = store();
    let mut writer = store.writer();
    writer.archive(&key(0, "167"), &vec![1; 9_000_000]).unwrap();
    writer.flush().unwrap();
    let field = store.field(&key(0, "167")).unwrap();
    let listed = store.list(&select(&store, "step=0")).unwrap();
    let Holder::Array(oid) = listed[0].location.holder else { panic!("in an array") };
    let shape = ArrayAttributes { cell_size: 1, chunk_size: 4 << 20 };
    let array = store.container().open_array_with_attributes(oid, shape).unwrap();
    array.punch(&[Extent::new(4 << 20, 4 << 20)], Access::Latest).wait().unwrap();
    assert_eq!(field.read().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(field.read_at(5 << 20, &mut [0; 9]).unwrap_err().kind(), ErrorKind::NotFound);
    field.read_at(8 << 20, &mut [0; 9]).unwrap();
}

#[test]
fn axes_and_listings_have_the_selected_fields_only() {
    let (pool, label) = new_place();
    let store = create(&pool, &label);
    archive(&store, &[(6, "167", "a"), (0, "151", "b"), (12, "167", "c")]);
    let other = FieldStore::open(&pool, &label, OpenMode::ReadOnly).unwrap();
    let axes = other.axes(&select(&other, "param=167")).unwrap();
    assert_eq!(axes.values("step").collect::<Vec<_>>(), ["6", "12"]);
    assert_eq!(axes.values("param").collect::<Vec<_>>(), ["167"]);
    let listed = other.list(&select(&other, "step=0")).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].key.get("class"), Some("od"));
    assert_eq!(listed[0].location.bytes, 1);
}

#[test]
fn watch_yields_flushed_fields() {
    let store = store();
    archive(&store, &[(0, "167", "before")]);
    let selection = select(&store, "param=167");
    let mut watch = store.watch(&selection, false).unwrap();
    assert!(watch.next(Duration::ZERO).unwrap().is_none());
    let other = store.clone();
    let writer = std::thread::spawn(move || {
        for step in 1..=20 {
            archive(&other, &[(step, "167", "x"), (step, "151", "y")]);
        }
    });
    let mut steps = Vec::new();
    while steps.len() < 20 {
        let field = watch.next(HANG).unwrap().expect("a field");
        steps.push(field.key().get("step").unwrap().parse::<u32>().unwrap());
    }
    writer.join().unwrap();
    steps.sort_unstable();
    assert_eq!(steps, (1..=20).collect::<Vec<_>>());
    archive(&store, &[(3, "167", "anew")]);
    let anew = watch.next(HANG).unwrap().expect("the new one");
    assert_eq!(anew.read().unwrap(), b"anew");
    let mut all = store.watch(&selection, true).unwrap();
    let mut count = 0;
    while all.next(Duration::ZERO).unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 21);
}

#[test]
fn stores_are_created_once_and_reopened() {
    let (pool, label) = new_place();
    create(&pool, &label);
    let schema = Schema::default_mars().unwrap();
    let twice = FieldStore::create(&pool, &label, &schema).err().map(|error| error.kind());
    assert_eq!(twice, Some(ErrorKind::Exists));
    FieldStore::open_or_create(&pool, &label, &schema).unwrap();
    FieldStore::open_or_create(&pool, "more", &schema).unwrap();
    let none = FieldStore::open(&pool, "none", OpenMode::ReadOnly).err().map(|error| error.kind());
    assert_eq!(none, Some(ErrorKind::NotFound));
    let new = esker::backend::NewContainer::named("plain");
    pool.create_container(&new).wait().unwrap();
    let plain =
        FieldStore::open(&pool, "plain", OpenMode::ReadOnly).err().map(|error| error.kind());
    assert_eq!(plain, Some(ErrorKind::Invalid));
}

#[test]
fn an_empty_container_becomes_a_store() {
    let (pool, label) = new_place();
    let mars = Schema::default_mars().unwrap();
    let own = Schema::parse("[ a [ b [ c ]]]", "own").unwrap();
    let container = |label: &str| {
        let new = esker::backend::NewContainer::named(label);
        pool.create_container(&new).wait().unwrap();
        pool.open_container(label, OpenMode::ReadWrite).wait().unwrap()
    };
    container(&label);
    // All callers that begin at the same time get the schema of the first.
    let texts: Vec<String> = std::thread::scope(|scope| {
        let begin = |number| {
            let schema = if number % 2 == 0 { &mars } else { &own };
            let (pool, label) = (&pool, &label);
            scope.spawn(move || {
                let store = FieldStore::open_or_create(pool, label, schema).unwrap();
                store.schema().text().to_owned()
            })
        };
        let begun: Vec<_> = (0..8).map(begin).collect();
        begun.into_iter().map(|begun| begun.join().unwrap()).collect()
    });
    let again = FieldStore::open(&pool, &label, OpenMode::ReadOnly).unwrap();
    assert!(texts.iter().all(|text| text == again.schema().text()), "{texts:?}");
    let used = container("used");
    let kv = used.kv(used.generate_oid(7, 7, esker_types::ObjectType::KvHashed, None, 0).unwrap());
    kv.unwrap().put(b"k", b"v", Default::default(), esker::Access::Latest).wait().unwrap();
    let refused = FieldStore::open_or_create(&pool, "used", &mars).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let options = container("tensors");
    options.properties().set("tensors_layout", b"1").wait().unwrap();
    assert!(FieldStore::open_or_create(&pool, "tensors", &mars).is_err());
}

/// Random archiving, flushing, wiping and purging, compared with a plain map.
#[test]
fn random_sequences_agree_with_a_map() {
    let mut state = esker_testing::seed() | 1;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let store = store();
    let everything = Selection::everything(store.schema());
    let (mut writer, mut pending) = (store.writer(), BTreeMap::new());
    let mut model: BTreeMap<(u32, u64), Vec<u8>> = BTreeMap::new();
    let steps = if SYSTEM.get().is_some() { 500 } else { 3000 };
    for _ in 0..steps {
        let (step, param) = (random(8) as u32, 150 + random(6));
        match random(20) {
            0..12 => {
                let data = vec![random(256) as u8; 1 + random(5000) as usize];
                writer.archive(&key(step, &param.to_string()), &data).unwrap();
                pending.insert((step, param), data);
            }
            12..15 => {
                writer.flush().unwrap();
                model.append(&mut pending);
            }
            15 => {
                (writer, pending) = (store.writer(), BTreeMap::new());
            }
            16 => {
                let database = "class=od,expver=1,stream=oper,date=20240610,time=0";
                let part = select(&store, &format!("{database},step={step}"));
                let wiped = store.wipe(&part, true, |_| Ok(())).unwrap();
                let before = model.len();
                model.retain(|(known, _), _| *known != step);
                assert_eq!(wiped.fields as usize, before - model.len());
            }
            17 => drop(store.purge(&everything, true, |_| Ok(())).unwrap()),
            _ => {
                let found = store.field(&key(step, &param.to_string()));
                let found = found.ok().map(|field| field.read().unwrap());
                assert_eq!(found.as_ref(), model.get(&(step, param)));
            }
        }
        assert_eq!(list(&store), model.len());
    }
}

#[test]
fn field_store_works_on_ceph() {
    run_all_tests_on(RADOS, "names no Ceph pool (make ceph-up prints one)");
}

#[test]
fn field_store_works_on_daos() {
    run_all_tests_on(DAOS, "names no DAOS pool (scripts/daos.sh)");
}

/// Runs the tests on the pool that an environment variable names. Without it, skips them; `none` says why.
fn run_all_tests_on(variable: &'static str, none: &str) {
    if std::env::var_os(variable).is_none() {
        return esker_testing::skip(format!("{variable} {none}"));
    }
    SYSTEM.set(Some(variable));
    run_all_tests();
}

#[test]
fn field_store_works_on_posix() {
    let path = std::env::temp_dir().join(format!("esker-fields-files-{}", std::process::id()));
    esker::PosixPool::create(&path, false).unwrap();
    FILES.set(Some(format!("posix:{}", path.display())));
    run_all_tests();
    std::fs::remove_dir_all(path).unwrap();
}

/// Runs the tests in this thread, on the pool that its variables name.
fn run_all_tests() {
    flush_makes_all_fields_visible_atomically();
    unflushed_fields_never_appear_and_are_purged();
    schema_too_long_to_be_stored_is_refused_before_anything_is_stored();
    fields_come_in_the_order_of_the_request();
    retrieve_names_missing_fields();
    a_step_also_selects_the_range_up_to_it();
    archiving_again_masks_and_purging_removes();
    a_wipe_needs_the_whole_database_and_doit();
    reading_a_wiped_field_fails_with_its_cause();
    bad_input_is_refused_before_anything_is_stored();
    adopted_fields_are_read_from_their_file();
    reads_of_parts_and_past_the_end_of_a_field();
    axes_and_listings_have_the_selected_fields_only();
    watch_yields_flushed_fields();
    stores_are_created_once_and_reopened();
    random_sequences_agree_with_a_map();
}
