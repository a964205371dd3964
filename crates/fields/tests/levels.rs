//! Names on several levels of a schema: their fields are listed, found, kept by a purge and wiped like other fields.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

use esker_conformance::place::Place;
use esker_fields::request::{Request, Selection};
use esker_fields::{Date, FieldStore, Key, Schema};
use std::time::Duration;

/// A new store with a schema.
fn store(name: &str, schema: &Schema) -> FieldStore {
    let place = Place::new(name);
    FieldStore::create(&place.pool(), &place.label, schema).unwrap()
}

/// Archives fields whose bytes are their keys, and flushes them.
fn archive(store: &FieldStore, keys: &[String]) {
    let mut writer = store.writer();
    for key in keys {
        writer.archive(&Key::parse(key).unwrap(), key.as_bytes()).unwrap();
    }
    writer.flush().unwrap();
}

/// The fields that a request selects.
fn select(store: &FieldStore, request: &str) -> Selection {
    Request::parse(request)
        .unwrap()
        .expand(store.schema(), Date::new(2024, 6, 15).unwrap())
        .unwrap()
}

/// The keys that a listing of the request has.
fn listed(store: &FieldStore, request: &str) -> Vec<String> {
    let all = store.list(&select(store, request)).unwrap();
    all.iter().map(|listed| listed.key.to_string()).collect()
}

/// The bytes of the fields of a request, which are their keys.
fn read(store: &FieldStore, request: &str) -> Vec<String> {
    let fields = store.retrieve(&select(store, request)).unwrap();
    fields.iter().map(|field| String::from_utf8(field.read().unwrap()).unwrap()).collect()
}

/// Purges the whole store.
fn purge(store: &FieldStore) -> esker_fields::Purged {
    store.purge(&Selection::everything(store.schema()), true, |_| Ok(())).unwrap()
}

const RUN: &str = "class=d1,dataset=climate-dt,activity=scenariomip,experiment=ssp3-7.0,generation=2,\
    model=ifs-nemo,realization=1,expver=0001,stream=clte";

/// The key of a field of a climate run, whose schema has the date on three levels.
fn climate(date: &str) -> String {
    format!("{RUN},date={date},resolution=high,type=fc,levtype=sfc,time=0600,param=167")
}

const FORECAST: &str = "class=od,expver=0001,stream=oper,date=20300215,time=0000,domain=g,type=fc,\
    levtype=sfc,step=0,param=167";

#[test]
fn a_climate_run_and_a_forecast_share_the_default_store() {
    let store = store("climate", &Schema::default_mars().unwrap());
    let days = ["20300215", "20300216", "20300315", "20310215"].map(climate);
    archive(&store, &days);
    archive(&store, &[FORECAST.to_owned()]);
    let everything = Selection::everything(store.schema());
    let all = [&days[..], &[FORECAST.to_owned()]].concat();
    let mut found = listed(&store, "list,class=all");
    found.sort_by_key(|key| all.iter().position(|one| one == key));
    assert_eq!(found, all);
    let axes = store.axes(&everything).unwrap();
    let dates: Vec<_> = axes.values("date").collect();
    assert_eq!(dates, ["20300215", "20300216", "20300315", "20310215"]);
    let stats = store.stats(&everything).unwrap();
    assert_eq!((stats.databases, stats.indexes, stats.fields), (3, 4, 5));
    assert_eq!(store.by_database(&everything).unwrap().len(), 3);
    assert_eq!(read(&store, "class=d1,date=20310215/20300216"), [&days[3][..], &days[1]]);
    assert_eq!(read(&store, "date=20300215").len(), 2);
    let whole = format!("{RUN},resolution=high,type=fc,levtype=sfc,time=6,param=167");
    assert_eq!(read(&store, &format!("{whole},date=20300215/to/20300216")), days[..2]);
    let mut watch = store.watch(&everything, true).unwrap();
    let told = std::iter::from_fn(|| watch.next(Duration::ZERO).unwrap()).count();
    assert_eq!(told, 5);
    assert_eq!(purge(&store), Default::default());
    assert_eq!(listed(&store, "list,class=all").len(), 5);
    let refused = store.wipe(&select(&store, RUN), true, |_| Ok(())).unwrap_err();
    assert!(refused.to_string().contains("date=2030"), "{refused}");
    let day = select(&store, &format!("{RUN},date=20300216"));
    assert_eq!(store.wipe(&day, true, |_| Ok(())).unwrap().fields, 1);
    let all = select(&store, &format!("{RUN},date=20300101/to/20311231"));
    assert_eq!(store.wipe(&all, true, |_| Ok(())).unwrap().fields, 3);
    assert_eq!(listed(&store, "list,class=all"), [FORECAST]);
}

#[test]
fn purge_keeps_fields_with_names_on_several_levels() {
    let schema = "date: Date; [ run, date: Year [ type, date: Month [ date: Date, step ]]]";
    let store = store("purged", &Schema::parse(schema, "test").unwrap());
    let keys = ["20200131", "20200201", "20210131"];
    let keys = keys.map(|date| format!("run=a,date={date},type=fc,step=0"));
    archive(&store, &keys);
    archive(&store, &keys[..1]);
    let mut lost = store.writer();
    lost.archive(&Key::parse(&keys[1]).unwrap(), b"lost").unwrap();
    drop(lost);
    let purged = purge(&store);
    assert_eq!((purged.masked, purged.unflushed), (1, 1));
    assert_eq!(purge(&store), Default::default());
    assert_eq!(read(&store, "date=20200131/20200201/20210131"), keys);
    assert_eq!(listed(&store, "list,date=20210131"), keys[2..]);
}

/// FDB refuses the field instead.
#[test]
fn schema_under_which_years_mask_each_other_is_refused() {
    let refused = Schema::parse("[ run [ type [ date: Month, step ]]]", "test").unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("date: Month") && text.contains("write date: Date"), "{text}");
}
