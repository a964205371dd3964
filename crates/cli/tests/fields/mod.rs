//! Requests of the field store over nodes, counted at the engines: with a striped index, each engine serves its share.
use super::{Cluster, requests_of};
use esker::types::info::OpenMode;
use esker_fields::request::Request;
use esker_fields::{Date, FieldStore, Key, NewFields, Schema, Selection};

const NODES: u32 = 4;
const WRITERS: u32 = 5;
const STEPS: u32 = 25;
const PARAMS: [u32; 4] = [129, 130, 131, 132];
/// Fields of all writers.
const FIELDS: usize = (WRITERS * STEPS) as usize * PARAMS.len();
/// Largest share of the requests that one of four engines may get.
const SHARE_MAX: f64 = 0.4;

fn key(writer: u32, step: u32, param: u32) -> Key {
    let text = format!(
        "class=od,expver=0001,stream=oper,date=20240610,time=0000,type=fc,levtype=pl,step={step},\
         levelist={},param={param}",
        1 + writer
    );
    Key::parse(&text).unwrap()
}

/// Requests of one operation: those of each engine.
#[derive(Debug)]
struct Counted {
    name: &'static str,
    of_engines: Vec<u64>,
}

impl Counted {
    fn total(&self) -> u64 {
        self.of_engines.iter().sum()
    }

    /// Share of the engine with the most requests.
    fn largest_share(&self) -> f64 {
        let most = self.of_engines.iter().max().copied().unwrap_or(0);
        most as f64 / self.total().max(1) as f64
    }
}

/// A store, and its requests so far.
struct Measured<'c> {
    cluster: &'c Cluster,
    label: String,
    counted: Vec<Counted>,
}

impl Measured<'_> {
    fn open(&self) -> FieldStore {
        let store = FieldStore::open(&self.cluster.pool(), &self.label, OpenMode::ReadWrite);
        let store = store.unwrap();
        // A process connects to all nodes.
        store.list(&Selection::everything(store.schema())).unwrap();
        store
    }

    fn of_engines(&self) -> Vec<u64> {
        self.cluster.engines.iter().map(requests_of).collect()
    }

    /// Adds the requests of `work` to `counted` under this name. Returns the result of `work`.
    fn count<T>(&mut self, name: &'static str, work: impl FnOnce() -> T) -> T {
        let before = self.of_engines();
        let mut done = None;
        self.cluster.count(&format!("{} {name}", self.label), || done = Some(work()));
        let after = self.of_engines().into_iter();
        let of_engines: Vec<u64> =
            after.zip(before).map(|(after, before)| after - before).collect();
        println!("{} {name}: {of_engines:?}", self.label);
        self.counted.push(Counted { name, of_engines });
        done.unwrap()
    }

    /// All writers archive at the same time, and flush after each `per_flush` steps.
    fn archive(&mut self, name: &'static str, per_flush: u32) {
        let stores: Vec<FieldStore> = (0..WRITERS).map(|_| self.open()).collect();
        self.count(name, || {
            std::thread::scope(|scope| {
                for (writer, store) in (0..).zip(&stores) {
                    scope.spawn(move || write(store, writer, per_flush));
                }
            });
        });
    }

    /// Counts the requests of each way to find and read the fields that were archived.
    fn read(&mut self) {
        let store = self.open();
        let request = format!(
            "class=od,expver=1,stream=oper,date=20240610,time=0,type=fc,levtype=pl,step=0/to/{}/by/1,\
             levelist=1/to/{WRITERS}/by/1,param=129/130/131/132",
            STEPS - 1
        );
        let today = Date::new(2024, 6, 15).unwrap();
        let selection = Request::parse(&request).unwrap().expand(store.schema(), today).unwrap();
        let fields = self.count("find", || store.retrieve(&selection).unwrap());
        assert_eq!(fields.len(), FIELDS);
        self.count("read", || {
            for field in &fields {
                assert_eq!(field.read().unwrap(), field.key().as_str().as_bytes());
            }
        });
        self.count("find one", || store.field(&key(1, 1, 130)).unwrap());
        let listed = self.count("list", || store.list(&selection).unwrap());
        assert_eq!(listed.len(), FIELDS);
        self.count("axes", || store.axes(&selection).unwrap());
    }
}

/// Archives all fields of one writer, and flushes after each `per_flush` steps.
fn write(store: &FieldStore, writer: u32, per_flush: u32) {
    let mut archiving = store.writer();
    for step in 0..STEPS {
        for param in PARAMS {
            let key = key(writer, step, param);
            let whole = store.schema().split(&key).unwrap().whole;
            archiving.archive(&key, whole.as_str().as_bytes()).unwrap();
        }
        if (step + 1) % per_flush == 0 {
            archiving.flush().unwrap();
        }
    }
    archiving.flush().unwrap();
}

/// Requests of each operation on a store whose indexes have these stripes.
fn measure(cluster: &Cluster, stripes: Option<u32>) -> Vec<Counted> {
    let label =
        stripes.map_or_else(|| "default".to_owned(), |stripes| format!("stripes-{stripes}"));
    let schema = Schema::default_mars().unwrap();
    let new = NewFields { stripes };
    let store = FieldStore::create_with(&cluster.pool(), &label, &schema, new).unwrap();
    assert_eq!(store.stripes(), stripes.unwrap_or(NODES));
    let mut measured = Measured { cluster, label, counted: Vec::new() };
    measured.archive("archive", 1);
    measured.read();
    measured.archive("archive again", 1);
    measured.archive("archive, one flush", STEPS);
    measured.read();
    measured.counted
}

/// With one stripe, all requests to the index go to one engine.
#[test]
fn requests_of_a_striped_index_are_shared_by_all_engines() {
    let cluster = Cluster::new(NODES);
    let (whole, striped) = (measure(&cluster, Some(1)), measure(&cluster, None));
    for (whole, striped) in std::iter::zip(&whole, &striped) {
        println!(
            "{}: {} requests, {:.0}% at one engine; striped: {}, {:.0}%",
            whole.name,
            whole.total(),
            100.0 * whole.largest_share(),
            striped.total(),
            100.0 * striped.largest_share(),
        );
        match striped.name {
            "find one" => assert_eq!(striped.total(), 1),
            "archive" | "read" => assert!(striped.total() <= whole.total() + 50, "{striped:?}"),
            // Five commits over four nodes.
            "archive, one flush" => assert!(striped.total() <= whole.total() + 200, "{striped:?}"),
            // Others are in the way less often than at one engine.
            "archive again" => assert!(striped.total() <= 2 * whole.total(), "{striped:?}"),
            // A few requests to each engine, whatever the number of fields.
            _ => assert!(striped.total() <= whole.total() + 10 * u64::from(NODES), "{striped:?}"),
        }
        let is_shared = striped.name != "find one";
        assert!(!is_shared || striped.largest_share() <= SHARE_MAX, "{striped:?}");
    }
    assert!(whole[0].largest_share() > SHARE_MAX, "{:?}", whole[0]);
}
