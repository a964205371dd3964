//! Names that a request omits are free, also those that only some fields have.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

use esker_conformance::place::Place;
use esker_fields::request::{Request, Selection};
use esker_fields::{Date, FieldStore, Key, Schema};
use esker_types::ErrorKind;
use esker_types::info::OpenMode;

/// A new store with the default schema, and its place.
fn store() -> (Place, FieldStore) {
    let place = Place::new("omitted");
    let schema = Schema::default_mars().unwrap();
    let store = FieldStore::create(&place.pool(), &place.label, &schema).unwrap();
    (place, store)
}

/// The fields that a request selects.
fn select(store: &FieldStore, request: &str) -> Selection {
    let today = Date::new(2024, 6, 15).unwrap();
    Request::parse(request).unwrap().expand(store.schema(), today).unwrap()
}

#[test]
fn names_that_are_not_stored_select_nothing() {
    let place = Place::new("unkept");
    let schema = "[class, date: Date [type, model- [step: Step, note: Ignore]]]";
    let schema = Schema::parse(schema, "test").unwrap();
    let store = FieldStore::create(&place.pool(), &place.label, &schema).unwrap();
    let (rest, mut writer) = ("class=od,date=20240610,type=fc,step=0", store.writer());
    let key = Key::parse(&format!("{rest},model=x,note=any")).unwrap();
    writer.archive(&key, b"x").unwrap();
    let without = Key::parse(&format!("{rest},model=x")).unwrap();
    assert_eq!(writer.archive(&without, b"y").unwrap_err().kind(), ErrorKind::Invalid);
    writer.flush().unwrap();
    for request in [key.as_str(), rest, "class=od,note=other", "model=y,note=all"] {
        let selection = select(&store, request);
        assert_eq!(store.retrieve(&selection).unwrap().len(), 1, "{request}");
        assert_eq!(store.list(&selection).unwrap().len(), 1, "{request}");
    }
    let field = store.field(&key).unwrap();
    assert_eq!(store.field(field.key()).unwrap().read().unwrap(), b"x");
}

/// They would remove fields that were archived with other values.
#[test]
fn removals_refuse_names_that_are_not_stored() {
    let place = Place::new("unkept-removal");
    let schema = Schema::parse("[class [type [step: Step, model-]]]", "test").unwrap();
    let store = FieldStore::create(&place.pool(), &place.label, &schema).unwrap();
    let mut writer = store.writer();
    writer.archive(&Key::parse("class=od,type=fc,step=0,model=x").unwrap(), b"x").unwrap();
    writer.flush().unwrap();
    let other = select(&store, "class=od,model=y");
    for refused in [
        store.wipe(&other, true, |_| Ok(())).map(drop),
        store.purge(&other, true, |_| Ok(())).map(drop),
        store.check_wipe(&other),
        store.check_move(&other),
    ] {
        let error = refused.unwrap_err();
        assert!(error.message().contains("leave model out"), "{error}");
    }
    assert_eq!(store.list(&other).unwrap().len(), 1);
    assert_eq!(store.wipe(&select(&store, "class=od"), true, |_| Ok(())).unwrap().fields, 1);
}

/// The rules keep the same names, on different levels.
#[test]
fn key_whose_complete_key_fits_another_rule_is_refused() {
    let place = Place::new("unkept-rules");
    let schema =
        "[class [type [step: Step, note: Ignore]]] [class [step: Step [type, mark: Ignore]]]";
    let schema = Schema::parse(schema, "test").unwrap();
    let store = FieldStore::create(&place.pool(), &place.label, &schema).unwrap();
    let (rest, mut writer) = ("class=od,type=fc,step=0", store.writer());
    let marked = Key::parse(&format!("{rest},mark=1")).unwrap();
    let refused = writer.archive(&marked, b"marked").unwrap_err();
    assert!(refused.message().contains("another field"), "{refused}");
    writer.archive(&Key::parse(&format!("{rest},note=1")).unwrap(), b"noted").unwrap();
    writer.flush().unwrap();
    let listed = store.list(&Selection::everything(store.schema())).unwrap();
    assert_eq!(store.field(&listed[0].key).unwrap().read().unwrap(), b"noted");
}

#[test]
fn with_expect_any_fields_may_be_missing() {
    let (_, store) = store();
    let key =
        "class=od,expver=0001,stream=oper,date=20240610,time=0000,type=fc,levtype=sfc,param=167";
    let mut writer = store.writer();
    writer.archive(&Key::parse(&format!("{key},step=0")).unwrap(), b"x").unwrap();
    writer.flush().unwrap();
    let count = |request: &str| store.retrieve(&select(&store, request)).map(|all| all.len()).ok();
    for (request, all) in
        [(format!("{key},step=0/6"), 1), ("step=0/6".into(), 1), ("step=6".into(), 0)]
    {
        assert_eq!(count(&format!("{request},expect=any")), Some(all), "{request}");
        assert_eq!(count(&format!("{request},expect=ANY")), Some(all), "{request}");
    }
    assert_eq!(count(&format!("{key},step=0/6")), None);
    assert_eq!(count(&format!("{key},step=0/6,expect=2")), None);
}

/// A request with more names does not lose fields; with exactly the key of a field, it finds that field.
#[test]
fn omitted_optional_name_matches_any_value() {
    let (place, store) = store();
    let base = "class=od,expver=0001,stream=enfo,date=20240610,time=0000";
    let field = |rest: &str| Key::parse(&format!("{base},{rest}")).unwrap();
    let pl = "type=pf,levtype=pl,step=0,param=130";
    let mut keys = vec![field("type=pf,levtype=sfc,step=0,param=167")];
    for member in 1..=3 {
        for level in [500, 850] {
            keys.push(field(&format!("{pl},number={member},levelist={level}")));
        }
    }
    keys.push(field("type=pf,levtype=sfc,step=6,param=167,model=x"));
    keys.push(field("type=pf,levtype=sfc,step=0,param=167,origin=kwbc"));
    keys.push(field("type=pf,levtype=sfc,step=0,param=168,domain=e"));
    let mut writer = store.writer();
    keys.iter().for_each(|key| writer.archive(key, b"x").unwrap());
    writer.flush().unwrap();
    let count = |request: &str| {
        let selection = select(&store, &format!("{base},{request}"));
        let retrieved = store.retrieve(&selection).unwrap().len();
        assert!(retrieved <= store.list(&selection).unwrap().len(), "{request}");
        retrieved
    };
    assert_eq!(count(pl), 6);
    assert_eq!(count(&format!("{pl},levelist=500")), 3);
    assert_eq!(count(&format!("{pl},levelist=500,number=2")), 1);
    assert_eq!(count("type=pf,levtype=sfc,step=0,param=167"), 1, "the one without an origin");
    assert_eq!(count("type=pf,levtype=sfc,step=0,param=167,origin=all"), 2, "both");
    assert_eq!(count("type=pf,levtype=sfc,step=6,param=167"), 1, "of a model");
    assert_eq!(count("type=pf,levtype=sfc,step=0,param=168"), 1, "of another domain");
    let part =
        format!("{base},{pl},levelist=500/850/1000,number=1/7").replace("step=0", "step=0/6");
    let found = store.find(&select(&store, &part.replace(",number=1/7", ""))).unwrap();
    assert_eq!((found.fields.len(), found.missing_count), (6, 4));
    assert_eq!(found.missing[0].get("levelist"), Some("1000"), "{:?}", found.missing);
    let found = store.find(&select(&store, &part)).unwrap();
    assert_eq!((found.fields.len(), found.missing_count), (2, 10));
    // Fields that another writer flushes later count as well, with a name that no field had.
    let later = FieldStore::open(&place.pool(), &place.label, OpenMode::ReadWrite).unwrap();
    let mut writer = later.writer();
    writer.archive(&field(&format!("{pl},number=1,levelist=500,quantile=1")), b"x").unwrap();
    writer.flush().unwrap();
    assert_eq!(count(&format!("{pl},levelist=500,number=1")), 1);
    assert_eq!(count(&format!("{pl},levelist=500,number=1,quantile=all")), 2);
    assert_eq!(count(&format!("{pl},levelist=850,number=1")), 1);
}

/// Fields of two levels, at two steps, one of which is a range.
fn two_levels(store: &FieldStore) {
    let base = "class=od,expver=0001,stream=oper,date=20240610,time=0000,type=fc,levtype=pl";
    let mut writer = store.writer();
    for rest in ["step=0,levelist=1000", "step=0,levelist=500", "step=0-24,levelist=500"] {
        let key = Key::parse(&format!("{base},{rest},param=130")).unwrap();
        writer.archive(&key, b"x").unwrap();
    }
    writer.flush().unwrap();
}

#[test]
fn empty_store_is_named_as_the_reason() {
    let (_place, store) = store();
    let error = store.retrieve(&select(&store, "class=od")).err().unwrap();
    let wanted = "the store has no fields: `esker fields archive` adds those of files";
    assert_eq!((error.kind(), error.message()), (ErrorKind::NotFound, wanted));
}

#[test]
fn unknown_name_error_names_the_container_once() {
    let (place, _) = store();
    let opened = FieldStore::open(&place.pool(), &place.label, OpenMode::ReadOnly).unwrap();
    let today = Date::new(2024, 6, 15).unwrap();
    let error = Request::parse("clas=od").unwrap().expand(opened.schema(), today).err().unwrap();
    let begin = format!("the schema of container {} has no name clas", place.label);
    assert!(error.message().starts_with(&begin), "{error}");
}

/// This holds also if the request omits names, so that its combinations are unknown.
#[test]
fn each_listed_value_is_found_or_named_as_missing() {
    let (_, store) = store();
    two_levels(&store);
    let retrieve = |request: &str| store.retrieve(&select(&store, request));
    for (request, lacking) in [
        ("class=od,levelist=1000/333,param=130", "levelist=333"),
        ("class=od/rd,levelist=500", "class=rd"),
        ("levelist=500/400/to/300/by/100,step=0", "levelist=400, levelist=300"),
        ("date=20240610/20240611,number=all", "date=20240611"),
        ("param=130/t/u", "param=131"),
        ("step=0/6/24", "step=6"),
        ("levelist=1/to/20", "levelist=1/2/3"),
        ("levelist=500/1/to/20", "levelist=10, ..."),
    ] {
        let error = retrieve(request).err().unwrap_or_else(|| panic!("{request}"));
        assert_eq!(error.kind(), ErrorKind::NotFound, "{request}");
        assert!(error.to_string().contains(lacking), "{request}: {error}");
        assert!(retrieve(&format!("{request},expect=any")).is_ok(), "{request}");
        let found = store.find(&select(&store, request)).unwrap();
        assert!(found.missing_count > 0 && !found.missing.is_empty(), "{request}");
        let refused = store.expect_each_value(&select(&store, request)).unwrap_err();
        assert_eq!(refused, error, "{request}");
        store.expect_each_value(&select(&store, &format!("{request},expect=any"))).unwrap();
    }
    for (request, count) in [("step=0/24", 3), ("levelist=500.0/1000", 3), ("step=24,param=t", 1)] {
        assert_eq!(retrieve(request).unwrap().len(), count, "{request}");
        store.expect_each_value(&select(&store, request)).unwrap();
    }
    // The request has all names: combinations may be missing.
    let whole =
        "class=od,expver=0001,stream=oper,date=20240610,time=0000,type=fc,levtype=pl,param=130";
    store
        .expect_each_value(&select(&store, &format!("{whole},step=0/24,levelist=500/1000")))
        .unwrap();
    let steps = format!("{whole},step=0/6/24,levelist=500/1000");
    let refused = store.expect_each_value(&select(&store, &steps)).unwrap_err();
    assert!(refused.to_string().contains("step=6:"), "{refused}");
}

/// A schema by which the same name is a date in one database and a month in another.
#[test]
fn a_listed_value_matches_each_form_that_the_schema_gives_it() {
    let place = Place::new("forms");
    let text = "[ run=a, date: Date [ type [ step, param ]]] [ run=b, date: YearMonth [ type [ step, param ]]]";
    let schema = Schema::parse(text, "test").unwrap();
    let store = FieldStore::create(&place.pool(), &place.label, &schema).unwrap();
    let mut writer = store.writer();
    for run in ["a", "b"] {
        let key = format!("run={run},date=20240610,type=fc,step=0,param=1");
        writer.archive(&Key::parse(&key).unwrap(), b"x").unwrap();
    }
    writer.flush().unwrap();
    let retrieve = |request: &str| store.retrieve(&select(&store, request)).map(|all| all.len());
    assert_eq!(retrieve("run=b,date=20240610/20240611").unwrap(), 1);
    assert_eq!(retrieve("date=20240610").unwrap(), 2);
    let error = retrieve("run=b,date=20240610/20240701").unwrap_err();
    assert!(error.to_string().contains("date=20240701"), "{error}");
}

const HOURLY: &str =
    "class=od,expver=0001,stream=oper,date=20230510,time=1800,domain=g,type=fc,levtype=sfc";

/// The same parameter without a time span and with one, for step 5, and only with one for step 6.
fn means_and_instants(store: &FieldStore) {
    let mut writer = store.writer();
    for rest in [
        "step=5,param=260033",
        "step=5,param=260033,timespan=none",
        "step=6,param=260033,timespan=none",
    ] {
        let key = Key::parse(&format!("{HOURLY},{rest}")).unwrap();
        writer.archive(&key, rest.as_bytes()).unwrap();
    }
    writer.flush().unwrap();
}

#[test]
fn fields_without_a_name_can_be_asked_for() {
    let (_, store) = store();
    means_and_instants(&store);
    let shown = |key: &Key| match (key.get("timespan"), key.get("step")) {
        (None, Some(step)) => format!("mean{step}"),
        (_, step) => format!("instant{}", step.unwrap()),
    };
    let read = |request: &str| {
        let found = store.retrieve(&select(&store, request)).map_err(|error| error.to_string())?;
        Ok::<_, String>(found.iter().map(|field| shown(field.key())).collect::<Vec<_>>().join(" "))
    };
    for (rest, right) in [
        // Exactly the key of a field, and the word for a name that is not set.
        (format!("{HOURLY},step=5,param=260033"), "mean5"),
        (format!("{HOURLY},step=5,param=260033,timespan=off"), "mean5"),
        (format!("{HOURLY},step=5,param=260033,timespan=OFF"), "mean5"),
        (format!("{HOURLY},step=5,param=260033,timespan=none"), "instant5"),
        (format!("{HOURLY},step=5,param=260033,timespan=all"), "mean5 instant5"),
        (format!("{HOURLY},step=5,param=260033,timespan=off/none"), "mean5 instant5"),
        (format!("{HOURLY},step=5,param=260033,timespan=none/off"), "instant5 mean5"),
        (format!("{HOURLY},step=6/5,param=260033"), "instant6 mean5"),
        // Requests that omit names that the schema requires.
        ("param=260033,timespan=off".into(), "mean5"),
        ("param=260033,timespan=off/none,step=5".into(), "mean5 instant5"),
        ("timespan=off,levelist=off,number=off".into(), "mean5"),
        ("param=260033".into(), "mean5 instant5 instant6"),
    ] {
        assert_eq!(read(&rest).as_deref(), Ok(right), "{rest}");
    }
    let missing = read(&format!("{HOURLY},step=6,param=260033,timespan=off")).unwrap_err();
    assert!(missing.contains("1 of 1") && !missing.contains("timespan"), "{missing}");
    let missing = read("step=6,timespan=off").unwrap_err();
    assert!(missing.contains("no field matches"), "{missing}");
    let missing = read("timespan=off/none,levelist=off/500").unwrap_err();
    assert!(missing.contains("levelist=500"), "{missing}");
    // The schema requires a class, so that the word is a value like others.
    assert!(read("class=off").unwrap_err().contains("class=off"));
}

#[test]
fn fields_without_a_name_are_listed_and_wiped_alone() {
    let (_, store) = store();
    means_and_instants(&store);
    let without = select(&store, &format!("{HOURLY},timespan=off"));
    assert_eq!(store.list(&without).unwrap().len(), 1);
    assert_eq!(store.axes(&without).unwrap().values("timespan").count(), 0);
    assert_eq!(store.wipe(&without, true, |_| Ok(())).unwrap().fields, 1);
    let left = store.list(&Selection::everything(store.schema())).unwrap();
    assert!(left.len() == 2 && left.iter().all(|listed| listed.key.get("timespan").is_some()));
}

/// No request for the value would find it.
#[test]
fn the_word_for_an_absent_name_is_refused_as_its_value() {
    let (_, store) = store();
    let key = Key::parse(&format!("{HOURLY},step=5,param=260033,timespan=Off")).unwrap();
    let refused = store.writer().archive(&key, b"x").unwrap_err();
    assert!(refused.to_string().contains("leave timespan out of the key"), "{refused}");
}
